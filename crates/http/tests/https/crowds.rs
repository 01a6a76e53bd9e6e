//! Handshakes in crowds: they wait in turns, within the line, and who stalls gives way.

use core::net::SocketAddr;
use core::time::Duration;
use std::time::Instant;

use plimsoll_http::{Config, Counters, HandshakeFailure, HandshakeTotals, Server};
use plimsoll_runtime::MemoryLimit;

use crate::peers::{Peer, connect_from, hello, is_closed_within};
use crate::rig::threads::{serve_until, under_line, until};
use crate::{Files, answer};

/// Runs clients against a server under a line: with sessions as they are, and with compact ones.
pub(crate) fn against(
    name: &'static str,
    line: MemoryLimit,
    config: &Config,
    clients: impl Fn(SocketAddr, &Counters) + Clone + Send + 'static,
) {
    let files = Files::new(name);
    for is_compact in [false, true] {
        under_line(name, line, async |_| {
            let server = Server::bind("127.0.0.1:0")?.tls(&files.config(is_compact)).config(config.clone());
            let (address, counters, clients) = (server.local_addr(), server.counters(), clients.clone());
            serve_until(server.serve(answer), move || clients(address, &counters)).await
        });
    }
}

pub(crate) fn failed(counters: &Counters, why: HandshakeFailure) -> u64 {
    counters.totals().handshakes.failed_total[why as usize]
}

fn handshakes(counters: &Counters) -> HandshakeTotals {
    counters.totals().handshakes
}

#[test]
fn a_crowd_is_served_in_turns_under_a_small_line() {
    const CLIENTS: usize = 700;
    against("crowd", MemoryLimit::mib(6), &Config::default(), |address, counters| {
        // All of them have sent their first message before one goes on: more than may wait, and more than may be in
        // progress.
        let mut peers: Vec<Peer> = (0..CLIENTS).map(|_| Peer::greet(1, address)).collect();
        until("some are in progress", || handshakes(counters).in_progress > 0);
        let mut most = 0;
        for peer in &mut peers {
            most = most.max(handshakes(counters).in_progress);
            peer.shake().expect("each is served in time");
            peer.ask("/crowd").expect("and answered");
        }
        assert!(most <= 16, "{most} at once: half of an eighth of 6 MiB by 24 KiB");
        until("all are counted", || handshakes(counters).completed_total == CLIENTS as u64);
        let totals = handshakes(counters);
        assert_eq!((totals.begun_total, totals.in_progress, totals.waiting), (CLIENTS as u64, 0, 0), "{totals:?}");
        assert_eq!(totals.failed_total.iter().sum::<u64>(), 0, "{totals:?}");
    });
}

#[test]
fn who_stalls_keeps_its_half_and_gives_way() {
    against("stall", MemoryLimit::mib(6), &Config::default(), |address, counters| {
        // They say nothing after the server's first flight, from two addresses.
        let stalled: Vec<Peer> = (0..40).map(|at| Peer::greet(2 + at % 2, address)).collect();
        until("all places are taken", || handshakes(counters).in_progress == 32);
        // One of another address is served when one of those has waited for 2 s.
        let begun = Instant::now();
        Peer::open(9, address).ask("/other").expect("it is served");
        assert!(begun.elapsed() < Duration::from_secs(8), "not when the time of the first is over");
        assert!(failed(counters, HandshakeFailure::Timeout) >= 1);
        drop(stalled);
        until("all are gone", || handshakes(counters).in_progress == 0);
    });
}

#[test]
fn half_of_the_places_are_for_one_address() {
    let config = Config { handshakes_in_progress_max: Some(8), ..Config::default() };
    against("half", MemoryLimit::mib(16), &config, |address, counters| {
        let stalled: Vec<Peer> = (0..20).map(|_| Peer::greet(2, address)).collect();
        until("half are taken", || handshakes(counters).in_progress == 4 && handshakes(counters).waiting == 16);
        for at in 0..8 {
            Peer::open(3 + at, address).ask("/other").expect("others find the other half");
        }
        assert_eq!(failed(counters, HandshakeFailure::Timeout), 0, "and nobody gives way for them");
        drop(stalled);
    });
}

#[test]
fn silence_and_halves_of_hellos_hold_nothing_and_end_in_time() {
    let config = Config { head_timeout: Duration::from_millis(600), ..Config::default() };
    against("halves", MemoryLimit::mib(16), &config, |address, counters| {
        let hello = hello();
        let mut silent: Vec<_> = (0..50).map(|_| connect_from(2, address)).collect();
        let mut halves: Vec<_> = (0..50).map(|_| connect_from(3, address)).collect();
        for socket in &mut halves {
            std::io::Write::write_all(socket, &hello[..hello.len() / 2]).expect("it is taken");
        }
        until("the halves have begun", || handshakes(counters).in_progress == 43);
        assert_eq!(handshakes(counters).begun_total, 43, "half of an eighth of 16 MiB by 24 KiB");
        Peer::open(9, address).ask("/honest").expect("it is served beside them");
        for socket in silent.iter_mut().chain(&mut halves) {
            assert!(is_closed_within(socket, Duration::from_secs(20)));
        }
        until("each has ended for its time", || failed(counters, HandshakeFailure::Timeout) == 100);
        assert_eq!(handshakes(counters).completed_total, 1);
    });
}
