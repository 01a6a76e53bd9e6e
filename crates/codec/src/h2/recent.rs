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
