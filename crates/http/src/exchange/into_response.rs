//! What a handler may return, and how that becomes a response.

use ::core::convert::Infallible;
use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use plimsoll_runtime::Lease;

use crate::Error;
use crate::exchange::failure::Failure;
use crate::exchange::response::{Body, Response};

/// What a handler may return.
///
/// | type | answer |
/// |---|---|
/// | [`Response`] | itself |
/// | `&'static str`, [`String`], `Cow<'static, str>` | 200 and `text/plain` |
/// | `&'static [u8]`, `Vec<u8>`, [`Bytes`], [`Lease`] | 200 and `application/octet-stream` |
/// | [`StatusCode`], `()` | that status, or 200, without a body |
/// | `(StatusCode, body)` | the body with that status |
/// | `(headers, body)`, `(StatusCode, headers, body)` | the same with fields: see [`ResponseHeaders`] |
/// | `Result<T, E>` | that of the value, or of the error: implement this trait for your own errors |
/// | `Option<T>` | that of the value, or 404 |
/// | [`http::Response`] of what becomes a [`Body`] | the same |
/// | [`Error`] | what fits it: 413 for a body that is too large, 503 at the memory line, ... |
///
/// ```
/// use plimsoll_http::{IntoResponse, StatusCode};
///
/// let page = (StatusCode::CREATED, [("content-type", "text/html"), ("location", "/7")], "<p>made").into_response();
/// assert_eq!(page.status(), StatusCode::CREATED);
/// let fields: Vec<_> = page.headers().collect();
/// assert_eq!(fields, [("content-type", &b"text/html"[..]), ("location", b"/7")]);
/// assert_eq!(None::<String>.into_response().status(), StatusCode::NOT_FOUND);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an answer: a handler returns what implements `plimsoll::http::IntoResponse`",
    label = "not an answer",
    note = "return a `Response`, a text, bytes, a `StatusCode`, `(StatusCode, body)`, `(StatusCode, headers, body)`, or a `Result` or `Option` of these",
    note = "for a struct of your own: `Json(value)` with the feature `json`, or implement `IntoResponse` for it"
)]
pub trait IntoResponse {
    /// The response.
    fn into_response(self) -> Response;
}

/// Fields of an answer in a tuple: an array or a `Vec` of names and values, or an [`http::HeaderMap`].
///
/// They take the place of those of the same names that the body brought, such as `Content-Type`. One that is not
/// allowed turns the answer into a 500, and without memory for it into a 503, as [`Response::header`] does.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of header fields",
    label = "not a list of fields",
    note = "give `[(\"name\", \"value\")]`, a `Vec` of such pairs, or an `http::HeaderMap`; a status comes first: `(StatusCode, headers, body)`"
)]
pub trait ResponseHeaders {
    /// Adds them to a response.
    fn add_to(self, response: Response) -> Response;
}

impl<K: AsRef<str>, V: AsRef<[u8]>, const N: usize> ResponseHeaders for [(K, V); N] {
    fn add_to(self, response: Response) -> Response {
        put_all(response, || self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl<K: AsRef<str>, V: AsRef<[u8]>> ResponseHeaders for Vec<(K, V)> {
    fn add_to(self, response: Response) -> Response {
        put_all(response, || self.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
    }
}

impl ResponseHeaders for HeaderMap {
    fn add_to(self, response: Response) -> Response {
        put_all(response, || self.iter().map(|(name, value)| (name.as_str(), value.as_bytes())))
    }
}

fn put_all<'a, I: Iterator<Item = (&'a str, &'a [u8])>>(response: Response, fields: impl Fn() -> I) -> Response {
    let response = fields().fold(response, |response, (name, _)| response.without_header(name));
    fields().fold(response, |response, (name, value)| response.header(name, value))
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::text(self)
    }
}

impl IntoResponse for Cow<'static, str> {
    fn into_response(self) -> Response {
        match self {
            Cow::Borrowed(text) => Response::text(text),
            Cow::Owned(text) => Response::text(text),
        }
    }
}

impl IntoResponse for &'static [u8] {
    fn into_response(self) -> Response {
        Response::bytes(self)
    }
}

impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Response {
        Response::bytes(self)
    }
}

impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        Response::bytes(self)
    }
}

impl IntoResponse for Lease {
    fn into_response(self) -> Response {
        Response::bytes(self)
    }
}

impl IntoResponse for StatusCode {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

impl IntoResponse for () {
    fn into_response(self) -> Response {
        Response::new(StatusCode::OK)
    }
}

impl IntoResponse for Infallible {
    fn into_response(self) -> Response {
        match self {}
    }
}

impl<T: IntoResponse> IntoResponse for (StatusCode, T) {
    fn into_response(self) -> Response {
        self.1.into_response().with_status(self.0)
    }
}

impl<H: ResponseHeaders, T: IntoResponse> IntoResponse for (H, T) {
    fn into_response(self) -> Response {
        self.0.add_to(self.1.into_response())
    }
}

impl<H: ResponseHeaders, T: IntoResponse> IntoResponse for (StatusCode, H, T) {
    fn into_response(self) -> Response {
        self.1.add_to(self.2.into_response()).with_status(self.0)
    }
}

/// The version is the server's, and extensions are dropped.
impl<B: Into<Body>> From<http::Response<B>> for Response {
    fn from(response: http::Response<B>) -> Self {
        let (parts, body) = response.into_parts();
        let whole = Self::new(parts.status).body(body);
        parts.headers.iter().fold(whole, |whole, (name, value)| whole.header(name.as_str(), value.as_bytes()))
    }
}

impl<B: Into<Body>> IntoResponse for http::Response<B> {
    fn into_response(self) -> Response {
        self.into()
    }
}

impl IntoResponse for Error {
    /// 400 and the like for what the peer did or left unfinished, and for its data what `DataError::status` says, 403
    /// for a page of another site, 408 for a deadline that passed, 413 for a body that is too large, 426 where it must
    /// offer a protocol, 501 for what is not there, 503 at the memory line and for a hub that is full, else 500: each
    /// with a line of text that says so.
    fn into_response(self) -> Response {
        let failure = match self {
            Self::Peer(error) if error.status() == StatusCode::UPGRADE_REQUIRED => {
                let response = Response::from(Failure::from(error));
                return response.header("Upgrade", "websocket").header("Sec-WebSocket-Version", "13");
            }
            Self::Peer(error) => error.into(),
            #[cfg(feature = "serde")]
            Self::Data(error) => return (error.status(), format!("{error}\n")).into_response(),
            Self::OriginRefused => StatusCode::FORBIDDEN.into(),
            Self::UpgradeRequired(protocol) => {
                return Response::from(Failure::from(StatusCode::UPGRADE_REQUIRED)).header("Upgrade", protocol);
            }
            Self::Unsupported(_) => return (StatusCode::NOT_IMPLEMENTED, format!("{self}\n")).into_response(),
            Self::Disconnected => StatusCode::BAD_REQUEST.into(),
            Self::TimedOut => StatusCode::REQUEST_TIMEOUT.into(),
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE.into(),
            Self::OverBudget(_) | Self::HubFull => Failure::NO_ROOM,
            Self::OutputFull | Self::TooSlow | Self::Misuse(_) | Self::Config(_) | Self::Runtime(_) => {
                StatusCode::INTERNAL_SERVER_ERROR.into()
            }
        };
        failure.into()
    }
}

impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => error.into_response(),
        }
    }
}

/// `None` is a 404.
impl<T: IntoResponse> IntoResponse for Option<T> {
    fn into_response(self) -> Response {
        self.map_or_else(|| Failure::from(StatusCode::NOT_FOUND).into(), T::into_response)
    }
}

#[cfg(test)]
mod tests;
