//! The clients beside a server that is made for them: what is due is sent whatever comes back, and every request has an
//! end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Plan, run};
use crate::bench::overload::ask::{Ask, Manner, Wire};
use crate::bench::overload::ledger::Tally;
use crate::bench::overload::schedule::{Spacing, arrivals};
use crate::random::Random;

/// Answers each request with what is said to its number, or goes away for `None`; how many connections there were is
/// counted.
fn server(answer: fn(usize) -> Option<&'static str>) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let (counted, requests) = (Arc::clone(&connections), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let requests = Arc::clone(&requests);
            thread::spawn(move || talk(stream, &requests, answer));
        }
    });
    (address, connections)
}

fn talk(mut stream: TcpStream, requests: &AtomicUsize, answer: fn(usize) -> Option<&'static str>) {
    let mut byte = [0];
    let mut head = Vec::new();
    while stream.read_exact(&mut byte).is_ok() {
        head.push(byte[0]);
        if head.ends_with(b"\r\n\r\n") {
            head.clear();
            let Some(text) = answer(requests.fetch_add(1, Ordering::SeqCst)) else { return };
            // A client that has gone does not take it.
            let _gone = stream.write_all(text.as_bytes());
        }
    }
}

fn load(ask: Ask, count: u32, late_after: Duration, to: SocketAddr) -> Tally {
    let span = (Duration::ZERO, Duration::from_millis(200));
    let rate = f64::from(count) / span.1.as_secs_f64();
    let arrivals = arrivals(0, rate, Spacing::Even, span, &mut Random::new(1));
    assert!(arrivals.len().abs_diff(count as usize) <= 1);
    let until = Duration::from_secs(60);
    let tally = run(&Plan { asks: vec![ask], arrivals, window: (span.0, until), late_after, until }, to).unwrap()[0];
    assert_eq!((tally.offered, tally.unsent), (tally.ended(), 0), "{tally:?}");
    tally
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
const LONG: Duration = Duration::from_secs(50);
const TINY: Ask = Ask::get("/tiny", 0, Wire::Kept);

#[test]
fn what_is_answered_is_served_and_connections_are_kept_or_not() {
    let (to, connections) = server(|_| Some(OK));
    let tally = load(Ask { addresses: 3, ..TINY }, 60, LONG, to);
    assert_eq!((tally.served, tally.served_in_window), (tally.offered, tally.offered));
    let kept = connections.load(Ordering::SeqCst);
    assert!(kept >= 3, "an address has connections of its own: {kept}");
    let tally = load(Ask { wire: Wire::New, ..TINY }, 20, LONG, to);
    assert_eq!(tally.served, tally.offered);
    assert_eq!(connections.load(Ordering::SeqCst) - kept, tally.offered as usize);
}

#[test]
fn nobody_waits_for_an_answer_before_the_next_request() {
    // No request is answered at all; an open loop sends every one, and each client leaves in its time.
    let (to, connections) = server(|_| Some(""));
    let tally = load(TINY, 40, Duration::from_millis(300), to);
    assert_eq!((tally.late, connections.load(Ordering::SeqCst)), (tally.offered, tally.offered as usize));
}

#[test]
fn ends_are_told_apart() {
    let (to, _) = server(|number| match number % 4 {
        0 => Some(OK),
        1 => Some(BUSY),
        2 => None,
        _ => Some("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
    });
    let tally = load(Ask { wire: Wire::New, ..TINY }, 40, LONG, to);
    for count in [tally.served, tally.refused, tally.silent, tally.wrong] {
        assert!(count.abs_diff(tally.offered / 4) <= 1, "{tally:?}");
    }
}

#[test]
fn who_was_refused_comes_back_as_his_manner_is() {
    for (manner, times) in [(Manner::Leaves, 1), (Manner::Returns, 5), (Manner::Insists, 5)] {
        let (to, _) = server(|_| Some(BUSY));
        let tally = load(Ask { manner, ..TINY }, 4, LONG, to);
        assert_eq!(tally.refused, tally.offered);
        assert_eq!(tally.offered % times, 0, "{tally:?}");
        assert!((3 * times..=5 * times).contains(&tally.offered), "{manner:?}: {tally:?}");
    }
    // Until it is served.
    let (to, _) = server(|number| Some(if number < 6 { BUSY } else { OK }));
    let tally = load(Ask { manner: Manner::Insists, ..TINY }, 4, LONG, to);
    assert_eq!(tally.refused, 6);
    assert!((3..=5).contains(&tally.served), "{tally:?}");
}

#[test]
fn without_a_server_nothing_is_opened() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let to = free.local_addr().unwrap();
    drop(free);
    let tally = load(TINY, 5, LONG, to);
    assert_eq!(tally.unopened, tally.offered);
}
