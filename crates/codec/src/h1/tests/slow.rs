//! What a peer costs that sends one byte at a time: bytes examined, counted where the searches look.
//!
//! Parsing a head is one more look at each of its bytes, once, when it is complete.

use super::super::examined::count;
use super::super::*;

/// Sends one byte after the other, and takes what is consumed from the front.
fn heads_byte_by_byte(input: &[u8], limits: &Limits) -> usize {
    count(|| {
        let (mut search, mut at, mut heads) = (HeadSearch::default(), 0, 0);
        for end in 0..=input.len() {
            if let Some(found) = search.search(&input[at..end], limits).expect("valid") {
                (search, at, heads) = (HeadSearch::default(), at + found.end, heads + 1);
            }
        }
        assert!(heads > 0 && at == input.len(), "{heads} heads, {at} bytes");
    })
}

fn body_byte_by_byte(input: &[u8], limits: &Limits) -> usize {
    count(|| {
        let (mut body, mut at) = (BodyDecoder::new(Framing::Chunked, limits), 0);
        for end in 0..=input.len() {
            loop {
                let decoded = body.decode(&input[at..end]).expect("valid");
                at += decoded.consumed;
                if matches!(decoded.event, BodyEvent::NeedMore | BodyEvent::End) {
                    break;
                }
            }
        }
        assert!(body.is_done());
    })
}

#[test]
fn a_head_costs_two_looks_at_each_byte_at_most() {
    let limits = Limits::builder().head_bytes_max(65_535).validate().expect("in range");
    for (name, input) in [
        ("many short lines", format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(98))),
        (
            "a few long lines",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", format!("X: {}\r\n", "y".repeat(6_000)).repeat(10)),
        ),
        ("one long line", format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(8_000))),
        ("empty lines first", "\r\n\r\nGET / HTTP/1.0\r\n\r\n".to_owned()),
        ("pipelined", "GET / HTTP/1.0\r\n\r\n".repeat(300)),
    ] {
        let looks = heads_byte_by_byte(input.as_bytes(), &limits);
        assert!(looks >= input.len(), "{name}: counted");
        assert!(looks <= 2 * input.len(), "{name}: {looks} looks at {} bytes", input.len());
    }
}

#[test]
fn a_body_costs_two_looks_at_each_byte_of_framing_at_most() {
    let limits = Limits::DEFAULT;
    for (name, input) in [
        ("short chunks", format!("{}0\r\n\r\n", "1\r\nx\r\n".repeat(2_000))),
        ("extensions", format!("1;{}\r\nx\r\n0\r\n\r\n", "a".repeat(16_000))),
        ("many trailers", format!("0\r\n{}\r\n", "A: b\r\n".repeat(99))),
        ("a long trailer", format!("0\r\nA: {}\r\n\r\n", "b".repeat(4_000))),
    ] {
        let looks = body_byte_by_byte(input.as_bytes(), &limits);
        assert!(looks > input.len() / 2, "{name}: counted");
        assert!(looks <= 2 * input.len(), "{name}: {looks} looks at {} bytes", input.len());
    }
}

#[test]
fn the_cost_grows_with_the_length_and_not_with_its_square() {
    let limits = Limits::builder().head_bytes_max(65_535).validate().expect("in range");
    let looks = |len: usize| {
        heads_byte_by_byte(format!("GET / HTTP/1.0\r\nX: {}\r\n\r\n", "y".repeat(len)).as_bytes(), &limits)
    };
    let (short, long) = (looks(4_000), looks(40_000));
    assert!(long < 11 * short, "{short} looks, then {long}");
}
