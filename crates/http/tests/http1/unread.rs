//! Bodies that nobody reads: the head of the answer says whether the connection goes on behind them, and what it says
//! is kept.

use core::time::Duration;

use plimsoll_http::{Body, Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, now, sleep, spawn, timeout};

use crate::rig::{in_simulation, on_each, read, serve, talk};

const MIB: usize = 1 << 20;
/// As long as the answer to `/large`.
static LARGE: [u8; 5 * MIB] = [b'x'; 5 * MIB];

/// Answers without a look at the body: at once, later, in pieces, at length, or after a part of it.
async fn unread(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/later" => {
            sleep(Duration::from_millis(2)).await;
            Ok(Response::text("<later>").with_status(StatusCode::NOT_FOUND))
        }
        "/pieces" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_static(b"<pie").await?;
            sleep(Duration::from_millis(2)).await;
            out.write_static(b"ces>").await?;
            out.finish().await
        }
        "/part" => {
            let part = req.chunk().await?;
            Ok(Response::text(if part.is_some() { "<part>" } else { "<none>" }))
        }
        "/large" => Ok(Response::new(StatusCode::OK).body(Body::Static(&LARGE))),
        _ => Ok(Response::text("<now>").with_status(StatusCode::NOT_FOUND)),
    }
}

const PATHS: [&str; 4] = ["now", "later", "pieces", "part"];

fn request(path: &str, fields: &str, bytes: usize) -> Vec<u8> {
    let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {bytes}\r\n\r\n");
    [head.into_bytes(), vec![b'b'; bytes]].concat()
}

fn chunked(path: &str, bytes: usize) -> Vec<u8> {
    let mut request = format!("POST /{path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in vec![b'b'; bytes].chunks(5_000) {
        request.extend(format!("{:x}\r\n", piece.len()).into_bytes());
        request.extend(piece);
        request.extend(b"\r\n");
    }
    request.extend(b"0\r\n\r\n");
    request
}

/// Pools of clients send their next request where the last answer did not say that the connection closes.
#[test]
fn a_long_body_that_nobody_reads_is_dropped_and_the_connection_kept() {
    on_each("kept", async || {
        let server = serve(Config::default(), unread)?;
        let mut client = TcpStream::connect(server.address).await?;
        for path in PATHS {
            for body in [request(path, "", MIB), chunked(path, MIB)] {
                client.send_bytes(&body).await?;
                let (marked, end) = (format!("<{path}>"), "ces>");
                let answer = read(&mut client, Some(if path == "pieces" { end } else { &marked }.as_bytes())).await?;
                assert!(!answer.contains("Connection: close"), "{path}: {answer}");
            }
        }
        // The chunked answer's end, and then the next one.
        client.send_bytes(b"GET /now HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert!(read(&mut client, Some(b"<now>")).await?.contains("HTTP/1.1 404 "));
        drop(client);
        assert_eq!(server.counters.totals().accepted_total, 1);
        server.stop().await
    });
}

#[test]
fn requests_behind_a_body_that_nobody_reads_are_answered() {
    on_each("pipelined behind", async || {
        let server = serve(Config::default(), unread)?;
        for path in PATHS {
            let last = b"GET /now HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
            let all =
                [&request(path, "", 300_000)[..], &chunked(path, 100_000), &request(path, "", 70_000), last].concat();
            let client = TcpStream::connect(server.address).await?;
            let (mut reader, mut writer) = client.into_split();
            let writing = spawn(async move { writer.send_bytes(&all).await.map(|()| writer) })?;
            let mut answers = Vec::new();
            while let Some(bytes) = reader.recv().await? {
                answers.extend_from_slice(&bytes);
            }
            let _writer = writing.await.expect("no panic")?;
            let answers = String::from_utf8_lossy(&answers);
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 4, "{path}: {answers}");
            assert_eq!(answers.matches("Connection: close").count(), 1, "{path}: {answers}");
            assert!(answers.ends_with("<now>"), "{path}: {answers}");
        }
        server.stop().await
    });
}

/// Beyond the limit the head says so, and the answer arrives, to a client that looks at it after it has sent
/// everything.
#[test]
fn an_answer_to_a_body_over_the_limit_says_close_and_arrives() {
    on_each("over the limit", async || {
        let config = Config { drain_bytes_max: 400_000, ..Config::default() };
        let server = serve(config, unread)?;
        for path in ["now", "later", "pieces"] {
            let mut announced =
                format!("POST /{path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").into_bytes();
            announced.extend(b"61a81\r\n");
            announced.extend([b'b'; 100_000]);
            // A handler that streams its answer may go on to read: how long chunks are is not looked at then.
            let announced = (path != "pieces").then_some(announced);
            for bytes in announced.into_iter().chain([request(path, "", 400_001)]) {
                let answer = talk(server.address, &[&bytes], None).await?;
                assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{path}: {answer}");
                assert!(answer.contains("\r\nConnection: close\r\n"), "{path}: {answer}");
            }
        }
        let kept = talk(server.address, &[&request("now", "", 400_000)], Some(b"<now>")).await?;
        assert!(!kept.contains("Connection: close"), "{kept}");
        server.stop().await
    });
}

/// Nobody can tell whether a body comes for which the client was not asked.
#[test]
fn a_client_that_waits_to_be_asked_for_its_body_is_told_to_close() {
    on_each("expects", async || {
        let server = serve(Config::default(), unread)?;
        for path in ["now", "later", "pieces"] {
            let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
            let answer = talk(server.address, &[head.as_bytes()], None).await?;
            assert!(
                answer.starts_with("HTTP/1.1 ") && answer.contains("\r\nConnection: close\r\n"),
                "{path}: {answer}"
            );
        }
        server.stop().await
    });
}

/// Neither waits for the other: the client takes nothing before it has sent everything, the server sends while it
/// drops.
#[test]
fn a_body_is_dropped_while_its_answer_is_on_its_way() {
    on_each("both ways", async || {
        let server = serve(Config::default(), unread)?;
        for fields in ["", "Connection: close\r\n"] {
            let mut client = TcpStream::connect(server.address).await?;
            let body = request("large", fields, 5 * MIB);
            timeout(Duration::from_secs(100), client.send_bytes(&body)).await?.expect("it is all taken");
            let mut received = 0;
            let mut head = Vec::new();
            while received < LARGE.len() {
                let Some(bytes) = client.recv().await? else { break };
                received += bytes.iter().filter(|&&byte| byte == b'x').count();
                head.extend(bytes.iter().take(400_usize.saturating_sub(head.len())));
            }
            assert_eq!(received, LARGE.len());
            let head = String::from_utf8_lossy(&head).into_owned();
            assert_eq!(head.contains("Connection: close"), !fields.is_empty(), "{head}");
        }
        server.stop().await
    });
}

#[test]
fn a_body_without_end_ends_its_connection() {
    in_simulation("endless", async || {
        let config = Config { drain_bytes_max: 1 << 20, ..Config::default() };
        let server = serve(config, unread)?;
        for path in PATHS {
            let client = TcpStream::connect(server.address).await?;
            let (mut reader, mut writer) = client.into_split();
            let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
            writer.send_bytes(head.as_bytes()).await?;
            let chunk = [b"1000\r\n".as_slice(), &[b'b'; 4_096], b"\r\n"].concat();
            let writing = spawn(async move {
                let mut sent = 0;
                while writer.send_bytes(&chunk).await.is_ok() {
                    sent += chunk.len();
                    sleep(Duration::from_micros(100)).await;
                }
                sent
            })?;
            let mut answer = Vec::new();
            while let Ok(Some(bytes)) = reader.recv().await {
                answer.extend_from_slice(&bytes);
            }
            drop(reader);
            let sent = timeout(Duration::from_secs(60), writing).await?.expect("no panic");
            assert!(answer.starts_with(b"HTTP/1.1 "), "{path}");
            // Dropped once to keep the connection and once more while it lingers, and what was under way.
            assert!(sent > MIB && sent < 3 * MIB, "{path}: {sent} bytes");
        }
        server.stop().await
    });
}

#[test]
fn a_body_that_nobody_reads_must_come_as_fast_as_others() {
    in_simulation("dripping", async || {
        let server = serve(Config::default(), unread)?;
        let mut client = TcpStream::connect(server.address).await?;
        let begun = now();
        client.send_bytes(&request("now", "", 100_000)[..200]).await?;
        assert!(!read(&mut client, Some(b"<now>")).await?.contains("close"));
        while client.send_bytes(&[b'b'; 100]).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
        let took = (now() - begun).as_secs();
        // 100 bytes a second earn a tenth of what they take.
        assert!((30..=40).contains(&took), "{took} s");
        drop(client);
        server.stop().await
    });
}

/// It was told that the connection closes, and looks at that when it has sent everything.
#[test]
fn a_connection_lingers_for_as_long_as_the_rest_of_its_request_comes() {
    in_simulation("slow", async || {
        let server = serve(Config::default(), unread)?;
        let mut client = TcpStream::connect(server.address).await?;
        let bytes = request("now", "Connection: close\r\n", 100_000);
        for piece in bytes.chunks(5_000) {
            client.send_bytes(piece).await?;
            sleep(Duration::from_secs(1)).await;
        }
        let answer = read(&mut client, None).await?;
        assert!(answer.contains("\r\nConnection: close\r\n") && answer.ends_with("<now>"), "{answer}");
        // One that is slower is cut off in time.
        let mut slow = TcpStream::connect(server.address).await?;
        let begun = now();
        slow.send_bytes(&bytes[..200]).await?;
        while slow.send_bytes(&[b'b'; 100]).await.is_ok() {
            sleep(Duration::from_millis(500)).await;
        }
        assert!((now() - begun).as_secs() <= 6, "{:?}", now() - begun);
        drop((client, slow));
        server.stop().await
    });
}

/// However small what is asked for, who mostly sends what nobody reads is asked to come again.
#[test]
fn bodies_that_nobody_reads_count_by_their_size() {
    on_each("unread by size", async || {
        let server = serve(Config::default(), |_: Request| async move { Response::new(StatusCode::NOT_FOUND) })?;
        let mut honest = TcpStream::connect(server.address).await?;
        let upload =
            format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}", 100 << 10, "x".repeat(100 << 10));
        for number in 0..20 {
            honest.send_bytes(upload.as_bytes()).await?;
            let answer = read(&mut honest, Some(b"\r\n\r\n")).await?;
            assert!(answer.starts_with("HTTP/1.1 404 ") && !answer.contains("close"), "{number}: {answer}");
        }
        let mut wasteful = TcpStream::connect(server.address).await?;
        let (mut answers, part) = (0, vec![b'x'; 1 << 20]);
        loop {
            wasteful
                .send_bytes(format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", 8 << 20).as_bytes())
                .await?;
            for _ in 0..8 {
                wasteful.send_bytes(&part).await?;
            }
            let answer = read(&mut wasteful, Some(b"\r\n\r\n")).await?;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
            answers += 1;
            if answer.contains("Connection: close") {
                break;
            }
        }
        // Nine points each, of which the next exchange takes one away: at 75 it is the last.
        assert_eq!(answers, 11);
        drop((honest, wasteful));
        server.stop().await
    });
}
