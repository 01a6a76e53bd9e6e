//! Streams that ended: who they were is not forgotten at once.

/// Streams that ended lately, as far as one can remember them without memory.
#[derive(Copy, Clone, Debug)]
pub(super) struct Recent<const N: usize> {
    ids: [u32; N],
    next: u8,
}

impl<const N: usize> Recent<N> {
    pub(super) const fn new() -> Self {
        Recent { ids: [0; N], next: 0 }
    }

    pub(super) fn note(&mut self, id: u32) {
        if !self.has(id) {
            self.ids[usize::from(self.next)] = id;
            self.next = (self.next + 1) % N as u8;
        }
    }

    pub(super) fn has(&self, id: u32) -> bool {
        // Most connections never have any.
        self.ids[0] != 0 && self.ids.contains(&id)
    }
}

/// Streams that we gave up for reasons of our own: all between the first and the last. There may be many at a time
/// while memory is short, and what was on its way on them is not held against the peer.
#[derive(Copy, Clone, Debug)]
pub(super) struct GivenUp {
    first: u32,
    last: u32,
}

impl GivenUp {
    pub(super) const NONE: GivenUp = GivenUp { first: u32::MAX, last: 0 };

    pub(super) fn note(&mut self, id: u32) {
        (self.first, self.last) = (self.first.min(id), self.last.max(id));
    }

    /// Whether it may have been. Streams between that ended otherwise are taken for given up.
    pub(super) const fn has(&self, id: u32) -> bool {
        self.first <= id && id <= self.last
    }
}
