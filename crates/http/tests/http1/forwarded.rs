//! While memory is short, clients behind a proxy share as clients do that come by themselves: the one that holds much
//! begins nothing more, and its neighbours do. What an untrusted peer says of itself changes nothing.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_http::{Config, Network, ProxyProtocol, Request, Response};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, Lease, Result, pool, sleep};

use crate::rig::frames::{Client, END_HEADERS, END_STREAM, Frame, HEADERS, request};
use crate::rig::{Running, in_simulation, read, serve, talk};

/// Requests of the heavy client that run; each takes more than a kilobyte.
const HEAVY: usize = 600;
/// What is free then: less than a quarter of what they hold.
const FREE_BYTES: u64 = 96 * 1024;
/// Others, each with one request.
const LIGHT: usize = 1_000;

#[derive(Default)]
struct Gate {
    is_open: AtomicBool,
    waiting: AtomicUsize,
}

fn gated(config: Config) -> Result<(Running, Arc<Gate>)> {
    let gate = Arc::new(Gate::default());
    let theirs = Arc::clone(&gate);
    let running = serve(config, move |req: Request| {
        let gate = Arc::clone(&theirs);
        async move {
            if req.path() == "/wait" {
                gate.waiting.fetch_add(1, Ordering::AcqRel);
                while !gate.is_open.load(Ordering::Acquire) {
                    sleep(Duration::from_millis(100)).await;
                }
            }
            Response::text(req.client_ip().expect("an address").to_string())
        }
    })?;
    Ok((running, gate))
}

fn trusting(proxy: &str) -> Config {
    Config { forwarded_from: vec![proxy.parse::<Network>().expect("a network")], ..Config::default() }
}

/// The heavy client's requests, all of which run; and what makes memory short beside them.
async fn crowd_in(address: SocketAddr, gate: &Gate, hello: &str) -> Result<(Vec<TcpStream>, Vec<Lease>)> {
    let mut clients = Vec::new();
    for at in 0..HEAVY {
        let mut client = TcpStream::connect(address).await?;
        let head = format!(
            "{hello}GET /wait HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.{}, 192.0.2.66\r\n\r\n",
            at % 200
        );
        client.send_bytes(head.as_bytes()).await?;
        clients.push(client);
    }
    while gate.waiting.load(Ordering::Acquire) < HEAVY {
        sleep(Duration::from_millis(10)).await;
    }
    let budget = pool().budget().clone();
    let mut held = Vec::new();
    while budget.limit().as_bytes() - budget.in_use() > FREE_BYTES {
        held.push(pool().try_acquire(8 * 1_024, Kind::Buffers)?);
    }
    sleep(Duration::from_millis(20)).await;
    Ok((clients, held))
}

#[test]
fn a_thousand_clients_behind_one_proxy_share_as_a_thousand_do() {
    in_simulation("one proxy", async || {
        let (running, gate) = gated(trusting("127.0.0.0/8"))?;
        let (mut clients, held) = crowd_in(running.address, &gate, "").await?;
        for at in 0..LIGHT {
            let client = format!("198.18.{}.{}", at / 250, at % 250);
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Forwarded-For: {client}\r\n\r\n");
            let answer = talk(running.address, &[head.as_bytes()], None).await?;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&client), "{at}: {answer}");
        }
        // On one connection that is kept: each request is for its own client.
        let mut kept = TcpStream::connect(running.address).await?;
        for (client, status) in [("192.0.2.66", 503), ("192.0.2.66", 503), ("192.0.2.67", 200)] {
            let head = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: {client}\r\n\r\n");
            kept.send_bytes(head.as_bytes()).await?;
            let answer = read(&mut kept, Some(b"\r\n\r\n")).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{client}: {answer}");
        }
        drop((held, kept));
        gate.is_open.store(true, Ordering::Release);
        for client in &mut clients {
            let answer = read(client, Some(b"192.0.2.66")).await?;
            assert!(answer.starts_with("HTTP/1.1 200 "), "what was begun is finished: {answer}");
        }
        drop(clients);
        running.stop().await
    });
}

#[test]
fn each_stream_waits_and_is_begun_for_its_client() {
    in_simulation("streams", async || {
        let (running, gate) = gated(trusting("127.0.0.1"))?;
        let mut proxy = Client::connect(running.address, &[]).await?;
        proxy.fetch(1, "/").await?;
        let (clients, held) = crowd_in(running.address, &gate, "").await?;
        let flags = END_HEADERS | END_STREAM;
        let ask = |stream, client| request(stream, "GET", "/", &[("x-forwarded-for", client)], flags);
        // The heavy client's wait, and the other's do not wait for those.
        for (stream, client) in [(3, "192.0.2.66"), (5, "198.18.0.1"), (7, "192.0.2.66"), (9, "198.18.0.2")] {
            proxy.send(&ask(stream, client)).await?;
        }
        let got = proxy.frames(Duration::from_millis(500)).await?;
        let answered = |frames: &[Frame]| {
            let heads = frames.iter().filter(|frame| frame.kind == HEADERS);
            heads.map(|head| (head.stream, head.has_status(200))).collect::<Vec<_>>()
        };
        assert_eq!(answered(&got), [(5, true), (9, true)]);
        // Those that wait in vain are told.
        let got = proxy.frames(Duration::from_secs(1)).await?;
        assert_eq!(answered(&got), [(3, false), (7, false)]);
        proxy.send(&[ask(11, "192.0.2.66"), ask(13, "192.0.2.66")].concat()).await?;
        sleep(Duration::from_millis(500)).await;
        gate.is_open.store(true, Ordering::Release);
        drop(held);
        let got = proxy.frames(Duration::from_millis(500)).await?;
        assert_eq!(answered(&got), [(11, true), (13, true)], "there was room in time");
        drop((clients, proxy));
        running.stop().await
    });
}

#[test]
fn what_a_stream_collects_counts_for_its_client_and_not_for_the_proxy() {
    in_simulation("collected bodies", async || {
        const BODY: usize = 60_000;
        let collecting = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&collecting);
        let running = serve(trusting("127.0.0.1"), move |mut req: Request| {
            let collecting = Arc::clone(&theirs);
            async move {
                if req.path() == "/collect" {
                    collecting.fetch_add(1, Ordering::AcqRel);
                    return Response::text(req.collect().await.map_or(0, |body| body.len()).to_string());
                }
                Response::text("quick")
            }
        })?;
        let mut proxy = Client::connect(running.address, &[]).await?;
        proxy.fetch(1, "/").await?;
        // Short of memory, and no more is free then than what a body holds.
        let budget = pool().budget().clone();
        let mut held = Vec::new();
        while budget.limit().as_bytes() - budget.in_use() > 3 * BODY as u64 {
            held.push(pool().try_acquire(8 * 1_024, Kind::Buffers)?);
        }
        sleep(Duration::from_millis(20)).await;
        let length = BODY.to_string();
        let fields = [("x-forwarded-for", "192.0.2.66"), ("content-length", length.as_str())];
        for stream in [3, 5] {
            proxy.send(&request(stream, "POST", "/collect", &fields, END_HEADERS)).await?;
        }
        while collecting.load(Ordering::Acquire) < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        while budget.limit().as_bytes() - budget.in_use() > 24 * 1_024 {
            held.push(pool().try_acquire(4 * 1_024, Kind::Buffers)?);
        }
        sleep(Duration::from_millis(20)).await;
        let flags = END_HEADERS | END_STREAM;
        for (stream, client) in [(7, "192.0.2.66"), (9, "198.18.0.1")] {
            proxy.send(&request(stream, "GET", "/", &[("x-forwarded-for", client)], flags)).await?;
        }
        let got = proxy.frames(Duration::from_millis(500)).await?;
        let heads: Vec<_> = got.iter().filter(|frame| frame.kind == HEADERS).map(|frame| frame.stream).collect();
        assert_eq!(heads, [9], "the one that collects holds much: {got:?}");
        drop(held);
        let got = proxy.frames(Duration::from_millis(500)).await?;
        assert!(got.iter().any(|frame| frame.kind == HEADERS && frame.stream == 7), "{got:?}");
        drop(proxy);
        running.stop().await
    });
}

#[test]
fn what_an_untrusted_peer_says_is_ignored() {
    in_simulation("an untrusted peer", async || {
        let (running, gate) = gated(trusting("10.0.0.0/8"))?;
        let (clients, held) = crowd_in(running.address, &gate, "").await?;
        let forged = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Forwarded-For: 198.18.0.1\r\n\r\n";
        let answer = talk(running.address, &[forged], None).await?;
        assert!(answer.starts_with("HTTP/1.1 503 "), "its address holds much: {answer}");
        gate.is_open.store(true, Ordering::Release);
        drop((held, clients));
        sleep(Duration::from_secs(5)).await;
        let answer = talk(running.address, &[forged], None).await?;
        assert!(answer.ends_with("\r\n\r\n127.0.0.1"), "{answer}");
        running.stop().await
    });
}

#[test]
fn whom_a_proxy_header_names_is_the_host() {
    in_simulation("a PROXY header", async || {
        let (running, gate) = gated(Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() })?;
        let hello = |client: &str| format!("PROXY TCP4 {client} 10.0.0.1 1000 80\r\n");
        let (clients, held) = crowd_in(running.address, &gate, &hello("192.0.2.66")).await?;
        for (client, status) in [("192.0.2.66", 503), ("198.18.0.1", 200), ("192.0.2.66", 503), ("198.18.0.2", 200)] {
            // Together with the request, when only the proxy was known.
            let head = hello(client) + "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let answer = talk(running.address, &[head.as_bytes()], None).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{client}: {answer}");
        }
        gate.is_open.store(true, Ordering::Release);
        drop((held, clients));
        running.stop().await
    });
}
