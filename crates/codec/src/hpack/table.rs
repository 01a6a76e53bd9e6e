//! The dynamic table (RFC 7541 2.3.2, 4), in bytes that belong to the caller.
//!
//! ```text
//! | evicted | oldest entry .. newest entry |  free  | newest descriptor .. oldest descriptor | evicted |
//! 0                                      used                                                  storage.len()
//! ```
//!
//! Names and values grow from the front, descriptors (offset and two lengths, six bytes) from the back. When they would meet, the
//! live part is moved to the ends. There is always room then: an entry is counted with 32 bytes more than its text, and has six. A name
//! or value is never cut in two, as it would be in a ring.

use super::FIELD_OVERHEAD_BYTES;

/// The state of a table; its text is in the storage.
#[derive(Copy, Clone, Debug)]
pub(super) struct Table {
    /// Most bytes, as the RFC counts them; never more than the storage has.
    size_max: u16,
    /// Bytes of the live entries, as the RFC counts them; at most `size_max`.
    size: u16,
    /// Number of the oldest live descriptor, counted from the end of the storage.
    oldest: u16,
    /// Number behind the newest descriptor; at least `oldest`.
    next: u16,
    /// Bytes used at the front, those of evicted entries among them.
    used: u16,
    /// Entries that were ever inserted, wrapping.
    inserted: u32,
}

#[derive(Copy, Clone)]
struct Descriptor {
    at: usize,
    name_len: usize,
    value_len: usize,
}

impl Descriptor {
    fn size(self) -> usize {
        self.name_len + self.value_len + FIELD_OVERHEAD_BYTES
    }
}

impl Table {
    pub(super) const fn new(size_max: u16) -> Table {
        Table { size_max, size: 0, oldest: 0, next: 0, used: 0, inserted: 0 }
    }

    pub(super) const fn size_max(&self) -> usize {
        self.size_max as usize
    }

    pub(super) const fn size(&self) -> usize {
        self.size as usize
    }

    pub(super) const fn len(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Entries that were ever inserted, wrapping.
    pub(super) const fn inserted(&self) -> u32 {
        self.inserted
    }

    /// Changes the size, which evicts what has no place any more.
    pub(super) fn resize(&mut self, storage: &[u8], size_max: u16) {
        self.size_max = size_max;
        self.evict(storage, size_max.into());
    }

    /// Name and value of an entry; 0 is the newest.
    #[inline]
    pub(super) fn get<'s>(&self, storage: &'s [u8], index: usize) -> Option<(&'s [u8], &'s [u8])> {
        if index >= self.len() {
            return None;
        }
        let entry = descriptor(storage, usize::from(self.next) - 1 - index);
        let (name, rest) = storage[entry.at..].split_at(entry.name_len);
        Some((name, &rest[..entry.value_len]))
    }

    /// The newest entry with this name and value.
    pub(super) fn find(&self, storage: &[u8], name: &[u8], value: &[u8]) -> Option<usize> {
        (0..self.len()).find(|&index| {
            let entry = descriptor(storage, usize::from(self.next) - 1 - index);
            entry.name_len == name.len()
                && entry.value_len == value.len()
                && storage[entry.at..entry.at + entry.name_len] == *name
                && storage[entry.at + entry.name_len..][..entry.value_len] == *value
        })
    }

    /// Drops all entries.
    pub(super) fn clear(&mut self) {
        *self = Table { inserted: self.inserted, ..Table::new(self.size_max) };
    }

    /// Inserts an entry; one that is larger than the table empties it (RFC 7541 4.4).
    pub(super) fn insert(&mut self, storage: &mut [u8], name: &[u8], value: &[u8]) {
        debug_assert!(storage.len() >= self.size_max(), "the storage holds the whole table");
        let text_len = name.len() + value.len();
        let size = text_len + FIELD_OVERHEAD_BYTES;
        if size > self.size_max() {
            return self.clear();
        }
        self.evict(storage, self.size_max() - size);
        if usize::from(self.used) + text_len + (usize::from(self.next) + 1) * DESCRIPTOR_BYTES > storage.len() {
            self.compact(storage);
        }
        let at = usize::from(self.used);
        storage[at..at + name.len()].copy_from_slice(name);
        storage[at + name.len()..at + text_len].copy_from_slice(value);
        put_descriptor(storage, self.next.into(), Descriptor { at, name_len: name.len(), value_len: value.len() });
        self.next += 1;
        self.used += text_len as u16;
        self.size += size as u16;
        self.inserted = self.inserted.wrapping_add(1);
        debug_assert!(self.size <= self.size_max, "what had no place was evicted");
    }

    fn evict(&mut self, storage: &[u8], size_max: usize) {
        while self.size() > size_max {
            self.size -= descriptor(storage, self.oldest.into()).size() as u16;
            self.oldest += 1;
        }
        debug_assert!((self.size == 0) == (self.oldest == self.next), "an entry has at least 32 bytes");
        if self.size == 0 {
            (self.oldest, self.next, self.used) = (0, 0, 0);
        }
    }

    /// Moves the live part to the ends of the storage.
    fn compact(&mut self, storage: &mut [u8]) {
        if self.oldest == self.next {
            return;
        }
        let from = descriptor(storage, self.oldest.into()).at;
        storage.copy_within(from..usize::from(self.used), 0);
        for (to, number) in (self.oldest..self.next).enumerate() {
            let moved = descriptor(storage, number.into());
            put_descriptor(storage, to, Descriptor { at: moved.at - from, ..moved });
        }
        self.used -= from as u16;
        self.next -= self.oldest;
        self.oldest = 0;
    }
}

#[inline]
fn descriptor(storage: &[u8], number: usize) -> Descriptor {
    let from = storage.len() - (number + 1) * DESCRIPTOR_BYTES;
    let read = |at: usize| usize::from(u16::from_le_bytes([storage[from + at], storage[from + at + 1]]));
    Descriptor { at: read(0), name_len: read(2), value_len: read(4) }
}

fn put_descriptor(storage: &mut [u8], number: usize, entry: Descriptor) {
    let from = storage.len() - (number + 1) * DESCRIPTOR_BYTES;
    for (at, word) in [(0, entry.at), (2, entry.name_len), (4, entry.value_len)] {
        storage[from + at..from + at + 2].copy_from_slice(&(word as u16).to_le_bytes());
    }
}

const DESCRIPTOR_BYTES: usize = 6;
