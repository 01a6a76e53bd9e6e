//! Signals, the orderly end, and the report.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::process::{Arena, Report, WAIT_MAX, drivers};

/// Waits until the server has the request: a handler that runs counts as an active connection.
fn until_active(arena: &Arena) {
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        let text = Client::connect(arena.address).get("/metrics");
        // This connection is an active one, too.
        if text.text().contains("plimsoll_connections{state=\"active\"} 2") {
            return;
        }
        assert!(Instant::now() < deadline, "the request was not begun");
    }
}

#[test]
fn either_signal_ends_an_idle_server_well() {
    for driver in drivers() {
        for signal in ["TERM", "INT"] {
            let mut arena = Arena::start(driver, &["--workers", "2"]);
            let mut parked = Client::connect(arena.address);
            assert_eq!(parked.get("/pipeline").status, 200);
            arena.running.signal(signal);
            let ended = arena.running.wait();
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let report = Report::parse(&ended.stderr);
            assert!(report.charged <= report.fixed && report.peak >= report.charged, "{report:?}");
            assert_eq!((report.leaked, report.in_flight), (0, 0));
            assert!(parked.is_closed(), "a parked connection is closed");
        }
    }
}

#[test]
fn what_runs_is_finished_and_nothing_more_is_accepted() {
    for driver in drivers() {
        let mut arena = Arena::start(driver, &["--workers", "1"]);
        let mut client = Client::connect(arena.address);
        // It runs until its body is whole.
        client.send(b"POST /upload HTTP/1.1\r\nHost: arena\r\nContent-Length: 8\r\n\r\nhalf");
        until_active(&arena);
        arena.running.signal("TERM");
        let deadline = Instant::now() + WAIT_MAX;
        while TcpStream::connect(arena.address).is_ok() {
            assert!(Instant::now() < deadline, "it accepts still");
            std::thread::sleep(Duration::from_millis(10));
        }
        client.send(b"half");
        let answer = client.answer("POST");
        assert_eq!((answer.status, answer.text()), (200, "8"));
        assert_eq!(answer.field("connection"), Some("close"));
        assert!(client.is_closed());
        let ended = arena.running.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        Report::parse(&ended.stderr);
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for driver in drivers() {
        let mut arena = Arena::start(driver, &["--workers", "1"]);
        let mut client = Client::connect(arena.address);
        client.send(b"GET /delay/60000 HTTP/1.1\r\nHost: arena\r\n\r\n");
        until_active(&arena);
        arena.running.signal("TERM");
        std::thread::sleep(Duration::from_millis(300));
        arena.running.signal("INT");
        assert_eq!(arena.running.wait().code, Some(130));
    }
}

#[test]
fn a_transfer_that_runs_is_finished() {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "2"]);
        let mut client = Client::connect(arena.address);
        client.send(b"GET /blob/20000000 HTTP/1.1\r\nHost: arena\r\n\r\n");
        assert_eq!(client.line(), "HTTP/1.1 200 OK");
        arena.running.signal("TERM");
        while !client.line().is_empty() {}
        client.skip(20_000_000);
        assert!(client.is_closed());
        drop(client);
        let mut arena = arena;
        let ended = arena.running.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}
