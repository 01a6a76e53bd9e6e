//! Any body of an answer.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use crate::blob::Blob;

/// Any body of an answer.
#[derive(Debug)]
pub enum Answer {
    /// In one piece.
    Whole(Full<Bytes>),
    /// From the shared buffer.
    Blob(Blob),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Answer::Whole(body) => Pin::new(body).poll_frame(cx),
            Answer::Blob(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Whole(body) => body.is_end_stream(),
            Answer::Blob(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(body) => body.size_hint(),
            Answer::Blob(body) => body.size_hint(),
        }
    }
}
