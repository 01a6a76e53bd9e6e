//! Connections that stay are told to end when others have waited for memory: the newest of the address that holds most,
//! each in the words of its protocol.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{
    Config, Error, EventsConfig, ExchangeEnd, Hub, HubConfig, Message, Request, Response, Shed, WebSocketConfig,
    WebSocketEnd, WebSocketHandler, WebSocketRef,
};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Lease, MemoryLimit, Result, pool, sleep, timeout};

use super::http2::End;
use crate::rig::frames;
use crate::rig::websocket::{Client, Got, read_head};
use crate::rig::{Running, on_each_under, serve, until};

const LINE: MemoryLimit = MemoryLimit::kib(1_536);

/// A request waits for as long as it takes, and nothing is given up by age.
fn config() -> Config {
    Config {
        admission_timeout: Duration::from_secs(30),
        memory_timeout: Duration::from_secs(30),
        begun_protection: Duration::from_secs(600),
        progress_reserve_bytes: 0,
        ..Config::default()
    }
}

/// What the handlers of a server saw.
#[derive(Default)]
struct Seen {
    no_room: AtomicU64,
    dropped: AtomicU64,
    /// Tasks that are to send something, and of these how many may.
    sending: AtomicU64,
    sends: AtomicU64,
}

struct Called(Arc<Seen>);

impl WebSocketHandler for Called {
    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> core::result::Result<(), Error> {
        socket.send(message)
    }

    fn closed(&mut self, end: WebSocketEnd) {
        self.0.no_room.fetch_add((end == WebSocketEnd::NoRoom).into(), Ordering::Relaxed);
    }
}

/// Counts handlers that are dropped before they end.
struct Guard(Arc<Seen>, bool);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(u64::from(!self.1), Ordering::Relaxed);
    }
}

async fn answer(mut req: Request, seen: Arc<Seen>, hub: Hub) -> core::result::Result<Response, Error> {
    let config = WebSocketConfig::default();
    match req.path() {
        "/called" => req.serve_websocket(&config, Called(seen)),
        "/task" => req.upgrade_websocket(&config, move |mut socket| async move {
            loop {
                match socket.recv().await {
                    Ok(Some(message)) => _ = socket.send(message).await,
                    Ok(None) => return,
                    Err(error) => {
                        seen.no_room.fetch_add(matches!(error, Error::OverBudget(_)).into(), Ordering::Relaxed);
                        return;
                    }
                }
            }
        }),
        // Echoes a message, and sends another when it is asked to.
        "/sends" => {
            let number = seen.sending.fetch_add(1, Ordering::Relaxed);
            req.upgrade_websocket(&config, move |mut socket| async move {
                if let Ok(Some(message)) = socket.recv().await {
                    let _gone = socket.send(message).await;
                }
                while seen.sends.load(Ordering::Relaxed) <= number {
                    sleep(Duration::from_millis(2)).await;
                }
                let _gone = socket.send(Message::binary(vec![b'm'; 100])).await;
                let _gone = socket.recv().await;
            })
        }
        // Collects its body when it is asked to.
        "/collect" => {
            while seen.sends.load(Ordering::Relaxed) == 0 {
                sleep(Duration::from_millis(2)).await;
            }
            Ok(Response::text(req.collect().await?.len().to_string()))
        }
        "/hub" => hub.join_websocket(&req),
        "/hub-events" => hub.join_events(req).await,
        "/upgrade" => req.upgrade("wait/1", |mut peer| async move {
            peer.told_to_end().await;
            // There is memory for the words then.
            sleep(Duration::from_secs(1)).await;
            let _gone = peer.send_static(b"bye").await;
        }),
        path @ ("/events" | "/stubborn") => {
            let is_stubborn = path == "/stubborn";
            let mut guard = Guard(seen, false);
            let mut events = req.events(EventsConfig { heartbeat: None })?;
            events.comment("here").await?;
            if is_stubborn {
                sleep(Duration::from_secs(3_600)).await;
            }
            while events.wait(sleep(Duration::from_secs(3_600))).await?.is_some() {}
            guard.1 = true;
            events.finish().await
        }
        _ => Ok(Response::text("fine")),
    }
}

fn start(seen: &Arc<Seen>) -> Result<Running> {
    let (seen, hub) = (Arc::clone(seen), Hub::new(HubConfig::default()).expect("there is room"));
    serve(config(), move |request: Request| answer(request, Arc::clone(&seen), hub.clone()))
}

/// Takes all memory.
fn fill() -> Vec<Lease> {
    let mut held = crate::rig::memory::fill(1);
    held.extend(pool().try_acquire(64, plimsoll_runtime::Kind::Buffers));
    // But for what one WebSocket works with: it says its last words with that.
    if let Some(at) = held.iter().position(|lease| lease.class().bytes() == 512) {
        held.swap_remove(at);
    }
    held
}

/// Has a request wait for memory until so many were told, and some time on; how many were told.
async fn want(running: &Running, more: Duration) -> Result<u64> {
    let mut waiting = TcpStream::connect(running.address).await?;
    waiting.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
    crate::rig::read(&mut waiting, Some(b"fine")).await?;
    let held = fill();
    waiting.send_static(b"GET /waits HTTP/1.1\r\nHost: h\r\n\r\n").await?;
    let told = || running.counters.totals().shed_total[Shed::Lasting as usize];
    until("somebody is told", || told() > 0).await;
    sleep(more).await;
    drop(held);
    assert!(
        crate::rig::read(&mut waiting, Some(b"fine")).await?.starts_with("HTTP/1.1 200 "),
        "it has waited, and is served"
    );
    Ok(told())
}

/// Those that were begun have ended as they should.
fn assert_finished(running: &Running) {
    let totals = running.counters.totals();
    for how in [ExchangeEnd::Overstay, ExchangeEnd::Timeout] {
        assert_eq!(totals.exchanges_ended_total[how as usize], 0, "{totals:?}");
    }
    assert_eq!(totals.shed_total[Shed::Overstay as usize], 0, "{totals:?}");
}

/// A WebSocket that is open: a message comes back.
async fn say(client: &mut Client) -> Result<()> {
    client.send(&crate::rig::websocket::frame(true, Opcode::Binary, b"there?")).await?;
    assert_eq!(client.next().await?, Got::Binary(b"there?".to_vec()));
    Ok(())
}

async fn websockets(path: &'static str, count: usize) -> Result<()> {
    let seen = Arc::new(Seen::default());
    let running = start(&seen)?;
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::open(running.address, path).await?);
    }
    if path != "/hub" {
        // The last is open on the server's side, too.
        say(clients.last_mut().expect("some")).await?;
    } else {
        sleep(Duration::from_millis(50)).await;
    }
    let told = want(&running, Duration::ZERO).await? as usize;
    assert!((1..count / 2).contains(&told), "{told} of {count}");
    for (at, client) in clients.iter_mut().enumerate() {
        if at >= count - told {
            assert_eq!(client.next().await?, Got::Close(Some(CloseCode::TRY_LATER)), "{at} of {count}, {told} told");
            client.send(&crate::rig::websocket::close(1_013)).await?;
            assert_eq!(client.next().await?, Got::End, "in an orderly way");
        } else if at % 50 == 0 && path != "/hub" {
            say(client).await?;
        }
    }
    drop(clients.split_off(count - told));
    if path != "/hub" {
        until("their handlers know", || seen.no_room.load(Ordering::Relaxed) as usize >= told).await;
        assert_eq!(seen.no_room.load(Ordering::Relaxed) as usize, told, "and no others");
    }
    assert_finished(&running);
    drop(clients);
    running.stop().await
}

#[test]
fn a_websocket_with_a_handler_hears_1013() {
    on_each_under("called", LINE, async || websockets("/called", 700).await);
}

#[test]
fn a_websocket_with_a_task_hears_1013() {
    on_each_under("task", LINE, async || websockets("/task", 450).await);
}

#[test]
fn a_member_of_a_hub_hears_1013() {
    on_each_under("hub", LINE, async || websockets("/hub", 500).await);
}

async fn open_events(address: SocketAddr, path: &str, first: Option<&[u8]>) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.send_bytes(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).await?;
    match first {
        Some(first) => assert!(crate::rig::read(&mut stream, Some(first)).await?.starts_with("HTTP/1.1 200 ")),
        None => drop(read_head(&mut stream, "200").await?),
    }
    Ok(stream)
}

/// Streams of events whose client sees the whole answer; how many of the handlers were dropped.
async fn streams_of_events(path: &'static str, count: usize, more: Duration) -> Result<(u64, u64)> {
    let seen = Arc::new(Seen::default());
    let running = start(&seen)?;
    let mut clients = Vec::new();
    let first = (path != "/hub-events").then_some(&b": here\n\n\r\n"[..]);
    for _ in 0..count {
        clients.push(open_events(running.address, path, first).await?);
    }
    let told = want(&running, more).await?;
    assert!((1..count as u64).contains(&told), "{told} of {count}");
    for client in clients.iter_mut().rev().take(told as usize) {
        // All that still comes is the last chunk.
        assert_eq!(crate::rig::read(client, Some(b"0\r\n\r\n")).await?, "0\r\n\r\n");
    }
    assert_finished(&running);
    drop(clients);
    let dropped = seen.dropped.load(Ordering::Relaxed);
    running.stop().await?;
    Ok((told, dropped))
}

#[test]
fn a_stream_of_events_gets_its_end() {
    on_each_under("events", LINE, async || {
        let (_, dropped) = streams_of_events("/events", 80, Duration::ZERO).await?;
        assert_eq!(dropped, 0, "their handlers have ended them");
        Ok(())
    });
}

#[test]
fn a_stream_of_events_whose_handler_does_not_listen_gets_its_end() {
    on_each_under("stubborn", LINE, async || {
        let (told, dropped) = streams_of_events("/stubborn", 120, Duration::from_millis(1_300)).await?;
        assert!((1..=told).contains(&dropped), "{dropped} of {told}");
        Ok(())
    });
}

#[test]
fn a_stream_of_events_of_a_hub_gets_its_end() {
    on_each_under("events of a hub", LINE, async || {
        streams_of_events("/hub-events", 500, Duration::ZERO).await.map(drop)
    });
}

#[test]
fn what_left_http_is_asked_to_end() {
    on_each_under("upgrade", LINE, async || {
        let running = start(&Arc::default())?;
        let mut clients = Vec::new();
        for _ in 0..300 {
            let mut stream = TcpStream::connect(running.address).await?;
            let head = b"GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: wait/1\r\n\r\n";
            stream.send_static(head).await?;
            read_head(&mut stream, "101").await?;
            clients.push(stream);
        }
        let told = want(&running, Duration::ZERO).await? as usize;
        assert!((1..clients.len()).contains(&told), "{told}");
        for client in clients.iter_mut().rev().take(told) {
            assert_eq!(crate::rig::read(client, None).await?, "bye");
        }
        assert_finished(&running);
        drop(clients);
        running.stop().await
    });
}

/// Streams of events on HTTP/2: of handlers that end them, and of others, END_STREAM and no reset.
async fn streams_of_http2(path: &str, more: Duration) -> Result<()> {
    let running = start(&Arc::default())?;
    let mut client = frames::Client::connect(running.address, &[]).await?;
    const STREAMS: u32 = 60;
    for at in 0..STREAMS {
        client.send(&frames::get(2 * at + 1, path)).await?;
        client.next_of(frames::HEADERS).await?;
        let data = client.next_of(frames::DATA).await?;
        assert!(!data.ends_stream());
    }
    let told = want(&running, more).await?;
    assert!((1..u64::from(STREAMS)).contains(&told), "{told}");
    let is_ended = |frame: &frames::Frame| frame.ends_stream();
    let frames =
        client.frames_until(|frames| frames.iter().filter(|frame| is_ended(frame)).count() as u64 >= told).await?;
    assert!(frames.iter().all(|frame| frame.kind != frames::RST_STREAM), "{path}: {frames:?}");
    let is_newest = |at: &u32| u64::from(STREAMS - at) <= told;
    let ended: Vec<u32> = (0..STREAMS).filter(|at| frames::is_ended(&frames, 2 * at + 1)).collect();
    assert_eq!(ended, (0..STREAMS).filter(is_newest).collect::<Vec<_>>(), "{path}: {told} told");
    assert_finished(&running);
    drop(client);
    running.stop().await
}

#[test]
fn a_stream_of_events_on_http2_gets_its_end() {
    on_each_under("events on HTTP/2", LINE, async || streams_of_http2("/events", Duration::ZERO).await);
}

#[test]
fn a_stream_of_events_on_http2_whose_handler_does_not_listen_gets_its_end() {
    on_each_under("stubborn on HTTP/2", LINE, async || {
        streams_of_http2("/stubborn", Duration::from_millis(1_300)).await
    });
}

/// WebSockets on streams of HTTP/2 (RFC 8441), of these two paths in turns.
async fn websockets_on_streams(paths: [&str; 2]) -> Result<()> {
    let seen = Arc::new(Seen::default());
    let running = start(&seen)?;
    let mut client = frames::Client::connect(running.address, &[]).await?;
    const STREAMS: u32 = 90;
    for at in 0..STREAMS {
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "h"),
            (":path", paths[at as usize % 2]),
            ("sec-websocket-version", "13"),
        ];
        let head = frames::frame(frames::HEADERS, frames::END_HEADERS, 2 * at + 1, &frames::block(&fields));
        client.send(&head).await?;
        assert!(client.next_of(frames::HEADERS).await?.has_status(200));
    }
    sleep(Duration::from_millis(50)).await;
    let told = want(&running, Duration::ZERO).await?;
    assert!((1..u64::from(STREAMS)).contains(&told), "{told}");
    let closed =
        |frames: &[frames::Frame]| frames.iter().filter(|frame| frame.payload == [0x88, 2, 0x03, 0xF5]).count() as u64;
    let frames = client.frames_until(|frames| closed(frames) >= told).await?;
    assert_eq!(closed(&frames), told, "{frames:?}");
    assert_finished(&running);
    drop(client);
    if paths[0] != "/hub" {
        until("their handlers know", || seen.no_room.load(Ordering::Relaxed) >= told).await;
        assert_eq!(seen.no_room.load(Ordering::Relaxed), told, "and no others");
    }
    running.stop().await
}

#[test]
fn a_websocket_on_a_stream_hears_1013() {
    on_each_under("WebSockets on HTTP/2", LINE, async || websockets_on_streams(["/called", "/task"]).await);
}

#[test]
fn a_member_of_a_hub_on_a_stream_hears_1013() {
    on_each_under("members on HTTP/2", LINE, async || websockets_on_streams(["/hub", "/hub"]).await);
}

/// A WebSocket that waits for memory, as it does on each protocol.
enum Waiting {
    Own(Client),
    OnStream(End),
}

impl Waiting {
    async fn open(address: SocketAddr, path: &str, is_on_stream: bool) -> Result<Self> {
        let mut opened = match is_on_stream {
            true => Self::OnStream(End::open(address, path).await?),
            false => Self::Own(Client::open(address, path).await?),
        };
        opened.say(1).await?;
        assert_eq!(opened.next().await?, Got::Binary(vec![b'm']));
        Ok(opened)
    }

    /// Says so many bytes. They live for ever, and need no memory of the line.
    async fn say(&mut self, bytes: usize) -> Result<()> {
        let message = crate::rig::websocket::frame(true, Opcode::Binary, &vec![b'm'; bytes]);
        match self {
            Self::Own(client) => client.stream.send_static(Vec::leak(message)).await,
            Self::OnStream(end) => end.send_static(&message).await,
        }
    }

    async fn next(&mut self) -> Result<Got> {
        match self {
            Self::Own(client) => client.next().await,
            Self::OnStream(end) => end.next().await,
        }
    }
}

/// Not only for requests: also for a message that is to be received, an answer of a handler, what a task sends.
#[test]
fn others_are_told_for_a_websocket_that_waits() {
    on_each_under("a WebSocket waits", LINE, async || {
        const COUNT: usize = 450;
        let seen = Arc::new(Seen::default());
        let running = start(&seen)?;
        let mut waiting = Vec::new();
        for path in ["/called", "/task", "/sends"] {
            for is_on_stream in [false, true] {
                waiting.push((path, is_on_stream, Waiting::open(running.address, path, is_on_stream).await?));
            }
        }
        let (mut others, mut idles) = (Vec::new(), Vec::new());
        for _ in 0..COUNT {
            others.push(Client::open(running.address, "/task").await?);
        }
        let told = || running.counters.totals().shed_total[Shed::Lasting as usize];
        for (path, is_on_stream, one) in &mut waiting {
            let (held, before) = loop {
                let (held, before) = (crate::line::fill().await, told());
                if *path == "/sends" {
                    seen.sends.fetch_add(1, Ordering::Relaxed);
                    break (held, before);
                }
                match one.say(100).await {
                    Ok(()) => break (held, before),
                    // The client's own send has no slot: its memory is the same. One that waits makes a page of them.
                    Err(plimsoll_runtime::Error::OverBudget(_)) => {
                        drop(held);
                        let mut idle = TcpStream::connect(running.address).await?;
                        let _nothing_comes = timeout(Duration::from_millis(1), idle.recv()).await;
                        idles.push(idle);
                    }
                    Err(error) => return Err(error),
                }
            };
            let what = format!("others are told: {path}, on a stream: {is_on_stream}");
            until(&what, || told() > before).await;
            drop(held);
            assert_eq!(one.next().await?, Got::Binary(vec![b'm'; 100]), "{what}");
        }
        drop((waiting, others, idles));
        running.stop().await
    });
}

/// Its handler waits in the queue of the pool.
#[test]
fn others_are_told_for_a_body_that_is_collected() {
    const BODY: &[u8] = &[b'b'; 20_000];
    on_each_under("a body waits", LINE, async || {
        let seen = Arc::new(Seen::default());
        let running = start(&seen)?;
        let mut others = Vec::new();
        for _ in 0..450 {
            others.push(Client::open(running.address, "/task").await?);
        }
        let mut client = TcpStream::connect(running.address).await?;
        client.send_static(b"POST /collect HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\n\r\n").await?;
        let begun = || running.counters.totals().exchanges_begun_total;
        until("its handler runs", || begun() == 451).await;
        let held = crate::line::fill().await;
        let told = || running.counters.totals().shed_total[Shed::Lasting as usize];
        assert_eq!(told(), 0, "nobody waits");
        seen.sends.fetch_add(1, Ordering::Relaxed);
        until("others are told", || told() > 0).await;
        drop(held);
        client.send_static(BODY).await?;
        let answer = crate::rig::read(&mut client, Some(b"20000")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        drop((client, others));
        running.stop().await
    });
}
