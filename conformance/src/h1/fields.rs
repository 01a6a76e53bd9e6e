//! Field lines, and the fields that say what becomes of the connection.

use super::{Case, Group, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group { before: b"GET / HTTP/1.1\r\nHost: a\r\n", title: "Field lines", cases: SYNTAX, after: b"\r\n\r\n" },
    Group {
        before: b"GET / HTTP/1.1\r\nHost: a\r\n",
        title: "Connection, Upgrade, Expect",
        cases: CONNECTION,
        after: b"\r\n\r\n",
    },
    Group { before: b"GET / HTTP/1.0\r\n", title: "The same in HTTP/1.0", cases: CONNECTION_10, after: b"\r\n\r\n" },
];

const SYNTAX: &[Case] = &[
    taken!("9110 5.6.2", "every byte of a token in a name", b"!#$%&'*+-.^_`|~09azAZ: z", "GET / host=a"),
    taken!("9110 5.5", "colon and tab in a value", b"X: a:b\tc", "GET / host=a"),
    taken!("9110 5.5", "obs-text in a value", b"X: \xe9\xff", "GET / host=a"),
    taken!("9110 5.5", "empty value", b"X:", "GET / host=a"),
    taken!("9112 5.1", "no space after the colon", b"X:y", "GET / host=a"),
    taken!("9110 5.3", "a field that comes twice", b"X: a\r\nX: b", "GET / host=a"),
    refused!(400, "9112 5.1", "space before the colon", b"X : y"),
    refused!(400, "9112 5.1", "tab before the colon", b"X\t: y"),
    refused!(400, "9112 5.2", "obs-fold", b"X: y\r\n z"),
    refused!(400, "9112 5.2", "obs-fold with a tab", b"X: y\r\n\tz"),
    refused!(400, "9112 5.2", "obs-fold with nothing behind it", b"X: y\r\n "),
    refused!(400, "9112 5.2", "space before a field line", b"X: y\r\n Z: z"),
    refused!(400, "9112 5", "no colon", b"X"),
    refused!(400, "9112 5", "empty name", b": y"),
    refused!(400, "9110 5.1", "space in a name", b"X Y: z"),
    refused!(400, "9110 5.1", "control byte in a name", b"X\x01: y"),
    refused!(400, "9110 5.1", "obs-text in a name", b"X\xe9: y"),
    refused!(400, "9110 5.1", "brackets in a name", b"X[0]: y"),
    refused!(400, "9110 5.1", "quotes in a name", b"\"X\": y"),
    refused!(400, "9110 5.1", "NUL in a name", b"X\0: y"),
    refused!(400, "9110 5.5", "NUL in a value", b"X: a\0b"),
    refused!(400, "9110 5.5", "control byte in a value", b"X: a\x01b"),
    refused!(400, "9110 5.5", "DEL in a value", b"X: a\x7fb"),
    refused!(400, "9110 5.5", "escape in a value", b"X: \x1b[31m"),
    refused!(400, "9110 5.5", "vertical tab in a value", b"X: a\x0bb"),
    refused!(400, "9112 3", "a request line among the fields", b"GET /b HTTP/1.1"),
];

const CONNECTION: &[Case] = &[
    taken!("9112 9.3", "close", b"Connection: close", "GET / host=a").closes(),
    taken!("9110 7.6.1", "an option in any case", b"connection: CLOSE", "GET / host=a").closes(),
    taken!("9112 9.3", "keep-alive says what holds anyway", b"Connection: keep-alive", "GET / host=a"),
    taken!("9112 9.3", "close wins", b"Connection: keep-alive, close", "GET / host=a").closes(),
    taken!("9112 9.3", "close wins in any order", b"Connection: close\r\nConnection: keep-alive", "GET / host=a")
        .closes(),
    taken!("9110 5.6.1", "empty members", b"Connection: ,, close ,", "GET / host=a").closes(),
    taken!("9110 7.6.1", "an option that we do not know", b"Connection: x-hop", "GET / host=a"),
    taken!("9110 7.6.1", "an option that only begins with close", b"Connection: closed", "GET / host=a"),
    refused!(400, "9110 7.6.1", "an option with a space", b"Connection: keep alive"),
    refused!(400, "9110 7.6.1", "an option that is no token", b"Connection: close;"),
    taken!(
        "9110 7.8",
        "an upgrade that the server does not take",
        b"Connection: upgrade\r\nUpgrade: x",
        "GET / host=a"
    ),
    taken!("9110 7.8", "Upgrade that Connection does not name", b"Upgrade: websocket", "GET / host=a"),
    taken!(
        "9110 7.8",
        "an upgrade to HTTP/2 that the server does not take",
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
        "GET / host=a"
    ),
    taken!("9110 10.1.1", "an expectation without a body means nothing", b"Expect: 100-continue", "GET / host=a"),
    refused!(417, "9110 10.1.1", "an expectation that HTTP does not know", b"Expect: 200-ok"),
    refused!(417, "9110 10.1.1", "one beside 100-continue", b"Expect: 100-continue, x=y"),
    refused!(417, "9110 10.1.1", "one before 100-continue", b"Expect: x\r\nExpect: 100-continue"),
    taken!("9110 10.1.4", "TE is for the answer", b"TE: trailers\r\nConnection: TE", "GET / host=a"),
];

const CONNECTION_10: &[Case] = &[
    taken!("9112 9.3", "keep-alive in HTTP/1.0", b"Connection: keep-alive", "GET /"),
    taken!("9112 9.3", "keep-alive in HTTP/1.0 in any case", b"Connection: Keep-Alive", "GET /"),
    taken!("9112 9.3", "close wins in HTTP/1.0", b"Connection: close, keep-alive", "GET /").closes(),
    taken!("9110 7.8", "an upgrade in HTTP/1.0 is not seen", b"Connection: upgrade\r\nUpgrade: x", "GET /").closes(),
    taken!("9110 10.1.1", "an expectation in HTTP/1.0 is not seen", b"Expect: x", "GET /").closes(),
];
