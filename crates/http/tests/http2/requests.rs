//! HTTP/2 over the server: every test runs on io_uring (where it works), on mio and in the simulation, with a small
//! client that speaks in frames.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Config, Error, Http2, Method, Request, Response, Shed, StatusCode, Version};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Spawner, sleep};

use crate::rig::drops::Drops;
use crate::rig::frames::{
    ACK, CANCEL, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, NO_ERROR,
    PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, cancel, frame, get, request, window_update,
};
use crate::rig::{in_simulation, on_each, serve, talk};

async fn hello(req: Request) -> Response {
    Response::text(format!("{:?} {} {:?}", req.version(), req.path(), req.header("x")))
}

#[test]
fn the_preface_is_found_in_any_split() {
    on_each("preface", async || {
        let server = serve(Config::default(), hello)?;
        let mut all = PREFACE.to_vec();
        all.extend(frame(SETTINGS, 0, 0, &[]));
        all.extend(request(1, "GET", "/a", &[("x", "1")], END_STREAM));
        for at in [1, 3, 4, 17, 18, 19, 23, 24, 25, 33, 40, all.len() - 1] {
            let mut client = Client { socket: TcpStream::connect(server.address).await?, bytes: Vec::new() };
            client.send(&all[..at]).await?;
            sleep(Duration::from_millis(2)).await;
            client.send(&all[at..]).await?;
            let expected = format!("{:?} /a Some([49])", Version::HTTP_2);
            assert_eq!(client.body(1).await?, expected.as_bytes(), "split at {at}");
        }
        let counters = server.counters.totals();
        assert_eq!((counters.http2_requests_total, counters.requests_total), (12, 0));
        server.stop().await
    });
}

#[test]
fn a_listener_speaks_what_it_is_told_to() {
    on_each("modes", async || {
        let only = serve(Config { http2: Http2::Only, ..Config::default() }, hello)?;
        let answer = talk(only.address, &[b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"], None).await?;
        assert!(answer.starts_with("HTTP/1.1 505 "), "{answer}");
        assert_eq!(talk(only.address, &[b"something else\r\n\r\n"], None).await?, "");
        let mut client = Client::connect(only.address, &[]).await?;
        assert!(client.fetch(1, "/").await?.starts_with(b"HTTP/2.0 /"));
        let off = serve(Config { http2: Http2::Off, ..Config::default() }, hello)?;
        assert!(talk(off.address, &[PREFACE], None).await?.starts_with("HTTP/1.1 400 "));
        drop(client);
        off.stop().await?;
        only.stop().await
    });
}

#[test]
fn handlers_that_wait_answer_in_their_own_order() {
    on_each("waiting", async || {
        let server = serve(Config::default(), |req: Request| async move {
            let wait = req.path()[1..].parse().unwrap_or(0);
            sleep(Duration::from_millis(wait)).await;
            Response::text(req.path().to_owned())
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        let mut requests = Vec::new();
        for at in 0..40_u32 {
            requests.extend(get(2 * at + 1, &format!("/{}", 41 - at)));
        }
        client.send(&requests).await?;
        let mut answered = 0;
        while answered < 40 {
            let frame = client.next_of(DATA).await?;
            let at = (frame.stream - 1) / 2;
            assert_eq!(frame.payload, format!("/{}", 41 - at).as_bytes());
            assert_eq!(frame.flags, END_STREAM);
            answered += 1;
        }
        drop(client);
        server.stop().await
    });
}

async fn echo(mut req: Request) -> core::result::Result<Response, Error> {
    let mut out = req.respond(Response::new(StatusCode::OK), req.content_length())?;
    while let Some(chunk) = req.chunk().await? {
        out.write(chunk).await?;
    }
    out.finish().await
}

#[test]
fn bodies_flow_both_ways_within_the_windows() {
    on_each("echo", async || {
        let server = serve(Config::default(), echo)?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&request(1, "POST", "/", &[], 0)).await?;
        let sent: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
        let (mut at, mut window, mut connection, mut got) = (0, 16_384_usize, 65_535_usize, Vec::new());
        loop {
            while at < sent.len() && window.min(connection) > 0 {
                let len = window.min(connection).min(5_000).min(sent.len() - at);
                let flags = if at + len == sent.len() { END_STREAM } else { 0 };
                client.send(&frame(DATA, flags, 1, &sent[at..at + len])).await?;
                (at, window, connection) = (at + len, window - len, connection - len);
            }
            let Some(frame) = client.frame().await? else { panic!("ended within an answer") };
            match frame.kind {
                WINDOW_UPDATE => {
                    let by = frame.increment() as usize;
                    if frame.stream == 0 { connection += by } else { window += by }
                }
                DATA => {
                    let by = frame.payload.len() as u32;
                    got.extend_from_slice(&frame.payload);
                    if frame.flags == END_STREAM {
                        break;
                    }
                    if !frame.payload.is_empty() {
                        client.send(&[window_update(0, by), window_update(1, by)].concat()).await?;
                    }
                }
                kind => assert!([HEADERS, SETTINGS].contains(&kind), "{frame:?}"),
            }
        }
        assert!(got == sent, "{} of {} bytes came back", got.len(), sent.len());
        drop(client);
        server.stop().await
    });
}

#[test]
fn what_comes_beside_a_download_is_looked_at() {
    in_simulation("a download", async || {
        let server = serve(Config::default(), |req: Request| async move {
            if req.path() == "/quick" { Response::text("quick") } else { Response::text("x".repeat(4 << 20)) }
        })?;
        let mut client = Client::connect(server.address, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
        client.send(&[window_update(0, 1 << 24), get(1, "/large")].concat()).await?;
        // Of a kind that nobody knows: together more than any buffer holds.
        let unknown = frame(0x42, 0, 0, &[0; 8_000]);
        let (mut others, mut body_bytes) = (Vec::new(), 0);
        for round in 0..60 {
            client.send(&unknown).await?;
            if round == 20 {
                client.send(&[frame(PING, 0, 0, b"answerme"), get(3, "/quick")].concat()).await?;
            }
            if round == 40 {
                client.send(&cancel(1)).await?;
            }
            // 20 KB a second: the output is never empty.
            for _ in 0..2 {
                let frame = client.frame().await?.expect("it goes on");
                sleep(Duration::from_micros(50 * frame.payload.len() as u64)).await;
                match frame.stream {
                    1 => body_bytes += frame.payload.len(),
                    _ => others.push((frame.kind, frame.stream)),
                }
            }
            if others.iter().any(|&(kind, stream)| (kind, stream) == (DATA, 3)) && round > 40 {
                break;
            }
        }
        assert!(
            others.contains(&(PING, 0)) && others.contains(&(HEADERS, 3)) && others.contains(&(DATA, 3)),
            "{others:?}"
        );
        let rest = client.frames(Duration::from_secs(1)).await?;
        body_bytes += rest.iter().filter(|frame| frame.stream == 1).map(|frame| frame.payload.len()).sum::<usize>();
        assert!(body_bytes < 4 << 20, "it was cancelled");
        assert_eq!(server.shed(), 0, "nothing is shed");
        drop(client);
        server.stop().await
    });
}

#[test]
fn head_has_no_body_and_expect_is_answered() {
    on_each("head", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            if req.method() == Method::HEAD {
                return Response::text("not sent");
            }
            Response::text(req.collect().await.unwrap_or_default())
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&request(1, "HEAD", "/", &[], END_STREAM)).await?;
        assert_eq!(client.next_of(HEADERS).await?.flags, END_HEADERS | END_STREAM);
        client.send(&request(3, "POST", "/", &[("expect", "100-continue")], 0)).await?;
        let interim = client.next_of(HEADERS).await?;
        assert_eq!((interim.stream, interim.flags), (3, END_HEADERS));
        assert!(interim.payload.ends_with(b"\x03100") || interim.payload.len() < 8, "{interim:?}");
        client.send(&frame(DATA, END_STREAM, 3, b"body")).await?;
        assert_eq!(client.body(3).await?, b"body");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_panic_costs_its_own_stream_alone() {
    on_each("panic", async || {
        let server = serve(Config::default(), |req: Request| async move {
            assert_ne!(req.path(), "/panic", "on purpose");
            Response::text("ok")
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/panic"), get(3, "/")].concat()).await?;
        let failed = client.next_of(HEADERS).await?;
        assert_eq!((failed.stream, failed.has_status(500)), (1, true), "{failed:?}");
        assert_eq!(client.body(3).await?, b"ok");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_reset_drops_its_handler() {
    on_each("reset", async || {
        let drops = Drops::default();
        let handlers = drops.clone();
        let server = serve(Config::default(), move |req: Request| {
            let handlers = handlers.clone();
            async move {
                if req.path() == "/" {
                    return Response::text("ok");
                }
                let _guard = handlers.guard();
                sleep(Duration::from_secs(3_600)).await;
                Response::text("never")
            }
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait"), get(3, "/wait")].concat()).await?;
        sleep(Duration::from_millis(5)).await;
        client.send(&[cancel(1), get(5, "/")].concat()).await?;
        assert_eq!(client.body(5).await?, b"ok");
        sleep(Duration::from_millis(5)).await;
        assert_eq!(drops.count(), 1);
        drop(client);
        assert_eq!(drops.reach(2).await, 2, "the client went away");
        server.stop().await
    });
}

#[test]
fn a_stream_that_is_blocked_for_long_is_reset() {
    in_simulation("blocked", async || {
        let server = serve(Config::default(), |_req| async { Response::text("x".repeat(1 << 20)) })?;
        // Windows of 0, SETTINGS_INITIAL_WINDOW_SIZE.
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
        client.send(&[get(1, "/"), get(3, "/")].concat()).await?;
        sleep(Duration::from_secs(20)).await;
        client.send(&window_update(3, 10)).await?;
        let reset = client.next_of(RST_STREAM).await?;
        assert_eq!((reset.stream, reset.error_code()), (1, CANCEL), "for the one without progress");
        assert_eq!(client.next_of(RST_STREAM).await?.stream, 3);
        drop(client);
        server.stop().await
    });
}

#[test]
fn what_never_ends_is_closed() {
    in_simulation("slow", async || {
        let server = serve(Config::default(), hello)?;
        // A header block that stops in the middle, SETTINGS that are never acknowledged, and nothing at all.
        let mut slow = Client::connect(server.address, &[]).await?;
        slow.send(&get(1, "/")[..20]).await?;
        let mut mute = Client { socket: TcpStream::connect(server.address).await?, bytes: Vec::new() };
        mute.send(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await?;
        let mut idle = Client::connect(server.address, &[]).await?;
        while slow.frame().await?.is_some() {}
        while mute.frame().await?.is_some() {}
        assert_eq!(server.counters.totals().shed_total[Shed::Timeout as usize], 2);
        assert_eq!(idle.next_of(GOAWAY).await?.error_code(), NO_ERROR);
        while idle.frame().await?.is_some() {}
        server.stop().await
    });
}

#[test]
fn the_server_stops_in_two_steps() {
    on_each("stop", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let open = Arc::clone(&gate);
        let server = serve(Config::default(), move |_req| {
            let open = Arc::clone(&open);
            async move {
                while !open.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(5)).await;
                }
                Response::text("late")
            }
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/")).await?;
        sleep(Duration::from_millis(5)).await;
        Spawner::current().stop();
        assert_eq!(client.next_of(GOAWAY).await?.payload, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        let ping = client.next_of(PING).await?;
        // One that was on its way is served.
        client.send(&[get(3, "/"), frame(PING, ACK, 0, &ping.payload)].concat()).await?;
        assert_eq!(client.next_of(GOAWAY).await?.payload, [0, 0, 0, 3, 0, 0, 0, 0]);
        gate.store(true, Ordering::Relaxed);
        let mut answers = 0;
        while let Some(frame) = client.frame().await? {
            answers += u32::from(frame.kind == DATA && frame.payload == b"late");
        }
        assert_eq!(answers, 2);
        drop(client);
        server.stop().await
    });
}

#[test]
fn rapid_resets_end_the_connection_and_others_are_served() {
    on_each("rapid reset", async || {
        let server = serve(Config::default(), |_req| async {
            sleep(Duration::from_millis(1)).await;
            Response::text("ok")
        })?;
        let mut attacker = Client::connect(server.address, &[]).await?;
        let mut resets = Vec::new();
        for at in 0..400_u32 {
            resets.extend(get(2 * at + 1, "/"));
            resets.extend(cancel(2 * at + 1));
        }
        attacker.send(&resets).await?;
        let mut honest = Client::connect(server.address, &[]).await?;
        assert_eq!(honest.fetch(1, "/").await?, b"ok");
        let goaway = attacker.next_of(GOAWAY).await?;
        assert_eq!(goaway.error_code(), ENHANCE_YOUR_CALM);
        assert_eq!(server.counters.totals().shed_total[Shed::Misbehaviour as usize], 1);
        drop((attacker, honest));
        server.stop().await
    });
}

/// What attackers of the windows and of the header blocks hold is bounded, and others are served meanwhile.
#[test]
fn zero_windows_and_endless_blocks_stay_within_the_line() {
    on_each("attacks", async || {
        let server = serve(Config::default(), |req: Request| async move {
            if req.path() == "/" { Response::text("ok") } else { Response::new(StatusCode::OK).body(&BIG[..]) }
        })?;
        let mut honest = Client::connect(server.address, &[]).await?;
        assert_eq!(honest.fetch(1, "/").await?, b"ok");
        let before = plimsoll_runtime::budget().charged();
        // 128 streams of 1 MiB with windows of 0.
        let mut blocked = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
        let requests: Vec<u8> = (0..128).flat_map(|at| get(2 * at + 1, "/big")).collect();
        blocked.send(&requests).await?;
        for _ in 0..128 {
            blocked.next_of(HEADERS).await?;
        }
        // A block of 9 CONTINUATION frames, which never ends.
        let mut flood = Client::connect(server.address, &[]).await?;
        let mut endless = frame(HEADERS, 0, 1, &block(&[(":method", "GET")]));
        for _ in 0..9 {
            endless.extend(frame(CONTINUATION, 0, 1, &[0; 64]));
        }
        flood.send(&endless).await?;
        assert_eq!(flood.next_of(GOAWAY).await?.error_code(), ENHANCE_YOUR_CALM);
        // Ten thousand pings of a peer that reads nothing.
        let mut pings = Client::connect(server.address, &[]).await?;
        let _cut_off = pings.send(&frame(PING, 0, 0, &[0; 8]).repeat(10_000)).await;
        assert_eq!(honest.fetch(3, "/").await?, b"ok");
        let grown = plimsoll_runtime::budget().charged().saturating_sub(before);
        assert!(grown < 1 << 20, "{grown} bytes for three connections");
        drop((blocked, flood, pings, honest));
        server.stop().await
    });
}

static BIG: [u8; 1 << 20] = [b'b'; 1 << 20];

#[test]
fn a_head_over_a_limit_is_answered_beside_others() {
    on_each("long heads", async || {
        let running = serve(Config::default(), |req: Request| async move {
            sleep(Duration::from_millis(20)).await;
            Response::text(format!("{}", req.headers().count()))
        })?;
        for (fields, value_bytes) in [(1, 16_384), (1, 20_000), (8, 15_000), (500, 60), (3_000, 1)] {
            let mut client = Client::connect(running.address, &[]).await?;
            let mut head = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")]);
            for _ in 0..fields {
                let mut length = vec![value_bytes as u8];
                if value_bytes >= 127 {
                    let rest = value_bytes - 127;
                    length = vec![127, rest as u8 | 128, (rest >> 7) as u8 | 128, (rest >> 14) as u8];
                }
                head.extend([&[0, 1, b'x'], &length[..], &vec![b'v'; value_bytes]].concat());
            }
            // It goes into the table, for the request behind.
            head.extend(b"\x40\x01k\x01v");
            let mut frames = Vec::new();
            for (at, part) in head.chunks(16_384).enumerate() {
                let last = if (at + 1) * 16_384 >= head.len() { END_HEADERS } else { 0 };
                let (kind, ends) = if at == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
                frames.extend(frame(kind, ends | last, 3, part));
            }
            let mut next = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")]);
            next.extend([0xbe, 0xbe]);
            frames.extend(frame(HEADERS, END_HEADERS | END_STREAM, 5, &next));
            client.send(&[get(1, "/"), frames].concat()).await?;
            let (mut heads, mut bodies) = (Vec::new(), Vec::new());
            while bodies.len() < 2 {
                let frame = client.frame().await?.expect("the connection lives");
                assert!(!matches!(frame.kind, RST_STREAM | GOAWAY), "{frame:?}");
                match frame.kind {
                    HEADERS => heads.push((frame.stream, frame.has_status(200), frame.ends_stream())),
                    DATA => bodies.push((frame.stream, frame.payload)),
                    _ => {}
                }
            }
            heads.sort_unstable();
            bodies.sort_unstable();
            assert_eq!(
                heads,
                [(1, true, false), (3, false, true), (5, true, false)],
                "{fields} of {value_bytes} bytes"
            );
            assert_eq!(bodies, [(1, b"0".to_vec()), (5, b"2".to_vec())]);
        }
        running.stop().await
    });
}

#[test]
fn a_malformed_authority_or_path_is_answered_beside_others() {
    on_each("authority", async || {
        let server = serve(Config::default(), |req: Request| async move {
            sleep(Duration::from_millis(20)).await;
            Response::text(req.path().to_owned())
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        let fields =
            |authority, path| [(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", authority)];
        let malformed = |stream, authority, path| {
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields(authority, path)))
        };
        client
            .send(&[get(1, "/kept"), malformed(3, "a[b", "/"), malformed(5, "a", "/a b"), get(7, "/next")].concat())
            .await?;
        let (mut bad, mut bodies) = (Vec::new(), Vec::new());
        while bodies.len() < 2 {
            let frame = client.frame().await?.expect("the connection lives");
            assert!(!matches!(frame.kind, RST_STREAM | GOAWAY), "{frame:?}");
            match frame.kind {
                HEADERS if frame.has_status(400) && frame.ends_stream() => bad.push(frame.stream),
                DATA => bodies.push((frame.stream, frame.payload)),
                _ => {}
            }
        }
        assert_eq!(bad, [3, 5]);
        assert_eq!(bodies, [(1, b"/kept".to_vec()), (7, b"/next".to_vec())]);
        drop(client);
        server.stop().await
    });
}
