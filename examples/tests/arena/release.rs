//! Memory of a burst is back with the system soon after, though nobody asks the server for anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::process::{Arena, WAIT_MAX, drivers};

const CONNECTIONS: usize = 800;
/// A head of so many bytes waits for its end.
const HEAD_BYTES: usize = 7_000;
const REQUEST: &[u8] = b"GET /pipeline HTTP/1.1\r\nHost: a\r\n";

/// Anonymous memory of a process, as the kernel counts it.
pub(crate) fn resident_bytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5 or newer");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1_024
}

fn connect(address: SocketAddr) -> Vec<TcpStream> {
    let connect = |_| {
        let stream = TcpStream::connect(address).expect("it accepts");
        stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
        stream
    };
    (0..CONNECTIONS).map(connect).collect()
}

/// Most of a long head on every connection: the server must keep it.
fn begin(streams: &mut [TcpStream]) {
    let mut head = REQUEST.to_vec();
    while head.len() < HEAD_BYTES {
        head.extend_from_slice(b"X-Filler: ");
        head.extend_from_slice(&[b'a'; 500]);
        head.extend_from_slice(b"\r\n");
    }
    streams.iter_mut().for_each(|stream| stream.write_all(&head).expect("it reads heads"));
}

fn finish(streams: &mut [TcpStream]) {
    for stream in streams {
        stream.write_all(b"\r\n").expect("it reads heads");
        let mut answer = [0; 1_024];
        let len = loop {
            match stream.read(&mut answer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read.expect("it answers"),
            }
        };
        assert!(answer[..len].starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8_lossy(&answer[..len]));
    }
}

/// Waits until the process has no more than `bytes` resident; how long that took.
fn wait_for(process: u32, what: &str, done: impl Fn(u64) -> bool) -> Duration {
    let start = Instant::now();
    loop {
        let resident = resident_bytes(process);
        if done(resident) {
            return start.elapsed();
        }
        assert!(start.elapsed() < WAIT_MAX, "{what}: {resident} bytes are resident");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What is resident when nothing more has gone back for longer than free memory is kept.
fn at_rest(process: u32) -> u64 {
    let (start, mut least, mut since) = (Instant::now(), u64::MAX, Instant::now());
    while since.elapsed() < Duration::from_secs(4) {
        assert!(start.elapsed() < WAIT_MAX, "it comes to rest");
        let resident = resident_bytes(process);
        if resident < least {
            (least, since) = (resident, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    least
}

/// A burst on a server whose connections are there; 98 % of what it took is given back, whether they go or stay.
fn burst_and_idle(driver: &str, stays: bool) {
    let arena = Arena::start(driver, &["--workers", "2", "--memory", "32MiB"]);
    let process = arena.running.id();
    // Everything that is needed once has been: tables, directories, the code's own pages.
    let mut warm = connect(arena.address);
    begin(&mut warm);
    finish(&mut warm);
    drop(warm);
    let mut streams = connect(arena.address);
    begin(&mut streams[..1]);
    finish(&mut streams[..1]);
    let base = at_rest(process);
    begin(&mut streams);
    let held = (CONNECTIONS * HEAD_BYTES) as u64;
    wait_for(process, "the heads are kept", |resident| resident >= base + held);
    let peak = resident_bytes(process);
    if stays {
        finish(&mut streams);
    } else {
        streams.clear();
    }
    let burst = peak - base;
    let took = wait_for(process, "the burst goes back", |resident| resident.saturating_sub(base) <= burst / 50);
    println!("{driver}, connections {}: {burst} bytes back after {took:?}", if stays { "parked" } else { "gone" });
    drop(streams);
    let report = arena.stop();
    assert_eq!((report.leaked, report.in_flight), (0, 0));
}

#[test]
fn a_burst_is_back_with_the_system_when_its_connections_are_gone() {
    drivers().iter().for_each(|driver| burst_and_idle(driver, false));
}

#[test]
fn a_burst_is_back_with_the_system_while_its_connections_are_parked() {
    drivers().iter().for_each(|driver| burst_and_idle(driver, true));
}
