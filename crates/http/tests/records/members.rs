//! Members of a hub, and relays, whose bytes a transport carries.

use plimsoll_http::{Config, Event, Hub, HubConfig, Request};
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{io, spawn};

use crate::rig::{on_each, read, serve};

#[test]
fn a_stream_of_events_hears_all_that_is_published() {
    on_each("events over records", async || {
        let hub = Hub::new(HubConfig::default()).expect("room");
        let events = hub.clone();
        let running = serve(Config::default(), move |request: Request| {
            let hub = events.clone();
            async move { hub.join_events(request).await }
        })?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_static(b"GET /events HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let head = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for at in 0..50 {
            let data = format!("{at}{}", "x".repeat(1 + at * 400));
            hub.publish(&Event::data(&data)).expect("room");
            let heard = read(&mut client, Some(b"x\n\n")).await?;
            assert!(heard.contains(&format!("data: {data}\n\n")), "{at}");
        }
        running.stop().await
    });
}

#[test]
fn a_tunnel_is_relayed() {
    on_each("relay over records", async || {
        let upstream = TcpListener::bind("127.0.0.1:0")?;
        let to = upstream.local_addr();
        let echo = spawn(async move {
            let (mut peer, _) = upstream.accept().await?;
            while let Some(lease) = peer.recv().await? {
                peer.send_all(lease).await?;
            }
            peer.shutdown_write().await
        })?;
        let running = serve(Config::default(), move |request: Request| async move {
            let far = TcpStream::connect(to).await?;
            request.tunnel(|peer| async move {
                let (near, _guard) = peer.into_parts();
                assert!(near.is_carried() && near.local_addr().is_ok());
                let near = near.into_tcp().expect_err("what the socket has is not what the stream has");
                let relayed = io::relay(near, far).await.expect("there is room");
                assert_eq!(relayed.first_bytes, relayed.second_bytes, "plaintext");
            })
        })?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_static(b"CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\nbehind the head").await?;
        let answer = read(&mut client, Some(b"behind the head")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let large: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8 & 0x7f).collect();
        client.send_bytes(&large[..100_000]).await?;
        client.send_bytes(&large[100_000..]).await?;
        client.shutdown_write().await?;
        let echoed = read(&mut client, None).await?;
        assert!(echoed.as_bytes() == large, "{} bytes", echoed.len());
        echo.await.expect("no panic")?;
        running.stop().await
    });
}
