//! Handshakes of what carries the connections of a table: each step is made when the owner says so, with what is in the
//! socket by then. So who bounds the steps bounds what they take of memory and of the processor.
//!
//! ```text
//!  Accepted --await_readable--> Readable --begin_handshake--> Begun --step_handshake--> Over
//!     Awaited: nothing is reserved                            |   ^
//!                                                             +---+ await_readable, Readable
//! ```
#![forbid(unsafe_code)]

use plimsoll_pool::{Kind, OverBudget};
use plimsoll_reactor::Errno;
use plimsoll_slab::Key;

use super::slot::Slot;
use super::{Inbound, OPEN, Table};
use crate::net::transport::{Carrier, Handshake, HandshakeError, Stage};

/// Received in a step, in bytes.
const STEP_BYTES: usize = 4 * 1024;

impl<C: Default> Table<C> {
    /// Whether connections that are accepted shake hands before anything else.
    #[doc(hidden)]
    pub fn shakes_hands(&self) -> bool {
        self.make_transport.is_some()
    }

    /// How far the handshake of a connection is: over where there is none.
    #[doc(hidden)]
    pub fn handshake(&self, key: Key) -> Handshake {
        match self.entries.get(key).map(|entry| &entry.state) {
            Some(Slot::Plain(_)) if self.make_transport.is_some() => Handshake::Awaited,
            Some(Slot::Carried(carried)) if carried.stage() == Stage::Handshake => Handshake::Begun,
            _ => Handshake::Over,
        }
    }

    /// Makes what carries the bytes of a connection that was accepted. Nothing may be armed on it but a wait.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for all that its handshake may come to hold.
    #[doc(hidden)]
    pub fn begin_handshake(&mut self, key: Key) -> Result<(), OverBudget> {
        debug_assert_eq!(self.handshake(key), Handshake::Awaited, "once");
        let Some(make) = self.make_transport.clone() else { return Ok(()) };
        self.unwatch(key);
        let transport = make(&self.worker.pool)?;
        self.carry(key, Carrier::new(&self.worker.pool, transport)?)
    }

    /// Goes on with the handshake of a connection, with what has come. What the transport says goes out; plaintext that
    /// came behind its end is there for the next receive.
    ///
    /// # Errors
    ///
    /// [`HandshakeError`]: after all but [`NoPlace`](HandshakeError::NoPlace) the connection is good for nothing but
    /// [`close`](Self::close).
    ///
    /// # Panics
    ///
    /// When it was not [begun](Self::begin_handshake).
    #[doc(hidden)]
    pub fn step_handshake(&mut self, key: Key) -> Result<Handshake, HandshakeError> {
        if self.carried(key).stage() != Stage::Handshake {
            // One that needs none.
            return Ok(Handshake::Over);
        }
        let pool = self.worker.pool.clone();
        let place = pool.try_acquire(STEP_BYTES, Kind::Buffers).map_err(HandshakeError::NoPlace)?;
        let (bytes_max, mut place) = (place.spare_capacity(), [Some(place)]);
        let received = self.worker.driver.borrow_mut().receive_now(self.fd(key), &mut place, bytes_max);
        let records = match (received, place) {
            (Err(Errno::AGAIN), _) => return Ok(Handshake::Begun),
            (Ok(1..), [Some(records)]) => records,
            _ => return Err(HandshakeError::Gone),
        };
        if let Err(error) = self.open_into(key, records) {
            self.send_last_words(key);
            return Err(HandshakeError::Failed(error));
        }
        self.send_output(key).map_err(|over| HandshakeError::Failed(over.into()))?;
        if self.handshake(key) == Handshake::Over {
            self.note_partial(key, false);
            self.rest(key);
        }
        Ok(self.handshake(key))
    }

    /// Whether a connection waits for bytes, as [`await_readable`](Self::await_readable) asked.
    #[doc(hidden)]
    pub fn awaits_readable(&self, key: Key) -> bool {
        matches!(self.entries.get(key).expect(OPEN).inbound, Inbound::Readable(_) | Inbound::ReadableOpened)
    }

    /// Whether a [`watch`](Self::watch) is armed.
    #[doc(hidden)]
    pub fn is_watching(&self, key: Key) -> bool {
        matches!(self.entries.get(key).expect(OPEN).inbound, Inbound::Watch(_))
    }
}
