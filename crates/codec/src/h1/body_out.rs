//! The body of a response as it leaves: what goes around each piece, and whether it is as long as its head said.

use super::{BodyOut, CHUNK_END, ChunkHeader, Fields, LAST_CHUNK, Sink, check_trailers, chunk_header, put_last_chunk};
use crate::Error;

/// Frames one response body, and keeps the count of it.
///
/// A body that is longer than its Content-Length would be read as the next answer, and one that is shorter would take
/// the next answer for its end (RFC 9110 8.6, RFC 9112 6.3): neither gets past this. Copy the encoder before a step
/// that may fail, and keep the copy that was true.
///
/// ```
/// use plimsoll_codec::Error;
/// use plimsoll_codec::h1::{BodyEncoder, BodyOut};
///
/// let mut body = BodyEncoder::new(BodyOut::Chunked);
/// let frame = body.piece(4)?;
/// assert_eq!((frame.before(), frame.after()), (&b"4\r\n"[..], &b"\r\n"[..]));
/// assert_eq!(body.finish()?, b"0\r\n\r\n");
///
/// let mut body = BodyEncoder::new(BodyOut::Length(3));
/// body.piece(2)?;
/// assert_eq!(body.piece(2).err(), Some(Error::BodyTooLong));
/// assert_eq!(body.finish(), Err(Error::BodyTooShort));
/// # Ok::<(), Error>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BodyEncoder {
    state: State,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Bytes that are still due.
    Length(u64),
    Chunked,
    UntilClose,
    /// There is no body, or it has ended.
    Over,
}

/// What goes around a piece of a body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Frame(Option<ChunkHeader>);

impl Frame {
    /// What goes before the piece: the size line of a chunk, or nothing.
    #[must_use]
    pub fn before(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], ChunkHeader::as_bytes)
    }

    /// What goes after it: the line end of a chunk, or nothing.
    #[must_use]
    pub const fn after(&self) -> &'static [u8] {
        if self.0.is_some() { CHUNK_END } else { &[] }
    }
}

impl BodyEncoder {
    /// For what follows a head, see [`ResponseHead::body`](super::ResponseHead::body).
    #[must_use]
    pub const fn new(body: BodyOut) -> Self {
        let state = match body {
            BodyOut::None | BodyOut::Length(0) => State::Over,
            BodyOut::Length(bytes) => State::Length(bytes),
            BodyOut::Chunked => State::Chunked,
            BodyOut::UntilClose => State::UntilClose,
        };
        BodyEncoder { state }
    }

    /// Takes note of a piece of so many bytes. A piece of none is nothing: it would end a chunked body.
    ///
    /// # Errors
    ///
    /// [`Error::BodyTooLong`] if fewer are due; [`Error::BodyNotAllowed`] if there is no body, or none any more.
    /// Nothing is changed then.
    pub fn piece(&mut self, bytes: u64) -> Result<Frame, Error> {
        match self.state {
            _ if bytes == 0 => Ok(Frame(None)),
            State::Length(due) if due < bytes => Err(Error::BodyTooLong),
            State::Length(due) => {
                self.state = State::Length(due - bytes);
                Ok(Frame(None))
            }
            State::Chunked => Ok(Frame(Some(chunk_header(bytes)))),
            State::UntilClose => Ok(Frame(None)),
            State::Over => Err(Error::BodyNotAllowed),
        }
    }

    /// Ends the body, and says what closes it. [`finish_with`](Self::finish_with) sends trailers too.
    ///
    /// # Errors
    ///
    /// [`Error::BodyTooShort`] if bytes are still due: the connection has to be closed, so that the client can tell.
    pub fn finish(&mut self) -> Result<&'static [u8], Error> {
        let end: &[u8] = match self.state {
            State::Length(1..) => return Err(Error::BodyTooShort),
            State::Chunked => LAST_CHUNK,
            State::Length(0) | State::UntilClose | State::Over => &[],
        };
        self.state = State::Over;
        Ok(end)
    }

    /// Ends the body, and puts what closes it with trailers. Only chunks have a place for them: behind another body
    /// they are left out, as anybody on the way may do (RFC 9110 6.5.1).
    ///
    /// ```
    /// use plimsoll_codec::h1::{BodyEncoder, BodyOut, Fields};
    ///
    /// let mut out = Vec::new();
    /// BodyEncoder::new(BodyOut::Chunked).finish_with(Fields::check(b"sum: 7\r\n")?, &mut out)?;
    /// assert_eq!(out, b"0\r\nsum: 7\r\n\r\n");
    /// # Ok::<(), plimsoll_codec::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`finish`](Self::finish) and [`put_last_chunk`](super::put_last_chunk); the trailers are checked in any case.
    /// Nothing is changed but, when the sink was full, the sink.
    pub fn finish_with<S: Sink + ?Sized>(&mut self, trailers: Fields<'_>, sink: &mut S) -> Result<(), Error> {
        check_trailers(trailers)?;
        let mut ended = *self;
        match (self.state, ended.finish()?) {
            (State::Chunked, _) => put_last_chunk(sink, trailers)?,
            (_, end) => debug_assert!(end.is_empty(), "only chunks are closed"),
        }
        *self = ended;
        Ok(())
    }

    /// Bytes that are still due, if the length is known.
    #[must_use]
    pub const fn due(&self) -> Option<u64> {
        match self.state {
            State::Length(due) => Some(due),
            State::Over => Some(0),
            State::Chunked | State::UntilClose => None,
        }
    }
}

const _: () = assert!(size_of::<BodyEncoder>() <= 16);
