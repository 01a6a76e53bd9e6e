//! HTTP/2 connections that find no room in memory: what waits, what is refused, and that nothing else suffers. In the
//! simulation, whose line is filled to the last byte and whose time is cheap.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Config, Error, Request, Response};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, Result, pool, sleep};

use crate::rig::frames::{
    ACK, Client, DATA, END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS,
    RST_STREAM, SETTINGS, frame, get, is_ended, request, window_update,
};
use crate::rig::memory::{fill, fill_but, fill_to};
use crate::rig::{Running, count_body, in_simulation, serve};

/// What handlers wait for.
#[derive(Clone, Default)]
struct Gate(Arc<AtomicBool>);

impl Gate {
    fn open(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    async fn opened(&self) {
        while !self.0.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// `/quick` answers at once, `/large` with more than the output holds; `/wait/N` waits for the gate and answers with N
/// bytes of fields; `/body` does so and counts its body.
async fn answer(mut req: Request, gate: Gate) -> Result<Response, Error> {
    if let Some(bytes) = req.path().strip_prefix("/wait/") {
        let bytes: usize = bytes.parse().unwrap_or(0);
        let mut response = Response::text("waited");
        for part in 0..bytes.div_ceil(1_000) {
            response = response.header(&format!("x-{part}"), vec![b'v'; 1_000.min(bytes)]);
        }
        gate.opened().await;
        return Ok(response);
    }
    match req.path() {
        "/body" => {
            gate.opened().await;
            Ok(Response::text(count_body(&mut req).await?.to_string()))
        }
        "/large" => Ok(Response::text(vec![b'l'; 2 << 20])),
        _ => Ok(Response::text("quick")),
    }
}

fn config() -> Config {
    Config { memory_timeout: Duration::from_secs(2), ..lends_nothing() }
}

/// A server whose handlers wait for the gate.
fn serve_gated(config: Config) -> Result<(Gate, Running)> {
    let gate = Gate::default();
    let handlers = gate.clone();
    // Boxed, outside of the pool: when a handler ends there is no room that was not there before.
    Ok((gate, serve(config, move |req| Box::pin(answer(req, handlers.clone())))?))
}

/// The same, and a client.
async fn begin(config: Config) -> Result<(Gate, Running, Client)> {
    let (gate, server) = serve_gated(config)?;
    let client = Client::connect(server.address, &[]).await?;
    Ok((gate, server, client))
}

/// The head of the answer on a stream.
fn head(frames: &[Frame], stream: u32) -> &Frame {
    frames.iter().find(|frame| frame.kind == HEADERS && frame.stream == stream).expect("an answer")
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn an_answer_waits_for_room_and_its_connection_lives() {
    in_simulation("an answer waits", async || {
        let (gate, server, mut client) = begin(config()).await?;
        client.send(&[get(1, "/wait/0"), get(3, "/wait/6000"), get(5, "/quick")].concat()).await?;
        assert_eq!(client.body(5).await?, b"quick");
        let held = fill(1);
        gate.open();
        // Both answers find no room.
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.shed(), 0, "nothing is shed");
        drop(held);
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        assert!(got.iter().all(|frame| !matches!(frame.kind, GOAWAY | RST_STREAM)), "{got:?}");
        assert_eq!(client.fetch(7, "/quick").await?, b"quick");
        drop(client);
        server.stop().await
    });
}

#[test]
fn after_the_timeout_the_request_is_told_and_the_others_go_on() {
    in_simulation("an answer waits in vain", async || {
        let (gate, server, mut client) = begin(config()).await?;
        client.send(&[get(1, "/wait/6000"), get(3, "/wait/0")].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        // There is room for something small.
        let held = fill(4_096);
        gate.open();
        sleep(Duration::from_secs(4)).await;
        let told = server.counters.totals().responses_total;
        drop(held);
        assert!(told.contains(&(503, 1)) && told.contains(&(200, 1)), "{told:?}");
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        assert!(head(&got, 1).has_status(503), "{got:?}");
        assert_eq!(client.fetch(5, "/quick").await?, b"quick");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_small_answer_needs_no_memory() {
    in_simulation("at the line", async || {
        let (gate, server, mut client) = begin(config()).await?;
        client.send(&get(1, "/wait/0")).await?;
        sleep(Duration::from_millis(10)).await;
        let held = fill(1);
        gate.open();
        sleep(Duration::from_millis(100)).await;
        let totals = server.counters.totals();
        drop(held);
        assert_eq!((totals.responses_total, totals.active), (vec![(200, 1)], 0), "it has left, and nobody waits");
        assert_eq!(client.body(1).await?, b"waited");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_new_stream_waits_and_being_refused_is_not_its_clients_fault() {
    in_simulation("a new stream", async || {
        let (gate, server) = serve_gated(config())?;
        let mut busy = Client::connect(server.address, &[]).await?;
        let mut idle = Client::connect(server.address, &[]).await?;
        busy.send(&get(1, "/wait/0")).await?;
        assert_eq!(idle.fetch(1, "/quick").await?, b"quick");
        // Room for what is said, and not for a request.
        let held = fill(4_096);
        idle.send(&get(3, "/quick")).await?;
        busy.send(&get(3, "/quick")).await?;
        sleep(Duration::from_millis(500)).await;
        let served = server.counters.totals().http2_requests_total;
        drop(held);
        assert_eq!(served, 2, "neither was begun");
        assert_eq!(idle.body(3).await?, b"quick", "it has waited");
        assert_eq!(busy.body(3).await?, b"quick", "so it has beside another");
        let held = fill(4_096);
        for stream in (5..605).step_by(2) {
            busy.send(&get(stream, "/quick")).await?;
            sleep(Duration::from_millis(1)).await;
        }
        drop(held);
        gate.open();
        let got = busy.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1), "{:?}", got.last());
        assert!(got.iter().all(|frame| frame.kind != GOAWAY), "{:?}", got.last());
        drop((busy, idle));
        server.stop().await
    });
}

#[test]
fn a_body_waits_for_room() {
    in_simulation("a body waits", async || {
        let (gate, server, mut client) = begin(config()).await?;
        client.send(&request(1, "POST", "/body", &[], 0)).await?;
        client.send(&frame(DATA, 0, 1, &[b'b'; 1_000])).await?;
        sleep(Duration::from_millis(10)).await;
        // Room for what a client has to send and for what cannot be taken, and not for much more of the body.
        let held = fill_but(&[512, 1_024, 1_024, 2_048]);
        for _ in 0..8 {
            client.send(&frame(DATA, 0, 1, &[b'b'; 900])).await?;
            // What was armed while there was room takes all that is there at once.
            sleep(Duration::from_millis(5)).await;
        }
        sleep(Duration::from_millis(500)).await;
        gate.open();
        sleep(Duration::from_millis(100)).await;
        assert_eq!(server.counters.totals().responses_total, [], "it is not answered before its end");
        drop(held);
        client.send(&frame(DATA, END_STREAM, 1, &[b'b'; 1_000])).await?;
        assert_eq!(client.body(1).await?, b"9200");
        drop(client);
        server.stop().await
    });
}

/// How many streams a client may have, and the window of each.
fn limits(settings: &Frame) -> (Option<u32>, Option<u32>) {
    (settings.setting(MAX_CONCURRENT_STREAMS), settings.setting(INITIAL_WINDOW_SIZE))
}

#[test]
fn settings_are_lower_while_memory_is_short_and_restored_then() {
    in_simulation("settings", async || {
        let (gate, server, mut client) = begin(config()).await?;
        gate.open();
        let first = client.next_of(SETTINGS).await?;
        assert_eq!(limits(&first), (Some(128), Some(16_384)));
        let held = fill_to(Level::Orange).await;
        let upload = |stream| [request(stream, "POST", "/body", &[], 0), frame(DATA, 0, stream, &[b'u'; 2_000])];
        client.send(&upload(1).concat()).await?;
        let lower = loop {
            let settings = client.next_of(SETTINGS).await?;
            if settings.setting(MAX_CONCURRENT_STREAMS).is_some() {
                break settings;
            }
        };
        assert_eq!(limits(&lower), (Some(16), Some(4_096)));
        client.send(&frame(SETTINGS, ACK, 0, &[])).await?;
        let mut other = Client::connect(server.address, &[]).await?;
        let first = other.next_of(SETTINGS).await?;
        assert_eq!(limits(&first), (Some(16), Some(4_096)), "from the first on");
        drop(held);
        // The stream goes on, and a body that needs many of the small windows comes to its end.
        let restored = client.next_of(SETTINGS).await?;
        assert_eq!(limits(&restored), (Some(128), Some(16_384)));
        client.send(&frame(SETTINGS, ACK, 0, &[])).await?;
        client.send(&frame(DATA, END_STREAM, 1, &[b'u'; 14_000])).await?;
        assert_eq!(client.body(1).await?, b"16000");
        drop((client, other));
        server.stop().await
    });
}

#[test]
fn fields_that_are_too_long_cost_their_own_answer_alone() {
    in_simulation("long fields", async || {
        let (gate, server, mut client) = begin(config()).await?;
        gate.open();
        client.send(&[get(1, "/wait/17000"), get(3, "/quick")].concat()).await?;
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{got:?}");
        let failed = head(&got, 1);
        assert_eq!((failed.has_status(500), failed.flags), (true, END_HEADERS), "its line follows: {failed:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_request_of_a_parked_connection_waits_at_the_line() {
    in_simulation("a parked connection", async || {
        // A quarter of that while memory is short: it is over before the request comes.
        let (_gate, server, mut client) =
            begin(Config { keep_alive_timeout: Duration::from_secs(10), ..config() }).await?;
        assert_eq!(client.fetch(1, "/quick").await?, b"quick");
        // Its tables are packed.
        sleep(Duration::from_secs(5)).await;
        let held = fill_but(&[64, 1_024, 4_096]);
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
        let (gate, server) = serve_gated(Config { output_bytes_max: 4_096, ..config() })?;
        // With windows as large as they can be.
        let mut client = Client::connect(server.address, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
        client.send(&window_update(0, 0x7000_0000)).await?;
        client.send(&[get(1, "/wait/0"), get(3, "/wait/0"), get(5, "/large")].concat()).await?;
        // The client reads nothing yet: one send is blocked, and then as much as may be is gathered behind it.
        sleep(Duration::from_millis(50)).await;
        client.send(&window_update(0, 1)).await?;
        sleep(Duration::from_millis(50)).await;
        let held = fill(1);
        gate.open();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().responses_total, [(200, 1)], "one answer has begun");
        drop(held);
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!([1, 3, 5].into_iter().all(|stream| is_ended(&got, stream)), "{:?}", got.last());
        assert_eq!(server.counters.totals().responses_total, [(200, 3)]);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_stream_whose_head_comes_in_parts_waits_from_its_end_on_and_not_if_there_is_room_then() {
    in_simulation("a head in parts", async || {
        let (gate, server, mut client) = begin(config()).await?;
        client.send(&get(1, "/wait/0")).await?;
        sleep(Duration::from_millis(10)).await;
        for (stream, has_room) in [(3, false), (5, true)] {
            let head = get(stream, "/quick");
            // Room for what is received and said, and not for a request.
            let pieces = [[64, 64, 128, 256], [512, 512, 512, 512], [1_024, 1_024, 1_024, 2_048]].concat();
            let mut held = fill_but(&pieces);
            for at in 0..head.len() - 1 {
                client.send(&head[at..=at]).await?;
                sleep(Duration::from_millis(5)).await;
            }
            assert_eq!(server.shed(), u64::from(has_room), "nothing is refused before it is whole");
            if has_room {
                held.clear();
                sleep(Duration::from_millis(5)).await;
            }
            client.send(&head[head.len() - 1..]).await?;
            sleep(Duration::from_millis(900)).await;
            assert_eq!(server.shed(), u64::from(has_room), "it waits from then on");
            sleep(Duration::from_millis(400)).await;
        }
        assert_eq!((server.shed(), server.counters.totals().http2_requests_total), (1, 2));
        gate.open();
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 5), "{got:?}");
        assert!(is_ended(&got, 3) && head(&got, 3).has_status(503), "{got:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn windows_that_come_while_answers_wait_need_no_memory() {
    in_simulation("windows at the line", async || {
        let (gate, server) = serve_gated(config())?;
        // More than an address may have of what is spared for those who wait.
        let mut clients = Vec::new();
        for _ in 0..8 {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&[get(1, "/wait/6000"), get(3, "/quick")].concat()).await?;
            assert_eq!(client.body(3).await?, b"quick");
            clients.push(client);
        }
        sleep(Duration::from_millis(10)).await;
        let spare = pool().try_acquire(64, Kind::Buffers).expect("there is room yet");
        let mut held = fill(1);
        gate.open();
        for _ in 0..20 {
            sleep(Duration::from_millis(2)).await;
            held.extend(fill(1));
        }
        drop(spare);
        for client in &mut clients {
            client.send(&window_update(1, 1)).await?;
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(server.shed(), 0, "nothing is lost");
        drop(held);
        for client in &mut clients {
            let got = client.frames(Duration::from_secs(1)).await?;
            assert!(is_ended(&got, 1), "{:?}", got.last());
        }
        drop(clients);
        server.stop().await
    });
}
