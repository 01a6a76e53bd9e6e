//! Bodies that are received into several leases at a time: every byte arrives once and in its order, whatever the
//! handler and the peer do meanwhile.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;

use plimsoll_http::{AdaptiveSize, Class, Config, Error, Request, Response};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep, spawn, timeout};

use crate::rig::memory::fill_to;
use crate::rig::{count_body, in_simulation, on_each, read, serve, talk};

/// Receives into several leases as soon as one of 4 KiB was full: in the simulation too, whose windows are small.
fn small() -> Config {
    Config { body_receive: AdaptiveSize::new(Class::K4, Class::K4), ..Config::default() }
}

/// Of a period that no size of a buffer divides.
fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

fn body(bytes: usize) -> Vec<u8> {
    (0..bytes).map(pattern).collect()
}

fn request(bytes: usize, fields: &str) -> Vec<u8> {
    let mut request = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n{fields}\r\n").into_bytes();
    request.extend(body(bytes));
    request
}

/// How many bytes the body had, if each was what and where it should be.
async fn counted(mut req: Request) -> core::result::Result<Response, Error> {
    let mut at = 0;
    while let Some(chunk) = req.chunk().await? {
        if chunk.iter().enumerate().any(|(offset, byte)| *byte != pattern(at + offset)) {
            return Ok(Response::text(format!("odd bytes after {at}")));
        }
        at += chunk.len();
    }
    Ok(Response::text(format!("<{at}>")))
}

async fn upload(client: &mut TcpStream, bytes: &[u8], expected: &str) -> Result<()> {
    client.send_bytes(bytes).await?;
    let answer = read(client, Some(expected.as_bytes())).await?;
    assert!(answer.ends_with(expected), "{answer}");
    Ok(())
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    for config in [small(), Config::default()] {
        on_each("large bodies", async || {
            let server = serve(config.clone(), counted)?;
            let mut client = TcpStream::connect(server.address).await?;
            for bytes in [1, 4_096, 70_000, 1_000_000, 3_000_001] {
                upload(&mut client, &request(bytes, ""), &format!("<{bytes}>")).await?;
            }
            drop(client);
            server.stop().await
        });
    }
}

#[test]
fn the_next_request_behind_a_body_is_not_taken_for_a_part_of_it() {
    on_each("pipelined bodies", async || {
        let server = serve(small(), counted)?;
        let mut client = TcpStream::connect(server.address).await?;
        let mut requests = request(300_000, "");
        requests.extend(request(200_000, ""));
        requests.extend(request(7, "Connection: close\r\n"));
        client.send_bytes(&requests).await?;
        let answer = read(&mut client, None).await?;
        let places: Vec<usize> = ["<300000>", "<200000>", "<7>"].iter().filter_map(|body| answer.find(body)).collect();
        assert!(places.len() == 3 && places.is_sorted(), "{answer}");
        server.stop().await
    });
}

#[test]
fn chunks_may_be_larger_than_several_leases() {
    on_each("large chunks", async || {
        let server = serve(small(), counted)?;
        let mut client = TcpStream::connect(server.address).await?;
        let mut request = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let all = body(600_000);
        for chunk in [&all[..250_000], &all[250_000..250_100], &all[250_100..]] {
            request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            request.extend(chunk);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\n\r\n");
        upload(&mut client, &request, "<600000>").await?;
        drop(client);
        server.stop().await
    });
}

/// What the handler did not want is dropped, and the connection goes on.
#[test]
fn a_handler_may_stop_in_the_middle() {
    on_each("unread parts", async || {
        let half = |mut req: Request| async move {
            let mut at = 0;
            while at < 250_000 {
                let Some(chunk) = req.chunk().await? else { break };
                assert!(chunk.iter().enumerate().all(|(offset, byte)| *byte == pattern(at + offset)));
                at += chunk.len();
                // What comes meanwhile is received together.
                sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, Error>(Response::text(if at < 300_000 { "<half>" } else { "<whole>" }))
        };
        let config = Config { drain_bytes_max: 1 << 20, ..small() };
        let server = serve(config, half)?;
        let mut client = TcpStream::connect(server.address).await?;
        for _ in 0..3 {
            upload(&mut client, &request(300_000, ""), "<half>").await?;
        }
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_peer_that_goes_away_or_waits_in_the_middle_is_noticed() {
    on_each("cut bodies", async || {
        let seen = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&seen);
        let handler = move |req: Request| {
            let told = Arc::clone(&told);
            async move {
                let counted = counted(req).await;
                if counted.is_err() {
                    told.fetch_add(1, Ordering::Relaxed);
                }
                counted
            }
        };
        let config = Config { body_timeout: Duration::from_millis(600), ..small() };
        let patient = serve(small(), handler.clone())?;
        let server = serve(config, handler)?;
        let whole = request(400_000, "");
        // One ends its half, one waits for too long.
        let mut ends = TcpStream::connect(server.address).await?;
        ends.send_bytes(&whole[..300_000]).await?;
        ends.shutdown_write().await?;
        let _answer = timeout(Duration::from_secs(20), read(&mut ends, None)).await;
        let mut waits = TcpStream::connect(server.address).await?;
        waits.send_bytes(&whole[..300_000]).await?;
        let _answer = timeout(Duration::from_secs(20), read(&mut waits, None)).await;
        assert_eq!(seen.load(Ordering::Relaxed), 2, "both handlers were told");
        // One that is slow is not late.
        let mut slow = TcpStream::connect(patient.address).await?;
        for piece in whole.chunks(50_000) {
            slow.send_bytes(piece).await?;
            sleep(Duration::from_millis(20)).await;
        }
        let answer = read(&mut slow, Some(b"<400000>")).await?;
        assert!(answer.ends_with("<400000>"), "{answer}");
        drop((ends, waits, slow));
        server.stop().await
    });
}

/// Many at once, more than there is memory for: all of them are served in the end.
#[test]
fn uploads_share_what_memory_there_is() {
    on_each("uploads beside each other", async || {
        let server = serve(Config::default(), counted)?;
        let address = server.address;
        let mut clients = Vec::new();
        for _ in 0..12 {
            clients.push(spawn(async move {
                let mut client = TcpStream::connect(address).await?;
                upload(&mut client, &request(1_500_000, ""), "<1500000>").await
            })?);
        }
        for client in clients {
            client.await.expect("no client panics")?;
        }
        server.stop().await
    });
}

/// What has come of a trailer section waits for the rest of it, whatever the level, and the worker does not turn in
/// vain meanwhile.
#[test]
fn trailers_in_parts_are_awaited_while_memory_is_short() {
    in_simulation("trailers in parts", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            let bytes = count_body(&mut req).await?;
            Ok::<_, Error>(Response::text(bytes.to_string()))
        })?;
        let memory = fill_to(Level::Yellow).await;
        let head =
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n";
        let answer = talk(server.address, &[head, b"0\r\nX-S", b": 1\r\nX-T: 2", b"\r\n", b"\r\n"], None).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n5"), "{answer}");
        drop(memory);
        server.stop().await
    });
}
