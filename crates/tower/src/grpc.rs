//! What of gRPC is the transport's: the deadline that a client asks for, and a version that has room for its status.
//!
//! Source: gRPC's `PROTOCOL-HTTP2.md`, "Requests".

use core::time::Duration;

use http::{HeaderValue, Method, Version, header};
use plimsoll_http::{Response, StatusCode};

/// Whether a request is a call. gRPC-Web has its trailers in the body, which is the service's.
fn is_call<B>(request: &http::Request<B>) -> bool {
    // Nearly all requests end here.
    if *request.method() != Method::POST {
        return false;
    }
    let kind = request.headers().get(header::CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    matches!(kind.strip_prefix(b"application/grpc"), Some([] | [b'+' | b';', ..]))
}

/// How long a call may take, where a request is one and its client says so.
pub(crate) fn timeout<B>(request: &http::Request<B>) -> Option<Duration> {
    if is_call(request) { parse(request.headers().get("grpc-timeout")?.as_bytes()) } else { None }
}

/// What a call hears that came by HTTP/1.0: it would never see the status of a stream.
pub(crate) fn refusal<B>(request: &http::Request<B>) -> Option<Response> {
    let is_refused = request.version() < Version::HTTP_11 && is_call(request);
    let text = "gRPC has its status behind the body, where HTTP/1.0 has no place for it: use HTTP/2\n";
    is_refused.then(|| Response::text(text).with_status(StatusCode::HTTP_VERSION_NOT_SUPPORTED))
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
        let call = |method: Method, kind: &str| {
            let call =
                http::Request::builder().method(method).header("grpc-timeout", "1S").header("content-type", kind);
            timeout(&call.body(()).expect("a request"))
        };
        assert_eq!(call(Method::POST, "application/grpc+proto"), Some(Duration::from_secs(1)));
        assert_eq!(call(Method::POST, "application/grpc"), Some(Duration::from_secs(1)));
        assert_eq!(call(Method::POST, "application/grpc-web+proto"), None);
        assert_eq!(call(Method::POST, "application/json"), None);
        assert_eq!(call(Method::GET, "application/grpc"), None);
    }
}
