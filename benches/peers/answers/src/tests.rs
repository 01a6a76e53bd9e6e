//! The routes and the machine of the minimal servers, however the input is split.

use super::h1::{Next, Session};
use super::{Route, factor, fixed};

#[test]
fn routes_have_methods_and_bounds() {
    assert_eq!(Route::of("GET", "/pipeline"), Some(Route::Pipeline));
    assert_eq!(Route::of("POST", "/pipeline"), None);
    assert_eq!(Route::of("GET", "/json/50"), Some(Route::Json { count: 50 }));
    assert_eq!(Route::of("GET", "/json/51"), None);
    assert_eq!(Route::of("GET", "/blob/7"), Some(Route::Blob { bytes: 7 }));
    assert_eq!((factor(None), factor(Some("a=1&m=3")), factor(Some("m=x"))), (1, 3, 1));
}

#[test]
fn splits_do_not_change_the_answers() {
    let input = b"GET /pipeline HTTP/1.1\r\nHost: a\r\n\r\nPOST /upload HTTP/1.1\r\ncontent-length: 5\r\n\r\nabcdeGET /x HTTP/1.1\r\nConnection: close\r\n\r\n";
    let mut whole = Vec::new();
    assert_eq!(Session::new().feed(input, &mut whole), (input.len(), Next::Close));
    let text = String::from_utf8(whole.clone()).unwrap();
    assert!(
        text.contains("\r\n\r\nokHTTP/1.1 200 OK") && text.contains("content-length: 1\r\n\r\n5HTTP/1.1 404"),
        "{text}"
    );
    let (mut out, mut session, mut held, mut next) = (Vec::new(), Session::new(), Vec::new(), Next::Read);
    for byte in input {
        assert_eq!(next, Next::Read);
        held.push(*byte);
        let (taken, now) = session.feed(&held, &mut out);
        held.drain(..taken);
        next = now;
    }
    assert_eq!((out, next), (whole, Next::Close));
}

#[test]
fn a_floor_has_one_answer() {
    let answer = fixed("/json/50?m=1").unwrap();
    assert!(answer.ends_with(b"\"count\":50}"));
    assert_eq!(fixed("/nothing"), None);
}

#[test]
fn large_answers_are_sent_in_between() {
    let input = b"GET /json/50?m=1 HTTP/1.1\r\n\r\n".repeat(64);
    let mut out = Vec::new();
    let (taken, next) = Session::new().feed(&input, &mut out);
    assert!(next == Next::Send && taken < input.len() && out.len() < 128 * 1024);
    let blob = b"GET /blob/9 HTTP/1.1\r\n\r\nGET /pipeline HTTP/1.1\r\n\r\n";
    assert_eq!(Session::new().feed(blob, &mut Vec::new()), (24, Next::Blob(9)));
}
