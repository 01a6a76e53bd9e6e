//! Limits, at their edges. They are those that a server has if nothing else is asked for.

use super::{Answer, Case, Group, Input};

pub(super) const GROUPS: &[Group] = &[Group::raw("Limits", CASES)];

const CASES: &[Case] = &[
    long("9112 3", "a request line of 8,192 bytes", b"HEAD /", 8_177, b" HTTP/1.1\r\nHost: a\r\n\r\n", LONG_TARGET),
    long("9112 3", "a request line of 8,193 bytes", b"HEAD /", 8_178, b" HTTP/1.1\r\nHost: a\r\n\r\n", TOO_LONG),
    long("9112 3", "a request line of 12,000 bytes that has not ended", b"GET /", 12_000, b"", TOO_LONG),
    long("9112 3", "a long query", b"GET /?", 8_300, b" HTTP/1.1\r\nHost: a\r\n\r\n", TOO_LONG),
    long("9110 9.1", "a method that does not end", b"", 9_000, b" / HTTP/1.1\r\nHost: a\r\n\r\n", TOO_LONG),
    long("6585 5", "a head of 16,384 bytes", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", 16_352, b"\r\n\r\n", TAKEN),
    long("6585 5", "a head of 16,385 bytes", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", 16_353, b"\r\n\r\n", TOO_LARGE),
    long("6585 5", "a field of 20,000 bytes", b"GET / HTTP/1.1\r\nHost: a\r\nX: ", 20_000, b"\r\n\r\n", TOO_LARGE),
    long("6585 5", "a field name of 20,000 bytes", b"GET / HTTP/1.1\r\nHost: a\r\n", 20_000, b": b\r\n\r\n", TOO_LARGE),
    many("6585 5", "100 field lines", b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n", 99, TAKEN),
    many("6585 5", "101 field lines", b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: y\r\n", 100, TOO_LARGE),
    many("6585 5", "1,000 field lines", b"GET / HTTP/1.1\r\nHost: a\r\n", b"a:b\r\n", 1_000, TOO_LARGE),
    long("9110 15.5.14", "trailers of 4,096 bytes", TRAILERS, 4_089, b"\r\n\r\n", TAKEN_TRAILERS),
    long("9110 15.5.14", "trailers of 4,097 bytes", TRAILERS, 4_090, b"\r\n\r\n", CONTENT_TOO_LARGE),
    long("9110 15.5.14", "a trailer that does not end", TRAILERS, 9_000, b"\r\n\r\n", CONTENT_TOO_LARGE),
    many("9110 15.5.14", "101 trailer lines", LAST_CHUNK, b"A:b\r\n", 101, CONTENT_TOO_LARGE),
    chunks(
        "9112 7.1.1",
        "extensions of 16,384 bytes in a message",
        b"1;a=bcdefghijklmno\r\nx\r\n",
        963,
        b"4;a=bcdefghijk\r\nhull\r\n0\r\n\r\n",
        &[Answer::Takes("POST / host=a body=967 bytes")],
    ),
    chunks(
        "9112 7.1.1",
        "extensions of more in a message",
        b"1;a=bcdefghijklmno\r\nx\r\n",
        965,
        b"0\r\n\r\n",
        &[Answer::Status(400)],
    ),
    long(
        "9112 7.1.1",
        "an extension that does not end",
        CHUNK_WITH_EXTENSION,
        20_000,
        b"\r\nhello\r\n0\r\n\r\n",
        &[Answer::Status(400)],
    ),
    chunks(
        "9112 7.1",
        "chunks of one byte",
        b"1\r\nx\r\n",
        20_000,
        b"0\r\n\r\n",
        &[Answer::Takes("POST / host=a body=20000 bytes")],
    ),
    chunks(
        "9112 7.1",
        "far more framing than data",
        b"0000000000000001\r\nx\r\n",
        8_000,
        b"0\r\n\r\n",
        &[Answer::Status(400)],
    ),
    long(
        "9112 9.3",
        "65,536 bytes of a body that nobody reads",
        b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 65536\r\n\r\n",
        65_536,
        b"",
        &[Answer::Takes("POST /early host=a")],
    ),
    long(
        "9112 9.3",
        "more of a body that nobody reads than is dropped",
        b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n",
        70_000,
        b"",
        &[Answer::Takes("POST /early host=a")],
    )
    .closes(),
];

const LONG_TARGET: &[Answer] = &[Answer::Takes("HEAD 8178 bytes host=a")];
const TAKEN: &[Answer] = &[Answer::Takes("GET / host=a")];
const TAKEN_TRAILERS: &[Answer] = &[Answer::Takes("POST / host=a trailers=A=4089 bytes")];
const TOO_LONG: &[Answer] = &[Answer::Status(414)];
const TOO_LARGE: &[Answer] = &[Answer::Status(431)];
const CONTENT_TOO_LARGE: &[Answer] = &[Answer::Status(413)];

const CHUNKED: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const LAST_CHUNK: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
const TRAILERS: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ";
const CHUNK_WITH_EXTENSION: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;";

/// So many letters between two parts.
const fn long(
    section: &'static str,
    rule: &'static str,
    before: &'static [u8],
    times: usize,
    after: &'static [u8],
    answers: &'static [Answer],
) -> Case {
    Case::new(section, rule, Input::Long { before, repeated: b"a", times, after }, answers)
}

/// So many lines before the empty line.
const fn many(
    section: &'static str,
    rule: &'static str,
    before: &'static [u8],
    repeated: &'static [u8],
    times: usize,
    answers: &'static [Answer],
) -> Case {
    Case::new(section, rule, Input::Long { before, repeated, times, after: b"\r\n" }, answers)
}

/// So many chunks.
const fn chunks(
    section: &'static str,
    rule: &'static str,
    repeated: &'static [u8],
    times: usize,
    after: &'static [u8],
    answers: &'static [Answer],
) -> Case {
    Case::new(section, rule, Input::Long { before: CHUNKED, repeated, times, after }, answers)
}
