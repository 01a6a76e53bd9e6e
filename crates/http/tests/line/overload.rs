//! At the memory line, heads that are never finished, and answers and messages that nobody takes, make room for whole
//! requests: each of those is answered, and the line holds.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};

use plimsoll_http::{Config, Error, Message, Request, Response, Server, Shed, StatusCode, WebSocketConfig};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, Runtime, Spawner, memory, now, sleep, spawn};

use crate::rig::frames::{PREFACE, SETTINGS, frame, get, window_update};
use crate::rig::threads::{TEST_TIMEOUT, connect, serve_until, under_line};
use crate::rig::websocket::HANDSHAKE;

/// Together they are more than the line.
const HALF_HEADS: usize = 3_000;
const HALF_HEAD_BYTES: usize = 1_000;
const LINE: MemoryLimit = MemoryLimit::mib(3);
/// So often a whole request is made meanwhile.
const ASK_EVERY: usize = 50;

/// A whole request on a connection of its own, and its answer.
fn ask(address: SocketAddr) -> String {
    let mut stream = connect(address);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    answer
}

/// How many half heads were told to come again.
fn flood(address: SocketAddr) -> usize {
    let half = [&b"GET / HTTP/1.1\r\nHost: h\r\nX-Filler: "[..], &[b'f'; HALF_HEAD_BYTES]].concat();
    let mut held = Vec::new();
    for at in 0..HALF_HEADS {
        let mut stream = connect(address);
        stream.write_all(&half).expect("it is sent");
        held.push(stream);
        if at % ASK_EVERY == 0 {
            let answer = ask(address);
            assert!(answer.starts_with("HTTP/1.1 200 "), "after {at} half heads: {answer}");
        }
    }
    let mut told = 0;
    for mut stream in held {
        stream.set_nonblocking(true).expect("a mode");
        let mut answer = [0; 256];
        if let Ok(len @ 1..) = stream.read(&mut answer) {
            let answer = String::from_utf8_lossy(&answer[..len]);
            if answer.starts_with("HTTP/1.1 408 ") {
                // On a slow machine its time was over before it was anybody's turn.
                continue;
            }
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: "), "{answer}");
            told += 1;
        }
    }
    told
}

#[test]
fn half_heads_make_room_for_whole_requests() {
    under_line("half heads", LINE, async |_runtime| {
        // How long a whole request waits for room is not what is judged.
        let server =
            Server::bind("127.0.0.1:0")?.config(Config { admission_timeout: TEST_TIMEOUT, ..Config::default() });
        let address = server.local_addr();
        let told = serve_until(server.serve(|_| async { Response::text("whole") }), move || flood(address)).await?;
        assert!(told > 0, "the line was not reached: nobody was let go of");
        Ok(())
    });
}

/// Clients that ask for much and take nothing, at most: memory is short long before.
const STALLED_MAX: usize = 1_000;
/// What waits for each of them; small, so that they fill the line in small steps.
const OUTPUT_BYTES: usize = 4 * 1024;
/// An answer takes no longer, however many others wait.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);

/// Small pieces without end, which are gathered in the pool.
async fn stream(mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/endless" => {}
        "/socket" => {
            return request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
                while socket.send(Message::binary(vec![b'x'; 1_000])).await.is_ok() {}
            });
        }
        _ => return Ok(Response::text("whole")),
    }
    let mut out = request.respond(Response::new(StatusCode::OK), None)?;
    loop {
        out.write_bytes(vec![b'x'; 1_000].into()).await?;
    }
}

#[test]
fn answers_that_nobody_takes_make_room_for_whole_requests() {
    make_room_for_whole_requests(b"GET /endless HTTP/1.1\r\nHost: h\r\n\r\n");
}

#[test]
fn answers_of_http2_that_nobody_takes_make_room_for_whole_requests() {
    // With windows that let all of it come.
    let window = frame(SETTINGS, 0, 0, &[0, 4, 0x7F, 0xFF, 0xFF, 0xFF]);
    let asks = [PREFACE, &window, &window_update(0, 0x7000_0000), &get(1, "/endless")].concat();
    make_room_for_whole_requests(&asks);
}

#[test]
fn messages_that_nobody_takes_make_room_for_whole_requests() {
    make_room_for_whole_requests(format!("{}\r\n", HANDSHAKE.replacen("GET /", "GET /socket", 1)).as_bytes());
}

/// Clients that ask for this and take nothing, until memory is short, and others then.
fn make_room_for_whole_requests(asks: &[u8]) {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().memory(LINE).simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let server = Server::bind("127.0.0.1:0").expect("a free port");
        let server = server.config(Config { output_bytes_max: OUTPUT_BYTES, ..Config::default() });
        let (address, counters) = (server.local_addr(), server.counters());
        let serving = spawn(server.serve(stream)).expect("there is room");
        let mut stalled = Vec::new();
        while memory::level() < memory::Level::Orange {
            assert!(stalled.len() < STALLED_MAX, "memory does not get short");
            let mut client = TcpStream::connect(address).await.expect("it is accepted");
            client.send_bytes(asks).await.expect("it is sent");
            stalled.push(client);
            sleep(Duration::from_millis(1)).await;
        }
        let mut answered = 0;
        for _ in 0..40 {
            let asked = now();
            let mut client = TcpStream::connect(address).await.expect("it is accepted");
            client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.expect("it is sent");
            let mut answer = Vec::new();
            while let Some(lease) = client.recv().await.expect("an answer") {
                answer.extend_from_slice(&lease);
            }
            let took = now().since(asked);
            assert!(took <= ANSWER_TIME_MAX, "answer {answered} took {took:?}");
            answered += usize::from(answer.starts_with(b"HTTP/1.1 200 "));
            sleep(Duration::from_millis(100)).await;
        }
        let totals = counters.totals();
        let let_go = totals.shed_total[Shed::Output as usize];
        assert!(let_go > 0, "nobody was let go of: {totals:?}");
        assert_eq!(answered, 40, "{totals:?}");
        assert!(memory::level() < memory::Level::Orange, "there is room again");
        drop(stalled);
        Spawner::current().stop();
        serving.await.expect("no panic").expect("the server ends");
    });
    assert!(simulation.budget().peak() <= LINE.as_bytes());
    let report = simulation.shutdown();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn connections_that_ask_for_nothing_make_room() {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().memory(LINE).simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let server = Server::bind("127.0.0.1:0").expect("a free port");
        let (address, counters) = (server.local_addr(), server.counters());
        let serving = spawn(server.serve(|_| async { Response::text("whole") })).expect("there is room");
        let ask = async |client: &mut TcpStream| {
            client.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await.expect("it is sent");
            client.recv().await.expect("it is answered").is_some_and(|answer| answer.starts_with(b"HTTP/1.1 200 "))
        };
        let mut idle = TcpStream::connect(address).await.expect("it is accepted");
        let mut busy = TcpStream::connect(address).await.expect("it is accepted");
        let mut fresh = TcpStream::connect(address).await.expect("it is accepted");
        assert!(ask(&mut idle).await && ask(&mut busy).await);
        sleep(Duration::from_millis(1_500)).await;
        assert!(ask(&mut busy).await);
        let held = crate::rig::memory::fill_to(memory::Level::Orange).await;
        assert!(ask(&mut busy).await, "who asks within a second keeps its connection");
        assert!(idle.recv().await.expect("no reset").is_none(), "it is ended");
        let told = fresh.recv().await.expect("no reset").expect("what it would have asked is not left without a word");
        assert!(told.starts_with(b"HTTP/1.1 503 "));
        assert_eq!(counters.totals().shed_total[Shed::Parked as usize], 2);
        drop((held, idle, busy, fresh));
        Spawner::current().stop();
        serving.await.expect("it does not panic").expect("it does not fail");
    });
    assert!(simulation.shutdown().is_clean());
}
