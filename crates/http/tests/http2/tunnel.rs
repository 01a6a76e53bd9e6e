//! CONNECT over HTTP/2: streams that carry bytes (RFC 8441, RFC 9113 8.5), on every driver.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{Config, Error, Misuse, Request, Response, StatusCode};
use plimsoll_runtime::{Result, sleep};

use crate::rig::frames::{
    CANCEL, Client, DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, block, cancel, frame, window_update,
};
use crate::rig::{Running, in_simulation, on_each, serve};

/// Tunnels that have ended, and the bytes they took.
#[derive(Clone, Default)]
struct Seen {
    ended: Arc<AtomicU64>,
    gone: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

/// Echoes, or lets go at once, or sends for as long as it can.
async fn tunnels(req: Request, seen: Seen) -> core::result::Result<Response, Error> {
    let answer = Response::new(StatusCode::OK).header("x", "tunnel");
    match req.connect_protocol() {
        Some("echo") => req.accept_tunnel(answer, |mut tunnel| async move {
            loop {
                match tunnel.recv().await {
                    Ok(Some(bytes)) => {
                        seen.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                        if tunnel.send(bytes).await.is_err() {
                            break;
                        }
                    }
                    Ok(None) => {
                        let _gone = tunnel.finish();
                        break;
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Disconnected), "{error}");
                        seen.gone.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                }
            }
            seen.ended.fetch_add(1, Ordering::Relaxed);
        }),
        Some("drop") => req.accept_tunnel(answer, |tunnel| async move { drop(tunnel) }),
        Some("pour") => req.accept_tunnel(answer, |mut tunnel| async move {
            while tunnel.send_static(&[b'p'; 10_000]).await.is_ok() && tunnel.flush().await.is_ok() {
                seen.bytes.fetch_add(10_000, Ordering::Relaxed);
            }
            seen.ended.fetch_add(1, Ordering::Relaxed);
        }),
        Some("wrong") => {
            let refused = req.accept_tunnel(Response::text("a body"), |_| async {});
            assert!(matches!(refused, Err(Error::Misuse(Misuse::TunnelAnswer))));
            Ok(Response::new(StatusCode::NOT_IMPLEMENTED))
        }
        Some(_) => Ok(Response::new(StatusCode::NOT_IMPLEMENTED)),
        None if req.method() == "CONNECT" => {
            req.accept_tunnel(answer, |mut tunnel| async move { while let Ok(Some(_)) = tunnel.recv().await {} })
        }
        None => {
            let refused = req.accept_tunnel(answer, |_| async {});
            assert!(matches!(refused, Err(Error::Misuse(Misuse::NotConnectInStream))));
            Ok(Response::text("no tunnel"))
        }
    }
}

fn serve_tunnels(seen: &Seen) -> Result<Running> {
    let seen = seen.clone();
    serve(Config::default(), move |req| tunnels(req, seen.clone()))
}

fn connect(stream: u32, protocol: &str) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", "/tunnel"),
    ];
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

/// The head of a tunnel comes, on its stream.
async fn answered(client: &mut Client, stream: u32) -> Result<()> {
    let head = client.next_of(HEADERS).await?;
    assert_eq!((head.stream, head.has_status(200)), (stream, true), "{head:?}");
    Ok(())
}

#[test]
fn bytes_go_both_ways_and_each_side_ends_its_own() {
    on_each("tunnel", async || {
        let seen = Seen::default();
        let server = serve_tunnels(&seen)?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&connect(1, "echo")).await?;
        answered(&mut client, 1).await?;
        for text in [&b"one"[..], b"two", &[b'x'; 9_000]] {
            client.send(&frame(DATA, 0, 1, text)).await?;
            let mut echoed = Vec::new();
            while echoed.len() < text.len() {
                let data = client.next_of(DATA).await?;
                assert_eq!((data.stream, data.flags), (1, 0), "no end yet");
                echoed.extend(data.payload);
            }
            assert_eq!(echoed, text);
        }
        // Another stream of the same connection is served meanwhile, and what is no CONNECT gets no tunnel.
        assert_eq!(client.fetch(3, "/").await?, b"no tunnel");
        client.send(&frame(DATA, END_STREAM, 1, b"last")).await?;
        let mut end = client.next_of(DATA).await?;
        let mut last = end.payload.clone();
        while end.flags & END_STREAM == 0 {
            end = client.next_of(DATA).await?;
            last.extend(end.payload.clone());
        }
        assert_eq!(last, b"last");
        while seen.ended.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(seen.gone.load(Ordering::Relaxed), 0);
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_plain_connect_and_refusals() {
    on_each("plain CONNECT", async || {
        let server = serve_tunnels(&Seen::default())?;
        let mut client = Client::connect(server.address, &[]).await?;
        client
            .send(&frame(HEADERS, END_HEADERS, 1, &block(&[(":method", "CONNECT"), (":authority", "h:443")])))
            .await?;
        answered(&mut client, 1).await?;
        client.send(&frame(DATA, END_STREAM, 1, b"x")).await?;
        // It never finishes its side, and lets go: the stream is reset with CANCEL.
        let reset = client.next_of(RST_STREAM).await?;
        assert_eq!((reset.stream, reset.error_code()), (1, CANCEL));
        client.send(&connect(3, "drop")).await?;
        answered(&mut client, 3).await?;
        assert_eq!(client.next_of(RST_STREAM).await?.stream, 3);
        for (stream, protocol) in [(5, "unknown"), (7, "wrong")] {
            client.send(&connect(stream, protocol)).await?;
            let head = client.next_of(HEADERS).await?;
            assert_eq!((head.stream, head.flags & END_STREAM), (stream, END_STREAM));
            assert!(head.has_status(501), "{head:?}");
        }
        drop(client);
        server.stop().await
    });
}

#[test]
fn a_reset_or_a_lost_connection_ends_the_tunnel() {
    on_each("tunnel reset", async || {
        let seen = Seen::default();
        let server = serve_tunnels(&seen)?;
        let mut client = Client::connect(server.address, &[]).await?;
        for stream in [1, 3, 5] {
            client.send(&connect(stream, if stream == 5 { "pour" } else { "echo" })).await?;
            answered(&mut client, stream).await?;
        }
        client.send(&cancel(1)).await?;
        while seen.gone.load(Ordering::Relaxed) < 1 {
            sleep(Duration::from_millis(1)).await;
        }
        drop(client);
        while seen.ended.load(Ordering::Relaxed) < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        server.stop().await
    });
}

#[test]
fn a_tunnel_waits_for_the_peers_window_and_is_cut_when_that_never_opens() {
    in_simulation("tunnel windows", async || {
        let seen = Seen::default();
        let server = serve_tunnels(&seen)?;
        // Streams begin with a window of 15,000 bytes.
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 58, 152]).await?;
        client.send(&connect(1, "pour")).await?;
        answered(&mut client, 1).await?;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(seen.bytes.load(Ordering::Relaxed), 10_000, "the second piece waits");
        client.send(&window_update(1, 10_000)).await?;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(seen.bytes.load(Ordering::Relaxed), 20_000);
        // A tunnel may be silent for long; what is not taken is not kept for ever.
        let reset = client.next_of(RST_STREAM).await?;
        assert_eq!((reset.stream, reset.error_code()), (1, CANCEL));
        while seen.ended.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        client.send(&connect(3, "echo")).await?;
        answered(&mut client, 3).await?;
        sleep(Duration::from_secs(300)).await;
        client.send(&frame(DATA, END_STREAM, 3, b"still there")).await?;
        assert_eq!(client.next_of(DATA).await?.payload, b"still there");
        drop(client);
        server.stop().await
    });
}
