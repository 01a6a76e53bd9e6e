//! One case for each rule of a body, with the section it follows.

use super::super::*;
use crate::Error::{self, *};
use crate::fuzz::{BodyEnd, BodyRead, read_body};

/// Rule, chunked body, data and trailers or the error. What follows the body is `rest`.
type Case = (&'static str, &'static [u8], Result<(&'static [u8], &'static [u8]), Error>);

const CASES: &[Case] = &[
    ("9112 7.1: one chunk", b"5\r\nhello\r\n0\r\n\r\n", Ok((b"hello", b""))),
    ("9112 7.1: two chunks", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", Ok((b"hello", b""))),
    ("9112 7.1: no data", b"0\r\n\r\n", Ok((b"", b""))),
    ("9112 7.1: several zeros are the last chunk too", b"0000\r\n\r\n", Ok((b"", b""))),
    (
        "9112 7.1: digits in any case",
        b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
        Ok((b"01234567890123456789", b"")),
    ),
    ("9112 7.1: leading zeros", b"0005\r\nhello\r\n0\r\n\r\n", Ok((b"hello", b""))),
    ("9112 7.1: sixteen digits", b"0000000000000005\r\nhello\r\n0\r\n\r\n", Ok((b"hello", b""))),
    ("9112 7.1: data that looks like framing", b"7\r\n0\r\n\r\nab\r\n0\r\n\r\n", Ok((b"0\r\n\r\nab", b""))),
    ("9112 7.1: the next request is left", b"1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n", Ok((b"a", b""))),
    ("9112 7.1: seventeen digits", b"00000000000000005\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: overflow", b"10000000000000000\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: no size", b"\r\nhello\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: no size but an extension", b";a=b\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: plus", b"+5\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: minus", b"-5\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: prefix", b"0x5\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: underscore", b"1_0\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: suffix", b"5h\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: not hexadecimal", b"g\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: comma", b"5,5\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: fraction", b"5.0\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: space before a size", b" 5\r\nhello", Err(ChunkSizeInvalid)),
    ("9112 7.1: quoted", b"\"5\"\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1: NUL in a size", b"5\0\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1.1: space after a size", b"5 \r\nhello\r\n0\r\n\r\n", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: tab after a size", b"5\t\r\nhello", Err(ChunkExtensionInvalid)),
    ("9112 2.2: LF after a size", b"5\nhello\r\n0\r\n\r\n", Err(BareLf)),
    ("9112 2.2: CR after a size", b"5\rhello", Err(BareCr)),
    ("9112 2.2: two CR after a size", b"5\r\r\nhello", Err(BareCr)),
    ("9112 7.1: no CRLF after data", b"5\r\nhello0\r\n\r\n", Err(ChunkDataUnterminated)),
    ("9112 7.1: data longer than its size", b"5\r\nhelloX\r\n0\r\n\r\n", Err(ChunkDataUnterminated)),
    ("9112 7.1: LF after data", b"5\r\nhello\n0\r\n\r\n", Err(ChunkDataUnterminated)),
    ("9112 7.1: CR after data", b"5\r\nhello\r0\r\n\r\n", Err(ChunkDataUnterminated)),
    ("9112 7.1: two CR after data", b"5\r\nhello\r\r\n", Err(ChunkDataUnterminated)),
    ("9112 7.1: empty line after data", b"1\r\na\r\n\r\n0\r\n\r\n", Err(ChunkSizeInvalid)),
    ("9112 7.1.1: name", b"1;a\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: name and token", b"1;a=b\r\nx\r\n0;c=d\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: several", b"1;a=b;c;d=\"e\"\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: quoted", b"1;a=\"b;\\\"c\\\\ d\te\"\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: empty quoted", b"1;a=\"\"\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: obs-text in quotes", b"1;a=\"\xe9\"\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: bad white space where it is allowed", b"1 ; a\t= b ;c\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: white space after quotes, then more", b"1;a=\"b\" ;c\r\nx\r\n0\r\n\r\n", Ok((b"x", b""))),
    ("9112 7.1.1: empty", b"1;\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: empty name", b"1;=b\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: empty value", b"1;a=\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: empty between semicolons", b"1;;a\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: white space at the end", b"1;a \r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: white space at the end of a value", b"1;a=b \r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: two names", b"1;a b\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: two values", b"1;a=b c\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: something after quotes", b"1;a=\"b\"c\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: quotes not closed", b"1;a=\"b\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: quoted name", b"1;\"a\"\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: NUL", b"1;a\0\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: control byte", b"1;a=\x01\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: control byte in quotes", b"1;a=\"\x01\"\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: obs-text in a token", b"1;\xe9\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 7.1.1: CR in quotes", b"1;a=\"\r\"\r\nx", Err(ChunkExtensionInvalid)),
    ("9112 2.2: LF after an extension", b"1;a\nx\r\n0\r\n\r\n", Err(BareLf)),
    ("9112 2.2: LF in quotes", b"1;a=\"\n\"\r\nx", Err(BareLf)),
    ("9112 2.2: LF after a semicolon", b"2;\nxx\r\n0\r\n\r\n", Err(BareLf)),
    ("9112 2.2: CR after an extension", b"1;a\rx", Err(BareCr)),
    ("9112 7.1.2: trailers", b"0\r\nA: b\r\nc:\td \r\n\r\n", Ok((b"", b"A: b\r\nc:\td \r\n"))),
    ("9112 7.1.2: trailers after data", b"1\r\nx\r\n0\r\nA: b\r\n\r\nrest", Ok((b"x", b"A: b\r\n"))),
    ("9110 6.5.1: framing in trailers", b"0\r\nContent-Length: 5\r\n\r\n", Err(TrailerForbidden)),
    ("9110 6.5.1: more framing in trailers", b"0\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n", Err(TrailerForbidden)),
    ("9110 6.5.1: routing in trailers", b"0\r\nHOST: b\r\n\r\n", Err(TrailerForbidden)),
    ("9110 6.5.1: authentication in trailers", b"0\r\nAuthorization: b\r\n\r\n", Err(TrailerForbidden)),
    ("9110 6.5.1: cookies in trailers", b"0\r\nCookie: b\r\n\r\n", Err(TrailerForbidden)),
    ("9110 6.5.1: connection options in trailers", b"0\r\nConnection: close\r\n\r\n", Err(TrailerForbidden)),
    ("9110 5.1: no token in trailers", b"0\r\nA b: c\r\n\r\n", Err(FieldNameInvalid)),
    ("9112 5: no colon in trailers", b"0\r\nGET / HTTP/1.1\r\n\r\n", Err(FieldNameInvalid)),
    ("9112 5: empty name in trailers", b"0\r\n: a\r\n\r\n", Err(FieldNameInvalid)),
    ("9112 5.1: space before the colon in trailers", b"0\r\nA : b\r\n\r\n", Err(SpaceBeforeColon)),
    ("9112 5.2: obs-fold in trailers", b"0\r\nA: b\r\n c\r\n\r\n", Err(LeadingSpace)),
    ("9110 5.5: control byte in trailers", b"0\r\nA: \x02\r\n\r\n", Err(FieldValueInvalid)),
    ("9110 5.5: NUL in trailers", b"0\r\nA: \0\r\n\r\n", Err(NulByte)),
    ("9112 2.2: LF in trailers", b"0\r\nA: b\n\r\n", Err(BareLf)),
    ("9112 2.2: LF ends the body", b"0\r\n\n", Err(BareLf)),
    ("9112 2.2: CR in trailers", b"0\r\nA: b\rc\r\n\r\n", Err(BareCr)),
    ("9112 2.2: CR ends the body", b"0\r\n\rG", Err(BareCr)),
];

#[test]
fn each_rule_holds_however_the_body_is_split() {
    let mut failures = Vec::new();
    for (rule, input, want) in CASES {
        let whole = read(input, &[]);
        let got = match &whole.end {
            Ok(BodyEnd::Complete) => Ok((&whole.data[..], &whole.trailers[..])),
            Ok(BodyEnd::NeedMore) => Err(Truncated),
            Err(error) => Err(*error),
        };
        if got != *want {
            failures.push(format!("{rule}: {got:?}"));
        }
        for cut in 0..=input.len() {
            assert_eq!(read(input, &[cut]), whole, "{rule}, cut at {cut}");
        }
        let single: Vec<usize> = (0..input.len()).collect();
        assert_eq!(read(input, &single), whole, "{rule}, byte by byte");
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn what_follows_a_body_is_left() {
    for (body, rest) in [(&b"5\r\nhello\r\n0\r\n\r\n"[..], &b"GET /"[..]), (b"0\r\na: b\r\n\r\n", b"\r\n")] {
        assert_eq!(read(&[body, rest].concat(), &[]).consumed, body.len());
    }
    let read = read_body(Framing::Length(3), b"abcdef", &Limits::DEFAULT, &[1]);
    assert_eq!((read.data.as_slice(), read.consumed, read.end), (&b"abc"[..], 3, Ok(BodyEnd::Complete)));
}

#[test]
fn a_body_that_stops_is_truncated() {
    for input in ["", "5", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello\r", "0\r\n", "0\r\nA: b\r\n", "0\r\n\r"] {
        assert_eq!(read(input.as_bytes(), &[]).end, Ok(BodyEnd::NeedMore), "{input:?}");
    }
    let mut body = BodyDecoder::new(Framing::Length(2), &Limits::DEFAULT);
    assert_eq!(body.finish(), Err(Truncated));
    assert!(body.decode(b"a").is_ok());
    assert_eq!((body.finish(), body.remaining()), (Err(Truncated), Some(1)));
}

#[test]
fn a_failure_is_for_ever_and_known() {
    let mut body = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    assert_eq!((body.decode(b"1\r\na").map(|decoded| decoded.consumed), body.failure()), (Ok(4), None));
    assert_eq!((body.decode(b"\r\ng\r\n"), body.failure()), (Err(ChunkSizeInvalid), Some(ChunkSizeInvalid)));
    body.peer_closed();
    assert_eq!((body.decode(b"1\r\na"), body.failure()), (Err(ChunkSizeInvalid), Some(ChunkSizeInvalid)));
    let mut cut = BodyDecoder::new(Framing::Length(2), &Limits::DEFAULT);
    cut.peer_closed();
    assert_eq!((cut.failure(), cut.decode(b"ab")), (Some(Truncated), Err(Truncated)));
    let mut whole = BodyDecoder::new(Framing::None, &Limits::DEFAULT);
    whole.peer_closed();
    assert_eq!((whole.failure(), whole.is_done()), (None, true));
}

#[test]
fn no_body_ends_at_once() {
    for framing in [Framing::None, Framing::Length(0)] {
        let mut body = BodyDecoder::new(framing, &Limits::DEFAULT);
        assert!(body.is_done());
        assert_eq!(body.decode(b"GET /"), Ok(Decoded { consumed: 0, event: BodyEvent::End }));
    }
}

#[test]
fn the_largest_size_does_not_overflow() {
    let mut body = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    let decoded = body.decode(b"7fffffffffffffff\r\nabc").expect("63 bits");
    assert_eq!(decoded.event, BodyEvent::Data(18..21));
    let left = u64::MAX / 2 - 3;
    assert_eq!(body.contiguous(), left);
    body.advance(left).expect("that many are due");
    assert_eq!(body.decode(b"\r\n0\r\n\r\n").map(|decoded| decoded.event), Ok(BodyEvent::End));
    for over in [&b"8000000000000000\r\nabc"[..], b"ffffffffffffffff\r\nabc"] {
        assert_eq!(read(over, &[]).end, Err(ChunkSizeInvalid));
    }
}

#[test]
fn data_can_bypass_the_decoder() {
    let mut body = BodyDecoder::new(Framing::Length(10), &Limits::DEFAULT);
    assert_eq!(body.contiguous(), 10);
    assert_eq!(body.advance(11), Err(StateMisuse));
    assert_eq!(body.advance(4), Ok(()));
    assert_eq!((body.remaining(), body.advance(6), body.is_done()), (Some(6), Ok(()), true));
    assert_eq!((body.advance(0), body.advance(1)), (Ok(()), Err(StateMisuse)));
    let mut body = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    assert_eq!((body.contiguous(), body.remaining()), (0, None));
    assert_eq!(body.decode(b"3\r\n").map(|decoded| decoded.consumed), Ok(3));
    assert_eq!((body.contiguous(), body.advance(3)), (3, Ok(())));
    assert_eq!(body.decode(b"\r\n0\r\n\r\n").map(|decoded| decoded.event), Ok(BodyEvent::End));
}

#[test]
fn extensions_are_bounded_over_the_whole_message() {
    let limits = Limits::builder().chunk_extension_bytes_max(20).validate().expect("in range");
    let body = |count: usize| ["1;abcdefghi\r\nx\r\n".repeat(count), "0\r\n\r\n".into()].concat();
    // Each has ten bytes, the semicolon included.
    assert_eq!(read_body(Framing::Chunked, body(2).as_bytes(), &limits, &[]).end, Ok(BodyEnd::Complete));
    assert_eq!(read_body(Framing::Chunked, body(3).as_bytes(), &limits, &[]).end, Err(ChunkExtensionsTooLarge));
    let endless = [&b"1;"[..], &[b'a'; 20]].concat();
    assert_eq!(read_body(Framing::Chunked, &endless, &limits, &[5]).end, Err(ChunkExtensionsTooLarge));
    let none = Limits::builder().chunk_extension_bytes_max(0).validate().expect("in range");
    assert_eq!(read_body(Framing::Chunked, b"1;a\r\n", &none, &[]).end, Err(ChunkExtensionsTooLarge));
}

#[test]
fn overhead_is_bounded_by_data() {
    let padded = b"0000000000000001\r\nx\r\n".repeat(8_000);
    assert_eq!(read(&padded, &[]).end, Err(ChunkOverhead));
    assert_eq!(read(&padded, &[70_000, 80_000]).end, Err(ChunkOverhead));
    // Chunks of single bytes have five bytes of framing each: wasteful, but allowed.
    let small = [b"1\r\nx\r\n".repeat(40_000), b"0\r\n\r\n".to_vec()].concat();
    assert_eq!(read(&small, &[]).end, Ok(BodyEnd::Complete));
}

#[test]
fn trailers_are_bounded() {
    let limits = crate::fuzz::small_limits();
    let section = |len: usize| format!("0\r\na: {}\r\n\r\n", "b".repeat(len - "a: \r\n\r\n".len()));
    let end = |input: &str| read_body(Framing::Chunked, input.as_bytes(), &limits, &[]).end;
    assert_eq!(end(&section(limits.trailer_bytes())), Ok(BodyEnd::Complete));
    for over in 1..6 {
        assert_eq!(end(&section(limits.trailer_bytes() + over)), Err(TrailersTooLarge), "{over} over");
    }
    let single: Vec<usize> = (0..limits.trailer_bytes() + 3).collect();
    let input = section(limits.trailer_bytes() + 100);
    assert_eq!(read_body(Framing::Chunked, input.as_bytes(), &limits, &single).end, Err(TrailersTooLarge));
    let many = |count: usize| format!("0\r\n{}\r\n", "a:b\r\n".repeat(count));
    assert_eq!(end(&many(limits.fields())), Ok(BodyEnd::Complete));
    assert_eq!(end(&many(limits.fields() + 1)), Err(TrailersTooLarge));
    let none = Limits::builder().trailer_bytes_max(2).validate().expect("in range");
    assert_eq!(read_body(Framing::Chunked, b"0\r\n\r\n", &none, &[]).end, Ok(BodyEnd::Complete));
    assert_eq!(read_body(Framing::Chunked, b"0\r\nab", &none, &[]).end, Err(TrailersTooLarge));
}

#[test]
fn slow_trailers_cost_no_more_than_fast_ones() {
    let section = format!("{}\r\n", "a: b\r\n".repeat(90)).into_bytes();
    let mut body = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    assert_eq!(body.decode(b"0\r\n").map(|decoded| decoded.consumed), Ok(3));
    for len in 0..section.len() {
        let decoded = body.decode(&section[..len]).expect("valid");
        // A repeated call with the same bytes changes nothing: what was searched is remembered.
        let before = body.clone();
        assert_eq!((decoded.consumed, decoded.event), (0, BodyEvent::NeedMore));
        assert_eq!(body.decode(&section[..len]).map(|decoded| decoded.consumed), Ok(0));
        assert_eq!(body, before);
    }
    // Within a line too, the decoder notes how far it has looked.
    let mut within = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    assert_eq!(within.decode(b"0\r\nabc: def").map(|decoded| decoded.consumed), Ok(3));
    assert!(format!("{within:?}").contains("searched: 8"), "{within:?}");
    let decoded = body.decode(&section).expect("valid");
    assert_eq!(decoded.event, BodyEvent::Trailers(0..section.len() - 2));
    assert_eq!(trailers(&section[..section.len() - 2]).count(), 90);
}

fn read(input: &[u8], cuts: &[usize]) -> BodyRead {
    read_body(Framing::Chunked, input, &Limits::DEFAULT, cuts)
}
