//! Every case of the table, and that the comparison really compares.

use super::*;

#[test]
fn nobody_disagrees_over_the_cases() {
    for framed in crate::h1::cases() {
        request(&framed.bytes());
    }
}

#[test]
fn kawa_takes_ordinary_requests() {
    for bytes in [
        &b"GET /a?b HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"[..],
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\nGET",
    ] {
        let (_, ours) = ours(bytes).expect("we take it");
        assert_eq!(kawa(bytes), Some(ours), "{}", bytes.escape_ascii());
    }
}

#[test]
#[should_panic(expected = "httparse refuses")]
fn what_httparse_refuses_is_noticed() {
    let message = Message {
        method: b"GET".to_vec(),
        target: b"/".to_vec(),
        is_11: true,
        fields: Vec::new(),
        body: Vec::new(),
        len: 1,
    };
    check_httparse(b"GET", &message);
}
