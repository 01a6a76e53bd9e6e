//! Streams of HTTP/2 that find no room wait in places of their own, and what was begun on their connection goes on. In
//! the simulation, whose line is filled to the last byte and whose time is cheap.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Config, Error, HalfClose, Request, Response};
use plimsoll_runtime::{Kind, Result, pool, sleep};

use crate::rig::frames::{
    Client, DATA, END_STREAM, Frame, GOAWAY, HEADERS, RST_STREAM, SETTINGS, cancel, frame, get, request,
};
use crate::rig::memory::fill;
use crate::rig::{Running, count_body, in_simulation, serve};

/// How long a request without a body waits, and one with a body.
const SOON: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(4);
/// Streams that a client may have.
const STREAMS: u32 = 128;

fn config() -> Config {
    Config {
        admission_timeout: SOON,
        memory_timeout: LATE,
        progress_reserve_bytes: 0,
        half_close: HalfClose::Answered,
        ..Config::default()
    }
}

/// While so many handlers run no other begins, whatever memory there is.
fn with_handlers(count: u32) -> Config {
    Config { handlers_in_progress_max: Some(count), ..config() }
}

/// `/wait` waits for the gate; `/body` counts its body; all others answer at once.
fn serve_gated(config: Config) -> Result<(Arc<AtomicBool>, Running)> {
    let gate = Arc::new(AtomicBool::new(false));
    let theirs = Arc::clone(&gate);
    let server = serve(config, move |mut req: Request| {
        let gate = Arc::clone(&theirs);
        // Boxed, outside of the pool: when a handler ends there is no room that was not there before.
        Box::pin(async move {
            while req.path() == "/wait" && !gate.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1)).await;
            }
            let bytes = count_body(&mut req).await?;
            Ok::<_, Error>(Response::text(format!("{} {bytes}", req.path())))
        })
    })?;
    Ok((gate, server))
}

/// The body of the answer on a stream, of which all came; `None` for a 503.
fn answer(frames: &[Frame], stream: u32) -> Option<String> {
    let of_stream = || frames.iter().filter(|frame| frame.stream == stream);
    let head = of_stream().find(|frame| frame.kind == HEADERS).unwrap_or_else(|| panic!("{stream}: {frames:?}"));
    assert!(of_stream().any(Frame::ends_stream), "{stream}: {frames:?}");
    if !head.has_status(200) {
        assert!(head.has_status(503), "{stream}: {head:?}");
        return None;
    }
    let body = of_stream().filter(|frame| frame.kind == DATA).flat_map(|frame| frame.payload.clone());
    Some(String::from_utf8(body.collect()).expect("text"))
}

fn assert_no_resets(frames: &[Frame]) {
    assert!(frames.iter().all(|frame| !matches!(frame.kind, RST_STREAM | GOAWAY)), "{frames:?}");
}

#[test]
fn a_stream_waits_beside_one_that_was_begun_and_goes_on() {
    in_simulation("beside another", async || {
        let (gate, server) = serve_gated(config())?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait"), request(3, "POST", "/body", &[], 0)].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        let held = fill(4_096);
        client.send(&[get(5, "/quick"), get(7, "/quicker")].concat()).await?;
        sleep(Duration::from_millis(100)).await;
        // What was begun is read, and ends.
        client.send(&frame(DATA, END_STREAM, 3, &[b'b'; 900])).await?;
        gate.store(true, Ordering::Relaxed);
        let begun = client.frames(Duration::from_millis(300)).await?;
        assert_eq!((answer(&begun, 1).as_deref(), answer(&begun, 3).as_deref()), (Some("/wait 0"), Some("/body 900")));
        assert!(begun.iter().all(|frame| frame.stream < 5), "the others wait: {begun:?}");
        let totals = server.counters.totals();
        assert_eq!((totals.http2_requests_total, server.shed()), (2, 0), "nothing of them was begun");
        drop(held);
        let waited = client.frames(Duration::from_millis(300)).await?;
        assert_eq!((answer(&waited, 5), answer(&waited, 7)), (Some("/quick 0".into()), Some("/quicker 0".into())));
        assert_no_resets(&[begun, waited].concat());
        assert_eq!(server.counters.totals().http2_requests_total, 4);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_stream_that_waits_in_vain_hears_503_in_time_and_its_connection_lives() {
    in_simulation("in vain", async || {
        let (gate, server) = serve_gated(with_handlers(1))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/wait")).await?;
        sleep(Duration::from_millis(10)).await;
        client.send(&[get(3, "/quick"), request(5, "POST", "/body", &[], 0)].concat()).await?;
        let refused = || server.counters.totals().responses_total.iter().find(|(code, _)| *code == 503).map(|at| at.1);
        // Timers are as coarse as a quarter of a second.
        let steps = [(900, None), (400, Some(1)), (2_600, Some(1)), (400, Some(2))];
        for (after, count) in steps.map(|(after, count)| (Duration::from_millis(after), count)) {
            sleep(after).await;
            assert_eq!(refused(), count, "after {after:?} more");
        }
        gate.store(true, Ordering::Relaxed);
        let got = client.frames(SOON).await?;
        assert_eq!((answer(&got, 3), answer(&got, 5)), (None, None));
        assert_eq!(answer(&got, 1).as_deref(), Some("/wait 0"));
        assert_eq!(client.fetch(7, "/quick").await?, b"/quick 0");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_body_that_comes_before_its_stream_is_begun_is_kept_or_the_stream_is_refused() {
    in_simulation("early bodies", async || {
        let (gate, server) = serve_gated(with_handlers(1))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/wait")).await?;
        sleep(Duration::from_millis(10)).await;
        let post = |stream: u32| request(stream, "POST", "/body", &[], 0);
        let part = |flags: u8, stream: u32, bytes: usize| frame(DATA, flags, stream, &vec![b'e'; bytes]);
        // Half of the connection's window is kept, and nothing of what comes then.
        for stream in [3, 5] {
            client.send(&[post(stream), part(0, stream, 10_000)].concat()).await?;
            client.send(&part(END_STREAM, stream, 6_384)).await?;
        }
        client.send(&[post(7), part(0, 7, 1), get(9, "/quick")].concat()).await?;
        let got = client.frames(Duration::from_millis(300)).await?;
        assert_eq!(answer(&got, 7), None, "{got:?}");
        assert!(got.iter().all(|frame| ![1, 3, 5, 9].contains(&frame.stream)), "{got:?}");
        gate.store(true, Ordering::Relaxed);
        let got = client.frames(Duration::from_millis(500)).await?;
        let answers = [1, 3, 5, 9].map(|stream| answer(&got, stream));
        assert_eq!(answers, ["/wait 0", "/body 16384", "/body 16384", "/quick 0"].map(|answer| Some(answer.into())));
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_stream_that_waits_is_forgotten_when_its_client_resets_it_or_goes() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    in_simulation("given up", async || {
        let (gate, server) = serve_gated(with_handlers(1))?;
        let mut client = Client::connect(server.address, &[]).await?;
        let mut other = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/wait")).await?;
        sleep(Duration::from_millis(10)).await;
        client.send(&[get(3, "/reset"), get(5, "/quick")].concat()).await?;
        other.send(&get(3, "/gone")).await?;
        sleep(Duration::from_millis(10)).await;
        client.send(&cancel(3)).await?;
        drop(other);
        sleep(Duration::from_millis(10)).await;
        gate.store(true, Ordering::Relaxed);
        let got = client.frames(Duration::from_millis(300)).await?;
        assert_eq!(answer(&got, 5).as_deref(), Some("/quick 0"));
        assert!(got.iter().all(|frame| frame.stream != 3), "{got:?}");
        let totals = server.counters.totals();
        assert_eq!(totals.http2_requests_total, 2, "neither was begun");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_flood_of_heads_at_the_line_holds_no_more_than_is_for_those_who_wait() {
    in_simulation("a flood", async || {
        const CONNECTIONS: u32 = 5;
        let (gate, server) = serve_gated(with_handlers(CONNECTIONS))?;
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&get(1, "/wait")).await?;
            clients.push(client);
        }
        sleep(Duration::from_millis(10)).await;
        let heads: Vec<u8> = (1..STREAMS).flat_map(|at| get(1 + 2 * at, "/quick")).collect();
        for client in &mut clients {
            client.send(&heads).await?;
        }
        sleep(Duration::from_millis(100)).await;
        let at_once = server.shed();
        sleep(SOON * 13 / 10).await;
        let all = u64::from(CONNECTIONS * (STREAMS - 1));
        assert_eq!(server.shed(), all, "each is told");
        assert!(at_once >= all - 256 && at_once < all - 4, "of {all}, {at_once} were refused at once");
        gate.store(true, Ordering::Relaxed);
        for client in &mut clients {
            let got = client.frames(SOON).await?;
            assert_eq!(answer(&got, 1).as_deref(), Some("/wait 0"));
            assert_no_resets(&got);
            assert_eq!(client.fetch(1 + 2 * STREAMS, "/quick").await?, b"/quick 0");
        }
        drop(clients);
        server.stop().await
    });
}

#[test]
fn a_stream_whose_handler_does_not_fit_what_was_granted_waits_for_more_and_is_refused_in_time() {
    in_simulation("a large handler", async || {
        let server = serve(config(), async move |_req: Request| {
            let large = [7_u8; 40 * 1_024];
            sleep(Duration::from_millis(1)).await;
            Response::text(large.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string())
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.next_of(SETTINGS).await?;
        // Room for the request that is asked for, and not for its handler.
        let lens = [512, 512, 512, 1_024, 1_024, 4_096, 4_096, 8_192, 8_192, 16_384];
        let spare = lens.map(|len| pool().try_acquire(len, Kind::Buffers).expect("room"));
        let held = fill(1);
        drop(spare);
        client.send(&get(1, "/")).await?;
        let got = client.frames(SOON * 2).await?;
        drop(held);
        assert_eq!(answer(&got, 1), None);
        assert_eq!(server.counters.totals().http2_requests_total, 0, "it was not begun");
        assert_eq!(client.fetch(3, "/").await?, b"286720");
        drop(client);
        server.stop().await
    });
}
