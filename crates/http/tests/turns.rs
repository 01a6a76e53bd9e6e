//! Connections that have many requests waiting take turns: one that comes behind a crowd of them, with one request, waits for a part of each and not
//! for all of all.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use plimsoll_http::{Config, Error, Request, Response, Server};
use plimsoll_runtime::{DriverChoice, MemoryLimit, Runtime, Spawner};

const CROWD: usize = 150;
const REQUESTS_EACH: usize = 64;

/// All clients have asked before the server looks: what it does first is its own choice, and no matter of time.
fn ask(address: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the listener's queue has room");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream.write_all(request).expect("the kernel takes it");
    stream
}

#[test]
fn one_request_does_not_wait_for_all_that_others_have_read_ahead() {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        let Ok(runtime) = Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).driver(choice).build() else {
            println!("skipped on {choice:?}");
            continue;
        };
        let place = runtime.block_on(async {
            let server = Server::bind("127.0.0.1:0")?;
            let (address, stop) = (server.local_addr(), Spawner::current());
            let crowd: Vec<_> =
                (0..CROWD).map(|_| ask(address, &b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS_EACH))).collect();
            let mut last = ask(address, b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let clients = std::thread::spawn(move || {
                let mut answer = String::new();
                let read = last.read_to_string(&mut answer);
                drop(crowd);
                stop.stop();
                read.map(|_| answer)
            });
            let begun = Arc::new(AtomicUsize::new(0));
            server
                .serve(move |req: Request| {
                    let number = begun.fetch_add(1, Ordering::Relaxed);
                    let is_last = req.path() == "/last";
                    async move { Response::text(if is_last { number.to_string() } else { "b".repeat(6_000) }) }
                })
                .await?;
            let answer = clients.join().expect("no panic").expect("it is answered");
            let place = answer.rsplit("\r\n").next().and_then(|body| body.parse::<usize>().ok());
            Ok::<_, plimsoll_runtime::Error>(place.unwrap_or_else(|| panic!("{answer}")))
        });
        let place = place.unwrap_or_else(|error| panic!("{choice:?}: {error}"));
        println!("on {choice:?}: {place} requests of {} were begun before it", CROWD * REQUESTS_EACH);
        assert!(place < CROWD * REQUESTS_EACH / 3, "on {choice:?}: {place} requests were begun before it");
        assert!(runtime.shutdown().is_clean());
    }
}

/// Uploads whose bytes are always there, as fast as the server takes them: others are accepted meanwhile, and deadlines come.
#[test]
fn uploads_without_an_end_leave_turns_for_others() {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        let Ok(runtime) = Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).driver(choice).build() else {
            println!("skipped on {choice:?}");
            continue;
        };
        let served = runtime.block_on(async {
            let config = Config { head_timeout: Duration::from_millis(300), ..Config::default() };
            let server = Server::bind("127.0.0.1:0")?.config(config);
            let (address, stop) = (server.local_addr(), Spawner::current());
            let clients = std::thread::spawn(move || {
                let over = Arc::new(AtomicBool::new(false));
                let uploads: Vec<_> = (0..4).map(|_| endless_upload(address, Arc::clone(&over))).collect();
                // It is under way.
                std::thread::sleep(Duration::from_millis(300));
                let result = std::panic::catch_unwind(|| {
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
                });
                over.store(true, Ordering::Relaxed);
                uploads.into_iter().for_each(|upload| upload.join().expect("no panic"));
                stop.stop();
                result
            });
            server
                .serve(|mut req: Request| async move {
                    // As one that looks at each byte: the server is what is waited for.
                    let mut sum = 0_u64;
                    while let Some(chunk) = req.chunk().await? {
                        sum += chunk.iter().map(|byte| u64::from(*byte)).sum::<u64>();
                    }
                    Ok::<_, Error>(Response::text(if sum == 0 { "fine".to_owned() } else { sum.to_string() }))
                })
                .await?;
            let result = clients.join().expect("its panics are caught");
            Ok::<_, plimsoll_runtime::Error>(result)
        });
        let served = served.unwrap_or_else(|error| panic!("{choice:?}: {error}"));
        served.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let _report = runtime.shutdown();
    }
}

/// Sends a body until it is told to end; gives it up then.
fn endless_upload(address: SocketAddr, over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let head = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", u64::MAX / 4);
        let mut stream = ask(address, head.as_bytes());
        stream.set_write_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        let piece = vec![1; 1 << 20];
        while !over.load(Ordering::Relaxed) && stream.write(&piece).is_ok() {}
    })
}
