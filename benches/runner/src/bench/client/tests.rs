//! The answer that is expected, and others; how many connections there are, and where they come from.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::{CLIENTS, CONNECTIONS, Connection, OPEN_FILES, connections, from, is_complete};

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
fn a_connection_comes_from_its_address_and_asks() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        let mut request = [0; 512];
        let len = stream.read(&mut request).unwrap();
        assert!(request[..len].starts_with(b"GET /pipeline HTTP/1.1\r\n"));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
        from
    });
    let from = Ipv4Addr::new(127, 0, 0, 7);
    let mut connection = Connection::open(from, to).unwrap();
    connection.ask().unwrap();
    assert_eq!(server.join().unwrap().ip(), from);
}

#[test]
fn the_limit_of_open_files_bounds_the_connections() {
    assert_eq!(connections(OPEN_FILES), CONNECTIONS);
    assert_eq!(connections(u64::MAX), CONNECTIONS);
    assert_eq!(connections(1024), 512);
    assert_eq!(connections(100), 0);
}

#[test]
fn clients_have_twenty_addresses_in_turns() {
    assert_eq!(from(0), Ipv4Addr::new(127, 0, 0, 2));
    assert_eq!(from(CLIENTS - 1), Ipv4Addr::new(127, 0, 0, 21));
    assert_eq!(from(CLIENTS), from(0));
}
