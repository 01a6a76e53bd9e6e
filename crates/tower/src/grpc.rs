//! What of gRPC is the transport's: the deadline that a client asks for.
//!
//! Source: gRPC's `PROTOCOL-HTTP2.md`, "Requests".

use core::time::Duration;

use http::{HeaderMap, header};
use plimsoll_http::{Response, StatusCode};

/// How long a call may take, where it is one of gRPC and its client says so.
pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?;
    let kind = headers.get(header::CONTENT_TYPE)?.as_bytes();
    // gRPC-Web has its trailers in the body, which is the service's: a deadline cannot be told there.
    match kind.strip_prefix(b"application/grpc")? {
        [] | [b'+' | b';', ..] => parse(text.as_bytes()),
        _ => None,
    }
}

/// One to eight digits and a unit. What is something else is passed over: the client has a clock of its own.
fn parse(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(value * 3_600),
        b'M' => Duration::from_secs(value * 60),
        b'S' => Duration::from_secs(value),
        b'm' => Duration::from_millis(value),
        b'u' => Duration::from_micros(value),
        b'n' => Duration::from_nanos(value),
        _ => return None,
    })
}

/// DEADLINE_EXCEEDED where nothing was sent: the status is in the head.
pub(crate) fn deadline_exceeded() -> Response {
    Response::new(StatusCode::OK)
        .header("content-type", "application/grpc")
        .header("grpc-status", "4")
        .header("grpc-message", MESSAGE)
}

/// The same behind a body that has begun.
pub(crate) const DEADLINE_EXCEEDED: [(&str, &[u8]); 2] = [("grpc-status", b"4"), ("grpc-message", MESSAGE.as_bytes())];

const MESSAGE: &str = "the call took longer than its grpc-timeout";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_units() {
        assert_eq!(parse(b"2H"), Some(Duration::from_secs(7_200)));
        assert_eq!(parse(b"3M"), Some(Duration::from_secs(180)));
        assert_eq!(parse(b"99999999S"), Some(Duration::from_secs(99_999_999)));
        assert_eq!(parse(b"100m"), Some(Duration::from_millis(100)));
        assert_eq!(parse(b"7u"), Some(Duration::from_micros(7)));
        assert_eq!(parse(b"0n"), Some(Duration::ZERO));
        for wrong in [&b""[..], b"m", b"1", b"1x", b"-1S", b"123456789S", b"1 S"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn only_calls_of_grpc_have_them() {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", "1S".parse().expect("a value"));
        assert_eq!(timeout(&headers), None);
        headers.insert("content-type", "application/grpc+proto".parse().expect("a value"));
        assert_eq!(timeout(&headers), Some(Duration::from_secs(1)));
        headers.insert("content-type", "application/grpc-web+proto".parse().expect("a value"));
        assert_eq!(timeout(&headers), None);
    }
}
