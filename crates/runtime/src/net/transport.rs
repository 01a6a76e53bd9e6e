//! How the bytes of a connection are carried, beneath its protocol: as they are, or in records of a [`Transport`].
//!
//! ```text
//!   owner of the connection    plaintext   Transport::seal     records    socket
//!                             -----------> at most 16 KiB each ---------->
//!                                          Transport::output   ---------->
//!                             <----------- Transport::open     <----------
//! ```
//!
//! A [`Table`](super::Table) and a [`Stream`](super::Stream) open and seal below their verbs and events: their owner
//! sees plaintext alone. What was opened and has not been taken yet is told as bytes in the socket are.
#![forbid(unsafe_code)]

mod packed;

use core::any::Any;
use std::sync::Arc;

use plimsoll_pool::{Charge, Kind, Lease, OverBudget, Pool};

pub(crate) use packed::Packed;
pub use packed::{Attached, PACKED_BYTES, Pack, PackedBytes};
use plimsoll_reactor::Errno;

/// Plaintext that is sealed at a time, in bytes, at most.
pub const SEALED_BYTES_MAX: usize = 16 * 1024;

/// Records that are opened at a time, in bytes: with one that was kept, the plaintext fits into a lease.
pub(super) const OPENED_BYTES_MAX: usize = 96 * 1024;

/// Bytes that the end of what we send takes at most.
pub const END_BYTES_MAX: usize = 128;

/// Carries the bytes of one connection: what TLS does.
pub trait Transport {
    /// Takes in what the peer has sent, in whatever pieces it comes, and gives the plaintext of it. Of a record that is
    /// not whole nothing is given yet: it is kept.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; the connection is good for nothing then but to send what [`output`](Self::output) still gives,
    /// and to be closed.
    fn open(&mut self, pool: &Pool, received: &mut [u8]) -> Result<Plaintext, OpenError>;

    /// What is to be sent for so much plaintext, at most [`SEALED_BYTES_MAX`]. It is sent, and once: what found no room
    /// was not sealed.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for it. Nothing has been done then.
    fn seal(&mut self, pool: &Pool, plaintext: &[u8]) -> Result<Lease, OverBudget>;

    /// Records of its own, which are sent before all that is sealed later: of a handshake, or an alert.
    fn output(&mut self) -> Option<Lease> {
        None
    }

    /// How far it is.
    fn stage(&self) -> Stage;

    /// The protocol that both have agreed on for what is above, such as `h2`, if they have.
    fn protocol(&self) -> Option<&[u8]> {
        None
    }

    /// Whether a request about this host, with or without a port, may come through it.
    fn serves(&self, _host: &str) -> bool {
        true
    }

    /// Whether an earlier session goes on.
    fn is_resumed(&self) -> bool {
        false
    }

    /// Whether a record has begun to come, and is not whole.
    fn has_partial(&self) -> bool;

    /// Writes the end of what we send: how many bytes it is, at most [`END_BYTES_MAX`]; nothing when that was done
    /// already, or nothing can be said.
    fn end(&mut self, room: &mut [u8; END_BYTES_MAX]) -> usize;

    /// Tells what it knows, to who asks with a place of a type that it knows.
    fn tell(&self, _place: &mut dyn Any) {}

    /// Who reads its state from bytes, when it is open, keeps nothing, has nothing to say and its state is so small.
    fn packing(&self) -> Option<&'static &'static dyn Pack> {
        None
    }

    /// Writes its state, and wipes its own: it is dropped next. Called after [`packing`](Self::packing) gave somebody.
    fn pack(&mut self, _bytes: &mut PackedBytes) -> Attached {
        None
    }
}

/// How far a transport is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// No plaintext can come or be sent yet.
    Handshake,
    /// Both may send.
    Open,
    /// The peer has said that it sends no more. We may.
    Ended,
}

/// How far the handshake of a connection in a [`Table`](super::Table) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    /// It was accepted: nothing is reserved for it.
    Awaited,
    Begun,
    /// Plaintext can come and be sent; or nothing carries it.
    Over,
}

/// Why a step of a handshake was not made, or was the last.
#[derive(Clone, Copy, Debug)]
pub enum HandshakeError {
    /// There is no room to receive into: nothing was done.
    NoPlace(OverBudget),
    /// The peer has closed or reset the connection.
    Gone,
    Failed(OpenError),
}

/// What was opened.
#[derive(Debug)]
pub enum Plaintext {
    /// So many bytes, at the front of what was received; 0 for none.
    InPlace(usize),
    /// In a lease, together with what was kept before.
    Lease(Lease),
}

/// Makes what carries the bytes of one connection, on its worker.
pub type MakeTransport = Arc<dyn Fn(&Pool) -> Result<Box<dyn Transport>, OverBudget> + Send + Sync>;

/// Why what a peer sent is no plaintext.
#[derive(Clone, Copy, Debug)]
pub enum OpenError {
    /// There is no room for it.
    OverBudget(OverBudget),
    /// The peer broke the rules of the transport.
    Malformed,
    /// The peer offers nothing that is spoken here: no version, cipher or protocol.
    Incompatible,
    /// The peer has not shown who it is, as it must.
    Untrusted,
    /// The peer gives up, and says why.
    GivenUp,
    /// The peer speaks HTTP without the transport.
    PlainHttp,
}

impl From<OverBudget> for OpenError {
    fn from(over: OverBudget) -> Self {
        Self::OverBudget(over)
    }
}

impl OpenError {
    pub(super) fn errno(self) -> Errno {
        match self {
            Self::OverBudget(_) => Errno::NOBUFS,
            Self::Malformed | Self::Incompatible | Self::Untrusted | Self::GivenUp | Self::PlainHttp => Errno::PROTO,
        }
    }
}

/// What carries a connection's bytes, and what waits there: it goes with the connection from a table to a stream and
/// back.
pub(super) struct Carrier {
    pub(super) transport: Box<dyn Transport>,
    /// Plaintext that nobody has taken yet,
    pub(super) opened: Option<Lease>,
    /// and what is behind that: what was received at once, with what was kept of a record, may be more than a lease
    /// takes.
    later: Option<Lease>,
    /// The transport's box.
    _charge: Charge,
}

impl Carrier {
    /// # Errors
    ///
    /// [`OverBudget`] without room for the transport.
    pub(super) fn new(pool: &Pool, transport: Box<dyn Transport>) -> Result<Self, OverBudget> {
        let _charge = pool.charge(Kind::Slots, size_of_val(&*transport) as u64)?;
        Ok(Self { transport, opened: None, later: None, _charge })
    }

    /// Of a transport that was packed.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] without room for its box; it stays packed then.
    pub(super) fn unpacked(pool: &Pool, packed: &mut Packed) -> Result<Self, OverBudget> {
        let _charge = pool.charge(Kind::Slots, packed.unpacked_bytes())?;
        Ok(Self { transport: packed.unpack(), opened: None, later: None, _charge })
    }

    /// Of a transport that carries nothing any more, and needs no room.
    pub(super) fn dead(pool: &Pool) -> Self {
        let _charge = pool.charge(Kind::Slots, 0).expect("nothing always fits");
        Self { transport: Box::new(Dead), opened: None, later: None, _charge }
    }

    /// Opens what has come in a lease, and keeps the plaintext.
    pub(super) fn open(&mut self, pool: &Pool, mut records: Lease) -> Result<(), OpenError> {
        debug_assert!(!self.has_opened(), "taken before more is received");
        self.opened = match self.open_first(pool, records.as_mut_slice())? {
            Plaintext::InPlace(0) => None,
            Plaintext::InPlace(len) => {
                records.truncate(len);
                Some(records)
            }
            Plaintext::Lease(lease) => Some(lease),
        };
        if !self.has_opened() {
            self.opened = self.later.take();
        }
        Ok(())
    }

    /// Opens what has come. What is not in the plaintext that it gives is kept.
    pub(super) fn open_first(&mut self, pool: &Pool, records: &mut [u8]) -> Result<Plaintext, OpenError> {
        let (first, rest) = records.split_at_mut(records.len().min(OPENED_BYTES_MAX));
        let opened = self.transport.open(pool, first)?;
        if !rest.is_empty() {
            debug_assert!(rest.len() <= OPENED_BYTES_MAX && self.later.is_none(), "a lease at a time");
            self.later = match self.transport.open(pool, rest)? {
                Plaintext::InPlace(0) => None,
                Plaintext::InPlace(len) => Some(pool.try_copy(&rest[..len], Kind::Buffers)?),
                Plaintext::Lease(lease) => Some(lease),
            };
        }
        Ok(opened)
    }

    /// The next plaintext.
    pub(super) fn take_opened(&mut self) -> Option<Lease> {
        let opened = self.opened.take();
        self.opened = self.later.take();
        opened
    }

    /// What was kept by [`open_first`](Self::open_first),
    pub(super) fn take_later(&mut self) -> Option<Lease> {
        self.later.take()
    }

    /// which is next when what that gave is taken now.
    pub(super) fn keep_later(&mut self) {
        debug_assert!(!self.has_opened(), "taken before more is received");
        self.opened = self.later.take();
    }

    /// What was opened is nobody's.
    pub(super) fn drop_opened(&mut self) {
        (self.opened, self.later) = (None, None);
    }

    pub(super) fn has_opened(&self) -> bool {
        self.opened.as_ref().is_some_and(|opened| !opened.is_empty())
    }

    /// Whether nothing waits beside the transport.
    pub(super) fn is_alone(&self) -> bool {
        !self.has_opened() && self.later.is_none()
    }

    /// Whether there is something to be told without a look at the socket: plaintext, or its end.
    pub(super) fn is_readable(&self) -> bool {
        self.has_opened() || self.transport.stage() == Stage::Ended
    }
}

/// What is left of a transport whose state was lost.
struct Dead;

impl Transport for Dead {
    fn open(&mut self, _: &Pool, _: &mut [u8]) -> Result<Plaintext, OpenError> {
        Err(OpenError::Malformed)
    }

    fn seal(&mut self, _: &Pool, _: &[u8]) -> Result<Lease, OverBudget> {
        Err(OverBudget::new(0))
    }

    fn stage(&self) -> Stage {
        Stage::Open
    }

    fn has_partial(&self) -> bool {
        false
    }

    fn end(&mut self, _: &mut [u8; END_BYTES_MAX]) -> usize {
        0
    }
}
