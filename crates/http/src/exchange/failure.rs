//! Answers that the server gives by itself: a status, and a line of text for the person who sees it.

use http::{Method, StatusCode};
use plimsoll_codec::h1::error_line;

use crate::exchange::response::Response;

/// What the server answers instead of a handler. It is all static: at the memory line, too, there is something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// With its newline.
    pub(crate) line: &'static str,
}

impl Failure {
    /// The handler did not answer within its time.
    pub(crate) const OVERDUE: Self =
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "the answer took longer than is allowed here; try again later\n");
    /// A request of HTTP/1 where only HTTP/2 is spoken.
    pub(crate) const HTTP2_ONLY: Self =
        Self::new(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "only HTTP/2 is spoken here; begin with its preface\n");
    /// No room under the memory line.
    pub(crate) const NO_ROOM: Self = Self::of(StatusCode::SERVICE_UNAVAILABLE);

    const fn new(status: StatusCode, line: &'static str) -> Self {
        Self { status, line }
    }

    /// With the line that every error of this status has.
    const fn of(status: StatusCode) -> Self {
        Self::new(status, error_line(status))
    }
}

impl From<StatusCode> for Failure {
    fn from(status: StatusCode) -> Self {
        Self::of(status)
    }
}

impl From<plimsoll_codec::Error> for Failure {
    fn from(error: plimsoll_codec::Error) -> Self {
        Self::new(error.status(), error.line())
    }
}

impl From<Failure> for Response {
    fn from(Failure { status, line }: Failure) -> Self {
        let response = Self::text(line).with_status(status);
        if status == StatusCode::SERVICE_UNAVAILABLE { response.header("Retry-After", "1") } else { response }
    }
}

/// The method of a request whose head was not taken, or has not come in full: what matters is whether its answer has a
/// body.
pub(crate) fn method_of(bytes: &[u8]) -> Method {
    let line = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).map_or(&[][..], |at| &bytes[at..]);
    if line.starts_with(b"HEAD ") { Method::HEAD } else { Method::GET }
}
