//! Response heads: framing by method, version and status; fields; chunks.

use http::{Method, StatusCode, Version};
use proptest::prelude::*;

use super::super::*;
use crate::Error::{self, *};
use crate::date;

const KNOWN: BodyLength = BodyLength::Known(5);
const UNKNOWN: BodyLength = BodyLength::Unknown;
const EMPTY: BodyLength = BodyLength::Empty;

/// Rule, method, version, status, length; fields that are written and what follows, or the error.
type Case = (&'static str, Method, Version, u16, BodyLength, Result<(&'static str, BodyOut), Error>);

fn cases() -> Vec<Case> {
    use BodyOut::*;
    let (v0, v1) = (Version::HTTP_10, Version::HTTP_11);
    let (get, head, connect) = (Method::GET, Method::HEAD, Method::CONNECT);
    let length = "Content-Length: 5\r\n";
    let zero = "Content-Length: 0\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    vec![
        ("9110 8.6: length", get.clone(), v1, 200, KNOWN, Ok((length, Length(5)))),
        ("9110 8.6: no body", get.clone(), v1, 200, EMPTY, Ok((zero, None))),
        ("9110 8.6: length 0", get.clone(), v1, 404, BodyLength::Known(0), Ok((zero, None))),
        ("9112 7.1: chunked", get.clone(), v1, 200, UNKNOWN, Ok((chunked, Chunked))),
        ("9112 6.3: until close", get.clone(), v0, 200, UNKNOWN, Ok(("Connection: close\r\n", UntilClose))),
        (
            "9112 9.3: keep-alive in 1.0",
            get.clone(),
            v0,
            200,
            KNOWN,
            Ok(("Content-Length: 5\r\nConnection: keep-alive\r\n", Length(5))),
        ),
        ("9110 9.3.2: HEAD", head.clone(), v1, 200, KNOWN, Ok((length, None))),
        ("9110 9.3.2: HEAD, unknown", head.clone(), v1, 200, UNKNOWN, Ok(("", None))),
        ("9110 9.3.2: HEAD, unknown, 1.0", head.clone(), v0, 200, UNKNOWN, Ok(("Connection: keep-alive\r\n", None))),
        ("9110 9.3.2: HEAD of nothing", head.clone(), v1, 200, EMPTY, Ok((zero, None))),
        ("9110 15.3.5: 204", get.clone(), v1, 204, EMPTY, Ok(("", None))),
        ("9110 15.3.5: 204 to HEAD", head.clone(), v1, 204, EMPTY, Ok(("", None))),
        ("9110 15.3.5: 204 with a body", get.clone(), v1, 204, KNOWN, Err(BodyNotAllowed)),
        ("9110 15.3.5: 204 with some body", get.clone(), v1, 204, UNKNOWN, Err(BodyNotAllowed)),
        ("9110 15.3.6: 205", get.clone(), v1, 205, EMPTY, Ok((zero, None))),
        ("9110 15.3.6: 205 with a body", get.clone(), v1, 205, KNOWN, Err(BodyNotAllowed)),
        ("9110 15.4.5: 304", get.clone(), v1, 304, EMPTY, Ok(("", None))),
        ("9110 15.4.5: 304 with the length of 200", get.clone(), v1, 304, KNOWN, Ok((length, None))),
        ("9110 15.4.5: 304, unknown", get.clone(), v1, 304, UNKNOWN, Ok(("", None))),
        (
            "9112 6.3: 304, unknown, 1.0: no body, so it can persist",
            get.clone(),
            v0,
            304,
            UNKNOWN,
            Ok(("Connection: keep-alive\r\n", None)),
        ),
        ("9110 9.3.6: CONNECT", connect.clone(), v1, 200, EMPTY, Ok(("", None))),
        ("9110 9.3.6: CONNECT with a body", connect.clone(), v1, 200, KNOWN, Err(BodyNotAllowed)),
        ("9110 9.3.6: CONNECT refused", connect, v1, 403, KNOWN, Ok((length, Length(5)))),
        ("9110 15.2.2: 101", get.clone(), v1, 101, EMPTY, Ok(("Connection: upgrade\r\n", None))),
        ("9110 15.2: 103", get.clone(), v1, 103, EMPTY, Ok(("", None))),
        ("9110 15.2: 1xx with a body", get.clone(), v1, 103, KNOWN, Err(BodyNotAllowed)),
        (
            "9110 8.6: largest length",
            get,
            v1,
            200,
            BodyLength::Known(u64::MAX),
            Ok(("Content-Length: 18446744073709551615\r\n", Length(u64::MAX))),
        ),
    ]
}

#[test]
fn each_rule_holds() {
    for (rule, method, version, status, length, want) in cases() {
        let status = StatusCode::from_u16(status).expect("a status");
        let got = ResponseHead::new(&method, version, status, length).map(|head| (encode(&head), head.body()));
        let want = want.map(|(fields, body)| {
            let reason = status.canonical_reason().unwrap_or_default();
            (format!("HTTP/1.1 {} {reason}\r\n{fields}\r\n", status.as_u16()), body)
        });
        assert_eq!(got, want, "{rule}");
    }
}

#[test]
fn persistence_is_told_where_it_is_not_the_default() {
    let told = |version, status: u16, length, persistence| {
        let status = StatusCode::from_u16(status).expect("a status");
        let head = ResponseHead::new(&Method::GET, version, status, length).expect("allowed").persistence(persistence);
        let text = encode(&head);
        assert_eq!(head.closes(), text.contains("Connection: close"));
        text.lines().find_map(|line| line.strip_prefix("Connection: ")).map(str::to_owned)
    };
    let (keep, close) = (Persistence::KeepAlive, Persistence::Close);
    assert_eq!(told(Version::HTTP_11, 200, KNOWN, keep), None);
    assert_eq!(told(Version::HTTP_11, 200, KNOWN, close).as_deref(), Some("close"));
    assert_eq!(told(Version::HTTP_10, 200, KNOWN, keep).as_deref(), Some("keep-alive"));
    assert_eq!(told(Version::HTTP_10, 200, KNOWN, close).as_deref(), Some("close"));
    assert_eq!(told(Version::HTTP_10, 200, UNKNOWN, keep).as_deref(), Some("close"));
    assert_eq!(told(Version::HTTP_11, 101, EMPTY, close).as_deref(), Some("upgrade"));
    assert_eq!(told(Version::HTTP_11, 426, EMPTY, keep).as_deref(), Some("upgrade"), "9110 7.8");
    assert_eq!(told(Version::HTTP_11, 426, EMPTY, close).as_deref(), Some("close, upgrade"));
    assert_eq!(told(Version::HTTP_10, 426, EMPTY, keep).as_deref(), Some("keep-alive"));
    assert_eq!(told(Version::HTTP_11, 103, EMPTY, close), None);
    let tunnel = ResponseHead::new(&Method::CONNECT, Version::HTTP_11, StatusCode::OK, EMPTY).expect("allowed");
    assert_eq!(encode(&tunnel.persistence(close)), "HTTP/1.1 200 OK\r\n\r\n", "the tunnel is not closed");
}

#[test]
fn all_parts_are_in_order() {
    let date = date::format(784_111_777);
    let mut block = Vec::new();
    put_field(&mut block, "Server", b"plimsoll").expect("valid");
    put_field(&mut block, "x", b"").expect("valid");
    let head = ResponseHead::new(&Method::GET, Version::HTTP_11, StatusCode::IM_A_TEAPOT, KNOWN)
        .expect("allowed")
        .persistence(Persistence::Close)
        .fields(Fields::check(&block).expect("put_field wrote it"))
        .date(&date);
    let expected = "HTTP/1.1 418 I'm a teapot\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 5\r\n\
                    Connection: close\r\nServer: plimsoll\r\nx: \r\n\r\n";
    assert_eq!(encode(&head), expected);
    assert_eq!(head.status(), StatusCode::IM_A_TEAPOT);
}

#[test]
fn a_sink_that_is_too_small_is_full() {
    let head = ResponseHead::new(&Method::GET, Version::HTTP_11, StatusCode::OK, KNOWN).expect("allowed");
    let len = head.encoded_len();
    let mut out = [0; 128];
    for short in 0..len {
        assert_eq!(head.encode(&mut &mut out[..short]), Err(OutputFull));
    }
    assert_eq!(head.encode(&mut &mut out[..len]), Ok(()));
}

#[test]
fn every_status_line_is_well_formed() {
    for code in 100..1_000 {
        let status = StatusCode::from_u16(code).expect("in range");
        let head = ResponseHead::new(&Method::GET, Version::HTTP_11, status, EMPTY).expect("no body");
        let text = encode(&head);
        let reason = status.canonical_reason().unwrap_or_default();
        let line = text.lines().next().expect("a line");
        // The names of RFC 9110 are newer than those of the http crate.
        let renamed = [413, 422, 416, 414].contains(&code);
        assert!(line == format!("HTTP/1.1 {code} {reason}") || (renamed && line.len() > 13), "{line}");
        let mut headers = [httparse::EMPTY_HEADER; 4];
        let mut response = httparse::Response::new(&mut headers);
        assert_eq!(response.parse(text.as_bytes()), Ok(httparse::Status::Complete(text.len())));
        assert_eq!(response.code, Some(code));
    }
}

#[test]
fn error_responses_close_and_are_complete() {
    for code in 100..1_000 {
        let status = StatusCode::from_u16(code).expect("in range");
        let answer = std::str::from_utf8(error_response(&Method::GET, status)).expect("ASCII");
        let sent: u16 = answer[9..12].parse().expect("digits");
        assert!(sent == code || sent == if (400..500).contains(&code) { 400 } else { 500 }, "{code}: {sent}");
        let (head, line) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\nContent-Length: {}", line.len())), "{answer}");
        assert_eq!(head.contains("\r\nRetry-After: 1\r\n"), sent == 503);
        assert_eq!(line, error_line(StatusCode::from_u16(sent).expect("in range")));
        assert!(line.ends_with('\n') && line.lines().count() == 1, "{line}");
        assert_eq!(error_response(&Method::HEAD, status), &answer.as_bytes()[..answer.len() - line.len()]);
    }
    for error in [BareLf, RequestLineTooLong, HeadTooLarge, ExpectationUnknown, MethodTooLong, Http2Preface, OutputFull]
    {
        let answer = error_response(&Method::GET, error.status());
        assert_eq!(answer[9..12], *error.status().as_str().as_bytes(), "{error} has an answer of its own");
    }
}

#[test]
fn fields_cannot_smuggle() {
    let refused: [(&str, &[u8], Error); 15] = [
        ("a", b"b\r\nc: d", ResponseFieldInvalid),
        ("a", b"b\rc", ResponseFieldInvalid),
        ("a", b"b\nc", ResponseFieldInvalid),
        ("a", b"b\0", ResponseFieldInvalid),
        ("a", b"\x7f", ResponseFieldInvalid),
        ("a b", b"c", ResponseFieldInvalid),
        ("a:", b"c", ResponseFieldInvalid),
        ("", b"c", ResponseFieldInvalid),
        ("a\r\nb", b"c", ResponseFieldInvalid),
        ("\u{e9}", b"c", ResponseFieldInvalid),
        ("Content-Length", b"5", FieldReserved),
        ("transfer-encoding", b"chunked", FieldReserved),
        ("CONNECTION", b"close", FieldReserved),
        ("Date", b"Sun, 06 Nov 1994 08:49:37 GMT", FieldReserved),
        ("content-length", b"\n", ResponseFieldInvalid),
    ];
    for (name, value, error) in refused {
        let mut block = Vec::new();
        assert_eq!(put_field(&mut block, name, value), Err(error), "{name:?}: {value:?}");
        assert!(block.is_empty());
    }
    assert_eq!(Fields::check(b"a: b\r\nConnection: close\r\n"), Err(FieldReserved));
    assert_eq!(Fields::assume_checked(b"a: b\r\n").as_bytes(), b"a: b\r\n");
    for block in
        ["a: b", "a: b\n", "a: b\r\n\r\n", "\r\n", "a: b\r\nc", "a\r\n", "a: b\rc\r\n", "a: b\nc: d\r\n", "a: b\0\r\n"]
    {
        assert_eq!(Fields::check(block.as_bytes()), Err(ResponseFieldInvalid), "{block:?}");
    }
}

#[test]
fn chunk_headers_are_hexadecimal() {
    for (len, expected) in
        [(1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (0xabcdef, "abcdef\r\n"), (u64::MAX, "ffffffffffffffff\r\n")]
    {
        assert_eq!(chunk_header(len).as_bytes(), expected.as_bytes());
    }
}

#[test]
#[should_panic(expected = "end the body")]
fn an_empty_chunk_is_refused() {
    let _ = chunk_header(0);
}

#[test]
fn limits_are_validated() {
    let builder = Limits::builder;
    assert_eq!(builder().validate(), Ok(Limits::default()));
    for (wrong, right) in [
        (builder().head_bytes_max(127), builder().head_bytes_max(128).request_line_bytes_max(124)),
        (builder().head_bytes_max(65_536), builder().head_bytes_max(65_535)),
        (builder().request_line_bytes_max(31), builder().request_line_bytes_max(32)),
        (builder().request_line_bytes_max(16_381), builder().request_line_bytes_max(16_380)),
        (builder().fields_max(0), builder().fields_max(1)),
        (builder().fields_max(257), builder().fields_max(256)),
        (builder().trailer_bytes_max(1), builder().trailer_bytes_max(2)),
        (builder().trailer_bytes_max(65_536), builder().trailer_bytes_max(65_535)),
        (builder().chunk_overhead_free_bytes_max(63), builder().chunk_overhead_free_bytes_max(64)),
        (builder().chunk_overhead_ratio_max(0), builder().chunk_overhead_ratio_max(1)),
        (builder().chunk_overhead_ratio_max(1_025), builder().chunk_overhead_ratio_max(1_024)),
    ] {
        assert_eq!(wrong.validate(), Err(LimitInvalid), "{wrong:?}");
        assert!(right.validate().is_ok(), "{right:?}");
    }
}

proptest! {
    /// What is encoded is what a client's parser reads.
    #[test]
    fn encoded_heads_are_read_back(
        code in 200u16..600,
        length in any::<u64>(),
        close in any::<bool>(),
        fields in prop::collection::vec(("[a-z]{1,12}", "[ -~]{0,30}"), 0..8),
    ) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            put_field(&mut block, name, value.as_bytes()).expect("tokens and text");
        }
        prop_assert_eq!(block.len(), fields.iter().map(|(name, value)| field_len(name, value.as_bytes())).sum::<usize>());
        let status = StatusCode::from_u16(code).expect("in range");
        let length = if code == 204 || code == 205 { BodyLength::Empty } else { BodyLength::Known(length) };
        let persistence = if close { Persistence::Close } else { Persistence::KeepAlive };
        let head = ResponseHead::new(&Method::GET, Version::HTTP_11, status, length).expect("allowed")
            .persistence(persistence).fields(Fields::check(&block).expect("put_field wrote it"));
        let text = encode(&head);
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut response = httparse::Response::new(&mut headers);
        prop_assert_eq!(response.parse(text.as_bytes()), Ok(httparse::Status::Complete(text.len())));
        prop_assert_eq!(response.code, Some(code));
        let read: Vec<_> = response.headers.iter().map(|header| (header.name, header.value)).collect();
        let own = read.len() - fields.len();
        for ((name, value), read) in fields.iter().zip(&read[own..]) {
            prop_assert_eq!((name.as_str(), value.trim_matches(' ').as_bytes()), *read);
        }
        let find = |name: &str| read[..own].iter().find(|field| field.0 == name).map(|field| field.1);
        // RFC 9110 7.8: whoever sends Upgrade, as with 426, names it in Connection.
        let connection = match (close, code) {
            (true, 426) => Some(&b"close, upgrade"[..]),
            (false, 426) => Some(&b"upgrade"[..]),
            (true, _) => Some(&b"close"[..]),
            (false, _) => None,
        };
        prop_assert_eq!(find("Connection"), connection);
        if let BodyLength::Known(bytes) = length {
            let digits = bytes.to_string();
            prop_assert_eq!(find("Content-Length"), Some(digits.as_bytes()));
        }
    }
}

fn encode(head: &ResponseHead<'_>) -> String {
    let mut out = Vec::new();
    head.encode(&mut out).expect("a vector is never full");
    assert_eq!(out.len(), head.encoded_len());
    String::from_utf8(out).expect("ASCII")
}

/// There is room for the longest of them: every status, a length of 20 digits, and a Connection field.
#[test]
fn what_the_codec_writes_itself_always_has_room() {
    let date = date::format(0);
    for status in (100..1000).map(|code| StatusCode::from_u16(code).unwrap()) {
        for length in [BodyLength::Known(u64::MAX), BodyLength::Unknown, BodyLength::Empty] {
            let Ok(head) = ResponseHead::new(&Method::HEAD, Version::HTTP_10, status, length) else { continue };
            for persistence in [Persistence::KeepAlive, Persistence::Close] {
                let mut out = Vec::new();
                head.persistence(persistence).date(&date).encode(&mut out).unwrap();
                assert!(out.ends_with(b"\r\n\r\n"), "{status}");
            }
        }
    }
}
