//! WebSockets that wait: for memory, for a slow task, for a long message to leave.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::rig::memory::{fill, fill_but};
use crate::rig::websocket::{Client, Got, HANDSHAKE, echo, frame, read_head, text};
use crate::rig::{Running, in_simulation, on_each, serve, until};
use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{
    Config, Error, Message, Request, Response, WebSocketConfig, WebSocketEnd, WebSocketHandler, WebSocketRef,
    WebSocketSender,
};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Instant, Kind, Lease, Result, now, pool, sleep, timeout};

/// The lengths of all messages to the end of the stream, and the code of the close frame with its reason.
async fn read_all(client: &mut Client) -> Result<(Vec<usize>, Option<(CloseCode, Vec<u8>)>)> {
    let (mut messages, mut close) = (Vec::new(), None);
    loop {
        match client.next().await? {
            Got::Text(text) => messages.push(text.len()),
            Got::Binary(bytes) => messages.push(bytes.len()),
            Got::Ping(_) | Got::Pong(_) => {}
            Got::Close(code) => {
                close = code.map(|code| (code, client.inbox.reason.clone()));
                // A server that asked for the end waits for this, and perhaps has gone already.
                let _answered = client.send(&frame(true, Opcode::Close, &[])).await;
            }
            Got::End | Got::Reset => return Ok((messages, close)),
        }
    }
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn what_came_before_the_peers_end_reaches_a_slow_task() {
    on_each("a slow task", async || {
        let got = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&got);
        let running = serve(Config::default(), move |request: Request| {
            let count = Arc::clone(&count);
            let response = request.upgrade_websocket(&WebSocketConfig::default(), move |mut socket| async move {
                loop {
                    sleep(Duration::from_millis(20)).await;
                    match socket.recv().await {
                        Ok(Some(message)) => {
                            let number = count.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(message.as_text(), Some(&*format!("{number} {}", "x".repeat(5_000))));
                        }
                        Ok(None) => return,
                        Err(error) => {
                            assert!(matches!(error, Error::Disconnected), "{error}");
                            count.fetch_add(1_000, Ordering::Relaxed);
                            return;
                        }
                    }
                }
            });
            core::future::ready(response)
        })?;
        let mut client = Client::open(running.address, "/").await?;
        for number in 0..12 {
            client.send(&text(&format!("{number} {}", "x".repeat(5_000)))).await?;
        }
        client.stream.shutdown_write().await?;
        until("the end comes", || got.load(Ordering::Relaxed) >= 1_000).await;
        assert_eq!(got.load(Ordering::Relaxed), 1_012, "all messages, then the end, once");
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_code_and_its_reason_follow_a_long_message() {
    on_each("a close behind a message", async || {
        const LONG: usize = 3 << 20;
        let running = serve(Config::default(), |request: Request| {
            let response = request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
                socket.send(Message::binary(vec![b'l'; LONG])).await.expect("the peer is there");
                let closed = socket.close(CloseCode(4_321), "enough of this").await;
                assert!(closed.is_ok(), "{closed:?}");
            });
            core::future::ready(response)
        })?;
        let mut client = Client::open(running.address, "/").await?;
        // The socket is full of the message when the close is asked for.
        sleep(Duration::from_millis(50)).await;
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!(messages, [LONG]);
        assert_eq!(close, Some((CloseCode(4_321), b"enough of this".to_vec())));
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_reason_that_is_too_long_is_cut_between_characters() {
    in_simulation("a long reason", async || {
        // The last byte that fits is the first of a character.
        let reason = "ö".repeat(100);
        let running = serve(Config::default(), move |request: Request| {
            let reason = reason.clone();
            let response = request.upgrade_websocket(&WebSocketConfig::default(), |socket| async move {
                let closed = socket.close(CloseCode(4_321), &reason).await;
                assert!(closed.is_ok(), "{closed:?}");
            });
            core::future::ready(response)
        })?;
        let mut client = Client::open(running.address, "/").await?;
        let (_, close) = read_all(&mut client).await?;
        let close = close.map(|(code, reason)| (code, String::from_utf8(reason).expect("whole characters")));
        assert_eq!(close, Some((CloseCode(4_321), "ö".repeat(61))));
        drop(client);
        running.stop().await
    });
}

/// A message in a second, of so many bytes, by a task.
fn late(bytes: usize) -> impl Fn(Request) -> core::future::Ready<core::result::Result<Response, Error>> + Clone + Send {
    move |request| {
        let config = WebSocketConfig { send_timeout: Duration::from_secs(5), ..WebSocketConfig::default() };
        core::future::ready(request.upgrade_websocket(&config, move |mut socket| async move {
            let message = Message::text("m".repeat(bytes));
            sleep(Duration::from_secs(1)).await;
            if socket.send(message).await.is_ok() {
                let _gone = socket.close(CloseCode::NORMAL, "").await;
            }
        }))
    }
}

#[test]
fn a_message_that_waits_for_too_long_ends_its_connection_with_a_word() {
    in_simulation("a message waits in vain", async || {
        let running = serve(lends_nothing(), late(100))?;
        let mut client = Client::open(running.address, "/").await?;
        let held = fill(1);
        sleep(Duration::from_secs(12)).await;
        drop(held);
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!((messages, close), (vec![], Some((CloseCode::TRY_LATER, Vec::new()))));
        drop(client);
        running.stop().await
    });
}

#[test]
fn an_echo_without_a_task_waits_for_memory() {
    in_simulation("a handler's answer waits", async || {
        let running = serve(Config::default(), |request: Request| {
            let echo = |socket: &mut WebSocketRef<'_>, message: Message| {
                let answer = message.as_bytes().to_vec();
                socket.send(Message::binary(answer))
            };
            core::future::ready(request.serve_websocket(&WebSocketConfig::default(), echo))
        })?;
        let mut client = Client::open(running.address, "/").await?;
        // Room for what is sent and received, and none for an answer.
        let held = fill_but(&[64, 512, 1_024]);
        client.send(&text(&"e".repeat(900))).await?;
        sleep(Duration::from_secs(2)).await;
        drop(held);
        sleep(Duration::from_secs(1)).await;
        client.stream.shutdown_write().await?;
        let (messages, _) = read_all(&mut client).await?;
        assert_eq!(messages, [900]);
        drop(client);
        running.stop().await
    });
}

/// A 101 is a promise.
#[test]
fn a_handshake_without_room_for_the_websocket_is_refused() {
    in_simulation("a handshake at the line", async || {
        let running = serve(Config::default(), |request: Request| {
            let held = if request.path() == "/full" { fill(1) } else { Vec::new() };
            let answer = echo(&request, &WebSocketConfig::default());
            drop(held);
            core::future::ready(answer)
        })?;
        // What all of them share is there.
        let first = Client::open(running.address, "/").await?;
        let handshake = format!("{}\r\n", HANDSHAKE.replacen("GET /", "GET /full", 1));
        let mut stream = TcpStream::connect(running.address).await?;
        stream.send_bytes(handshake.as_bytes()).await?;
        read_head(&mut stream, "503").await?;
        drop((first, stream));
        running.stop().await
    });
}

/// Messages are taken; to `?` the answer is `!`.
fn asked(request: Request) -> core::future::Ready<core::result::Result<Response, Error>> {
    let config = WebSocketConfig { send_timeout: Duration::from_secs(5), ..WebSocketConfig::default() };
    let take = |socket: &mut WebSocketRef<'_>, message: Message| match message.as_text() {
        Some("?") => socket.send(Message::text("!")),
        _ => Ok(()),
    };
    core::future::ready(request.serve_websocket(&config, take))
}

#[test]
fn one_that_waited_for_memory_and_sends_nothing_stays_open() {
    in_simulation("a handler that waited, and is silent", async || {
        let running = serve(Config::default(), asked)?;
        let mut client = Client::open(running.address, "/").await?;
        let held = fill_but(&[64, 512, 1_024]);
        client.send(&text(&"e".repeat(900))).await?;
        sleep(Duration::from_secs(2)).await;
        drop(held);
        // Longer than anything may wait.
        sleep(Duration::from_secs(12)).await;
        client.send(&text("?")).await?;
        sleep(Duration::from_secs(1)).await;
        client.stream.shutdown_write().await?;
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!((messages, close), (vec![1], None));
        drop(client);
        running.stop().await
    });
}

thread_local! {
    /// Of the WebSocket that was opened last.
    static SENDER: RefCell<Option<WebSocketSender>> = const { RefCell::new(None) };
}

thread_local! {
    /// When the last message of any came.
    static CAME: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Takes messages, and has others send.
struct Pushed;

impl WebSocketHandler for Pushed {
    fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> core::result::Result<(), Error> {
        SENDER.set(Some(socket.sender()));
        Ok(())
    }

    fn message(&mut self, _socket: &mut WebSocketRef<'_>, _message: Message) -> core::result::Result<(), Error> {
        CAME.set(Some(now()));
        Ok(())
    }

    fn closed(&mut self, _end: WebSocketEnd) {
        SENDER.take();
    }
}

/// Sends on the WebSocket that was opened last.
fn push(text: &'static str) -> core::result::Result<(), Error> {
    SENDER.with_borrow(|sender| sender.as_ref().expect("it is open").send(Message::text(text)))
}

/// What found its room without having been told of it waits no longer.
#[test]
fn a_part_that_finds_room_when_something_is_sent_has_waited() {
    in_simulation("a part that waits, and a push", async || {
        let config = Config { memory_timeout: Duration::from_millis(500), ..Config::default() };
        let running = serve(config, |request: Request| {
            core::future::ready(request.serve_websocket(&WebSocketConfig::default(), Pushed))
        })?;
        let mut client = Client::open(running.address, "/").await?;
        let both = [text(&"a".repeat(400)), text(&"b".repeat(400))].concat();
        // For the first message, and for what is pushed: too little for the one whose turn it is.
        let later = [512, 1_024].map(|bytes| pool().try_acquire(bytes, Kind::Buffers).expect("room"));
        // Room for what is received.
        let held = fill_but(&[512, 1_024]);
        client.stream.send_static(Vec::leak(both)).await?;
        sleep(Duration::from_millis(300)).await;
        drop(later);
        push("!").expect("there is room");
        sleep(Duration::from_secs(2)).await;
        drop(held);
        push("?").expect("it is open");
        client.stream.shutdown_write().await?;
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!((messages, close), (vec![1, 1], None));
        assert_eq!(running.shed(), 0);
        drop(client);
        running.stop().await
    });
}

/// A server for [`Pushed`], and a WebSocket before which room is made for what it receives from now on.
async fn open_late() -> Result<(Running, Client, Vec<Lease>)> {
    let running = serve(Config::default(), |request: Request| {
        core::future::ready(request.serve_websocket(&WebSocketConfig::default(), Pushed))
    })?;
    let mut client = Client::open(running.address, "/").await?;
    let held = fill_but(&[64, 512, 1_024]);
    // The level is known.
    sleep(Duration::from_millis(20)).await;
    client.stream.send_static(Vec::leak(text("short"))).await?;
    sleep(Duration::from_millis(20)).await;
    assert!(CAME.take().is_some(), "there is room for what is short");
    Ok((running, client, held))
}

/// A buffer for what comes is not all that a message needs when nothing is left of the one before.
#[test]
fn a_message_waits_for_room_for_all_of_it() {
    in_simulation("a message and its work", async || {
        let mut pages = [(); 4].map(|()| pool().try_acquire(4_096, Kind::Buffers).ok());
        let (running, mut client, mut held) = open_late().await?;
        held.extend(fill_but(&[512, 1_024]));
        client.stream.send_static(Vec::leak(text("late"))).await?;
        sleep(Duration::from_millis(20)).await;
        // What was there for its work goes to another.
        held.extend(pool().try_acquire(512, Kind::Buffers));
        for page in &mut pages {
            *page = None;
            sleep(Duration::from_millis(20)).await;
        }
        assert!(CAME.take().is_some(), "it came as soon as there was room for all");
        drop(held);
        drop(client);
        running.stop().await
    });
}

/// Room that was granted for what is to be sent is not for what may be received.
#[test]
fn what_waits_to_be_sent_gets_the_room_it_was_granted() {
    in_simulation("a close that waits", async || {
        let page = pool().try_acquire(4_096, Kind::Buffers);
        let clients = pool().try_acquire(64, Kind::Buffers);
        let (running, mut client, mut held) = open_late().await?;
        // Room for its work, and none for a close frame.
        held.extend(fill_but(&[512]));
        SENDER
            .with_borrow(|sender| sender.as_ref().expect("it is open").close(CloseCode(4_321), "enough"))
            .expect("it is open");
        sleep(Duration::from_millis(20)).await;
        drop((page, clients));
        let closed = timeout(Duration::from_millis(100), client.next()).await;
        assert_eq!(closed.expect("it was told as soon as there was room")?, Got::Close(Some(CloseCode(4_321))));
        drop(held);
        drop(client);
        running.stop().await
    });
}

/// Sends, and takes all memory before the server sees any of it.
async fn send_and_fill(client: &mut Client, bytes: Vec<u8>) -> Result<Vec<Lease>> {
    let mut sending = core::pin::pin!(client.stream.send_static(Vec::leak(bytes)));
    let begun = core::future::poll_fn(|cx| core::task::Poll::Ready(sending.as_mut().poll(cx))).await;
    let held = fill(1);
    match begun {
        core::task::Poll::Ready(sent) => sent?,
        core::task::Poll::Pending => sending.await?,
    }
    Ok(held)
}

/// What was granted to a wait that is over does not count for the next.
#[test]
fn one_that_has_waited_often_waits_in_line_all_the_same() {
    in_simulation("many waits within a message", async || {
        let (running, mut client, held) = open_late().await?;
        drop(held);
        sleep(Duration::from_secs(1)).await;
        client.stream.send_static(Vec::leak(frame(false, Opcode::Text, &[b'a'; 100]))).await?;
        sleep(Duration::from_millis(20)).await;
        for _ in 0..6 {
            let held = send_and_fill(&mut client, frame(true, Opcode::Ping, b"")).await?;
            sleep(Duration::from_millis(20)).await;
            drop(held);
            sleep(Duration::from_secs(1)).await;
        }
        let mut pages = [(); 10].map(|()| pool().try_acquire(4_096, Kind::Buffers).ok());
        let mut held = fill_but(&[64, 1_024, 4_096]);
        // The level is known.
        sleep(Duration::from_millis(20)).await;
        client.stream.send_static(Vec::leak(frame(true, Opcode::Ping, b""))).await?;
        sleep(Duration::from_millis(20)).await;
        // Each needs more than the one before, and the first that is granted is not enough for both.
        let parts = [(false, 300), (true, 2_000)]
            .map(|(is_final, bytes)| frame(is_final, Opcode::Continuation, &vec![b'a'; bytes]));
        held.extend(send_and_fill(&mut client, parts.concat()).await?);
        sleep(Duration::from_millis(20)).await;
        for page in &mut pages {
            *page = None;
            sleep(Duration::from_millis(10)).await;
        }
        assert!(CAME.take().is_some(), "it came as soon as there was room");
        drop(held);
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_message_that_waited_for_memory_has_the_time_of_a_send_for_the_socket() {
    in_simulation("a full socket after a wait", async || {
        const LONG: usize = 3 << 20;
        for reads in [true, false] {
            let running = serve(lends_nothing(), late(LONG))?;
            let mut client = Client::open(running.address, "/").await?;
            // Room for the message's head, and none for its pieces: the socket is filled without.
            let held = fill_but(&[64, 512, 1_024]);
            sleep(Duration::from_secs(4)).await;
            drop(held);
            sleep(Duration::from_secs(3)).await;
            if reads {
                // Much longer than a tick, and not too long for a send.
                let (messages, close) = read_all(&mut client).await?;
                assert_eq!((messages, close), (vec![LONG], Some((CloseCode::NORMAL, Vec::new()))));
                drop(client);
                sleep(Duration::from_secs(3)).await;
                assert_eq!(running.counters.totals().active, 0);
                continue;
            }
            assert_eq!(running.counters.totals().active, 1, "it has more time");
            sleep(Duration::from_secs(7)).await;
            assert_eq!(running.counters.totals().active, 0, "its time is over");
            drop(client);
            return running.stop().await;
        }
        unreachable!("the last one returns")
    });
}

#[test]
fn a_task_that_takes_its_time_gets_its_message() {
    in_simulation("a task slower than the pings", async || {
        let running = serve(Config::default(), |request: Request| {
            let config = WebSocketConfig { ping_interval: Some(Duration::from_secs(1)), ..Default::default() };
            core::future::ready(request.upgrade_websocket(&config, |mut socket| async move {
                for _ in 0..2 {
                    sleep(Duration::from_secs(10)).await;
                    let message = socket.recv().await.expect("nothing is wrong").expect("a message");
                    socket.send(message).await.expect("the peer is there");
                }
                let _gone = socket.close(CloseCode::NORMAL, "").await;
            }))
        })?;
        let mut client = Client::open(running.address, "/").await?;
        client.send(&[text("one"), text("second")].concat()).await?;
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!((messages, close), (vec![3, 6], Some((CloseCode::NORMAL, Vec::new()))));
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_pong_ends_no_wait_for_memory() {
    in_simulation("a pong while a message waits", async || {
        let running = serve(Config::default(), late(5_000))?;
        let mut client = Client::open(running.address, "/").await?;
        // Room for what the client sends.
        let spare = pool().try_acquire(16 * 1_024, Kind::Buffers).expect("room");
        let held = fill(1);
        sleep(Duration::from_secs(2)).await;
        drop(spare);
        let pongs = [frame(true, Opcode::Pong, b""), frame(true, Opcode::Pong, b"twice")].concat();
        let rest = send_and_fill(&mut client, pongs).await?;
        sleep(Duration::from_secs(1)).await;
        drop((held, rest));
        let (messages, close) = read_all(&mut client).await?;
        assert_eq!((messages, close), (vec![5_000], Some((CloseCode::NORMAL, Vec::new()))));
        drop(client);
        running.stop().await
    });
}
