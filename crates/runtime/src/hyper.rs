//! What hyper asks a runtime for, beside streams: time, and tasks.
//!
//! `hyper::client::conn` and `hyper::server::conn` run on a [`TcpStream`](crate::net::TcpStream) as it is, with
//! [`Timer`] and, for HTTP/2, [`Executor`]. No runtime of tokio is needed. What hyper allocates is the program's heap,
//! not under the line.
//!
//! ```
//! use plimsoll_runtime::net::{TcpListener, TcpStream};
//! # use http_body_util::{BodyExt, Empty};
//! # use hyper::body::Bytes;
//!
//! # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
//! # let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
//! # let address = listener.local_addr();
//! # let server = plimsoll_runtime::spawn(async move {
//! #     let (mut stream, _) = listener.accept().await?;
//! #     stream.recv().await?;
//! #     stream.send_static(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await
//! # }).expect("room");
//! let stream = TcpStream::connect(address).await?;
//! let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
//! let connection = plimsoll_runtime::spawn(connection)?;
//! let answer = sender.send_request(hyper::Request::get("/").body(Empty::<Bytes>::new())?).await?;
//! assert_eq!(answer.into_body().collect().await?.to_bytes(), "hi");
//! # drop(sender);
//! # let (_, _) = (connection.await, server.await);
//! # Ok::<(), Box<dyn core::error::Error>>(()) })?; Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! **I-INITIALISED**: `initialize_unfilled` has initialised all of the unfilled part, and a read fills no more than it
//! was given.
#![allow(unsafe_code)]

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::io::{IoSlice, Result};
use std::sync::OnceLock;
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};

use crate::OnWorker;
use crate::net::{SocketAddress, SocketStream};

/// Hyper's timer, over those of the worker that it is called on.
///
/// In a simulation its time is the simulated one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

impl hyper::rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(Sleep { deadline: crate::now() + duration, timer: None })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(hyper::rt::Timer::now(self)))
    }

    fn now(&self) -> Instant {
        let since_origin = Duration::from_nanos(crate::now().as_nanos());
        let origin = || {
            let system = crate::sys::system_now();
            system.checked_sub(since_origin).unwrap_or(system)
        };
        *ORIGIN.get_or_init(origin) + since_origin
    }
}

/// Where our own clock counts from. On real drivers both clocks are the same one.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

struct Sleep {
    deadline: crate::Instant,
    /// Made when it is first waited for, which is on the worker.
    timer: Option<OnWorker<crate::Sleep>>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        if self.timer.is_none() {
            match OnWorker::new(crate::sleep_until(deadline)) {
                Ok(timer) => self.timer = Some(timer),
                Err(_) if crate::now() >= deadline => return Poll::Ready(()),
                Err(_) => {
                    // At the line it asks again in the next turn, as other timers do.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
            }
        }
        match &mut self.timer {
            Some(timer) => Pin::new(timer).poll(cx),
            None => unreachable!("made above"),
        }
    }
}

impl hyper::rt::Sleep for Sleep {}

/// Hyper's executor: each future becomes a task of the worker that it is called on.
///
/// At the memory line there is no room for a task: the future is dropped, which ends the request or the connection that
/// it is of, and a warning is logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Executor;

impl<F: Future + 'static> hyper::rt::Executor<F> for Executor {
    fn execute(&self, future: F) {
        match crate::spawn(future) {
            Ok(task) => drop(task),
            Err(error) => tracing::warn!(%error, "a task of hyper was not started"),
        }
    }
}

impl<A: SocketAddress> Read for SocketStream<A> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        let room = buffer.initialize_unfilled();
        let room_bytes = room.len();
        let count = ready!(SocketStream::poll_read(&mut self, cx, room))?;
        assert!(count <= room_bytes, "no more than there was room for");
        // SAFETY: I-INITIALISED.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<A: SocketAddress> Write for SocketStream<A> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        SocketStream::poll_write(&mut self, cx, bytes).map_err(Into::into)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        SocketStream::poll_write_vectored(&mut self, cx, slices).map_err(Into::into)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        SocketStream::poll_flush(&mut self, cx).map_err(Into::into)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        SocketStream::poll_shutdown(&mut self, cx).map_err(Into::into)
    }
}

/// On the stream's own worker: see [`OnWorker`].
impl<S: Read + Unpin> Read for OnWorker<S> {
    #[track_caller]
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<Result<()>> {
        self.with(|stream| Pin::new(stream).poll_read(cx, buffer))
    }
}

/// On the stream's own worker: see [`OnWorker`].
impl<S: Write + Unpin> Write for OnWorker<S> {
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

    /// One that cannot write several at once writes the first.
    fn is_write_vectored(&self) -> bool {
        true
    }

    #[track_caller]
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| Pin::new(stream).poll_flush(cx))
    }

    #[track_caller]
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| Pin::new(stream).poll_shutdown(cx))
    }
}
