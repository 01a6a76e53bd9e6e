//! Marked routes are answered when nothing else is: when the program holds all memory, when as many handlers run as
//! may, and when more is asked than can be begun in time.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use plimsoll_http::{Config, Request, Response, Router, Server};
use plimsoll_runtime::{MemoryLimit, sleep, spawn};

use crate::rig::frames::{ACK, Frame, HEADERS, PREFACE, SETTINGS, frame, get};
use crate::rig::memory::fill;
use crate::rig::threads::{connect, serve_until, under_line_for_all, until};

const LINE: MemoryLimit = MemoryLimit::mib(4);
const HEALTH: &[u8] = b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n";
const OTHER: &[u8] = b"GET /other HTTP/1.1\r\nHost: h\r\n\r\n";

/// The status of the answer that comes next.
fn status(stream: &mut TcpStream) -> u16 {
    let mut bytes = Vec::new();
    let mut byte = [0; 1];
    while !bytes.ends_with(b"\r\n\r\n") {
        let len = stream.read(&mut byte).expect("an answer, and no reset");
        assert!(len > 0, "closed after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&byte);
    }
    let head = String::from_utf8(bytes).expect("heads are ASCII");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().expect("a number"))];
    stream.read_exact(&mut body).expect("its body");
    head[9..12].parse().expect("a status")
}

fn ask(stream: &mut TcpStream, request: &[u8]) -> u16 {
    stream.write_all(request).expect("it is sent");
    status(stream)
}

/// A connection of HTTP/2.
struct Streams {
    socket: TcpStream,
    next: u32,
    received: Vec<u8>,
}

impl Streams {
    fn new(address: SocketAddr) -> Self {
        let mut socket = connect(address);
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
        socket.write_all(&hello).expect("it is sent");
        Self { socket, next: 1, received: Vec::new() }
    }

    /// Asks for a path on a stream of its own; the status, of those that are due.
    fn ask(&mut self, path: &str) -> u16 {
        let id = self.next;
        self.next += 2;
        self.socket.write_all(&get(id, path)).expect("it is sent");
        let mut found = None;
        loop {
            while let Some(frame) = Frame::take_from(&mut self.received) {
                if frame.kind == SETTINGS && frame.flags & ACK == 0 {
                    self.socket.write_all(&crate::rig::frames::frame(SETTINGS, ACK, 0, &[])).expect("it is sent");
                }
                if frame.stream != id {
                    continue;
                }
                if frame.kind == HEADERS {
                    found = [200, 503].into_iter().find(|status| frame.has_status(*status));
                }
                if frame.ends_stream() {
                    return found.expect("a status that is due");
                }
            }
            let mut part = [0; 4_096];
            let len = self.socket.read(&mut part).expect("an answer, and no reset");
            assert!(len > 0, "closed");
            self.received.extend_from_slice(&part[..len]);
        }
    }
}

/// Holds all memory from when it is wanted until it is not any more.
#[derive(Default)]
struct Full {
    wanted: AtomicBool,
    held: AtomicBool,
}

impl Full {
    async fn hold(self: Arc<Self>) {
        while !self.wanted.load(Ordering::Acquire) {
            sleep(Duration::from_millis(2)).await;
        }
        let mut held = fill(1);
        self.held.store(true, Ordering::Release);
        while self.wanted.load(Ordering::Acquire) {
            sleep(Duration::from_millis(2)).await;
            held.extend(fill(1));
        }
    }

    fn until_held(&self) {
        self.wanted.store(true, Ordering::Release);
        until("all memory is held", || self.held.load(Ordering::Acquire));
    }
}

/// Gives the memory back, also after a panic: a server that stops wants some.
struct Release(Arc<Full>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.wanted.store(false, Ordering::Release);
    }
}

#[test]
fn a_marked_route_is_answered_a_thousand_times_when_the_line_is_full() {
    under_line_for_all("a full line", LINE, async |_runtime| {
        let full = Arc::new(Full::default());
        let holding = spawn(Arc::clone(&full).hold())?;
        let config = Config { admission_timeout: Duration::from_millis(50), ..Config::default() };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let address = server.local_addr();
        let routes = Router::new()
            .get("/health", async |_req: Request| Response::text("healthy"))
            .reserved()
            .get("/other", async |_req: Request| Response::text("other"));
        let serving = server.serve(routes);
        let release = Release(Arc::clone(&full));
        serve_until(serving, move || {
            let mut kept = connect(address);
            let mut other = connect(address);
            let mut streams = Streams::new(address);
            assert_eq!([ask(&mut kept, HEALTH), ask(&mut other, OTHER), streams.ask("/health")], [200; 3]);
            release.0.until_held();
            assert_eq!(ask(&mut other, OTHER), 503, "there is no memory for it");
            let of_kept: Vec<u16> = (0..400).map(|_| ask(&mut kept, HEALTH)).collect();
            assert_eq!(of_kept, vec![200; 400]);
            let of_streams: Vec<u16> = (0..300).map(|_| streams.ask("/health")).collect();
            assert_eq!(of_streams, vec![200; 300]);
            assert_eq!(streams.ask("/other"), 503, "there is no memory for it");
            let of_new: Vec<u16> = (0..300).map(|_| ask(&mut connect(address), HEALTH)).collect();
            assert_eq!(of_new, vec![200; 300]);
            drop(release);
        })
        .await?;
        holding.await.expect("no panic");
        Ok(())
    });
}

/// One handler runs, as may; requests for a marked path are answered beside it.
#[test]
fn a_marked_path_waits_for_no_other_handler() {
    under_line_for_all("a handler that does not end", LINE, async |_runtime| {
        let config = Config {
            handlers_in_progress_max: Some(1),
            reserved_paths: vec!["/health".to_owned()],
            admission_timeout: Duration::from_millis(50),
            ..Config::default()
        };
        let server = Server::bind("127.0.0.1:0")?.config(config);
        let address = server.local_addr();
        let (running, may_end) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (of_server, of_clients) = ((Arc::clone(&running), Arc::clone(&may_end)), (running, may_end));
        let serving = server.serve(move |req: Request| {
            let (running, may_end) = (Arc::clone(&of_server.0), Arc::clone(&of_server.1));
            async move {
                if req.path() == "/other" {
                    running.fetch_add(1, Ordering::Relaxed);
                    while !may_end.load(Ordering::Acquire) {
                        sleep(Duration::from_millis(2)).await;
                    }
                }
                Response::text("ok")
            }
        });
        serve_until(serving, move || {
            let (running, may_end) = of_clients;
            let mut held = connect(address);
            held.write_all(OTHER).expect("it is sent");
            until("it begins", || running.load(Ordering::Relaxed) > 0);
            let (mut kept, mut streams) = (connect(address), Streams::new(address));
            let asked = [ask(&mut kept, OTHER), streams.ask("/other")];
            let of_kept: Vec<u16> = (0..50).map(|_| ask(&mut kept, HEALTH)).collect();
            let of_streams: Vec<u16> = (0..50).map(|_| streams.ask("/health")).collect();
            may_end.store(true, Ordering::Release);
            assert_eq!(asked, [503; 2], "one may run");
            assert_eq!((of_kept, of_streams), (vec![200; 50], vec![200; 50]));
            assert_eq!(status(&mut held), 200);
        })
        .await
    });
}
