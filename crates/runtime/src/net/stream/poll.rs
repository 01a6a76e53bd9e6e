//! Streams in readiness style: each call is tried at once, and what cannot be done now is waited for without a buffer.
//!
//! So nothing is in flight when a future is dropped, and other people's protocols, which bring buffers of their own,
//! find the traits that they ask for. It goes together with owned receives: what one of them left over or has brought
//! comes first.
//!
//! ```text
//!  poll_read:  rest of a lease -> a receive in flight -> recv(2) -> EAGAIN -> wait for readiness
//!  poll_write:                                           send(2) -> EAGAIN -> wait for readiness
//! ```
#![forbid(unsafe_code)]

use core::task::{Context, Poll};
use std::io::IoSlice;

use plimsoll_pool::Lease;
use plimsoll_reactor::op::Shutdown;
use plimsoll_reactor::{Errno, Interest, Op, Payload};

use super::{Handle, ReadHalf, SocketStream, WriteHalf, brought, carried, copy_out, lost};
use crate::net::address::SocketAddress;
use crate::net::socket::{Receiving, Sending, Socket};
use crate::{Error, Result};

/// Calls in a row that may be done at once. Then the task waits for a turn: a peer that sends as fast as its bytes are
/// read must not keep the worker from all others.
const CALLS_MAX: u8 = 32;

impl<A: SocketAddress> SocketStream<A> {
    /// Reads what is there into a buffer; 0 at the end of the peer's stream, or for an empty buffer. It holds no memory
    /// of the pool while it waits.
    ///
    /// May be mixed with [`recv`](Self::recv) and [`read`](Self::read): bytes come in their order.
    ///
    /// Cancel safe. The task of the last call that was pending is woken.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `recv(2)`, [`Error::OverBudget`] when the wait itself has no room, or when a receive before
    /// has lost bytes at the line.
    ///
    /// ```
    /// use core::future::poll_fn;
    /// use plimsoll_runtime::net::{TcpListener, TcpStream};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()).await?;
    /// let (mut server, _) = listener.accept().await?;
    /// assert_eq!(poll_fn(|cx| server.poll_write(cx, b"hello")).await?, 5);
    /// let mut buffer = [0; 16];
    /// let count = poll_fn(|cx| client.poll_read(cx, &mut buffer)).await?;
    /// assert_eq!(&buffer[..count], b"hello");
    /// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        poll_read(&self.handle, cx, buffer)
    }

    /// Sends as much of some bytes as the socket takes, and says how many. Nothing is sent later: a future that is
    /// dropped leaves the stream usable.
    ///
    /// Cancel safe. The task of the last call that was pending is woken.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `send(2)`, [`Error::OverBudget`] when the wait has no room, [`Error::SendInterrupted`]
    /// when an owned send was dropped midway, or is under way.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        poll_write(&self.handle, cx, &[IoSlice::new(bytes)])
    }

    /// The same from several slices, in their order, by one call of the system.
    ///
    /// # Errors
    ///
    /// As [`poll_write`](Self::poll_write).
    pub fn poll_write_vectored(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        poll_write(&self.handle, cx, slices)
    }

    /// Sends what [`poll_write`](Self::poll_write) has taken and the socket has not: records that
    /// [carry](Self::is_carried) the bytes. Of a stream without them nothing is kept back, and it is ready at once.
    ///
    /// # Errors
    ///
    /// As [`poll_write`](Self::poll_write).
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        poll_flush(&self.handle, cx)
    }

    /// Ends our half: the peer sees the end of the stream behind what was sent. It never waits, but for what
    /// [`poll_flush`](Self::poll_flush) waits for.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `shutdown(2)`, [`Error::SendInterrupted`] as [`poll_write`](Self::poll_write).
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        poll_shutdown(&self.handle, cx)
    }
}

impl ReadHalf {
    /// As [`SocketStream::poll_read`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::poll_read`].
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
        poll_read(&self.handle, cx, buffer)
    }
}

impl WriteHalf {
    /// As [`SocketStream::poll_write`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::poll_write`].
    pub fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        poll_write(&self.handle, cx, &[IoSlice::new(bytes)])
    }

    /// As [`SocketStream::poll_write_vectored`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::poll_write`].
    pub fn poll_write_vectored(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize>> {
        poll_write(&self.handle, cx, slices)
    }

    /// As [`SocketStream::poll_flush`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::poll_write`].
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        poll_flush(&self.handle, cx)
    }

    /// As [`SocketStream::poll_shutdown`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::poll_shutdown`].
    pub fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        poll_shutdown(&self.handle, cx)
    }
}

fn poll_read(handle: &Handle, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
    if buffer.is_empty() {
        return Poll::Ready(Ok(0));
    }
    loop {
        if let Some(count) = handle.with(|socket| take_rest(&mut socket.rest, buffer)) {
            return Poll::Ready(Ok(count));
        }
        if handle.is_carried() {
            return carried::poll_read(handle, cx, buffer);
        }
        if let Some(waiter) = handle.with(|socket| socket.receiving.waiter()) {
            // As with `recv`, its state changes when the wakers' own code is over.
            let Poll::Ready(completion) = handle.worker.poll_answer(waiter, cx) else { return Poll::Pending };
            match handle.with(|socket| core::mem::replace(&mut socket.receiving, Receiving::Idle)) {
                // What ended it, an error as well, is told by the call that follows.
                Receiving::Awaited { .. } => {}
                Receiving::Armed { .. } => match brought(handle, completion)? {
                    Some(Payload::Lease(lease)) => handle.with(|socket| socket.rest = Some(lease)),
                    Some(Payload::Received(bytes)) if bytes.len() <= buffer.len() => {
                        buffer[..bytes.len()].copy_from_slice(&bytes);
                        return Poll::Ready(Ok(bytes.len()));
                    }
                    Some(Payload::Received(bytes)) => {
                        let rest = copy_out(handle, bytes)?;
                        handle.with(|socket| socket.rest = rest);
                    }
                    Some(other) => unreachable!("a receive brings bytes, not {other:?}"),
                    None => return Poll::Ready(Ok(0)),
                },
                _ => unreachable!("it had a waiter"),
            }
            continue;
        }
        match handle.with(|socket| core::mem::replace(&mut socket.receiving, Receiving::Idle)) {
            Receiving::Idle => {}
            Receiving::Armed { .. } | Receiving::Awaited { .. } => unreachable!("asked above"),
            Receiving::Held(bytes) if bytes.len() <= buffer.len() => {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                return Poll::Ready(Ok(bytes.len()));
            }
            Receiving::Held(bytes) => {
                let rest = copy_out(handle, bytes)?;
                handle.with(|socket| socket.rest = rest);
                continue;
            }
            Receiving::Lost => {
                handle.with(|socket| socket.receiving = Receiving::Lost);
                return Poll::Ready(Err(lost()));
            }
            Receiving::Ended => {
                handle.with(|socket| socket.receiving = Receiving::Ended);
                return Poll::Ready(Ok(0));
            }
        }
        if !handle.with(may_call) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        match handle.with(|socket| handle.worker.driver.borrow_mut().read_now(socket.fd.at(), buffer)) {
            Ok(0) => {
                handle.with(|socket| socket.receiving = Receiving::Ended);
                return Poll::Ready(Ok(0));
            }
            Ok(count) => return Poll::Ready(Ok(count)),
            Err(Errno::AGAIN) => {
                let (waiter, op) = wait_for(handle, Interest::Readable)?;
                handle.with(|socket| socket.receiving = Receiving::Awaited { waiter, op });
            }
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
}

/// The front of bytes that are left over; `None` when there are none.
pub(super) fn take_rest(rest: &mut Option<Lease>, buffer: &mut [u8]) -> Option<usize> {
    let lease = rest.as_mut()?;
    let count = lease.len().min(buffer.len());
    buffer[..count].copy_from_slice(&lease[..count]);
    lease.consume(count);
    if lease.is_empty() {
        *rest = None;
    }
    (count > 0).then_some(count)
}

/// Whether one more call may be done in this turn of the task.
fn may_call(socket: &mut Socket) -> bool {
    socket.calls += 1;
    if socket.calls <= CALLS_MAX {
        return true;
    }
    socket.calls = 0;
    false
}

fn wait_for(handle: &Handle, interest: Interest) -> Result<(plimsoll_slab::Key, plimsoll_slab::Key)> {
    let started = handle.with(|socket| {
        socket.calls = 0;
        handle.worker.start(Op::Poll { fd: socket.fd.at(), interest }).map_err(|(over, _op)| over)
    });
    Ok(started?)
}

fn poll_write(handle: &Handle, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize>> {
    if handle.is_carried() { carried::poll_write(handle, cx, slices) } else { poll_write_raw(handle, cx, slices) }
}

/// What goes to the socket.
pub(super) fn poll_write_raw(handle: &Handle, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize>> {
    loop {
        match handle.with(|socket| socket.sending) {
            Sending::Ready => {}
            Sending::Interrupted => return Poll::Ready(Err(Error::SendInterrupted)),
            Sending::Awaited { waiter, .. } => {
                let Poll::Ready(_) = handle.worker.poll_answer(waiter, cx) else { return Poll::Pending };
                handle.with(|socket| socket.sending = Sending::Ready);
            }
        }
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        if !handle.with(may_call) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let sent = handle.with(|socket| {
            let mut driver = handle.worker.driver.borrow_mut();
            match slices {
                [bytes] => driver.send_now(socket.fd.at(), bytes),
                slices => driver.send_vectored_now(socket.fd.at(), slices),
            }
        });
        match sent {
            Ok(count) => return Poll::Ready(Ok(count)),
            Err(Errno::AGAIN) => {
                let (waiter, op) = wait_for(handle, Interest::Writable)?;
                handle.with(|socket| socket.sending = Sending::Awaited { waiter, op });
            }
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
}

fn poll_flush(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<()>> {
    if handle.is_carried() { carried::poll_flush(handle, cx) } else { Poll::Ready(Ok(())) }
}

fn poll_shutdown(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<()>> {
    if handle.is_carried() && carried::poll_end(handle, cx)?.is_pending() {
        return Poll::Pending;
    }
    Poll::Ready(shutdown(handle))
}

fn shutdown(handle: &Handle) -> Result<()> {
    handle.end_write_wait();
    if handle.with(|socket| socket.sending) == Sending::Interrupted {
        return Err(Error::SendInterrupted);
    }
    Ok(handle.with(|socket| handle.worker.driver.borrow_mut().shutdown_now(socket.fd.at(), Shutdown::Write))?)
}
