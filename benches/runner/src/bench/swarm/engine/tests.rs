//! The clients against small servers in threads: what is counted is what happened.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::run;
use crate::bench::swarm::plan::{Plan, Reads, Then};
use crate::bench::swarm::{Event, Tally};

/// Serves connections one after the other, each by `serve`, until the test ends.
fn server(serve: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(serve));
    address
}

/// Answers `ok` to every end of a head, one connection a thread.
fn answers_ok(mut stream: TcpStream) {
    thread::spawn(move || {
        let mut tail = Vec::new();
        let mut byte = [0];
        while stream.read(&mut byte).is_ok_and(|len| len > 0) {
            tail.push(byte[0]);
            if tail.ends_with(b"\r\n\r\n") {
                tail.clear();
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                    return;
                }
            }
        }
    });
}

fn events(plan: &Plan, server: SocketAddr, time: Option<Duration>) -> Vec<Event> {
    let mut events = Vec::new();
    run(plan, server, time, |event| events.push(event.clone())).unwrap();
    events
}

fn last(events: &[Event]) -> Tally {
    match events.last() {
        Some(Event::Done(tally)) => *tally,
        other => panic!("the last event is {other:?}"),
    }
}

#[test]
fn requests_one_after_the_other_are_counted() {
    let plan = Plan { connections: 5, requests: 7, ..Plan::GET };
    let tally = last(&events(&plan, server(answers_ok), None));
    assert_eq!((tally.requests, tally.opened, tally.errors()), (35, 5, 0));
    assert!(tally.p99_us >= tally.p50_us && tally.p50_us.is_some());
}

#[test]
fn held_connections_are_said_to_be_held() {
    let plan = Plan { connections: 3, then: Then::Hold(Duration::from_millis(20)), ..Plan::GET };
    let events = events(&plan, server(answers_ok), None);
    assert!(matches!(events[0], Event::Held(Tally { requests: 3, .. })), "{events:?}");
    assert_eq!(last(&events).errors(), 0);
}

#[test]
fn a_server_that_closes_is_noticed() {
    let plan = Plan { connections: 4, half: true, then: Then::Hold(Duration::from_secs(3)), ..Plan::GET };
    let closing = server(|mut stream| drop(stream.read(&mut [0; 64])));
    let tally = last(&events(&plan, closing, None));
    assert_eq!((tally.requests, tally.closed + tally.refused), (0, 4));
    let plan = Plan { connections: 2, ..Plan::GET };
    let busy = server(|mut stream| {
        let _len = stream.read(&mut [0; 512]);
        let _sent = stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    });
    assert_eq!(last(&events(&plan, busy, None)).wrong, 2);
}

#[test]
fn a_port_that_nobody_has_refuses() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tally = last(&events(&Plan { connections: 3, ..Plan::GET }, free, None));
    assert_eq!((tally.refused, tally.opened), (3, 0));
}

#[test]
fn a_timed_load_has_a_window_and_ends() {
    let plan = Plan { connections: 2, requests: 3, then: Then::Reopen, ..Plan::GET };
    let events = events(&plan, server(answers_ok), Some(Duration::from_millis(400)));
    let [Event::Begin(begin), Event::End(end), Event::Done(done)] = events.as_slice() else { panic!("{events:?}") };
    assert!(begin.seconds < end.seconds && begin.requests <= end.requests && end.requests <= done.requests);
    assert!(done.opened >= 2 && done.errors() == 0, "{done:?}");
}

#[test]
fn bodies_are_sent_whole_and_slow_readers_get_all() {
    let upload = server(|mut stream| {
        let mut input = Vec::new();
        let mut piece = [0; 4096];
        while input.windows(4).position(|four| four == b"\r\n\r\n").is_none_or(|end| input.len() < end + 4 + 100_000) {
            let len = stream.read(&mut piece).unwrap();
            assert!(len > 0);
            input.extend_from_slice(&piece[..len]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let tally = last(&events(&Plan { connections: 2, upload_bytes: Some(100_000), ..Plan::GET }, upload, None));
    assert_eq!((tally.requests, tally.sent_bytes, tally.errors()), (2, 200_000, 0));
    let large = server(|mut stream| {
        let _len = stream.read(&mut [0; 512]);
        let body = vec![b'p'; 300_000];
        let _sent = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n")
            .and_then(|()| stream.write_all(&body));
    });
    let reads =
        Reads::Slowly { piece_bytes: 1000, every: Duration::from_millis(10), during: Duration::from_millis(60) };
    let events = events(&Plan { connections: 1, reads, ..Plan::GET }, large, None);
    assert!(matches!(events[0], Event::Held(Tally { requests: 0, .. })), "{events:?}");
    assert_eq!((last(&events).requests, last(&events).errors()), (1, 0));
}
