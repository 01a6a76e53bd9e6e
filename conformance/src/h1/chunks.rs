//! The chunked coding: sizes, extensions, line ends, trailers.

use super::{Answer, Case, Group, case, refused, taken};

pub(super) const GROUPS: &[Group] = &[
    Group {
        before: b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        title: "Chunks",
        cases: CASES,
        after: b"",
    },
    Group {
        before: b"POST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        title: "Chunks that no handler reads",
        cases: UNREAD,
        after: b"",
    },
];

const CASES: &[Case] = &[
    taken!("9112 7.1", "one chunk", b"1\r\nx\r\n0\r\n\r\n", "POST / host=a body=x"),
    taken!("9112 7.1", "two chunks", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", "POST / host=a body=hello"),
    taken!("9112 7.1", "no data", b"0\r\n\r\n", "POST / host=a"),
    taken!("9112 7.1", "several zeros are the last chunk too", b"000\r\n\r\n", "POST / host=a"),
    taken!(
        "9112 7.1",
        "digits in any case",
        b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n",
        "POST / host=a body=01234567890123456789"
    ),
    taken!("9112 7.1", "leading zeros", b"0005\r\nhello\r\n0\r\n\r\n", "POST / host=a body=hello"),
    taken!("9112 7.1", "sixteen digits", b"0000000000000005\r\nhello\r\n0\r\n\r\n", "POST / host=a body=hello"),
    taken!(
        "9112 7.1",
        "data that looks like framing",
        b"7\r\n0\r\n\r\nab\r\n0\r\n\r\n",
        "POST / host=a body=0\\r\\n\\r\\nab"
    ),
    refused!(400, "9112 7.1", "seventeen digits", b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "2^63: longer than any body", b"8000000000000000\r\nhello"),
    refused!(400, "9112 7.1", "2^64 - 1", b"ffffffffffffffff\r\nhello"),
    refused!(400, "9112 7.1", "2^64", b"10000000000000000\r\nhello"),
    refused!(400, "9112 7.1", "2^64 + 5: a size that wraps round", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "no size", b"\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "no size but an extension", b";a=b\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a plus", b"+5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a minus", b"-5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a prefix", b"0x5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "an underscore", b"0_5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a suffix", b"5h\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "not hexadecimal", b"g\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a comma", b"5,5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a fraction", b"5.0\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "quotes", b"\"5\"\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "NUL in a size", b"5\0\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "a control byte in a size", b"5\x01\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "space before a size", b" 5\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "space after a size", b"5 \r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "tab after a size", b"5\t\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone after a size", b"5\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "CR alone after a size", b"5\rhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "two CR after a size", b"5\r\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone after the last size", b"0\n\r\n"),
    refused!(400, "9112 7.1", "no CRLF after data", b"5\r\nhello0\r\n\r\n"),
    refused!(400, "9112 7.1", "data longer than its size: spill", b"5\r\nhelloX\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "two bytes of spill in the place of CRLF", b"5\r\nhelloXX0\r\n\r\n"),
    refused!(400, "9112 7.1", "data shorter than its size", b"6\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "LF alone after data", b"5\r\nhello\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "CR alone after data", b"5\r\nhello\r0\r\n\r\n"),
    refused!(400, "9112 7.1", "two CR after data", b"5\r\nhello\r\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1", "an empty line between chunks", b"5\r\nhello\r\n\r\n0\r\n\r\n"),
    taken!("9112 7.1.1", "an extension with a name", b"5;a\r\nhello\r\n0\r\n\r\n", "POST / host=a body=hello"),
    taken!(
        "9112 7.1.1",
        "extensions with values",
        b"5;a=b;c=\"d\"\r\nhello\r\n0;e=f\r\n\r\n",
        "POST / host=a body=hello"
    ),
    taken!(
        "9112 7.1.1",
        "an extension with quoted pairs",
        b"5;a=\"b;\\\"c\\\\ d\te\"\r\nhello\r\n0\r\n\r\n",
        "POST / host=a body=hello"
    ),
    taken!(
        "9112 7.1.1",
        "bad white space where it is allowed",
        b"5 ; a\t= b ;c\r\nhello\r\n0\r\n\r\n",
        "POST / host=a body=hello"
    ),
    refused!(400, "9112 7.1.1", "an empty extension", b"5;\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "an extension without a name", b"5;=b\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "an extension with an empty value", b"5;a=\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "white space at the end of an extension", b"5;a \r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "two names in an extension", b"5;a b\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "quotes that are not closed", b"5;a=\"b\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "something after quotes", b"5;a=\"b\"c\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "NUL in an extension", b"5;a\0\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "a control byte in an extension", b"5;a=\x01\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "a control byte in quotes", b"5;a=\"\x01\"\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 7.1.1", "obs-text in a token", b"5;\xe9\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone after an extension", b"5;a\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone after a semicolon", b"5;\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF in quotes", b"5;a=\"\n\"\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "CR alone in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    refused!(400, "9112 2.2", "CR in quotes", b"5;a=\"\r\"\r\nhello\r\n0\r\n\r\n"),
    taken!("9112 7.1.2", "trailers", b"0\r\nA: b\r\nc:\td \r\n\r\n", "POST / host=a trailers=A=b,c=d"),
    taken!(
        "9112 7.1.2",
        "trailers are not a part of the body",
        b"5\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "POST / host=a body=hello trailers=A=b"
    ),
    refused!(400, "9110 6.5.1", "Content-Length in trailers", b"0\r\nContent-Length: 5\r\n\r\n"),
    refused!(400, "9110 6.5.1", "Transfer-Encoding in trailers", b"0\r\na: b\r\ntransfer-encoding: chunked\r\n\r\n"),
    refused!(400, "9110 6.5.1", "Host in trailers", b"0\r\nHOST: b\r\n\r\n"),
    refused!(400, "9110 6.5.1", "Connection in trailers", b"0\r\nConnection: close\r\n\r\n"),
    refused!(400, "9110 6.5.1", "Authorization in trailers", b"0\r\nAuthorization: b\r\n\r\n"),
    refused!(400, "9110 6.5.1", "Cookie in trailers", b"0\r\nCookie: b\r\n\r\n"),
    refused!(400, "9112 5", "a request line in trailers", b"0\r\nGET / HTTP/1.1\r\n\r\n"),
    refused!(400, "9112 5", "an empty name in trailers", b"0\r\n: a\r\n\r\n"),
    refused!(400, "9112 5.1", "space before the colon in trailers", b"0\r\nA : b\r\n\r\n"),
    refused!(400, "9112 5.2", "obs-fold in trailers", b"0\r\nA: b\r\n c\r\n\r\n"),
    refused!(400, "9110 5.5", "a control byte in trailers", b"0\r\nA: \x02\r\n\r\n"),
    refused!(400, "9110 5.5", "NUL in trailers", b"0\r\nA: \0\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone in trailers", b"0\r\nA: b\n\r\n"),
    refused!(400, "9112 2.2", "CR alone in trailers", b"0\r\nA: b\rc\r\n\r\n"),
    refused!(400, "9112 2.2", "LF alone ends the body", b"0\r\n\n"),
    refused!(400, "9112 2.2", "CR alone ends the body", b"0\r\n\rG"),
    refused!(
        400,
        "9112 7.1",
        "the next request in the place of the last CRLF",
        b"0\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    ),
];

/// The same mistakes in a body that no handler reads: the answer was sent, the connection is closed.
const UNREAD: &[Case] = &[
    taken!("9112 9.3", "a body that nobody reads is dropped", b"5\r\nhello\r\n0\r\n\r\n", "POST /early host=a"),
    case("9112 7.1", "a bad size in a body that nobody reads", b"+5\r\nhello\r\n0\r\n\r\n", &[EARLY]).closes(),
    case("9112 7.1", "spill in a body that nobody reads", b"5\r\nhelloX\r\n0\r\n\r\n", &[EARLY]).closes(),
    case("9112 2.2", "LF alone in a body that nobody reads", b"5\nhello\r\n0\r\n\r\n", &[EARLY]).closes(),
    case("9110 6.5.1", "a bad trailer behind a body that nobody reads", b"0\r\nHost: b\r\n\r\n", &[EARLY]).closes(),
];

const EARLY: Answer = Answer::Takes("POST /early host=a");
