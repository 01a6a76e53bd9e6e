//! Whose fault an error is, which answer fits it, and what it comes from.

use ::core::error::Error as _;

use http::StatusCode;

use super::*;
use crate::IntoResponse;

fn status(error: Error) -> StatusCode {
    error.into_response().status()
}

#[test]
fn errors_of_the_peer_and_of_the_program_are_told_apart() {
    for error in [CodecError::BareLf, CodecError::ExpectationUnknown, CodecError::WebSocketVersionUnsupported] {
        assert!(matches!(Error::from(error), Error::Peer(of_peer) if of_peer == error), "{error}");
    }
    for error in [CodecError::FieldReserved, CodecError::BodyTooLong, CodecError::StateMisuse] {
        let ours = Error::from(error);
        assert!(matches!(ours, Error::Misuse(Misuse::Protocol(of_codec)) if of_codec == error), "{error}");
        assert_eq!(status(ours), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

#[test]
fn each_error_has_the_status_that_fits_it() {
    assert_eq!(status(Error::Peer(CodecError::HeadTooLarge)), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert_eq!(status(Error::Disconnected), StatusCode::BAD_REQUEST);
    assert_eq!(status(Error::TimedOut), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(status(plimsoll_runtime::Error::TimedOut.into()), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(status(Error::BodyTooLarge { bytes_max: 7 }), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(status(OverBudget::new(1).into()), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(status(Error::HubFull), StatusCode::SERVICE_UNAVAILABLE);
    for ours in [Misuse::AnsweredAlready.into(), OutOfRange::new("fast", "more than 0").into(), Error::TooSlow] {
        assert_eq!(status(ours), StatusCode::INTERNAL_SERVER_ERROR);
    }
}

#[test]
fn the_chain_of_sources_ends_at_what_happened() {
    let innermost = |error: &Error| {
        let mut innermost = error.source()?;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        Some(innermost.to_string())
    };
    let range = OutOfRange::new("slow", "longer");
    let errno = plimsoll_runtime::Errno(2);
    for (error, at_last) in [
        (Error::Peer(CodecError::BareLf), Some(CodecError::BareLf.to_string())),
        (CodecError::FieldReserved.into(), Some(CodecError::FieldReserved.to_string())),
        (OverBudget::new(5).into(), Some(OverBudget::new(5).to_string())),
        (range.into(), Some(range.to_string())),
        (plimsoll_runtime::Error::from(ConfigError::from(range)).into(), Some(range.to_string())),
        (plimsoll_runtime::Error::System(errno).into(), Some(errno.to_string())),
        (Error::TimedOut, None),
    ] {
        assert_eq!(innermost(&error), at_last, "{error:?}");
    }
}
