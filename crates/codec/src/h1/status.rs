//! Status lines, and whole answers for when there is neither room nor time to make one.

use http::StatusCode;

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
    ($($code:literal $reason:literal)*) => {
        fn encoded(code: u16) -> Option<&'static [u8]> {
            Some(match code {
                $($code => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n").as_bytes(),)*
                _ => return None,
            })
        }

        /// A whole answer without a body that closes the connection, for errors that must be answered when there is no memory
        /// for more. It has no Date: where there is room, encode a [`ResponseHead`](super::ResponseHead) instead.
        ///
        /// A status that is not 4xx or 5xx, or not a common one, is answered with 400 or 500, by its class.
        ///
        /// ```
        /// use http::StatusCode;
        /// use plimsoll_codec::h1::error_response;
        ///
        /// let answer = error_response(StatusCode::SERVICE_UNAVAILABLE);
        /// assert!(answer.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"));
        /// assert!(answer.ends_with(b"\r\n\r\n"));
        /// ```
        #[must_use]
        pub fn error_response(status: StatusCode) -> &'static [u8] {
            match status.as_u16() {
                $($code if $code >= 400 => {
                    concat!("HTTP/1.1 ", $code, " ", $reason, "\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").as_bytes()
                })*
                400..=499 => error_response(StatusCode::BAD_REQUEST),
                _ => error_response(StatusCode::INTERNAL_SERVER_ERROR),
            }
        }
    };
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
    400 "Bad Request"
    401 "Unauthorized"
    403 "Forbidden"
    404 "Not Found"
    405 "Method Not Allowed"
    406 "Not Acceptable"
    408 "Request Timeout"
    409 "Conflict"
    410 "Gone"
    411 "Length Required"
    412 "Precondition Failed"
    413 "Content Too Large"
    414 "URI Too Long"
    415 "Unsupported Media Type"
    416 "Range Not Satisfiable"
    417 "Expectation Failed"
    421 "Misdirected Request"
    422 "Unprocessable Content"
    425 "Too Early"
    426 "Upgrade Required"
    428 "Precondition Required"
    429 "Too Many Requests"
    431 "Request Header Fields Too Large"
    500 "Internal Server Error"
    501 "Not Implemented"
    502 "Bad Gateway"
    503 "Service Unavailable"
    504 "Gateway Timeout"
    505 "HTTP Version Not Supported"
}
