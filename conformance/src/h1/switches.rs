//! Connections that leave HTTP: Upgrade (RFC 9110 7.8) and CONNECT (RFC 9110 9.3.6), where the server takes them and
//! where it does not.

use super::Answer::{Status, Switches, Takes};
use super::{Case, Group, case, refused, taken};

/// Cases for a handler that changes the protocol.
pub(super) const UPGRADE: &str = "Upgrade, where the handler takes it";
/// Cases for a handler that makes a tunnel.
pub(super) const TUNNEL: &str = "CONNECT, where the handler takes it";

pub(super) const GROUPS: &[Group] = &[
    Group::raw("Upgrade, where the server does not take it", IGNORED),
    Group {
        title: "CONNECT to what is no authority",
        before: b"CONNECT ",
        cases: CONNECT,
        after: b" HTTP/1.1\r\nHost: a\r\n\r\n",
    },
    Group { title: UPGRADE, before: b"", cases: UPGRADES, after: b"" },
    Group { title: TUNNEL, before: b"", cases: TUNNELS, after: b"" },
];

const IGNORED: &[Case] = &[
    taken!(
        "9110 7.8",
        "several protocols, none of them known",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: HTTP/2.0, SHTTP/1.3, IRC/6.9, RTA/x11\r\n\r\n",
        "GET / host=a"
    ),
    taken!(
        "9110 7.8",
        "Connection names an Upgrade that is not there",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",
        "GET / host=a"
    ),
    taken!(
        "9110 7.8",
        "an empty Upgrade",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade:\r\n\r\n",
        "GET / host=a"
    ),
    taken!(
        "9110 7.8",
        "a body with a length is one of HTTP",
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello",
        "POST / host=a body=hello"
    ),
    taken!(
        "9110 7.8",
        "so is one in chunks",
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "POST / host=a body=hello"
    ),
    taken!(
        "9110 7.8",
        "an upgrade in HTTP/1.0 with a body and keep-alive",
        b"POST / HTTP/1.0\r\nConnection: keep-alive, upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhello",
        "POST / body=hello"
    ),
    case(
        "9112 9.3",
        "close beside it closes",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close, upgrade\r\nUpgrade: x\r\n\r\n",
        &[Takes("GET / host=a")],
    )
    .closes(),
    refused!(
        400,
        "9112 6.1",
        "it excuses no other mistake",
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
];

const CONNECT: &[Case] = &[
    refused!(400, "9112 3.2.3", "without a host", b":443"),
    refused!(400, "9112 3.2.3", "with two ports", b"b:443:443"),
    refused!(400, "9112 3.2.3", "with a port that is no number", b"b:44a"),
    refused!(400, "9112 3.2.3", "with a sign before the port", b"b:+443"),
    refused!(400, "9112 3.2.3", "with a path behind it", b"b:443/"),
    refused!(400, "9112 3.2.3", "with a query behind it", b"b:443?q"),
    refused!(400, "9112 3.2.3", "of an IPv6 address without its brackets", b"::1:443"),
    refused!(400, "9112 3.2.3", "of an IPv6 address with one bracket", b"[::1:443"),
    refused!(400, "9112 3.2.3", "of an IPv6 address without a port", b"[::1]"),
    refused!(400, "9112 3.2.3", "of several", b"b:443,c:443"),
];

const UPGRADES: &[Case] = &[
    case(
        "9110 7.8",
        "what follows the 101 is of the other protocol, whatever it looks like",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Switches(101, "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")],
    )
    .half_close(),
    case(
        "9110 7.8",
        "nothing follows",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n",
        &[Switches(101, "")],
    )
    .half_close(),
    case(
        "9110 16.7",
        "names of protocols in any case",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nconnection: UPGRADE\r\nupgrade: ECHO/1\r\n\r\n\x00\x01",
        &[Switches(101, "\\x00\\x01")],
    )
    .half_close(),
    case(
        "9110 7.8",
        "the second of several protocols",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: other/2, echo/1\r\n\r\nraw",
        &[Switches(101, "raw")],
    )
    .half_close(),
    case(
        "9110 5.3",
        "several protocols in two lines",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: other/2\r\nUpgrade: echo/1\r\n\r\nraw",
        &[Switches(101, "raw")],
    )
    .half_close(),
    case(
        "9110 7.8",
        "a body with a length comes before the other protocol",
        b"POST /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\nContent-Length: 3\r\n\r\nabcraw",
        &[Switches(101, "raw")],
    )
    .half_close(),
    case(
        "9110 7.8",
        "so does one in chunks, with its trailers",
        b"POST /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\nTransfer-Encoding: chunked\r\n\r\n\
          3\r\nabc\r\n0\r\nA: b\r\n\r\n0\r\n\r\n",
        &[Switches(101, "0\\r\\n\\r\\n")],
    )
    .half_close(),
    case(
        "9110 8.6",
        "a body of no bytes, as Java's client sends it, is none",
        b"GET /upgrade HTTP/1.1\r\nContent-Length: 0\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\nraw",
        &[Switches(101, "raw")],
    )
    .half_close(),
    case(
        "9112 8",
        "cut in the body before it",
        b"POST /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\nContent-Length: 5\r\n\r\nabc",
        &[Status(400)],
    )
    .half_close(),
    case(
        "9112 9.3.2",
        "requests before it are answered first",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\nraw",
        &[Takes("GET /1 host=a"), Switches(101, "raw")],
    )
    .half_close(),
    case("9110 15.5.22", "not offered", b"GET /upgrade HTTP/1.1\r\nHost: a\r\n\r\n", &[Status(426)]).keeps(),
    case(
        "9110 7.8",
        "another version of it is offered",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/2\r\n\r\n",
        &[Status(426)],
    )
    .keeps(),
    case(
        "9110 7.8",
        "a name that only begins with it is offered",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo/11\r\n\r\n",
        &[Status(426)],
    )
    .keeps(),
    case(
        "9110 7.8",
        "without Connection it is for somebody else",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nUpgrade: echo/1\r\n\r\n",
        &[Status(426)],
    )
    .keeps(),
    case(
        "9110 7.8",
        "with another option of Connection, too",
        b"GET /upgrade HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nUpgrade: echo/1\r\n\r\n",
        &[Status(426)],
    )
    .keeps(),
    case(
        "9110 7.8",
        "in HTTP/1.0 it is not seen",
        b"GET /upgrade HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n",
        &[Status(426)],
    ),
    case(
        "9110 7.8",
        "a body behind an upgrade that is not taken is read",
        b"POST /upgrade HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 3\r\n\r\nabc",
        &[Status(426)],
    )
    .keeps(),
];

const TUNNELS: &[Case] = &[
    case(
        "9110 9.3.6",
        "what follows the 200, which has no length, goes through, whatever it looks like",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        &[Switches(200, "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")],
    )
    .half_close(),
    case(
        "9110 9.3.6",
        "a length of 0 is no body",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\nContent-Length: 0\r\n\r\nraw",
        &[Switches(200, "raw")],
    )
    .half_close(),
    case("9110 9.3.6", "nothing follows", b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\n\r\n", &[Switches(200, "")])
        .half_close(),
    case(
        "9110 9.3.6",
        "an empty line is not skipped",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\n\r\n\r\n\x16\x03",
        &[Switches(200, "\\r\\n\\x16\\x03")],
    )
    .half_close(),
    case(
        "9112 9.3.2",
        "requests before it are answered first",
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nCONNECT open:1 HTTP/1.1\r\nHost: open:1\r\n\r\nraw",
        &[Takes("GET /1 host=a"), Switches(200, "raw")],
    )
    .half_close(),
    case(
        "9110 7.8",
        "Upgrade beside it means nothing",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\nraw",
        &[Switches(200, "raw")],
    )
    .half_close(),
    refused!(
        400,
        "9110 9.3.6",
        "with a body",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\nContent-Length: 3\r\n\r\nraw"
    ),
    refused!(
        400,
        "9110 9.3.6",
        "with chunks",
        b"CONNECT open:1 HTTP/1.1\r\nHost: open:1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    refused!(400, "9112 3.2", "without Host", b"CONNECT open:1 HTTP/1.1\r\n\r\nraw"),
];
