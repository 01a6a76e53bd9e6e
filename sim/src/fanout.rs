//! A hub in a simulated world: WebSockets and streams of events that read at their own pace, go away, or do not read at
//! all, while workers publish.
//!
//! What a member gets is whole messages, in the order of their numbers, and by its hub's policy: without a gap where
//! the slow are closed; the beginning without a gap where the newest are dropped. In a clean world, one that misses
//! nothing by the hub's own count has all that was published while it was there. In the end no message is held.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll::http::{Config, Event, Hub, HubConfig, Request, Server, SlowConsumer};
use plimsoll::net::TcpStream;
use plimsoll::{Spawner, sleep, spawn, spawn_on, timeout, workers};
use plimsoll_codec::ws::{Decoder, Event as Frame, Limits, Role};

use crate::plan::Rng;
use crate::world::{self, Outcome, World};

/// What a client does.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_socket: bool,
    read_pause: Duration,
    drop_after: Option<usize>,
    late: Duration,
}

/// Runs a seed. Two runs of a seed have the same outcome.
///
/// # Panics
///
/// When something does not hold that must.
pub fn run(seed: u64) -> Outcome {
    let workers = if seed.is_multiple_of(3) { 2 } else { 1 };
    world::run(seed, workers, |world, rng| Box::pin(scenario(world, rng)))
}

/// The text of a message, by its number: a few bytes to some thousand.
fn text(number: u64) -> String {
    let bytes = (number as usize * 7_919) % 4_000;
    format!("{number} {}", "m".repeat(bytes))
}

async fn scenario(world: World, mut rng: Rng) -> String {
    let slow = rng.pick(&[SlowConsumer::DropNewest, SlowConsumer::DropOldest, SlowConsumer::Close]);
    let queue_messages_max = rng.pick(&[1, 3, 16, 200]);
    let hub = Hub::new(HubConfig { slow, queue_messages_max, ..HubConfig::default() }).expect("there is room");
    let server = Server::bind("127.0.0.1:80")
        .expect("the address is free")
        .config(Config { drain_timeout: Duration::from_secs(20), ..Config::default() });
    let (address, members) = (server.local_addr(), hub.clone());
    let serving =
        spawn(server.serve(move |request: Request| {
            let hub = members.clone();
            async move {
                if request.path() == "/ws" { hub.join_websocket(&request) } else { hub.join_events(request).await }
            }
        }));
    let serving = serving.expect("there is room");
    sleep(Duration::from_millis(5)).await;
    let mut clients = Vec::new();
    for _ in 0..rng.between(1, 6) {
        let plan = Plan {
            is_socket: rng.below(2) == 0,
            read_pause: Duration::from_micros(rng.pick(&[0, 0, 0, 200, 5_000, 200_000])),
            drop_after: (rng.below(6) == 0).then(|| rng.below(20_000) as usize),
            late: Duration::from_micros(rng.pick(&[0, 0, 3_000])),
        };
        clients.push((plan, spawn(listen(address, plan)).expect("there is room")));
    }
    // Most have joined by then.
    sleep(Duration::from_millis(2)).await;
    let joined = hub.stats().members;
    let published = publish(&hub, &mut rng).await;
    sleep(Duration::from_millis(rng.below(40))).await;
    Spawner::current().stop();
    timeout(Duration::from_secs(60), serving)
        .await
        .expect("a stop ends within the drain time")
        .expect("the server does not panic")
        .expect("the server does not fail");
    let mut got_all = 0;
    for (plan, client) in clients {
        let bytes = timeout(Duration::from_secs(900), client).await.expect("a client ends").expect("no panic");
        let numbers = judge(plan, &bytes, slow, hub.stats().closed_slow_total > 0);
        got_all += usize::from(numbers.len() as u64 == published);
        let stats = hub.stats();
        let is_whole = world.is_clean && plan.drop_after.is_none() && plan.late.is_zero();
        // What waits at the stop is dropped; one that reads at once has nothing waiting by then, or very little.
        if is_whole && plan.read_pause.is_zero() && stats.dropped_total == 0 && stats.closed_slow_total == 0 {
            let last = numbers.last().copied().unwrap_or(0);
            let first = numbers.first().copied().unwrap_or(1);
            assert_eq!(numbers.len() as u64, (last + 1).saturating_sub(first), "a gap: {numbers:?} of {published}");
        }
    }
    sleep(Duration::from_secs(30)).await;
    let stats = hub.stats();
    assert_eq!((stats.members, stats.held_messages, stats.held_bytes), (0, 0, 0), "nothing is left");
    assert_eq!(stats.published_total, published);
    format!("{joined} joined early, {published} published, {got_all} got all, {} dropped", stats.dropped_total)
}

/// Publishes on all workers; how many messages.
async fn publish(hub: &Hub, rng: &mut Rng) -> u64 {
    let each = rng.between(1, 60);
    let pause = Duration::from_micros(rng.pick(&[0, 30, 700]));
    let mut publishers = Vec::new();
    for worker in 0..workers() {
        let hub = hub.clone();
        let publisher = spawn_on(worker, move || async move {
            for _ in 0..each {
                // No two publish between these lines: a world has one thread.
                let number = hub.stats().published_total + 1;
                assert_eq!(hub.publish(&Event::data(&text(number))).expect("there is room"), number);
                sleep(pause).await;
            }
        });
        publishers.push(publisher.expect("there is room"));
    }
    let mut published = 0;
    for publisher in publishers {
        publisher.await.expect("a publisher ends");
        published += each;
    }
    published
}

/// All that a client received.
async fn listen(address: SocketAddr, plan: Plan) -> Vec<u8> {
    sleep(plan.late).await;
    let Ok(Ok(mut stream)) = timeout(Duration::from_secs(20), TcpStream::connect(address)).await else {
        return Vec::new();
    };
    let request: &'static [u8] = if plan.is_socket {
        b"GET /ws HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    } else {
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
    };
    let mut bytes = Vec::new();
    if stream.send_static(request).await.is_err() {
        return bytes;
    }
    while plan.drop_after.is_none_or(|enough| bytes.len() < enough) {
        match timeout(Duration::from_secs(120), stream.recv()).await {
            Ok(Ok(Some(lease))) => bytes.extend_from_slice(&lease),
            _ => break,
        }
        sleep(plan.read_pause).await;
    }
    bytes
}

/// The numbers that a client got; panics when they are not what its policy allows.
fn judge(plan: Plan, bytes: &[u8], slow: SlowConsumer, closed: bool) -> Vec<u64> {
    let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Vec::new() };
    let status = if plan.is_socket { "HTTP/1.1 101 " } else { "HTTP/1.1 200 " };
    if !bytes.starts_with(status.as_bytes()) {
        // No room, or the stop.
        return Vec::new();
    }
    let rest = &bytes[at + 4..];
    let texts = if plan.is_socket { messages(rest) } else { events(rest) };
    let number = |text: &String| {
        let number = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
        assert_eq!(*text, self::text(number), "a whole message");
        number
    };
    let numbers: Vec<u64> = texts.iter().map(number).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "in order: {numbers:?}");
    if slow == SlowConsumer::Close {
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no gap: {numbers:?}, closed {closed}");
    }
    numbers
}

/// The whole messages of a WebSocket's bytes.
fn messages(bytes: &[u8]) -> Vec<String> {
    let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
    let (mut decoder, mut input) = (Decoder::new(Role::Client, limits), bytes.to_vec());
    let (mut texts, mut text) = (Vec::new(), Vec::new());
    loop {
        let decoded = decoder.decode(&mut input, 0).expect("a server keeps to the protocol");
        let taken: Vec<u8> = input.drain(..decoded.consumed).collect();
        match decoded.event {
            Frame::NeedMore | Frame::Close { .. } => return texts,
            Frame::Data(range) => text.extend_from_slice(&taken[range]),
            Frame::End => texts.push(String::from_utf8(core::mem::take(&mut text)).expect("UTF-8")),
            Frame::Begin { .. } | Frame::Ping(_) | Frame::Pong(_) => {}
        }
    }
}

/// The data of the whole chunks of a stream of events.
fn events(mut bytes: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") {
        let size = core::str::from_utf8(&bytes[..line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        let (start, end) = (line + 2, line + 2 + size);
        if size == 0 || bytes.len() < end + 2 {
            break;
        }
        let event = core::str::from_utf8(&bytes[start..end]).expect("UTF-8");
        if let Some(data) = event.strip_prefix("data: ") {
            texts.push(data.strip_suffix("\n\n").expect("a whole event in a chunk").to_owned());
        }
        bytes = &bytes[end + 2..];
    }
    texts
}
