//! HTTP/2 with clients that end their half of the connection: what was begun is sent to its end, within the windows
//! that they gave. What HTTP/1.1 has as well is in the suite of that.

use core::time::Duration;
use std::collections::BTreeMap;

use plimsoll_http::HalfClose;
use plimsoll_runtime::{Result, sleep};

use crate::rig::drops::Drops;
use crate::rig::frames::{
    CANCEL, Client, DATA, END_HEADERS, Frame, HEADERS, INITIAL_WINDOW_SIZE, RST_STREAM, block, frame, get, is_ended,
    request, window_update,
};
use crate::rig::half_closed::{LARGE, server};
use crate::rig::memory::fill_but;
use crate::rig::{Running, in_simulation, on_each};

/// What a connection and, if nothing else is said, its streams may send (RFC 9113 6.9.2).
const WINDOW: usize = 65_535;

/// SETTINGS that give streams such a window.
fn windows(bytes: u32) -> Vec<u8> {
    [&[0, INITIAL_WINDOW_SIZE][..], &bytes.to_be_bytes()].concat()
}

/// A client that has sent all it will send.
async fn half_closed(server: &Running, settings: &[u8], frames: &[u8]) -> Result<Client> {
    let mut client = Client::connect(server.address, settings).await?;
    client.send(frames).await?;
    client.socket.shutdown_write().await?;
    Ok(client)
}

/// All frames until the end of the connection.
async fn rest(client: &mut Client) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    while let Some(frame) = client.frame().await? {
        frames.push(frame);
    }
    Ok(frames)
}

/// Bytes of the body of each stream.
fn bodies(frames: &[Frame]) -> BTreeMap<u32, usize> {
    let mut bytes = BTreeMap::new();
    for frame in frames.iter().filter(|frame| frame.kind == DATA) {
        *bytes.entry(frame.stream).or_default() += frame.payload.len();
    }
    bytes
}

fn is_cancelled(frames: &[Frame], stream: u32) -> bool {
    frames.iter().any(|frame| (frame.kind, frame.stream) == (RST_STREAM, stream) && frame.error_code() == CANCEL)
}

/// Before an answer has begun, `half_close` decides, whatever becomes of the other streams.
#[test]
fn a_handler_that_has_not_begun_its_answer_goes_on_if_it_is_to() {
    let asks = |path| [get(1, path), window_update(0, 1 << 30), get(3, "/pauses")].concat();
    on_each("half closed, not begun", async || {
        let drops = Drops::default();
        let gone = server(HalfClose::Gone, &drops)?;
        let frames = rest(&mut half_closed(&gone, &windows(1 << 30), &asks("/never")).await?).await?;
        assert!(is_cancelled(&frames, 1), "it is told so");
        assert_eq!(bodies(&frames), BTreeMap::from([(3, LARGE.len())]));
        assert!(is_ended(&frames, 3));
        assert_eq!(drops.reach(2).await, 2);
        // Alone on its connection, which ends then.
        let frames = rest(&mut half_closed(&gone, &[], &get(1, "/never")).await?).await?;
        assert!(frames.iter().all(|frame| frame.stream == 0), "{frames:?}");
        assert_eq!(drops.reach(3).await, 3);

        let server = server(HalfClose::Answered, &drops)?;
        let frames = rest(&mut half_closed(&server, &windows(1 << 30), &asks("/soon")).await?).await?;
        assert_eq!(bodies(&frames), BTreeMap::from([(1, 4), (3, LARGE.len())]));
        let frames = rest(&mut half_closed(&server, &[], &get(1, "/soon")).await?).await?;
        assert_eq!(bodies(&frames), BTreeMap::from([(1, 4)]));
        drop(gone);
        server.stop().await
    });
}

/// No window is opened any more: what the last ones do not let go is cut, and holds up nothing else.
#[test]
fn answers_go_as_far_as_the_windows_that_were_given() {
    for half_close in [HalfClose::Gone, HalfClose::Answered] {
        on_each("half closed, small windows", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            // That of the connection.
            for path in ["/whole", "/length"] {
                let frames = rest(&mut half_closed(&server, &windows(1 << 30), &get(1, path)).await?).await?;
                assert_eq!(bodies(&frames), BTreeMap::from([(1, WINDOW)]), "{half_close:?}, {path}");
                assert!(!is_ended(&frames, 1), "{half_close:?}, {path}");
            }
            // Those of streams: one has more, and one needs none.
            let updates = [window_update(0, 1 << 30), window_update(3, 1 << 30)].concat();
            let asks = [get(1, "/length"), get(3, "/pauses"), request(5, "HEAD", "/whole", &[], 1), updates].concat();
            let frames = rest(&mut half_closed(&server, &windows(1_000), &asks).await?).await?;
            assert_eq!(bodies(&frames), BTreeMap::from([(1, 1_000), (3, LARGE.len())]), "{half_close:?}");
            assert_eq!([1, 3, 5].map(|stream| is_ended(&frames, stream)), [false, true, true], "{half_close:?}");
            assert!(is_cancelled(&frames, 1), "{half_close:?}: the client learns that it is cut");
            assert_eq!(drops.reach(5).await, 5);
            server.stop().await
        });
    }
}

/// The rest of a body does not come any more: who waits for it is told, and answers as it likes.
#[test]
fn a_body_that_is_cut_short_fails() {
    let part = |stream, path| [request(stream, "POST", path, &[], 0), frame(DATA, 0, stream, b"some")].concat();
    for half_close in [HalfClose::Gone, HalfClose::Answered] {
        on_each("half closed within a body", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            let frames = rest(&mut half_closed(&server, &[], &request(1, "POST", "/body", &[], 0)).await?).await?;
            let head = frames.iter().find(|frame| frame.kind == HEADERS).expect("an answer");
            assert!(head.has_status(400), "{half_close:?}: {frames:?}");
            assert_eq!(bodies(&frames), BTreeMap::from([(1, 12)]), "{half_close:?}");
            assert!(is_ended(&frames, 1), "{half_close:?}");
            // Nobody reads this one's, and all of the answer was given.
            let asks = [part(1, "/whole"), window_update(0, 1 << 30)].concat();
            let frames = rest(&mut half_closed(&server, &windows(1 << 30), &asks).await?).await?;
            assert_eq!(bodies(&frames), BTreeMap::from([(1, LARGE.len())]), "{half_close:?}");
            // A frame that stops midway is no frame.
            let asks = [get(1, "/whole"), window_update(0, 1 << 30), window_update(1, 1)[..12].to_vec()].concat();
            let frames = rest(&mut half_closed(&server, &windows(1 << 30), &asks).await?).await?;
            assert_eq!(bodies(&frames), BTreeMap::from([(1, LARGE.len())]), "{half_close:?}");
            assert_eq!(drops.reach(3).await, 3);
            server.stop().await
        });
    }
}

#[test]
fn tunnels_are_told_that_they_are_gone() {
    let fields =
        [(":method", "CONNECT"), (":protocol", "any"), (":scheme", "http"), (":authority", "h"), (":path", "/tunnel")];
    let connect = frame(HEADERS, END_HEADERS, 1, &block(&fields));
    for half_close in [HalfClose::Gone, HalfClose::Answered] {
        on_each("half closed with a tunnel", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            for (beside, ended) in [(Vec::new(), 2), ([get(3, "/pauses"), window_update(0, 1 << 30)].concat(), 5)] {
                let mut client = Client::connect(server.address, &windows(1 << 30)).await?;
                client.send(&[connect.clone(), beside].concat()).await?;
                assert!(client.next_of(HEADERS).await?.has_status(200));
                client.socket.shutdown_write().await?;
                let frames = rest(&mut client).await?;
                assert_eq!(drops.reach(ended).await, ended, "{half_close:?}: handlers and tunnels");
                if ended == 5 {
                    assert_eq!(bodies(&frames), BTreeMap::from([(3, LARGE.len())]), "{half_close:?}");
                }
            }
            server.stop().await
        });
    }
}

/// The end of the peer's half is found while the connection waits for memory, receives nothing, and may have more to
/// receive.
#[test]
fn an_answer_that_waits_for_memory_outlasts_the_end_of_its_clients_half() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    in_simulation("half closed at the line", async || {
        let drops = Drops::default();
        let server = server(HalfClose::Gone, &drops)?;
        let mut client = Client::connect(server.address, &windows(1 << 30)).await?;
        client.send(&get(1, "/later")).await?;
        assert_eq!(client.next_of(DATA).await?.payload, b"begun");
        let held = fill_but(&[4_096; 8]);
        sleep(Duration::from_millis(1_500)).await;
        // Without this the connection's window would hold the answer up.
        client.socket.send_static(UPDATE).await?;
        client.socket.shutdown_write().await?;
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().active, 1, "it waits");
        drop(held);
        let frames = rest(&mut client).await?;
        assert_eq!(bodies(&frames), BTreeMap::from([(1, LARGE.len())]));
        assert!(is_ended(&frames, 1));
        server.stop().await
    });
}

/// A [`window_update`] of the connection by 2^30 bytes, without memory.
const UPDATE: &[u8] = &[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x40, 0, 0, 0];
