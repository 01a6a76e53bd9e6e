//! The last request of a turn, and a request that is, byte for byte, the one before.
//!
//! Clients that call one method again and again, or ask for one thing on many streams, send header blocks that are
//! nothing but references into their table. While the table is as it was, the same block means the same request, and
//! what that was is still in the scratch memory.

use super::request::Judged;

/// Scratch beside that of [`Storage`](super::Storage): what the last header block that was decoded there came to. It is
/// written to and read within a turn, so that one serves all connections of a worker.
#[derive(Debug)]
pub struct Repeat {
    /// Header blocks that were decoded into the scratch memory.
    decoded: u64,
    /// The last request among them.
    request: Judged,
    /// Its block, if the last block was a request, short, and changed no table; else empty.
    block: [u8; BLOCK_BYTES_MAX],
    block_len: u8,
    ends: bool,
}

impl Repeat {
    /// A block is decoded into the scratch memory. Returns its number, by which the connection knows that it was its
    /// own.
    pub(super) fn begin(&mut self) -> u64 {
        self.clear();
        self.decoded += 1;
        self.decoded
    }

    /// Something else was written to the scratch memory.
    pub(super) fn clear(&mut self) {
        self.block_len = 0;
    }

    /// The block that was begun last was this request.
    pub(super) fn keep(&mut self, request: Judged) {
        debug_assert_eq!(self.block_len, 0, "the block was begun");
        self.request = request;
    }

    /// The same block may come again: it changed no table.
    pub(super) fn keep_block(&mut self, block: &[u8], ends: bool) {
        if let Some(place) = self.block.get_mut(..block.len()) {
            place.copy_from_slice(block);
            (self.block_len, self.ends) = (block.len() as u8, ends);
        }
    }

    /// Whether this block is that of the request before, and that was the block of this number.
    #[inline]
    pub(super) fn is(&self, number: u64, block: &[u8], ends: bool) -> bool {
        let kept = self.block.get(..usize::from(self.block_len));
        self.decoded == number && self.block_len > 0 && self.ends == ends && kept == Some(block)
    }

    /// The request of the last event.
    #[inline]
    pub(super) const fn request(&self) -> &Judged {
        &self.request
    }
}

impl Default for Repeat {
    fn default() -> Self {
        Repeat { decoded: 0, request: Judged::NONE, block: [0; BLOCK_BYTES_MAX], block_len: 0, ends: false }
    }
}

/// Longer blocks are hardly references alone.
const BLOCK_BYTES_MAX: usize = 32;
