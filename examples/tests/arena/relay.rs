//! The relay: its flags, what it moves, half-close, the idle timeout, the end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use crate::process::{Running, WAIT_MAX, drivers, run};

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
            stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
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

/// Both ends of one connection send until nothing goes in any more, and only then read: each direction of the relay
/// waits for room, and neither for the other. Either end may be the first to end its half.
#[test]
fn both_directions_are_full_at_once_and_each_goes_on() {
    for driver in drivers() {
        let relay = Relay::start(driver, &[]);
        for first in [0, 1] {
            let (client, server) = relay.open();
            let ends = [&client, &server];
            let sent = std::thread::scope(|scope| {
                ends.map(|end| scope.spawn(|| fill(end))).map(|end| end.join().expect("it fills"))
            });
            // The one that has ended its half gets all that the other has sent, and that end; then the other way round.
            for (ends_half, reads) in [(ends[first], ends[1 - first]), (ends[1 - first], ends[first])] {
                ends_half.shutdown(Shutdown::Write).expect("our half can be ended");
                let expected = if std::ptr::eq(reads, &client) { sent[1] } else { sent[0] };
                assert_eq!(drain(reads), expected, "{driver}: as much as the other end has sent");
            }
        }
        relay.stop();
    }
}

/// Sends the pattern until the socket has taken nothing for a while; how many bytes it took.
fn fill(mut stream: &TcpStream) -> usize {
    let piece: Vec<u8> = (0..64 * 251).map(|at| (at % 251) as u8).collect();
    stream.set_write_timeout(Some(FULL_AFTER)).expect("a timeout");
    let mut sent = 0;
    loop {
        match stream.write(&piece[sent % piece.len()..]) {
            Ok(taken) => sent += taken,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return sent,
            Err(error) => panic!("after {sent} bytes: {error}"),
        }
    }
}

/// Reads the pattern up to the end; how many bytes came.
fn drain(mut stream: &TcpStream) -> usize {
    let (mut got, mut room) = (0, vec![0; 64 * 1024]);
    loop {
        let len = stream.read(&mut room).expect("bytes or the end");
        if len == 0 {
            return got;
        }
        assert!(room[..len].iter().zip(got..).all(|(&byte, at)| byte == (at % 251) as u8), "in order, after {got}");
        got += len;
    }
}

/// A socket that takes nothing for so long counts as full. If it was not, the test has less to show and does not fail.
const FULL_AFTER: std::time::Duration = std::time::Duration::from_millis(400);

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
        client.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
        assert!(matches!(client.read(&mut [0; 1]), Ok(0) | Err(_)), "closed");
        let back = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Relay { running, address, back }.stop();
    }
}
