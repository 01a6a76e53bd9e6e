//! HTTP/2 connections that find no room in memory: what waits, what is refused, and that nothing else suffers. In the simulation, whose line is filled
//! to the last byte and whose time is cheap.

#![forbid(unsafe_code)]

mod rig;

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Config, Error, Request, Response};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, Lease, Result, pool, sleep, timeout};

use rig::frames::{
    Client, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get,
    request,
};
use rig::{in_simulation, serve};

/// Takes all memory but less than `left` bytes in one piece.
fn fill(left: usize) -> Vec<Lease> {
    let mut held = Vec::new();
    let mut bytes = 128 * 1_024;
    while bytes >= left {
        match pool().try_acquire(bytes, Kind::Buffers) {
            Ok(lease) => held.push(lease),
            Err(_) => bytes /= 2,
        }
    }
    held
}

/// `/quick` answers at once, `/large` with more than the output holds; `/wait/N` waits for the gate and answers with N bytes of fields; `/body` does so and counts its
/// body.
fn gated(gate: &Arc<AtomicBool>) -> impl Fn(Request) -> BoxedAnswer + Clone + Send + 'static {
    let gate = Arc::clone(gate);
    move |mut req: Request| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            if let Some(bytes) = req.path().strip_prefix("/wait/") {
                let bytes: usize = bytes.parse().unwrap_or(0);
                let mut response = Response::text("waited");
                for part in 0..bytes.div_ceil(1_000) {
                    response = response.header(&format!("x-{part}"), vec![b'v'; 1_000.min(bytes)]);
                }
                while !gate.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(1)).await;
                }
                return Ok(response);
            }
            if req.path() == "/body" {
                while !gate.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(1)).await;
                }
                let mut bytes = 0;
                while let Some(chunk) = req.chunk().await? {
                    bytes += chunk.len();
                }
                return Ok(Response::text(bytes.to_string()));
            }
            if req.path() == "/large" {
                return Ok(Response::text(vec![b'l'; 2 << 20]));
            }
            Ok(Response::text("quick"))
        })
    }
}

type BoxedAnswer = core::pin::Pin<Box<dyn Future<Output = core::result::Result<Response, Error>>>>;

fn config() -> Config {
    Config { memory_timeout: Duration::from_secs(2), ..Config::default() }
}

/// What comes within a while.
async fn frames(client: &mut Client, within: Duration) -> Result<Vec<Frame>> {
    let mut all = Vec::new();
    while let Ok(frame) = timeout(within, client.frame()).await {
        match frame? {
            Some(frame) => all.push(frame),
            None => break,
        }
    }
    Ok(all)
}

fn is_ended(frames: &[Frame], stream: u32) -> bool {
    frames.iter().any(|frame| frame.stream == stream && frame.kind <= HEADERS && frame.flags & END_STREAM != 0)
}

#[test]
fn an_answer_waits_for_room_and_its_connection_lives() {
    in_simulation("an answer waits", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait/0"), get(3, "/wait/6000"), get(5, "/quick")].concat()).await?;
        assert_eq!(client.body(5).await?, b"quick");
        let held = fill(1);
        gate.store(true, Ordering::Relaxed);
        // Both answers find no room.
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().shed_total.iter().sum::<u64>(), 0, "nothing is shed");
        drop(held);
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        assert!(got.iter().all(|frame| !matches!(frame.kind, GOAWAY | RST_STREAM)), "{got:?}");
        client.send(&get(7, "/quick")).await?;
        assert_eq!(client.body(7).await?, b"quick");
        drop(client);
        server.stop().await
    });
}

#[test]
fn after_the_timeout_the_request_is_told_and_the_others_go_on() {
    in_simulation("an answer waits in vain", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait/6000"), get(3, "/wait/0")].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        // There is room for something small.
        let held = fill(4_096);
        gate.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(4)).await;
        let told = server.counters.totals().responses_total;
        drop(held);
        assert!(told.contains(&(503, 1)) && told.contains(&(200, 1)), "{told:?}");
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        let refused = got.iter().find(|frame| frame.kind == HEADERS && frame.stream == 1).expect("an answer");
        assert!(refused.payload.windows(3).any(|status| status == b"503"), "{refused:?}");
        client.send(&get(5, "/quick")).await?;
        assert_eq!(client.body(5).await?, b"quick");
        drop(client);
        server.stop().await
    });
}

#[test]
fn without_any_room_for_long_the_connection_ends_with_a_goaway() {
    in_simulation("nothing can be told", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/wait/0")).await?;
        sleep(Duration::from_millis(10)).await;
        let held = fill(1);
        gate.store(true, Ordering::Relaxed);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(server.counters.totals().active, 0, "nobody waits for ever");
        drop(held);
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        let last = got.last().expect("it is told");
        assert_eq!((last.kind, &last.payload[..4]), (GOAWAY, &[0, 0, 0, 1][..]), "{got:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_new_stream_waits_alone_and_is_refused_beside_others() {
    in_simulation("a new stream", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut busy = Client::connect(server.address, &[]).await?;
        let mut idle = Client::connect(server.address, &[]).await?;
        busy.send(&get(1, "/wait/0")).await?;
        idle.send(&get(1, "/quick")).await?;
        assert_eq!(idle.body(1).await?, b"quick");
        // Room for what is said, and not for a request.
        let held = fill(4_096);
        idle.send(&get(3, "/quick")).await?;
        busy.send(&get(3, "/quick")).await?;
        sleep(Duration::from_millis(500)).await;
        let served = server.counters.totals().http2_requests_total;
        drop(held);
        assert_eq!(served, 2, "neither was begun");
        assert_eq!(idle.body(3).await?, b"quick", "it has waited");
        let refused = busy.next_of(RST_STREAM).await?;
        assert_eq!((refused.stream, &refused.payload[..]), (3, &[0, 0, 0, 7][..]), "REFUSED_STREAM");
        // Being refused so often is not the client's fault.
        let held = fill(4_096);
        for stream in (5..605).step_by(2) {
            busy.send(&get(stream, "/quick")).await?;
            sleep(Duration::from_millis(1)).await;
        }
        drop(held);
        gate.store(true, Ordering::Relaxed);
        let got = frames(&mut busy, Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1), "{:?}", got.last());
        assert!(got.iter().all(|frame| frame.kind != GOAWAY), "{:?}", got.last());
        drop((busy, idle));
        server.stop().await
    });
}

#[test]
fn a_body_waits_for_room() {
    in_simulation("a body waits", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&request(1, "POST", "/body", &[], 0)).await?;
        client.send(&frame(DATA, 0, 1, &[b'b'; 1_000])).await?;
        sleep(Duration::from_millis(10)).await;
        // Room for what a client has to send and for what cannot be taken, and not for much more of the body.
        let spare = [512, 1_024, 1_024, 2_048].map(|bytes| pool().try_acquire(bytes, Kind::Buffers).expect("room"));
        let held = fill(1);
        drop(spare);
        for _ in 0..8 {
            client.send(&frame(DATA, 0, 1, &[b'b'; 900])).await?;
            // What was armed while there was room takes all that is there at once.
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(500)).await;
        gate.store(true, Ordering::Relaxed);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(server.counters.totals().responses_total, [], "it is not answered before its end");
        drop(held);
        client.send(&frame(DATA, END_STREAM, 1, &[b'b'; 1_000])).await?;
        assert_eq!(client.body(1).await?, b"9200");
        drop(client);
        server.stop().await
    });
}

/// The value of a setting in a frame.
fn setting(frame: &Frame, name: u8) -> Option<u32> {
    let entry = frame.payload.chunks(6).find(|entry| entry[..2] == [0, name])?;
    Some(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
}

#[test]
fn settings_are_lower_while_memory_is_short_and_restored_then() {
    in_simulation("settings", async || {
        let gate = Arc::new(AtomicBool::new(true));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        let first = client.next_of(SETTINGS).await?;
        assert_eq!((setting(&first, 3), setting(&first, 4)), (Some(128), Some(16_384)));
        let mut held = Vec::new();
        while pool().budget().level() < Level::Orange {
            held.push(pool().try_acquire(128 * 1_024, Kind::Buffers).expect("the level changes before the line"));
            sleep(Duration::from_millis(1)).await;
        }
        let upload = |stream| [request(stream, "POST", "/body", &[], 0), frame(DATA, 0, stream, &[b'u'; 2_000])];
        client.send(&upload(1).concat()).await?;
        let lower = loop {
            let settings = client.next_of(SETTINGS).await?;
            if setting(&settings, 3).is_some() {
                break settings;
            }
        };
        assert_eq!((setting(&lower, 3), setting(&lower, 4)), (Some(16), Some(4_096)));
        client.send(&frame(SETTINGS, 1, 0, &[])).await?;
        let mut other = Client::connect(server.address, &[]).await?;
        let first = other.next_of(SETTINGS).await?;
        assert_eq!((setting(&first, 3), setting(&first, 4)), (Some(16), Some(4_096)), "from the first on");
        drop(held);
        // The stream goes on, and a body that needs many of the small windows comes to its end.
        let restored = client.next_of(SETTINGS).await?;
        assert_eq!((setting(&restored, 3), setting(&restored, 4)), (Some(128), Some(16_384)));
        client.send(&frame(SETTINGS, 1, 0, &[])).await?;
        client.send(&frame(DATA, END_STREAM, 1, &[b'u'; 14_000])).await?;
        assert_eq!(client.body(1).await?, b"16000");
        drop((client, other));
        server.stop().await
    });
}

#[test]
fn fields_that_are_too_long_cost_their_own_answer_alone() {
    in_simulation("long fields", async || {
        let gate = Arc::new(AtomicBool::new(true));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait/17000"), get(3, "/quick")].concat()).await?;
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        let failed = got.iter().find(|frame| frame.kind == HEADERS && frame.stream == 1).expect("an answer");
        // :status 500 of the static table.
        assert_eq!((failed.payload[0], failed.flags), (0x8e, END_HEADERS | END_STREAM), "{failed:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_request_of_a_parked_connection_waits_at_the_line() {
    in_simulation("a parked connection", async || {
        let gate = Arc::new(AtomicBool::new(true));
        // A quarter of that while memory is short: it is over before the request comes.
        let config = Config { keep_alive_timeout: Duration::from_secs(10), ..config() };
        let server = serve(config, gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/quick")).await?;
        assert_eq!(client.body(1).await?, b"quick");
        // Its tables are packed.
        sleep(Duration::from_secs(5)).await;
        let spare = [64, 1_024, 4_096].map(|bytes| pool().try_acquire(bytes, Kind::Buffers).expect("room"));
        let held = fill(1);
        drop(spare);
        client.send(&get(3, "/quick")).await?;
        let rest = fill(1);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.counters.totals().http2_requests_total, 1);
        drop((held, rest));
        assert_eq!(client.body(3).await?, b"quick");
        drop(client);
        server.stop().await
    });
}

#[test]
fn an_answer_that_waits_behind_full_output_is_woken() {
    in_simulation("behind full output", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(Config { output_bytes_max: 4_096, ..config() }, gated(&gate))?;
        // With windows as large as they can be.
        let mut client = Client::connect(server.address, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
        client.send(&frame(WINDOW_UPDATE, 0, 0, &[0x70, 0, 0, 0])).await?;
        client.send(&[get(1, "/wait/0"), get(3, "/wait/0"), get(5, "/large")].concat()).await?;
        // The client reads nothing yet: one send is blocked, and then as much as may be is gathered behind it.
        sleep(Duration::from_millis(50)).await;
        client.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])).await?;
        sleep(Duration::from_millis(50)).await;
        let held = fill(1);
        gate.store(true, Ordering::Relaxed);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().responses_total, [(200, 1)], "one answer has begun");
        drop(held);
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        assert!([1, 3, 5].into_iter().all(|stream| is_ended(&got, stream)), "{:?}", got.last());
        assert_eq!(server.counters.totals().responses_total, [(200, 3)]);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_stream_whose_head_comes_in_parts_is_refused_once_and_not_if_there_is_room_at_its_end() {
    in_simulation("a head in parts", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/wait/0")).await?;
        sleep(Duration::from_millis(10)).await;
        let shed = |server: &rig::Running| server.counters.totals().shed_total.iter().sum::<u64>();
        for (stream, has_room) in [(3, false), (5, true)] {
            let head = get(stream, "/quick");
            // Room for what is received and said, and not for a request.
            let spare = [64, 512, 1_024, 1_024, 1_024, 2_048].map(|len| pool().try_acquire(len, Kind::Buffers));
            let mut held = fill(1);
            drop(spare);
            for at in 0..head.len() - 1 {
                client.send(&head[at..=at]).await?;
                sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(shed(&server), u64::from(has_room), "nothing is refused before it is whole");
            if has_room {
                held.clear();
                sleep(Duration::from_millis(5)).await;
            }
            client.send(&head[head.len() - 1..]).await?;
            sleep(Duration::from_millis(50)).await;
        }
        assert_eq!((shed(&server), server.counters.totals().http2_requests_total), (1, 2));
        gate.store(true, Ordering::Relaxed);
        let got = frames(&mut client, Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 5) && !is_ended(&got, 3), "{got:?}");
        let refused = got.iter().find(|frame| frame.kind == RST_STREAM).expect("one is refused");
        assert_eq!((refused.stream, &refused.payload[..]), (3, &[0, 0, 0, 7][..]), "REFUSED_STREAM");
        drop(client);
        server.stop().await
    });
}

#[test]
fn windows_that_come_while_answers_wait_need_no_memory() {
    in_simulation("windows at the line", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(config(), gated(&gate))?;
        // More than an address may have of what is spared for those who wait.
        let mut clients = Vec::new();
        for _ in 0..8 {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&[get(1, "/wait/6000"), get(3, "/quick")].concat()).await?;
            assert_eq!(client.body(3).await?, b"quick");
            clients.push(client);
        }
        sleep(Duration::from_millis(10)).await;
        let spare = pool().try_acquire(64, Kind::Buffers);
        let mut held = fill(1);
        gate.store(true, Ordering::Relaxed);
        for _ in 0..20 {
            sleep(Duration::from_millis(2)).await;
            held.extend(fill(1));
        }
        drop(spare);
        for client in &mut clients {
            client.send(&frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])).await?;
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(server.counters.totals().shed_total.iter().sum::<u64>(), 0, "nothing is lost");
        drop(held);
        for client in &mut clients {
            let got = frames(client, Duration::from_secs(1)).await?;
            assert!(is_ended(&got, 1), "{:?}", got.last());
        }
        drop(clients);
        server.stop().await
    });
}
