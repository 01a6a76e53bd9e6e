//! One case for each rule of a request head, with the section it follows.

use super::super::*;
use crate::Error::{self, *};

/// Input, and what must come of it.
struct Case(&'static str, &'static [u8], Want);

enum Want {
    /// The description of what was parsed, see `describe`.
    Takes(&'static str),
    Refuses(Error),
}
use Want::{Refuses, Takes};

/// Whole heads that are about the request line; `Host: a` and the empty line are added.
const REQUEST_LINES: &[Case] = &[
    Case("9112 3: origin-form", b"GET / HTTP/1.1", Takes("GET Origin / host=a None keep")),
    Case("9112 3.2.1: query", b"GET /p?a=1&b=%20? HTTP/1.1", Takes("GET Origin /p ?a=1&b=%20? host=a None keep")),
    Case("9112 3.2.1: empty query", b"GET /? HTTP/1.1", Takes("GET Origin / ? host=a None keep")),
    Case(
        "9112 3.2.1: browsers send these raw",
        b"GET /a|b^c{\"}\\?|^`{}\\ HTTP/1.1",
        Takes("GET Origin /a|b^c{\"}\\ ?|^`{}\\ host=a None keep"),
    ),
    Case("9112 3.2.1: two slashes", b"GET //a/../b HTTP/1.1", Takes("GET Origin //a/../b host=a None keep")),
    Case(
        "9112 3.2.2: absolute-form wins over Host",
        b"GET http://b:80/p?q HTTP/1.1",
        Takes("GET Absolute /p ?q host=b:80 None keep"),
    ),
    Case("9112 3.2.2: absolute-form without path", b"GET http://b HTTP/1.1", Takes("GET Absolute / host=b None keep")),
    Case(
        "9112 3.2.2: absolute-form, query only",
        b"GET https://b?q HTTP/1.1",
        Takes("GET Absolute / ?q host=b None keep"),
    ),
    Case("9110 4.2.3: scheme in any case", b"GET HTTP://b/ HTTP/1.1", Takes("GET Absolute / host=b None keep")),
    Case(
        "9112 3.2.4: OPTIONS of a server, absolute",
        b"OPTIONS http://b HTTP/1.1",
        Takes("OPTIONS Absolute * host=b None keep"),
    ),
    Case("9112 3.2.4: asterisk-form", b"OPTIONS * HTTP/1.1", Takes("OPTIONS Asterisk * host=a None keep")),
    Case("9112 3.2.3: authority-form", b"CONNECT b:443 HTTP/1.1", Takes("CONNECT Authority  host=b:443 None keep")),
    Case(
        "9112 3.2.3: authority-form, IPv6",
        b"CONNECT [::1]:443 HTTP/1.1",
        Takes("CONNECT Authority  host=[::1]:443 None keep"),
    ),
    Case("9110 9.1: method of our own", b"M-SEARCH / HTTP/1.1", Takes("M-SEARCH Origin / host=a None keep")),
    Case("9110 9.1: case matters", b"get / HTTP/1.1", Takes("get Origin / host=a None keep")),
    Case(
        "9110 9.1: longest registered method",
        b"UPDATEREDIRECTREF / HTTP/1.1",
        Takes("UPDATEREDIRECTREF Origin / host=a None keep"),
    ),
    Case("9110 9.3.2: HEAD", b"HEAD / HTTP/1.1", Takes("HEAD Origin / host=a None keep")),
    Case("9112 9.3: HTTP/1.0 closes", b"GET / HTTP/1.0", Takes("GET Origin / host=a 1.0 None close")),
    Case("9112 3: method of 33 bytes", b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1", Refuses(MethodTooLong)),
    Case("9112 3: empty method", b" / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3.1: method with a slash", b"GE/T / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3.1: method with a colon", b"GET: / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3.1: method with obs-text", b"G\xc3\x89T / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3.1: method in brackets", b"(GET) / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3: TLS hello", b"\x16\x03\x01\x02 / HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3: two spaces before the target", b"GET  / HTTP/1.1", Refuses(RequestLineInvalid)),
    Case("9112 3: two spaces before the version", b"GET /  HTTP/1.1", Refuses(VersionInvalid)),
    Case("9112 3: tab for a space", b"GET\t/ HTTP/1.1", Refuses(MethodInvalid)),
    Case("9112 3: tab before the version", b"GET /\tHTTP/1.1", Refuses(RequestLineInvalid)),
    Case("9112 3: space at the end", b"GET / HTTP/1.1 ", Refuses(VersionInvalid)),
    Case("9112 3: HTTP/0.9", b"GET /", Refuses(RequestLineInvalid)),
    Case("9112 3: method alone", b"GET", Refuses(RequestLineInvalid)),
    Case("9112 3: no target", b"GET HTTP/1.1", Refuses(RequestLineInvalid)),
    Case("9112 3: a space in the target", b"GET /a b HTTP/1.1", Refuses(VersionInvalid)),
    Case("9112 3.2: control byte in the target", b"GET /\x01 HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: DEL in the target", b"GET /\x7f HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: obs-text in the target", b"GET /\xc3\xa9 HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: invalid UTF-8 in the target", b"GET /\xff HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: fragment", b"GET /a#b HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: fragment after a query", b"GET /a?b#c HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2.1: escapes", b"GET /%41%2f%2E%00 HTTP/1.1", Takes("GET Origin /%41%2f%2E%00 host=a None keep")),
    Case("3986 2.1: escape cut short", b"GET /% HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2.1: escape cut short by the query", b"GET /%4?1 HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2.1: escape that is not hexadecimal", b"GET /a%2gb HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2.1: escape in absolute-form", b"GET http://b/%zz HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2.1: % in a query", b"GET /?a=100% HTTP/1.1", Takes("GET Origin / ?a=100% host=a None keep")),
    Case("3986 2: < in a path", b"GET /<a HTTP/1.1", Refuses(TargetInvalid)),
    Case("3986 2: > in a query", b"GET /?a> HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: relative path", b"GET a/b HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2: query alone", b"GET ?a HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2.4: GET *", b"GET * HTTP/1.1", Refuses(TargetFormInvalid)),
    Case("9112 3.2.4: something after *", b"OPTIONS *a HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2.3: GET of an authority", b"GET b:443 HTTP/1.1", Refuses(TargetFormInvalid)),
    Case("9112 3.2.3: CONNECT of a path", b"CONNECT /a HTTP/1.1", Refuses(TargetFormInvalid)),
    Case("9112 3.2.3: CONNECT *", b"CONNECT * HTTP/1.1", Refuses(TargetFormInvalid)),
    Case("9110 9.3.6: CONNECT without a port", b"CONNECT b HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 9.3.6: CONNECT with an empty port", b"CONNECT b: HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 9.3.6: CONNECT of a URI", b"CONNECT http://b:1/ HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 9.3.6: CONNECT with userinfo", b"CONNECT u@b:443 HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 4.2.4: userinfo in a target", b"GET http://u:p@b/ HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 4.2.1: empty host in a target", b"GET http:///a HTTP/1.1", Refuses(TargetInvalid)),
    Case("9110 4.2: another scheme", b"GET ftp://b/ HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2.2: fragment in absolute-form", b"GET http://b/#f HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 3.2.2: comma in the authority", b"GET http://b,c/ HTTP/1.1", Refuses(TargetInvalid)),
    Case("9112 2.3: lower case", b"GET / http/1.1", Refuses(VersionInvalid)),
    Case("9112 2.3: no version number", b"GET / HTTP/", Refuses(VersionInvalid)),
    Case("9112 2.3: one number", b"GET / HTTP/1", Refuses(VersionInvalid)),
    Case("9112 2.3: two digits", b"GET / HTTP/1.10", Refuses(VersionInvalid)),
    Case("9112 2.3: leading zero", b"GET / HTTP/01.1", Refuses(VersionInvalid)),
    Case("9112 2.3: comma", b"GET / HTTP/1,1", Refuses(VersionInvalid)),
    Case("9112 2.3: another protocol", b"GET / HTCPCP/1.0", Refuses(VersionInvalid)),
    Case("9112 2.3: sign", b"GET / HTTP/+1.1", Refuses(VersionInvalid)),
    Case("9110 15.6.6: HTTP/2.0", b"GET / HTTP/2.0", Refuses(VersionUnsupported)),
    Case("9110 15.6.6: HTTP/0.9 spelled out", b"GET / HTTP/0.9", Refuses(VersionUnsupported)),
    Case("9110 15.6.6: HTTP/3.0", b"GET / HTTP/3.0", Refuses(VersionUnsupported)),
    Case("9110 2.5: a minor version that does not exist", b"GET / HTTP/1.2", Refuses(VersionUnsupported)),
    Case("9113 3.4: preface with a field is no preface", b"PRI * HTTP/2.0", Refuses(VersionUnsupported)),
    Case("9110 5.5: NUL in the request line", b"GET /\0 HTTP/1.1", Refuses(NulByte)),
    Case("9112 2.2: CR in the request line", b"GET /\r HTTP/1.1", Refuses(BareCr)),
    Case("9112 2.2: LF in the request line", b"GET /\n HTTP/1.1", Refuses(BareLf)),
];

/// Field lines after `POST / HTTP/1.1` and `Host: a`; CRLF and the empty line are added.
const FIELDS: &[Case] = &[
    Case("9112 6.2: length", b"Content-Length: 5", Takes("Length(5) keep")),
    Case("9112 6.2: length 0", b"content-length:0", Takes("Length(0) keep")),
    Case("9110 8.6: leading zeros are digits", b"Content-Length: 0005", Takes("Length(5) keep")),
    Case("9110 5.5: white space around a value", b"CONTENT-LENGTH: \t 5\t ", Takes("Length(5) keep")),
    Case("9110 8.6: largest length", b"Content-Length: 9223372036854775807", Takes("Length(9223372036854775807) keep")),
    Case("9110 8.6: longer than any body", b"Content-Length: 9223372036854775808", Refuses(ContentLengthOverflow)),
    Case("9110 8.6: all of 64 bits", b"Content-Length: 18446744073709551615", Refuses(ContentLengthOverflow)),
    Case("9110 8.6: overflow by one", b"Content-Length: 18446744073709551616", Refuses(ContentLengthOverflow)),
    Case("9110 8.6: overflow by far", b"Content-Length: 99999999999999999999999999", Refuses(ContentLengthOverflow)),
    Case("9110 8.6: plus", b"Content-Length: +5", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: minus", b"Content-Length: -0", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: hexadecimal", b"Content-Length: 0x5", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: underscore", b"Content-Length: 5_0", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: empty", b"Content-Length:", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: white space only", b"Content-Length:  ", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: inner space", b"Content-Length: 5 0", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: fraction", b"Content-Length: 5.0", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: exponent", b"Content-Length: 5e0", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: quoted", b"Content-Length: \"5\"", Refuses(ContentLengthInvalid)),
    Case("9110 8.6: digits of another script", b"Content-Length: \xd9\xa5", Refuses(ContentLengthInvalid)),
    Case("9112 6.3: two lengths", b"Content-Length: 5\r\nContent-Length: 6", Refuses(ContentLengthRepeated)),
    Case("9112 6.3: two equal lengths", b"Content-Length: 5\r\ncontent-length: 5", Refuses(ContentLengthRepeated)),
    Case("9112 6.3: list of equal lengths", b"Content-Length: 5, 5", Refuses(ContentLengthRepeated)),
    Case("9112 6.3: list with an empty member", b"Content-Length: 5,", Refuses(ContentLengthRepeated)),
    Case("9112 6.1: chunked", b"Transfer-Encoding: chunked", Takes("Chunked keep")),
    Case("9112 7: coding in any case", b"transfer-encoding:\tChUnKeD ", Takes("Chunked keep")),
    Case("9112 6.1: CL.TE", b"Content-Length: 5\r\nTransfer-Encoding: chunked", Refuses(ConflictingFraming)),
    Case("9112 6.1: TE.CL", b"Transfer-Encoding: chunked\r\nContent-Length: 5", Refuses(ConflictingFraming)),
    Case(
        "9112 6.1: length 0 is a length",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0",
        Refuses(ConflictingFraming),
    ),
    Case(
        "9112 6.1: length with an unsupported coding",
        b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 5",
        Refuses(ConflictingFraming),
    ),
    Case(
        "9112 7.1: chunked twice in one line",
        b"Transfer-Encoding: chunked, chunked",
        Refuses(TransferEncodingInvalid),
    ),
    Case(
        "9112 7.1: chunked twice in two lines",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        Refuses(TransferEncodingInvalid),
    ),
    Case("9112 6.3: chunked not last", b"Transfer-Encoding: chunked, gzip", Refuses(TransferEncodingInvalid)),
    Case(
        "9112 6.3: chunked not last, two lines",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        Refuses(TransferEncodingInvalid),
    ),
    Case("9112 6.3: no chunked", b"Transfer-Encoding: gzip", Refuses(TransferEncodingInvalid)),
    Case("9112 6.3: two codings, no chunked", b"Transfer-Encoding: gzip, deflate", Refuses(TransferEncodingInvalid)),
    Case(
        "9112 6.1: another coding under chunked",
        b"Transfer-Encoding: gzip, chunked",
        Refuses(TransferCodingUnsupported),
    ),
    Case(
        "9112 6.1: the same in two lines",
        b"Transfer-Encoding: deflate\r\nTransfer-Encoding: chunked",
        Refuses(TransferCodingUnsupported),
    ),
    Case("9112 7: identity is gone", b"Transfer-Encoding: identity", Refuses(TransferEncodingInvalid)),
    Case("9112 7: unknown coding", b"Transfer-Encoding: xchunked", Refuses(TransferEncodingInvalid)),
    Case("9112 7: coding with a parameter", b"Transfer-Encoding: chunked;q=1", Refuses(TransferEncodingInvalid)),
    Case("9112 7: quoted coding", b"Transfer-Encoding: \"chunked\"", Refuses(TransferEncodingInvalid)),
    Case("9112 7: space in a coding", b"Transfer-Encoding: chun ked", Refuses(TransferEncodingInvalid)),
    Case("9112 7: list with an empty member", b"Transfer-Encoding: chunked,", Refuses(TransferEncodingInvalid)),
    Case("9112 7: list with an empty first member", b"Transfer-Encoding: ,chunked", Refuses(TransferEncodingInvalid)),
    Case("9112 7: empty", b"Transfer-Encoding:", Refuses(TransferEncodingInvalid)),
    Case("9110 5.5: vertical tab before a coding", b"Transfer-Encoding: \x0bchunked", Refuses(FieldValueInvalid)),
    Case("9110 5.5: form feed after a coding", b"Transfer-Encoding: chunked\x0c", Refuses(FieldValueInvalid)),
    Case("9112 5.1: space before the colon", b"Transfer-Encoding : chunked", Refuses(SpaceBeforeColon)),
    Case("9112 5.1: tab before the colon", b"Content-Length\t: 5", Refuses(SpaceBeforeColon)),
    Case("9112 5.2: obs-fold", b"X: a\r\n b", Refuses(LeadingSpace)),
    Case("9112 5.2: obs-fold with a tab", b"Transfer-Encoding:\r\n\tchunked", Refuses(LeadingSpace)),
    Case("9112 5.2: line of white space", b"X: a\r\n ", Refuses(LeadingSpace)),
    Case("9112 5: no colon", b"X", Refuses(FieldNameInvalid)),
    Case("9112 5: empty name", b": x", Refuses(FieldNameInvalid)),
    Case("9110 5.1: space in a name", b"X Y: z", Refuses(FieldNameInvalid)),
    Case("9110 5.1: control byte in a name", b"X\x01: z", Refuses(FieldNameInvalid)),
    Case("9110 5.1: obs-text in a name", b"X\xe9: z", Refuses(FieldNameInvalid)),
    Case("9110 5.1: bracket in a name", b"X[0]: z", Refuses(FieldNameInvalid)),
    Case("9110 5.1: every tchar in a name", b"!#$%&'*+-.^_`|~09azAZ: z", Takes("None keep")),
    Case("9110 5.5: colon and tab in a value", b"X: a:b\tc", Takes("None keep")),
    Case("9110 5.5: obs-text in a value", b"X: \xe9\xff", Takes("None keep")),
    Case("9110 5.5: empty value", b"X:", Takes("None keep")),
    Case("9110 5.5: NUL in a value", b"X: a\0b", Refuses(NulByte)),
    Case("9110 5.5: control byte in a value", b"X: a\x01b", Refuses(FieldValueInvalid)),
    Case("9110 5.5: DEL in a value", b"X: a\x7fb", Refuses(FieldValueInvalid)),
    Case("9110 5.5: escape in a value", b"X: \x1b[31m", Refuses(FieldValueInvalid)),
    Case("9112 2.2: CR in a value", b"X: a\rb", Refuses(BareCr)),
    Case("9112 2.2: LF ends a line", b"X: a\nY: b", Refuses(BareLf)),
    Case("9112 2.2: two CR", b"X: a\r\r", Refuses(BareCr)),
    Case("9112 2.2: CR in a name", b"X\rY: a", Refuses(BareCr)),
    Case("9112 3.2: Host repeated", b"Host: a", Refuses(HostRepeated)),
    Case("9112 3.2: another Host", b"hOST: b", Refuses(HostRepeated)),
    Case("9112 9.3: close", b"Connection: close", Takes("None close")),
    Case("9110 7.6.1: option in any case", b"connection: CLOSE", Takes("None close")),
    Case("9112 9.3: keep-alive says what holds anyway", b"Connection: keep-alive", Takes("None keep")),
    Case("9112 9.3: close wins", b"Connection: keep-alive, close", Takes("None close")),
    Case("9112 9.3: close wins in any order", b"Connection: close\r\nConnection: keep-alive", Takes("None close")),
    Case("9110 5.6.1: empty members", b"Connection: ,, close ,", Takes("None close")),
    Case("9110 7.6.1: unknown option", b"Connection: x-hop", Takes("None keep")),
    Case("9110 7.6.1: an option that only begins with close", b"Connection: closed", Takes("None keep")),
    Case("9110 7.6.1: option with a space", b"Connection: keep alive", Refuses(ConnectionInvalid)),
    Case("9110 7.6.1: option that is no token", b"Connection: close;", Refuses(ConnectionInvalid)),
    Case("9110 7.8: upgrade", b"Connection: Upgrade\r\nUpgrade: websocket", Takes("None keep upgrade=websocket")),
    Case(
        "9110 7.8: upgrade among others",
        b"Upgrade: websocket, h2c\r\nConnection: keep-alive, upgrade",
        Takes("None keep upgrade=websocket, h2c"),
    ),
    Case("9110 7.8: Upgrade without Connection", b"Upgrade: websocket", Takes("None keep")),
    Case("9110 7.8: Connection without Upgrade", b"Connection: upgrade", Takes("None keep")),
    Case("9110 7.8: empty Upgrade", b"Connection: upgrade\r\nUpgrade:", Takes("None keep")),
    Case(
        "9110 10.1.1: expectation with a body",
        b"Expect: 100-continue\r\nContent-Length: 1",
        Takes("Length(1) keep expect"),
    ),
    Case(
        "9110 10.1.1: in any case",
        b"expect: 100-Continue\r\nTransfer-Encoding: chunked",
        Takes("Chunked keep expect"),
    ),
    Case("9110 10.1.1: without a body it means nothing", b"Expect: 100-continue", Takes("None keep")),
    Case("9110 10.1.1: with an empty body too", b"Expect: 100-continue\r\nContent-Length: 0", Takes("Length(0) keep")),
    Case("9110 10.1.1: another expectation", b"Expect: 200-ok", Refuses(ExpectationUnknown)),
    Case(
        "9110 10.1.1: another beside it",
        b"Expect: 100-continue, x=y\r\nContent-Length: 1",
        Refuses(ExpectationUnknown),
    ),
    Case(
        "9110 10.1.1: another before it",
        b"Expect: x\r\nExpect: 100-continue\r\nContent-Length: 1",
        Refuses(ExpectationUnknown),
    ),
    // Names as long as those that mean something.
    Case("9110 5.1: 4 letters are no Host", b"From: a@b", Takes("None keep")),
    Case("9110 5.1: 6 letters are no Expect", b"Cookie: a=b", Takes("None keep")),
    Case(
        "9110 5.1: 7 letters are no Upgrade",
        b"Trailer: sum\r\nConnection: upgrade\r\nUpgrade: websocket",
        Takes("None keep upgrade=websocket"),
    ),
    Case("9110 5.1: 10 letters are no Connection", b"User-Agent: close", Takes("None keep")),
    Case("9110 5.1: 14 letters are no length", b"Accept-Charset: 5", Takes("None keep")),
    Case("9110 5.1: 17 letters are no coding", b"If-Modified-Since: chunked", Takes("None keep")),
];

/// Values of Host in HTTP/1.1.
const HOSTS: &[Case] = &[
    Case("9110 7.2: name", b"example.org", Takes("host=example.org None keep")),
    Case("9110 7.2: name and port", b"example.org:8080", Takes("host=example.org:8080 None keep")),
    Case("9110 7.2: IPv4", b"127.0.0.1", Takes("host=127.0.0.1 None keep")),
    Case("9110 7.2: IPv6", b"[::1]", Takes("host=[::1] None keep")),
    Case("9110 7.2: IPv6 with IPv4 and port", b"[::ffff:1.2.3.4]:80", Takes("host=[::ffff:1.2.3.4]:80 None keep")),
    Case("3986 3.2.2: underscore and sub-delims", b"a_b!$&'()*+;=~", Takes("host=a_b!$&'()*+;=~ None keep")),
    Case("3986 3.2.3: largest port", b"a:65535", Takes("host=a:65535 None keep")),
    Case("9112 3.2: empty", b"", Refuses(HostInvalid)),
    Case("9110 4.2.4: userinfo", b"u@a", Refuses(HostInvalid)),
    Case("9112 3.2: path", b"a/b", Refuses(HostInvalid)),
    Case("9112 3.2: query", b"a?b", Refuses(HostInvalid)),
    Case("9112 3.2: fragment", b"a#b", Refuses(HostInvalid)),
    Case("9112 3.2: URI", b"http://a", Refuses(HostInvalid)),
    Case("9112 3.2: list", b"a, b", Refuses(HostInvalid)),
    Case("9112 3.2: comma", b"a,b", Refuses(HostInvalid)),
    Case("9112 3.2: space", b"a b", Refuses(HostInvalid)),
    Case("9112 3.2: tab", b"a\tb", Refuses(HostInvalid)),
    Case("3986 3.2.2: backslash", b"a\\b", Refuses(HostInvalid)),
    Case("3986 3.2.2: percent-encoding", b"a%2eb", Refuses(HostInvalid)),
    Case("3986 3.2.2: obs-text", b"\xe9", Refuses(HostInvalid)),
    Case("3986 3.2.2: quotes", b"\"a\"", Refuses(HostInvalid)),
    Case("3986 3.2.3: port that is no number", b"a:b", Refuses(HostInvalid)),
    Case("3986 3.2.3: empty port", b"a:", Refuses(HostInvalid)),
    Case("3986 3.2.3: port too large", b"a:65536", Refuses(HostInvalid)),
    Case("3986 3.2.3: port with a sign", b"a:+80", Refuses(HostInvalid)),
    Case("3986 3.2.3: two ports", b"a:80:80", Refuses(HostInvalid)),
    Case("3986 3.2.3: port alone", b":80", Refuses(HostInvalid)),
    Case("3986 3.2.2: IPv6 without brackets", b"::1", Refuses(HostInvalid)),
    Case("3986 3.2.2: bracket not closed", b"[::1", Refuses(HostInvalid)),
    Case("3986 3.2.2: empty brackets", b"[]", Refuses(HostInvalid)),
    Case("3986 3.2.2: name in brackets", b"[a.b]", Refuses(HostInvalid)),
    Case("3986 3.2.2: too many groups", b"[1:2:3:4:5:6:7:8:9]", Refuses(HostInvalid)),
    Case("3986 3.2.2: two gaps", b"[1::2::3]", Refuses(HostInvalid)),
    Case("3986 3.2.2: IPv4 in brackets", b"[127.0.0.1]", Refuses(HostInvalid)),
    Case("3986 3.2.2: a version of the future", b"[v1.a]", Refuses(HostInvalid)),
    Case("3986 3.2.2: zone", b"[fe80::1%25eth0]", Refuses(HostInvalid)),
    Case("3986 3.2.2: something after brackets", b"[::1]a", Refuses(HostInvalid)),
];

/// Everything that a connection received, as it is.
const RAW: &[Case] = &[
    Case("9112 3.2: no Host in HTTP/1.1", b"GET / HTTP/1.1\r\n\r\n", Refuses(HostMissing)),
    Case("9112 3.2: no Host in absolute-form", b"GET http://a/ HTTP/1.1\r\n\r\n", Refuses(HostMissing)),
    Case("9112 3.2: no Host for CONNECT", b"CONNECT a:1 HTTP/1.1\r\n\r\n", Refuses(HostMissing)),
    Case(
        "9112 3.2: invalid Host in absolute-form",
        b"GET http://a/ HTTP/1.1\r\nHost: b@c\r\n\r\n",
        Refuses(HostInvalid),
    ),
    Case("9112 3.2: no Host in HTTP/1.0", b"GET / HTTP/1.0\r\n\r\n", Takes("GET Origin / 1.0 None close")),
    Case("9112 3.2: empty Host in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: \r\n\r\n", Refuses(HostInvalid)),
    Case(
        "9112 9.3: keep-alive in HTTP/1.0",
        b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        Takes("GET Origin / 1.0 None keep"),
    ),
    Case(
        "9112 9.3: both in HTTP/1.0",
        b"GET / HTTP/1.0\r\nConnection: close, keep-alive\r\n\r\n",
        Takes("GET Origin / 1.0 None close"),
    ),
    Case(
        "9112 6.1: chunked in HTTP/1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        Refuses(TransferEncodingInHttp10),
    ),
    Case(
        "9112 6.1: any coding in HTTP/1.0",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n",
        Refuses(TransferEncodingInHttp10),
    ),
    Case(
        "9112 6.2: length in HTTP/1.0",
        b"POST / HTTP/1.0\r\nContent-Length: 3\r\n\r\n",
        Takes("POST Origin / 1.0 Length(3) close"),
    ),
    Case(
        "9110 10.1.1: expectation in HTTP/1.0",
        b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
        Takes("POST Origin / 1.0 Length(3) close"),
    ),
    Case(
        "9110 10.1.1: unknown expectation in HTTP/1.0",
        b"POST / HTTP/1.0\r\nExpect: x\r\n\r\n",
        Takes("POST Origin / 1.0 None close"),
    ),
    Case(
        "9110 7.8: upgrade in HTTP/1.0",
        b"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        Takes("GET Origin / 1.0 None close"),
    ),
    Case(
        "9110 9.3.1: GET with a body",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        Takes("GET Origin / host=a Length(3) keep"),
    ),
    Case(
        "9110 9.3.6: CONNECT with a body",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\n",
        Refuses(RequestBodyNotAllowed),
    ),
    Case(
        "9110 9.3.6: CONNECT with chunks",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n",
        Refuses(RequestBodyNotAllowed),
    ),
    Case(
        "9110 9.3.6: CONNECT with length 0",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 0\r\n\r\n",
        Takes("CONNECT Authority  host=a:1 Length(0) keep"),
    ),
    Case(
        "9110 9.3.8: TRACE with a body",
        b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
        Refuses(RequestBodyNotAllowed),
    ),
    Case("9112 2.2: one empty line first", b"\r\nGET / HTTP/1.0\r\n\r\n", Takes("GET Origin / 1.0 None close")),
    Case("9112 2.2: two empty lines first", b"\r\n\r\nGET / HTTP/1.0\r\n\r\n", Takes("GET Origin / 1.0 None close")),
    Case("9112 2.2: three empty lines first", b"\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n", Refuses(LeadingLines)),
    Case("9112 2.2: LF first", b"\nGET / HTTP/1.0\r\n\r\n", Refuses(BareLf)),
    Case("9112 2.2: CR first", b"\rGET / HTTP/1.0\r\n\r\n", Refuses(BareCr)),
    Case("9112 2.2: LF after the request line", b"GET / HTTP/1.0\nHost: a\r\n\r\n", Refuses(BareLf)),
    Case("9112 2.2: CR after the request line", b"GET / HTTP/1.0\rHost: a\r\n\r\n", Refuses(BareCr)),
    Case("9112 2.2: LF for the empty line", b"GET / HTTP/1.0\r\nHost: a\r\n\n", Refuses(BareLf)),
    Case("9112 2.2: CR for the empty line", b"GET / HTTP/1.0\r\nHost: a\r\n\rX", Refuses(BareCr)),
    Case("9112 2.2: space before the first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", Refuses(LeadingSpace)),
    Case("9112 2.2: tab before the first field", b"GET / HTTP/1.1\r\n\tHost: a\r\n\r\n", Refuses(LeadingSpace)),
    Case("9112 2.2: space before the request line", b" GET / HTTP/1.0\r\n\r\n", Refuses(MethodInvalid)),
    Case("9110 5.5: NUL first", b"\0", Refuses(NulByte)),
    Case("9112 3: TLS hello, refused at its first byte", b"\x16", Refuses(MethodInvalid)),
    Case("9113 3.4: preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Refuses(Http2Preface)),
    Case("9113 3.4: preface after an empty line", b"\r\nPRI * HTTP/2.0\r\n\r\n", Refuses(VersionUnsupported)),
    Case(
        "9112 3: the next request stays",
        b"GET /1 HTTP/1.0\r\n\r\nGET /2 HTTP/1.0\r\n\r\n",
        Takes("GET Origin /1 1.0 None close"),
    ),
    Case("9112 2.1: response", b"HTTP/1.1 200 OK\r\n\r\n", Refuses(MethodInvalid)),
];

#[test]
fn each_rule_holds() {
    let failures: Vec<String> = cases()
        .filter_map(|(rule, input, want)| check(&input, want).err().map(|got| format!("{rule}: {got}")))
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(cases().count() >= 200, "{}", cases().count());
}

#[test]
fn each_rule_holds_however_the_head_is_split() {
    for (rule, input, _) in cases() {
        let whole = read(&input, &[]);
        for cut in 0..=input.len() {
            assert_eq!(read(&input, &[cut]), whole, "{rule}, cut at {cut}");
        }
        let single: Vec<usize> = (0..input.len()).collect();
        assert_eq!(read(&input, &single), whole, "{rule}, byte by byte");
    }
}

#[test]
fn errors_answer_with_the_status_of_their_rule() {
    let expected = [
        (BareLf, 400),
        (ConflictingFraming, 400),
        (MethodTooLong, 501),
        (TransferCodingUnsupported, 501),
        (VersionUnsupported, 505),
        (Http2Preface, 400),
        (RequestLineTooLong, 414),
        (HeadTooLarge, 431),
        (TooManyFields, 431),
        (TrailersTooLarge, 413),
        (ExpectationUnknown, 417),
        (StateMisuse, 500),
    ];
    for (error, status) in expected {
        assert_eq!(error.status().as_u16(), status, "{error}");
        assert_eq!(error.status().is_server_error(), status >= 500);
    }
}

#[test]
fn limits_are_exact() {
    let limits = crate::fuzz::small_limits();
    let line = |len: usize| format!("GET /{} HTTP/1.0\r\n\r\n", "a".repeat(len - "GET / HTTP/1.0".len()));
    assert!(read_with(line(limits.request_line_bytes()).as_bytes(), &limits, &[]).is_ok());
    assert_eq!(read_with(line(limits.request_line_bytes() + 1).as_bytes(), &limits, &[]), Err(RequestLineTooLong));
    let fields = |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "X: y\r\n".repeat(count));
    assert!(read_with(fields(limits.fields()).as_bytes(), &limits, &[]).is_ok());
    assert_eq!(read_with(fields(limits.fields() + 1).as_bytes(), &limits, &[]), Err(TooManyFields));
    let frame = "GET / HTTP/1.0\r\nX: \r\n\r\n".len();
    let head = |len: usize| format!("GET / HTTP/1.0\r\nX: {}\r\n\r\n", "y".repeat(len - frame));
    assert!(read_with(head(limits.head_bytes()).as_bytes(), &limits, &[]).is_ok());
    for over in 1..8 {
        let input = head(limits.head_bytes() + over);
        assert_eq!(read_with(input.as_bytes(), &limits, &[]), Err(HeadTooLarge), "{over} over");
        let single: Vec<usize> = (0..input.len()).collect();
        assert_eq!(read_with(input.as_bytes(), &limits, &single), Err(HeadTooLarge), "{over} over, byte by byte");
    }
}

#[test]
fn limits_are_noticed_before_the_end_of_the_head() {
    let limits = crate::fuzz::small_limits();
    let endless = |start: &str| [start.as_bytes(), &[b'a'; 4_096]].concat();
    let first_error = |input: &[u8]| {
        let mut search = HeadSearch::default();
        (0..input.len()).find_map(|len| search.search(&input[..len], &limits).err().map(|error| (error, len)))
    };
    assert_eq!(first_error(&endless("GET /")), Some((RequestLineTooLong, limits.request_line_bytes() + 1)));
    assert_eq!(first_error(&endless("GET / HTTP/1.0\r\nX: ")), Some((HeadTooLarge, limits.head_bytes())));
}

#[test]
fn a_slow_peer_costs_no_more_than_a_fast_one() {
    let input = format!("GET / HTTP/1.0\r\n{}\r\n", format!("X: {}\r\n", "y".repeat(150)).repeat(100)).into_bytes();
    let limits = Limits::DEFAULT;
    let mut search = HeadSearch::default();
    let mut looked_at = 0;
    for len in 0..=input.len() {
        // A call looks at what it was given beyond what was searched.
        looked_at += len - search.searched();
        let found = search.search(&input[..len], &limits).expect("the head is valid");
        assert_eq!(found.is_some(), len == input.len());
    }
    assert!(looked_at <= input.len() + input.len() / 8, "{looked_at} of {}", input.len());
}

#[test]
fn a_search_that_skipped_empty_lines_has_not_started() {
    let mut search = HeadSearch::default();
    assert!(!search.started());
    assert_eq!(search.search(b"\r\n\r", &Limits::DEFAULT), Ok(None));
    assert!(!search.started());
    assert_eq!(search.discard_skipped(), 2);
    assert_eq!(search.search(b"\r\nG", &Limits::DEFAULT), Ok(None));
    assert!(search.started());
    assert_eq!((search.discard_skipped(), search.discard_skipped()), (2, 0));
    assert!(search.started());
    assert_eq!(search.search(b"GET / HTTP/1.0\r\n\r\n", &Limits::DEFAULT), Ok(Some(0..18)));
}

#[test]
fn discarded_empty_lines_still_count() {
    let mut search = HeadSearch::default();
    for _ in 0..LEADING_LINES_MAX {
        assert_eq!(search.search(b"\r\n", &Limits::DEFAULT), Ok(None));
        assert_eq!(search.discard_skipped(), 2);
    }
    assert_eq!(search.search(b"\r", &Limits::DEFAULT), Err(LeadingLines));
}

#[test]
fn a_search_is_remembered_by_its_empty_lines() {
    let mut search = HeadSearch::default();
    assert_eq!((search.search(b"\r\n", &Limits::DEFAULT), search.empty_lines()), (Ok(None), 1));
    for lines in 0..=LEADING_LINES_MAX {
        let mut search = HeadSearch::after_empty_lines(lines);
        assert_eq!((search.empty_lines(), search.started(), search.searched()), (lines, false, 0));
        let left = usize::from(LEADING_LINES_MAX - lines);
        assert_eq!(search.search(&b"\r\n".repeat(left), &Limits::DEFAULT), Ok(None));
        let mut again = search;
        let head = [&b"\r\n".repeat(left)[..], b"GET / HTTP/1.0\r\n\r\n"].concat();
        assert_eq!(search.search(&head, &Limits::DEFAULT), Ok(Some(2 * left..2 * left + 18)));
        assert_eq!(again.search(&b"\r\n".repeat(left + 1), &Limits::DEFAULT), Err(LeadingLines));
    }
}

#[test]
fn parse_head_checks_what_was_not_searched() {
    let mut slots = [FieldSlot::EMPTY; 4];
    let mut parse = |head: &[u8]| parse_head(head, &mut slots, &Limits::DEFAULT).map(|request| request.fields);
    assert_eq!(parse(b""), Err(RequestLineInvalid));
    assert_eq!(parse(b"GET / HTTP/1.0"), Err(BareCr));
    assert_eq!(parse(b"GET / HTTP/1.0\nX: y\r\n\r\n"), Err(BareLf));
    assert_eq!(parse(b"GET / HTTP/1.0\r\nX: y\n\r\n"), Err(BareLf));
    assert_eq!(parse(b"GET / HTTP/1.0\r\nX: y\r\n\n"), Err(BareLf));
    assert_eq!(parse(b"GET / HTTP/1.0\n\n"), Err(BareLf));
    assert_eq!(parse(b"GET /\0 HTTP/1.0\r\n\r\n"), Err(NulByte));
    assert_eq!(parse(b"GET / HTTP/1.0\r\nX: a\rb\r\n\r\n"), Err(BareCr));
    assert!(parse(b"GET / HTTP/1.0\r\n\r\nmore").is_err());
    assert_eq!(parse(b"\r\nGET / HTTP/1.0\r\n\r\n"), Err(MethodInvalid));
    assert_eq!(parse(b"GET / HTTP/1.0\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\n\r\n"), Ok(4));
    assert_eq!(parse(b"GET / HTTP/1.0\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\ne: 5\r\n\r\n"), Err(TooManyFields));
}

#[test]
fn a_whole_head_is_taken_without_a_search_as_with_one() {
    let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
    for (rule, head, want) in cases() {
        let followed = [&head[..], b"GET /next HTTP/1.1\r\n"].concat();
        for input in [&head, &followed] {
            let found = parse_whole_head(input, &mut slots, &Limits::DEFAULT);
            let got = found.map(|(len, request)| {
                assert!(input[..len].ends_with(b"\r\n\r\n"), "{rule}");
                describe(&RequestView::new(&input[..len], &slots[..], &request))
            });
            // Empty lines before a head are the search's.
            let is_searched = input.starts_with(b"\r\n");
            assert_eq!(got, read(input, &[]).ok().filter(|_| !is_searched), "{rule}");
            assert!(!matches!(want, Refuses(_)) || got.is_none(), "{rule}");
        }
    }
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n";
    for end in 0..head.len() {
        assert_eq!(parse_whole_head(&head[..end], &mut slots, &Limits::DEFAULT), None, "{end} bytes");
    }
    for fields in [WHOLE_HEAD_FIELDS_MAX - 1, WHOLE_HEAD_FIELDS_MAX, WHOLE_HEAD_FIELDS_MAX + 1] {
        let head = ["GET / HTTP/1.0\r\n", &"a: 1\r\n".repeat(fields), "\r\n"].concat();
        let found = parse_whole_head(head.as_bytes(), &mut slots, &Limits::DEFAULT);
        assert_eq!(found.is_some(), fields <= WHOLE_HEAD_FIELDS_MAX, "{fields} fields");
    }
}

#[test]
fn a_view_reads_from_wherever_the_head_is() {
    let head = b"GET /x HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nx-a: 2\r\n\r\n".to_vec();
    let mut slots = vec![FieldSlot::EMPTY; 4];
    let request = parse_head(&head, &mut slots, &Limits::DEFAULT).expect("valid");
    let moved = head.clone();
    drop(head);
    let table: Vec<[u8; 8]> = slots.iter().map(|slot| slot.to_bytes()).collect();
    let view = RequestView::new(&moved, &table[..], &request);
    assert_eq!(view.fields_named("X-a").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(view.field("y"), None);
    assert_eq!((view.host(), view.query(), view.upgrade()), (Some("a"), None, None));
    assert_eq!(view.fields().map(|(name, _)| name).collect::<Vec<_>>(), ["Host", "X-A", "x-a"]);
    assert_eq!((view.head(), view.request(), view.fields().len()), (&moved[..], &request, 3));
}

/// Every case as rule, whole input, expectation.
fn cases() -> impl Iterator<Item = (&'static str, Vec<u8>, &'static Want)> {
    let around = |before: &'static str, cases: &'static [Case], after: &'static str| {
        cases
            .iter()
            .map(move |Case(rule, part, want)| (*rule, [before.as_bytes(), part, after.as_bytes()].concat(), want))
    };
    around("", REQUEST_LINES, "\r\nHost: a\r\n\r\n")
        .chain(around("POST / HTTP/1.1\r\nHost: a\r\n", FIELDS, "\r\n\r\n"))
        .chain(around("POST / HTTP/1.1\r\nHost: ", HOSTS, "\r\n\r\n"))
        .chain(around("", RAW, ""))
}

/// What was got instead, if it is not what is wanted.
fn check(input: &[u8], want: &Want) -> Result<(), String> {
    let got = read(input, &[]);
    let is_right = match (&got, want) {
        (Ok(got), Takes(description)) => {
            // The shorter descriptions leave out what the table says for all of its cases.
            let short = got.strip_prefix("POST Origin / ").unwrap_or(got);
            let shorter = short.strip_prefix("host=a ").unwrap_or(short);
            [got, short, shorter].contains(description)
        }
        (Err(error), Refuses(wanted)) => error == wanted,
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("{got:?}")) }
}

fn read(input: &[u8], cuts: &[usize]) -> Result<String, Error> {
    read_with(input, &Limits::DEFAULT, cuts)
}

fn read_with(input: &[u8], limits: &Limits, cuts: &[usize]) -> Result<String, Error> {
    let Some(range) = crate::fuzz::search(input, limits, cuts)? else {
        panic!("incomplete: {:?}", String::from_utf8_lossy(input));
    };
    let head = &input[range];
    let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
    let request = parse_head(head, &mut slots, limits)?;
    Ok(describe(&RequestView::new(head, &slots[..], &request)))
}

/// `METHOD Form path ?query host=HOST 1.0 Framing keep|close expect upgrade=..`, without what is not there.
fn describe(view: &RequestView<'_>) -> String {
    let request = view.request();
    let mut text = format!("{} {:?} {}", view.method(), request.form, view.path());
    let mut add = |part: String| {
        text.push(' ');
        text.push_str(&part);
    };
    view.query().into_iter().for_each(|query| add(format!("?{query}")));
    view.host().into_iter().for_each(|host| add(format!("host={host}")));
    if view.version() == http::Version::HTTP_10 {
        add("1.0".into());
    }
    add(format!("{:?}", request.framing));
    add(if request.keep_alive { "keep" } else { "close" }.into());
    if request.expect_continue {
        add("expect".into());
    }
    view.upgrade().into_iter().for_each(|upgrade| add(format!("upgrade={}", String::from_utf8_lossy(upgrade))));
    text
}
