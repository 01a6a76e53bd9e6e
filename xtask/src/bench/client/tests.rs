//! The answer that is expected, and others.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::{Connection, is_complete};

#[test]
fn an_answer_is_complete_with_its_body() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    for len in 0..answer.len() {
        assert!(!is_complete(&answer[..len]).unwrap(), "{len} bytes");
    }
    assert!(is_complete(answer).unwrap());
}

#[test]
fn another_answer_is_an_error() {
    for answer in ["HTTP/1.1 404 Not Found\r\n\r\nok", "HTTP/1.1 200 OK\r\n\r\nno", "HTTP/1.1 200 OK\r\n\r\nokay"] {
        assert!(is_complete(answer.as_bytes()).is_err(), "{answer}");
    }
}

#[test]
fn a_connection_comes_from_its_address_and_is_parked_until_it_is_closed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        let mut request = [0; 512];
        let len = stream.read(&mut request).unwrap();
        assert!(request[..len].starts_with(b"GET /pipeline HTTP/1.1\r\n"));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
        (stream, from)
    });
    let from = Ipv4Addr::new(127, 0, 0, 7);
    let mut connection = Connection::open(from, to).unwrap();
    connection.ask().unwrap();
    let (stream, seen) = server.join().unwrap();
    assert_eq!(seen.ip(), from);
    assert!(connection.is_parked());
    drop(stream);
    assert!(!connection.is_parked());
}
