//! A request that is, byte for byte, the one before.
//!
//! Clients that call one method again and again, or ask for one thing on many streams, send header blocks that are
//! nothing but references into their table. While the table is as it was, the same block means the same request, and
//! what that was is still in the scratch memory.

use super::Priority;
use super::request::Judged;
use crate::h1::RequestHead;

/// Scratch beside that of [`Storage`](super::Storage): what the last header block that was decoded there came to. It is
/// written to and read within a turn, so that one serves all connections of a worker.
#[derive(Debug, Default)]
pub struct Repeat {
    /// Header blocks that were decoded into the scratch memory.
    decoded: u64,
    last: Option<Last>,
}

/// The last one, if it was a request in a short block that changed no table.
#[derive(Debug)]
struct Last {
    block: [u8; BLOCK_BYTES_MAX],
    block_len: usize,
    ends: bool,
    head: RequestHead,
    pseudo_fields: usize,
    priority: Priority,
    length: Option<u64>,
}

impl Repeat {
    /// A block is decoded into the scratch memory. Returns its number, by which the connection knows that it was its
    /// own.
    pub(super) fn begin(&mut self) -> u64 {
        self.last = None;
        self.decoded += 1;
        self.decoded
    }

    /// Something else was written to the scratch memory.
    pub(super) fn clear(&mut self) {
        self.last = None;
    }

    /// The block that was begun last was this request, and changed no table.
    pub(super) fn keep(&mut self, block: &[u8], ends: bool, judged: &Judged) {
        let mut last = Last {
            block: [0; BLOCK_BYTES_MAX],
            block_len: block.len(),
            ends,
            head: judged.head.clone(),
            pseudo_fields: judged.pseudo_fields,
            priority: judged.priority,
            length: judged.length,
        };
        let Some(place) = last.block.get_mut(..block.len()) else { return };
        place.copy_from_slice(block);
        self.last = Some(last);
    }

    /// What this block means, if it is that of the request before, and that was the block of this number.
    pub(super) fn find(&self, number: u64, block: &[u8], ends: bool) -> Option<Judged> {
        let last = self.last.as_ref().filter(|_| self.decoded == number)?;
        let is_same = last.ends == ends && last.block.get(..last.block_len) == Some(block);
        is_same.then(|| Judged {
            head: last.head.clone(),
            pseudo_fields: last.pseudo_fields,
            priority: last.priority,
            length: last.length,
        })
    }
}

/// Longer blocks are hardly references alone.
const BLOCK_BYTES_MAX: usize = 32;
