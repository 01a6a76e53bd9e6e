//! More than one message: pipelining, interim answers, answers without a body, what closes a connection.

use super::Answer::{Status, Takes};
use super::{Case, Group, case, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group::raw("Pipelines", PIPELINES),
    Group::raw("Answers without a body", ANSWERS),
    Group::raw("100-continue", CONTINUE),
    Group::raw("Half-closed connections", CUT),
];

const PIPELINES: &[Case] = &[
    case(
        "9112 9.3.2",
        "answers in the order of the requests",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a"), Takes("GET /2 host=a"), Takes("GET /3 host=a")],
    ),
    case(
        "9112 9.3.2",
        "bodies between requests",
        b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiPUT /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
          2\r\nho\r\n0\r\nA: b\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("POST /1 host=a body=hi"), Takes("PUT /2 host=a body=ho trailers=A=b"), Takes("GET /3 host=a")],
    ),
    case(
        "9112 2.2",
        "an empty line after a body",
        b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("POST /1 host=a body=hi"), Takes("GET /2 host=a")],
    ),
    case(
        "9112 9.6",
        "nothing after close is answered",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a")],
    )
    .closes(),
    case(
        "9112 9.3",
        "nothing after a request of HTTP/1.0 is answered",
        b"GET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
        &[Takes("GET /1")],
    )
    .closes(),
    case(
        "9112 9.3",
        "HTTP/1.0 with keep-alive, then HTTP/1.1",
        b"GET /1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1"), Takes("GET /2 host=a")],
    ),
    case(
        "9112 9.3.2",
        "what is right before a mistake is answered",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost : a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a"), Status(400)],
    ),
    case(
        "9112 6.3",
        "bytes behind a body that are no request",
        b"POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi!\x01\x02",
        &[Takes("POST /1 host=a body=hi"), Status(400)],
    ),
    case(
        "9112 6.3",
        "a body without framing is the next request",
        b"POST /1 HTTP/1.1\r\nHost: a\r\n\r\na=1&b=2 ",
        &[Takes("POST /1 host=a"), Status(400)],
    ),
    case(
        "9110 7.8",
        "a request behind an upgrade that is not taken",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a"), Takes("GET /2 host=a")],
    ),
    case(
        "9110 7.8",
        "bytes of another protocol behind an upgrade that is not taken",
        b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x85\x00\x00\x00\x00hello",
        &[Takes("GET /1 host=a"), Status(400)],
    ),
    case(
        "9110 9.3.6",
        "a request behind a CONNECT that is not taken",
        b"CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Status(405)],
    ),
];

const ANSWERS: &[Case] = &[
    case("9110 15.3.5", "204 has no body and no length", b"GET /204 HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(204)])
        .keeps(),
    case("9110 15.3.6", "205 has no body", b"GET /205 HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(205)]).keeps(),
    case("9110 15.4.5", "304 has no body", b"GET /304 HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(304)]).keeps(),
    case("9110 15.3.5", "204 to HEAD", b"HEAD /204 HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(204)]).keeps(),
    case("9110 15.4.5", "304 to HEAD", b"HEAD /304 HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(304)]).keeps(),
    case(
        "9110 9.3.2",
        "HEAD between two GET",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET /1 host=a"), Takes("HEAD /2 host=a"), Takes("GET /3 host=a")],
    ),
    case(
        "9110 15.3.5",
        "204 to a request with a body",
        b"POST /204 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        &[Status(204)],
    )
    .keeps(),
];

const CONTINUE: &[Case] = &[
    taken!(
        "9110 10.1.1",
        "100-continue and the body at once",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        "POST / host=a body=hello"
    ),
    taken!(
        "9110 10.1.1",
        "100-continue in any case, and chunks",
        b"POST / HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST / host=a body=hello"
    ),
    case(
        "9110 10.1.1",
        "100 is sent when the body is wanted",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        &[Status(100), Status(400)],
    )
    .half_close(),
    case(
        "9110 10.1.1",
        "100 is not sent when nobody wants the body",
        b"POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        &[Takes("POST /early host=a")],
    )
    .half_close(),
    case(
        "9110 10.1.1",
        "the connection is closed when the body was not wanted",
        b"POST /early HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 80\r\n\r\n",
        &[Takes("POST /early host=a")],
    )
    .closes(),
    case(
        "9110 10.1.1",
        "100 is not sent to HTTP/1.0",
        b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
        &[Takes("POST / body=hello")],
    )
    .closes(),
    refused!(
        417,
        "9110 10.1.1",
        "an expectation that HTTP does not know, with a body",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: later\r\nContent-Length: 5\r\n\r\nhello"
    ),
];

/// The client closes its half within a message or after it.
const CUT: &[Case] = &[
    case("9112 8", "cut in a head", b"GET / HTTP/1.1\r\nHost: a\r\n", &[]).half_close(),
    case(
        "9112 8",
        "cut in a body with a length",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
        &[Status(400)],
    )
    .half_close(),
    case(
        "9112 8",
        "cut in a chunk",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        &[Status(400)],
    )
    .half_close(),
    case(
        "9112 8",
        "cut before the last chunk",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        &[Status(400)],
    )
    .half_close(),
    case(
        "9112 8",
        "cut in trailers",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n",
        &[Status(400)],
    )
    .half_close(),
    case(
        "9112 9.6",
        "a complete request is answered after the client closed its half",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Takes("GET / host=a")],
    )
    .half_close(),
    case(
        "9112 9.6",
        "so are several",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nPOST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        &[Takes("GET /1 host=a"), Takes("POST /2 host=a body=hi")],
    )
    .half_close(),
];
