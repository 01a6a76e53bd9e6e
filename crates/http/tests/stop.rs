//! The stop of a server whose clients are at work: no request is lost, and no connection is reset. On io_uring (where
//! it works), on mio and in the simulation.

#![forbid(unsafe_code)]

mod rig;

use core::time::Duration;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use plimsoll_http::{Config, Error, Request, Response, Server, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, Result, Runtime, Spawner, sleep, spawn, timeout};

use rig::frames::{ACK, Client, DATA, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, SETTINGS, frame, get};
use rig::threads::{TEST_TIMEOUT, under_line};
use rig::{in_simulation, on_each, read, serve};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
/// Longer than any test takes: a connection that is parked at the stop waits for its next request.
const PATIENT: u32 = 3_600_000;

async fn path(req: Request) -> Response {
    Response::text(req.path().to_owned())
}

/// A gate that handlers wait at.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    async fn pass(&self) {
        while !self.0.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Asks once more on a connection, and reads to its end, which is in order.
async fn last_of(client: &mut TcpStream) -> Result<String> {
    client.send_bytes(GET).await?;
    read(client, None).await
}

/// It was answered, told that this was the last, and nothing came behind.
fn check_last(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n/a"), "{answer}");
    assert_eq!(answer.matches("\r\nConnection: close\r\n").count(), 1, "{answer}");
}

#[test]
fn who_is_parked_at_the_stop_has_its_next_request_answered() {
    on_each("parked at the stop", async || {
        let server = serve(Config { stop_idle_ms: PATIENT, ..Config::default() }, path)?;
        let mut clients = Vec::new();
        for at in 0..20 {
            let mut client = TcpStream::connect(server.address).await?;
            if at % 2 == 0 {
                client.send_bytes(GET).await?;
                let answer = read(&mut client, Some(b"/a")).await?;
                assert!(!answer.contains("Connection: "), "{answer}");
            }
            clients.push(client);
        }
        sleep(Duration::from_millis(5)).await;
        let stopped = spawn(server.stop())?;
        for mut client in clients {
            sleep(Duration::from_millis(1)).await;
            check_last(&last_of(&mut client).await?);
        }
        stopped.await.expect("no panic")
    });
}

#[test]
fn an_answer_in_progress_says_that_it_is_the_last() {
    on_each("answer at the stop", async || {
        let gate = Gate::default();
        let waits = gate.clone();
        let server = serve(Config::default(), move |req: Request| {
            let gate = waits.clone();
            async move {
                gate.pass().await;
                Response::text(req.path().to_owned())
            }
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(GET).await?;
        sleep(Duration::from_millis(5)).await;
        let stopped = spawn(server.stop())?;
        sleep(Duration::from_millis(5)).await;
        gate.open();
        check_last(&read(&mut client, None).await?);
        drop(client);
        stopped.await.expect("no panic")
    });
}

#[test]
fn behind_an_answer_that_had_begun_there_is_another() {
    on_each("streams at the stop", async || {
        let gate = Gate::default();
        let waits = gate.clone();
        let server = serve(Config { stop_idle_ms: PATIENT, ..Config::default() }, move |mut req: Request| {
            let gate = waits.clone();
            async move {
                if req.path() == "/a" {
                    return Ok::<_, Error>(Response::text("/a"));
                }
                let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                out.write_static(b"begun").await?;
                gate.pass().await;
                out.write_static(b" and done").await?;
                out.finish().await
            }
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(b"GET /stream HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let head = read(&mut client, Some(b"begun")).await?;
        assert!(!head.contains("Connection: "), "it may ask again: {head}");
        let stopped = spawn(server.stop())?;
        sleep(Duration::from_millis(5)).await;
        gate.open();
        let rest = read(&mut client, Some(b"\r\n0\r\n\r\n")).await?;
        assert!(rest.contains(" and done"), "{rest}");
        check_last(&last_of(&mut client).await?);
        drop(client);
        stopped.await.expect("no panic")
    });
}

#[test]
fn who_asks_nothing_is_ended_in_order() {
    on_each("idle at the stop", async || {
        let hour = Duration::from_secs(3_600);
        let config = Config { stop_idle_ms: 0, linger_timeout: hour, drain_timeout: hour, ..Config::default() };
        let server = serve(config, path)?;
        let mut clients = Vec::new();
        for _ in 0..20 {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(GET).await?;
            read(&mut client, Some(b"/a")).await?;
            clients.push(client);
        }
        let stopped = spawn(server.stop())?;
        for mut client in clients {
            assert_eq!(read(&mut client, None).await?, "", "an end of file, no reset");
            // What it sends all the same is taken: there is no reset behind the end either.
            for _ in 0..2 {
                client.send_bytes(GET).await?;
                sleep(Duration::from_millis(3)).await;
            }
        }
        stopped.await.expect("no panic")
    });
}

#[test]
fn a_stop_takes_no_longer_than_it_waits_and_lingers() {
    for stays in [false, true] {
        in_simulation("the time of a stop", async || {
            let server = serve(Config::default(), path)?;
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(GET).await?;
            read(&mut client, Some(b"/a")).await?;
            let begin = plimsoll_runtime::now();
            let stopped = spawn(server.stop())?;
            assert_eq!(read(&mut client, None).await?, "");
            let told_ms = (plimsoll_runtime::now() - begin).as_millis();
            assert!((1_000..1_600).contains(&told_ms), "{told_ms} ms until it was told");
            let client = Some(client).filter(|_| stays);
            stopped.await.expect("no panic")?;
            let took_ms = (plimsoll_runtime::now() - begin).as_millis();
            let took_max_ms = if stays { 4_000 } else { told_ms + 100 };
            assert!(took_ms <= took_max_ms, "{took_ms} ms, with a client that stays: {stays}");
            drop(client);
            Ok(())
        });
    }
}

/// What is on its way has the time of a send, not that of a connection that may ask once more.
#[test]
fn an_answer_that_is_not_taken_yet_is_not_cut_off_by_the_stop() {
    const BYTES: usize = 10_000;
    let world = World::new(SimConfig { socket_buffer_bytes: 2_048, ..SimConfig::new(5) });
    let simulation = Runtime::builder().simulate(&world).expect("a simulation starts");
    let run = simulation.block_on(async {
        let server = serve(Config::default(), async |_req: Request| Response::text("x".repeat(BYTES)))?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(GET).await?;
        sleep(Duration::from_millis(100)).await;
        assert_eq!(server.counters.totals().parked, 1, "its handler is over, and all is handed over");
        let stopped = spawn(server.stop())?;
        sleep(Duration::from_secs(4)).await;
        let answer = read(&mut client, None).await?;
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!(body.len(), BYTES);
        drop(client);
        stopped.await.expect("no panic")
    });
    run.expect("nothing fails");
}

#[test]
fn while_others_ask_there_is_time_to_ask() {
    in_simulation("slow clients at the stop", async || {
        let server = serve(Config::default(), path)?;
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(GET).await?;
            read(&mut client, Some(b"/a")).await?;
            clients.push(client);
        }
        let mut silent = clients.pop().expect("there are six");
        let begin = plimsoll_runtime::now();
        let stopped = spawn(server.stop())?;
        for mut client in clients {
            sleep(Duration::from_millis(700)).await;
            check_last(&last_of(&mut client).await?);
        }
        assert_eq!(read(&mut silent, None).await?, "", "in order");
        let told_ms = (plimsoll_runtime::now() - begin).as_millis();
        assert!((4_500..5_200).contains(&told_ms), "a second after the last that asked: {told_ms} ms");
        drop(silent);
        stopped.await.expect("no panic")
    });
}

#[test]
fn a_request_that_crosses_the_end_is_answered_or_not_read_but_nothing_is_reset() {
    let (mut answered, mut crossed) = (0, 0);
    // The server ends the connection a second after the stop, and what its coarse timer makes of that, with a client's
    // bytes on their way at any moment.
    for late in (960..1_700).step_by(5).map(Duration::from_millis) {
        let outcome = Arc::new(AtomicBool::new(false));
        let was_answered = Arc::clone(&outcome);
        in_simulation("crossing", async || {
            let server = serve(Config::default(), path)?;
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(GET).await?;
            read(&mut client, Some(b"/a")).await?;
            let stopped = spawn(server.stop())?;
            sleep(late).await;
            let answer = last_of(&mut client).await?;
            if !answer.is_empty() {
                check_last(&answer);
                was_answered.store(true, Ordering::Relaxed);
            }
            drop(client);
            stopped.await.expect("no panic")
        });
        let is_answered = outcome.load(Ordering::Relaxed);
        assert!(is_answered || late >= Duration::from_secs(1), "what came within the time is answered: {late:?}");
        (answered, crossed) = (answered + u32::from(is_answered), crossed + u32::from(!is_answered));
    }
    assert!(answered >= 8 && crossed > 0, "{answered} were answered, {crossed} came after the end");
}

#[test]
fn streams_below_the_last_of_goaway_are_answered() {
    on_each("streams of HTTP/2 at the stop", async || {
        let server = serve(Config::default(), |req: Request| async move {
            sleep(Duration::from_millis(2)).await;
            Response::text(req.path().to_owned())
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        let mut stream = 1;
        while stream < 20 {
            client.send(&get(stream, "/")).await?;
            stream += 2;
        }
        let stopped = spawn(server.stop())?;
        let (mut last, mut answered, mut heads) = (None, Vec::new(), 0);
        while let Some(frame_in) = timeout(Duration::from_secs(100), client.frame()).await?? {
            match frame_in.kind {
                GOAWAY => last = frame_in.payload.first_chunk().map(|id| u32::from_be_bytes(*id)),
                PING if frame_in.flags & ACK == 0 => {
                    // Those that it sends until it has heard of the stop, and one behind that.
                    client.send(&get(stream, "/")).await?;
                    client.send(&frame(PING, ACK, 0, &frame_in.payload)).await?;
                    let _may_be_gone = client.send(&get(stream + 2, "/")).await;
                    stream += 4;
                }
                HEADERS => {
                    assert!(frame_in.has_status(200), "{frame_in:?}");
                    heads += 1;
                }
                DATA if frame_in.flags & END_STREAM != 0 => answered.push(frame_in.stream),
                _ => {}
            }
        }
        let last = last.expect("it was told");
        assert!((21..stream).contains(&last), "the one before the answer to the ping is served: {last}");
        answered.sort_unstable();
        assert_eq!(answered, (1..=last).step_by(2).collect::<Vec<_>>());
        assert_eq!(heads, answered.len());
        drop(client);
        stopped.await.expect("no panic")
    });
}

#[test]
fn a_preface_that_comes_behind_the_stop_is_served_and_told() {
    on_each("preface at the stop", async || {
        let server = serve(Config { stop_idle_ms: PATIENT, ..Config::default() }, path)?;
        let socket = TcpStream::connect(server.address).await?;
        sleep(Duration::from_millis(5)).await;
        let stopped = spawn(server.stop())?;
        sleep(Duration::from_millis(5)).await;
        let mut client = Client { socket, bytes: Vec::new() };
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), &get(1, "/a")].concat();
        client.send(&hello).await?;
        assert_eq!(client.next_of(GOAWAY).await?.payload[..4], [0x7f, 0xff, 0xff, 0xff]);
        let ping = client.next_of(PING).await?;
        assert_eq!(client.body(1).await?, b"/a");
        client.send(&frame(PING, ACK, 0, &ping.payload)).await?;
        assert_eq!(client.next_of(GOAWAY).await?.payload[..4], [0, 0, 0, 1]);
        assert!(client.frame().await?.is_none(), "its end");
        drop(client);
        stopped.await.expect("no panic")
    });
}

#[test]
fn those_who_connect_as_the_listener_closes_are_served_or_not_connected() {
    in_simulation("connects at the stop", async || {
        let server = serve(Config::default(), path)?;
        // Somebody is there, so that the listener lives for a while.
        let mut parked = TcpStream::connect(server.address).await?;
        let address = server.address;
        let mut clients = Vec::new();
        for at in 0..400 {
            clients.push(spawn(async move {
                sleep(Duration::from_micros(10 * at)).await;
                // An attempt that finds a listener which takes none is tried again after a second, and finds nobody.
                let Ok(mut client) = TcpStream::connect(address).await else { return Ok(false) };
                client.send_bytes(GET).await?;
                check_last_or_not(&read(&mut client, Some(b"/a")).await?);
                Ok::<_, plimsoll_runtime::Error>(true)
            })?);
        }
        sleep(Duration::from_millis(2)).await;
        let stopped = spawn(server.stop())?;
        let (mut served, mut refused) = (0, 0);
        for client in clients {
            match client.await.expect("no panic")? {
                true => served += 1,
                false => refused += 1,
            }
        }
        assert!(served > 0 && refused > 0, "{served} served, {refused} not connected");
        assert_eq!(read(&mut parked, None).await?, "");
        drop(parked);
        stopped.await.expect("no panic")
    });
}

#[test]
fn who_connects_for_each_request_is_answered_or_refused() {
    const CLIENTS: usize = 32;
    const ANSWERS_BEFORE_THE_STOP: u32 = 500;
    under_line("connects of threads", MemoryLimit::mib(32), async |_runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let (address, stop) = (server.local_addr(), Spawner::current());
        let clients = move || {
            let answered = AtomicU32::new(0);
            let client = || {
                while let Ok(mut stream) = std::net::TcpStream::connect(address) {
                    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
                    stream.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it is sent");
                    let mut answer = String::new();
                    stream.read_to_string(&mut answer).expect("no reset");
                    check_last(&answer);
                    if answered.fetch_add(1, Ordering::Relaxed) == ANSWERS_BEFORE_THE_STOP {
                        stop.stop();
                    }
                }
            };
            thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
                clients.into_iter().for_each(|client| client.join().expect("every request is answered"));
            });
            answered.into_inner()
        };
        let clients = thread::spawn(clients);
        server.serve(path).await?;
        // The listener is closed by the turns of this thread.
        while !clients.is_finished() {
            sleep(Duration::from_millis(5)).await;
        }
        let answered = clients.join().expect("every request is answered");
        assert!(answered > ANSWERS_BEFORE_THE_STOP, "{answered} were answered");
        Ok(())
    });
}

fn check_last_or_not(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n/a"), "{answer}");
}

#[test]
fn the_stop_needs_no_second_signal_while_nobody_is_there() {
    on_each("nobody", async || {
        let server = serve(Config { stop_idle_ms: PATIENT, ..Config::default() }, path)?;
        Spawner::current().stop();
        server.stop().await
    });
}
