//! Heads that come without a connection: the host, the target, and what the body is.

use http::Method;

use super::*;

fn head(request: http::request::Builder, body_bytes: Option<u64>) -> Result<Head, Error> {
    Head::of(&request.body(()).expect("a request").into_parts().0, body_bytes, &Limits::DEFAULT)
}

#[test]
fn a_request_without_a_host_has_none() {
    let head = head(http::Request::get("/a/b?c=d").header("x-one", "1"), Some(0)).expect("a head");
    let view = head.view();
    assert_eq!((view.path(), view.query(), view.host()), ("/a/b", Some("c=d"), None));
    assert_eq!(view.fields().collect::<Vec<_>>(), [("x-one", &b"1"[..])]);
    assert_eq!((view.framing(), head.slots().len()), (Framing::None, 1));
}

#[test]
fn an_authority_is_the_host() {
    let beside = head(http::Request::get("http://here:8080/a"), None).expect("a head");
    assert_eq!((beside.view().host(), beside.view().path()), (Some("here:8080"), "/a"));
    assert_eq!((beside.view().fields().count(), beside.view().framing()), (0, Framing::Chunked));
    let before = head(http::Request::get("http://here/a").header("host", "there"), None).expect("a head");
    assert_eq!((before.view().host(), before.view().target()), (Some("here"), "http://here/a"));
    let http2 = http::Request::get("http://here/a?b").header("host", "here").version(Version::HTTP_2);
    let http2 = head(http2, Some(7)).expect("a head");
    assert_eq!((http2.view().target(), http2.view().version()), ("/a?b", Version::HTTP_2));
    assert_eq!(http2.view().framing(), Framing::Length(7));
}

#[test]
fn what_the_body_is_counts_and_not_what_fields_say_of_it() {
    let request = http::Request::post("/").header("content-length", "5").header("expect", "100-continue");
    let head = head(request, Some(9)).expect("a head");
    assert_eq!(head.view().framing(), Framing::Length(9));
    assert_eq!(head.view().field("content-length"), Some(&b"5"[..]));
    assert!(!head.view().request().expect_continue);
}

#[test]
fn what_a_server_refuses_is_refused() {
    let long = "x".repeat(Limits::DEFAULT.head_bytes());
    assert!(head(http::Request::get("/").header("x", long), Some(0)).is_err());
    assert!(head(http::Request::get("/").header("transfer-encoding", "gzip"), Some(0)).is_err());
    let many = (0..Limits::DEFAULT.fields() + 1).fold(http::Request::get("/"), |many, _| many.header("x", "1"));
    assert_eq!(head(many, Some(0)).err(), Some(Error::TooManyFields));
    let all = head(http::Request::builder().method(Method::OPTIONS).uri("*"), Some(0)).expect("a head");
    assert_eq!(all.view().target(), "*");
}
