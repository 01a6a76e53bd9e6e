//! What each type becomes.

use http::{HeaderMap, HeaderValue, StatusCode};

use super::IntoResponse;
use crate::Response;

/// Status, fields in order, body.
type Shown = (u16, Vec<(String, String)>, String);

fn shown(answer: impl IntoResponse) -> Shown {
    let response = answer.into_response();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = response.headers().map(|(name, value)| (name.to_lowercase(), text(value))).collect();
    (response.status().as_u16(), fields, text(response.body_slice()))
}

fn expected(status: u16, fields: &[(&str, &str)], body: &str) -> Shown {
    (status, fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect(), body.to_owned())
}

const TEXT: (&str, &str) = ("content-type", "text/plain; charset=utf-8");
const BYTES: (&str, &str) = ("content-type", "application/octet-stream");

#[test]
fn each_type_becomes_what_the_table_says() {
    assert_eq!(shown("a"), expected(200, &[TEXT], "a"));
    assert_eq!(shown("a".to_owned()), expected(200, &[TEXT], "a"));
    assert_eq!(shown(bytes::Bytes::from_static(b"a")), expected(200, &[BYTES], "a"));
    assert_eq!(shown(b"a".to_vec()), expected(200, &[BYTES], "a"));
    assert_eq!(shown(()), expected(200, &[], ""));
    assert_eq!(shown(StatusCode::NO_CONTENT), expected(204, &[], ""));
    assert_eq!(shown((StatusCode::CREATED, "a")), expected(201, &[TEXT], "a"));
    assert_eq!(shown(Some("a")), expected(200, &[TEXT], "a"));
    assert_eq!(shown(None::<String>).0, 404);
    assert_eq!(shown(Ok::<_, StatusCode>("a")), expected(200, &[TEXT], "a"));
    assert_eq!(shown(Err::<(), _>((StatusCode::CONFLICT, "taken"))), expected(409, &[TEXT], "taken"));
}

#[test]
fn fields_of_a_tuple_take_the_place_of_those_of_the_body() {
    let html = ("content-type", "text/html");
    assert_eq!(shown(([html], "a")), expected(200, &[html], "a"));
    // The same name twice in the tuple is two fields.
    let cookies = [("set-cookie", "a=1"), ("set-cookie", "b=2")];
    let all = [TEXT, cookies[0], cookies[1]];
    assert_eq!(shown((StatusCode::CREATED, cookies, "a")), expected(201, &all, "a"));
    assert_eq!(shown((cookies.to_vec(), "a")), expected(200, &all, "a"));
    let map = HeaderMap::from_iter([(http::header::CONTENT_TYPE, HeaderValue::from_static("text/html"))]);
    assert_eq!(shown((StatusCode::ACCEPTED, map, "a")), expected(202, &[html], "a"));
    assert_eq!(shown(([("x", "a\r\nb: c")], "a")).0, 500, "what would split the answer is refused");
}

#[test]
fn a_response_of_the_http_crate_is_the_same_here() {
    let theirs = http::Response::builder().status(201).header("x-id", "7").body("made").expect("a response");
    assert_eq!(shown(theirs), expected(201, &[("x-id", "7")], "made"));
}

#[test]
fn fields_go_whatever_the_case_of_their_name() {
    let response = Response::text("a").header("x-one", "1").header("X-Two", "2").header("x-one", "3");
    let left = response.without_header("X-ONE").without_header("content-type");
    assert_eq!(shown(left), expected(200, &[("x-two", "2")], "a"));
}
