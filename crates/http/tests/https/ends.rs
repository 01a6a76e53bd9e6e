//! How sessions end: idle ones with `close_notify`, behind whole records, and those whose record never becomes whole.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};

use plimsoll_http::{Config, Shed};
use plimsoll_runtime::MemoryLimit;

use crate::crowds::against;
use crate::peers::{Peer, is_closed_within};
use crate::rig::threads::until;

const LINE: MemoryLimit = MemoryLimit::mib(16);

fn config() -> Config {
    let short = Duration::from_millis(500);
    Config {
        keep_alive_timeout: short,
        head_timeout: short,
        linger_timeout: Duration::from_secs(5),
        ..Config::default()
    }
}

#[test]
fn an_idle_session_hears_close_notify() {
    against("idle", LINE, &config(), |address, _| {
        for path in ["/asked", ""] {
            let mut peer = Peer::open(1, address);
            if !path.is_empty() {
                peer.ask(path).expect("it is answered");
            }
            assert_eq!(peer.hear("").expect("an end, and no cut"), "");
        }
    });
}

#[test]
fn who_ends_its_half_hears_close_notify() {
    against("half", LINE, &Config::default(), |address, _| {
        let mut peer = Peer::open(1, address);
        peer.ask("/asked").expect("it is answered");
        peer.session.send_close_notify();
        peer.flush().expect("it is sent");
        assert_eq!(peer.hear("").expect("an end, and no cut"), "");
    });
}

#[test]
fn the_end_follows_output_that_the_socket_does_not_take() {
    let config = Config { send_timeout: Duration::from_secs(60), ..config() };
    against("full", LINE, &config, |address, counters| {
        let mut peer = Peer::open(1, address);
        // The answers fill the socket. The last of them says that the connection ends.
        let ask = "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(30);
        peer.say(ask.as_bytes()).expect("it is sent");
        peer.say(b"GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("it is sent");
        until("answers are under way", || counters.totals().exchanges_begun_total > 1);
        std::thread::sleep(Duration::from_millis(300));
        let heard = peer.hear("").expect("an end, and no cut");
        assert_eq!(heard.matches("HTTP/1.1 200 OK").count(), 31);
        assert!(heard.ends_with("/last"));
    });
}

#[test]
fn half_a_record_has_the_time_of_a_head() {
    let config = Config { keep_alive_timeout: Duration::from_secs(600), ..config() };
    against("partial", LINE, &config, |address, counters| {
        let mut peer = Peer::open(1, address);
        peer.ask("/asked").expect("it is answered");
        let mut records = Vec::new();
        peer.session.writer().write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("room");
        peer.session.write_tls(&mut records).expect("a vector takes all");
        peer.socket.write_all(&records[..records.len() - 1]).expect("it is taken");
        assert_eq!(peer.hear("").expect("an end, and no cut"), "", "closed for its time, and told so");
        let timed_out = Shed::ALL.into_iter().position(|reason| reason == Shed::Timeout).expect("there");
        until("it is counted", || counters.totals().shed_total[timed_out] == 1);
        // One that becomes whole in time is a request, and the session is as idle as before.
        let mut peer = Peer::open(1, address);
        records.clear();
        peer.session.writer().write_all(b"GET /whole HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("room");
        peer.session.write_tls(&mut records).expect("a vector takes all");
        let (some, rest) = records.split_at(9);
        peer.socket.write_all(some).expect("it is taken");
        std::thread::sleep(Duration::from_millis(50));
        peer.socket.write_all(rest).expect("it is taken");
        assert!(peer.hear("/whole").expect("an answer").starts_with("HTTP/1.1 200 "));
        std::thread::sleep(Duration::from_millis(900));
        peer.ask("/later").expect("it was idle");
    });
}

#[test]
fn partial_records_of_many_hold_what_has_come_and_end_in_time() {
    let config = Config { head_timeout: Duration::from_secs(2), ..Config::default() };
    against("partials", MemoryLimit::mib(6), &config, |address, _| {
        let mut peers: Vec<Peer> = (0..150).map(|_| Peer::open(2, address)).collect();
        let mut honest = Peer::open(9, address);
        let before = honest.charged();
        for peer in &mut peers {
            // A record of 16 KiB is announced, and hardly anything sent: to reserve what is announced would be
            // 2.4 MB.
            peer.socket.write_all(&[23, 3, 3, 0x40, 0, 1, 2, 3]).expect("it is taken");
        }
        let held = honest.charged().saturating_sub(before);
        assert!(held <= 150 * 1_024, "{held} bytes are held for 1,200 that came");
        for peer in &mut peers {
            assert!(is_closed_within(&mut peer.socket, Duration::from_secs(20)));
        }
        honest.ask("/after").expect("it is served after them");
    });
}

#[test]
fn a_cut_is_no_end_for_the_server_either() {
    against("cut", LINE, &Config::default(), |address, counters| {
        let mut peer = Peer::open(1, address);
        peer.say(b"POST /count HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
            .expect("sent");
        until("it is begun", || counters.totals().exchanges_begun_total == 1);
        peer.socket.shutdown(std::net::Shutdown::Write).expect("it is open");
        let mut bytes = [0; 1_024];
        let end = loop {
            match peer.socket.read(&mut bytes) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error.kind()),
            }
        };
        assert!(matches!(end, Ok(()) | Err(ErrorKind::ConnectionReset)), "{end:?}");
        until("it is over", || counters.totals().exchanges_ended_total.iter().sum::<u64>() == 1);
        assert_eq!(counters.totals().responses_total, [], "the body was not taken for whole");
    });
}
