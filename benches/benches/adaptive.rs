//! What the size of receive buffers is worth: uploads over loopback, received into buffers of a fixed size or of one
//! that adapts.
//!
//! ```text
//! cargo bench -p plimsoll-benches --bench adaptive
//! ```
//!
//! Each figure is one upload on a connection that is kept, from its first byte until the answer, with client and server
//! on threads of their own.
#![forbid(unsafe_code)]
#![expect(missing_docs, reason = "criterion makes undocumented functions")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::http::{AdaptiveSize, Class, Config, Error, Request, Response, Server};
use plimsoll::{DriverChoice, MemoryLimit, Runtime, Spawner};

/// Sizes, and how many buffers of the largest are filled at a time.
const SIZES: [(&str, AdaptiveSize, u8); 6] = [
    ("fixed 4 KiB", AdaptiveSize::new(Class::K4, Class::K4), 1),
    ("fixed 8 KiB", AdaptiveSize::new(Class::K8, Class::K8), 1),
    ("fixed 16 KiB", AdaptiveSize::new(Class::K16, Class::K16), 1),
    ("fixed 64 KiB", AdaptiveSize::new(Class::K64, Class::K64), 1),
    ("adaptive, one at a time", AdaptiveSize::new(Class::K4, Class::K128), 1),
    ("adaptive", AdaptiveSize::new(Class::K4, Class::K128), 8),
];
const BODIES: [(&str, usize); 4] = [("100 B", 100), ("4 KiB", 4 << 10), ("1 MiB", 1 << 20), ("20 MiB", 20 << 20)];

/// A server on a thread of its own, until it is stopped.
struct Served {
    address: SocketAddr,
    spawner: Spawner,
    thread: JoinHandle<()>,
}

impl Served {
    fn start(driver: DriverChoice, size: AdaptiveSize, buffers: u8) -> Option<Self> {
        let (to, from) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let built = Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).driver(driver).build();
            let Ok(runtime) = built else { return };
            runtime.block_on(async {
                let config = Config { body_receive: size, body_receive_leases_max: buffers, ..Config::default() };
                let server = Server::bind("127.0.0.1:0").expect("a free port").config(config);
                to.send((server.local_addr(), Spawner::current())).expect("somebody waits for it");
                server.serve(upload).await.expect("it serves");
            });
        });
        let (address, spawner) = from.recv().ok()?;
        Some(Self { address, spawner, thread })
    }

    fn stop(self) {
        self.spawner.stop();
        self.thread.join().expect("no panic");
    }
}

async fn upload(mut request: Request) -> Result<Response, Error> {
    let mut bytes = 0;
    while let Some(chunk) = request.chunk().await? {
        bytes += chunk.len();
    }
    Ok(Response::text(bytes.to_string()))
}

fn send(stream: &mut TcpStream, request: &[u8]) {
    stream.write_all(request).expect("it takes the body");
    let mut answer = [0; 512];
    let mut len = 0;
    while !answer[..len].windows(4).any(|end| end == b"\r\n\r\n") || len < 40 {
        let more = stream.read(&mut answer[len..]).expect("it answers");
        assert!(more > 0, "it keeps the connection");
        len += more;
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

fn uploads(c: &mut Criterion) {
    for (name, driver) in [("uring", DriverChoice::Uring), ("mio", DriverChoice::Mio)] {
        for (body_name, bytes) in BODIES {
            let mut group = c.benchmark_group(format!("upload/{name}/{body_name}"));
            group.throughput(Throughput::Bytes(bytes as u64));
            let mut request = format!("POST / HTTP/1.1\r\nHost: bench\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
            request.resize(request.len() + bytes, b'x');
            for (size_name, size, buffers) in SIZES {
                let Some(served) = Served::start(driver, size, buffers) else { continue };
                let mut stream = TcpStream::connect(served.address).expect("it accepts");
                stream.set_nodelay(true).expect("a TCP socket");
                group.bench_function(size_name, |b| b.iter(|| send(&mut stream, &request)));
                drop(stream);
                served.stop();
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = uploads
}
criterion_main!(benches);
