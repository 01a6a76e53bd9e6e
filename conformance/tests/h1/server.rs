//! The cases over the whole server: io_uring, epoll and the simulation; in one piece and in several.

use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;

use plimsoll_conformance::answers::{Answered, outcome, read};
use plimsoll_conformance::h1::{Answer, DRAIN_BYTES_MAX, Framed, Outcome, cases};
use plimsoll_http::{Config, Error, HalfClose, Http2, Request, Response, Server, StatusCode, Upgraded};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{DriverChoice, MemoryLimit, Report, Runtime, Spawner, sleep, spawn, timeout};

use super::codec::check_close;
use super::handler::{self, Plan};

/// What the server's handler is, see the documentation of the cases.
async fn answer(mut request: Request) -> Result<Response, Error> {
    let plan = Plan::of(&request.view());
    let mut seen = handler::describe(&request.view());
    if matches!(plan, Plan::Read | Plan::Hints | Plan::Bodiless(_) | Plan::Upgrade { .. }) {
        let body = request.collect().await?;
        seen.push_str(&handler::describe_body(&body));
        let trailers = request.trailers();
        seen.push_str(&handler::describe_trailers(trailers.iter().flat_map(|trailers| trailers.iter())));
    }
    match plan {
        Plan::Hints => {
            for interim in handler::INTERIMS {
                let status = StatusCode::from_u16(interim).expect("a status");
                request.inform(Response::new(status).header("link", "</seen.css>; rel=preload")).await?;
            }
        }
        Plan::Upgrade { .. } => return request.upgrade(handler::PROTOCOL, give_back),
        Plan::Tunnel => return request.tunnel(give_back),
        _ => {}
    }
    let status = StatusCode::from_u16(plan.status()).expect("a status");
    Ok(match plan.describes() {
        true => Response::text("seen\n").header("seen", seen),
        false => Response::new(status),
    })
}

/// What is spoken when HTTP is over: everything comes back.
async fn give_back(mut peer: Upgraded) {
    while let Ok(Some(bytes)) = peer.recv().await {
        if peer.send_all(bytes).await.is_err() {
            return;
        }
    }
}

/// How the client sends a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    Whole,
    /// Of so many bytes, with a pause between them.
    Of(usize),
}

/// A case that came out otherwise.
type Failures = Vec<String>;

/// What became of every case, in order.
pub(crate) fn in_simulation() -> Vec<Outcome> {
    let (outcomes, failures) = simulate(Pieces::Whole);
    assert!(failures.is_empty(), "{failures:#?}");
    outcomes
}

#[test]
fn in_the_simulation_every_case_is_the_same_in_pieces() {
    for pieces in [Pieces::Of(1), Pieces::Of(7)] {
        let (_, failures) = simulate(pieces);
        assert!(failures.is_empty(), "{pieces:?}: {failures:#?}");
    }
}

#[test]
fn over_io_uring_every_case_comes_out_as_it_should() {
    on(DriverChoice::Uring);
}

#[test]
fn over_epoll_every_case_comes_out_as_it_should() {
    on(DriverChoice::Mio);
}

fn on(driver: DriverChoice) {
    for pieces in [Pieces::Whole, Pieces::Of(11)] {
        let runtime = match Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(driver).build() {
            Ok(runtime) => runtime,
            Err(error) => {
                assert_eq!(driver, DriverChoice::Uring, "epoll is always there: {error}");
                println!("skipped: the cases over io_uring: {error}");
                return;
            }
        };
        let (_, failures) = runtime.block_on(run(pieces));
        census(&runtime.shutdown());
        assert!(failures.is_empty(), "{driver:?}, {pieces:?}: {failures:#?}");
    }
}

fn simulate(pieces: Pieces) -> (Vec<Outcome>, Failures) {
    let world = World::new(SimConfig::new(11));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(32)).simulate(&world).expect("a simulation starts");
    let results = runtime.block_on(run(pieces));
    census(&runtime.shutdown());
    assert!(world.descriptors().is_empty(), "descriptors are left: {:?}", world.descriptors());
    results
}

fn census(report: &Report) {
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.in_flight, 0);
}

/// Sends every case on a connection of its own, some at a time.
async fn run(pieces: Pieces) -> (Vec<Outcome>, Failures) {
    // The cases are those of a server that speaks HTTP/1.1 alone. Whether a handler has asked for the rest of a body
    // when the client closes its half is a matter of time, and so would be by default whether it is told or dropped.
    // None is about time: what is sent in pieces takes as long as it takes.
    let config = Config {
        http2: Http2::Off,
        half_close: HalfClose::Answered,
        head_timeout: WAIT_MAX,
        body_timeout: WAIT_MAX,
        drain_bytes_max: DRAIN_BYTES_MAX as u32,
        ..Config::default()
    };
    let server = Server::bind("127.0.0.1:0").expect("a free port").config(config);
    let address = server.local_addr();
    let serving = spawn(server.serve(answer)).expect("there is room");
    let cases = Rc::new(cases());
    let (mut outcomes, mut failures) = (Vec::new(), Vec::new());
    for first in (0..cases.len()).step_by(AT_A_TIME) {
        let indices = first..(first + AT_A_TIME).min(cases.len());
        let clients: Vec<_> = indices
            .map(|index| {
                let cases = Rc::clone(&cases);
                let client = async move { talk(address, &cases[index], pieces).await };
                (index, spawn(client).expect("there is room"))
            })
            .collect();
        for (index, client) in clients {
            let received = client.await.expect("a client does not panic");
            let (outcome, faults) = judge(&cases[index], received);
            outcomes.push(outcome);
            failures.extend(faults);
        }
    }
    Spawner::current().stop();
    serving.await.expect("the server does not panic").expect("the server does not fail");
    (outcomes, failures)
}

/// What a client received until the server ended the connection.
async fn talk(address: SocketAddr, framed: &Framed, pieces: Pieces) -> Result<Vec<u8>, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| format!("no connection: {error}"))?;
    let (mut read, mut write) = stream.into_split();
    let bytes = framed.bytes();
    let piece = match pieces {
        Pieces::Whole => bytes.len().max(1),
        // Long ones in so many pieces that they are still many.
        Pieces::Of(length) => length.max(bytes.len() / PIECES_MAX),
    };
    let half_closes = framed.case.then == plimsoll_conformance::h1::Then::HalfClose;
    let writer = spawn(async move {
        for piece in bytes.chunks(piece) {
            // What was refused may have been closed by now.
            if write.send_bytes(piece).await.is_err() {
                return;
            }
            if pieces != Pieces::Whole {
                sleep(Duration::from_micros(200)).await;
            }
        }
        if half_closes {
            let _closed_before = write.shutdown_write().await;
        }
        core::future::pending::<()>().await;
    })
    .expect("there is room");
    let mut received = Vec::new();
    let result = loop {
        match timeout(WAIT_MAX, read.recv()).await {
            Ok(Ok(Some(bytes))) => received.extend_from_slice(&bytes),
            Ok(Ok(None)) => break Ok(received),
            Ok(Err(error)) => break Err(format!("{error} after {}", received.escape_ascii())),
            Err(_) => break Err(format!("never ended; {}", received.escape_ascii())),
        }
    };
    writer.abort();
    result
}

/// What the received bytes come to, and what is wrong with them.
fn judge(framed: &Framed, received: Result<Vec<u8>, String>) -> (Outcome, Failures) {
    let rule = framed.case.rule;
    let expected = framed.expected();
    let finals: Vec<String> = expected.answers.iter().filter(|answer| !answer.starts_with('1')).cloned().collect();
    let is_head = |at: usize| {
        finals.get(at).is_some_and(|answer| answer.starts_with("200 HEAD ")) || is_head_bodiless(framed, at)
    };
    let answers = received.and_then(|bytes| read(&bytes, is_head));
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) => {
            return (Outcome { answers: vec![error.clone()], end: expected.end }, vec![format!("{rule}: {error}")]);
        }
    };
    let got = outcome(framed, &answers);
    let mut failures = Vec::new();
    if got != expected {
        failures.push(format!("{rule}: {got} and not {expected}"));
    }
    failures.extend(check_close(framed, &answers).err());
    let wrong = answers.iter().enumerate().filter_map(|(at, answer)| {
        let leaves_http = matches!(framed.case.answers.get(at), Some(Answer::Switches(..)));
        wrong_fields(answer, leaves_http).map(|what| format!("{rule}: {what}"))
    });
    failures.extend(wrong);
    (got, failures)
}

/// Whether a case is about HEAD and its answer about something else.
fn is_head_bodiless(framed: &Framed, at: usize) -> bool {
    at == 0 && framed.input.starts_with(b"HEAD ")
}

/// What an answer must not lack or have, whatever it answers (RFC 9110 6.6.1, 8.6, 9.3.6, 15.2).
fn wrong_fields(answer: &Answered, leaves_http: bool) -> Option<&'static str> {
    let has_body = !leaves_http && !matches!(answer.status, 100..=199 | 204 | 304);
    match answer {
        _ if answer.status >= 200 && !answer.has_date => Some("an answer without a date"),
        _ if has_body && !answer.has_framing => Some("an answer that ends with the connection"),
        _ if !has_body && answer.has_framing => Some("an answer without a body that has a length"),
        _ => None,
    }
}

/// Connections that are open at the same time.
const AT_A_TIME: usize = 32;
/// No case is sent in more pieces.
const PIECES_MAX: usize = 600;
/// Virtual on the simulation; never reached elsewhere, unless something is wrong.
const WAIT_MAX: Duration = Duration::from_secs(600);
