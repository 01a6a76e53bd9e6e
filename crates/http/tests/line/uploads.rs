//! Uploads at the line: those who wait hold nothing, those that were begun go on in turns, and all but a few are
//! served.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::thread;

use plimsoll_http::{Config, Error, Request, Response, Server};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, now, sleep, spawn};

use crate::rig::memory::fill_to;
use crate::rig::threads::{TEST_TIMEOUT, connect, serve_until, under_line};
use crate::rig::{in_simulation, read, serve};

/// From one address: with 16 KiB for each, they take more than the line.
const UPLOADS: usize = 200;
const BODY_BYTES: usize = 300_000;
const LINE: MemoryLimit = MemoryLimit::mib(3);

/// How the body of an upload is sent, and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Length,
    Chunked,
    Expects,
    /// The handler keeps each piece for a while.
    ReadSlowly,
}

const SORTS: [Sort; 4] = [Sort::Length, Sort::Chunked, Sort::Expects, Sort::ReadSlowly];

async fn count(mut req: Request) -> Result<Response, Error> {
    let pause = Duration::from_millis(if req.path() == "/slow" { 5 } else { 1 });
    let mut bytes = 0;
    while let Some(piece) = req.chunk().await? {
        bytes += piece.len();
        // It keeps the piece meanwhile.
        sleep(pause).await;
    }
    Ok(Response::text(format!("<{bytes}>")))
}

/// Sends a body, and reads the answer.
fn upload(to: SocketAddr, sort: Sort) -> std::io::Result<String> {
    let mut stream = connect(to);
    let (path, fields) = match sort {
        Sort::Length => ("/", format!("Content-Length: {BODY_BYTES}\r\n")),
        Sort::Chunked => ("/", "Transfer-Encoding: chunked\r\n".to_owned()),
        Sort::Expects => ("/", format!("Content-Length: {BODY_BYTES}\r\nExpect: 100-continue\r\n")),
        Sort::ReadSlowly => ("/slow", format!("Content-Length: {BODY_BYTES}\r\n")),
    };
    let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    let body = vec![b'b'; BODY_BYTES];
    let mut answer = String::new();
    stream.write_all(head.as_bytes())?;
    if sort == Sort::Expects {
        const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
        let mut told = [0; CONTINUE.len()];
        stream.read_exact(&mut told)?;
        assert_eq!(String::from_utf8_lossy(&told), CONTINUE);
    }
    if sort == Sort::Chunked {
        for piece in body.chunks(7_001) {
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            stream.write_all(&framed)?;
        }
        stream.write_all(b"0\r\n\r\n")?;
    } else {
        stream.write_all(&body)?;
    }
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn of_more_uploads_at_once_than_fit_nearly_all_are_served() {
    under_line("uploads", LINE, async |_runtime| {
        // Who is served is no matter of how fast the machine is.
        let config = Config { memory_timeout: TEST_TIMEOUT, begun_protection: TEST_TIMEOUT, ..Config::default() };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let to = server.local_addr();

        serve_until(server.serve(count), move || {
            let sorts = SORTS.iter().cycle().take(UPLOADS);
            let clients: Vec<_> = sorts.map(|sort| (*sort, thread::spawn(move || upload(to, *sort)))).collect();
            let mut served = 0;
            for (sort, client) in clients {
                let answer = client.join().expect("no client panics");
                // One that is refused while it sends may find a reset in place of its 503.
                let Some(answer) = answer.ok().filter(|answer| !answer.starts_with("HTTP/1.1 503 ")) else { continue };
                assert!(answer.starts_with("HTTP/1.1 200 "), "{sort:?}: {answer}");
                assert!(answer.ends_with(&format!("<{BODY_BYTES}>")), "{sort:?}: {answer}");
                served += 1;
            }
            // One in some thousand still comes when a burst has taken the last of the line within a turn.
            assert!(served * 100 >= UPLOADS * 95, "{served} of {UPLOADS}");
        })
        .await?;
        Ok(())
    });
}

/// What is parked while memory is short has no receive that the stop could take back.
#[test]
fn who_is_parked_while_memory_is_short_is_served_and_ended_at_the_stop() {
    in_simulation("parked at the stop", async || {
        let server = serve(Config::default(), count)?;
        let memory = fill_to(Level::Yellow).await;
        let mut client = TcpStream::connect(server.address).await?;
        for _ in 0..2 {
            client.send_bytes(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello").await?;
            assert!(read(&mut client, Some(b"<5>")).await?.starts_with("HTTP/1.1 200 "));
        }
        let stopped_at = now();
        let reading = spawn(async move { client.recv().await })?;
        let stopped = server.stop().await;
        assert!(matches!(reading.await.expect("no panic"), Ok(None)), "its end is no reset");
        assert!(now().since(stopped_at) < Duration::from_secs(5), "nothing was waited for in vain");
        drop(memory);
        stopped
    });
}
