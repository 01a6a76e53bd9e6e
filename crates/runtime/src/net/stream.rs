//! A connection of a task.
#![forbid(unsafe_code)]

mod carried;
#[cfg(feature = "futures-io")]
mod futures_io;
mod poll;
#[cfg(feature = "tokio-io")]
mod tokio_io;

use core::fmt;
use core::future::poll_fn;
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::task::{Context, Poll};
use std::rc::Rc;

use plimsoll_pool::{Kind, Lease, OverBudget, PoolBox};
use plimsoll_reactor::op::Shutdown;
use plimsoll_reactor::{
    Address, Completion, DriverKind, Errno, Fd, Op, Payload, PoolPage, Received, SendBytes, SocketKind, SocketOption,
    UnixAddress,
};
use plimsoll_slab::{CHUNK_BYTES, Key};

use super::address::SocketAddress;
use super::kernel;
use super::socket::{Carried, Entry, Receiving, Sending, Socket};
use super::transport::{Carrier, END_BYTES_MAX};
use crate::operation::Operation;
use crate::worker::Worker;
use crate::{Error, Result};

/// What a receive that was full asks for next: a buffer of its own.
const BULK_BYTES: usize = 64 * 1024;

/// Streams of a worker at most that keep a buffer of io_uring's, of four, because there was no room under the line for
/// a copy.
const HELD_MAX: usize = 2;

/// A connection without its stream.
pub(super) struct Parts {
    pub(super) fd: Fd,
    /// Bytes that were received, and that nobody has read.
    pub(super) unread: Option<Lease>,
    /// The peer has sent all it will send.
    pub(super) ended: bool,
    pub(super) carrier: Option<Carrier>,
}

/// One reference to a socket of the worker.
struct Handle {
    worker: Rc<Worker>,
    key: Key,
}

impl Handle {
    fn with<R>(&self, act: impl FnOnce(&mut Socket) -> R) -> R {
        let mut sockets = self.worker.sockets.borrow_mut();
        act(sockets.get_mut(self.key).expect("a socket lives as long as its handles"))
    }

    /// Its descriptor's number, to be shown.
    fn raw(&self) -> i32 {
        self.with(|socket| socket.fd.raw())
    }

    fn second(&self) -> Self {
        self.with(|socket| socket.halves += 1);
        Self { worker: Rc::clone(&self.worker), key: self.key }
    }

    /// Ends a wait for readiness: what follows brings bytes, or watches by itself.
    fn end_read_wait(&self) {
        let waits = self.with(|socket| match socket.receiving {
            Receiving::Awaited { waiter, op } => {
                socket.receiving = Receiving::Idle;
                Some((waiter, op))
            }
            _ => None,
        });
        if let Some((waiter, op)) = waits {
            self.worker.give_up(waiter, op);
        }
    }

    /// Ends a wait until bytes can be sent.
    fn end_write_wait(&self) {
        let waits = self.with(|socket| match socket.sending {
            Sending::Awaited { waiter, op } => {
                socket.sending = Sending::Ready;
                Some((waiter, op))
            }
            Sending::Ready | Sending::Interrupted => None,
        });
        if let Some((waiter, op)) = waits {
            self.worker.give_up(waiter, op);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut sockets = self.worker.sockets.borrow_mut();
        // There is none when the connection was handed on.
        let Some(socket) = sockets.get_mut(self.key) else { return };
        socket.halves -= 1;
        if socket.halves > 0 {
            return;
        }
        let (socket, carrier) = sockets.remove(self.key).expect("found above").into_parts();
        drop(sockets);
        if carrier.is_some() && socket.receiving.waiter().is_none() {
            // The end of what the peer sends, that nobody has read, would make a reset of the close.
            let _nothing_there = self.worker.driver.borrow_mut().discard_now(socket.fd.at(), END_BYTES_MAX);
        }
        if carrier.is_some() {
            self.worker.release.note_transport_gone();
        }
        drop(carrier);
        if let Receiving::Armed { waiter, op } | Receiving::Awaited { waiter, op } = socket.receiving {
            self.worker.give_up(waiter, op);
        }
        if let Sending::Awaited { waiter, op } = socket.sending {
            self.worker.give_up(waiter, op);
        }
        self.worker.close(socket.fd);
        kernel::uncharge(&self.worker);
    }
}

/// Room for a socket whose bytes a transport carries.
pub(super) type CarriedRoom = PoolBox<Option<Carried>>;

pub(super) fn carried_room(worker: &Worker) -> Result<CarriedRoom, OverBudget> {
    worker.pool.try_boxed(None, Kind::Slots).map_err(|(over, _none)| over)
}

/// Makes sure that the next socket has an entry.
pub(super) fn reserve(worker: &Worker) -> Result<(), OverBudget> {
    let mut sockets = worker.sockets.borrow_mut();
    if sockets.vacant().is_some() {
        return Ok(());
    }
    PoolPage::add(&worker.pool, |page| sockets.grow(page))
}

/// A connection, read and written by tasks of its worker: [`TcpStream`](super::TcpStream),
/// [`UnixStream`](super::UnixStream), or [`Stream`](super::Stream) for both.
///
/// Bytes come and go as owned [`Lease`]s of the pool: no copy between the pool and the caller. [`read`](Self::read)
/// copies into a buffer of the caller's. A stream that waits for bytes holds none. Dropping it closes the connection.
pub struct SocketStream<A: SocketAddress> {
    handle: Handle,
    addresses: PhantomData<fn() -> A>,
}

impl<A: SocketAddress> SocketStream<A> {
    /// A stream over a fresh descriptor, in an entry that was reserved. The descriptor comes back when the container
    /// has no room for what the kernel holds for it.
    pub(super) fn from_fd(worker: &Rc<Worker>, fd: Fd) -> Result<Self, Fd> {
        if kernel::charge(worker).is_err() {
            return Err(fd);
        }
        Self::from_charged(worker, fd).inspect_err(|_| kernel::uncharge(worker))
    }

    /// A stream over a descriptor that is charged already.
    fn from_charged(worker: &Rc<Worker>, fd: Fd) -> Result<Self, Fd> {
        let socket = Socket {
            fd,
            receiving: Receiving::Idle,
            rest: None,
            sending: Sending::Ready,
            bulk: false,
            halves: 1,
            calls: 0,
        };
        let key = worker.sockets.borrow_mut().insert(Entry::Plain(socket)).map_err(|entry| entry.into_parts().0.fd)?;
        Ok(Self::over(Handle { worker: Rc::clone(worker), key }))
    }

    fn over(handle: Handle) -> Self {
        Self { handle, addresses: PhantomData }
    }

    /// A stream over a connection that was a table's, with what that has received, in an entry that was reserved.
    pub(super) fn with_unread(
        worker: &Rc<Worker>,
        fd: Fd,
        unread: Option<Lease>,
        carried: Option<(CarriedRoom, Carrier)>,
    ) -> Self {
        let stream = Self::from_charged(worker, fd).unwrap_or_else(|_| unreachable!("an entry was reserved"));
        stream.handle.with(|socket| socket.rest = unread.filter(|lease| !lease.is_empty()));
        match carried {
            Some((room, carrier)) => Self::over(stream.handle.carry(room, carrier)),
            None => stream,
        }
    }

    /// Waits until no operation is in flight on it, so that a table can [adopt](super::Table::adopt) it. What a receive
    /// has brought is kept.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::SendInterrupted`] when a send was dropped midway, [`Error::OverBudget`] when bytes of the stream were
    /// lost, or what `recv` fails with.
    pub async fn quiesce(&mut self) -> Result<()> {
        if self.handle.is_carried() {
            poll_fn(|cx| carried::poll_flush(&self.handle, cx)).await?;
        }
        self.handle.end_read_wait();
        self.handle.end_write_wait();
        if self.handle.with(|socket| socket.sending) == Sending::Interrupted || self.handle.is_midway() {
            return Err(Error::SendInterrupted);
        }
        if self.handle.with(|socket| matches!(socket.receiving, Receiving::Lost)) {
            return Err(lost());
        }
        let armed = self.handle.with(|socket| match socket.receiving {
            Receiving::Armed { op, .. } => Some(op),
            _ => None,
        });
        if let Some(op) = armed {
            self.handle.worker.driver.borrow_mut().cancel(op);
        } else if !self.handle.with(|socket| matches!(socket.receiving, Receiving::Held(_))) {
            return Ok(());
        }
        let rest = self.handle.with(|socket| socket.rest.take());
        debug_assert!(rest.is_none(), "nothing is armed while bytes are left over");
        match poll_fn(|cx| carried::poll_recv_once(&self.handle, cx)).await {
            Ok(lease) => self.handle.with(|socket| socket.rest = lease),
            Err(Error::System(Errno::CANCELED)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Hands the connection on, after [`quiesce`](Self::quiesce), and the charge for the kernel's part with it.
    pub(super) fn into_parts(self) -> Parts {
        let socket = self.handle.worker.sockets.borrow_mut().remove(self.handle.key);
        let (socket, mut carrier) = socket.expect("a socket lives as long as its handles").into_parts();
        let is_quiet = matches!(socket.receiving, Receiving::Idle | Receiving::Ended);
        let is_busy = !is_quiet || socket.sending != Sending::Ready;
        assert!(!is_busy, "a stream is quiet when it goes into a table");
        let opened = carrier.as_mut().filter(|_| socket.rest.is_none()).and_then(Carrier::take_opened);
        let ended = matches!(socket.receiving, Receiving::Ended);
        Parts { fd: socket.fd, unread: socket.rest.or(opened), ended, carrier }
    }

    /// Connects to an address.
    ///
    /// Cancel safe: a connection that was made after all is closed.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `connect(2)`: `EAGAIN` when the queue of a Unix listener is full, which is not waited for;
    /// [`Error::OverBudget`].
    pub async fn connect(address: A) -> Result<Self> {
        let worker = Worker::current();
        reserve(&worker)?;
        let address = address.into();
        let fd = worker.driver.borrow_mut().socket(SocketKind::of(&address))?;
        worker.opened();
        let stream = Self::from_fd(&worker, fd).map_err(|fd| {
            worker.close(fd);
            OverBudget::new(CHUNK_BYTES as u64)
        })?;
        let address = worker.driver.borrow().address(address)?;
        let operation = stream.handle.with(|socket| {
            let op = Op::Connect { fd: socket.fd.at(), address };
            Operation::start(&worker, op).map_err(|(over, _op)| over)
        });
        operation?.await.result?;
        Ok(stream)
    }

    /// Receives what is there; `None` at the end of the peer's stream.
    ///
    /// Cancel safe: bytes that arrive while nobody waits are kept for the next call, at the memory line as long as no
    /// other receive needs their buffer.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `recv(2)`, [`Error::OverBudget`] when there is no room for the bytes. On io_uring two
    /// streams of a worker may keep theirs, and the next call tries again; otherwise they are lost, because the driver
    /// needs its buffers, and all further calls fail: close the connection.
    pub async fn recv(&mut self) -> Result<Option<Lease>> {
        poll_fn(|cx| poll_recv(&self.handle, cx)).await
    }

    /// Reads into a buffer of the caller's; 0 at the end of the peer's stream, or for an empty buffer.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        read(&self.handle, buffer).await
    }

    /// Sends all bytes of a lease.
    ///
    /// Not cancel safe: after a drop midway the stream refuses further sends.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `send(2)`, [`Error::OverBudget`], [`Error::SendInterrupted`].
    pub async fn send_all(&mut self, lease: Lease) -> Result<()> {
        send(&self.handle, SendBytes::Lease(lease)).await
    }

    /// Sends bytes that live for ever, without a copy. As [`send_all`](Self::send_all).
    ///
    /// # Errors
    ///
    /// As [`send_all`](Self::send_all).
    pub async fn send_static(&mut self, bytes: &'static [u8]) -> Result<()> {
        send(&self.handle, SendBytes::Static(bytes)).await
    }

    /// Sends a copy of bytes, in pieces of at most 64 KiB. As [`send_all`](Self::send_all).
    ///
    /// # Errors
    ///
    /// As [`send_all`](Self::send_all).
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        send_copy(&self.handle, bytes).await
    }

    /// Ends our half: the peer sees the end of the stream after what was sent.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `shutdown(2)`.
    pub async fn shutdown_write(&mut self) -> Result<()> {
        shutdown_write(&self.handle).await
    }

    /// Splits the stream into halves that two tasks of this worker may own. The connection is closed when both are
    /// dropped.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        let second = self.handle.second();
        (ReadHalf { handle: self.handle }, WriteHalf { handle: second })
    }

    /// Our address.
    ///
    /// # Errors
    ///
    /// [`Error::System`].
    pub fn local_addr(&self) -> Result<A> {
        let found = self.handle.with(|socket| self.handle.worker.driver.borrow().local_address(socket.fd.at()))?;
        A::of(found).ok_or(Error::System(Errno::AFNOSUPPORT))
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::System`], such as `ENOTCONN` after a reset.
    pub fn peer_addr(&self) -> Result<A> {
        let found = self.handle.with(|socket| self.handle.worker.driver.borrow().peer_address(socket.fd.at()))?;
        A::of(found).ok_or(Error::System(Errno::AFNOSUPPORT))
    }

    /// Sets a socket option.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `setsockopt(2)`.
    pub fn set_option(&self, option: SocketOption) -> Result<()> {
        Ok(self.handle.with(|socket| self.handle.worker.driver.borrow_mut().set_option(socket.fd.at(), option))?)
    }

    /// The same stream, with addresses of either family.
    pub fn into_any(self) -> SocketStream<Address> {
        SocketStream::over(self.handle)
    }
}

impl SocketStream<SocketAddr> {
    /// Small segments leave at once (`TCP_NODELAY`).
    ///
    /// # Errors
    ///
    /// [`Error::System`].
    pub fn set_nodelay(&self, on: bool) -> Result<()> {
        self.set_option(SocketOption::NoDelay(on))
    }
}

impl SocketStream<Address> {
    /// The same stream as one of TCP, if it is that and nothing else: not one whose bytes are
    /// [carried](Self::is_carried) in records, as TLS does.
    pub fn into_tcp(self) -> Result<SocketStream<SocketAddr>, Self> {
        match self.local_addr() {
            Ok(Address::Ip(_)) if !self.is_carried() => Ok(SocketStream::over(self.handle)),
            _ => Err(self),
        }
    }
}

impl From<SocketStream<SocketAddr>> for SocketStream<Address> {
    fn from(stream: SocketStream<SocketAddr>) -> Self {
        stream.into_any()
    }
}

impl From<SocketStream<UnixAddress>> for SocketStream<Address> {
    fn from(stream: SocketStream<UnixAddress>) -> Self {
        stream.into_any()
    }
}

impl<A: SocketAddress> fmt::Debug for SocketStream<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(A::STREAM).field("fd", &self.handle.raw()).finish()
    }
}

/// The half that receives; see [`SocketStream::into_split`].
pub struct ReadHalf {
    handle: Handle,
}

impl ReadHalf {
    /// As [`SocketStream::recv`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::recv`].
    pub async fn recv(&mut self) -> Result<Option<Lease>> {
        poll_fn(|cx| poll_recv(&self.handle, cx)).await
    }

    /// As [`SocketStream::read`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::read`].
    pub async fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        read(&self.handle, buffer).await
    }
}

impl fmt::Debug for ReadHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadHalf").field("fd", &self.handle.raw()).finish()
    }
}

/// The half that sends; see [`SocketStream::into_split`].
pub struct WriteHalf {
    handle: Handle,
}

impl WriteHalf {
    /// As [`SocketStream::send_all`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::send_all`].
    pub async fn send_all(&mut self, lease: Lease) -> Result<()> {
        send(&self.handle, SendBytes::Lease(lease)).await
    }

    /// As [`SocketStream::send_bytes`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::send_all`].
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        send_copy(&self.handle, bytes).await
    }

    /// As [`SocketStream::shutdown_write`].
    ///
    /// # Errors
    ///
    /// As [`SocketStream::shutdown_write`].
    pub async fn shutdown_write(&mut self) -> Result<()> {
        shutdown_write(&self.handle).await
    }
}

impl fmt::Debug for WriteHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteHalf").field("fd", &self.handle.raw()).finish()
    }
}

fn poll_recv(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>>> {
    if let Some(rest) = handle.with(|socket| socket.rest.take()) {
        return Poll::Ready(Ok(Some(rest)));
    }
    if handle.is_carried() { carried::poll_recv(handle, cx) } else { poll_recv_raw(handle, cx) }
}

/// What comes from the socket.
fn poll_recv_raw(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>>> {
    handle.end_read_wait();
    loop {
        if let Some(waiter) = handle.with(|socket| socket.receiving.waiter()) {
            // It stays armed while the wakers' own code runs, which may panic.
            let Poll::Ready(completion) = handle.worker.poll_answer(waiter, cx) else { return Poll::Pending };
            handle.with(|socket| socket.receiving = Receiving::Idle);
            return Poll::Ready(received(handle, completion));
        }
        match handle.with(|socket| core::mem::replace(&mut socket.receiving, Receiving::Idle)) {
            Receiving::Idle => {
                let armed = arm(handle)?;
                handle.with(|socket| socket.receiving = armed);
            }
            Receiving::Armed { .. } | Receiving::Awaited { .. } => unreachable!("asked above"),
            Receiving::Held(bytes) => return Poll::Ready(copy_out(handle, bytes)),
            Receiving::Lost => {
                handle.with(|socket| socket.receiving = Receiving::Lost);
                return Poll::Ready(Err(lost()));
            }
            Receiving::Ended => {
                handle.with(|socket| socket.receiving = Receiving::Ended);
                return Poll::Ready(Ok(None));
            }
        }
    }
}

/// Starts a receive: into a lease of its own when the last one was full and the line allows it.
fn arm(handle: &Handle) -> Result<Receiving> {
    let bulk = handle.with(|socket| socket.bulk);
    let lease = if bulk { handle.worker.pool.try_acquire(BULK_BYTES, Kind::Buffers).ok() } else { None };
    let started = handle.with(|socket| {
        let fd = socket.fd.at();
        let op = match lease {
            Some(lease) => Op::ReceiveInto { fd, lease },
            None => Op::Receive { fd },
        };
        handle.worker.start(op).map_err(|(over, _op)| over)
    });
    let (waiter, op) = started?;
    Ok(Receiving::Armed { waiter, op })
}

fn received(handle: &Handle, completion: Completion) -> Result<Option<Lease>> {
    match brought(handle, completion)? {
        None => Ok(None),
        Some(Payload::Lease(lease)) => Ok(Some(lease)),
        Some(Payload::Received(bytes)) => copy_out(handle, bytes),
        Some(other) => unreachable!("a receive brings bytes, not {other:?}"),
    }
}

/// What a receive has brought; `None` at the end of the stream.
fn brought(handle: &Handle, completion: Completion) -> Result<Option<Payload>> {
    if completion.result == Err(Errno::NOBUFS) {
        // The worker needed the buffer, and had no room for a copy.
        handle.with(|socket| socket.receiving = Receiving::Lost);
        return Err(lost());
    }
    let count = completion.result? as usize;
    handle.with(|socket| socket.bulk = count >= plimsoll_reactor::RECEIVE_BYTES_MAX);
    if count == 0 {
        handle.with(|socket| socket.receiving = Receiving::Ended);
        return Ok(None);
    }
    Ok(Some(completion.payload))
}

fn copy_out(handle: &Handle, bytes: Received) -> Result<Option<Lease>> {
    match handle.worker.pool.try_copy(&bytes, Kind::Buffers) {
        Ok(lease) => Ok(Some(lease)),
        Err(over) => {
            let kept = if may_hold(&handle.worker) { Receiving::Held(bytes) } else { Receiving::Lost };
            handle.with(|socket| socket.receiving = kept);
            Err(over.into())
        }
    }
}

/// Whether one more stream may keep a buffer of the driver's. Called at the line only.
fn may_hold(worker: &Worker) -> bool {
    let held_max = match worker.driver.borrow().kind() {
        DriverKind::Uring => HELD_MAX,
        // Their one buffer is everybody's.
        DriverKind::Mio | DriverKind::Sim => 0,
    };
    let sockets = worker.sockets.borrow();
    sockets.iter().filter(|(_, socket)| matches!(socket.receiving, Receiving::Held(_))).take(held_max).count()
        < held_max
}

/// What a stream with a hole fails with.
fn lost() -> Error {
    OverBudget::new(plimsoll_reactor::RECEIVE_BYTES_MAX as u64).into()
}

async fn read(handle: &Handle, buffer: &mut [u8]) -> Result<usize> {
    if buffer.is_empty() {
        return Ok(0);
    }
    let Some(mut lease) = poll_fn(|cx| poll_recv(handle, cx)).await? else { return Ok(0) };
    let count = lease.len().min(buffer.len());
    buffer[..count].copy_from_slice(&lease[..count]);
    lease.consume(count);
    if !lease.is_empty() {
        handle.with(|socket| socket.rest = Some(lease));
    }
    Ok(count)
}

async fn send(handle: &Handle, mut bytes: SendBytes) -> Result<()> {
    if handle.is_carried() {
        return carried::send(handle, bytes).await;
    }
    handle.end_write_wait();
    if handle.with(|socket| socket.sending) == Sending::Interrupted {
        return Err(Error::SendInterrupted);
    }
    if bytes.is_empty() {
        return Ok(());
    }
    let mut begun = false;
    while !bytes.is_empty() {
        let started = handle.with(|socket| {
            let op = Op::Send { fd: socket.fd.at(), bytes };
            Operation::start(&handle.worker, op).map_err(|(over, _op)| over)
        });
        let operation = match started {
            Ok(operation) => operation,
            Err(over) => {
                // Nothing of it has left: the stream is as it was.
                if !begun {
                    handle.with(|socket| socket.sending = Sending::Ready);
                }
                return Err(over.into());
            }
        };
        begun = true;
        handle.with(|socket| socket.sending = Sending::Interrupted);
        let completion = operation.await;
        completion.result?;
        bytes = match completion.payload {
            Payload::Sent(rest) => rest,
            other => unreachable!("a send brings the rest, not {other:?}"),
        };
    }
    handle.with(|socket| socket.sending = Sending::Ready);
    Ok(())
}

async fn send_copy(handle: &Handle, bytes: &[u8]) -> Result<()> {
    for piece in bytes.chunks(BULK_BYTES) {
        let lease = handle.worker.pool.try_copy(piece, Kind::Buffers)?;
        send(handle, SendBytes::Lease(lease)).await?;
    }
    Ok(())
}

async fn shutdown_write(handle: &Handle) -> Result<()> {
    if handle.is_carried() {
        poll_fn(|cx| carried::poll_end(handle, cx)).await?;
    }
    let operation = handle.with(|socket| {
        let op = Op::Shutdown { fd: socket.fd.at(), how: Shutdown::Write };
        Operation::start(&handle.worker, op).map_err(|(over, _op)| over)
    });
    operation?.await.result?;
    Ok(())
}
