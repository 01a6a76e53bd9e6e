//! HTTP/2 connections while memory is short: that honest clients lose nothing by what is asked of them then. In the
//! simulation, whose line is filled to the last byte and whose time is cheap.

use core::time::Duration;

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{MemoryLimit, Runtime, pool, sleep};

use crate::rig::frames::{
    ACK, Client, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, block, frame, get, is_ended, request, window_update,
};
use crate::rig::memory::{fill, fill_but, fill_to};
use crate::rig::{count_body, in_simulation, serve};

/// Counts the bytes of a body.
async fn count(mut req: Request) -> core::result::Result<Response, Error> {
    Ok(Response::text(count_body(&mut req).await?.to_string()))
}

fn post(stream: u32) -> Vec<u8> {
    request(stream, "POST", "/", &[], 0)
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn settings_for_short_memory_may_be_acknowledged_late() {
    in_simulation("a late acknowledgement", async || {
        let server = serve(lends_nothing(), count)?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[post(1), frame(DATA, 0, 1, &[b'u'; 1_000])].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        let held = fill_to(Level::Orange).await;
        // Time passes in which the client does not read what it was told, as it is busy with what came before.
        for _ in 0..20 {
            client.send(&frame(DATA, 0, 1, &[b'u'; 500])).await?;
            sleep(Duration::from_millis(1_500)).await;
        }
        let got = client.frames(Duration::from_millis(100)).await?;
        let offers: Vec<_> = got.iter().filter_map(|frame| frame.setting(INITIAL_WINDOW_SIZE)).collect();
        assert_eq!(offers, [16_384, 4_096], "{got:?}");
        client.send(&frame(DATA, END_STREAM, 1, &[b'u'; 1_000])).await?;
        assert_eq!(client.body(1).await?, b"12000");
        // From now on it has the smaller windows, until it is told of the larger ones again.
        client.send(&frame(SETTINGS, ACK, 0, &[])).await?;
        drop(held);
        let restored = client.next_of(SETTINGS).await?;
        assert_eq!(restored.setting(INITIAL_WINDOW_SIZE), Some(16_384));
        drop(client);
        server.stop().await
    });
}

#[test]
fn an_acknowledgement_that_finds_no_room_is_acted_on_later() {
    in_simulation("an acknowledgement without room", async || {
        let server = serve(lends_nothing(), count)?;
        let mut client = Client::connect(server.address, &[]).await?;
        // So many that all their windows need more than what is made room for in each step.
        let streams: Vec<u8> = (0..60).flat_map(|at| post(2 * at + 1)).collect();
        client.send(&streams).await?;
        client.send(&frame(DATA, 0, 1, &[b'u'; 8_000])).await?;
        sleep(Duration::from_millis(10)).await;
        let memory = fill_to(Level::Orange).await;
        client.send(&frame(DATA, 0, 1, &[b'u'; 4_000])).await?;
        let got = client.frames(Duration::from_millis(500)).await?;
        assert_eq!(
            got.iter().filter_map(|frame| frame.setting(INITIAL_WINDOW_SIZE)).collect::<Vec<_>>(),
            [16_384, 4_096]
        );
        assert!(
            got.iter().all(|frame| (frame.kind, frame.stream) != (WINDOW_UPDATE, 1)),
            "its window is held: {got:?}"
        );
        // Room for what a client has to send and for a step, and for no more.
        let all = fill_but(&[64, 64, 1_024]);
        client.send(&frame(SETTINGS, ACK, 0, &[])).await?;
        sleep(Duration::from_millis(600)).await;
        drop(all);
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(pool().budget().level() >= Level::Orange, "all the while");
        assert!(got.iter().any(|frame| (frame.kind, frame.stream) == (WINDOW_UPDATE, 1)), "{got:?}");
        drop(memory);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_stream_that_only_waits_survives_full_memory() {
    in_simulation("nothing to do", async || {
        let config = Config { memory_timeout: Duration::from_secs(2), ..lends_nothing() };
        let server = serve(config, |_req: Request| async {
            sleep(Duration::from_secs(30)).await;
            Response::text("at last")
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/")).await?;
        sleep(Duration::from_millis(10)).await;
        let memory = fill_to(Level::Orange).await;
        // Something comes, so that windows are held from now on.
        client.send(&frame(PING, 0, 0, &[0; 8])).await?;
        sleep(Duration::from_millis(500)).await;
        let all = fill(1);
        sleep(Duration::from_secs(15)).await;
        assert_eq!(server.shed(), 0, "nothing is shed");
        drop((all, memory));
        assert_eq!(client.body(1).await?, b"at last");
        drop(client);
        server.stop().await
    });
}

#[test]
fn what_is_on_its_way_when_the_client_ends_its_half_still_leaves() {
    in_simulation("the last output", async || {
        let server = serve(lends_nothing(), |req: Request| async move {
            if req.path() == "/wait" {
                sleep(Duration::from_secs(100)).await;
            }
            Response::text("x".repeat(45_000))
        })?;
        let mut client = Client::connect(server.address, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
        let memory = fill_to(Level::Orange).await;
        let window = window_update(0, 1 << 20);
        client.send(&[window, get(1, "/wait")].concat()).await?;
        // The socket takes no more than a part of one of these.
        for stream in [3, 5, 7] {
            client.send(&get(stream, "/")).await?;
            sleep(Duration::from_millis(100)).await;
        }
        client.socket.shutdown_write().await?;
        // Not so long that it would be let go of as one that takes nothing while memory is short.
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.shed(), 0, "nothing is shed");
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(is_ended(&got, 3) && is_ended(&got, 5), "{} frames", got.len());
        assert!(client.bytes.is_empty(), "whole frames");
        drop((memory, client));
        server.stop().await
    });
}

#[test]
fn an_answer_that_was_cut_off_without_room_does_not_look_whole() {
    in_simulation("cut off", async || {
        let server = serve(lends_nothing(), |mut req: Request| async move {
            let finish = req.must_finish();
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_bytes(vec![b'x'; 100_000].into()).await?;
            let done = out.finish().await;
            sleep(Duration::from_secs(60)).await;
            drop(finish);
            done
        })?;
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
        client.send(&get(1, "/")).await?;
        // It is cut off after 30 seconds without a window, when there is no room to say so.
        sleep(Duration::from_millis(29_900)).await;
        let all = fill(1);
        sleep(Duration::from_millis(300)).await;
        drop(all);
        client.send(&window_update(1, 16_384)).await?;
        let got = client.frames(Duration::from_secs(50)).await?;
        assert!(!is_ended(&got, 1), "{got:?}");
        assert!(got.iter().any(|frame| (frame.kind, frame.stream) == (RST_STREAM, 1)), "{got:?}");
        drop(client);
        server.stop().await
    });
}

#[test]
fn the_reserve_of_a_grown_window_is_given_back_when_the_body_has_ended() {
    in_simulation("a grown window", async || {
        let server = serve(lends_nothing(), |mut req: Request| async move {
            let bytes = count_body(&mut req).await?;
            sleep(Duration::from_secs(60)).await;
            Ok::<_, Error>(Response::text(bytes.to_string()))
        })?;
        let reserved = || server.counters.totals().window_reserved_bytes;
        for has_trailers in [false, true] {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&post(1)).await?;
            // As much as windows allow, until the stream's has grown.
            let (mut window, mut connection, mut sent) = (16_384, 65_535, 0);
            while sent < 200_000 {
                let bytes = usize::min(window, connection).min(8_192);
                if bytes == 0 {
                    let update = client.next_of(WINDOW_UPDATE).await?;
                    let by = update.increment() as usize;
                    if update.stream == 0 {
                        connection += by
                    } else {
                        window += by
                    }
                    continue;
                }
                client.send(&frame(DATA, 0, 1, &vec![b'u'; bytes])).await?;
                (window, connection, sent) = (window - bytes, connection - bytes, sent + bytes);
            }
            assert!(reserved() > 0, "it has grown");
            let end = match has_trailers {
                false => frame(DATA, END_STREAM, 1, &[]),
                true => frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("sum", "7")])),
            };
            client.send(&end).await?;
            sleep(Duration::from_millis(10)).await;
            assert_eq!(reserved(), 0, "while its handler still runs");
            assert_eq!(client.body(1).await?, sent.to_string().as_bytes());
        }
        server.stop().await
    });
}

#[test]
fn what_stays_in_the_socket_for_long_ends_the_connection() {
    in_simulation("unread", async || {
        let config = Config { memory_timeout: Duration::from_secs(2), ..lends_nothing() };
        let server = serve(config, |_req: Request| async {
            sleep(Duration::from_secs(60)).await;
            Response::text("never")
        })?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&get(1, "/")).await?;
        sleep(Duration::from_millis(10)).await;
        let memory = fill_to(Level::Orange).await;
        // Room for what the client sends and for how it does so, and none when that has come.
        let all = fill_but(&[4_096, 4_096]);
        client.send(&frame(PING, 0, 0, &[0; 8])).await?;
        let rest = fill(1);
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(server.shed(), 0, "it waits");
        sleep(Duration::from_millis(1_500)).await;
        assert_eq!(server.shed(), 1, "and no longer than anything else");
        drop((all, rest, memory));
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!(got.iter().any(|frame| frame.kind == GOAWAY), "{got:?}");
        server.stop().await
    });
}

#[test]
fn who_is_let_go_of_gets_what_is_on_its_way_before_its_goaway() {
    in_simulation("a send in flight", async || {
        let config = Config { memory_timeout: Duration::from_millis(300), ..lends_nothing() };
        let server = serve(config, |req: Request| async move {
            if req.path() == "/wait" {
                sleep(Duration::from_secs(60)).await;
            }
            Response::text("x".repeat(45_000))
        })?;
        let mut client = Client::connect(server.address, &[0, 4, 0x7f, 0xff, 0xff, 0xff]).await?;
        client.send(&[window_update(0, 1 << 20), get(1, "/wait")].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        let memory = fill_to(Level::Orange).await;
        // The socket takes no more than a part of these.
        for stream in [3, 5, 7] {
            client.send(&get(stream, "/")).await?;
            sleep(Duration::from_millis(10)).await;
        }
        let all = fill_but(&[4_096, 4_096]);
        client.send(&frame(PING, 0, 0, &[0; 8]).repeat(200)).await?;
        let rest = fill(1);
        sleep(Duration::from_millis(700)).await;
        assert_eq!(server.shed(), 1, "the pings find no room for so long");
        drop((all, rest, memory));
        let got = client.frames(Duration::from_secs(1)).await?;
        assert!([3, 5].iter().all(|&stream| is_ended(&got, stream)) && !is_ended(&got, 1), "{} frames", got.len());
        assert_eq!(got.last().map(|frame| frame.kind), Some(GOAWAY), "{} frames", got.len());
        server.stop().await
    });
}

/// Sends the body back as it comes.
async fn echo(mut req: Request) -> core::result::Result<Response, Error> {
    let mut out = req.respond(Response::new(StatusCode::OK), None)?;
    while let Some(chunk) = req.chunk().await? {
        out.write(chunk).await?;
    }
    out.finish().await
}

/// The bodies that a connection holds wait for windows; those stand behind more of the bodies, for which there is no
/// memory; and what holds the memory is the connection itself. The progress reserve lets them in.
#[test]
fn a_connection_whose_windows_wait_behind_its_own_bodies_goes_on() {
    const PART_BYTES: usize = 16_000;
    let world = World::new(SimConfig::new(11));
    let simulation =
        Runtime::builder().memory(MemoryLimit::mib(4)).newcomer_reserve_bytes(0).simulate(&world).expect("it starts");
    let ended = simulation.block_on(async {
        let streams: Vec<u32> = (0..32).map(|at| 2 * at + 1).collect();
        let server = serve(Config::default(), echo)?;
        let mut client = Client::connect(server.address, &[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 100]).await?;
        for stream in &streams {
            client.send(&[post(*stream), frame(DATA, 0, *stream, &[b'e'; PART_BYTES])].concat()).await?;
            sleep(Duration::from_millis(1)).await;
        }
        let got = client.frames(Duration::from_millis(100)).await?;
        let echoed: usize = got.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum();
        assert_eq!(echoed, 100 * streams.len(), "a hundred bytes of each answer leave");
        let parts: Vec<u8> = streams[..14].iter().flat_map(|stream| frame(DATA, 0, *stream, &[b'e'; 1_100])).collect();
        let windows: Vec<u8> = streams.iter().flat_map(|stream| window_update(*stream, 10_000)).collect();
        let mut held = fill_but(&[16_384]);
        client.send(&[parts, window_update(0, 1 << 20), windows].concat()).await?;
        held.extend(fill(1));
        // Long before anything is over that has waited for memory.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(server.shed(), 0, "nobody gives way");
        // The client needs some, too.
        drop(held);
        let got = client.frames(Duration::from_secs(2)).await?;
        assert!(got.iter().all(|frame| ![GOAWAY, RST_STREAM].contains(&frame.kind)), "it lives");
        let goes_on = |stream: u32| {
            let of_stream = got.iter().filter(|frame| (frame.kind, frame.stream) == (DATA, stream));
            of_stream.map(|frame| frame.payload.len()).sum::<usize>() == 10_000
        };
        assert!(streams.iter().all(|stream| goes_on(*stream)), "all go on");
        drop(client);
        server.stop().await
    });
    ended.expect("it ends well");
    assert!(simulation.shutdown().is_clean());
}
