//! The relay: its flags, what it moves, half-close, the idle timeout, the end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use crate::process::{PATIENCE, Running, drivers, run};

/// A relay before a listener of ours.
struct Relay {
    running: Running,
    address: SocketAddr,
    back: TcpListener,
}

impl Relay {
    fn start(driver: &str, more: &[&str]) -> Self {
        let back = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let to = back.local_addr().expect("an address").to_string();
        let mut flags = vec!["--listen", "127.0.0.1:0", "--to", &to, "--driver", driver];
        flags.extend(["--workers", "2", "--memory", "32MiB"]);
        flags.extend(more);
        let (running, ready) = Running::start("relay", &flags);
        let rest = ready.strip_prefix("listening on ").expect("a ready line");
        let (address, rest) = rest.split_once(' ').expect("words");
        assert!(rest.starts_with(&format!("to={to} driver={driver} workers=2 memory=33554432")), "{ready}");
        let address = address.parse().expect("an address");
        Self { running, address, back }
    }

    /// Both ends of a relayed connection.
    fn open(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.address).expect("it accepts");
        let (server, _) = self.back.accept().expect("it connects");
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        }
        (client, server)
    }

    fn stop(self) {
        self.running.stop();
    }
}

#[track_caller]
fn refused(flags: &[&str], because: &str) {
    let ended = run("relay", flags);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{flags:?}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{flags:?}: {:?}", ended.stderr);
    assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(because), "{flags:?}: {:?}", ended.stderr);
}

#[test]
fn wrong_flags_are_refused_in_one_line() {
    refused(&[], "--to");
    refused(&["--to", "localhost"], "IP:PORT");
    refused(&["--to", "127.0.0.1:1", "--listen", "9000"], "IP:PORT");
    refused(&["--to", "127.0.0.1:1", "--idle", "soon"], "--idle");
    refused(&["--to", "127.0.0.1:1", "--idle", "-1"], "-1");
    refused(&["--to", "127.0.0.1:1", "--workers", "0"], "between 1 and 1024");
    refused(&["--to", "127.0.0.1:1", "--memory", "1MB"], "memory");
    refused(&["--to", "127.0.0.1:1", "--driver", "epoll"], "uring");
    refused(&["--no-such-flag"], "--no-such-flag");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    refused(&["--to", "127.0.0.1:1", "--listen", &taken.local_addr().expect("an address").to_string()], "in use");
}

#[test]
fn every_byte_arrives_and_each_half_ends_by_itself() {
    for driver in drivers() {
        let relay = Relay::start(driver, &[]);
        let (client, server) = relay.open();
        let pattern =
            |bytes: usize, seed: usize| -> Vec<u8> { (0..bytes).map(|at| ((at * 7 + seed) % 251) as u8).collect() };
        let (up, down) = (pattern(3_000_017, 1), pattern(2_000_003, 2));
        let send = |mut stream: &TcpStream, bytes: &[u8]| {
            stream.write_all(bytes).expect("it is taken");
            stream.shutdown(Shutdown::Write).expect("our half can be ended");
        };
        let receive = |mut stream: &TcpStream| {
            let mut got = Vec::new();
            stream.read_to_end(&mut got).expect("the other half ends");
            got
        };
        // The client's half ends first; the answer still comes, all of it.
        std::thread::scope(|scope| {
            scope.spawn(|| send(&client, &up));
            assert!(receive(&server) == up, "up: the same bytes, and then the end");
        });
        std::thread::scope(|scope| {
            scope.spawn(|| send(&server, &down));
            assert!(receive(&client) == down, "down: the same bytes, and then the end");
        });
        drop((client, server));
        relay.stop();
    }
}

#[test]
fn an_idle_relay_ends_when_it_is_told_to() {
    for driver in drivers() {
        let relay = Relay::start(driver, &["--idle", "4"]);
        let (mut client, mut server) = relay.open();
        let began = Instant::now();
        client.write_all(b"once").expect("it is taken");
        let mut word = [0; 4];
        server.read_exact(&mut word).expect("four bytes");
        assert_eq!((client.read(&mut word).ok(), server.read(&mut word).ok()), (Some(0), Some(0)), "both are closed");
        assert!(began.elapsed().as_millis() >= 4_000, "never early");
        relay.stop();
        // For ever, where nothing was said.
        let relay = Relay::start(driver, &[]);
        let (mut client, server) = relay.open();
        client.set_read_timeout(Some(std::time::Duration::from_millis(1_500))).expect("a timeout");
        assert!(client.read(&mut word).is_err(), "it is still open");
        drop((client, server));
        relay.stop();
    }
}

#[test]
fn a_client_is_let_go_of_when_nobody_is_there_for_it() {
    for driver in drivers() {
        let relay = Relay::start(driver, &[]);
        let Relay { running, address, back } = relay;
        drop(back);
        let mut client = TcpStream::connect(address).expect("it accepts");
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
        let back = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Relay { running, address, back }.stop();
    }
}
