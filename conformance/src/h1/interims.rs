//! Interim answers that a handler sends (RFC 9110 15.2).

use super::Answer::{Status, Takes};
use super::{Case, Group, case};

/// Cases for a handler that sends some.
pub(super) const HINTS: &str = "Interim answers, where the handler sends some";

pub(super) const GROUPS: &[Group] = &[Group::raw(HINTS, CASES)];

const CASES: &[Case] = &[
    case(
        "9110 15.2",
        "several before an answer, in their order",
        b"GET /hints HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Status(102), Status(103), Takes("GET /hints host=a")],
    ),
    case(
        "9110 15.2",
        "before the answer to HEAD",
        b"HEAD /hints HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Status(102), Status(103), Takes("HEAD /hints host=a")],
    ),
    case(
        "9110 15.2",
        "before an answer that closes the connection",
        b"GET /hints HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        &[Status(102), Status(103), Takes("GET /hints host=a")],
    )
    .closes(),
    case(
        "9110 15.2",
        "after a body",
        b"POST /hints HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        &[Status(102), Status(103), Takes("POST /hints host=a body=hello")],
    ),
    case("9110 15.2", "none in HTTP/1.0", b"GET /hints HTTP/1.0\r\n\r\n", &[Takes("GET /hints")]).closes(),
    case(
        "9110 15.2",
        "none in HTTP/1.0 that is kept",
        b"GET /hints HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        &[Takes("GET /hints")],
    ),
    case(
        "9112 9.3.2",
        "behind the answer to the request before",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /hints HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a"), Status(102), Status(103), Takes("GET /hints host=a"), Takes("GET /3 host=a")],
    ),
    case(
        "9112 9.3.2",
        "of two requests that come together",
        b"GET /hints?1 HTTP/1.1\r\nHost: a\r\n\r\nGET /hints?2 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[
            Status(102),
            Status(103),
            Takes("GET /hints ?1 host=a"),
            Status(102),
            Status(103),
            Takes("GET /hints ?2 host=a"),
        ],
    ),
    case(
        "9110 15.2",
        "in HTTP/1.1 behind a request of HTTP/1.0",
        b"GET /hints HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hints HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /hints"), Status(102), Status(103), Takes("GET /hints host=a")],
    ),
];
