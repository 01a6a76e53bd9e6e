//! A body of many bytes from one shared buffer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use peer_answers::BLOB;

/// The body of `/blob`: so many bytes are left.
#[derive(Debug)]
pub struct Blob(pub u64);

impl Body for Blob {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.0.min(BLOB.len() as u64);
        self.0 -= piece;
        let frame = || Ok(Frame::data(Bytes::from_static(&BLOB[..piece as usize])));
        Poll::Ready((piece > 0).then(frame))
    }

    fn is_end_stream(&self) -> bool {
        self.0 == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}
