//! In chunks of HTTP/1.1.

use plimsoll_http::{Config, Request, Response, StatusCode};

use super::{summed, tell};
use crate::rig::{on_each, serve, talk};

const END: &[u8] = b"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn a_handler_gets_the_trailers_of_its_request_and_of_no_other() {
    on_each("trailers of requests", async || {
        let server = serve(Config::default(), tell)?;
        let bytes = [
            &b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nSum: 7\r\nkind:\tweak \r\n\r\n"[..],
            b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab",
            END,
        ]
        .concat();
        for at in (1..bytes.len()).step_by(7).chain([bytes.len()]) {
            let answer = talk(server.address, &[&bytes[..at], &bytes[at..]], None).await?;
            let seen: Vec<&str> =
                answer.match_indices('[').map(|(at, _)| &answer[at..=at + answer[at..].find(']').unwrap()]).collect();
            let expected = [
                "[false 3 Sum=7,kind=weak Some(\"7\") false]",
                "[false 1  None false]",
                "[false 2  None false]",
                "[false 0  None false]",
            ];
            assert_eq!(seen, expected, "split at {at}");
        }
        server.stop().await
    });
}

#[test]
fn trailers_that_may_not_be_or_are_too_long_make_a_bad_request() {
    on_each("bad trailers", async || {
        let server = serve(Config::default(), tell)?;
        let long = format!("x: {}\r\n", "y".repeat(5_000));
        for (section, status) in [
            ("Content-Length: 3\r\n", "400"),
            ("Host: other\r\n", "400"),
            ("Authorization: me\r\n", "400"),
            ("a : b\r\n", "400"),
            (long.as_str(), "413"),
        ] {
            let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n";
            let bytes = [head.as_bytes(), section.as_bytes(), b"\r\n", END].concat();
            let answer = talk(server.address, &[&bytes], None).await?;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{section}: {answer}");
            assert_eq!(answer.matches("HTTP/1.1").count(), 1, "nothing after it: {answer}");
        }
        server.stop().await
    });
}

#[test]
fn an_answer_in_chunks_ends_with_its_trailers() {
    on_each("trailers of answers", async || {
        let server = serve(Config::default(), summed)?;
        let end = "\r\n0\r\nserver-timing: db;dur=53\r\nsum: 3\r\n\r\n";
        let answer = talk(server.address, &[b"GET /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"], None).await?;
        assert!(answer.contains("\r\ntrailer: sum\r\n") && answer.ends_with(&format!("3\r\nxxx{end}")), "{answer}");
        // The connection goes on behind it, whether the body was copied or sent from where it was.
        for bytes in ["3", "20000", "60000"] {
            let request = format!("GET /{bytes} HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = talk(server.address, &[&[request.as_bytes(), END].concat()], None).await?;
            let first = format!("x\r\n0\r\nserver-timing: db;dur=53\r\nsum: {bytes}\r\n\r\nHTTP/1.1 200");
            assert!(answer.contains(&first), "{bytes}: {}", &answer[answer.len().saturating_sub(500)..]);
            assert!(answer.ends_with(end), "{bytes}");
        }
        server.stop().await
    });
}

#[test]
fn where_there_is_no_place_for_trailers_they_are_left_out() {
    on_each("trailers left out", async || {
        let server = serve(Config::default(), summed)?;
        for (request, body) in [
            ("GET /3 HTTP/1.0\r\n\r\n", "\r\n\r\nxxx"),
            ("GET /3?announced HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "\r\n\r\nxxx"),
            ("HEAD /3 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", "\r\ntrailer: sum\r\n\r\n"),
        ] {
            let answer = talk(server.address, &[request.as_bytes()], None).await?;
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(body), "{request}: {answer}");
            assert!(!answer.contains("server-timing"), "{request}: {answer}");
        }
        server.stop().await
    });
}

#[test]
fn trailers_that_an_answer_may_not_have_never_leave() {
    on_each("bad trailers of answers", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            let (name, value): (&str, &[u8]) = match req.path() {
                "/split" => ("x", b"a\r\nset-cookie: b"),
                "/nul" => ("x", b"a\0"),
                "/name" => ("x y", b"a"),
                "/reserved" => ("Content-Length", b"3"),
                "/control" => ("Location", b"/"),
                _ => ("Set-Cookie", b"a=b"),
            };
            let name = name.to_owned();
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            out.write_static(b"abc").await?;
            out.finish_with_trailers(&[(&name, value)]).await
        })?;
        for path in ["/split", "/nul", "/name", "/reserved", "/control", "/cookie"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = talk(server.address, &[&[request.as_bytes(), END].concat()], None).await?;
            // Cut short: without the last chunk the client can tell.
            assert!(answer.ends_with("\r\n3\r\nabc\r\n"), "{path}: {answer}");
        }
        server.stop().await
    });
}
