//! Line ends, empty lines, and what comes where a request should begin.

use super::{Case, Group, refused, taken};

pub(super) const GROUPS: &[Group] = &[Group::raw("Line ends, and where a request begins", CASES)];

const CASES: &[Case] = &[
    taken!(
        "9112 2.2",
        "one empty line before a request line",
        b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / host=a"
    ),
    taken!(
        "9112 2.2",
        "two empty lines before a request line",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / host=a"
    ),
    refused!(
        400,
        "9112 2.2",
        "three empty lines before a request line",
        b"\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    ),
    refused!(400, "9112 2.2", "LF alone before a request line", b"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "CR alone before a request line", b"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone ends the request line", b"GET / HTTP/1.1\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "CR alone ends the request line", b"GET / HTTP/1.1\rHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone ends a field line", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"),
    refused!(400, "9112 2.2", "CR alone ends a field line", b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone ends the head", b"GET / HTTP/1.1\r\nHost: a\r\n\n"),
    refused!(400, "9112 2.2", "CR alone ends the head", b"GET / HTTP/1.1\r\nHost: a\r\n\rX"),
    refused!(400, "9112 2.2", "LF alone throughout", b"GET / HTTP/1.1\nHost: a\n\n"),
    refused!(400, "9112 2.2", "two CR before LF", b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "two CR before LF in a field line", b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n"),
    refused!(400, "9112 2.2", "CR in a target", b"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "LF in a target", b"GET /\n HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "CR in a field name", b"GET / HTTP/1.1\r\nHost: a\r\nX\rY: z\r\n\r\n"),
    refused!(400, "9112 2.2", "CR in a field value", b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rz\r\n\r\n"),
    refused!(400, "9112 2.2", "space before the request line", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "space before the first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    refused!(400, "9112 2.2", "tab before the first field", b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
    refused!(
        400,
        "9112 2.2",
        "white space before a Host that hides another",
        b"GET / HTTP/1.1\r\n Host: b\r\nHost: a\r\n\r\n"
    ),
    refused!(400, "9112 2.2", "NUL before the request line", b"\0GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(400, "9112 2.2", "the start of a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    refused!(400, "9112 2.1", "an answer where a request should be", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    refused!(400, "9112 3", "a form feed before the request line", b"\x0cGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    refused!(
        400,
        "9112 3",
        "a byte order mark before the request line",
        b"\xef\xbb\xbfGET / HTTP/1.1\r\nHost: a\r\n\r\n"
    ),
];
