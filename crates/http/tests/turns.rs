//! Connections that have many requests waiting take turns: one that comes behind a crowd of them, with one request, waits for a part of each and not
//! for all of all.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_http::{Request, Response, Server};
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
