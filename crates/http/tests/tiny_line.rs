//! The smallest line that a server starts under, and far more clients than it has room for: each gets an answer or a
//! close, and the line is never crossed. The clients live in a runtime of their own where there are threads, so that
//! the whole line is the server's.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use plimsoll_http::{BodyWriter, Error, Request, Response, Server, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{Budget, DriverChoice, MemoryLimit, Runtime, Spawner, sleep, spawn};

const CLIENTS: usize = 200;
/// So long a client waits for what must come, on a slow machine too.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// What the requests of these tests are answered with.
async fn answer(mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/echo" => {
            let mut out: BodyWriter = request.respond(Response::new(StatusCode::OK), request.content_length())?;
            while let Some(chunk) = request.chunk().await? {
                out.write(chunk).await?;
            }
            out.finish().await
        }
        "/slow" => {
            sleep(Duration::from_millis(20)).await;
            Ok(Response::text(vec![b's'; 30_000]))
        }
        _ => Ok(Response::text("quick")),
    }
}

/// What client `at` sends.
fn request(at: usize) -> Vec<u8> {
    match at % 3 {
        0 => b"GET /quick HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        1 => b"GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n".to_vec(),
        _ => {
            let mut bytes =
                b"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 20000\r\nConnection: close\r\n\r\n".to_vec();
            bytes.resize(bytes.len() + 20_000, b'e');
            bytes
        }
    }
}

/// Whether what came is an answer, the beginning of one, or nothing.
fn is_legal(received: &[u8]) -> bool {
    let start: &[u8] = b"HTTP/1.1 ";
    let status = received.get(start.len()..start.len() + 3);
    start.starts_with(&received[..received.len().min(start.len())])
        && status.is_none_or(|status| [&b"200"[..], b"500", b"503", b"408"].contains(&status))
}

/// The smallest line, in KiB, under which a runtime with this driver starts.
fn smallest_kib(starts: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0_u64, 64 * 1024);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if starts(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

#[test]
fn real_clients_get_an_answer_or_a_close_under_the_smallest_line() {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        let builder = |kib| Runtime::builder().workers(1).driver(choice).memory(MemoryLimit::kib(kib));
        if let Err(error) = builder(64 * 1024).build() {
            assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}");
            println!("skipped on io_uring: {error}");
            continue;
        }
        let kib = smallest_kib(|kib| kib > 0 && builder(kib).build().is_ok());
        for more_kib in [0, 16, 64, 256] {
            let runtime = builder(kib + more_kib).build().expect("more than the smallest line");
            let served = runtime.block_on(serve_threads(more_kib));
            let report = runtime.shutdown();
            assert!(report.is_clean() && report.in_flight == 0, "{choice:?} {kib}+{more_kib} KiB: {report}");
            assert!(report.peak_bytes <= (kib + more_kib) * 1024, "{choice:?}: {report}");
            println!("{choice:?} {kib}+{more_kib} KiB: {served:?} of {CLIENTS} answered 200, {report}");
        }
    }
}

/// `None` when not even the server starts under the line.
async fn serve_threads(more_kib: u64) -> Option<usize> {
    let server = match Server::bind("127.0.0.1:0") {
        Ok(server) => server,
        Err(error) => panic!("a listener needs no memory: {error}"),
    };
    let address = server.local_addr();
    let Ok(serving) = spawn(server.serve(answer)) else {
        assert!(more_kib < 64, "a server has room");
        return None;
    };
    let stop = Spawner::current();
    let budget = plimsoll_runtime::budget();
    let clients = std::thread::spawn(move || {
        let clients: Vec<_> = (0..CLIENTS).map(|at| std::thread::spawn(move || visit(address, at))).collect();
        let answered = clients.into_iter().map(|client| client.join().expect("an answer or a close"));
        let answered = answered.filter(|&answered| answered).count();
        stop.stop();
        answered
    });
    let served = serving.await.expect("the server does not panic");
    check(&budget);
    if let Err(error) = &served {
        assert!(more_kib < 64, "a server has room: {error}");
    }
    // Without a server the clients have been refused by now.
    let answered = clients.join().expect("no client panics");
    served.is_ok().then_some(answered)
}

fn check(budget: &Budget) {
    assert!(budget.charged() <= budget.limit().as_bytes(), "{} charged", budget.charged());
    assert!(budget.peak() <= budget.limit().as_bytes(), "{} charged at the peak", budget.peak());
}

/// Whether the answer was a whole 200.
fn visit(address: SocketAddr, at: usize) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.set_write_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    let _refused_midway = stream.write_all(&request(at));
    let mut received = Vec::new();
    let mut buffer = [0; 4_096];
    let is_whole = loop {
        match stream.read(&mut buffer) {
            Ok(0) => break true,
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) => {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "client {at} waits for ever");
                break false;
            }
        }
    };
    assert!(is_legal(&received), "{}", String::from_utf8_lossy(&received));
    is_whole && received.starts_with(b"HTTP/1.1 200")
}

#[test]
fn simulated_clients_never_push_the_server_over_its_line() {
    for (seed, kib) in [(1, 256), (2, 384), (3, 512), (4, 768), (5, 1_024), (6, 2_048)] {
        let world = World::new(SimConfig::new(seed));
        let Ok(runtime) = Runtime::builder().memory(MemoryLimit::kib(kib)).simulate(&world) else { continue };
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(async {
            let Ok(server) = Server::bind("127.0.0.1:80") else { return };
            let Ok(serving) = spawn(server.serve(answer)) else { return };
            let mut clients = Vec::new();
            for at in 0..CLIENTS {
                // The clients live under the same line: those that find no room are not there.
                if let Ok(client) = spawn(visit_simulated(at, Arc::clone(&budget))) {
                    clients.push(client);
                }
            }
            for client in clients {
                client.await.expect("an answer or a close");
                check(&budget);
            }
            Spawner::current().stop();
            let _no_room = serving.await.expect("the server does not panic");
        });
        let report = runtime.shutdown();
        assert!(report.is_clean() && report.in_flight == 0, "{kib} KiB: {report}");
        assert!(report.peak_bytes <= kib * 1024, "{kib} KiB: {report}");
        assert!(world.descriptors().is_empty(), "{kib} KiB: {:?}", world.descriptors());
    }
}

async fn visit_simulated(at: usize, budget: Arc<Budget>) {
    let Ok(mut stream) = plimsoll_runtime::net::TcpStream::connect("127.0.0.1:80".parse().expect("an address")).await
    else {
        return;
    };
    if stream.send_bytes(&request(at)).await.is_err() {
        return;
    }
    let mut received = Vec::new();
    loop {
        check(&budget);
        match stream.recv().await {
            Ok(Some(bytes)) => received.extend_from_slice(&bytes),
            // No room on the client's side ends it too.
            Ok(None) | Err(_) => break,
        }
    }
    assert!(is_legal(&received), "{}", String::from_utf8_lossy(&received));
}
