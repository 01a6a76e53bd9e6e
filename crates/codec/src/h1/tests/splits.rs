//! Properties over generated input:
//!
//! * the split of the input changes nothing, for heads, bodies and whole connections;
//! * what is accepted, a naive reader and httparse accept with the same fields;
//! * data survives being chunked.
//!
//! The assertions are those of the fuzz entry points.

use proptest::prelude::*;

use super::super::*;
use crate::fuzz;

/// Pieces that heads are made of, right and wrong.
fn head_piece() -> impl Strategy<Value = Vec<u8>> {
    let pieces: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n",
        b"POST /a?b HTTP/1.1\r\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"OPTIONS * HTTP/1.0\r\n",
        b"GET http://b/c HTTP/1.1\r\n",
        b"Host: a\r\n",
        b"Host: [::1]:80\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Connection: keep-alive, upgrade\r\n",
        b"Connection: close\r\n",
        b"Upgrade: x\r\n",
        b"Expect: 100-continue\r\n",
        b"X-Field:  some value \t\r\n",
        b"\r\n",
        b"\r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n",
        b"1;a=\"b\"\r\n",
        b"\n",
        b"\r",
        b" ",
        b":",
        b"\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    prop_oneof![
        20 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ]
}

/// Sequences of requests, most of them right.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let request = prop_oneof![
        Just("GET /a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        Just("GET /b HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".to_owned()),
        "[a-z]{0,20}".prop_map(|body| format!("POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())),
        "[a-z]{1,20}".prop_map(|body| format!(
            "PUT /d HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\nA: b\r\n\r\n",
            body.len()
        )),
        Just("\r\nOPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
    ];
    let part = prop_oneof![30 => request.prop_map(String::into_bytes), 1 => head_piece()];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// Increasing places to cut an input.
fn cuts(len: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..=len, 0..12).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    })
}

fn with_cuts(input: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = (Vec<u8>, Vec<usize>)> {
    input.prop_flat_map(|input| {
        let len = input.len();
        (Just(input), cuts(len))
    })
}

fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(head_piece(), 0..14).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn heads((input, cuts) in with_cuts(pieces())) {
        fuzz::head(&input);
        let limits = fuzz::small_limits();
        prop_assert_eq!(fuzz::search(&input, &limits, &cuts), fuzz::search(&input, &limits, &[]));
    }

    #[test]
    fn bodies((input, cuts) in with_cuts(pieces())) {
        fuzz::chunked(&input);
        let limits = fuzz::small_limits();
        for framing in [Framing::Chunked, Framing::Length(7), Framing::Length(u64::MAX), Framing::None] {
            let whole = fuzz::read_body(framing, &input, &limits, &[]);
            prop_assert_eq!(fuzz::read_body(framing, &input, &limits, &cuts), whole);
        }
    }

    #[test]
    fn chunk_like_bytes(input in "([0-9a-f]{1,2}(;a(=b)?)?\r\n|[a-z]{1,9}|\r\n|\n|0\r\n|A: b\r\n){0,12}") {
        fuzz::chunked(input.as_bytes());
    }

    #[test]
    fn chunked_data_survives(data in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>()) {
        let encoded = fuzz::encode_chunked(&data, b"sum: 7\r\n");
        let read = fuzz::read_body(Framing::Chunked, &encoded, &Limits::DEFAULT, &[cut.index(encoded.len())]);
        prop_assert_eq!((read.data, read.consumed, read.end), (data, encoded.len(), Ok(fuzz::BodyEnd::Complete)));
        prop_assert_eq!(read.trailers, b"sum: 7\r\n");
    }

    #[test]
    fn connections((input, cuts) in with_cuts(requests())) {
        fuzz::connection(&input);
        prop_assert_eq!(fuzz::serve(&input, &cuts), fuzz::serve(&input, &[]));
    }

    #[test]
    fn connections_of_pieces((input, cuts) in with_cuts(pieces())) {
        fuzz::connection(&input);
        prop_assert_eq!(fuzz::serve(&input, &cuts), fuzz::serve(&input, &[]));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    /// Arrivals and answers in any order, over streams that are mostly right.
    #[test]
    fn any_schedule(schedule in prop::collection::vec(any::<u8>(), 0..120), stream in prop_oneof![requests(), pieces()]) {
        let mut input = vec![schedule.len() as u8];
        input.extend(schedule);
        input.extend(stream);
        fuzz::operations(&input);
    }
}

/// Every byte in every place of a valid input, put in or in place of what is there; and every byte left out.
fn each_change(input: &[u8], check: impl Fn(&[u8])) {
    for at in 0..input.len() {
        for byte in 0..=u8::MAX {
            let mut changed = input.to_vec();
            changed[at] = byte;
            check(&changed);
            changed.insert(at, input[at]);
            check(&changed);
        }
        check(&[&input[..at], &input[at + 1..]].concat());
    }
}

#[test]
fn nearly_valid_heads() {
    each_change(b"PUT /a?b HTTP/1.1\r\nHost: [::1]:80\r\nA: b\r\n\r\n", fuzz::head);
    each_change(b"GET http://a:8/?c HTTP/1.0\r\nX:\r\n\r\n", fuzz::head);
}

#[test]
fn nearly_valid_bodies() {
    each_change(b"a;b=\"c\"\r\n0123456789\r\n0\r\nA: b\r\n\r\n", fuzz::chunked);
}

#[test]
fn nearly_valid_connections() {
    each_change(b"POST / HTTP/1.1\r\nHost:a\r\nContent-Length:1\r\n\r\nxGET /y HTTP/1.0\r\n\r\n", fuzz::connection);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let input = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
        POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\
        POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\
        GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /5 HTTP/1.1\r\n";
    use fuzz::Step::*;
    let (get, post) = (|at: &str| Request("GET".into(), at.into()), |at: &str| Request("POST".into(), at.into()));
    let ok = || Answer(200, Persistence::KeepAlive);
    let expected = [
        get("/1"),
        ok(),
        post("/2"),
        Body(b"hi".to_vec()),
        ok(),
        post("/3"),
        Body(b"hi".to_vec()),
        ok(),
        get("/4"),
        Answer(200, Persistence::Close),
        Stop(Next::Close { linger: true }, 0),
    ];
    assert_eq!(fuzz::serve(input, &[]), expected);
}
