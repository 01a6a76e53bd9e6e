//! HTTP/2 over both addresses, and what the one for HTTP/2 alone refuses.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::process::{PATIENCE, Running, drivers};

/// Sends bytes and reads until `enough` has come, or to the end.
fn talk(port: &str, bytes: &[u8], enough: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}")).expect("arena listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a live socket");
    socket.write_all(bytes).expect("arena reads");
    let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
    while !answer.windows(enough.len()).any(|window| window == enough) {
        match socket.read(&mut piece).expect("arena answers in time") {
            0 => break,
            bytes => answer.extend_from_slice(&piece[..bytes]),
        }
    }
    answer
}

#[test]
fn http2_is_spoken_on_both_ports_and_http1_on_one() {
    // The preface, SETTINGS, and a request whose path is the fifth field of a list without tables.
    let block = b"\x82\x86\x00\x0a:authority\x01h\x00\x05:path\x09/pipeline";
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0".to_vec();
    hello.extend([0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]);
    hello.extend(block);
    for driver in drivers() {
        let flags = ["--listen", "127.0.0.1:0", "--h2c", "127.0.0.1:0", "--driver", driver, "--workers", "2"];
        let (mut arena, ready) = Running::start("arena", &flags);
        let port = |before: &str| {
            let after = ready.split(before).nth(1).unwrap_or_else(|| panic!("{before} is not in {ready}"));
            after.split_whitespace().next().unwrap_or_default().to_owned()
        };
        let (both, alone) = (port("http://127.0.0.1:"), port("h2c=127.0.0.1:"));
        for port in [&both, &alone] {
            let answer = talk(port, &hello, b"ok");
            assert!(answer.ends_with(b"\0\0\x02\0\x01\0\0\0\x01ok"), "on {driver}: {answer:?}");
        }
        let request = b"GET /pipeline HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        assert!(talk(&both, request, b"\r\n\r\nok").starts_with(b"HTTP/1.1 200 "));
        assert!(talk(&alone, request, b"\r\n\r\n").starts_with(b"HTTP/1.1 505 "));
        let metrics = talk(&both, b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", b"never");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        assert!(metrics.contains("plimsoll_requests_total{protocol=\"h2\"} 2\n"), "both servers count: {metrics}");
        arena.signal("TERM");
        let ended = arena.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}
