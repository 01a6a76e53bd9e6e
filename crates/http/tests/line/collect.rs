//! A body that is collected has room for all of it before anything of it is read, or its handler is told so while it
//! can still answer; so has a message of a WebSocket, or it is closed with 1013. And a request that somebody waits for,
//! and that is not admitted, leaves that one waiting and no more.

#![allow(clippy::print_stdout, reason = "how many were served is printed")]

use core::net::SocketAddr;
use core::time::Duration;
use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use plimsoll_codec::ws::{CloseCode, FrameHead, Opcode};
use plimsoll_http::{Config, Error, Message, Request, Response, Server, Shed, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, now, pool, sleep, spawn, timeout};

use crate::rig::frames::{Client, DATA, END_HEADERS, END_STREAM, HEADERS, frame, request};
use crate::rig::memory::{fill, fill_but};
use crate::rig::threads::{connect, serve_until, under_line};
use crate::rig::websocket::{self, Got};
use crate::rig::{Running, in_simulation, on_each, read, serve, talk};

const BODY_BYTES: usize = 2 << 20;
const AT_ONCE: usize = 8;
const LINE: MemoryLimit = MemoryLimit::mib(8);

/// Collects and holds what it has for a while, which is charged.
async fn hold(mut req: Request, live: Arc<AtomicU64>) -> core::result::Result<Response, Error> {
    let body = req.collect().await?;
    let bytes = body.len() as u64;
    let held = live.fetch_add(bytes, Ordering::AcqRel) + bytes;
    let charged = pool().budget().charged();
    assert!(charged >= held, "{held} bytes were collected, and {charged} are charged");
    sleep(Duration::from_millis(100)).await;
    live.fetch_sub(bytes, Ordering::AcqRel);
    Ok(Response::text(body.len().to_string()))
}

fn post(address: SocketAddr) -> String {
    let mut stream = connect(address);
    let head = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the head is taken");
    stream.write_all(&vec![b'b'; BODY_BYTES]).expect("the body is read, or dropped behind the answer");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an end that is no reset");
    answer
}

/// How many of those who post at once are served and told to come again; nobody is left without an answer.
fn tally(answers: impl Iterator<Item = String>) -> (usize, usize) {
    let (mut served, mut told) = (0, 0);
    for answer in answers {
        if answer.starts_with("HTTP/1.1 200 ") {
            assert!(answer.ends_with(&BODY_BYTES.to_string()), "{answer}");
            served += 1;
        } else {
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer:?}");
            told += 1;
        }
    }
    (served, told)
}

#[test]
fn eight_at_once_are_served_or_told() {
    under_line("eight bodies", LINE, async |runtime| {
        let live = Arc::new(AtomicU64::new(0));
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = server.serve(move |req| hold(req, Arc::clone(&live)));
        let clients = move || {
            let clients: Vec<_> = (0..AT_ONCE).map(|_| thread::spawn(move || post(address))).collect();
            tally(clients.into_iter().map(|client| client.join().expect("an answer")))
        };
        let (served, told) = serve_until(serving, clients).await?;
        println!("on {}: {served} served, {told} told", runtime.driver().kind);
        assert_eq!(served + told, AT_ONCE);
        assert!(served > 0, "each of them alone has room");
        Ok(())
    });
}

#[test]
fn eight_at_once_in_a_simulated_world() {
    in_simulation("eight bodies", async || {
        // But for 8 MiB.
        let line = pool().budget().limit().as_bytes();
        let held = pool().charge(plimsoll_runtime::Kind::Buffers, line - LINE.as_bytes())?;
        let live = Arc::new(AtomicU64::new(held.bytes()));
        let running = serve(Config::default(), move |req| hold(req, Arc::clone(&live)))?;
        let body: &'static [u8] = vec![b'b'; BODY_BYTES].leak();
        let (answers, address) = (Rc::new(RefCell::new(Vec::new())), running.address);
        for _ in 0..AT_ONCE {
            let answers = Rc::clone(&answers);
            spawn(async move {
                let mut client = TcpStream::connect(address).await.expect("it is accepted");
                let head =
                    format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
                client.send_bytes(head.as_bytes()).await.expect("it is sent");
                client.send_static(body).await.expect("it is sent");
                let answer = read(&mut client, None).await.expect("an answer");
                answers.borrow_mut().push(answer);
            })
            .map(drop)?;
        }
        while answers.borrow().len() < AT_ONCE {
            sleep(Duration::from_millis(10)).await;
        }
        let (served, told) = tally(answers.take().into_iter());
        println!("in the simulation: {served} served, {told} told");
        assert!(served > 0, "each of them alone has room");
        drop(held);
        running.stop().await
    });
}

async fn length(mut req: Request) -> core::result::Result<Response, Error> {
    Ok(Response::text(req.collect().await?.len().to_string()))
}

/// All memory is held, but for so much.
fn leave(bytes: usize) -> (Vec<plimsoll_runtime::Lease>, usize) {
    let mut held = fill(1);
    let mut left = 0;
    while left < bytes {
        left += held.remove(0).class().bytes();
    }
    (held, left)
}

fn impatient() -> Config {
    Config { memory_timeout: Duration::from_millis(200), ..Config::default() }
}

#[test]
fn what_has_no_room_is_refused_before_it_is_asked_for() {
    on_each("no room", async || {
        let running = serve(impatient(), length)?;
        let mut clients = [TcpStream::connect(running.address).await?, TcpStream::connect(running.address).await?];
        sleep(Duration::from_millis(20)).await;
        let (held, left) = leave(512 * 1024);
        let long =
            format!("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", 2 * left);
        clients[0].send_bytes(long.as_bytes()).await?;
        let answer = read(&mut clients[0], Some(b"\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer:?}");
        assert_eq!(running.counters.totals().shed_total[Shed::Body as usize], 1);
        // A short one finds its room meanwhile.
        let short = b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody";
        clients[1].send_static(short).await?;
        let answer = read(&mut clients[1], None).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n4"), "{answer:?}");
        drop((held, clients));
        running.stop().await
    });
}

#[test]
fn a_stream_is_told_too() {
    on_each("no room for a stream", async || {
        let running = serve(impatient(), length)?;
        let mut client = Client::connect(running.address, &[]).await?;
        let (held, left) = leave(512 * 1024);
        let long = (2 * left).to_string();
        client.send(&request(1, "POST", "/", &[("content-length", &long)], END_HEADERS)).await?;
        client.send(&frame(DATA, 0, 1, &[b'b'; 1_000])).await?;
        assert!(client.next_of(HEADERS).await?.has_status(503));
        drop(held);
        client.send(&request(3, "POST", "/", &[("content-length", "4")], END_HEADERS)).await?;
        client.send(&frame(DATA, END_STREAM, 3, b"body")).await?;
        while client.next_of(DATA).await?.payload != b"4" {}
        running.stop().await
    });
}

#[test]
fn it_waits_for_its_room() {
    on_each("a wait", async || {
        let running = serve(Config::default(), length)?;
        let mut client = TcpStream::connect(running.address).await?;
        sleep(Duration::from_millis(20)).await;
        let (held, left) = leave(512 * 1024);
        let body = vec![b'b'; 2 * left];
        let later = spawn(async move {
            sleep(Duration::from_millis(100)).await;
            drop(held);
        })?;
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        client.send_bytes(head.as_bytes()).await?;
        later.await.expect("it does not panic");
        client.send_static(body.clone().leak()).await?;
        let answer = read(&mut client, None).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&body.len().to_string()), "{answer:?}");
        running.stop().await
    });
}

/// What frees memory wakes who waits for it, and nothing else does: nobody looks again and again.
#[test]
fn it_goes_on_at_the_moment_in_which_there_is_room() {
    in_simulation("a wake-up", async || {
        let running = serve(Config::default(), length)?;
        let mut client = TcpStream::connect(running.address).await?;
        sleep(Duration::from_millis(20)).await;
        let (held, left) = leave(512 * 1024);
        let length = 2 * left;
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n");
        client.send_bytes(head.as_bytes()).await?;
        // No multiple of anything.
        sleep(Duration::from_micros(1_234_567)).await;
        let freed = now();
        drop(held);
        assert!(read(&mut client, Some(b"\r\n\r\n")).await?.starts_with("HTTP/1.1 100 "));
        let waited = now().since(freed);
        assert!(waited < Duration::from_millis(1), "{waited:?} later");
        client.send_static(vec![b'b'; length].leak()).await?;
        let answer = read(&mut client, Some(length.to_string().as_bytes())).await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        drop(client);
        running.stop().await
    });
}

/// The one that came last is of another client than those before it.
#[test]
fn bodies_of_one_client_leave_turns_to_another() {
    in_simulation("turns", async || {
        let config = Config { forwarded_from: vec!["127.0.0.0/8".parse().expect("a network")], ..Config::default() };
        let order = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&order);
        let running = serve(config, move |mut req: Request| {
            let collected = Arc::clone(&collected);
            async move {
                let length = req.collect().await?.len();
                collected.lock().expect("nobody panics").push(req.path().to_owned());
                Ok::<_, Error>(Response::text(length.to_string()))
            }
        })?;
        let (names, mut clients) = (["/a", "/a", "/a", "/a", "/b"], Vec::new());
        for _ in names {
            clients.push(TcpStream::connect(running.address).await?);
        }
        sleep(Duration::from_millis(20)).await;
        let (mut held, left) = leave(512 * 1024);
        let body: &'static [u8] = vec![b'b'; 2 * left].leak();
        for (name, client) in names.into_iter().zip(&mut clients) {
            let from = if name == "/a" { 1 } else { 2 };
            let head = format!(
                "POST {name} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Forwarded-For: 192.0.2.{from}\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            client.send_bytes(head.as_bytes()).await?;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(order.lock().expect("nobody panics").is_empty(), "all wait");
        // Room for one at a time.
        let mut freed = 0;
        while freed < left * 3 / 2 {
            freed += held.remove(0).class().bytes();
        }
        let sending = clients.into_iter().map(|mut client| {
            spawn(async move {
                client.send_static(body).await.expect("it is sent");
                read(&mut client, None).await.expect("an answer")
            })
        });
        for sending in sending.collect::<Vec<_>>() {
            let answer = sending?.await.expect("it does not panic");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:?}");
        }
        let order = order.lock().expect("nobody panics").concat();
        assert_eq!(order, "/a/b/a/a/a");
        drop(held);
        running.stop().await
    });
}

#[test]
fn a_body_without_a_length_grows_as_far_as_there_is_room() {
    in_simulation("chunks", async || {
        let config = Config { collect_bytes_max: usize::MAX, ..Config::default() };
        let memory_timeout = config.memory_timeout;
        let running = serve(config, length)?;
        let mut client = TcpStream::connect(running.address).await?;
        sleep(Duration::from_millis(20)).await;
        let (held, left) = leave(512 * 1024);
        client.send_static(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
        let chunk: &'static [u8] = [&b"10000\r\n"[..], &[b'c'; 65_536], b"\r\n"].concat().leak();
        let asked = now();
        for _ in 0..2 * left / 65_536 {
            client.send_static(chunk).await?;
        }
        let answer = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer:?}");
        assert!(now().since(asked) < memory_timeout, "a step is not waited for");
        drop((held, client));
        running.stop().await
    });
}

#[test]
fn a_long_poll_goes_on_when_what_it_waits_for_is_refused() {
    in_simulation("a long poll", async || {
        let came = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&came);
        let running: Running = serve(Config::default(), move |req: Request| {
            let came = Arc::clone(&theirs);
            async move {
                if req.path() == "/push" {
                    came.store(true, Ordering::Release);
                }
                while !came.load(Ordering::Acquire) {
                    sleep(Duration::from_millis(10)).await;
                }
                Response::text("came")
            }
        })?;
        let is_over = Rc::new(Cell::new(false));
        let (address, over) = (running.address, Rc::clone(&is_over));
        let polling = spawn(async move {
            let poll = b"GET /poll HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let answer = talk(address, &[poll], None).await.expect("an answer");
            over.set(true);
            answer
        })?;
        sleep(Duration::from_millis(100)).await;
        let mut pusher = TcpStream::connect(address).await?;
        sleep(Duration::from_millis(100)).await;
        // What the client itself needs is there, and no request's room.
        let held = fill_but(&[1_024, 1_024, 1_024, 512, 512, 256, 256]);
        let asked = now();
        pusher.send_static(b"GET /push HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let answer = timeout(Duration::from_secs(5), read(&mut pusher, Some(b"\r\n\r\n"))).await??;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: "), "{answer:?}");
        let waited = now().since(asked);
        assert!(waited >= Duration::from_millis(900) && waited <= Duration::from_millis(1_200), "{waited:?}");
        assert!(!is_over.get(), "the long poll goes on");
        drop((held, pusher));
        let answer = talk(address, &[b"GET /push HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"], None).await?;
        assert!(answer.ends_with("came"), "{answer}");
        let answer = polling.await.expect("it does not panic");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        running.stop().await
    });
}

/// Answers each message with its length.
fn lengths(request: Request) -> core::future::Ready<core::result::Result<Response, Error>> {
    let answer = |socket: &mut WebSocketRef<'_>, message: Message| {
        socket.send(Message::text(message.as_bytes().len().to_string()))
    };
    core::future::ready(request.serve_websocket(&WebSocketConfig::default(), answer))
}

#[test]
fn a_message_has_room_for_all_of_it_or_is_refused() {
    on_each("no room for a message", async || {
        let running = serve(impatient(), lengths)?;
        let mut client = websocket::Client::open(running.address, "/").await?;
        let (held, left) = leave(384 * 1024);
        // Its head says how long it is, and little of it has come.
        let head = FrameHead::message(Opcode::Binary, 2 * left as u64).masked(websocket::KEY).encode();
        client.send(head.as_bytes()).await?;
        client.send(&[0; 1_000]).await?;
        let Got::Close(code) = client.next().await? else { panic!("not refused") };
        assert_eq!(code, Some(CloseCode::TRY_LATER));
        drop((held, client));
        running.stop().await
    });
}

#[test]
fn a_fragment_for_which_there_is_no_room_is_not_waited_for() {
    in_simulation("no room for a fragment", async || {
        let running = serve(Config::default(), lengths)?;
        let mut client = websocket::Client::open(running.address, "/").await?;
        let (held, left) = leave(384 * 1024);
        let first: &'static [u8] = websocket::frame(false, Opcode::Binary, &[0; 100_000]).leak();
        client.stream.send_static(first).await?;
        let asked = now();
        let head = FrameHead::message(Opcode::Continuation, 2 * left as u64).masked(websocket::KEY).encode();
        client.send(head.as_bytes()).await?;
        client.send(&[0; 1_000]).await?;
        let Got::Close(code) = client.next().await? else { panic!("not refused") };
        assert_eq!(code, Some(CloseCode::TRY_LATER));
        assert!(now().since(asked) < Duration::from_secs(1), "others that hold a part may wait, too");
        drop((held, client));
        running.stop().await
    });
}

#[test]
fn long_messages_at_once_do_not_wait_for_each_other() {
    in_simulation("long messages", async || {
        let running = serve(Config::default(), lengths)?;
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(websocket::Client::open(running.address, "/").await?);
        }
        let (held, left) = leave(1_024 * 1_024);
        // One has room, and two have not.
        let bytes = left / 5 * 3;
        let message = websocket::frame(true, Opcode::Binary, &vec![0; bytes]);
        let message: &'static [u8] = message.leak();
        let asked = now();
        let tasks: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                spawn(async move {
                    client.stream.send_static(message).await.expect("it is taken");
                    client.next().await.expect("an answer")
                })
            })
            .collect();
        for task in tasks {
            assert_eq!(task?.await.expect("no panic"), Got::Text(bytes.to_string()));
        }
        assert!(now().since(asked) < Duration::from_secs(5), "nobody waits in a circle");
        drop(held);
        running.stop().await
    });
}
