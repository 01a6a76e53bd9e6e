//! The processor is a line, too: handlers that keep it leave turns for timers, for other tasks and for other clients,
//! and of more requests than can be begun in time the newest are refused.

#![allow(clippy::print_stdout, reason = "a figure beside what is asserted")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use plimsoll_http::{Config, Counters, Request, Response, Server, Shed};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{MemoryLimit, now, sleep, spawn, yield_now};
use socket2::{Domain, Protocol, Socket, Type};

use crate::rig::frames::{ACK, Frame, HEADERS, PREFACE, SETTINGS, frame, get, is_ended};
use crate::rig::memory::fill_to;
use crate::rig::threads::{TEST_TIMEOUT, connect, serve_until, under_line, until};

const LINE: MemoryLimit = MemoryLimit::mib(16);
/// Longer than requests begin in a turn, and than the coarsest tick of a kernel.
const BLOCK: Duration = Duration::from_millis(21);

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn ask(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(request).expect("the kernel takes it");
    stream
}

/// One answer: its status, and its head with the body.
fn answer(stream: &mut TcpStream) -> (u16, String) {
    let mut bytes = Vec::new();
    let mut byte = [0; 1];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("an answer, and no reset");
        bytes.extend_from_slice(&byte);
    }
    let head = String::from_utf8(bytes).expect("heads are ASCII");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("its body");
    let status = head[9..12].parse().expect("a status");
    (status, head + &String::from_utf8(body).expect("text"))
}

/// A connection of another address than the others'.
fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).expect("an address of the loopback");
    socket.connect(&to.into()).expect("the listener's queue has room");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream
}

/// Asks on so many streams of one connection at once; the status of each, in order.
fn ask_streams(address: SocketAddr, streams: u32) -> Vec<u16> {
    let ids = (0..streams).map(|at| 2 * at + 1);
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    ids.clone().for_each(|id| bytes.extend(get(id, "/")));
    let mut socket = ask(address, &bytes);
    let (mut received, mut frames) = (Vec::new(), Vec::new());
    while !ids.clone().all(|id| is_ended(&frames, id)) {
        let mut part = [0; 4_096];
        let len = socket.read(&mut part).expect("answers, and no reset");
        assert!(len > 0, "closed after {frames:?}");
        received.extend_from_slice(&part[..len]);
        frames.extend(::core::iter::from_fn(|| Frame::take_from(&mut received)));
    }
    let status = |id: u32| {
        let head = frames.iter().find(|frame: &&Frame| frame.stream == id && frame.kind == HEADERS);
        let head = head.unwrap_or_else(|| panic!("stream {id} was answered: {frames:?}"));
        [200, 503].into_iter().find(|status| head.has_status(*status)).expect("a status that is due")
    };
    ids.map(status).collect()
}

fn shed(counters: &Counters) -> u64 {
    counters.totals().shed_total[Shed::Cpu as usize]
}

/// Each handler keeps the processor: no two of them begin in one turn of the worker, however many requests are there.
#[test]
fn one_handler_that_blocks_begins_in_a_turn() {
    const CLIENTS: usize = 6;
    under_line("handlers that block", LINE, async |_runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        // All have asked before the server looks.
        let clients: Vec<_> = (0..CLIENTS).map(|_| ask(address, GET)).collect();
        let begun = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&begun);
        // A task that is always ready has its turn between any two.
        let others = spawn(async move {
            let (mut last, mut most) = (0, 0);
            while last < CLIENTS {
                let count = seen.load(Ordering::Relaxed);
                (most, last) = (most.max(count - last), count);
                yield_now().await;
            }
            most
        })?;
        let serving = server.serve(move |_req: Request| {
            begun.fetch_add(1, Ordering::Relaxed);
            thread::sleep(BLOCK);
            async { Response::text(now().as_nanos().to_string()) }
        });
        let turns = serve_until(serving, move || {
            let turn_of = |mut stream: TcpStream| {
                let (status, text) = answer(&mut stream);
                assert_eq!(status, 200, "{text}");
                text.rsplit("\r\n").next().expect("a body").to_owned()
            };
            clients.into_iter().map(turn_of).collect::<Vec<_>>()
        })
        .await?;
        let mut different = turns.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), CLIENTS, "each in a turn of its own: {turns:?}");
        assert_eq!(others.await.expect("no panic"), 1, "others have their turn between two of them");
        Ok(())
    });
}

/// Streams of one connection come as fast as they like.
#[test]
fn one_stream_whose_handler_blocks_begins_in_a_turn() {
    const STREAMS: u32 = 5;
    under_line("streams that block", LINE, async |_runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let turns = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&turns);
        let serving = server.serve(move |_req: Request| {
            seen.lock().expect("nobody panics with it").push(now());
            thread::sleep(BLOCK);
            async { Response::text("ok") }
        });
        serve_until(serving, move || {
            let statuses = ask_streams(address, STREAMS);
            assert_eq!(statuses, vec![200; STREAMS as usize]);
        })
        .await?;
        let mut turns = turns.lock().expect("nobody panics with it").clone();
        let begun = turns.len();
        turns.dedup();
        assert_eq!((begun, turns.len()), (STREAMS as usize, STREAMS as usize), "each in a turn of its own");
        Ok(())
    });
}

/// More than can be begun in time, of one address: the newest are told so, on connections that live; a client of
/// another address is always served.
#[test]
fn of_too_many_the_newest_are_refused_and_another_address_is_served() {
    const CROWD: usize = 40;
    under_line("a crowd that keeps the processor", LINE, async |runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let (address, counters) = (server.local_addr(), server.counters());
        let serving = server.serve(move |req: Request| {
            if req.path() == "/" {
                thread::sleep(BLOCK);
            }
            async { Response::text("ok") }
        });
        let of_clients = counters.clone();
        let (served, refused) = serve_until(serving, move || {
            let over = AtomicBool::new(false);
            thread::scope(|scope| {
                let crowd: Vec<_> = (0..CROWD).map(|_| scope.spawn(|| insist(address, &over))).collect();
                let light = scope.spawn(|| {
                    // The crowd has been refused something.
                    until("somebody is refused", || shed(&of_clients) > 0);
                    let mut stream = connect_from(9, address);
                    let answers: Vec<u16> = (0..20)
                        .map(|_| {
                            stream.write_all(b"GET /light HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is sent");
                            answer(&mut stream).0
                        })
                        .collect();
                    answers
                });
                let light = light.join();
                over.store(true, Ordering::Relaxed);
                let counts = crowd.into_iter().map(|client| client.join().expect("no panic"));
                let counts = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
                assert_eq!(light.expect("no panic"), vec![200; 20]);
                counts
            })
        })
        .await?;
        println!("on {}: {served} served, {refused} refused", runtime.driver().kind);
        assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
        assert_eq!(shed(&counters), refused, "each is counted under its reason");
        Ok(())
    });
}

/// Asks again and again on one connection, also when it is refused; how often it was served and refused.
fn insist(address: SocketAddr, over: &AtomicBool) -> (u64, u64) {
    let mut stream = connect(address);
    let (mut served, mut refused) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        stream.write_all(GET).expect("it is sent");
        match answer(&mut stream) {
            (200, _) => served += 1,
            (503, head) => {
                assert!(head.contains("\r\nRetry-After: ") && !head.contains("Connection: close"), "{head}");
                refused += 1;
                thread::sleep(Duration::from_millis(20));
            }
            other => panic!("neither served nor refused: {other:?}"),
        }
    }
    (served, refused)
}

/// All of a crowd have asked before the server looks, then a client of another address: few of the crowd are begun
/// before it, in order. With the program's own memory held meanwhile, if it is to be short.
fn begun_before_the_last(name: &str, holds_memory: bool) {
    const CROWD: usize = 200;
    under_line(name, LINE, async |runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let (address, counters) = (server.local_addr(), server.counters());
        let crowd: Vec<_> =
            (0..CROWD).map(|at| ask(address, format!("GET /{at} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())).collect();
        let mut light = connect_from(9, address);
        light.write_all(b"GET /light HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is sent");
        let begun = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&begun);
        let serving = server.serve(move |req: Request| {
            let at = req.path()[1..].parse::<usize>().ok();
            seen.lock().expect("nobody panics with it").push(at);
            if at.is_some() {
                thread::sleep(BLOCK);
            }
            async { Response::text("ok") }
        });
        let held = if holds_memory { fill_to(Level::Yellow).await } else { Vec::new() };
        let statuses = serve_until(serving, move || {
            assert_eq!(answer(&mut light).0, 200, "the light client");
            let statuses = crowd.into_iter().map(|mut stream| answer(&mut stream).0);
            statuses.collect::<Vec<_>>()
        })
        .await?;
        drop(held);
        let begun = begun.lock().expect("nobody panics with it").clone();
        let before = begun.iter().position(Option::is_none).expect("the light client's was begun");
        println!("{name} on {}: {before} begun before it, of {}", runtime.driver().kind, begun.len());
        // The delay is long after five of them; two more are of the turns in which that is seen.
        assert!(before <= 8, "{before} of the crowd were begun before the one of another address");
        let order: Vec<usize> = begun.iter().copied().flatten().collect();
        let overtaken =
            order.iter().enumerate().map(|(at, one)| order[..at].iter().filter(|&before| before > one).count());
        assert!(overtaken.max() <= Some(3), "who waits longest is next: {order:?}");
        let refused = statuses.iter().filter(|&&status| status == 503).count();
        assert_eq!((refused as u64, order.len() + refused), (shed(&counters), CROWD), "each is served or refused");
        Ok(())
    });
}

/// More events than may wait for a turn do not keep a client behind them.
#[test]
fn who_comes_behind_a_crowd_is_seen_in_time() {
    begun_before_the_last("behind a crowd", false);
}

/// Nor do they when requests wait in their sockets.
#[test]
fn who_comes_behind_a_crowd_while_memory_is_short_is_seen_in_time() {
    begun_before_the_last("behind a crowd, memory short", true);
}

/// What handlers of the next tests see of each other.
#[derive(Default)]
struct Running {
    now: AtomicUsize,
    most: AtomicUsize,
    may_end: AtomicBool,
}

/// Runs until it may end.
async fn held(running: Arc<Running>) -> Response {
    let count = running.now.fetch_add(1, Ordering::Relaxed) + 1;
    running.most.fetch_max(count, Ordering::Relaxed);
    while !running.may_end.load(Ordering::Acquire) {
        sleep(Duration::from_millis(2)).await;
    }
    running.now.fetch_sub(1, Ordering::Relaxed);
    Response::text("held")
}

/// A server whose handlers are held, of which so many may run; what `clients` return, and how many requests were
/// refused for that.
fn with_handlers_max<T: Send + 'static>(
    name: &str,
    config: &Config,
    clients: impl FnOnce(SocketAddr, Arc<Running>) -> T + Clone + Send + 'static,
    check: impl Fn(T, u64),
) {
    under_line(name, LINE, async |_runtime| {
        let server = Server::bind("127.0.0.1:0")?.config(config.clone());
        let (address, counters) = (server.local_addr(), server.counters());
        let running = Arc::new(Running::default());
        let (of_server, of_clients, clients) = (Arc::clone(&running), Arc::clone(&running), clients.clone());
        let serving = server.serve(move |_req: Request| held(Arc::clone(&of_server)));
        let result = serve_until(serving, move || clients(address, of_clients)).await?;
        let max = config.handlers_in_progress_max.expect("a limit") as usize;
        assert_eq!(running.most.load(Ordering::Relaxed), max, "as many ran as may, and no more");
        check(result, shed(&counters));
        Ok(())
    });
}

/// As many handlers run as may; the others wait for them to end, and all are answered.
#[test]
fn who_is_one_handler_too_many_waits() {
    let config = Config {
        handlers_in_progress_max: Some(3),
        admission_timeout: TEST_TIMEOUT,
        memory_timeout: TEST_TIMEOUT,
        ..Config::default()
    };
    let clients = |address: SocketAddr, running: Arc<Running>| {
        // On connections of HTTP/1.1 and of HTTP/2, each with one request.
        let streams: Vec<_> = (0..10).map(|_| ask(address, GET)).collect();
        let of_http2: Vec<_> = (0..4).map(|_| thread::spawn(move || ask_streams(address, 1))).collect();
        until("as many run as may", || running.now.load(Ordering::Relaxed) == 3);
        // Longer than anything else takes that might begin another: the limit is what they wait for.
        thread::sleep(Duration::from_millis(300));
        running.may_end.store(true, Ordering::Release);
        let mut statuses: Vec<u16> = streams.into_iter().map(|mut stream| answer(&mut stream).0).collect();
        statuses.extend(of_http2.into_iter().flat_map(|client| client.join().expect("no panic")));
        statuses
    };
    with_handlers_max("handlers that wait for others", &config, clients, |statuses: Vec<u16>, refused| {
        assert_eq!((statuses, refused), (vec![200; 14], 0));
    });
}

/// Handlers that do not end: the others hear 503 when they have waited, on connections that live.
#[test]
fn who_waits_too_long_for_a_handler_is_refused() {
    let config = Config {
        handlers_in_progress_max: Some(2),
        admission_timeout: Duration::from_millis(100),
        ..Config::default()
    };
    let clients = |address: SocketAddr, running: Arc<Running>| {
        let held: Vec<_> = (0..2).map(|_| ask(address, GET)).collect();
        until("they begin", || running.now.load(Ordering::Relaxed) == 2);
        let mut other = ask(address, GET);
        let (status, head) = answer(&mut other);
        assert_eq!(status, 503, "{head}");
        assert!(head.contains("\r\nRetry-After: ") && !head.contains("Connection: close"), "{head}");
        let of_http2 = ask_streams(address, 1);
        running.may_end.store(true, Ordering::Release);
        // When they have ended nobody has to wait, on a slow machine too.
        let mut statuses: Vec<u16> = held.into_iter().map(|mut stream| answer(&mut stream).0).collect();
        other.write_all(GET).expect("its connection lives");
        statuses.push(answer(&mut other).0);
        (statuses, of_http2)
    };
    with_handlers_max("handlers that do not end", &config, clients, |(statuses, of_http2), refused| {
        assert_eq!((statuses, of_http2, refused), (vec![200; 3], vec![503], 2));
    });
}
