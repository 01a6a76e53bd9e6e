//! What the server answers by itself: a line that a person can read, in HTTP/1.1 and HTTP/2, also when there is no
//! memory; and what a handler is told that says something when it is too late. On io_uring (where it works), on mio and
//! in the simulation.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_codec::h1::error_line;
use plimsoll_http::{Config, Error, EventsConfig, Http2, Misuse, Request, Response, StatusCode, WebSocketConfig};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep};

use crate::rig::frames::{Client, DATA, END_STREAM, HEADERS, RST_STREAM, request};
use crate::rig::memory::fill;
use crate::rig::{in_simulation, on_each, read, serve, talk};

/// Enough of everything that has a limit.
const LONG: usize = 40_000;

async fn answer(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/collect" => Ok(Response::text(req.collect_up_to(10).await?.len().to_string())),
        "/never" => {
            sleep(Duration::from_secs(3_600)).await;
            Ok(Response::text("never"))
        }
        "/ws" => req.upgrade_websocket(&WebSocketConfig::default(), |_socket| async {}),
        "/up" => req.upgrade("echo/1", |_peer| async {}),
        "/events" => req.events(EventsConfig::default())?.finish().await,
        "/stream" => req.respond(Response::new(StatusCode::OK), None)?.finish().await,
        "/panic" => panic!("as the test wants it"),
        _ => Ok(Response::json_text("1")),
    }
}

/// Splits an answer, and looks at what all answers have in common.
fn split(answer: &str) -> (u16, &str, &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
    let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("{answer}"));
    for line in head.lines().skip(1) {
        let (name, _) = line.split_once(": ").unwrap_or_else(|| panic!("{answer}"));
        let is_capital = name.split('-').all(|word| word.starts_with(|first: char| first.is_ascii_uppercase()));
        assert!(is_capital, "one spelling of names: {name}");
    }
    (status, head, body)
}

/// The answer is a line of text with this in it.
fn check_line(answer: &str, status: u16, says: &str) {
    let (found, head, body) = split(answer);
    assert_eq!(found, status, "{answer}");
    assert!(head.contains("\r\nContent-Type: text/plain; charset=utf-8"), "{answer}");
    assert!(head.contains(&format!("\r\nContent-Length: {}", body.len())), "{answer}");
    assert!(body.contains(says) && body.ends_with('\n') && body.lines().count() == 1, "{says}: {answer}");
}

#[test]
fn errors_of_http1_say_what_is_wrong_and_a_head_is_all_that_head_gets() {
    on_each("lines", async || {
        let config = Config { handler_timeout: Some(Duration::from_millis(300)), ..Config::default() };
        let server = serve(config, answer)?;
        let long = "l".repeat(LONG);
        let cases = [
            (400, "GET / HTTP/1.1\r\n\r\n".to_owned(), "needs a Host field"),
            (
                400,
                "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n".to_owned(),
                "given once",
            ),
            (
                413,
                "GET /collect HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 11\r\n\r\n12345678901"
                    .to_owned(),
                "send less",
            ),
            (414, format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), "shorten the target"),
            (417, "GET / HTTP/1.1\r\nHost: h\r\nExpect: more\r\n\r\n".to_owned(), "100-continue"),
            (431, format!("GET / HTTP/1.1\r\nHost: h\r\nX: {long}\r\n\r\n"), "fewer or shorter fields"),
            (501, "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned(), "chunked"),
            (503, "GET /never HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "try again later"),
            (505, "GET / HTTP/3.0\r\nHost: h\r\n\r\n".to_owned(), "HTTP/1.1"),
            (500, "GET /panic HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "the server failed"),
        ];
        for (status, request, says) in cases {
            check_line(&talk(server.address, &[request.as_bytes()], None).await?, status, says);
            let head = talk(server.address, &[request.replacen("GET", "\r\nHEAD", 1).as_bytes()], None).await?;
            let (found, fields, body) = split(&head);
            assert_eq!((found, body), (status, ""), "HEAD: {head}");
            assert!(fields.contains("\r\nContent-Type: text/plain; charset=utf-8"), "{head}");
        }
        server.stop().await
    });
}

#[test]
fn a_head_that_never_ends_is_told_so() {
    in_simulation("408", async || {
        let server = serve(Config::default(), answer)?;
        let before = "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n";
        let whole = talk(server.address, &[before.as_bytes(), b"GET / HTTP/1.1\r\nHost"], None).await?;
        let (_, last) = whole.split_once("\r\n\r\n").expect("the first answer");
        check_line(last, 408, "faster");
        let head = talk(server.address, &[b"HEAD / HTTP/1.1\r\nHost"], None).await?;
        assert_eq!((split(&head).0, split(&head).2), (408, ""), "{head}");
        server.stop().await
    });
}

#[test]
fn without_memory_the_line_is_there_all_the_same() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    in_simulation("lines at the line", async || {
        let server = serve(Config::default(), answer)?;
        for method in ["GET", "HEAD"] {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(format!("{method} / HTTP/1.1\r\nHo").as_bytes()).await?;
            sleep(Duration::from_millis(5)).await;
            let held = fill(1);
            client.send_static(b"st: h\r\nHost: h\r\n\r\n").await?;
            sleep(Duration::from_millis(5)).await;
            drop(held);
            let answer = read(&mut client, None).await?;
            let (status, head, body) = split(&answer);
            // Malformed, or no room for the rest of it.
            let status = [400, 503].into_iter().find(|known| *known == status).unwrap_or_else(|| panic!("{answer}"));
            let line = error_line(StatusCode::from_u16(status).expect("in range"));
            assert_eq!(body, if method == "HEAD" { "" } else { line }, "{answer}");
            assert!(!head.contains("Date: "), "it was made without memory: {answer}");
            // The next one is accepted at once, when memory is not short any more: else its head waits in the socket
            // until there is some.
            sleep(Duration::from_secs(1)).await;
        }
        server.stop().await
    });
}

#[test]
fn names_of_fields_have_one_spelling() {
    on_each("names", async || {
        let server = serve(Config::default(), answer)?;
        let websocket = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        for (path, more, status) in [
            ("/", "", 200),
            ("/events", "", 200),
            ("/stream", "", 200),
            ("/ws", websocket, 101),
            ("/ws", "", 426),
            ("/up", "", 426),
            ("/up", "Connection: Upgrade\r\nUpgrade: echo/1\r\n", 101),
        ] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{more}\r\n");
            let answer = talk(server.address, &[request.as_bytes()], Some(b"\r\n\r\n")).await?;
            assert_eq!(split(&answer).0, status, "{path}: {answer}");
        }
        server.stop().await
    });
}

#[test]
fn errors_of_http2_have_their_line_too() {
    on_each("lines of HTTP/2", async || {
        let config = Config { handler_timeout: Some(Duration::from_millis(300)), ..Config::default() };
        let server = serve(config, answer)?;
        let mut client = Client::connect(server.address, &[]).await?;
        for (stream, method, path, status, says) in [
            (1, "GET", "/never", 503, "try again later"),
            (3, "HEAD", "/never", 503, ""),
            (5, "GET", "/panic", 500, "the server failed"),
        ] {
            client.send(&request(stream, method, path, &[], END_STREAM)).await?;
            let head = client.next_of(HEADERS).await?;
            assert!(head.stream == stream && head.has_status(status), "{head:?}");
            assert_eq!(head.ends_stream(), method == "HEAD");
            if method == "GET" {
                let data = client.next_of(DATA).await?;
                let line = String::from_utf8_lossy(&data.payload).into_owned();
                assert!(data.ends_stream() && line.contains(says) && line.ends_with('\n'), "{line}");
            }
        }
        // No window for a line: the status alone, at once.
        let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
        client.send(&request(1, "GET", "/panic", &[], END_STREAM)).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(500) && head.ends_stream(), "{head:?}");
        let only = serve(Config { http2: Http2::Only, ..Config::default() }, answer)?;
        let answer = talk(only.address, &[b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"], None).await?;
        check_line(&answer, 505, "only HTTP/2");
        only.stop().await?;
        drop(client);
        server.stop().await
    });
}

/// What handlers were told.
static MISUSES: AtomicU64 = AtomicU64::new(0);

#[test]
fn a_field_or_status_that_comes_too_late_is_an_error() {
    on_each("too late", async || {
        MISUSES.store(0, Ordering::Relaxed);
        let server = serve(Config::default(), |mut req: Request| async move {
            let mut out = req.respond(Response::new(StatusCode::OK), Some(2))?;
            out.write_static(b"ok").await?;
            let streamed = out.finish().await?;
            match req.path() {
                "/try" => {
                    let late = streamed.try_header("x-late", "1");
                    assert!(matches!(late, Err(Error::Misuse(Misuse::HeadSent))), "{late:?}");
                    MISUSES.fetch_add(1, Ordering::Relaxed);
                    late
                }
                "/header" => Ok(streamed.header("x-late", "1")),
                "/status" => Ok(streamed.with_status(StatusCode::NOT_FOUND)),
                "/body" => Ok(streamed.body("more")),
                _ => Ok(streamed),
            }
        })?;
        let get = |path: &str| {
            format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\nGET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        };
        let fine = talk(server.address, &[get("/").as_bytes()], None).await?;
        assert_eq!(fine.matches("HTTP/1.1 200 OK").count(), 2, "{fine}");
        for path in ["/try", "/header", "/status", "/body"] {
            let answer = talk(server.address, &[get(path).as_bytes()], None).await?;
            assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1, "closed behind it: {answer}");
            assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&request(1, "GET", path, &[], 0)).await?;
            assert_eq!(client.next_of(RST_STREAM).await?.error_code(), 2, "INTERNAL_ERROR");
        }
        assert_eq!(MISUSES.load(Ordering::Relaxed), 2);
        server.stop().await
    });
}
