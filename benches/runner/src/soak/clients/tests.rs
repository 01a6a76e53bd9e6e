//! A client believes only what is right: against servers of a few lines.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::thread;

use super::{Broken, CLOSE, Echo, Visit, echo};
use crate::bench::swarm::websocket;
use crate::random::Random;
use crate::soak::asks::Weather;
use crate::soak::ledger::{Kind, Tally};

/// A server that reads something on each of its connections and then says these bytes; for a client alone.
fn server(says: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with its one client.
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _some = stream.read(&mut [0; 4_096]);
        let _taken = stream.write_all(says);
    });
    address
}

fn visit(kind: Kind, weather: Weather, says: &'static [u8]) -> (Result<(), String>, Tally) {
    let mut random = Random::new(1);
    let mut visit = Visit::new(server(says), weather, &mut random);
    let run = visit.run(kind);
    (run, visit.tally)
}

#[test]
fn a_wrong_answer_is_a_failure() {
    let wrong = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nwrong!";
    assert!(visit(Kind::Http1, Weather::Storm, wrong).0.unwrap_err().contains("not due"));
    assert!(
        visit(Kind::Http1, Weather::Storm, b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
            .0
            .unwrap_err()
            .contains("500")
    );
    let cut = b"HTTP/1.1 200 OK\r\nContent-Le";
    assert!(visit(Kind::Http1, Weather::Calm, cut).0.unwrap_err().contains("ended within"));
    assert_eq!(visit(Kind::Http1, Weather::Storm, cut).1.cut, 1);
    assert!(visit(Kind::WebSocket, Weather::Storm, wrong).0.unwrap_err().contains("the handshake is answered 200"));
    assert!(visit(Kind::Http2, Weather::Storm, &[0, 0, 1, 1, 4, 0, 0, 0, 1, 0xFF]).0.is_err(), "a block that is none");
}

#[test]
fn a_refusal_is_one_only_when_others_are_there() {
    let busy = b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (run, tally) = visit(Kind::Http1, Weather::Storm, busy);
    assert_eq!((run, tally.refused, tally.answers[&503], tally.served()), (Ok(()), 1, 1, 0));
    assert!(visit(Kind::Http1, Weather::Calm, busy).0.is_err());
    for kind in [Kind::Http1, Kind::Http2, Kind::WebSocket, Kind::WebSocketHttp2] {
        let (run, tally) = visit(kind, Weather::Storm, b"");
        assert_eq!((run, tally.served(), tally.let_go > 0), (Ok(()), 0, true), "{}", kind.name());
        assert!(visit(kind, Weather::Calm, b"").0.is_err(), "{}", kind.name());
    }
}

#[test]
fn messages_come_back_whole() {
    let hear = |bytes: &[u8], size: usize| {
        let mut rest = bytes;
        echo(&mut |count| rest.split_off(..count).map(<[u8]>::to_vec).ok_or(Broken::Closed), size)
    };
    for size in [1, 125, 126, 3_000] {
        // A server's frame is a client's without its mask.
        let masked = websocket::message(size);
        let head = masked.len() - size - 4;
        let frame = [&[masked[0], masked[1] & 0x7F], &masked[2..head], &vec![b'm'; size][..]].concat();
        assert_eq!(hear(&frame, size), Ok(Echo::Whole), "{size}");
        assert!(matches!(hear(&frame, size + 1), Err(Broken::Wrong(_))));
        assert_eq!(hear(&frame[..frame.len() - 1], size), Err(Broken::Closed));
    }
    assert_eq!(hear(&[0x88, 2, 0x03, 0xF5], 1), Ok(Echo::TryLater));
    assert!(hear(&CLOSE[..2], 1).is_err());
    assert!(matches!(hear(&[0x88, 2, 0x03, 0xE8], 1), Err(Broken::Wrong(_))));
}
