//! The state of a session in its bytes.
//!
//! ```text
//!   0        sequence number of the next record that comes | secret | key | initialization vector
//!   100      the same of the next that is sealed
//!   200      suite, protocol, whether it was resumed and has its answers, counters, how far it is
//! ```
#![forbid(unsafe_code)]

use core::borrow::{Borrow, BorrowMut};

use plimsoll_runtime::net::transport::{PACKED_BYTES, PackedBytes};
use zeroize::Zeroize;

use super::keys::{IV_BYTES, KEY_BYTES_MAX, SECRET_BYTES_MAX, Suite};

const SEQUENCE_BYTES: usize = 8;
const SECRET_AT: usize = SEQUENCE_BYTES;
const KEY_AT: usize = SECRET_AT + SECRET_BYTES_MAX;
const IV_AT: usize = KEY_AT + KEY_BYTES_MAX;
const DIRECTION_BYTES: usize = IV_AT + IV_BYTES;
const REST_AT: usize = 2 * DIRECTION_BYTES;
const _: () = assert!(REST_AT + 8 == PACKED_BYTES);

/// State that is not in a slot. It is wiped when it is dropped.
pub(crate) struct Owned(PackedBytes);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Owned {
    pub(super) fn empty() -> Self {
        Self([0; PACKED_BYTES])
    }
}

impl Borrow<PackedBytes> for Owned {
    fn borrow(&self) -> &PackedBytes {
        &self.0
    }
}

impl BorrowMut<PackedBytes> for Owned {
    fn borrow_mut(&mut self) -> &mut PackedBytes {
        &mut self.0
    }
}

/// Which way records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

/// What is counted of what a peer does, each from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Counter {
    /// Changes of keys since plaintext came.
    KeyUpdates = REST_AT + 3,
    /// Records without content, one after the other.
    Empties,
    /// Alerts that mean nothing.
    Warnings,
    /// Bytes of a `KeyUpdate` that is not whole.
    Partial,
}

/// Our changes of keys that a peer has asked for, since we sealed plaintext.
///
/// A peer takes few of them without plaintext between (32 in rustls and BoringSSL), and may ask for more while it sends
/// and we have nothing to say: after the first, one waits for what is sealed next (RFC 8446 4.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Answers {
    None,
    /// It is on its way.
    Given,
    /// It is, and the next is due before plaintext.
    Owed,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Records may be sealed, and come.
    Open,
    /// We have said `close_notify`: records may still come.
    Closed,
    /// Nothing is opened or sealed any more.
    Failed,
}

/// Protocols that are a number here; others are attached.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Which protocol was agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    None,
    Known(&'static [u8]),
    Attached,
}

impl Protocol {
    pub(super) fn of(name: Option<&[u8]>) -> Self {
        let Some(name) = name else { return Self::None };
        PROTOCOLS.into_iter().find(|known| *known == name).map_or(Self::Attached, Self::Known)
    }
}

/// The state, where it is.
pub(super) struct State<'a>(pub(super) &'a mut PackedBytes);

/// The state, to be looked at.
pub(super) struct Seen<'a>(pub(super) &'a PackedBytes);

impl Seen<'_> {
    pub(super) fn suite(&self) -> Suite {
        Suite::from_number(self.0[REST_AT])
    }

    pub(super) fn protocol(&self) -> Protocol {
        match self.0[REST_AT + 1] {
            0 => Protocol::None,
            number => PROTOCOLS.get(usize::from(number) - 1).map_or(Protocol::Attached, |name| Protocol::Known(name)),
        }
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.0[REST_AT + 2] & 1 != 0
    }

    pub(super) fn answers(&self) -> Answers {
        match self.0[REST_AT + 2] >> 1 {
            0 => Answers::None,
            1 => Answers::Given,
            _ => Answers::Owed,
        }
    }

    pub(super) fn count(&self, counter: Counter) -> u8 {
        self.0[counter as usize]
    }

    pub(super) fn phase(&self) -> Phase {
        match self.0[REST_AT + 7] {
            0 => Phase::Open,
            1 => Phase::Closed,
            _ => Phase::Failed,
        }
    }
}

impl State<'_> {
    pub(super) fn seen(&self) -> Seen<'_> {
        Seen(self.0)
    }

    pub(super) fn begin(&mut self, suite: Suite, protocol: Protocol, is_resumed: bool) {
        self.0[REST_AT] = suite as u8;
        self.0[REST_AT + 1] = match protocol {
            Protocol::None => 0,
            Protocol::Known(name) => {
                PROTOCOLS.iter().position(|known| *known == name).map_or(u8::MAX, |at| at as u8 + 1)
            }
            Protocol::Attached => u8::MAX,
        };
        self.0[REST_AT + 2] = u8::from(is_resumed);
    }

    pub(super) fn set_count(&mut self, counter: Counter, count: u8) {
        self.0[counter as usize] = count;
    }

    pub(super) fn set_answers(&mut self, answers: Answers) {
        self.0[REST_AT + 2] = self.0[REST_AT + 2] & 1 | (answers as u8) << 1;
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.0[REST_AT + 7] = phase as u8;
    }

    fn direction(&mut self, way: Way) -> &mut [u8] {
        let at = if way == Way::In { 0 } else { DIRECTION_BYTES };
        &mut self.0[at..at + DIRECTION_BYTES]
    }

    /// The number of the next record.
    pub(super) fn sequence(&mut self, way: Way) -> u64 {
        let bytes = self.direction(way).first_chunk::<SEQUENCE_BYTES>().expect("longer than that");
        u64::from_le_bytes(*bytes)
    }

    pub(super) fn set_sequence(&mut self, way: Way, sequence: u64) {
        self.direction(way)[..SEQUENCE_BYTES].copy_from_slice(&sequence.to_le_bytes());
    }

    /// The number of the next record, which no other gets; `None` when there are no more.
    pub(super) fn take_sequence(&mut self, way: Way) -> Option<u64> {
        let sequence = self.sequence(way);
        self.set_sequence(way, sequence.checked_add(1)?);
        Some(sequence)
    }

    pub(super) fn secret(&mut self, way: Way, suite: Suite) -> &mut [u8] {
        &mut self.direction(way)[SECRET_AT..SECRET_AT + suite.secret_bytes()]
    }

    pub(super) fn key(&mut self, way: Way, suite: Suite) -> &mut [u8] {
        &mut self.direction(way)[KEY_AT..KEY_AT + suite.key_bytes()]
    }

    pub(super) fn iv(&mut self, way: Way) -> &mut [u8; IV_BYTES] {
        self.direction(way).last_chunk_mut().expect("longer than that")
    }
}
