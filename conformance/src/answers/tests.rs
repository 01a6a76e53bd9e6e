//! The reader is the judge, so it is judged first.

use super::*;

#[test]
fn reads_every_framing() {
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 400 Bad Request\r\nConnection: keep-alive, Close\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.1 200 OK\r\nseen: a b\r\n\r\nuntil the end";
    let answers = read(bytes, |_| false).expect("valid");
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [100, 200, 204, 400, 200]);
    assert_eq!(answers.iter().filter(|answer| answer.says_close).count(), 1);
    assert_eq!((answers[1].has_date, answers[1].has_framing, answers[2].has_framing), (true, true, false));
    assert_eq!(answers[4].seen.as_deref(), Some("a b"));
    assert_eq!(answers[4].rest.as_deref(), Some(&b"until the end"[..]));
    assert!(answers[..4].iter().all(|answer| answer.rest.is_none()));
}

#[test]
fn what_follows_a_101_is_no_answer() {
    let bytes =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n";
    let answers = read(bytes, |_| false).expect("valid");
    assert_eq!(answers.iter().map(|answer| answer.is_interim()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(answers[1].rest.as_deref(), Some(&b"HTTP/1.1 200 OK\r\n\r\n"[..]));
}

#[test]
fn an_answer_to_head_has_no_body() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(read(bytes, |at| at == 0).map(|answers| answers.len()), Ok(2));
    assert!(read(bytes, |_| false).is_err());
    assert!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", |_| true).is_err(), "a body to HEAD");
}

#[test]
fn refuses_what_is_no_answer() {
    for bytes in [
        &b"hello"[..],
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 2 OK\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\na: b\nc: d\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\nbody",
    ] {
        assert!(read(bytes, |_| false).is_err(), "{}", bytes.escape_ascii());
    }
}
