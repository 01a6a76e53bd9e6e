//! Transports whose whole state is a few bytes between records: they lie in the connection's own slot, and nothing of
//! them is on the heap. Each use of one works on these bytes where they are, so that there is one copy of the state.
//!
//! ```text
//!            packing, pack                      seal, open
//!   a box ------------------> bytes in a slot -------------> bytes, with the next sequence numbers
//!     ^                            |   |
//!     |  a record is not whole,    |   |  unpack: plaintext or records have to wait beside it
//!     +--- ended, or failed -------+---+
//! ```
//!
//! The bytes may be keys. They are never moved: who moves a connection has it unpacked before.
#![forbid(unsafe_code)]

use plimsoll_pool::{Lease, PoolBox};

use super::Transport;

/// Bytes of the state of a transport that is packed.
pub const PACKED_BYTES: usize = 208;

/// The state of a transport that is packed.
pub type PackedBytes = [u8; PACKED_BYTES];

/// What a packed transport has besides, if it has.
pub type Attached = Option<PoolBox<Lease>>;

/// Uses transports that are packed.
pub trait Pack: Sync {
    /// Has the transport used that the bytes are. One that is no longer at rest comes back in a box, and its bytes are
    /// wiped.
    fn with(
        &self,
        bytes: &mut PackedBytes,
        attached: &mut Attached,
        act: &mut dyn FnMut(&mut dyn Transport),
    ) -> Option<Box<dyn Transport>>;

    /// The transport that the bytes are; they are wiped.
    fn unpack(&self, bytes: &mut PackedBytes, attached: &mut Attached) -> Box<dyn Transport>;

    /// Bytes of the box that [`unpack`](Self::unpack) makes.
    fn unpacked_bytes(&self) -> u64;

    /// Wipes the state of one that is used no more.
    fn wipe(&self, bytes: &mut PackedBytes);
}

/// A transport that is packed, in its place.
pub(crate) struct Packed {
    how: &'static &'static dyn Pack,
    attached: Attached,
    bytes: PackedBytes,
}

impl Packed {
    /// The place for a transport, still without one: where it is when [`fill`](Self::fill) is called it stays.
    pub(crate) fn place(how: &'static &'static dyn Pack) -> Self {
        Self { how, attached: None, bytes: [0; PACKED_BYTES] }
    }

    pub(crate) fn fill(&mut self, mut transport: Box<dyn Transport>) {
        debug_assert!(self.bytes.iter().all(|byte| *byte == 0), "filled once");
        self.attached = transport.pack(&mut self.bytes);
    }

    pub(crate) fn with(&mut self, act: &mut dyn FnMut(&mut dyn Transport)) -> Option<Box<dyn Transport>> {
        self.how.with(&mut self.bytes, &mut self.attached, act)
    }

    pub(crate) fn unpack(&mut self) -> Box<dyn Transport> {
        self.how.unpack(&mut self.bytes, &mut self.attached)
    }

    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.how.unpacked_bytes()
    }

    pub(crate) fn wipe(&mut self) {
        self.how.wipe(&mut self.bytes);
    }
}

impl Drop for Packed {
    fn drop(&mut self) {
        self.wipe();
    }
}
