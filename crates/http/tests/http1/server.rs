//! The server's own suite: every test runs on io_uring (where it works), on mio and in the simulation, with real
//! connections of the same runtime as clients, and ends with a census of what is left.

use core::cell::RefCell;
use core::time::Duration;
use std::rc::Rc;

use plimsoll_http::{Body, BodyWriter, Config, Error, Request, Response, Server, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, Spawner, sleep, spawn, timeout};

use crate::rig::drops::Drops;
use crate::rig::{on_each, read, serve, talk, until};

async fn path(req: Request) -> Response {
    Response::text(req.path().to_owned())
}

const CLOSE: &[u8] = b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn answers_a_request_and_closes_when_asked() {
    on_each("get", async || {
        let server = serve(Config::default(), path)?;
        let answer = talk(server.address, &[CLOSE], None).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nDate: "), "{answer}");
        assert!(
            answer.contains("\r\nContent-Length: 2\r\n") && answer.contains("\r\nConnection: close\r\n"),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n/a"), "{answer}");
        server.stop().await
    });
}

#[test]
fn answers_pipelined_requests_in_order() {
    on_each("pipelining", async || {
        let slow_first = |req: Request| async move {
            if req.path() == "/0" {
                sleep(Duration::from_millis(5)).await;
            }
            Response::text(format!("<{}>", req.path()))
        };
        let server = serve(Config::default(), slow_first)?;
        let mut requests = String::new();
        let mut expected = Vec::new();
        for at in 0..40 {
            requests += &format!("GET /{at} HTTP/1.1\r\nHost: h\r\n\r\n");
            expected.push(format!("</{at}>"));
        }
        requests += "GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        expected.push("</end>".to_owned());
        let answer = talk(server.address, &[requests.as_bytes()], None).await?;
        let bodies: Vec<String> = answer
            .match_indices('<')
            .map(|(at, _)| answer[at..=at + answer[at..].find('>').unwrap()].to_owned())
            .collect();
        assert_eq!(bodies, expected);
        assert_eq!(server.counters.totals().requests_total, 41);
        server.stop().await
    });
}

#[test]
fn a_head_may_come_in_any_two_pieces() {
    on_each("split heads", async || {
        let server = serve(Config::default(), path)?;
        for at in 1..CLOSE.len() {
            let answer = talk(server.address, &[&CLOSE[..at], &CLOSE[at..]], None).await?;
            assert!(answer.ends_with("\r\n\r\n/a"), "split at {at}: {answer}");
        }
        server.stop().await
    });
}

#[test]
fn bodies_are_streamed_both_ways() {
    on_each("echo", async || {
        async fn echo(mut req: Request) -> Result<Response, Error> {
            let length = req.content_length();
            let mut out: BodyWriter = req.respond(Response::new(StatusCode::OK), length)?;
            while let Some(chunk) = req.chunk().await? {
                out.write(chunk).await?;
            }
            out.finish().await
        }
        let server = serve(Config::default(), echo)?;
        let body: Vec<u8> = (0..700_000_u32).map(|at| b'a' + (at % 23) as u8).collect();
        let client = TcpStream::connect(server.address).await?;
        let (mut read, mut write) = client.into_split();
        let sent = body.clone();
        let writer = spawn(async move {
            let head =
                format!("POST /e HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", sent.len());
            write.send_bytes(head.as_bytes()).await?;
            write.send_bytes(&sent).await
        })?;
        let mut echoed = Vec::new();
        while let Some(lease) = read.recv().await? {
            echoed.extend_from_slice(&lease);
        }
        writer.await.expect("no panic")?;
        let at = echoed.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
        assert!(echoed[at..] == body, "{} of {} bytes", echoed.len() - at, body.len());
        let chunked: &[u8] = b"POST /e HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nt: v\r\n\r\n";
        let answer = talk(server.address, &[chunked], None).await?;
        assert!(answer.contains("Transfer-Encoding: chunked"), "{answer}");
        // Chunks that came together are one piece for the handler, and so in what it sends back.
        assert!(answer.ends_with("\r\n\r\n7\r\nabcdefg\r\n0\r\n\r\n"), "{answer}");
        server.stop().await
    });
}

#[test]
fn continue_is_sent_when_the_body_is_asked_for() {
    on_each("100-continue", async || {
        let server = serve(Config::default(), |mut req: Request| async move {
            if req.path() == "/no" {
                return Ok(Response::new(StatusCode::FORBIDDEN));
            }
            let body = req.collect().await?;
            Ok::<_, Error>(Response::text(body.len().to_string()))
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client
            .send_bytes(b"POST /yes HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            .await?;
        let interim = read(&mut client, Some(b"\r\n\r\n")).await?;
        assert_eq!(interim, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send_bytes(b"abc").await?;
        let answer = read(&mut client, Some(b"\r\n\r\n3")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        client.send_bytes(b"POST /no HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n").await?;
        let refusal = read(&mut client, None).await?;
        assert!(refusal.starts_with("HTTP/1.1 403") && refusal.contains("Connection: close"), "{refusal}");
        server.stop().await
    });
}

#[test]
fn a_body_nobody_reads_is_dropped_and_the_connection_kept() {
    on_each("drain", async || {
        let server = serve(Config::default(), path)?;
        let bytes = b"POST /one HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
            POST /two HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n\
            GET /three HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let answer = talk(server.address, &[bytes], None).await?;
        for path in ["/one", "/two", "/three"] {
            assert!(answer.contains(path), "{path} in {answer}");
        }
        let mut pieces: Vec<&[u8]> = Vec::new();
        for piece in bytes.chunks(9) {
            pieces.push(piece);
        }
        let answer = talk(server.address, &pieces, None).await?;
        assert!(answer.ends_with("/three"), "in pieces: {answer}");
        server.stop().await
    });
}

/// The client goes on sending while the server is done with it: without lingering, a reset would overtake the answer.
#[test]
fn an_answer_to_a_body_that_is_too_long_to_be_dropped_arrives() {
    on_each("drain or close", async || {
        let config = Config { drain_bytes_max: 64 * 1024, ..Config::default() };
        let server = serve(config, |req: Request| async move {
            if req.path() == "/slow" {
                sleep(Duration::from_millis(2)).await;
            }
            Response::text("no, thank you").with_status(StatusCode::FORBIDDEN)
        })?;
        for path in ["/now", "/slow"] {
            for framing in ["Content-Length: 500000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n7a120\r\n"] {
                let client = TcpStream::connect(server.address).await?;
                let (mut read, mut write) = client.into_split();
                let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\n{framing}");
                let writer = spawn(async move {
                    write.send_bytes(head.as_bytes()).await?;
                    for _ in 0..50 {
                        write.send_bytes(&[b'x'; 10_000]).await?;
                        sleep(Duration::from_micros(500)).await;
                    }
                    Ok::<_, plimsoll_runtime::Error>(())
                })?;
                let mut answer = Vec::new();
                while let Ok(Some(bytes)) = read.recv().await {
                    answer.extend_from_slice(&bytes);
                }
                let answer = String::from_utf8_lossy(&answer).into_owned();
                assert!(answer.starts_with("HTTP/1.1 403 ") && answer.ends_with("no, thank you"), "{path}: {answer}");
                writer.abort();
                drop(writer);
            }
        }
        server.stop().await
    });
}

#[test]
fn a_panicking_handler_answers_500_and_hurts_nobody_else() {
    on_each("panic", async || {
        let server = serve(Config::default(), |req: Request| async move {
            match req.path() {
                "/now" => panic!("on purpose"),
                "/later" => {
                    sleep(Duration::from_millis(1)).await;
                    panic!("on purpose");
                }
                _ => Response::text("fine"),
            }
        })?;
        for path in ["/now", "/later"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
            let answer = talk(server.address, &[request.as_bytes()], None).await?;
            assert!(answer.starts_with("HTTP/1.1 500 "), "{path}: {answer}");
        }
        let answer = talk(server.address, &[CLOSE], None).await?;
        assert!(answer.ends_with("fine"), "{answer}");
        server.stop().await
    });
}

#[test]
fn a_client_that_goes_away_takes_its_handler_along() {
    on_each("gone", async || {
        let drops = Drops::default();
        let handlers = drops.clone();
        let server = serve(Config::default(), move |_req: Request| {
            let guard = handlers.guard();
            async move {
                let _guard = guard;
                sleep(Duration::from_secs(3_600)).await;
                Response::text("never")
            }
        })?;
        let mut client = TcpStream::connect(server.address).await?;
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        sleep(Duration::from_millis(10)).await;
        assert_eq!(drops.count(), 0);
        drop(client);
        assert_eq!(drops.reach(1).await, 1, "the handler's future is dropped");
        server.stop().await
    });
}

#[test]
fn a_client_that_goes_away_within_a_body_takes_its_handler_along_whatever_that_does() {
    on_each("gone within a body", async || {
        let drops = Drops::default();
        let handlers = drops.clone();
        let server = serve(Config::default(), move |mut req: Request| {
            let guard = handlers.guard();
            async move {
                let _guard = guard;
                match req.path() {
                    "/one" => drop(req.chunk().await?),
                    "/two" => drop((req.chunk().await?, req.chunk().await?)),
                    // Asks, and is not interested any more when the bytes come.
                    _ => drop(timeout(Duration::from_millis(2), req.chunk()).await),
                }
                sleep(Duration::from_secs(3_600)).await;
                Ok::<_, Error>(Response::text("never"))
            }
        })?;
        for (gone, path) in ["one", "two", "late"].into_iter().enumerate() {
            let mut client = TcpStream::connect(server.address).await?;
            let head = format!("POST /{path} HTTP/1.1\r\nHost: h\r\nContent-Length: 99\r\n\r\n");
            client.send_bytes(head.as_bytes()).await?;
            for _ in 0..2 {
                sleep(Duration::from_millis(10)).await;
                client.send_bytes(b"ten bytes.").await?;
            }
            sleep(Duration::from_millis(10)).await;
            assert_eq!(drops.count(), gone, "{path}");
            drop(client);
            assert_eq!(drops.reach(gone + 1).await, gone + 1, "the handler's future is dropped: {path}");
        }
        server.stop().await
    });
}

#[test]
fn large_answers_arrive_whole_however_they_are_given() {
    on_each("large answers", async || {
        static BIG: [u8; 300_000] = [b'x'; 300_000];
        let server = serve(Config::default(), |mut req: Request| async move {
            match req.path() {
                "/static" => Ok(Response::new(StatusCode::OK).body(Body::Static(&BIG))),
                "/vec" => Ok(Response::new(StatusCode::OK).body(BIG.to_vec())),
                "/chunked" => {
                    let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                    for piece in BIG.chunks(70_000) {
                        out.write_static(piece).await?;
                    }
                    out.finish().await
                }
                _ => {
                    let mut out = req.respond(Response::new(StatusCode::OK), Some(BIG.len() as u64))?;
                    for piece in BIG.chunks(1_000) {
                        out.write_static(piece).await?;
                    }
                    out.finish().await
                }
            }
        })?;
        for path in ["/static", "/vec", "/pieces", "/chunked"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: h\r\n\r\nGET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
            );
            let answer = talk(server.address, &[request.as_bytes()], None).await?;
            let count = answer.bytes().filter(|&byte| byte == b'x').count();
            assert_eq!(count, 2 * BIG.len(), "{path}");
        }
        let head = talk(server.address, &[b"HEAD /vec HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"], None).await?;
        assert!(head.contains("Content-Length: 300000") && head.ends_with("\r\n\r\n"), "{head}");
        server.stop().await
    });
}

#[test]
fn a_stop_lets_exchanges_finish() {
    on_each("stop", async || {
        let server = serve(Config::default(), |_req: Request| async {
            sleep(Duration::from_millis(30)).await;
            Response::text("finished")
        })?;
        let mut parked = TcpStream::connect(server.address).await?;
        parked.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        assert!(read(&mut parked, Some(b"finished")).await?.ends_with("finished"));
        let mut running = TcpStream::connect(server.address).await?;
        running.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        sleep(Duration::from_millis(5)).await;
        let stopped = spawn(server.stop())?;
        assert_eq!(read(&mut parked, None).await?, "", "a parked connection is closed");
        let answer = read(&mut running, None).await?;
        assert!(answer.ends_with("finished"), "{answer}");
        stopped.await.expect("no panic")
    });
}

#[test]
fn parked_connections_hold_no_buffer() {
    on_each("parked", async || {
        let server = serve(Config::default(), path)?;
        let clients = Rc::new(RefCell::new(Vec::new()));
        for _ in 0..50 {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").await?;
            assert!(read(&mut client, Some(b"/a")).await?.ends_with("/a"));
            clients.borrow_mut().push(client);
        }
        until("all are parked", || server.counters.totals().parked == 50).await;
        assert_eq!(server.counters.totals().active, 0);
        // What is charged as buffers beyond free pages is held by somebody: soon by nobody.
        let held = || {
            let cached = plimsoll_runtime::pool().stats().cached_bytes();
            plimsoll_runtime::budget().charged_by(plimsoll_runtime::Kind::Buffers) - cached
        };
        until("no buffer is held", || held() == 0).await;
        clients.borrow_mut().clear();
        server.stop().await
    });
}

#[test]
fn ready_handlers_answer_from_the_borrowed_head() {
    on_each("serve_ready", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = spawn(server.serve_ready(|req| Response::text(req.path().to_owned())))?;
        let answer = talk(address, &[b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n", CLOSE], None).await?;
        assert!(answer.contains("\r\n\r\n/x") && answer.ends_with("/a"), "{answer}");
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn a_panic_that_panics_as_it_is_dropped_ends_one_connection() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new(()));
        }
    }
    on_each("payload", async || {
        let server = Server::bind("127.0.0.1:0")?.access_log(|_| std::panic::resume_unwind(Box::new(Payload)));
        let address = server.local_addr();
        let serving = spawn(server.serve_ready(|req| match req.path() {
            "/a" => Response::text("fine"),
            _ => std::panic::resume_unwind(Box::new(Payload)),
        }))?;
        let answer = talk(address, &[b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"], None).await?;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(talk(address, &[CLOSE], None).await?.ends_with("fine"));
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}

#[test]
fn every_answer_has_a_line_in_the_access_log() {
    on_each("access log", async || {
        let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = std::sync::Arc::clone(&lines);
        let server = Server::bind("127.0.0.1:0")?.access_log(move |record| {
            let line = String::from_utf8_lossy(record.request_line).into_owned();
            assert!(record.peer.is_some(), "the peer is known");
            log.lock().expect("no panic").push((line, record.status.as_u16(), record.body_bytes));
        });
        let address = server.local_addr();
        let serving = spawn(server.serve(path))?;
        talk(address, &[CLOSE], None).await?;
        talk(address, &[b"GET /no-host HTTP/1.1\r\n\r\n"], None).await?;
        talk(address, &[b"nonsense\n"], None).await?;
        Spawner::current().stop();
        serving.await.expect("no panic")?;
        let expected = [("GET /a HTTP/1.1", 200, 2), ("GET /no-host HTTP/1.1", 400, 28), ("nonsense", 400, 36)];
        let seen = lines.lock().expect("no panic").clone();
        assert_eq!(seen, expected.map(|(line, status, bytes)| (line.to_owned(), status, bytes)));
        Ok(())
    });
}
