//! What an HTTP/2 stream has a limited time for, and what it has not. In the simulation, whose time is cheap.

use core::time::Duration;

use plimsoll_http::{Config, Error, Request, Response, Shed, StatusCode};
use plimsoll_runtime::{Result, now, sleep, timeout};

use crate::rig::frames::{
    CANCEL, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, RST_STREAM, block, frame, get,
    is_ended, request, window_update,
};
use crate::rig::{count_body, in_simulation, serve};

const BODY_BYTES: usize = 1 << 20;
/// The largest windows that streams can begin with.
const WIDE: [u8; 6] = [0, 4, 0x7f, 0xff, 0xff, 0xff];

async fn large(_req: Request) -> Response {
    Response::text("x".repeat(BODY_BYTES))
}

/// Bytes of a stream's body.
fn body_bytes(frames: &[Frame], stream: u32) -> usize {
    frames.iter().filter(|frame| (frame.kind, frame.stream) == (DATA, stream)).map(|frame| frame.payload.len()).sum()
}

/// Sends updates every so many seconds until a stream is reset: after how many seconds it was, and which; `None` if
/// none was in 200 seconds.
async fn reset_while(client: &mut Client, every: u64, updates: &[Vec<u8>]) -> Result<Option<(u64, u32, u32)>> {
    let start = now();
    for round in 0..200 / every as usize {
        for frame in client.frames(Duration::from_secs(every)).await? {
            if frame.kind == RST_STREAM {
                return Ok(Some((now().since(start).as_secs(), frame.stream, frame.error_code())));
            }
        }
        client.send(&updates[round % updates.len()]).await?;
    }
    Ok(None)
}

#[test]
fn a_body_that_waits_its_turn_behind_another_is_not_reset() {
    in_simulation("its turn", async || {
        let server = serve(Config::default(), large)?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&[get(1, "/"), get(3, "/")].concat()).await?;
        // The connection's window grows by 20 KB a second: each body takes 52 seconds, one after the other.
        let mut got = Vec::new();
        for _ in 0..110 {
            got.extend(client.frames(Duration::from_secs(1)).await?);
            client.send(&window_update(0, 20_000)).await?;
        }
        assert!(got.iter().all(|frame| frame.kind != RST_STREAM), "one was reset");
        for stream in [1, 3] {
            assert_eq!((body_bytes(&got, stream), is_ended(&got, stream)), (BODY_BYTES, true), "stream {stream}");
        }
        let first = got.iter().position(|frame| frame.stream == 3 && frame.kind == DATA);
        let last = got.iter().rposition(|frame| frame.stream == 1 && frame.kind == DATA);
        assert!(last < first, "one after the other");
        drop(client);
        server.stop().await
    });
}

/// A window of which three bytes open at a time, each time by what a frame took: a server that sends what is open
/// would send three bytes at a time for ever (RFC 1122 4.2.3.4).
#[test]
fn frames_do_not_stay_small_when_the_window_once_was() {
    in_simulation("a silly window", async || {
        let server = serve(Config::default(), large)?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&[get(1, "/"), get(3, "/")].concat()).await?;
        client.frames(Duration::from_secs(1)).await?;
        let mut lens: Vec<usize> = Vec::new();
        for _ in 0..3_000 {
            let got = client.frames(Duration::from_millis(1)).await?;
            let new: Vec<_> = got.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).collect();
            let updates: Vec<_> = new.iter().map(|len| window_update(0, *len as u32)).collect();
            client.send(&[window_update(0, 3), updates.concat()].concat()).await?;
            lens.extend(new);
        }
        let (frames, bytes) = (lens.len(), lens.iter().sum::<usize>());
        assert!(bytes >= 9_000 && bytes / frames >= 128, "{bytes} bytes in {frames} frames");
        drop(client);
        server.stop().await
    });
}

/// A client may open its window by little, and again only when all of that is used up: each time it gets it.
#[test]
fn a_window_that_stays_small_is_used_up() {
    in_simulation("a small window", async || {
        let server = serve(Config::default(), large)?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&get(1, "/")).await?;
        let mut got = client.frames(Duration::from_secs(1)).await?;
        for _ in 0..20 {
            client.send(&window_update(0, 9)).await?;
            got.extend(client.frames(Duration::from_millis(300)).await?);
        }
        assert_eq!(body_bytes(&got, 1), 65_535 + 20 * 9);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_connection_window_that_stays_shut_costs_the_streams_that_wait() {
    in_simulation("the connection's window", async || {
        let server = serve(Config::default(), |req: Request| async move {
            if req.path() == "/" {
                return Response::text("x".repeat(BODY_BYTES));
            }
            sleep(Duration::from_secs(60)).await;
            Response::text("")
        })?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&[get(1, "/"), get(3, "/"), get(5, "/late")].concat()).await?;
        let got = client.frames(Duration::from_secs(100)).await?;
        assert_eq!(body_bytes(&got, 1), 65_535, "all that the windows allow");
        let resets: Vec<_> = got.iter().filter(|frame| frame.kind == RST_STREAM).map(|frame| frame.stream).collect();
        assert_eq!(resets, [1, 3], "and not the one that has nothing to send");
        assert!(is_ended(&got, 5), "{:?}", got.last());
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_window_that_opens_by_a_byte_buys_no_time() {
    in_simulation("a byte at a time", async || {
        let server = serve(Config::default(), large)?;
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
        client.send(&get(1, "/")).await?;
        let reset = reset_while(&mut client, 10, &[window_update(1, 1)]).await?;
        assert!(matches!(reset, Some((30..=40, 1, CANCEL))), "the stream's: {reset:?}");
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&get(1, "/")).await?;
        let reset = reset_while(&mut client, 10, &[window_update(0, 1)]).await?;
        assert!(matches!(reset, Some((30..=40, 1, CANCEL))), "the connection's: {reset:?}");
        // Now the stream's window has a byte and the connection's none, now the other way round.
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0xff, 0xfe]).await?;
        client.send(&get(1, "/")).await?;
        let reset = reset_while(&mut client, 10, &[window_update(1, 2), window_update(0, 2)]).await?;
        assert!(matches!(reset, Some((30..=40, 1, CANCEL))), "both by turns: {reset:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn windows_that_open_as_fast_as_bodies_must_come_keep_a_stream() {
    in_simulation("a kilobyte a second", async || {
        let server = serve(Config::default(), large)?;
        for (settings, stream) in [([0, 4, 0, 0, 0, 0], 1), (WIDE, 0)] {
            let mut client = Client::connect(server.address, &settings).await?;
            if stream != 0 {
                client.send(&window_update(0, 1 << 20)).await?;
            }
            client.send(&get(1, "/")).await?;
            let reset = reset_while(&mut client, 10, &[window_update(stream, 10_500)]).await?;
            assert_eq!(reset, None, "the window of {stream}");
        }
        // Any byte is enough where no rate is asked for.
        let any = serve(Config { body_bytes_per_second_min: None, ..Config::default() }, large)?;
        let mut client = Client::connect(any.address, &[0, 4, 0, 0, 0, 0]).await?;
        client.send(&get(1, "/")).await?;
        assert_eq!(reset_while(&mut client, 20, &[window_update(1, 1)]).await?, None);
        drop(client);
        any.stop().await?;
        server.stop().await
    });
}

/// Handlers have ten seconds.
fn ten_seconds() -> Config {
    Config { handler_timeout: Some(Duration::from_secs(10)), ..Config::default() }
}

#[test]
fn a_body_may_take_longer_than_its_handler() {
    in_simulation("a streamed answer", async || {
        let server = serve(ten_seconds(), |mut req: Request| async move {
            sleep(Duration::from_millis(1)).await;
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_bytes(vec![b'x'; BODY_BYTES].into()).await?;
            out.finish().await
        })?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&get(1, "/")).await?;
        let mut got = Vec::new();
        while !is_ended(&got, 1) {
            got.extend(client.frames(Duration::from_secs(1)).await?);
            assert!(got.iter().all(|frame| frame.kind != RST_STREAM), "{} bytes came", body_bytes(&got, 1));
            client.send(&window_update(0, 20_000)).await?;
        }
        assert_eq!(body_bytes(&got, 1), BODY_BYTES);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_tunnel_may_take_longer_than_its_handler() {
    in_simulation("a tunnel", async || {
        let server = serve(ten_seconds(), |req: Request| async move {
            sleep(Duration::from_millis(1)).await;
            req.accept_tunnel(Response::new(StatusCode::OK), |mut tunnel| async move {
                while let Ok(Some(bytes)) = tunnel.recv().await {
                    if tunnel.send(bytes).await.is_err() {
                        break;
                    }
                }
            })
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        let fields = [(":method", "CONNECT"), (":authority", "h:1")];
        client.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields))).await?;
        for _ in 0..5 {
            client.send(&frame(DATA, 0, 1, b"ping")).await?;
            let got = client.frames(Duration::from_secs(5)).await?;
            assert!(got.iter().all(|frame| frame.kind != RST_STREAM), "{got:?}");
            assert_eq!(body_bytes(&got, 1), 4, "{got:?}");
        }
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_handler_that_never_answers_is_told_so_though_its_body_was_late_before() {
    in_simulation("two deadlines", async || {
        let config = Config { handler_timeout: Some(Duration::from_secs(40)), ..Config::default() };
        let server = serve(config, |mut req: Request| async move {
            assert!(matches!(req.chunk().await, Err(Error::TimedOut)), "the body is late");
            sleep(Duration::from_secs(3_600)).await;
            Response::text("never")
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        let start = now();
        client.send(&request(1, "POST", "/", &[], 0)).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(503), "{head:?}");
        assert_eq!(now().since(start).as_secs(), 40);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_body_that_has_ended_is_not_waited_for() {
    in_simulation("an end in time", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            let bytes = count_body(&mut req).await?;
            sleep(Duration::from_secs(40)).await;
            assert!(req.chunk().await?.is_none(), "it has ended");
            Ok::<_, Error>(Response::text(bytes.to_string()))
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&request(1, "POST", "/", &[], 0)).await?;
        sleep(Duration::from_secs(1)).await;
        client.send(&frame(DATA, END_STREAM, 1, &[])).await?;
        assert_eq!(client.body(1).await?, b"0");
        assert_eq!(server.counters.totals().shed_total[Shed::Timeout as usize], 0);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_handler_that_must_finish_keeps_its_body_beyond_its_time() {
    in_simulation("must finish", async || {
        let server = serve(ten_seconds(), |mut req: Request| async move {
            let finish = req.must_finish();
            let bytes = count_body(&mut req).await?;
            drop(finish);
            Ok::<_, Error>(Response::text(bytes.to_string()))
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&request(1, "POST", "/", &[], 0)).await?;
        for _ in 0..20 {
            client.send(&frame(DATA, 0, 1, &[b'b'; 1_000])).await?;
            sleep(Duration::from_secs(1)).await;
        }
        client.send(&frame(DATA, END_STREAM, 1, &[])).await?;
        assert_eq!(client.body(1).await?, b"20000");
        drop(client);
        server.stop().await
    });
}

#[test]
fn whole_frames_that_wait_for_our_output_are_no_fault_of_the_peer() {
    in_simulation("frames that wait", async || {
        let server = serve(Config::default(), large)?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&get(1, "/")).await?;
        // The client reads nothing for a while. Each window is filled with output at once, and the ping behind one of
        // them is not looked at any more.
        for _ in 0..8 {
            client.send(&[window_update(0, 65_535), frame(PING, 0, 0, &[7; 8])].concat()).await?;
            sleep(Duration::from_millis(50)).await;
        }
        sleep(Duration::from_secs(20)).await;
        assert_eq!(server.shed(), 0, "nothing is shed");
        client.send(&window_update(0, 1 << 20)).await?;
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1), "{} bytes", body_bytes(&got, 1));
        assert_eq!(got.iter().filter(|frame| frame.kind == PING).count(), 8);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_head_over_the_limit_has_no_more_time_than_another() {
    in_simulation("a long head", async || {
        let server = serve(Config::default(), |_req| async { Response::text("never") })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/")).await?;
        client.next_of(DATA).await?;
        // 65,536 bytes of a value: more than is put together.
        let mut head = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")]);
        head.extend([&[0, 1, b'x', 127, 0x81, 0xff, 3][..], &[b'v'; 60_000]].concat());
        let start = now();
        for (at, part) in head[..32_768].chunks(16_384).enumerate() {
            client.send(&frame(if at == 0 { HEADERS } else { CONTINUATION }, 0, 3, part)).await?;
        }
        client.send(&frame(CONTINUATION, END_HEADERS, 3, &head[32_768..49_152])[..9]).await?;
        // What comes of it a byte at a time buys no time.
        for byte in &head[32_768..] {
            if timeout(Duration::from_secs(1), client.frame()).await.is_ok_and(|frame| matches!(frame, Ok(None))) {
                break;
            }
            client.send(&[*byte]).await?;
        }
        while client.frame().await?.is_some() {}
        assert!((10..=12).contains(&now().since(start).as_secs()), "{:?}", now().since(start));
        assert_eq!(server.counters.totals().shed_total[Shed::Timeout as usize], 1);
        server.stop().await
    });
}

#[test]
fn a_part_of_a_head_is_waited_for_no_longer_beside_a_download() {
    in_simulation("a part of a head", async || {
        let server = serve(Config::default(), |_req| async { Response::text("x".repeat(4 << 20)) })?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&[window_update(0, 1 << 24), get(1, "/")].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        client.send(&get(3, "/")[..20]).await?;
        let start = now();
        // 20 KB a second: the output is never empty.
        while let Ok(Some(bytes)) = client.socket.recv().await {
            sleep(Duration::from_micros(50 * bytes.len() as u64)).await;
            assert!(now().since(start).as_secs() < 60, "it is still open");
        }
        assert_eq!(server.counters.totals().shed_total[Shed::Timeout as usize], 1);
        server.stop().await
    });
}

#[test]
fn a_part_of_a_head_has_its_time_while_it_is_received() {
    in_simulation("a head that is not read", async || {
        let server = serve(Config::default(), |_req| async { Response::text("x".repeat(4 << 20)) })?;
        let mut client = Client::connect(server.address, &WIDE).await?;
        client.send(&[window_update(0, 1 << 24), get(1, "/")].concat()).await?;
        let head = get(3, "/");
        // The client reads nothing. With the second part of the head the output is full, and nothing more is received.
        for part in [&head[..9], &head[9..20]] {
            sleep(Duration::from_secs(1)).await;
            client.send(part).await?;
        }
        sleep(Duration::from_secs(20)).await;
        client.send(&head[20..]).await?;
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 1) && is_ended(&got, 3), "{} bytes", body_bytes(&got, 1));
        assert_eq!(server.shed(), 0, "nothing is shed");
        server.stop().await
    });
}
