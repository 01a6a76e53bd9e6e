//! Method, target and version.

use super::{Answer, Case, Group, case, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group { title: "Method", before: b"", cases: METHODS, after: b" / HTTP/1.1\r\nHost: a\r\n\r\n" },
    Group { title: "Request line", before: b"", cases: LINES, after: b"\r\nHost: a\r\n\r\n" },
    Group { title: "Target", before: b"GET ", cases: TARGETS, after: b" HTTP/1.1\r\nHost: a\r\n\r\n" },
    Group { title: "Version", before: b"GET / ", cases: VERSIONS, after: b"\r\nHost: a\r\n\r\n" },
    Group::raw("Other beginnings", WHOLE),
];

/// What stands before the space.
const METHODS: &[Case] = &[
    taken!("9110 9.3.1", "GET", b"GET", "GET / host=a"),
    taken!("9110 9.3.2", "HEAD is answered without a body", b"HEAD", "HEAD / host=a"),
    taken!("9110 9.3.5", "DELETE", b"DELETE", "DELETE / host=a"),
    taken!("9110 9.3.8", "TRACE without a body", b"TRACE", "TRACE / host=a"),
    taken!("9110 9.1", "a method that HTTP does not know", b"M-SEARCH", "M-SEARCH / host=a"),
    taken!("9110 9.1", "the case of a method matters", b"get", "get / host=a"),
    taken!(
        "9110 5.6.2",
        "every byte of a token in a method",
        b"!#$%&'*+-.^_`|~09azAZ",
        "!#$%&'*+-.^_`|~09azAZ / host=a"
    ),
    taken!("9112 3", "the longest registered method", b"UPDATEREDIRECTREF", "UPDATEREDIRECTREF / host=a"),
    refused!(501, "9112 3", "a method longer than any", b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG"),
    refused!(400, "9112 3.1", "empty method", b""),
    refused!(400, "9112 3.1", "a method with a slash", b"GE/T"),
    refused!(400, "9112 3.1", "a method with a colon", b"GET:"),
    refused!(400, "9112 3.1", "a method in brackets", b"(GET)"),
    refused!(400, "9112 3.1", "a method in quotes", b"\"GET\""),
    refused!(400, "9112 3.1", "a method with obs-text", b"G\xc3\x89T"),
    refused!(400, "9112 3.1", "a method with a control byte", b"G\x01T"),
    refused!(400, "9112 3.1", "a method with NUL", b"G\0T"),
];

/// Whole request lines.
const LINES: &[Case] = &[
    refused!(400, "9112 3", "two spaces before the target", b"GET  / HTTP/1.1"),
    refused!(400, "9112 3", "two spaces before the version", b"GET /  HTTP/1.1"),
    refused!(400, "9112 3", "tab before the target", b"GET\t/ HTTP/1.1"),
    refused!(400, "9112 3", "tab before the version", b"GET /\tHTTP/1.1"),
    refused!(400, "9112 3", "vertical tab before the version", b"GET /\x0bHTTP/1.1"),
    refused!(400, "9112 3", "space at the end of the line", b"GET / HTTP/1.1 "),
    refused!(400, "9112 3", "a space in the target", b"GET /a b HTTP/1.1"),
    refused!(400, "9112 3", "HTTP/0.9", b"GET /"),
    refused!(400, "9112 3", "a method alone", b"GET"),
    refused!(400, "9112 3", "no target", b"GET HTTP/1.1"),
    refused!(400, "9112 3", "four parts", b"GET / / HTTP/1.1"),
    taken!("9112 3.2.4", "OPTIONS * asks about the server", b"OPTIONS * HTTP/1.1", "OPTIONS * host=a"),
    taken!("9112 3.2.4", "OPTIONS of the server in absolute-form", b"OPTIONS http://b HTTP/1.1", "OPTIONS * host=b"),
    taken!("9112 3.2.1", "OPTIONS of a path", b"OPTIONS /p HTTP/1.1", "OPTIONS /p host=a"),
    refused!(400, "9112 3.2.4", "GET *", b"GET * HTTP/1.1"),
    refused!(400, "9112 3.2.4", "HEAD *", b"HEAD * HTTP/1.1"),
    refused!(400, "9112 3.2.4", "something after *", b"OPTIONS *a HTTP/1.1"),
    refused!(400, "9112 3.2.4", "a query after *", b"OPTIONS *?a HTTP/1.1"),
    case("9112 3.2.3", "CONNECT where the server does not take it", b"CONNECT b:443 HTTP/1.1", &[Answer::Status(405)]),
    case("9112 3.2.3", "CONNECT to an IPv6 address", b"CONNECT [::1]:443 HTTP/1.1", &[Answer::Status(405)]),
    refused!(400, "9112 3.2.3", "CONNECT of a path", b"CONNECT /a HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT *", b"CONNECT * HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT without a port", b"CONNECT b HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT with an empty port", b"CONNECT b: HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT with a port too large", b"CONNECT b:65536 HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT of a URI", b"CONNECT http://b:1/ HTTP/1.1"),
    refused!(400, "9112 3.2.3", "CONNECT with userinfo", b"CONNECT u@b:443 HTTP/1.1"),
    refused!(400, "9112 3.2.3", "authority-form with GET", b"GET b:443 HTTP/1.1"),
];

/// Targets of GET.
const TARGETS: &[Case] = &[
    taken!("9112 3.2.1", "path and query", b"/p/q?a=1&b=%20?", "GET /p/q ?a=1&b=%20? host=a"),
    taken!("9112 3.2.1", "empty query", b"/?", "GET / ? host=a"),
    taken!("9112 3.2.1", "dots and double slashes are left as they are", b"//a/../b", "GET //a/../b host=a"),
    taken!("3986 2.1", "percent-encoding is left as it is", b"/%41%2f%2E", "GET /%41%2f%2E host=a"),
    taken!("9112 3.2.2", "absolute-form, and its host wins", b"http://b:80/p?q", "GET /p ?q host=b:80"),
    taken!("9112 3.2.2", "absolute-form without a path", b"http://b", "GET / host=b"),
    taken!("9112 3.2.2", "absolute-form with a query alone", b"https://b?q", "GET / ?q host=b"),
    taken!("9110 4.2.3", "a scheme in any case", b"HTTP://b/", "GET / host=b"),
    refused!(400, "9112 3.2", "a relative path", b"a/b"),
    refused!(400, "9112 3.2", "a query alone", b"?a"),
    refused!(400, "9112 3.2", "a backslash first", b"\\a"),
    refused!(400, "9112 3.2", "a control byte", b"/\x01"),
    refused!(400, "9112 3.2", "NUL", b"/\0"),
    refused!(400, "9112 3.2", "DEL", b"/\x7f"),
    refused!(400, "9112 3.2", "obs-text", b"/\xc3\xa9"),
    refused!(400, "9112 3.2", "obs-text in a query", b"/?\xff"),
    refused!(400, "9110 4.1", "a fragment", b"/a#b"),
    refused!(400, "9110 4.1", "a fragment after a query", b"/a?b#c"),
    refused!(400, "3986 3.3", "< in a path", b"/<a"),
    refused!(400, "3986 3.4", "> in a query", b"/?a>"),
    refused!(400, "3986 2.1", "percent-encoding in a path that is cut short", b"/%"),
    refused!(400, "3986 2.1", "percent-encoding in a path with one digit", b"/a%2/b"),
    refused!(400, "3986 2.1", "percent-encoding in a path that is not hexadecimal", b"/%zz"),
    refused!(400, "3986 2.1", "percent-encoding of another kind", b"/%u002e"),
    refused!(400, "9110 4.2.4", "userinfo", b"http://u:p@b/"),
    refused!(400, "9110 4.2.1", "empty host", b"http:///a"),
    refused!(400, "9110 4.2.1", "no authority", b"http:/a"),
    refused!(400, "9110 4.2", "another scheme", b"ftp://b/"),
    refused!(400, "9112 3.2.2", "a fragment in absolute-form", b"http://b/#f"),
    refused!(400, "9112 3.2.2", "a comma in the authority", b"http://b,c/"),
    refused!(400, "9112 3.2.2", "a backslash in the authority", b"http://b\\c/"),
    refused!(400, "9112 3.2.2", "percent-encoding in the authority", b"http://b%2ec/"),
    refused!(400, "9112 3.2.2", "a port that is no number", b"http://b:x/"),
];

const VERSIONS: &[Case] = &[
    taken!("9112 9.3", "HTTP/1.0 is closed", b"HTTP/1.0", "GET / host=a").closes(),
    refused!(505, "9110 15.6.6", "HTTP/2.0", b"HTTP/2.0"),
    refused!(505, "9110 15.6.6", "HTTP/3.0", b"HTTP/3.0"),
    refused!(505, "9110 15.6.6", "HTTP/0.9 spelled out", b"HTTP/0.9"),
    refused!(505, "9110 2.5", "a minor version that does not exist", b"HTTP/1.2"),
    refused!(505, "9110 2.5", "a minor version of 9", b"HTTP/1.9"),
    refused!(400, "9112 2.3", "lower case", b"http/1.1"),
    refused!(400, "9112 2.3", "no number", b"HTTP/"),
    refused!(400, "9112 2.3", "one number", b"HTTP/1"),
    refused!(400, "9112 2.3", "two digits", b"HTTP/1.10"),
    refused!(400, "9112 2.3", "a leading zero", b"HTTP/01.1"),
    refused!(400, "9112 2.3", "a comma", b"HTTP/1,1"),
    refused!(400, "9112 2.3", "a sign", b"HTTP/+1.1"),
    refused!(400, "9112 2.3", "a space after the slash", b"HTTP/ 1.1"),
    refused!(400, "9112 2.3", "a version with something behind it", b"HTTP/1.1x"),
    refused!(400, "9112 2.3", "another protocol", b"HTCPCP/1.0"),
    refused!(400, "9112 2.3", "another protocol of the same length", b"ICAP/1.0"),
];

const WHOLE: &[Case] = &[
    refused!(400, "9113 3.4", "the preface of HTTP/2 where it is off", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    case("9112 8", "a request line that stops", b"GET / HTT", &[]).half_close(),
    case("9112 9.6", "nothing at all", b"", &[]).half_close(),
];
