//! A server at a Unix socket: on io_uring (where it works), on mio and in the simulation.

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::UnixStream;

use crate::rig::{count_body, fresh_unix_address, on_each, read, serve_unix};

const LAST: &str = "Host: h\r\nConnection: close\r\n\r\n";

async fn answer(mut req: Request) -> core::result::Result<Response, Error> {
    match req.path() {
        "/count" => Ok(Response::text(format!("{} bytes", count_body(&mut req).await?))),
        "/large" => Ok(Response::text("x".repeat(300_000))),
        "/peer" => Ok(Response::text(format!("{} {}", req.peer_addr()?, req.client_ip()?))),
        "/upgrade" => req.upgrade("echo/1", |mut peer| async move {
            while let Ok(Some(bytes)) = peer.recv().await {
                if peer.send_all(bytes).await.is_err() {
                    return;
                }
            }
        }),
        _ => Ok(Response::new(StatusCode::NOT_FOUND)),
    }
}

#[test]
fn requests_bodies_and_upgrades_are_as_over_tcp() {
    on_each("a Unix socket", async || {
        let at = fresh_unix_address();
        let server = serve_unix(at, Config::default(), answer)?;

        let mut client = UnixStream::connect(at).await?;
        let head = "POST /count HTTP/1.1\r\nHost: h\r\nContent-Length: 400000\r\n\r\n";
        client.send_bytes(head.as_bytes()).await?;
        client.send_bytes(&[b'x'; 400_000]).await?;
        let pipelined = format!("GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /peer HTTP/1.1\r\n{LAST}");
        client.send_bytes(pipelined.as_bytes()).await?;
        let answers = read(&mut client, None).await?;
        assert!(answers.contains("400000 bytes"), "{}", &answers[..200]);
        assert!(answers.contains(&"x".repeat(300_000)));
        assert!(answers.ends_with("127.0.0.1:0 127.0.0.1"), "{}", &answers[answers.len() - 100..]);

        let mut client = UnixStream::connect(at).await?;
        let upgrade = "GET /upgrade HTTP/1.1\r\nHost: h\r\nUpgrade: echo/1\r\nConnection: Upgrade\r\n\r\nping";
        client.send_bytes(upgrade.as_bytes()).await?;
        assert!(read(&mut client, Some(b"ping")).await?.starts_with("HTTP/1.1 101 "));
        client.shutdown_write().await?;
        assert_eq!(read(&mut client, None).await?, "");
        server.stop().await
    });
}

/// What a peer has sent and nobody has read would reset the connection, and take the answer with it.
#[test]
fn an_unread_body_does_not_take_the_answer_with_it() {
    on_each("unread bytes", async || {
        let at = fresh_unix_address();
        let server = serve_unix(at, Config::default(), answer)?;
        let mut client = UnixStream::connect(at).await?;
        let head = format!("POST /nothing HTTP/1.1\r\nContent-Length: 20000\r\n{LAST}");
        client.send_bytes(head.as_bytes()).await?;
        client.send_bytes(&[b'x'; 20_000]).await?;
        let answer = read(&mut client, None).await?;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        server.stop().await
    });
}

#[test]
fn the_server_stops_with_connections_in_the_queue() {
    on_each("a stop", async || {
        let at = fresh_unix_address();
        let server = serve_unix(at, Config::default(), answer)?;
        let mut client = UnixStream::connect(at).await?;
        client.send_bytes(format!("GET /peer HTTP/1.1\r\n{LAST}").as_bytes()).await?;
        server.stop().await?;
        assert!(read(&mut client, None).await?.starts_with("HTTP/1.1 200 "), "it was there before the stop");
        let refused = UnixStream::connect(at).await.expect_err("nobody listens");
        assert!(refused.to_string().contains("refused"), "{refused}");
        Ok(())
    });
}
