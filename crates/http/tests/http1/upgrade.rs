//! Connections that leave HTTP, by Upgrade and by CONNECT: on io_uring (where it works), on mio and in the simulation.

use core::time::Duration;

use plimsoll_http::{Config, Error, Request, Response, StatusCode, Upgraded};
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Result, Spawner, io, signal, sleep, spawn};

use crate::rig::{on_each, read, serve, talk};

const UPGRADE: &str =
    "GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: other, ECHO/1\r\nConnection: keep-alive, Upgrade\r\n\r\n";
const END: &str = "GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Gives back what comes, and says when it ends.
async fn echo_on(mut peer: Upgraded) {
    while let Ok(Some(lease)) = peer.recv().await {
        if peer.send_all(lease).await.is_err() {
            return;
        }
    }
    let _gone_already = peer.send_static(b"<end>").await;
}

async fn answer(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/echo" => req.upgrade("echo/1", echo_on).map(|response| response.header("x", "y")),
        "/late" => {
            sleep(Duration::from_millis(3)).await;
            req.upgrade("echo/1", echo_on)
        }
        "/body" => {
            let body = req.collect().await?;
            let response = req.upgrade("echo/1", echo_on)?;
            Ok(response.header("body", body))
        }
        "/other" => {
            let _never_sent = req.upgrade("echo/1", echo_on)?;
            Ok(Response::new(StatusCode::FORBIDDEN))
        }
        path => Ok(Response::text(path.to_owned())),
    }
}

#[test]
fn after_an_upgrade_the_stream_is_the_handlers_with_all_that_came_behind() {
    on_each("upgrade", async || {
        let server = serve(Config::default(), answer)?;
        for path in ["/echo", "/late"] {
            let request = UPGRADE.replace("/echo", path);
            let bytes = [request.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
            for at in (1..bytes.len()).step_by(9).chain([request.len(), bytes.len()]) {
                let mut client = TcpStream::connect(server.address).await?;
                client.send_bytes(&bytes[..at]).await?;
                sleep(Duration::from_millis(1)).await;
                client.send_bytes(&[&bytes[at..], b"more"].concat()).await?;
                let mut answer = read(&mut client, Some(b"more")).await?;
                client.shutdown_write().await?;
                answer += &read(&mut client, None).await?;
                assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "split at {at}: {answer}");
                let lower = answer.to_ascii_lowercase();
                assert!(lower.contains("\r\nconnection: upgrade\r\n") && lower.contains("\r\nupgrade: echo/1\r\n"));
                assert!(!lower.contains("content-length") && !lower.contains("transfer-encoding"), "{answer}");
                assert!(answer.ends_with("\r\n\r\nGET / HTTP/1.1\r\nmore<end>"), "split at {at}: {answer}");
            }
        }
        server.stop().await
    });
}

#[test]
fn what_was_not_offered_is_answered_with_426() {
    on_each("no upgrade", async || {
        let server = serve(Config::default(), answer)?;
        for request in [
            "GET /echo HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: echo/2\r\nConnection: upgrade\r\n\r\n",
            "GET /echo HTTP/1.1\r\nHost: h\r\nUpgrade: echo/1\r\n\r\n",
        ] {
            let answer = talk(server.address, &[&[request, END].concat().into_bytes()], None).await?;
            assert!(answer.starts_with("HTTP/1.1 426 ") && answer.contains("\r\nUpgrade: echo/1\r\n"), "{answer}");
            assert!(answer.ends_with("/end"), "the connection is kept: {answer}");
        }
        let request = b"GET /echo HTTP/1.0\r\nUpgrade: echo/1\r\nConnection: upgrade\r\n\r\n";
        let answer = talk(server.address, &[request], None).await?;
        assert!(answer.starts_with("HTTP/1.1 426 "), "{answer}");
        // A handler that thinks again is taken at its word.
        let request = [&UPGRADE.replace("/echo", "/other"), END].concat();
        let answer = talk(server.address, &[request.as_bytes()], None).await?;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("/end"), "{answer}");
        server.stop().await
    });
}

#[test]
fn a_request_with_a_body_is_read_before_the_protocol_changes() {
    on_each("upgrade with a body", async || {
        let server = serve(Config::default(), answer)?;
        let head =
            "POST /body HTTP/1.1\r\nHost: h\r\nUpgrade: echo/1\r\nConnection: upgrade\r\nContent-Length: 3\r\n\r\n";
        for path in ["/body", "/echo"] {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(head.replace("/body", path).as_bytes()).await?;
            sleep(Duration::from_millis(1)).await;
            client.send_bytes(b"abcraw").await?;
            let enough: &[u8] = if path == "/body" { b"raw" } else { b"\r\n\r\n" };
            let mut answer = read(&mut client, Some(enough)).await?;
            if path == "/body" {
                client.shutdown_write().await?;
                answer += &read(&mut client, None).await?;
                assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("\r\nbody: abc\r\n"), "{answer}");
                assert!(answer.ends_with("\r\n\r\nraw<end>"), "{answer}");
            } else {
                assert!(answer.starts_with("HTTP/1.1 500 "), "a handler that does not read it: {answer}");
            }
        }
        server.stop().await
    });
}

#[test]
fn a_connect_becomes_a_tunnel_where_the_handler_wants_it() {
    on_each("tunnel", async || {
        let backend = TcpListener::bind("127.0.0.1:0")?;
        let upstream = backend.local_addr();
        let upstreams = spawn(async move {
            for _ in 0..2 {
                let (mut stream, _) = backend.accept().await?;
                while let Some(lease) = stream.recv().await? {
                    stream.send_static(b">").await?;
                    stream.send_all(lease).await?;
                }
            }
            Ok::<_, plimsoll_runtime::Error>(())
        })?;
        let server = serve(Config::default(), move |req: Request| async move {
            let Some("db:5432") = req.view().host() else { return Ok(Response::new(StatusCode::FORBIDDEN)) };
            let stream = TcpStream::connect(upstream).await?;
            req.tunnel(|client| async move {
                let (client, _share) = client.into_parts();
                io::relay(client, stream).await.expect("there is room");
            })
        })?;
        let request = "CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n";
        for pieces in [[request, "SELECT 1"], ["CONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\nSELECT", " 1"]] {
            let mut client = TcpStream::connect(server.address).await?;
            for piece in pieces {
                client.send_bytes(piece.as_bytes()).await?;
                sleep(Duration::from_millis(1)).await;
            }
            let mut answer = read(&mut client, Some(b" 1")).await?;
            client.shutdown_write().await?;
            answer += &read(&mut client, None).await?;
            let (head, tunnel) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("Content-Length"), "{answer}");
            assert!(!head.contains("Transfer-Encoding") && !head.contains("Connection"), "{answer}");
            assert_eq!(tunnel.replace('>', ""), "SELECT 1", "{answer}");
        }
        upstreams.await.expect("no panic")?;
        // What is behind a CONNECT that was refused is not read as a request.
        let refused =
            "CONNECT other:1 HTTP/1.1\r\nHost: other:1\r\n\r\nCONNECT db:5432 HTTP/1.1\r\nHost: db:5432\r\n\r\n";
        let answer = talk(server.address, &[refused.as_bytes()], None).await?;
        assert!(answer.starts_with("HTTP/1.1 403 ") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
        server.stop().await
    });
}

#[test]
fn a_connection_that_left_still_counts_and_the_stop_waits_for_it() {
    if crate::rig::is_skipped(crate::rig::BEFORE_KEYS) {
        return;
    }
    on_each("shares", async || {
        let config = Config { connections_per_address_max: Some(1), ..Config::default() };
        let server = serve(config, |req: Request| async move {
            req.upgrade("echo/1", |mut peer| async move {
                signal::stopped().await;
                assert!(peer.is_stopping());
                sleep(Duration::from_millis(5)).await;
                let _gone_already = peer.send_static(b"good-bye").await;
            })
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(UPGRADE.as_bytes()).await?;
        let head = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let totals = server.counters.totals();
        assert_eq!(totals.parked + totals.active, 1, "{totals:?}");
        let second = talk(server.address, &[END.as_bytes()], None).await?;
        assert!(second.starts_with("HTTP/1.1 503 "), "{second}");
        Spawner::current().stop();
        assert_eq!(read(&mut client, None).await?, "good-bye");
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_task_that_does_not_end_is_dropped_when_the_drain_time_is_over() {
    on_each("shares at the stop", async || {
        let config = Config { drain_timeout: Duration::from_millis(30), ..Config::default() };
        let server = serve(config, |req: Request| async move {
            req.upgrade("echo/1", |peer| async move {
                core::future::pending::<()>().await;
                drop(peer);
            })
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(UPGRADE.as_bytes()).await?;
        let head = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        server.stop().await
    });
}
