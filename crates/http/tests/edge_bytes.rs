//! Parts of bodies as `bytes::Bytes` that outlive everything they came through: the shared receive buffers, the
//! connection, the worker, the runtime.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{self, Sender};

use bytes::Bytes;
use plimsoll_http::{Error, Request, Response, Server};
use plimsoll_runtime::{DriverChoice, MemoryLimit, Runtime, Spawner};

/// Small bodies share the driver's receive buffers; the large one has leases of its own.
const SMALL: usize = 60;
const LARGE_BYTES: usize = 400_000;

fn post(address: SocketAddr, body: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).expect("it reads");
    let (first, rest) = body.split_at(body.len() / 2);
    for part in [first, rest] {
        // In two packets: the second part is received on its own.
        std::thread::yield_now();
        stream.write_all(part).expect("it reads");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

async fn keep(mut request: Request, to: Sender<Vec<Bytes>>) -> Result<Response, Error> {
    let mut parts = Vec::new();
    while let Some(chunk) = request.chunk().await? {
        parts.push(Bytes::from(chunk));
    }
    let sent = to.send(parts);
    assert!(sent.is_ok(), "the test waits for them");
    Ok(Response::text("kept"))
}

fn body(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number * 31 + at) as u8).collect()
}

#[test]
fn bytes_outlive_the_runtime_they_were_received_in() {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        let built = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(choice).build();
        let runtime = match built {
            Ok(runtime) => runtime,
            Err(error) => {
                assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}");
                println!("skipped: io_uring: {error}");
                continue;
            }
        };
        let (to, from) = mpsc::channel();
        runtime.block_on(async {
            let server = Server::bind("127.0.0.1:0").expect("a free port");
            let (address, spawner) = (server.local_addr(), Spawner::current());
            let clients = std::thread::spawn(move || {
                (0..SMALL).for_each(|number| post(address, &body(number, 200)));
                post(address, &body(SMALL, LARGE_BYTES));
                spawner.stop();
            });
            server.serve(move |request| keep(request, to.clone())).await.expect("it serves");
            clients.join().expect("no panic");
        });
        let budget = std::sync::Arc::clone(runtime.budget());
        let report = runtime.shutdown();
        assert_eq!((report.leaked_bytes, report.in_flight), (0, 0));
        assert!(report.charged_bytes > report.fixed_bytes, "what is kept is still charged");
        assert_eq!(budget.adopted_arenas(), 1, "the arena outlives its worker");
        // The bytes go to yet another thread, and nothing of the runtime is left.
        let checked = std::thread::spawn(move || {
            let bodies: Vec<Vec<Bytes>> = from.iter().collect();
            assert_eq!(bodies.len(), SMALL + 1);
            for (number, parts) in bodies.iter().enumerate() {
                let expected = body(number, if number < SMALL { 200 } else { LARGE_BYTES });
                assert!(parts.concat() == expected, "body {number} on {choice:?}");
            }
        });
        checked.join().expect("no panic");
        assert_eq!((budget.adopted_arenas(), budget.charged()), (0, 0));
    }
}
