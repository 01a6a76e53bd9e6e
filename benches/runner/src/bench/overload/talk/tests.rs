//! What clients hear is told apart, in each protocol, in any split.

use std::time::Duration;

use super::{Attempt, Effects, Talk};
use crate::bench::overload::ask::{Ask, UPLOAD_BYTES, UPLOAD_PIECES, Wire, Work};
use crate::bench::overload::ledger::Outcome;
use crate::soak::http2::{DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, REFUSED_STREAM, RST_STREAM, block, frame};

const TINY: Ask = Ask::get("/tiny", 0, Wire::Kept);

fn attempt(id: u64) -> Attempt {
    Attempt { id, due: Duration::ZERO, returns: 0 }
}

/// Begins so many requests, lets the bytes come in pieces and then the end; how they ended, and whether the client
/// closed.
fn heard(ask: &Ask, requests: u64, bytes: &[u8], piece: usize) -> (Vec<(u64, Outcome)>, bool) {
    let (mut out, mut effects) = (Vec::new(), Effects::default());
    let mut talk = Talk::new(ask, &mut out);
    for id in 1..=requests {
        assert!(talk.has_room());
        talk.begin(attempt(id), ask, &mut out);
    }
    for part in bytes.chunks(piece) {
        if !effects.closes {
            talk.feed(part, &mut out, &mut effects);
        }
    }
    let closes = effects.closes;
    talk.end(true, &mut effects);
    (effects.ended.into_iter().map(|(attempt, outcome)| (attempt.id, outcome)).collect(), closes)
}

#[test]
fn http1_is_told_apart() {
    for (bytes, outcome, closes) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..], Outcome::Served, false),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n", Outcome::Refused(Some(3)), false),
        (b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", Outcome::Refused(None), true),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", Outcome::Wrong, false),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no", Outcome::Cut, false),
        (b"", Outcome::Silent, false),
        (b"SSH-2.0 hello there\r\n\r\n", Outcome::Wrong, true),
    ] {
        for piece in [1, 7, 100] {
            assert_eq!(heard(&TINY, 1, bytes, piece), (vec![(1, outcome)], closes), "{}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_connection_is_used_again_or_is_not() {
    for (ask, again) in [(TINY, true), (Ask { wire: Wire::New, ..TINY }, false)] {
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        let mut talk = Talk::new(&ask, &mut out);
        talk.begin(attempt(1), &ask, &mut out);
        assert!(!talk.has_room());
        talk.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &mut out, &mut effects);
        assert_eq!((talk.has_room(), effects.closes), (again, !again));
        // What nobody asked for ends it.
        talk.feed(b"HTTP/1.1 408 Slow\r\nContent-Length: 0\r\n\r\n", &mut out, &mut effects);
        assert!(effects.closes && effects.ended.len() == 1);
    }
}

#[test]
fn an_upload_is_sent_in_pieces_and_refused_within_it() {
    let ask = Ask { work: Work::Upload, ..TINY };
    let (mut out, mut effects) = (Vec::new(), Effects::default());
    let mut talk = Talk::new(&ask, &mut out);
    talk.begin(attempt(1), &ask, &mut out);
    let pieces = 1 + (1..).take_while(|_| talk.next_piece(&mut out)).count();
    assert_eq!((pieces + 1, out.len()), (UPLOAD_PIECES, ask.head().len() + UPLOAD_BYTES));
    let mut talk = Talk::new(&ask, &mut out);
    talk.begin(attempt(2), &ask, &mut out);
    talk.feed(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", &mut out, &mut effects);
    assert_eq!((effects.ended, effects.closes), (vec![(attempt(2), Outcome::Refused(None))], true));
}

#[test]
fn http2_is_told_apart() {
    let ask = Ask { wire: Wire::Http2, ..TINY };
    let head = |status| block(&[(":status", status), ("retry-after", "2")]);
    let bytes = [
        frame(HEADERS, END_HEADERS, 1, &head("200")),
        frame(DATA, END_STREAM, 1, b"ok"),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, &head("503")),
        frame(RST_STREAM, 0, 5, &REFUSED_STREAM.to_be_bytes()),
        frame(RST_STREAM, 0, 7, &2_u32.to_be_bytes()),
        frame(HEADERS, END_HEADERS, 9, &head("200")),
        frame(RST_STREAM, 0, 9, &2_u32.to_be_bytes()),
        frame(HEADERS, END_HEADERS | END_STREAM, 11, &head("404")),
        frame(HEADERS, END_HEADERS, 13, &head("200")),
        frame(GOAWAY, 0, 0, &[15_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat()),
    ]
    .concat();
    let expected = [
        (1, Outcome::Served),
        (2, Outcome::Refused(Some(2))),
        (3, Outcome::Refused(None)),
        (4, Outcome::Silent),
        (5, Outcome::Cut),
        (6, Outcome::Wrong),
        (9, Outcome::Refused(None)),
        (7, Outcome::Cut),
        (8, Outcome::Silent),
    ];
    for piece in [1, 10, 1_000] {
        assert_eq!(heard(&ask, 9, &bytes, piece), (expected.to_vec(), false), "pieces of {piece}");
    }
}

#[test]
fn a_websocket_stays_or_is_told_to_go() {
    let ask = Ask { work: Work::WebSocket, ..TINY };
    let opened = b"HTTP/1.1 101 Switching Protocols\r\n\r\n\x82\x10mmmmmmmmmmmmmmmm";
    // The last is told to go while it leaves.
    for (close, outcome) in [
        (&[0x88, 2, 0x03, 0xE8][..], Outcome::Served),
        (&[0x88, 0], Outcome::Served),
        (&[0x88, 2, 0x03, 0xF5], Outcome::Refused(None)),
    ] {
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        let mut talk = Talk::new(&ask, &mut out);
        talk.begin(attempt(1), &ask, &mut out);
        talk.feed(opened, &mut out, &mut effects);
        assert!(effects.stays && !effects.closes && !talk.has_room());
        talk.leave(&mut out);
        assert!(out.ends_with(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8]));
        talk.feed(close, &mut out, &mut effects);
        assert_eq!((effects.ended, effects.closes), (vec![(attempt(1), outcome)], true));
    }
    for (more, outcome, closes) in [
        (&[0x88, 2, 0x03, 0xF5][..], Outcome::Refused(None), true),
        (&[0x88, 2, 0x03, 0xE9], Outcome::Cut, true),
        (&[0x88, 2, 0x03], Outcome::Cut, false),
        (&[0xFF, 0], Outcome::Wrong, true),
    ] {
        let bytes = [&opened[..], more].concat();
        for piece in [1, 1_000] {
            assert_eq!(heard(&ask, 1, &bytes, piece), (vec![(1, outcome)], closes), "{more:?}");
        }
    }
    let refused = b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(heard(&ask, 1, refused, 9), (vec![(1, Outcome::Refused(Some(1)))], true));
}

#[test]
fn who_has_waited_long_enough_leaves() {
    for (ask, closes) in [(TINY, true), (Ask { wire: Wire::Http2, ..TINY }, false)] {
        let (mut out, mut effects) = (Vec::new(), Effects::default());
        let mut talk = Talk::new(&ask, &mut out);
        talk.begin(attempt(1), &ask, &mut out);
        talk.give_up(2, &mut out, &mut effects);
        assert!(effects.ended.is_empty() && !effects.closes, "nobody asked for that");
        talk.give_up(1, &mut out, &mut effects);
        assert_eq!((effects.ended, effects.closes), (vec![(attempt(1), Outcome::Late)], closes));
    }
    let (mut out, mut effects) = (Vec::new(), Effects::default());
    let mut talk = Talk::new(&TINY, &mut out);
    talk.begin(attempt(1), &TINY, &mut out);
    talk.end(false, &mut effects);
    assert_eq!(effects.ended, [(attempt(1), Outcome::Unopened)]);
}
