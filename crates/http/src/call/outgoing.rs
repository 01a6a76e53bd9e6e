//! The answer to a request that the program brought itself, between the handler and whoever takes it.
//!
//! ```text
//!         begin                finish
//!   Due --------> Streamed -------------------> Ended
//!    | |             | gone without an end,        ^
//!    | |             | or with too few bytes       |
//!    | |             +----------> CutShort         |
//!    | | gone without an answer      ^             |
//!    | +-----------------------------+             |
//!    +------------- a whole answer ----------------+
//!   any of these --the call is dropped--> Unwanted
//! ```
//!
//! One piece of a body is kept until it was taken. Wakers and pieces, whose code may be the program's, are woken and
//! dropped when nothing is borrowed.

use ::core::mem::{replace, take};
use ::core::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::{HeaderMap, Method, StatusCode, Version};
use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::{BodyEncoder, BodyLength, BodyOut, Fields, ResponseHead};

use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::call::incoming::CallPart;
use crate::exchange::response::{Body, IntoResponse, Kind, Response};
use crate::exchange::user_code::{self, UserBody, UserWaker};

/// Pieces in the pool up to this many bytes are copied to the heap; larger ones keep their lease.
const COPIED_BYTES_MAX: usize = 4 * 1_024;

/// See the module.
pub(crate) struct Outgoing {
    method: Method,
    version: Version,
    stage: Stage,
    /// Not taken yet, with the length that it announces.
    head: Option<(Response, Option<u64>)>,
    piece: UserBody,
    trailers: Option<HeaderMap>,
    writer: Option<UserWaker>,
    taker: Taker,
}

enum Stage {
    Due,
    Streamed(BodyEncoder),
    Ended,
    CutShort,
    Unwanted,
}

/// Who takes the answer.
enum Taker {
    /// It polls the handler, and looks afterwards.
    Polls,
    Waits(UserWaker),
    /// It was not here yet, or was woken.
    Away,
}

/// What there is to be taken.
pub(crate) enum Next {
    Part(CallPart),
    /// Nothing more comes.
    End,
    /// Nothing more comes, and that is not all of it.
    CutShort,
    /// Nothing yet.
    Nothing,
}

impl Outgoing {
    pub(crate) fn new(method: Method, version: Version) -> Self {
        Self {
            method,
            version,
            stage: Stage::Due,
            head: None,
            piece: UserBody::default(),
            trailers: None,
            writer: None,
            taker: Taker::Away,
        }
    }

    fn judge(&self, status: StatusCode, length: BodyLength) -> Result<BodyOut, CodecError> {
        // An interim status is no answer.
        if status.is_informational() {
            return Err(CodecError::InterimStatusInvalid);
        }
        ResponseHead::new(&self.method, Version::HTTP_11, status, length).map(|head| head.body())
    }

    /// What an answer says of its length: the body's, and for HEAD and 304 that of the body which it has not.
    fn announced(length: BodyLength) -> Option<u64> {
        match length {
            BodyLength::Empty => Some(0),
            BodyLength::Known(bytes) => Some(bytes),
            BodyLength::Unknown => None,
        }
    }

    /// An answer that is streamed begins.
    pub(crate) fn begin(&mut self, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        match self.stage {
            Stage::Due => {}
            Stage::Unwanted => return Err(Error::Disconnected),
            _ => return Err(Error::Misuse(Misuse::AnsweredAlready)),
        }
        let body = self.judge(response.status(), length)?;
        self.head = Some((replace(response, Response::streamed()), Self::announced(length)));
        self.stage = Stage::Streamed(BodyEncoder::new(body));
        self.tell_taker();
        Ok(())
    }

    /// A piece of its body: kept when the one before it was taken.
    pub(crate) fn poll_write(&mut self, cx: &mut Context<'_>, body: &mut Option<Body>) -> Poll<Result<(), Error>> {
        let bytes = body.as_ref().map_or(0, |body| body.as_slice().len());
        let encoder = match &mut self.stage {
            Stage::Streamed(encoder) => encoder,
            Stage::Due | Stage::Ended => return Poll::Ready(Err(Error::Misuse(Misuse::BodyTooLong))),
            Stage::CutShort | Stage::Unwanted => return Poll::Ready(Err(Error::Disconnected)),
        };
        if encoder.due() == Some(0) && self.method == Method::HEAD {
            user_code::drop_later(body.take().unwrap_or_default());
            return Poll::Ready(Ok(()));
        }
        if !self.piece.as_slice().is_empty() {
            self.writer = Some(UserWaker::of(cx));
            return Poll::Pending;
        }
        let put = encoder.piece(bytes as u64).map_err(|error| match error {
            CodecError::BodyTooLong => Error::Misuse(Misuse::BodyTooLong),
            _ => Error::Misuse(Misuse::BodyNotAllowed),
        });
        if put.is_ok() {
            self.piece = body.take().unwrap_or_default().into();
            self.tell_taker();
        }
        Poll::Ready(put.map(drop))
    }

    /// Ends its body, perhaps with trailers. HTTP/2 has a place for those behind every body.
    pub(crate) fn finish(&mut self, trailers: Option<Fields<'_>>) -> Result<(), Error> {
        let encoder = match &mut self.stage {
            Stage::Streamed(encoder) => encoder,
            Stage::Ended => return Ok(()),
            Stage::Due => return Err(Error::Misuse(Misuse::BodyTooShort)),
            Stage::CutShort | Stage::Unwanted => return Err(Error::Disconnected),
        };
        let is_kept = self.version == Version::HTTP_2 || encoder.due().is_none();
        let ended = encoder.finish_with(trailers.unwrap_or_default(), &mut Vec::new());
        self.stage = if ended.is_ok() { Stage::Ended } else { Stage::CutShort };
        if ended.is_ok() && is_kept {
            self.trailers = trailers.map(|fields| to_map(fields.iter()));
        }
        self.tell_taker();
        ended.map_err(|error| match error {
            CodecError::BodyTooShort => Error::Misuse(Misuse::BodyTooShort),
            other => Error::Misuse(Misuse::Protocol(other)),
        })
    }

    /// What the handler has returned, or that it went away without.
    pub(crate) fn answer(&mut self, response: Option<&mut Response>) {
        let whole = response.filter(|response| response.kind() == Kind::Whole);
        match (&self.stage, whole) {
            (Stage::Unwanted, _) => {}
            (Stage::Due, Some(response)) => self.answer_whole(response),
            (stage, Some(second)) => {
                tracing::warn!(status = %second.status(), "a handler answered a second time: the first counts");
                if matches!(stage, Stage::Streamed(_)) {
                    self.stage = Stage::CutShort;
                }
            }
            (Stage::Due | Stage::Streamed(_), None) => self.stage = Stage::CutShort,
            (Stage::Ended | Stage::CutShort, None) => {}
        }
        self.tell_taker();
    }

    fn answer_whole(&mut self, response: &mut Response) {
        let body = self.judge(response.status(), response.length()).unwrap_or_else(|error| {
            tracing::error!(%error, "a response cannot be sent");
            *response = Error::from(error).into_response();
            BodyOut::Length(response.body_bytes() as u64)
        });
        let announced = Self::announced(response.length());
        let is_kept = body != BodyOut::None && self.method != Method::HEAD;
        let piece = UserBody::from(take(response.body_mut()));
        self.piece = if is_kept { piece } else { UserBody::default() };
        self.head = Some((replace(response, Response::streamed()), announced));
        self.stage = Stage::Ended;
    }

    /// The head, once it is there; a 500 of a handler that went away without one.
    pub(crate) fn take_head(&mut self) -> Option<(http::response::Parts, Option<u64>)> {
        if let Some((response, length)) = self.head.take() {
            let (head, has_body) = (parts(&response), self.method != Method::HEAD);
            return Some(match head {
                Some(mut head) => {
                    let is_silent = !has_body || head.status == StatusCode::NOT_MODIFIED;
                    if let Some(bytes @ 1..) = length.filter(|_| is_silent) {
                        head.headers.insert(CONTENT_LENGTH, bytes.into());
                    }
                    let no_body = is_silent || matches!(head.status.as_u16(), 204 | 205);
                    (head, if no_body { Some(0) } else { length })
                }
                None => self.fail(),
            });
        }
        matches!(self.stage, Stage::CutShort).then(|| self.fail())
    }

    /// In the place of an answer that there is not.
    fn fail(&mut self) -> (http::response::Parts, Option<u64>) {
        let response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        self.piece = UserBody::default();
        self.trailers = None;
        self.stage = Stage::Ended;
        (parts(&response).unwrap_or_else(|| http::Response::new(()).into_parts().0), Some(0))
    }

    /// What comes next of the body, to be taken by whoever polls.
    pub(crate) fn take_next(&mut self, cx: &Context<'_>) -> Next {
        if !self.piece.as_slice().is_empty() {
            let piece = take(&mut self.piece).into_body();
            // Who writes within the taker's own turns has the next of them anyway.
            if let Some(writer) = self.writer.take()
                && !writer.wakes(cx)
            {
                writer.wake();
            }
            return Next::Part(CallPart::Data(shared(piece)));
        }
        if let Some(trailers) = self.trailers.take() {
            return Next::Part(CallPart::Trailers(trailers));
        }
        match self.stage {
            Stage::Ended | Stage::Unwanted => Next::End,
            Stage::CutShort => {
                // It is told once.
                self.stage = Stage::Ended;
                Next::CutShort
            }
            Stage::Due | Stage::Streamed(_) => Next::Nothing,
        }
    }

    /// All that is left, if the handler has written it and there are no trailers.
    pub(crate) fn take_whole(&mut self) -> Option<Bytes> {
        let is_whole = matches!(self.stage, Stage::Ended) && self.trailers.is_none();
        is_whole.then(|| shared(take(&mut self.piece).into_body()))
    }

    /// Whether all of it was taken.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended) && self.piece.as_slice().is_empty() && self.trailers.is_none()
    }

    pub(crate) fn begin_turn(&mut self) {
        self.taker = Taker::Polls;
    }

    pub(crate) fn end_turn(&mut self, cx: &Context<'_>) {
        self.taker = Taker::Waits(UserWaker::of(cx));
    }

    /// Something came, or the handler may end.
    pub(crate) fn tell_taker(&mut self) {
        if let Taker::Waits(_) = self.taker
            && let Taker::Waits(waker) = replace(&mut self.taker, Taker::Away)
        {
            waker.wake();
        }
    }

    /// Nobody takes it any more.
    pub(crate) fn leave(&mut self) {
        self.stage = Stage::Unwanted;
        (self.head, self.trailers) = (None, None);
        self.piece = UserBody::default();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

/// A head as one of the `http` crate; `None` for what that does not take.
fn parts(response: &Response) -> Option<http::response::Parts> {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = response.status();
    for (name, value) in response.headers() {
        let (name, value) = (HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_bytes(value).ok()?);
        parts.headers.append(name, value);
    }
    Some(parts)
}

/// Fields that were checked, by name. One that is none of the `http` crate is left out.
fn to_map<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}

fn shared(body: Body) -> Bytes {
    match body {
        Body::Empty => Bytes::new(),
        Body::Static(bytes) => Bytes::from_static(bytes),
        Body::Bytes(bytes) => bytes,
        Body::Lease(lease) if lease.len() <= COPIED_BYTES_MAX => Bytes::copy_from_slice(&lease),
        Body::Lease(lease) => lease.into(),
    }
}
