//! Clients that end their half of the connection: an answer that was begun is sent to its end, and who goes away is
//! noticed all the same.

use core::time::Duration;

use plimsoll_http::HalfClose;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, now, sleep, timeout};

use crate::rig::drops::Drops;
use crate::rig::half_closed::{LARGE, server};
use crate::rig::{Running, in_simulation, on_each, read};

fn get(path: &str) -> Vec<u8> {
    format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
}

/// A client that has sent all it will send.
async fn half_closed(server: &Running, bytes: &[u8]) -> Result<TcpStream> {
    let mut client = TcpStream::connect(server.address).await?;
    client.send_bytes(bytes).await?;
    client.shutdown_write().await?;
    Ok(client)
}

/// `printf ... | nc -N`.
#[test]
fn an_answer_that_was_begun_arrives_whole() {
    for half_close in [HalfClose::Gone, HalfClose::Answered] {
        on_each("half closed", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            for path in ["whole", "length", "chunks", "pauses"] {
                let mut client = half_closed(&server, &get(path)).await?;
                let answer = read(&mut client, None).await?;
                assert_eq!(answer.bytes().filter(|&byte| byte == b'x').count(), LARGE.len(), "{half_close:?}, {path}");
                assert!(answer.starts_with("HTTP/1.1 200 "), "{half_close:?}, {path}");
                let ends = matches!(path, "whole" | "length") || answer.ends_with("\r\n0\r\n\r\n");
                assert!(ends, "{half_close:?}, {path}: the last chunk");
            }
            // So does one of which the client ends its half midway.
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(&get("chunks")).await?;
            let head = client.recv().await?.expect("a part").to_vec();
            client.shutdown_write().await?;
            let rest = read(&mut client, None).await?;
            let count = |bytes: &[u8]| bytes.iter().filter(|&&byte| byte == b'x').count();
            assert_eq!(count(&head) + count(rest.as_bytes()), LARGE.len(), "{half_close:?}");
            server.stop().await
        });
    }
}

/// The first answer was begun, the second was not.
#[test]
fn an_answer_before_one_that_was_not_begun_arrives_whole() {
    on_each("half closed in a pipeline", async || {
        let drops = Drops::default();
        let answered = self::server(HalfClose::Answered, &drops)?;
        let mut client = half_closed(&answered, &[get("whole"), get("chunks"), get("whole")].concat()).await?;
        let answer = read(&mut client, None).await?;
        assert_eq!(answer.bytes().filter(|&byte| byte == b'x').count(), 3 * LARGE.len());
        let server = server(HalfClose::Gone, &drops)?;
        for first in ["whole", "chunks"] {
            let gone = drops.count();
            let mut client = half_closed(&server, &[get(first), get("never")].concat()).await?;
            let answer = read(&mut client, None).await?;
            assert_eq!(answer.bytes().filter(|&byte| byte == b'x').count(), LARGE.len(), "{first}");
            assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{first}");
            assert_eq!(
                drops.reach(gone + 2).await,
                gone + 2,
                "{first}: both handlers are gone; {:?}",
                server.counters.totals()
            );
        }
        drop(answered);
        server.stop().await
    });
}

/// The end of the client's half is told once: nothing looks at it again and again, and a client that goes away for good
/// is found out.
#[test]
fn a_client_that_goes_away_after_its_half_takes_its_handler_along() {
    for half_close in [HalfClose::Gone, HalfClose::Answered] {
        on_each("half closed, then reset", async || {
            let drops = Drops::default();
            let server = server(half_close, &drops)?;
            // What was sent to it and not read makes its close a reset.
            let client = half_closed(&server, &get("begun")).await?;
            sleep(Duration::from_millis(30)).await;
            assert_eq!(drops.count(), 0, "{half_close:?}: it may still be reading");
            drop(client);
            assert_eq!(drops.reach_late(1).await, 1, "{half_close:?}: it was reset");
            // One that was closed in silence answers the next bytes with a reset.
            let mut client = half_closed(&server, &get("ticks")).await?;
            read(&mut client, Some(b"tick")).await?;
            drop(client);
            assert_eq!(drops.reach_late(2).await, 2, "{half_close:?}: it was closed");
            server.stop().await
        });
    }
}

/// An hour passes in the simulation only if nothing turns round and round in it.
#[test]
fn a_half_closed_client_may_wait_for_the_rest_of_its_answer() {
    in_simulation("half closed for an hour", async || {
        let drops = Drops::default();
        let server = server(HalfClose::Gone, &drops)?;
        let begun = now();
        let mut client = half_closed(&server, &get("begun")).await?;
        let answer = timeout(Duration::from_secs(4_000), read_slowly(&mut client)).await??;
        assert!(answer.ends_with("begun\r\n0\r\n\r\n"), "{answer}");
        assert!((now() - begun).as_secs() >= 3_600);
        assert_eq!(drops.count(), 1);
        server.stop().await
    });
}

async fn read_slowly(client: &mut TcpStream) -> Result<String> {
    let mut bytes = Vec::new();
    while let Some(lease) = client.recv().await? {
        bytes.extend_from_slice(&lease);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
