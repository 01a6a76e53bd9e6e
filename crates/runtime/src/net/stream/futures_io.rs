//! The traits of the futures crates for streams, for crates that are written against them.
#![forbid(unsafe_code)]

use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{IoSlice, Result};

use futures_io::{AsyncRead, AsyncWrite};

use super::{ReadHalf, SocketStream, WriteHalf};
use crate::OnWorker;
use crate::net::address::SocketAddress;

macro_rules! reads {
    ($stream:ty $(, $address:ident)?) => {
        impl$(<$address: SocketAddress>)? AsyncRead for $stream {
            fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
                <$stream>::poll_read(&mut self, cx, buffer).map_err(Into::into)
            }
        }
    };
}

macro_rules! writes {
    ($stream:ty $(, $address:ident)?) => {
        impl$(<$address: SocketAddress>)? AsyncWrite for $stream {
            fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
                <$stream>::poll_write(&mut self, cx, bytes).map_err(Into::into)
            }

            fn poll_write_vectored(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<Result<usize>> {
                <$stream>::poll_write_vectored(&mut self, cx, slices).map_err(Into::into)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                <$stream>::poll_flush(&mut self, cx).map_err(Into::into)
            }

            fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                <$stream>::poll_shutdown(&mut self, cx).map_err(Into::into)
            }
        }
    };
}

reads!(SocketStream<A>, A);
reads!(ReadHalf);
writes!(SocketStream<A>, A);
writes!(WriteHalf);

/// On the stream's own worker: see [`OnWorker`].
impl<S: AsyncRead + Unpin> AsyncRead for OnWorker<S> {
    #[track_caller]
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        self.with(|stream| Pin::new(stream).poll_read(cx, buffer))
    }
}

/// On the stream's own worker: see [`OnWorker`].
impl<S: AsyncWrite + Unpin> AsyncWrite for OnWorker<S> {
    #[track_caller]
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.with(|stream| Pin::new(stream).poll_write(cx, bytes))
    }

    #[track_caller]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.with(|stream| Pin::new(stream).poll_write_vectored(cx, slices))
    }

    #[track_caller]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| Pin::new(stream).poll_flush(cx))
    }

    #[track_caller]
    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| Pin::new(stream).poll_close(cx))
    }
}
