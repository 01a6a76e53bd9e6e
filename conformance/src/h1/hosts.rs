//! Host.

use super::{Case, Group, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group { title: "Host", before: b"GET / HTTP/1.1\r\nHost: ", cases: VALUES, after: b"\r\n\r\n" },
    Group::raw("Host, missing and repeated", WHOLE),
];

/// Values of the one Host field.
const VALUES: &[Case] = &[
    taken!("9110 7.2", "a name", b"example.org", "GET / host=example.org"),
    taken!("9110 7.2", "a name and a port", b"example.org:8080", "GET / host=example.org:8080"),
    taken!("9110 7.2", "an IPv4 address", b"127.0.0.1", "GET / host=127.0.0.1"),
    taken!("9110 7.2", "an IPv6 address and a port", b"[::ffff:1.2.3.4]:80", "GET / host=[::ffff:1.2.3.4]:80"),
    taken!("3986 3.2.2", "underscore and sub-delims", b"a_b!$&'()*+;=~", "GET / host=a_b!$&'()*+;=~"),
    taken!("9110 5.5", "white space around it", b" \ta \t", "GET / host=a"),
    refused!(400, "9112 3.2", "empty", b""),
    refused!(400, "9110 4.2.4", "userinfo", b"u@a"),
    refused!(400, "9110 7.2", "a path", b"a/b"),
    refused!(400, "9110 7.2", "a query", b"a?b"),
    refused!(400, "9110 7.2", "a fragment", b"a#b"),
    refused!(400, "9110 7.2", "a URI", b"http://a"),
    refused!(400, "9110 7.2", "a list", b"a, b"),
    refused!(400, "9110 7.2", "a comma", b"a,b"),
    refused!(400, "9110 7.2", "a space", b"a b"),
    refused!(400, "9110 7.2", "a tab", b"a\tb"),
    refused!(400, "3986 3.2.2", "a backslash", b"a\\b"),
    refused!(400, "3986 3.2.2", "percent-encoding", b"a%2eb"),
    refused!(400, "3986 3.2.2", "obs-text", b"\xe9"),
    refused!(400, "3986 3.2.2", "quotes", b"\"a\""),
    refused!(400, "3986 3.2.2", "< and >", b"<a>"),
    refused!(400, "3986 3.2.3", "a port that is no number", b"a:b"),
    refused!(400, "3986 3.2.3", "an empty port", b"a:"),
    refused!(400, "3986 3.2.3", "a port too large", b"a:65536"),
    refused!(400, "3986 3.2.3", "a port with a sign", b"a:+80"),
    refused!(400, "3986 3.2.3", "two ports", b"a:80:80"),
    refused!(400, "3986 3.2.3", "a port alone", b":80"),
    refused!(400, "3986 3.2.2", "IPv6 without brackets", b"::1"),
    refused!(400, "3986 3.2.2", "a bracket that is not closed", b"[::1"),
    refused!(400, "3986 3.2.2", "empty brackets", b"[]"),
    refused!(400, "3986 3.2.2", "a name in brackets", b"[a.b]"),
    refused!(400, "3986 3.2.2", "too many groups", b"[1:2:3:4:5:6:7:8:9]"),
    refused!(400, "3986 3.2.2", "a zone", b"[fe80::1%25eth0]"),
    refused!(400, "3986 3.2.2", "something after brackets", b"[::1]a"),
];

const WHOLE: &[Case] = &[
    refused!(400, "9112 3.2", "no Host in HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n"),
    refused!(400, "9112 3.2", "no Host with absolute-form", b"GET http://a/ HTTP/1.1\r\n\r\n"),
    refused!(400, "9112 3.2", "no Host with CONNECT", b"CONNECT a:1 HTTP/1.1\r\n\r\n"),
    refused!(400, "9112 3.2", "an invalid Host beside absolute-form", b"GET http://a/ HTTP/1.1\r\nHost: b@c\r\n\r\n"),
    refused!(400, "9112 3.2", "two Hosts", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    refused!(400, "9112 3.2", "the same Host twice", b"GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n"),
    refused!(400, "9112 3.2", "an empty Host and another", b"GET / HTTP/1.1\r\nHost:\r\nHost: a\r\n\r\n"),
    taken!("9112 3.2", "no Host in HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n", "GET /").closes(),
    refused!(400, "9112 3.2", "an empty Host in HTTP/1.0", b"GET / HTTP/1.0\r\nHost:\r\n\r\n"),
    refused!(400, "9112 3.2", "two Hosts in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
];
