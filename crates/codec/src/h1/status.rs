//! Status lines, and whole answers for when there is neither room nor time to make one.

use http::{Method, StatusCode};

use super::{Full, Sink};

/// The interim answer to `Expect: 100-continue` (RFC 9110 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Puts the status line. The common ones are encoded already.
#[inline]
pub(super) fn status_line<S: Sink + ?Sized>(status: StatusCode, sink: &mut S) -> Result<(), Full> {
    match encoded(status.as_u16()) {
        Some(line) => sink.put(line),
        None => {
            sink.put(b"HTTP/1.1 ")?;
            sink.put(status.as_str().as_bytes())?;
            sink.put(b" ")?;
            sink.put(status.canonical_reason().unwrap_or_default().as_bytes())?;
            sink.put(b"\r\n")
        }
    }
}

macro_rules! statuses {
    ($($code:literal $reason:literal)* => $($error:literal $error_reason:literal $line:literal $(+ $field:literal)?)*) => {
        fn encoded(code: u16) -> Option<&'static [u8]> {
            Some(match code {
                $($code => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                $($error => concat!("HTTP/1.1 ", $error, " ", $error_reason, "\r\n").as_bytes(),)*
                _ => return None,
            })
        }

        /// What a status means and what to do about it, for the person who sees it: a line of text with its newline.
        ///
        /// A status that is not 4xx or 5xx, or not a common one, has the line of 400 or 500, by its class.
        ///
        /// ```
        /// use http::StatusCode;
        /// use plimsoll_codec::h1::error_line;
        ///
        /// assert!(error_line(StatusCode::URI_TOO_LONG).ends_with("shorten the target\n"));
        /// ```
        #[must_use]
        pub const fn error_line(status: StatusCode) -> &'static str {
            match status.as_u16() {
                $($error => concat!($line, "\n"),)*
                400..=499 => error_line(StatusCode::BAD_REQUEST),
                _ => error_line(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }

        /// A whole answer that closes the connection, with the status's [line](error_line) unless the method is HEAD:
        /// for errors that must be answered when there is no memory for more. A 503 says `Retry-After: 1`. It has no
        /// Date: where there is room, encode a [`ResponseHead`](super::ResponseHead) instead.
        ///
        /// A status that is not 4xx or 5xx, or not a common one, is answered with 400 or 500, by its class.
        ///
        /// ```
        /// use http::{Method, StatusCode};
        /// use plimsoll_codec::h1::error_response;
        ///
        /// let answer = error_response(&Method::GET, StatusCode::SERVICE_UNAVAILABLE);
        /// assert!(answer.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
        /// assert!(answer.ends_with(b"there is no room now; try again in a second\n"));
        /// let head = error_response(&Method::HEAD, StatusCode::SERVICE_UNAVAILABLE);
        /// assert!(answer.starts_with(head) && head.ends_with(b"\r\n\r\n"));
        /// ```
        #[must_use]
        pub fn error_response(method: &Method, status: StatusCode) -> &'static [u8] {
            let (whole, line): (&[u8], &str) = match status.as_u16() {
                $($error => {
                    const LINE: &str = concat!($line, "\n");
                    const HEAD: &str = concat!(
                        "HTTP/1.1 ", $error, " ", $error_reason,
                        "\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\n",
                        $($field, "\r\n",)? "Content-Length: "
                    );
                    static WHOLE: [u8; HEAD.len() + 6 + LINE.len()] = whole(HEAD, LINE);
                    (&WHOLE, LINE)
                })*
                400..=499 => return error_response(method, StatusCode::BAD_REQUEST),
                _ => return error_response(method, StatusCode::INTERNAL_SERVER_ERROR),
            };
            if *method == Method::HEAD { &whole[..whole.len() - line.len()] } else { whole }
        }
    };
}

/// The head up to the value of Content-Length, that value in two digits, the empty line, and the line.
const fn whole<const LEN: usize>(head: &str, line: &str) -> [u8; LEN] {
    assert!(line.len() >= 10 && line.len() < 100, "a length of two digits");
    let length = [b'0' + (line.len() / 10) as u8, b'0' + (line.len() % 10) as u8];
    let parts = [head.as_bytes(), &length, b"\r\n\r\n", line.as_bytes()];
    let (mut answer, mut at, mut part) = ([0; LEN], 0, 0);
    while part < parts.len() {
        let mut byte = 0;
        while byte < parts[part].len() {
            answer[at] = parts[part][byte];
            (at, byte) = (at + 1, byte + 1);
        }
        part += 1;
    }
    assert!(at == LEN, "all of it");
    answer
}

statuses! {
    100 "Continue"
    101 "Switching Protocols"
    103 "Early Hints"
    200 "OK"
    201 "Created"
    202 "Accepted"
    204 "No Content"
    206 "Partial Content"
    301 "Moved Permanently"
    302 "Found"
    303 "See Other"
    304 "Not Modified"
    307 "Temporary Redirect"
    308 "Permanent Redirect"
    =>
    400 "Bad Request" "this is not a valid HTTP request; correct it and send it again"
    401 "Unauthorized" "this needs credentials; send them in Authorization"
    403 "Forbidden" "this is not allowed; send something else"
    404 "Not Found" "there is nothing at this target; check the path"
    405 "Method Not Allowed" "this target does not know the method; Allow names those that it knows"
    406 "Not Acceptable" "there is no representation that the request accepts; accept others"
    408 "Request Timeout" "the request took too long to come; send it again, faster"
    409 "Conflict" "the request conflicts with the state of the target; look at it first"
    410 "Gone" "the target is gone for good; do not ask again"
    411 "Length Required" "the request needs a Content-Length; send one"
    412 "Precondition Failed" "a condition of the request does not hold; look at the target first"
    413 "Content Too Large" "the body is larger than is taken here; send less"
    414 "URI Too Long" "the request line is longer than is taken here; shorten the target"
    415 "Unsupported Media Type" "a body of this type is not taken here; send another"
    416 "Range Not Satisfiable" "the target has no such range; ask for another"
    417 "Expectation Failed" "only the expectation 100-continue is known here; leave others out"
    421 "Misdirected Request" "this host is not served here; connect to its own server"
    422 "Unprocessable Content" "the body is well formed but cannot be used; change what it says"
    425 "Too Early" "the request came too early to be safe; send it again"
    426 "Upgrade Required" "the target speaks another protocol; Upgrade names it"
    428 "Precondition Required" "the request must be conditional; add If-Match or the like"
    429 "Too Many Requests" "too many requests; send fewer, and later"
    431 "Request Header Fields Too Large" "the request head is larger than is taken here; send fewer or shorter fields"
    500 "Internal Server Error" "the server failed at this request; the fault is its own"
    501 "Not Implemented" "this is not supported here; ask without it"
    502 "Bad Gateway" "the server behind this one gave no valid answer; try again later"
    503 "Service Unavailable" "there is no room now; try again in a second" + "Retry-After: 1"
    504 "Gateway Timeout" "the server behind this one took too long; try again later"
    505 "HTTP Version Not Supported" "this version of HTTP is not spoken here; use another"
}
