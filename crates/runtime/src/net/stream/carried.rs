//! Streams whose bytes a [`Transport`] carries: what it opens is received, and what it seals is sent in pieces, each of
//! which the socket takes whole before the next is sealed.
//!
//! ```text
//!   poll_recv:   plaintext that is there -> the end -> records from the socket -> open
//!   poll_write:  flush what is sealed -> seal a piece -> the socket takes it, or the next flush does
//! ```
#![forbid(unsafe_code)]

use core::future::poll_fn;
use core::task::{Context, Poll, ready};
use std::io::IoSlice;
use std::rc::Rc;

use plimsoll_pool::{Kind, Lease};
use plimsoll_reactor::{Address, Errno, SendBytes};

use super::poll::{poll_write_raw, take_rest};
use super::{CarriedRoom, Handle, SocketStream, carried_room, poll_recv_raw, reserve};
use crate::net::address::SocketAddress;
use crate::net::socket::{Carried, Entry, Sending, Sends};
use crate::net::transport::{Carrier, END_BYTES_MAX, SEALED_BYTES_MAX, Stage, Transport};
use crate::{Error, Result};

/// Why its state is there.
const CARRIED: &str = "asked before";

impl<A: SocketAddress> SocketStream<A> {
    /// Whether the bytes are carried in records, as TLS does: what the socket has is not what the stream has.
    pub fn is_carried(&self) -> bool {
        self.handle.is_carried()
    }

    /// Has a transport carry the bytes from here on: of those that have come already, too.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`], and [`Error::System`] for bytes that are no records. The connection is closed then.
    #[doc(hidden)]
    pub fn carried_by(self, transport: Box<dyn Transport>) -> Result<SocketStream<Address>> {
        let worker = Rc::clone(&self.handle.worker);
        reserve(&worker)?;
        let (room, carrier) = (carried_room(&worker)?, Carrier::new(&worker.pool, transport)?);
        let received = self.handle.with(|socket| socket.rest.take());
        let handle = self.into_any().handle.carry(room, carrier);
        if let Some(received) = received {
            open(&handle, received)?;
        }
        Ok(SocketStream::over(handle))
    }

    /// Waits until plaintext can come and be sent.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv) and [`poll_write`](Self::poll_write).
    #[doc(hidden)]
    pub async fn handshake(&mut self) -> Result<()> {
        while self.handle.is_carried() {
            poll_fn(|cx| poll_flush(&self.handle, cx)).await?;
            if self.handle.carried(|carried| carried.carrier.transport.stage()) != Stage::Handshake {
                break;
            }
            let received = poll_fn(|cx| poll_records(&self.handle, cx)).await;
            if let Err(error) = received {
                // What the transport says of it. The first error is the one that is told.
                let _flushed = poll_fn(|cx| poll_flush(&self.handle, cx)).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Looks at what carries the bytes.
    #[doc(hidden)]
    pub fn with_transport<R>(&self, look: impl FnOnce(&dyn Transport) -> R) -> Option<R> {
        self.handle.is_carried().then(|| self.handle.carried(|carried| look(&*carried.carrier.transport)))
    }
}

impl Handle {
    pub(super) fn is_carried(&self) -> bool {
        matches!(self.worker.sockets.borrow().get(self.key), Some(Entry::Carried(_)))
    }

    fn carried<R>(&self, act: impl FnOnce(&mut Carried) -> R) -> R {
        let mut sockets = self.worker.sockets.borrow_mut();
        act(sockets.get_mut(self.key).and_then(Entry::carried).expect(CARRIED))
    }

    /// Whether an owned send is under way, or was dropped midway.
    pub(super) fn is_midway(&self) -> bool {
        self.is_carried() && self.carried(|carried| carried.sends) == Sends::Midway
    }

    /// The same socket, with a transport that carries its bytes.
    pub(super) fn carry(self, mut room: CarriedRoom, carrier: Carrier) -> Self {
        let mut sockets = self.worker.sockets.borrow_mut();
        let entry = sockets.remove(self.key).expect("a socket lives as long as its handles");
        let (socket, before) = entry.into_parts();
        assert!(before.is_none() && socket.halves == 1, "one transport carries a connection");
        *room = Some(Carried { socket, carrier, unsent: None, sends: Sends::Whole });
        let key = sockets.insert(Entry::Carried(room)).unwrap_or_else(|_| unreachable!("its own entry was vacated"));
        drop(sockets);
        Self { worker: Rc::clone(&self.worker), key }
    }
}

/// The next plaintext; `None` at its end.
pub(super) fn poll_recv(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>>> {
    loop {
        let (opened, stage) =
            handle.carried(|carried| (carried.carrier.take_opened(), carried.carrier.transport.stage()));
        if let Some(opened) = opened.filter(|opened| !opened.is_empty()) {
            return Poll::Ready(Ok(Some(opened)));
        }
        if stage == Stage::Ended {
            return Poll::Ready(Ok(None));
        }
        ready!(poll_records(handle, cx))?;
    }
}

/// As `poll_recv`, of a receive that was armed or held, and of no further one.
pub(super) fn poll_recv_once(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<Option<Lease>>> {
    let received = ready!(poll_recv_raw(handle, cx))?;
    match received {
        Some(records) if handle.is_carried() => {
            open(handle, records)?;
            Poll::Ready(Ok(handle.carried(|carried| carried.carrier.take_opened())))
        }
        received => Poll::Ready(Ok(received)),
    }
}

pub(super) fn poll_read(handle: &Handle, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<usize>> {
    let Some(lease) = ready!(poll_recv(handle, cx))? else { return Poll::Ready(Ok(0)) };
    let mut rest = Some(lease);
    let count = take_rest(&mut rest, buffer).unwrap_or(0);
    handle.with(|socket| socket.rest = rest);
    Poll::Ready(Ok(count))
}

/// Receives what is there and opens it.
fn poll_records(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<()>> {
    match ready!(poll_recv_raw(handle, cx))? {
        Some(records) => Poll::Ready(open(handle, records)),
        // What was sent may have been cut short.
        None => Poll::Ready(Err(Errno::CONNRESET.into())),
    }
}

fn open(handle: &Handle, records: Lease) -> Result<()> {
    let opened = handle.carried(|carried| carried.carrier.open(&handle.worker.pool, records));
    send_output(handle);
    opened.map_err(|error| error.errno().into())
}

/// What the transport says by itself goes as far as the socket takes it at once, and else before what is sent next: who
/// waits to send is not told of it by who receives.
fn send_output(handle: &Handle) {
    handle.carried(|carried| {
        if carried.unsent.is_some() || carried.socket.sending != Sending::Ready {
            return;
        }
        let Some(mut records) = carried.carrier.transport.output() else { return };
        let sent = handle.worker.driver.borrow_mut().send_now(carried.socket.fd.at(), &records);
        // What fails is told by the next send.
        records.consume(sent.unwrap_or(0));
        carried.unsent = Some(records).filter(|records| !records.is_empty());
    });
}

/// Sends what is sealed.
pub(super) fn poll_flush(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<()>> {
    loop {
        let unsent = handle.carried(|carried| carried.unsent.take().or_else(|| carried.carrier.transport.output()));
        let Some(mut records) = unsent else { return Poll::Ready(Ok(())) };
        let sent = poll_write_raw(handle, cx, &[IoSlice::new(&records)]);
        if let Poll::Ready(Ok(count)) = sent {
            records.consume(count);
        }
        if !records.is_empty() {
            handle.carried(|carried| carried.unsent = Some(records));
        }
        ready!(sent)?;
    }
}

/// Seals the next piece, once all before it has left.
fn seal(handle: &Handle, bytes: &[u8]) -> Result<usize> {
    let used = bytes.len().min(SEALED_BYTES_MAX);
    handle.carried(|carried| {
        debug_assert!(carried.unsent.is_none(), "sent before");
        if carried.carrier.transport.stage() == Stage::Handshake {
            return Err(Error::System(Errno::AGAIN));
        }
        carried.unsent = Some(carried.carrier.transport.seal(&handle.worker.pool, &bytes[..used])?);
        Ok(used)
    })
}

pub(super) fn poll_write(handle: &Handle, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<Result<usize>> {
    if handle.is_midway() {
        return Poll::Ready(Err(Error::SendInterrupted));
    }
    let Some(bytes) = slices.iter().find(|slice| !slice.is_empty()) else { return Poll::Ready(Ok(0)) };
    ready!(poll_flush(handle, cx))?;
    let used = seal(handle, bytes)?;
    // What the socket does not take now, the next flush gives it.
    let _later = poll_flush(handle, cx)?;
    Poll::Ready(Ok(used))
}

pub(super) async fn send(handle: &Handle, mut bytes: SendBytes) -> Result<()> {
    if handle.is_midway() {
        return Err(Error::SendInterrupted);
    }
    poll_fn(|cx| poll_flush(handle, cx)).await?;
    while !bytes.is_empty() {
        let used = seal(handle, bytes.as_slice())?;
        handle.carried(|carried| carried.sends = Sends::Midway);
        poll_fn(|cx| poll_flush(handle, cx)).await?;
        bytes.consume(used);
    }
    handle.carried(|carried| carried.sends = Sends::Whole);
    Ok(())
}

/// Says that we send no more, behind all that was sent.
pub(super) fn poll_end(handle: &Handle, cx: &mut Context<'_>) -> Poll<Result<()>> {
    ready!(poll_flush(handle, cx))?;
    handle.carried(|carried| {
        let mut room = [0; END_BYTES_MAX];
        let len = carried.carrier.transport.end(&mut room);
        if len == 0 {
            return Ok(());
        }
        let sent = handle.worker.driver.borrow_mut().send_now(carried.socket.fd.at(), &room[..len]).unwrap_or(0);
        if sent < len {
            // Nothing is shut down behind a part of it.
            carried.unsent = Some(handle.worker.pool.try_copy(&room[sent..len], Kind::Buffers)?);
        }
        Ok::<_, Error>(())
    })?;
    poll_flush(handle, cx)
}
