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
//!                               `opened` --next--> Received, Ended, Readable
//! ```
//!
//! What a transport sends by itself goes when no send is in flight, before what the owner gives later:
//!
//! ```text
//!   Sends::Nothing --send--> Owners --sent--> the transport's own --> Event::Sent
//!      | output                                                          ^
//!      v                                                                 |
//!   in flight ------send--> OwnersNext --sent--> sealed: Owners ---------+
//! ```
#![forbid(unsafe_code)]

use plimsoll_pool::{Kind, Lease, OverBudget};
use plimsoll_reactor::{Errno, SendBytes};
use plimsoll_slab::Key;

use super::slot::{Carried, Sends, Slot, Whole};
use super::{Bytes, Event, Inbound, OPEN, Table};
use crate::net::transport::{
    Carrier, END_BYTES_MAX, MakeTransport, OpenError, Plaintext, SEALED_BYTES_MAX, Stage, Transport,
};

/// Into this is received what is opened at once.
const RECORDS_BYTES: usize = 16 * 1024;

/// Why a connection's state is there.
const CARRIED: &str = "it is carried";

impl<C: Default> Table<C> {
    /// Has the bytes of each connection that is accepted carried by what `make` makes. One that is turned away is
    /// closed without a word then.
    #[doc(hidden)]
    #[must_use]
    pub fn carried_by(mut self, make: Option<MakeTransport>) -> Self {
        self.carries |= make.is_some();
        self.make_transport = make;
        self
    }

    /// Whether a transport carries the bytes of a connection, or will when its handshake has begun. It takes nothing
    /// [at once](Self::send_now) then, as sealing takes memory.
    #[inline(always)]
    pub fn is_carried(&self, key: Key) -> bool {
        self.carries && (self.make_transport.is_some() || self.has_transport(key))
    }

    /// Whether a transport carries the bytes of a connection already.
    #[doc(hidden)]
    #[inline(always)]
    pub fn has_transport(&self, key: Key) -> bool {
        self.carries && matches!(self.entries.get(key).expect(OPEN).state, Slot::Carried(_))
    }

    /// Looks at what carries the bytes of a connection.
    #[doc(hidden)]
    pub fn with_transport<R>(&mut self, key: Key, look: impl FnOnce(&dyn Transport) -> R) -> Option<R> {
        let carried = self.entries.get_mut(key)?.state.carried()?;
        Some(carried.with(&self.worker.pool, |transport| look(transport)))
    }

    /// Has a transport carry the bytes of a connection that has come just now. Without room for its state it cannot.
    pub(super) fn carry(&mut self, key: Key, carrier: Carrier) -> Result<(), OverBudget> {
        let pool = self.worker.pool.clone();
        let entry = self.entry(key);
        debug_assert!(entry.inbound == Inbound::None && entry.send.is_none(), "nothing has come or left yet");
        let state = core::mem::take(entry.state.get_mut());
        match pool.try_boxed(Carried::new(state, carrier), Kind::Slots) {
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

    pub(super) fn carried(&mut self, key: Key) -> &mut Carried<C> {
        self.entry(key).state.carried().expect(CARRIED)
    }

    pub(super) fn seen_whole(&self, key: Key) -> Option<&Whole> {
        match &self.entries.get(key).expect(OPEN).state {
            Slot::Plain(_) => None,
            Slot::Carried(carried) => carried.seen_whole(),
        }
    }

    /// As [`next`](Table::next).
    #[cold]
    pub(super) fn next_carried(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.next_accepted().or_else(|| self.next_opened()).or_else(|| self.next_partial()) {
                return Some(event);
            }
            let raw = self.events.queue.borrow_mut().pop_front();
            let Some(raw) = raw else { return self.next_due_carried() };
            if let Some(event) = self.event(raw).and_then(|event| self.opened_event(event)) {
                return Some(event);
            }
        }
    }

    /// What an event of the socket is to the owner.
    fn opened_event(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Received(key, bytes) if self.has_transport(key) => self.open(key, bytes),
            Event::Sent(key, unsent) if self.has_transport(key) => self.sealed_sent(key, unsent),
            // What was sent may have been cut short.
            Event::Ended(key) if self.has_transport(key) && self.carried(key).stage() != Stage::Ended => {
                Some(Event::Failed(key, Errno::CONNRESET))
            }
            event => Some(event),
        }
    }

    /// Bytes have come.
    fn open(&mut self, key: Key, mut bytes: Bytes) -> Option<Event> {
        let pool = self.worker.pool.clone();
        let opened = match self.carried(key).open(&pool, bytes.as_mut_slice()) {
            Ok(opened) => opened,
            Err(error) => {
                self.send_last_words(key);
                return Some(Event::Failed(key, error.errno()));
            }
        };
        if let Err(_over) = self.send_output(key) {
            return Some(Event::Failed(key, Errno::NOBUFS));
        }
        self.note_partial(key, !matches!(opened, Plaintext::InPlace(0)));
        let opened = match (opened, self.carried(key).whole_now()) {
            // What came first had none.
            (Plaintext::InPlace(0), Some(whole)) => {
                whole.carrier.take_later().map_or(Plaintext::InPlace(0), Plaintext::Lease)
            }
            (opened, Some(whole)) => {
                whole.carrier.keep_later();
                opened
            }
            (opened, None) => opened,
        };
        self.rest(key);
        match opened {
            Plaintext::InPlace(0) if self.has_opened(key) => Some(Event::Ended(key)),
            // A record is not whole: it is waited for as before.
            Plaintext::InPlace(0) => match self.receive(key) {
                Err(_over) => Some(Event::Failed(key, Errno::NOBUFS)),
                Ok(()) => None,
            },
            Plaintext::InPlace(len) => {
                bytes.truncate(len);
                Some(Event::Received(key, bytes))
            }
            Plaintext::Lease(plaintext) => Some(Event::Received(key, Bytes::Owned(plaintext))),
        }
    }

    /// Packs what carries a connection, if it is at rest.
    pub(super) fn rest(&mut self, key: Key) {
        if self.carried(key).can_rest() {
            self.settle_partial(key);
            self.carried(key).rest();
        }
    }

    /// Sends what the transport has to say by itself, unless a send is in flight, which is followed by it.
    pub(super) fn send_output(&mut self, key: Key) -> Result<(), OverBudget> {
        if self.entry(key).send.is_some() {
            return Ok(());
        }
        let Some(records) = self.carried(key).output() else { return Ok(()) };
        self.submit_send(key, SendBytes::Lease(records)).map_err(|(over, _records)| over)
    }

    /// Sends what a transport says of its failure, as far as the socket takes it at once.
    pub(super) fn send_last_words(&mut self, key: Key) {
        if self.entry(key).send.is_none()
            && let Some(records) = self.carried(key).output()
        {
            let _told_as_far_as_it_goes = self.worker.driver.borrow_mut().send_now(self.fd(key), &records);
        }
    }

    /// Drops the end of what the peer sends, if nobody has read it: a close before it is a reset, which overtakes what
    /// was sent.
    #[cold]
    pub(super) fn discard_end(&mut self, key: Key) {
        if !self.is_receiving(key) {
            let _nothing_there = self.worker.driver.borrow_mut().discard_now(self.fd(key), END_BYTES_MAX);
        }
    }

    /// The socket has taken records, but for `unsent`.
    fn sealed_sent(&mut self, key: Key, unsent: SendBytes) -> Option<Event> {
        let next = if unsent.is_empty() { self.carried(key).output().map(SendBytes::Lease) } else { Some(unsent) };
        let Some(next) = next else { return self.all_sent(key) };
        self.submit_send(key, next).err().map(|_over| Event::Failed(key, Errno::NOBUFS))
    }

    fn all_sent(&mut self, key: Key) -> Option<Event> {
        if self.unsealed_bytes(key) == 0 && self.goes_on_ending(key) && self.entry(key).send.is_some() {
            // The owner's bytes have left; that is told with what follows them.
            return None;
        }
        let carried = self.carried(key);
        let rest = carried.whole_now().and_then(|whole| whole.rest.take()).unwrap_or(SendBytes::Static(&[]));
        let sends = core::mem::replace(&mut carried.sends, Sends::Nothing);
        if rest.is_empty() {
            self.rest(key);
        }
        match sends {
            Sends::Nothing => None,
            Sends::Owners => Some(Event::Sent(key, rest)),
            Sends::OwnersNext => self.send_sealed(key, rest).err().map(|_over| Event::Failed(key, Errno::NOBUFS)),
        }
    }

    /// Sends the next of some bytes; the rest comes back with [`Event::Sent`].
    #[cold]
    pub(super) fn send_sealed(&mut self, key: Key, mut bytes: SendBytes) -> Result<(), (OverBudget, SendBytes)> {
        let pool = self.worker.pool.clone();
        if !self.has_transport(key) {
            // Nothing can be said before there are keys.
            return Err((OverBudget::new(0), bytes));
        }
        let is_sending = self.entry(key).send.is_some();
        let carried = self.carried(key);
        // What does not leave in one record of ours waits beside the transport: there is room before any is sealed.
        if is_sending || bytes.as_slice().len() > SEALED_BYTES_MAX {
            match carried.whole(&pool) {
                Ok(whole) if is_sending => {
                    whole.rest = Some(bytes);
                    carried.sends = Sends::OwnersNext;
                    return Ok(());
                }
                Ok(_) => {}
                Err(over) => return Err((over, bytes)),
            }
        }
        let (records, used) = match carried.whole_now().and_then(|whole| whole.sealed.take()) {
            Some(sealed) => sealed,
            // Nothing can be said before there are keys.
            None if carried.stage() == Stage::Handshake => return Err((OverBudget::new(0), bytes)),
            None => {
                let used = bytes.as_slice().len().min(SEALED_BYTES_MAX);
                match carried.with(&pool, |transport| transport.seal(&pool, &bytes.as_slice()[..used])) {
                    Ok(records) => (records, used),
                    Err(over) => return Err((over, bytes)),
                }
            }
        };
        match self.submit_send(key, SendBytes::Lease(records)) {
            Ok(()) => {
                bytes.consume(used);
                let carried = self.carried(key);
                carried.sends = Sends::Owners;
                if !bytes.is_empty() {
                    carried.whole_now().expect("unpacked above").rest = Some(bytes);
                }
                Ok(())
            }
            Err((over, records)) => {
                let carried = self.carried(key);
                match (carried.whole(&pool), records) {
                    (Ok(whole), SendBytes::Lease(records)) => whole.sealed = Some((records, used)),
                    // Not even for its box: what was sealed must not be sealed again.
                    _ => carried.fail(&pool),
                }
                Err((over, bytes))
            }
        }
    }

    /// As [`is_sending`](Table::is_sending): of the owner's bytes.
    #[cold]
    pub(super) fn is_sending_sealed(&self, key: Key) -> bool {
        match &self.entries.get(key).expect(OPEN).state {
            Slot::Plain(_) => false,
            Slot::Carried(carried) => carried.sends != Sends::Nothing,
        }
    }

    /// Bytes that follow those that are being sent.
    pub(super) fn unsealed_bytes(&self, key: Key) -> usize {
        self.seen_whole(key).and_then(|whole| whole.rest.as_ref()).map_or(0, |rest| rest.as_slice().len())
    }

    /// Whether plaintext is there that nobody has taken, or its end.
    pub(super) fn has_opened(&self, key: Key) -> bool {
        self.seen_whole(key).is_some_and(|whole| whole.carrier.is_readable())
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
            let event = match (entry.inbound, entry.state.carried().and_then(Carried::whole_now)) {
                (Inbound::ReceiveOpened, Some(whole)) => match whole.carrier.take_opened() {
                    Some(opened) if !opened.is_empty() => Event::Received(key, Bytes::Owned(opened)),
                    _ => Event::Ended(key),
                },
                (Inbound::ReadableOpened, _) => Event::Readable(key),
                _ => continue,
            };
            entry.inbound = Inbound::None;
            return Some(event);
        }
        None
    }

    /// Receives records and opens them, unless plaintext is there. `false` at the end of what the peer sends.
    fn fill_opened(&mut self, key: Key) -> Result<bool, Errno> {
        if self.has_opened(key) {
            return Ok(self.seen_whole(key).is_some_and(|whole| whole.carrier.has_opened()));
        }
        let pool = self.worker.pool.clone();
        let place = pool.try_acquire(RECORDS_BYTES, Kind::Buffers).map_err(|_over| Errno::NOBUFS)?;
        // Where plaintext can wait, before anything is received.
        let _unpacked = self.carried(key).whole(&pool).map_err(|_over| Errno::NOBUFS)?;
        let (bytes_max, mut place) = (place.spare_capacity(), [Some(place)]);
        let received = self.worker.driver.borrow_mut().receive_now(self.fd(key), &mut place, bytes_max);
        let received = received.inspect_err(|_| self.rest(key))?;
        let [Some(records)] = place else { return Err(Errno::CONNRESET) };
        if received == 0 {
            return Err(Errno::CONNRESET);
        }
        if let Err(error) = self.open_into(key, records) {
            self.send_last_words(key);
            return Err(error.errno());
        }
        self.send_output(key).map_err(|_over| Errno::NOBUFS)?;
        let has_plaintext = self.seen_whole(key).is_some_and(|whole| whole.carrier.has_opened());
        self.note_partial(key, has_plaintext);
        // A record that is not whole is no plaintext.
        match self.seen_whole(key) {
            Some(whole) if whole.carrier.is_readable() => Ok(whole.carrier.has_opened()),
            _ => {
                self.rest(key);
                Err(Errno::AGAIN)
            }
        }
    }

    /// Opens what has come in a lease, and keeps the plaintext.
    pub(super) fn open_into(&mut self, key: Key, records: Lease) -> Result<(), OpenError> {
        let pool = self.worker.pool.clone();
        self.carried(key).whole(&pool)?.carrier.open(&pool, records)
    }

    fn opened_lease(&mut self, key: Key) -> &mut Lease {
        self.carried(key).whole_now().and_then(|whole| whole.carrier.opened.as_mut()).expect("filled before")
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
        let opened = self.opened_lease(key);
        let mut taken = 0;
        for lease in leases.iter_mut().flatten() {
            let part = opened.len().min(bytes_max - taken);
            let part = lease.extend(&opened[..part]);
            opened.consume(part);
            taken += part;
        }
        if opened.is_empty() {
            let _empty = self.carried(key).whole_now().and_then(|whole| whole.carrier.take_opened());
        }
        Ok(taken)
    }

    /// As [`peek_now`](Table::peek_now): what is seen stays here.
    #[cold]
    pub(super) fn peek_opened(&mut self, key: Key, room: &mut [u8]) -> Result<usize, Errno> {
        if !self.fill_opened(key)? {
            return Ok(0);
        }
        let opened = self.opened_lease(key);
        let seen = opened.len().min(room.len());
        room[..seen].copy_from_slice(&opened[..seen]);
        Ok(seen)
    }

    pub(super) fn drop_opened(&mut self, key: Key) {
        if let Some(whole) = self.carried(key).whole_now() {
            whole.carrier.drop_opened();
        }
    }
}
