//! What attackers of HTTP/2 make the process hold, as the kernel counts it: never more than the line. An honest client
//! is served meanwhile.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_conformance::frames::{CONTINUATION, DATA, HEADERS, RST_STREAM, WINDOW_UPDATE, frame};

use crate::process::{Arena, WAIT_MAX, drivers};
use crate::release::resident_bytes;

const LINE_BYTES: u64 = 16 << 20;
const END: u8 = 5;

/// A request without entries for a table.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut block = b"\x82\x86\x41\x01h\x04".to_vec();
    block.push(path.len() as u8);
    block.extend_from_slice(path.as_bytes());
    frame(HEADERS, END, stream, &block)
}

/// Connects, and says hello with these SETTINGS.
fn connect(address: SocketAddr, settings: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(address).expect("it accepts");
    socket.set_read_timeout(Some(WAIT_MAX)).expect("a live socket");
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("a live socket");
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, settings)[..], &frame(4, 1, 0, &[])].concat();
    socket.write_all(&hello).expect("it reads");
    socket
}

/// The attacks: what each connection sends, and the SETTINGS it begins with.
fn attacks() -> Vec<(&'static str, Vec<u8>, Vec<u8>)> {
    let many =
        |count: u32, one: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> { (0..count).flat_map(|at| one(2 * at + 1)).collect() };
    let closed = vec![0, 4, 0, 0, 0, 0];
    let bomb = [&b"\x82\x86\x84\x41\x01h"[..], &[0x90; 10_000]].concat();
    let mut endless = frame(HEADERS, 0, 1, b"\x82");
    endless.extend(frame(CONTINUATION, 0, 1, &[0; 1_000]).repeat(1_000));
    vec![
        ("128 streams of 1 MiB and windows of 0", many(128, &|id| get(id, "/blob/1048576")), closed.clone()),
        ("bombs of fields", many(90, &|id| frame(HEADERS, END, id, &bomb)), closed.clone()),
        ("a block that never ends", endless, Vec::new()),
        (
            "100,000 rapid resets",
            many(100_000, &|id| [get(id, "/delay/1000"), frame(RST_STREAM, 0, id, &[0, 0, 0, 8])].concat()),
            Vec::new(),
        ),
        (
            "resets that it makes us send: windows",
            many(1_000, &|id| [get(id, "/delay/1000"), frame(WINDOW_UPDATE, 0, id, &[0; 4])].concat()),
            Vec::new(),
        ),
        (
            "resets that it makes us send: late data",
            many(1_000, &|id| [get(id, "/delay/1000"), frame(DATA, 0, id, b"x")].concat()),
            Vec::new(),
        ),
        ("pings", frame(6, 0, 0, &[0; 8]).repeat(50_000), closed),
    ]
}

/// Asks again and again until told to stop; how often it was answered.
fn honest(address: SocketAddr, enough: &AtomicBool, served: &AtomicU64) {
    let mut socket = TcpStream::connect(address).expect("it accepts");
    socket.set_read_timeout(Some(WAIT_MAX)).expect("a live socket");
    while !enough.load(Ordering::Relaxed) {
        socket.write_all(b"GET /pipeline HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
        let (mut answer, mut piece) = (Vec::new(), [0; 1_024]);
        while !answer.ends_with(b"\r\n\r\nok") {
            match socket.read(&mut piece) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => {
                    let bytes = read.expect("it answers in time");
                    assert!(bytes > 0, "it keeps the connection: {}", answer.escape_ascii());
                    answer.extend_from_slice(&piece[..bytes]);
                }
            }
        }
        served.fetch_add(1, Ordering::Relaxed);
        // It shall not be the load.
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn attackers_of_http2_never_make_it_grow_by_more_than_the_line() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "1", "--memory", "16MiB"]);
        let (process, address) = (arena.running.id(), arena.address);
        let (enough, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let asking = {
            let (enough, served) = (Arc::clone(&enough), Arc::clone(&served));
            thread::spawn(move || honest(address, &enough, &served))
        };
        let base = resident_bytes(process);
        let mut peak = base;
        for (what, bytes, settings) in attacks() {
            // Eight at a time, none of which reads before all have sent what they could.
            let before = served.load(Ordering::Relaxed);
            let mut sockets: Vec<TcpStream> = (0..8).map(|_| connect(address, &settings)).collect();
            for socket in &mut sockets {
                // It is cut off, or not read any further: both end the attempt.
                let _sent = socket.write_all(&bytes);
                peak = peak.max(resident_bytes(process));
            }
            while served.load(Ordering::Relaxed) < before + 20 {
                peak = peak.max(resident_bytes(process));
                assert!(!asking.is_finished(), "{what}: the honest client is not content");
                thread::sleep(Duration::from_millis(1));
            }
            assert!(peak - base <= LINE_BYTES, "{what}: {} bytes more are resident", peak - base);
        }
        enough.store(true, Ordering::Relaxed);
        asking.join().expect("the honest client is content");
        println!(
            "{driver}: {} bytes more at the peak, {} honest requests",
            peak - base,
            served.load(Ordering::Relaxed)
        );
        let report = arena.stop();
        assert_eq!((report.leaked, report.in_flight), (0, 0));
    }
}
