//! The body of a request that the program brings itself.

use ::core::cell::RefCell;
use ::core::mem::take;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use plimsoll_codec::h1::{check_field, is_trailer};
use plimsoll_runtime::{Kind, Lease, Pool};

use crate::base::error::Error;
use crate::exchange::trailers;

/// A handler gets so many bytes of a body at once.
const CHUNK_BYTES: usize = 16 * 1_024;

/// A part of a body: of a request that a program brings to [`Callable::call`](crate::Callable::call), or of its
/// answer.
#[derive(Clone, Debug)]
pub enum CallPart {
    /// Bytes.
    Data(Bytes),
    /// The fields behind the bytes, and its end.
    Trailers(HeaderMap),
}

/// The body of a request that a program brings to [`Callable::call`](crate::Callable::call). `()` is none.
///
/// It is asked for a part when the handler asks for one, and dropped at its end or with the call. Its bytes are the
/// program's; what the handler reads is copied to the pool, 16 KiB at a time.
pub trait CallBody {
    /// The next part, or `None` at the end. Not called again after that, after trailers or after an error.
    ///
    /// # Errors
    ///
    /// What the handler is told.
    fn poll_part(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<CallPart, Error>>>;

    /// Its length in bytes, if that is known; asked for before the first part.
    fn length(&self) -> Option<u64>;
}

impl CallBody for () {
    fn poll_part(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<CallPart, Error>>> {
        Poll::Ready(None)
    }

    fn length(&self) -> Option<u64> {
        Some(0)
    }
}

/// See the module. Nothing is borrowed while the body's own code runs.
pub(crate) struct Incoming {
    source: RefCell<Source>,
    /// What came, and was not read yet.
    rest: RefCell<Bytes>,
    trailers: RefCell<Option<Lease>>,
}

enum Source {
    Open(Pin<Box<dyn CallBody>>),
    Ended,
    /// It has failed, or its call was dropped.
    Lost,
}

impl Incoming {
    pub(crate) fn new(body: impl CallBody + 'static) -> Self {
        let source = if body.length() == Some(0) { Source::Ended } else { Source::Open(Box::pin(body)) };
        Self { source: RefCell::new(source), rest: RefCell::default(), trailers: RefCell::default() }
    }

    /// The next part of it.
    pub(crate) fn poll_chunk(
        &self,
        pool: &Pool,
        trailer_bytes_max: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Lease>, Error>> {
        loop {
            if !self.rest.borrow().is_empty() {
                return Poll::Ready(self.next_chunk(pool).map(Some));
            }
            // Taken out while it is polled: its code may come back here, and finds nothing to read.
            let mut body = match self.source.replace(Source::Lost) {
                Source::Open(body) => body,
                Source::Ended => {
                    self.source.replace(Source::Ended);
                    return Poll::Ready(Ok(None));
                }
                Source::Lost => return Poll::Ready(Err(Error::Disconnected)),
            };
            match body.as_mut().poll_part(cx) {
                Poll::Pending => {
                    self.source.replace(Source::Open(body));
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(CallPart::Data(data)))) => {
                    self.source.replace(Source::Open(body));
                    self.rest.replace(data);
                }
                Poll::Ready(Some(Ok(CallPart::Trailers(map)))) => {
                    let kept = self.keep_trailers(pool, trailer_bytes_max, &map);
                    self.source.replace(if kept.is_ok() { Source::Ended } else { Source::Lost });
                    return Poll::Ready(kept.map(|()| None));
                }
                Poll::Ready(None) => drop(self.source.replace(Source::Ended)),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Copies what fits a chunk. Without room it stays.
    fn next_chunk(&self, pool: &Pool) -> Result<Lease, Error> {
        let mut rest = self.rest.borrow_mut();
        let bytes = rest.len().min(CHUNK_BYTES);
        let chunk = pool.try_copy(&rest[..bytes], Kind::Buffers)?;
        let mut used = take(&mut *rest);
        if used.len() > bytes {
            *rest = used.split_off(bytes);
        }
        drop(rest);
        // Dropped while nothing is borrowed: bytes may have an owner.
        drop(used);
        Ok(chunk)
    }

    /// What is no trailer is left out, as anybody on the way may do.
    fn keep_trailers(&self, pool: &Pool, bytes_max: usize, map: &HeaderMap) -> Result<(), Error> {
        let fields = map.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let kept: Vec<_> = fields
            .filter(|(name, value)| is_trailer(name.as_bytes()) && check_field(name.as_bytes(), value).is_ok())
            .collect();
        if kept.is_empty() {
            return Ok(());
        }
        let block = trailers::encode(pool, &kept)?;
        if block.len() > bytes_max {
            return Err(Error::Peer(plimsoll_codec::Error::TrailersTooLarge));
        }
        self.trailers.replace(Some(block));
        Ok(())
    }

    /// The fields behind it, once.
    pub(crate) fn take_trailers(&self) -> Option<Lease> {
        self.trailers.take()
    }

    /// Its call was dropped.
    pub(crate) fn lose(&self) {
        let before = (self.source.replace(Source::Lost), self.rest.take());
        drop(before);
    }
}
