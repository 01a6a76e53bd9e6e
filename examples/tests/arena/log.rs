//! The access log.

use crate::client::Client;
use crate::process::{Arena, drivers};

#[test]
fn each_request_has_a_line() {
    for driver in drivers() {
        let path = std::env::temp_dir().join(format!("plimsoll-arena-{}-{driver}.log", std::process::id()));
        let arena = Arena::start(driver, &["--workers", "2", "--access-log", path.to_str().expect("a text")]);
        let mut client = Client::connect(arena.address);
        client.get("/pipeline");
        client.request("POST", "/upload", "", b"12345");
        client.get("/nowhere?a=%22b%22");
        client.request("HEAD", "/", "", b"");
        client.get("/blob/100000");
        client.request_chunked("POST", "/echo", "", &[b"abc", b"de"]);
        drop(client);
        arena.stop();
        let log = std::fs::read_to_string(&path).expect("the log was written");
        std::fs::remove_file(&path).expect("the log can be removed");
        let lines: Vec<_> = log.lines().map(fields).collect();
        assert_eq!(
            lines,
            [
                ("GET /pipeline HTTP/1.1", "200", "2"),
                ("POST /upload HTTP/1.1", "200", "1"),
                ("GET /nowhere?a=%22b%22 HTTP/1.1", "404", "10"),
                ("HEAD / HTTP/1.1", "200", "0"),
                ("GET /blob/100000 HTTP/1.1", "200", "100000"),
                ("POST /echo HTTP/1.1", "200", "5"),
            ]
        );
    }
}

/// Request line, status and bytes of a line, whose other parts are checked.
fn fields(line: &str) -> (&str, &str, &str) {
    let (peer, rest) = line.split_once(" - - [").expect("a peer");
    assert_eq!(peer, "127.0.0.1", "{line}");
    let (time, rest) = rest.split_once("] \"").expect("a time");
    let shape: String = time.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    assert!(shape.starts_with("00/") && shape.ends_with("/0000:00:00:00 +0000"), "{line}");
    let (request, rest) = rest.split_once("\" ").expect("a request line");
    let (status, bytes) = rest.split_once(' ').expect("a status");
    (request, status, bytes)
}
