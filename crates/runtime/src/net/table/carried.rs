//! Connections whose bytes are carried by a [`Transport`]: opened as they come, sealed as they leave.
//!
//! Plaintext that was opened and not taken, because less was asked for or only a look was, waits here. What is armed
//! then comes at once:
//!
//! ```text
//!   receive, await_readable --> is plaintext left? --no--> an operation of the driver
//!                                    | yes
//!                                    v
//!                               Inbound::ReceiveOpened or ReadableOpened, and a place in
//!                               `opened` --next--> Received, Readable
//! ```
#![forbid(unsafe_code)]

use plimsoll_pool::{Kind, Lease, OverBudget};
use plimsoll_reactor::{Errno, SendBytes};
use plimsoll_slab::Key;

use super::slot::{Carried, Slot};
use super::{Bytes, Event, Inbound, OPEN, Table};
use crate::net::transport::{OpenError, SEALED_BYTES_MAX, Transport};

/// Into this is received what is opened at once.
const RECORDS_BYTES: usize = 16 * 1024;

impl<C: Default> Table<C> {
    /// Whether a transport carries the bytes of the connections here. They take nothing [at once](Self::send_now) then,
    /// as sealing takes memory, and do not [leave](Self::release) the table.
    #[inline(always)]
    pub fn carries(&self) -> bool {
        self.config.transport.is_some()
    }

    /// Has a transport carry the bytes of a connection that has come just now. Without room for its state it cannot.
    pub(super) fn carry(&mut self, key: Key, transport: Box<dyn Transport>) -> Result<(), OverBudget> {
        let pool = self.worker.pool.clone();
        let entry = self.entry(key);
        debug_assert!(entry.inbound == Inbound::None && entry.send.is_none(), "nothing has come or left yet");
        let state = core::mem::take(entry.state.get_mut());
        let carried = Carried { state, transport, opened: None, sealed: None, rest: None };
        match pool.try_boxed(carried, Kind::Slots) {
            Ok(carried) => {
                entry.state = Slot::Carried(carried);
                Ok(())
            }
            Err((over, carried)) => {
                *entry.state.get_mut() = carried.state;
                Err(over)
            }
        }
    }

    /// As [`next`](Table::next).
    #[cold]
    pub(super) fn next_carried(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.next_accepted().or_else(|| self.next_opened()) {
                return Some(event);
            }
            let raw = self.events.queue.borrow_mut().pop_front();
            let Some(raw) = raw else { return self.next_due() };
            if let Some(event) = self.event(raw).and_then(|event| self.opened_event(event)) {
                return Some(event);
            }
        }
    }

    /// What an event of the socket is to the owner.
    fn opened_event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Received(key, bytes) => self.open(key, &bytes),
            Event::Sent(key, unsent) => self.sealed_sent(key, unsent),
            event => Some(event),
        }
    }

    /// Bytes have come.
    fn open(&mut self, key: Key, bytes: &Bytes) -> Option<Event> {
        let pool = self.worker.pool.clone();
        let carried = self.entry(key).state.carried().expect("it is carried");
        match carried.transport.open(&pool, bytes) {
            Ok(Some(plaintext)) if !plaintext.is_empty() => Some(Event::Received(key, Bytes::Owned(plaintext))),
            // A record is not whole: it is waited for as before.
            Ok(_) => self.receive(key).err().map(|_over| Event::Failed(key, Errno::NOBUFS)),
            Err(error) => Some(Event::Failed(key, errno(&error))),
        }
    }

    /// The socket has taken records, but for `unsent`.
    fn sealed_sent(&mut self, key: Key, unsent: SendBytes) -> Option<Event> {
        if unsent.is_empty() {
            let carried = self.entry(key).state.carried().expect("it is carried");
            return Some(Event::Sent(key, carried.rest.take().unwrap_or(SendBytes::Static(&[]))));
        }
        self.submit_send(key, unsent).err().map(|_over| Event::Failed(key, Errno::NOBUFS))
    }

    /// Sends the next of some bytes; the rest comes back with [`Event::Sent`].
    #[cold]
    pub(super) fn send_sealed(&mut self, key: Key, mut bytes: SendBytes) -> Result<(), (OverBudget, SendBytes)> {
        let pool = self.worker.pool.clone();
        let carried = self.entry(key).state.carried().expect("it is carried");
        let (records, used) = match carried.sealed.take() {
            Some(sealed) => sealed,
            None => {
                let used = bytes.as_slice().len().min(SEALED_BYTES_MAX);
                match carried.transport.seal(&pool, &bytes.as_slice()[..used]) {
                    Ok(records) => (records, used),
                    Err(over) => return Err((over, bytes)),
                }
            }
        };
        match self.submit_send(key, SendBytes::Lease(records)) {
            Ok(()) => {
                bytes.consume(used);
                let carried = self.entry(key).state.carried().expect("it is carried");
                carried.rest = Some(bytes).filter(|bytes| !bytes.is_empty());
                Ok(())
            }
            Err((over, records)) => {
                if let (SendBytes::Lease(records), Some(carried)) = (records, self.entry(key).state.carried()) {
                    carried.sealed = Some((records, used));
                }
                Err((over, bytes))
            }
        }
    }

    /// Bytes that follow those that are being sent.
    pub(super) fn unsealed_bytes(&self, key: Key) -> usize {
        match &self.entries.get(key).expect(OPEN).state {
            Slot::Plain(_) => 0,
            Slot::Carried(carried) => carried.rest.as_ref().map_or(0, |rest| rest.as_slice().len()),
        }
    }

    /// Whether plaintext is there that nobody has taken.
    pub(super) fn has_opened(&self, key: Key) -> bool {
        match &self.entries.get(key).expect(OPEN).state {
            Slot::Plain(_) => false,
            Slot::Carried(carried) => carried.has_opened(),
        }
    }

    /// Arms for plaintext that is there already; `false` when there is none.
    pub(super) fn arm_opened(&mut self, key: Key, inbound: Inbound) -> bool {
        let is_there = self.has_opened(key);
        if is_there {
            self.unwatch(key);
            self.entry(key).inbound = inbound;
            self.opened.push_back(key);
            // It may be that nothing else happens.
            if let Some(waker) = self.events.waker.borrow_mut().take() {
                waker.wake();
            }
        }
        is_there
    }

    /// What was armed for plaintext that was there.
    fn next_opened(&mut self) -> Option<Event> {
        while let Some(key) = self.opened.pop_front() {
            // It may have been closed, or waits for something else by now.
            let Some(entry) = self.entries.get_mut(key) else { continue };
            let opened = match (entry.inbound, entry.state.carried()) {
                (Inbound::ReceiveOpened, Some(carried)) => carried.opened.take(),
                (Inbound::ReadableOpened, _) => None,
                _ => continue,
            };
            entry.inbound = Inbound::None;
            return Some(opened.map_or(Event::Readable(key), |opened| Event::Received(key, Bytes::Owned(opened))));
        }
        None
    }

    /// Receives records and opens them, unless plaintext is there. `false` at the end of what the peer sends.
    fn fill_opened(&mut self, key: Key) -> Result<bool, Errno> {
        if self.has_opened(key) {
            return Ok(true);
        }
        let pool = self.worker.pool.clone();
        let place = pool.try_acquire(RECORDS_BYTES, Kind::Buffers).map_err(|_over| Errno::NOBUFS)?;
        let (bytes_max, mut place) = (place.spare_capacity(), [Some(place)]);
        let received = self.worker.driver.borrow_mut().receive_now(self.fd(key), &mut place, bytes_max)?;
        let [Some(records)] = place else { return Ok(false) };
        if received == 0 {
            return Ok(false);
        }
        let carried = self.entry(key).state.carried().expect("it is carried");
        carried.opened = carried.transport.open(&pool, &records).map_err(|error| errno(&error))?;
        // A record that is not whole is no plaintext.
        if carried.has_opened() { Ok(true) } else { Err(Errno::AGAIN) }
    }

    /// As [`receive_now`](Table::receive_now).
    #[cold]
    pub(super) fn receive_opened(
        &mut self,
        key: Key,
        leases: &mut [Option<Lease>],
        bytes_max: usize,
    ) -> Result<usize, Errno> {
        if !self.fill_opened(key)? {
            return Ok(0);
        }
        let carried = self.entry(key).state.carried().expect("it is carried");
        let opened = carried.opened.as_mut().expect("filled above");
        let mut taken = 0;
        for lease in leases.iter_mut().flatten() {
            let part = opened.len().min(bytes_max - taken);
            let part = lease.extend(&opened[..part]);
            opened.consume(part);
            taken += part;
        }
        Ok(taken)
    }

    /// As [`peek_now`](Table::peek_now): what is seen stays here.
    #[cold]
    pub(super) fn peek_opened(&mut self, key: Key, room: &mut [u8]) -> Result<usize, Errno> {
        if !self.fill_opened(key)? {
            return Ok(0);
        }
        let carried = self.entry(key).state.carried().expect("it is carried");
        let opened = carried.opened.as_ref().expect("filled above");
        let seen = opened.len().min(room.len());
        room[..seen].copy_from_slice(&opened[..seen]);
        Ok(seen)
    }

    pub(super) fn drop_opened(&mut self, key: Key) {
        if let Some(carried) = self.entry(key).state.carried() {
            carried.opened = None;
        }
    }
}

fn errno(error: &OpenError) -> Errno {
    match error {
        OpenError::OverBudget(_) => Errno::NOBUFS,
        OpenError::Malformed => Errno::PROTO,
    }
}
