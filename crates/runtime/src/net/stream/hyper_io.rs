//! Hyper's traits for streams: what `hyper::client::conn` and `hyper::server::conn` read and write.
#![forbid(unsafe_code)]

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{IoSlice, Result};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::TcpStream;

impl Read for TcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let count = ready!(TcpStream::poll_read(&mut self, cx, buffer.initialize_unfilled()))?;
        buffer.advance_initialized(count);
        Poll::Ready(Ok(()))
    }
}

impl Write for TcpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        TcpStream::poll_write(&mut self, cx, bytes).map_err(Into::into)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        TcpStream::poll_write_vectored(&mut self, cx, slices).map_err(Into::into)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is kept back.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        TcpStream::poll_shutdown(&mut self, cx).map_err(Into::into)
    }
}
