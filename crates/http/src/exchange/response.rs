//! What a handler answers.

use ::core::fmt;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use plimsoll_codec::h1::{self, BodyLength, Fields, Full, Sink};
use plimsoll_pool::{PoolBox, TieredBuf};
use plimsoll_runtime::{Lease, OverBudget, Pool};

use crate::Error;
use crate::base::misuse::Misuse;
use crate::exchange::failure::Failure;
pub(crate) use crate::exchange::into_response::IntoResponse;

/// Bytes of fields that a response keeps inside itself; more go to the pool.
const FIELDS_INLINE: usize = 96;

/// Why a streamed answer takes nothing more.
const HAS_BEGUN: Error = Error::Misuse(Misuse::HeadSent);

/// Fields as [`Response::header`] encodes them.
const TEXT_FIELD: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";
const JSON_FIELD: &[u8] = b"Content-Type: application/json\r\n";
const BYTES_FIELD: &[u8] = b"Content-Type: application/octet-stream\r\n";

/// The body of a response that is known as a whole. Longer ones are streamed: see
/// [`Request::respond`](crate::Request::respond).
#[derive(Debug, Default)]
pub enum Body {
    /// None.
    #[default]
    Empty,
    /// Bytes that live for ever; sent without a copy when they are many.
    Static(&'static [u8]),
    /// Shared bytes.
    Bytes(Bytes),
    /// Bytes in the pool.
    Lease(Lease),
}

impl Body {
    /// Bytes of the pool that it holds. Others are the program's.
    pub(crate) fn held_bytes(&self) -> usize {
        if let Self::Lease(lease) = self { lease.class().bytes() } else { 0 }
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Empty => &[],
            Self::Static(bytes) => bytes,
            Self::Bytes(bytes) => bytes,
            Self::Lease(lease) => lease,
        }
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::Static(text.as_bytes())
    }
}

impl From<&'static [u8]> for Body {
    fn from(bytes: &'static [u8]) -> Self {
        Self::Static(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Bytes(Bytes::from(text))
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Bytes::from(bytes))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Lease> for Body {
    fn from(lease: Lease) -> Self {
        Self::Lease(lease)
    }
}

/// A response: a status, fields and a body.
///
/// Content-Length, Transfer-Encoding, Connection and Date are the server's. One of these, and a name or value that is
/// not allowed in a field (CR, LF, NUL, ...), never reaches the wire: the whole response becomes a 500. On HTTP/2 so
/// does a response of more than 15 KiB of fields. Without memory for a field it becomes a 503: see
/// [`header`](Self::header).
///
/// ```
/// use plimsoll_http::{Response, StatusCode};
///
/// let response = Response::text("ok").header("cache-control", "no-store");
/// assert_eq!(response.status(), StatusCode::OK);
/// let split = Response::text("ok").header("x", "a\r\nset-cookie: b");
/// assert_eq!(split.status(), StatusCode::INTERNAL_SERVER_ERROR);
/// ```
#[must_use = "a response is sent when the handler returns it"]
pub struct Response {
    kind: Kind,
    status: StatusCode,
    fields: TieredBuf<FIELDS_INLINE>,
    body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To be sent.
    Whole,
    /// Was sent already, through a [`BodyWriter`](crate::BodyWriter).
    Streamed,
    /// To be sent instead of what could not be said.
    Refused(Refusal),
}

/// Why a part of a response was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not allowed.
    Misuse,
    /// There was no room for it under the memory line.
    NoRoom,
}

impl Response {
    /// A response without a body.
    pub fn new(status: StatusCode) -> Self {
        Self { kind: Kind::Whole, status, fields: TieredBuf::new(), body: Body::Empty }
    }

    /// 200 with a text.
    pub fn text(text: impl Into<Body>) -> Self {
        Self::typed(text.into(), TEXT_FIELD)
    }

    /// 200 with a value as JSON. One that cannot be JSON, such as a map whose keys are no text, is logged and becomes a
    /// 500. Feature `json`.
    ///
    /// ```
    /// use plimsoll_http::Response;
    ///
    /// let answer = Response::json(&["a", "b"]).header("cache-control", "no-store");
    /// assert_eq!(answer.header_value("content-type"), Some(&b"application/json"[..]));
    /// ```
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(text) => Self::json_text(text),
            Err(error) => {
                tracing::error!(%error, "a value cannot be JSON");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }

    /// 200 with a text that is JSON already.
    pub fn json_text(text: impl Into<Body>) -> Self {
        Self::typed(text.into(), JSON_FIELD)
    }

    /// 200 with bytes of no particular type.
    pub(crate) fn bytes(bytes: impl Into<Body>) -> Self {
        Self::typed(bytes.into(), BYTES_FIELD)
    }

    /// 200 with a body and a field that was encoded before: nothing is checked or put together for each answer.
    fn typed(body: Body, field: &'static [u8]) -> Self {
        let mut response = Self { body, ..Self::new(StatusCode::OK) };
        let has_room = response.fields.extend_inline(field);
        debug_assert!(has_room && Fields::check(field).is_ok(), "a short field that is allowed");
        response
    }

    /// What stands for a response that was streamed.
    pub(crate) fn streamed() -> Self {
        Self { kind: Kind::Streamed, ..Self::new(StatusCode::OK) }
    }

    /// Sets the status. What a streamed answer gave when it was finished has none any more: as [`header`](Self::header)
    /// does then.
    pub fn with_status(mut self, status: StatusCode) -> Self {
        match self.kind {
            Kind::Whole => self.status = status,
            Kind::Streamed => return Self::refused(&HAS_BEGUN, "status"),
            Kind::Refused(_) => {}
        }
        self
    }

    /// Sets the body. A streamed answer has its own: as [`header`](Self::header) does then.
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        match self.kind {
            Kind::Whole => self.body = body.into(),
            Kind::Streamed => return Self::refused(&HAS_BEGUN, "body"),
            Kind::Refused(_) => {}
        }
        self
    }

    /// Adds a field. One that is not allowed turns the response into a 500. So does one for an answer that was
    /// streamed: the head has left without it, so the peer is told as of a second answer, by a close or in HTTP/2 a
    /// reset. One that has no room under the memory line turns it into a 503 with `Retry-After`, which is counted as
    /// [`Shed::Output`](crate::Shed::Output).
    ///
    /// A response that was refused so stays what it is: what is set or added to it afterwards is left out.
    ///
    /// ```
    /// use plimsoll_http::{Response, StatusCode};
    ///
    /// let refused = Response::new(StatusCode::OK).header("x", "two\r\nlines");
    /// assert_eq!(refused.with_status(StatusCode::CREATED).status(), StatusCode::INTERNAL_SERVER_ERROR);
    /// ```
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        match self.try_header(name, value) {
            Ok(response) => response,
            Err(error) => Self::refused(&error, name),
        }
    }

    /// What becomes of a response that was asked for what it cannot say.
    #[cold]
    fn refused(error: &Error, what: &str) -> Self {
        if let Error::OverBudget(_) = error {
            tracing::debug!(%error, what, "there was no room for a part of a response");
            return Self { kind: Kind::Refused(Refusal::NoRoom), ..Failure::NO_ROOM.into() };
        }
        tracing::error!(%error, what, "a part of a response was refused");
        Self { kind: Kind::Refused(Refusal::Misuse), ..Self::new(StatusCode::INTERNAL_SERVER_ERROR) }
    }

    /// Why it is not the response that it was to be, if so.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        if let Kind::Refused(refusal) = self.kind { Some(refusal) } else { None }
    }

    /// Adds a field.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response, StatusCode};
    ///
    /// async fn handler(mut req: Request) -> Result<Response, Error> {
    ///     let out = req.respond(Response::new(StatusCode::OK), None)?;
    ///     let streamed = out.finish().await?;
    ///     assert!(matches!(streamed.try_header("x-total", "7"), Err(Error::Misuse(_))), "the head has left");
    ///     Ok(Response::new(StatusCode::OK))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a field that is not allowed, and when the answer was streamed: its fields were sent before
    /// its body; [`Error::OverBudget`].
    pub fn try_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Result<Self, Error> {
        self.push_header(name, value)?;
        Ok(self)
    }

    /// The same in place, for many fields. After an error the response is as it was.
    ///
    /// ```
    /// use plimsoll_http::{Response, StatusCode};
    ///
    /// let mut response = Response::new(StatusCode::OK);
    /// for (name, value) in [("x-one", "1"), ("x-two", "2")] {
    ///     response.push_header(name, value)?;
    /// }
    /// assert!(response.push_header("x\r\n", "").is_err());
    /// assert_eq!(response.headers().count(), 2);
    /// # Ok::<(), plimsoll_http::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_header`](Self::try_header).
    pub fn push_header(&mut self, name: &str, value: impl AsRef<[u8]>) -> Result<(), Error> {
        if self.refusal().is_some() {
            return Ok(());
        }
        self.push_field(name, value.as_ref())
    }

    /// The same for a field of the `http` crate, whose types say already that it is one: of it only the name is looked
    /// at, which must not be one of the server's own.
    ///
    /// ```
    /// use http::header::{CONTENT_LENGTH, HeaderValue, LOCATION};
    /// use plimsoll_http::{Response, StatusCode};
    ///
    /// let mut response = Response::new(StatusCode::FOUND);
    /// response.push_http_header(&LOCATION, &HeaderValue::from_static("/there"))?;
    /// assert!(response.push_http_header(&CONTENT_LENGTH, &HeaderValue::from_static("7")).is_err());
    /// assert_eq!(response.header_value("location"), Some(&b"/there"[..]));
    /// # Ok::<(), plimsoll_http::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`try_header`](Self::try_header).
    pub fn push_http_header(&mut self, name: &HeaderName, value: &HeaderValue) -> Result<(), Error> {
        let (name, value) = (name.as_str(), value.as_bytes());
        if self.kind == Kind::Whole
            && !h1::is_reserved_field(name.as_bytes())
            && let Some(line) = self.fields.extend_in_place(h1::field_len(name, value))
        {
            debug_assert!(h1::check_field(name.as_bytes(), value).is_ok(), "what the `http` crate takes");
            let (before, after) = line.split_at_mut(name.len());
            before.copy_from_slice(name.as_bytes());
            let (colon, after) = after.split_at_mut(b": ".len());
            colon.copy_from_slice(b": ");
            let (text, end) = after.split_at_mut(value.len());
            text.copy_from_slice(value);
            end.copy_from_slice(b"\r\n");
            return Ok(());
        }
        // It is refused, or there is no room for it here.
        self.push_field(name, value)
    }

    /// The same, also for one that was refused: what layers add to every head.
    pub(crate) fn push_field(&mut self, name: &str, value: &[u8]) -> Result<(), Error> {
        if self.kind == Kind::Streamed {
            return Err(HAS_BEGUN);
        }
        let pool = if self.fields.as_slice().len() + h1::field_len(name, value) > FIELDS_INLINE {
            Some(plimsoll_runtime::pool())
        } else {
            None
        };
        let mut sink = FieldSink { fields: &mut self.fields, pool, over: None };
        let put = h1::put_field(&mut sink, name, value);
        if let Some(over) = sink.over {
            return Err(over.into());
        }
        put?;
        Ok(())
    }

    /// Takes all fields of a name out, in any case of letters.
    ///
    /// ```
    /// use plimsoll_http::Response;
    ///
    /// let page = Response::text("<p>").without_header("content-type").header("content-type", "text/html");
    /// assert_eq!(page.header_value("Content-Type"), Some(&b"text/html"[..]));
    /// ```
    pub fn without_header(mut self, name: &str) -> Self {
        if self.refusal().is_some() {
            return self;
        }
        match self.remove_fields(name) {
            Ok(()) => self,
            Err(error) => Self::refused(&error, name),
        }
    }

    /// The same in place. Fails only if what is left has no room beside what there was.
    pub(crate) fn remove_fields(&mut self, name: &str) -> Result<(), Error> {
        if self.header_value(name).is_none() {
            return Ok(());
        }
        let mut others = Self::new(self.status);
        for (other, value) in self.headers().filter(|(other, _)| !is_named(other.as_bytes(), name)) {
            others.push_field(other, value)?;
        }
        self.fields = others.fields;
        Ok(())
    }

    /// Sets the status, but of one that was refused.
    pub(crate) fn set_status(&mut self, status: StatusCode) {
        if self.refusal().is_none() {
            self.status = status;
        }
    }

    /// The fields that were added, in order.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        // Names were checked: they are ASCII.
        self.fields().iter().map(|(name, value)| (::core::str::from_utf8(name).unwrap_or(""), value))
    }

    /// The value of the first field of a name, in any case of letters.
    pub fn header_value(&self, name: &str) -> Option<&[u8]> {
        self.fields().iter().find(|(other, _)| is_named(other, name)).map(|(_, value)| value)
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn fields(&self) -> Fields<'_> {
        Fields::assume_checked(self.fields.as_slice())
    }

    pub(crate) fn length(&self) -> BodyLength {
        match &self.body {
            Body::Empty => BodyLength::Empty,
            body => BodyLength::Known(body.as_slice().len() as u64),
        }
    }

    pub(crate) fn body_slice(&self) -> &[u8] {
        self.body.as_slice()
    }

    pub(crate) fn body_bytes(&self) -> usize {
        self.body.as_slice().len()
    }

    /// Bytes of the pool that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        PoolBox::<Self>::CLASS.bytes() + self.body.held_bytes()
    }

    pub(crate) fn body_mut(&mut self) -> &mut Body {
        &mut self.body
    }
}

fn is_named(field: &[u8], name: &str) -> bool {
    field.eq_ignore_ascii_case(name.as_bytes())
}

struct FieldSink<'a> {
    fields: &'a mut TieredBuf<FIELDS_INLINE>,
    /// Only when the fields outgrow the response itself.
    pool: Option<Pool>,
    over: Option<OverBudget>,
}

impl Sink for FieldSink<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let put = match &self.pool {
            Some(pool) => self.fields.extend(pool, bytes),
            None => {
                let inline = self.fields.extend_inline(bytes);
                debug_assert!(inline, "counted before");
                Ok(())
            }
        };
        put.map_err(|over| {
            self.over = Some(over);
            Full
        })
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_bytes", &self.body.as_slice().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_was_encoded_before_is_as_header_encodes_it() {
        for (made, value) in [
            (Response::text("a"), "text/plain; charset=utf-8"),
            (Response::json_text("1"), "application/json"),
            (Response::bytes("1"), "application/octet-stream"),
        ] {
            let with_header = Response::new(StatusCode::OK).header("Content-Type", value);
            assert_eq!(made.fields().as_bytes(), with_header.fields().as_bytes());
            assert_eq!((made.status(), made.length()), (StatusCode::OK, BodyLength::Known(1)));
        }
    }

    #[test]
    fn a_refused_response_stays_refused() {
        let refused = Response::text("ok").header("x\r\n", "").header("x-later", "1").with_status(StatusCode::CREATED);
        let refused = refused.body("late").without_header("x-later");
        assert_eq!((refused.status(), refused.headers().count()), (StatusCode::INTERNAL_SERVER_ERROR, 0));
        assert!(refused.body_slice().is_empty());
        let of_tuple = (StatusCode::CREATED, [("x\n", "")], "made").into_response();
        assert_eq!((of_tuple.status(), of_tuple.body_bytes()), (StatusCode::INTERNAL_SERVER_ERROR, 0));
        let streamed = Response::streamed().with_status(StatusCode::CREATED);
        assert_eq!(streamed.body("late").status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
