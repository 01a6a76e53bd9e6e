//! Where a message ends: Content-Length and Transfer-Encoding.

use super::{Case, Group, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group {
        before: b"POST / HTTP/1.1\r\nHost: a\r\n",
        title: "Content-Length",
        cases: LENGTHS,
        after: b"\r\n\r\nhello",
    },
    Group {
        before: b"POST / HTTP/1.1\r\nHost: a\r\n",
        title: "Transfer-Encoding",
        cases: CODINGS,
        after: b"\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    },
    Group {
        before: b"POST / HTTP/1.1\r\nHost: a\r\n",
        title: "Both: request smuggling",
        cases: BOTH,
        after: b"\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
    },
    Group::raw("Bodies", WHOLE),
];

const LENGTHS: &[Case] = &[
    taken!("9112 6.2", "a length", b"Content-Length: 5", "POST / host=a body=hello"),
    taken!("9110 8.6", "leading zeros are digits", b"Content-Length: 0005", "POST / host=a body=hello"),
    taken!("9110 5.5", "white space around a length", b"CONTENT-LENGTH: \t 5\t ", "POST / host=a body=hello"),
    refused!(400, "9110 8.6", "a plus", b"Content-Length: +5"),
    refused!(400, "9110 8.6", "a minus", b"Content-Length: -5"),
    refused!(400, "9110 8.6", "a negative zero", b"Content-Length: -0"),
    refused!(400, "9110 8.6", "hexadecimal", b"Content-Length: 0x5"),
    refused!(400, "9110 8.6", "hexadecimal digits", b"Content-Length: a"),
    refused!(400, "9110 8.6", "an underscore", b"Content-Length: 5_0"),
    refused!(400, "9110 8.6", "empty", b"Content-Length:"),
    refused!(400, "9110 8.6", "white space alone", b"Content-Length:  "),
    refused!(400, "9110 8.6", "a space inside", b"Content-Length: 5 0"),
    refused!(400, "9110 8.6", "a fraction", b"Content-Length: 5.0"),
    refused!(400, "9110 8.6", "an exponent", b"Content-Length: 5e0"),
    refused!(400, "9110 8.6", "quotes", b"Content-Length: \"5\""),
    refused!(400, "9110 8.6", "digits of another script", b"Content-Length: \xd9\xa5"),
    refused!(400, "9110 8.6", "a parameter", b"Content-Length: 5;a=b"),
    refused!(400, "9110 8.6", "2^63: longer than any body", b"Content-Length: 9223372036854775808"),
    refused!(400, "9110 8.6", "2^64 - 1", b"Content-Length: 18446744073709551615"),
    refused!(400, "9110 8.6", "2^64", b"Content-Length: 18446744073709551616"),
    refused!(400, "9110 8.6", "2^64 + 5", b"Content-Length: 18446744073709551621"),
    refused!(400, "9110 8.6", "far more than 2^64", b"Content-Length: 99999999999999999999999999"),
    refused!(400, "9112 6.3", "two lengths", b"Content-Length: 5\r\nContent-Length: 6"),
    refused!(400, "9112 6.3", "the same length twice", b"Content-Length: 5\r\ncontent-length: 5"),
    refused!(400, "9112 6.3", "a list of equal lengths", b"Content-Length: 5, 5"),
    refused!(400, "9112 6.3", "a list of different lengths", b"Content-Length: 5,6"),
    refused!(400, "9112 6.3", "a list with an empty member", b"Content-Length: 5,"),
    refused!(400, "9112 5.1", "space before the colon of a length", b"Content-Length : 5"),
    refused!(400, "9112 5.2", "a folded length", b"Content-Length:\r\n 5"),
];

const CODINGS: &[Case] = &[
    taken!("9112 6.1", "chunked", b"Transfer-Encoding: chunked", "POST / host=a body=hello"),
    taken!("9112 7", "a coding in any case", b"transfer-encoding:\tChUnKeD ", "POST / host=a body=hello"),
    refused!(400, "9112 7.1", "chunked twice in a line", b"Transfer-Encoding: chunked, chunked"),
    refused!(
        400,
        "9112 7.1",
        "chunked twice in two lines",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"
    ),
    refused!(400, "9112 6.3", "chunked that is not last", b"Transfer-Encoding: chunked, gzip"),
    refused!(
        400,
        "9112 6.3",
        "chunked that is not last in two lines",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"
    ),
    refused!(400, "9112 6.3", "a known coding without chunked", b"Transfer-Encoding: gzip"),
    refused!(501, "9112 6.1", "a known coding under chunked", b"Transfer-Encoding: gzip, chunked"),
    refused!(
        501,
        "9112 6.1",
        "a known coding under chunked in two lines",
        b"Transfer-Encoding: deflate\r\nTransfer-Encoding: chunked"
    ),
    refused!(400, "9112 7", "identity", b"Transfer-Encoding: identity"),
    refused!(400, "9112 7", "identity, then chunked", b"Transfer-Encoding: identity, chunked"),
    refused!(400, "9112 7", "a coding that only ends with chunked", b"Transfer-Encoding: xchunked"),
    refused!(400, "9112 7", "a coding that only begins with chunked", b"Transfer-Encoding: chunkedx"),
    refused!(400, "9112 7", "chunked with a parameter", b"Transfer-Encoding: chunked;q=1"),
    refused!(400, "9112 7", "chunked in quotes", b"Transfer-Encoding: \"chunked\""),
    refused!(400, "9112 7", "a space inside", b"Transfer-Encoding: chun ked"),
    refused!(400, "9112 7", "an empty member at the end", b"Transfer-Encoding: chunked,"),
    refused!(400, "9112 7", "an empty member at the start", b"Transfer-Encoding: ,chunked"),
    refused!(400, "9112 7", "empty", b"Transfer-Encoding:"),
    refused!(400, "9110 5.5", "vertical tab before chunked", b"Transfer-Encoding: \x0bchunked"),
    refused!(400, "9110 5.5", "form feed after chunked", b"Transfer-Encoding: chunked\x0c"),
    refused!(400, "9110 5.5", "NUL after chunked", b"Transfer-Encoding: chunked\0"),
    refused!(400, "9112 5.1", "space before the colon of a coding", b"Transfer-Encoding : chunked"),
    refused!(400, "9112 5.2", "a folded coding", b"Transfer-Encoding:\r\n chunked"),
    refused!(400, "9112 2.2", "a coding after LF alone", b"X: y\nTransfer-Encoding: chunked"),
    refused!(400, "9112 2.2", "a coding after CR alone", b"X: y\rTransfer-Encoding: chunked"),
];

/// Both: one reader would take the body for empty, the other would find a request in it.
const BOTH: &[Case] = &[
    refused!(400, "9112 6.1", "CL.TE", b"Content-Length: 5\r\nTransfer-Encoding: chunked"),
    refused!(400, "9112 6.1", "TE.CL", b"Transfer-Encoding: chunked\r\nContent-Length: 43"),
    refused!(400, "9112 6.1", "TE.0: a length of 0 is a length", b"Transfer-Encoding: chunked\r\nContent-Length: 0"),
    refused!(
        400,
        "9112 6.1",
        "a length and a coding that we do not speak",
        b"Transfer-Encoding: gzip, chunked\r\nContent-Length: 5"
    ),
    refused!(400, "9112 6.1", "a length and a broken coding", b"Content-Length: 5\r\nTransfer-Encoding: xchunked"),
    refused!(400, "9112 6.1", "a length and a coding in any case", b"content-length: 5\r\ntransfer-encoding: CHUNKED"),
];

const WHOLE: &[Case] = &[
    taken!("9112 6.3", "no framing is no body: 0.CL", b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", "POST / host=a"),
    taken!("9112 6.2", "a length of 0", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST / host=a"),
    taken!(
        "9110 9.3.1",
        "GET with a body is read to its end: CL.0",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "GET / host=a body=hello"
    ),
    taken!(
        "9110 9.3.2",
        "HEAD with a body is read to its end",
        b"HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HEAD / host=a body=hello"
    ),
    taken!(
        "9112 6.3",
        "a body that looks like a request",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 19\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        "POST / host=a body=GET /b HTTP/1.1\\r\\n\\r\\n"
    ),
    taken!(
        "9112 6.2",
        "a length in HTTP/1.0",
        b"POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        "POST / body=hello"
    )
    .closes(),
    refused!(400, "9112 6.1", "chunked in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    refused!(400, "9112 6.1", "any coding in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: gzip\r\n\r\n"),
    refused!(
        400,
        "9112 6.1",
        "chunked in HTTP/1.0 with keep-alive",
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    refused!(
        400,
        "9110 9.3.6",
        "CONNECT with a length",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 3\r\n\r\nabc"
    ),
    refused!(
        400,
        "9110 9.3.6",
        "CONNECT with chunks",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    refused!(400, "9110 9.3.8", "TRACE with a body", b"TRACE / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"),
];
