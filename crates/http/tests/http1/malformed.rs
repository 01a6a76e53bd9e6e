//! Bodies that turn out to be malformed: the answer is 400 or 413 while nothing of another one has left, and afterwards
//! none that looks complete.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use plimsoll_http::{Config, Counters, Error, Request, Response, StatusCode};
use plimsoll_runtime::Result;
use plimsoll_runtime::net::TcpStream;

use crate::rig::{count_body, on_each, read, serve, talk};

/// Every way to deal with a body.
async fn handler(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/collect" => Ok(Response::text(req.collect().await?.len().to_string())),
        "/count" => Ok(Response::text(count_body(&mut req).await?.to_string())),
        // Takes an error for the end.
        "/careless" => {
            let mut bytes = 0;
            while let Ok(Some(chunk)) = req.chunk().await {
                bytes += chunk.len();
            }
            Ok(Response::text(bytes.to_string()))
        }
        "/careless-echo" => {
            let mut out = None;
            while let Ok(Some(chunk)) = req.chunk().await {
                if out.is_none() {
                    out = Some(req.respond(Response::new(StatusCode::OK), None)?);
                }
                out.as_mut().expect("just begun").write(chunk).await?;
            }
            match out {
                Some(out) => out.finish().await,
                None => Ok(Response::text("empty")),
            }
        }
        "/echo" => {
            let first = req.chunk().await?;
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            if let Some(chunk) = first {
                out.write(chunk).await?;
            }
            while let Some(chunk) = req.chunk().await? {
                out.write(chunk).await?;
            }
            out.finish().await
        }
        // Its answer is begun, but nothing of it has left, when the body is looked at.
        "/eager" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_static(b"begun").await?;
            while let Some(chunk) = req.chunk().await? {
                out.write(chunk).await?;
            }
            out.finish().await
        }
        "/own" => match req.collect().await {
            Ok(body) => Ok(Response::text(body.len().to_string())),
            Err(_) => Ok(Response::text("mine").with_status(StatusCode::UNPROCESSABLE_ENTITY)),
        },
        path => panic!("no such route: {path}"),
    }
}

const PATHS: [&str; 6] = ["collect", "count", "careless", "careless-echo", "echo", "eager"];
/// Those of them that send as they receive.
const ECHOES: [&str; 3] = ["careless-echo", "echo", "eager"];

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";

/// What is malformed about each, what it is, and the status that says so.
fn malformed() -> Vec<(&'static str, String, u16)> {
    let chunked = |body: &str| format!("{CHUNKED}{body}");
    let extended = format!("1;{}\r\nx\r\n", "e".repeat(3_000));
    vec![
        ("a field that trailers may not have", chunked("5\r\nhello\r\n0\r\nHost: x\r\n\r\n"), 400),
        ("the same without data", chunked("0\r\nContent-Length: 5\r\n\r\n"), 400),
        ("a chunk of 2^64 - 1 bytes", chunked("ffffffffffffffff\r\nhello"), 400),
        ("a chunk of 2^63 bytes behind another", chunked("5\r\nhello\r\n8000000000000000\r\nhello"), 400),
        (
            "a trailer section over its limit",
            chunked(&format!("5\r\nhello\r\n0\r\na: {}\r\n\r\n", "b".repeat(4_096))),
            413,
        ),
        ("too many trailer lines", chunked(&format!("0\r\n{}\r\n", "a:b\r\n".repeat(101))), 413),
        ("too many extensions", chunked(&extended.repeat(6)), 400),
        ("no chunk size", chunked("5\r\nhello\r\nzz\r\n"), 400),
        ("a length of 2^63", "Content-Length: 9223372036854775808\r\n\r\nhello".to_owned(), 400),
    ]
}

/// All of it at once, so that nothing of an answer can have left before it is found.
#[test]
fn a_malformed_body_is_answered_whatever_the_handler_does() {
    on_each("malformed", async || {
        let server = serve(Config::default(), handler)?;
        for path in PATHS {
            for (what, rest, status) in malformed() {
                let bytes = format!("POST /{path} HTTP/1.1\r\nHost: h\r\n{rest}");
                // What is long comes in parts: an echo may have left.
                if ECHOES.contains(&path) && bytes.len() > 4_096 {
                    continue;
                }
                let smuggled = format!("{bytes}GET /own HTTP/1.1\r\nHost: h\r\n\r\n");
                let answer = talk(server.address, &[smuggled.as_bytes()], None).await?;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "/{path}, {what}: {answer}");
                assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "/{path}, {what}: {answer}");
                assert!(answer.contains("\r\nConnection: close\r\n"), "/{path}, {what}: {answer}");
            }
        }
        // Each was answered once, also in the counters: an answer that was taken back is not among them.
        let totals = server.counters.totals();
        let answered: u64 = totals.responses_total.iter().map(|(_, count)| *count).sum();
        let count = |of: u16| {
            totals.responses_total.iter().filter(|(code, _)| *code == of).map(|(_, count)| *count).sum::<u64>()
        };
        assert_eq!((count(200), count(400) + count(413)), (0, answered), "{totals:?}");
        // What the handler has to say about it itself stands.
        let (_, rest, _) = &malformed()[0];
        let own = talk(server.address, &[format!("POST /own HTTP/1.1\r\nHost: h\r\n{rest}").as_bytes()], None).await?;
        assert!(own.starts_with("HTTP/1.1 422 ") && own.ends_with("mine"), "{own}");
        server.stop().await
    });
}

#[test]
fn a_counter_of_answers_never_falls() {
    on_each("counted once", async || {
        let known: Arc<OnceLock<Counters>> = Arc::default();
        let (seen, counters) = (Arc::new(AtomicU64::new(0)), Arc::clone(&known));
        let of_200 =
            |counters: &Counters| counters.totals().responses_total.iter().find(|of| of.0 == 200).map_or(0, |of| of.1);
        let seen_there = Arc::clone(&seen);
        let server = serve(Config::default(), move |mut req: Request| {
            let (seen, counters) = (Arc::clone(&seen_there), Arc::clone(&counters));
            async move {
                let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                out.write_static(b"begun").await?;
                seen.fetch_max(of_200(counters.get().expect("set before a client came")), Ordering::Relaxed);
                while let Some(chunk) = req.chunk().await? {
                    out.write(chunk).await?;
                }
                out.finish().await
            }
        })?;
        known.set(server.counters.clone()).expect("set once");
        for (what, rest, status) in malformed() {
            let bytes = format!("POST / HTTP/1.1\r\nHost: h\r\n{rest}");
            if bytes.len() > 4_096 {
                continue;
            }
            let answer = talk(server.address, &[bytes.as_bytes()], None).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
            let now = of_200(&server.counters);
            assert!(now >= seen.load(Ordering::Relaxed), "{what}: {now} after {seen:?}");
        }
        // One that has left counts before its end.
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n").await?;
        read(&mut client, Some(b"begun")).await?;
        assert_eq!(of_200(&server.counters), 1);
        drop(client);
        server.stop().await
    });
}

/// In two parts, with the answer begun in between or not, cut anywhere: refused, or an answer that the client sees is
/// cut short.
#[test]
fn an_answer_to_a_malformed_body_is_never_complete() {
    on_each("malformed in parts", async || {
        let server = serve(Config::default(), handler)?;
        for path in PATHS {
            for (what, rest, _) in malformed().into_iter().filter(|(_, rest, _)| rest.len() < 200) {
                let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\n");
                let bytes = head.clone() + &rest;
                let body = rest.find("\r\n\r\n").expect("a body") + 4 + head.len();
                for cut in (head.len()..bytes.len()).step_by(3).chain([body, body + 10]) {
                    if cut > bytes.len() {
                        continue;
                    }
                    let (first, second) = bytes.split_at(cut);
                    let answer = talk(server.address, &[first.as_bytes(), second.as_bytes()], None).await?;
                    let refused = answer.starts_with("HTTP/1.1 400 ") || answer.starts_with("HTTP/1.1 413 ");
                    let cut_short = answer.contains("chunked\r\n") && !answer.ends_with("0\r\n\r\n");
                    assert!(refused || cut_short, "/{path}, {what}, cut at {cut}: {answer}");
                    assert!(refused || ECHOES.contains(&path), "/{path}, {what}, {cut}: {answer}");
                }
            }
        }
        server.stop().await
    });
}
