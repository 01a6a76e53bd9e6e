//! Connections that have many requests waiting take turns: one that comes behind a crowd of them, with one request,
//! waits for a part of each and not for all of all.

#![allow(clippy::print_stdout, reason = "a figure beside what is asserted")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use plimsoll_http::{Config, Error, Request, Response, Server};
use plimsoll_runtime::{MemoryLimit, sleep};

use crate::rig::threads::{connect, serve_until, under_line};

const LINE: MemoryLimit = MemoryLimit::mib(64);
/// No more than wait in the queue of a listener on any machine.
const CROWD: usize = 100;
const REQUESTS_EACH: usize = 64;

/// All clients have asked before the server looks: what it does first is its own choice, and no matter of time.
fn ask(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = connect(address);
    stream.write_all(request).expect("the kernel takes it");
    stream
}

#[test]
fn one_request_does_not_wait_for_all_that_others_have_read_ahead() {
    under_line("a crowd that reads ahead", LINE, async |runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let crowd: Vec<_> =
            (0..CROWD).map(|_| ask(address, &b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS_EACH))).collect();
        let mut last = ask(address, b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let begun = Arc::new(AtomicUsize::new(0));
        let serving = server.serve(move |req: Request| {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            let is_last = req.path() == "/last";
            async move { Response::text(if is_last { number.to_string() } else { "b".repeat(6_000) }) }
        });
        let clients = move || {
            let mut answer = String::new();
            last.read_to_string(&mut answer).expect("it is answered");
            drop(crowd);
            answer
        };
        let answer = serve_until(serving, clients).await?;
        let place = answer.rsplit("\r\n").next().and_then(|body| body.parse::<usize>().ok());
        let place = place.unwrap_or_else(|| panic!("{answer}"));
        println!("on {}: {place} requests of {} were begun before it", runtime.driver().kind, CROWD * REQUESTS_EACH);
        assert!(place < CROWD * REQUESTS_EACH / 3, "{place} requests were begun before it");
        Ok(())
    });
}

/// Runs `clients` beside others that go on without an end; those end after it, also when it panics.
fn beside(
    others: usize,
    endless: fn(SocketAddr, Arc<AtomicBool>) -> JoinHandle<()>,
    address: SocketAddr,
    clients: impl FnOnce(),
) {
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..others).map(|_| endless(address, Arc::clone(&over))).collect();
    // They are under way.
    thread::sleep(Duration::from_millis(300));
    let result = catch_unwind(AssertUnwindSafe(clients));
    over.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().expect("no panic"));
    result.unwrap_or_else(|panic| resume_unwind(panic));
}

/// Uploads whose bytes are always there, as fast as the server takes them: others are accepted meanwhile, and deadlines
/// come.
#[test]
fn uploads_without_an_end_leave_turns_for_others() {
    under_line("uploads without an end", LINE, async |_runtime| {
        let config = Config { head_timeout: Duration::from_millis(300), ..Config::default() };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let address = server.local_addr();
        let serving = server.serve(|mut req: Request| async move {
            // As one that looks at each byte: the server is what is waited for.
            let mut sum = 0_u64;
            while let Some(chunk) = req.chunk().await? {
                sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            }
            Ok::<_, Error>(Response::text(if sum == 0 { "fine".to_owned() } else { sum.to_string() }))
        });
        let honest = move || {
            let mut half = ask(address, b"GET / HTTP/1.1\r\nHost: ");
            for _ in 0..5 {
                let mut answer = String::new();
                let mut client = ask(address, b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                client.read_to_string(&mut answer).expect("it is answered while uploads go on");
                assert!(answer.ends_with("\r\n\r\nfine"), "{answer}");
            }
            let mut answer = String::new();
            half.read_to_string(&mut answer).expect("its time ends while uploads go on");
            assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        };
        serve_until(serving, move || beside(4, endless_upload, address, honest)).await
    });
}

/// Sends a body until it is told to end; gives it up then.
fn endless_upload(address: SocketAddr, over: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", u64::MAX / 4);
        let mut stream = ask(address, head.as_bytes());
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        let piece = vec![1; 1 << 20];
        while !over.load(Ordering::Relaxed) && stream.write(&piece).is_ok() {}
    })
}

/// Pipelines that never end take all that may be begun in a turn, and one connection has a single request read ahead:
/// it gets its turn.
#[test]
fn pipelines_without_an_end_leave_turns_for_one_request_read_ahead() {
    under_line("pipelines without an end", LINE, async |_runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = server.serve(|req: Request| async move {
            if req.path() == "/slow" {
                sleep(Duration::from_millis(5)).await;
            }
            Response::text("fine")
        });
        let honest = move || {
            for _ in 0..5 {
                let two =
                    b"GET /slow HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
                let mut answers = String::new();
                ask(address, two).read_to_string(&mut answers).expect("both are answered");
                assert_eq!(answers.matches("HTTP/1.1 200 ").count(), 2, "{answers}");
            }
        };
        serve_until(serving, move || beside(12, endless_pipeline, address, honest)).await
    });
}

/// Sends requests, and reads what comes, until it is told to end.
fn endless_pipeline(address: SocketAddr, over: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let requests = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(100);
        let mut stream = ask(address, &requests);
        let mut reader = stream.try_clone().expect("a second handle");
        let reading = thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while reader.read(&mut bytes).is_ok_and(|len| len > 0) {}
        });
        while !over.load(Ordering::Relaxed) && stream.write_all(&requests).is_ok() {}
        let _closed = stream.shutdown(std::net::Shutdown::Both);
        reading.join().expect("no panic");
    })
}
