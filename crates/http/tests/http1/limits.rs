//! The limits of a server, each with the answer that a client gets who goes beyond it.

use core::cell::Cell;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll_http::{Config, ProxyProtocol, Request, Response, Server, StatusCode, TcpOptions};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, Result, Runtime, pool, sleep, spawn};

use crate::rig::drops::Drops;
use crate::rig::memory::{fill, fill_but};
use crate::rig::{in_simulation, is_carried, on_each, read, serve, talk, until};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const CLOSE: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

async fn path(req: Request) -> Response {
    Response::text(req.path().to_owned())
}

/// Seconds of the driver's time that a scenario takes.
async fn seconds<T>(scenario: impl Future<Output = Result<T>>) -> Result<(T, u64)> {
    let start = plimsoll_runtime::now();
    let result = scenario.await?;
    Ok((result, (plimsoll_runtime::now() - start).as_secs()))
}

#[test]
fn a_config_out_of_range_does_not_serve() {
    in_simulation("config", async || {
        let server = serve(Config { output_bytes_max: 70_000, ..Config::default() }, path)?;
        let error = server.stop().await.expect_err("70,000 bytes are more than 64 KiB").to_string();
        assert!(error.contains("output_bytes_max must be between 1 and 65,536 bytes"), "{error}");
        Ok(())
    });
}

#[test]
fn a_handler_that_takes_too_long_is_dropped_and_answered_503() {
    in_simulation("handler timeout", async || {
        let drops = Drops::default();
        let handlers = drops.clone();
        let config = Config { handler_timeout: Some(Duration::from_secs(3)), ..Config::default() };
        let server = serve(config, move |req: Request| {
            let guard = handlers.guard();
            async move {
                if req.path() == "/a" {
                    sleep(Duration::from_secs(3_600)).await;
                }
                drop(guard);
                Response::text("done")
            }
        })?;
        let (answer, took) = seconds(talk(server.address, &[GET], None)).await?;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
        assert!((3..=6).contains(&took), "took {took} s, lingering included");
        assert_eq!(drops.count(), 1, "its future is gone");
        let quick = b"GET /b HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        assert!(talk(server.address, &[quick], None).await?.ends_with("done"));
        server.stop().await
    });
}

#[test]
fn a_connection_ends_at_its_age_and_after_its_requests() {
    in_simulation("age", async || {
        let config =
            Config { connection_age_max: Some(Duration::from_secs(10)), requests_max: Some(3), ..Config::default() };
        let server = serve(config, path)?;
        let (answers, _) = seconds(talk(server.address, &[GET, GET, GET, GET], None)).await?;
        assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 3, "{answers}");
        assert_eq!(answers.matches("\r\nConnection: close\r\n").count(), 1, "the last one says so: {answers}");

        let (answers, took) = seconds(talk(server.address, &[GET], None)).await?;
        assert!(!answers.contains("Connection: close"), "{answers}");
        assert!((9..=12).contains(&took), "a parked one is closed at 10 s, took {took}");

        let mut client = TcpStream::connect(server.address).await?;
        sleep(Duration::from_millis(9_500)).await;
        client.send_bytes(b"GET /a HTTP/1.1\r\n").await?;
        sleep(Duration::from_millis(1_000)).await;
        client.send_bytes(b"Host: h\r\n\r\n").await?;
        let answer = read(&mut client, None).await?;
        assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("/a"), "{answer}");
        server.stop().await
    });
}

#[test]
fn one_connection_too_many_is_told_when_to_come_again() {
    on_each("connections", async || {
        let server = serve(Config { connections_max: 2, ..Config::default() }, path)?;
        let mut first = TcpStream::connect(server.address).await?;
        let mut second = TcpStream::connect(server.address).await?;
        for client in [&mut first, &mut second] {
            client.send_bytes(GET).await?;
            assert!(read(client, Some(b"/a")).await?.ends_with("/a"));
        }
        for _ in 0..5 {
            let refused = talk(server.address, &[], None).await?;
            assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: 1\r\n"), "{refused}");
        }
        let totals = server.counters.totals();
        assert_eq!(totals.parked, 2, "those that are refused are not counted");
        assert_eq!(totals.responses_total, [(200, 2), (503, 5)], "but what they were told is");
        first.send_bytes(GET).await?;
        assert!(read(&mut first, Some(b"/a")).await?.ends_with("/a"), "who is in is served");
        drop(second);
        let mut answer = String::new();
        while !answer.starts_with("HTTP/1.1 200 ") {
            sleep(Duration::from_millis(5)).await;
            answer = talk(server.address, &[CLOSE], None).await?;
        }
        drop(first);
        server.stop().await
    });
}

#[test]
fn an_address_has_its_own_number_of_connections() {
    on_each("connections per address", async || {
        let config = Config { connections_per_address_max: Some(1), ..Config::default() };
        let server = serve(config, path)?;
        let mut first = TcpStream::connect(server.address).await?;
        first.send_bytes(GET).await?;
        assert!(read(&mut first, Some(b"/a")).await?.ends_with("/a"));
        assert!(talk(server.address, &[], None).await?.starts_with("HTTP/1.1 503 "));
        drop(first);
        let mut answer = String::new();
        while !answer.starts_with("HTTP/1.1 200 ") {
            sleep(Duration::from_millis(5)).await;
            answer = talk(server.address, &[CLOSE], None).await?;
        }
        server.stop().await
    });
}

#[test]
fn a_proxy_says_who_the_client_is() {
    on_each("proxy protocol", async || {
        let config = Config {
            proxy_protocol: ProxyProtocol::Required,
            connections_per_address_max: Some(1),
            ..Config::default()
        };
        let server = serve(config, |req: Request| async move {
            Response::text(req.peer_addr().map_or("gone".to_owned(), |peer| peer.to_string()))
        })?;
        let header = b"PROXY TCP4 192.0.2.7 198.51.100.9 12345 80\r\n";
        let answer = talk(server.address, &[header, GET, CLOSE], None).await?;
        assert_eq!(answer.matches("192.0.2.7:12345").count(), 2, "{answer}");
        for at in [1, 6, 20, header.len() - 1] {
            let answer = talk(server.address, &[&header[..at], &header[at..], CLOSE], None).await?;
            assert!(answer.ends_with("192.0.2.7:12345"), "split at {at}: {answer}");
        }
        let answer = talk(server.address, &[&[&header[..], CLOSE].concat()], None).await?;
        assert!(answer.ends_with("192.0.2.7:12345"), "{answer}");
        let answer = talk(server.address, &[b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", CLOSE], None).await?;
        assert!(answer.contains("HTTP/1.1 200 ") && answer.contains("127.0.0.1:"), "{answer}");
        for bad in [CLOSE, b"PROXY TCP5 a b 1 2\r\n"] {
            // Closed without a word; on a real socket perhaps with a reset.
            assert_eq!(talk(server.address, &[bad], None).await.unwrap_or_default(), "");
        }
        // The client's address is the one that has a number of connections.
        let mut first = TcpStream::connect(server.address).await?;
        first.send_bytes(header).await?;
        first.send_bytes(GET).await?;
        assert!(read(&mut first, Some(b":12345")).await?.ends_with("192.0.2.7:12345"));
        let refused = talk(server.address, &[header], None).await?;
        // Before there are keys nothing is said.
        assert!(refused.starts_with("HTTP/1.1 503 ") || is_carried() && refused.is_empty(), "{refused}");
        let other = b"PROXY TCP4 192.0.2.8 198.51.100.9 1 80\r\n";
        assert!(talk(server.address, &[other, CLOSE], None).await?.ends_with("192.0.2.8:1"));
        drop(first);
        server.stop().await
    });
}

#[test]
fn a_proxy_header_has_its_own_deadline() {
    in_simulation("proxy deadline", async || {
        let config = Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() };
        let server = serve(config, path)?;
        for pieces in [&[][..], &[&b"PROXY TCP4 192"[..], b".0.2"]] {
            let (answer, took) = seconds(talk(server.address, pieces, None)).await?;
            assert_eq!(answer, "");
            assert!((5..=6).contains(&took), "took {took} s");
        }
        server.stop().await
    });
}

#[test]
fn no_more_is_read_ahead_than_the_configured_number() {
    thread_local!(static STARTED: Cell<u32> = const { Cell::new(0) });
    in_simulation("read ahead", async || {
        STARTED.set(0);
        let config = Config { read_ahead_requests_max: 4, ..Config::default() };
        let server = serve(config, |_req: Request| async {
            STARTED.set(STARTED.get() + 1);
            // More than a socket takes that nobody reads from.
            Response::text(vec![b'x'; 16_000])
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(&GET.repeat(200)).await?;
        sleep(Duration::from_secs(1)).await;
        let ahead = STARTED.get();
        assert!(ahead <= 16, "{ahead} requests were begun for a client that reads nothing");
        let mut received = 0;
        while received < 200 * 16_000 {
            received += client.recv().await?.map_or(usize::MAX, |bytes| bytes.len());
        }
        assert_eq!(STARTED.get(), 200, "all are answered in the end");
        drop(client);
        server.stop().await
    });
}

#[test]
fn what_must_finish_does_though_the_client_goes_away() {
    on_each("must finish", async || {
        let (finished, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, open) = (Arc::clone(&finished), Arc::clone(&gate));
        let server = serve(Config::default(), move |req: Request| {
            let (count, open) = (Arc::clone(&count), Arc::clone(&open));
            async move {
                let guard = (req.path() == "/a").then(|| req.must_finish());
                while !open.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(5)).await;
                }
                count.fetch_add(1, Ordering::Relaxed);
                drop(guard);
                Response::text("done")
            }
        })?;
        for request in [GET, b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n"] {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(request).await?;
            sleep(Duration::from_millis(5)).await;
        }
        until("the connections are gone", || server.counters.totals().active == 0).await;
        gate.store(true, Ordering::Relaxed);
        server.stop().await?;
        assert_eq!(finished.load(Ordering::Relaxed), 1, "the stop waited for the one that said so");
        Ok(())
    });
}

#[test]
fn empty_lines_alone_are_misbehaviour() {
    in_simulation("empty lines", async || {
        let server = serve(Config::default(), path)?;
        let mut client = TcpStream::connect(server.address).await?;
        let mut sent = 0;
        while server.counters.totals().responses_total.is_empty() {
            client.send_bytes(b"\r\n").await?;
            sent += 1;
            assert!(sent < 500, "empty lines are taken for ever");
            sleep(Duration::from_millis(5)).await;
        }
        // RFC 9112 2.2: at least one is ignored.
        assert!((2..=10).contains(&sent), "cut off after {sent} empty lines");
        assert!(read(&mut client, None).await?.starts_with("HTTP/1.1 400 "));
        drop(client);
        server.stop().await
    });
}

#[test]
fn sockets_are_set_to_what_the_config_says() {
    on_each("tcp options", async || {
        let tcp = TcpOptions {
            no_delay: false,
            keep_alive_idle: Some(Duration::from_secs(30)),
            user_timeout: Some(Duration::from_secs(20)),
            not_sent_bytes_max: Some(16_384),
        };
        let server = serve(Config { tcp, ..Config::default() }, path)?;
        assert!(talk(server.address, &[CLOSE], None).await?.ends_with("/a"));
        server.stop().await
    });
}

#[test]
fn a_server_that_is_bound_with_options_runs_on_all_workers() {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().workers(2).simulate(&world).expect("a simulation starts");
    let run = simulation.block_on(async {
        let options = plimsoll_runtime::net::ListenOptions { backlog: 16, ..Default::default() };
        let server = Server::bind_with("127.0.0.1:81", options)?;
        let address = server.local_addr();
        let serving = spawn(server.serve(|_req: Request| async { plimsoll_runtime::worker_index().to_string() }))?;
        let mut workers = std::collections::BTreeSet::new();
        for _ in 0..50 {
            let answer = talk(address, &[CLOSE], None).await?;
            workers.extend(answer.chars().last());
        }
        assert_eq!(workers.into_iter().collect::<String>(), "01");
        plimsoll_runtime::Spawner::current().stop();
        serving.await.expect("no panic")
    });
    run.expect("the simulation runs");
}

#[test]
fn a_status_alone_is_an_answer() {
    in_simulation("bind with", async || {
        let options = plimsoll_runtime::net::ListenOptions { backlog: 16, ..Default::default() };
        let server = Server::bind_with("127.0.0.1:81", options)?;
        let address = server.local_addr();
        let serving = spawn(server.serve(|_req: Request| async { StatusCode::NO_CONTENT }))?;
        let answer = talk(address, &[CLOSE], None).await?;
        assert!(answer.starts_with("HTTP/1.1 204 ") && !answer.contains("Content-Length"), "{answer}");
        plimsoll_runtime::Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn a_handler_that_does_not_fit_what_was_granted_waits_for_more_and_is_refused_in_time() {
    in_simulation("a large handler", async || {
        let config = Config { admission_timeout: Duration::from_secs(1), ..Config::default() };
        let server = serve(config, async move |_req: Request| {
            let large = [7_u8; 40 * 1_024];
            sleep(Duration::from_millis(1)).await;
            Response::text(large.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string())
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        // Room for the request that is asked for, and not for its handler.
        let spare = [1_024, 4_096, 4_096, 16_384].map(|len| pool().try_acquire(len, Kind::Buffers).expect("room"));
        let held = fill(1);
        drop(spare);
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let answer = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert_eq!(server.counters.totals().requests_total, 0, "it was never begun");
        drop((held, client));
        server.stop().await
    });
}

#[test]
fn each_request_that_came_with_others_is_refused_in_its_time() {
    in_simulation("requests that wait one behind the other", async || {
        let config = Config { admission_timeout: Duration::from_secs(1), ..Config::default() };
        let server = serve(config, async |_req: Request| Response::text("answered"))?;
        let mut client = TcpStream::connect(server.address).await?;
        // Room to receive them, and not for what they are copied to: what refuses them leaves at once.
        let held = fill_but(&[1_024]);
        client.send_static(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        sleep(Duration::from_secs(4)).await;
        let totals = server.counters.totals();
        drop((held, client));
        assert_eq!((totals.requests_total, totals.responses_total), (0, vec![(503, 2)]));
        server.stop().await
    });
}
