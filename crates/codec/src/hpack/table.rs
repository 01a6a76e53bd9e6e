//! The dynamic table (RFC 7541 2.3.2, 4), in bytes that belong to the caller.
//!
//! ```text
//! | evicted | oldest entry .. newest entry |  free  | newest descriptor .. oldest descriptor | evicted |
//! 0                                      used                                                  storage.len()
//! ```
//!
//! Names and values grow from the front, descriptors (offset, two lengths and a mark, eight bytes) from the back. When
//! they would meet, the live part is moved to the ends. There is always room then: an entry is counted with 32 bytes
//! more than its text, and has eight. A name or value is never cut in two, as it would be in a ring.

use super::FIELD_OVERHEAD_BYTES;
use super::mark::Mark;

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
    mark: Mark,
}

/// An entry of either table.
#[derive(Copy, Clone, Debug)]
pub(super) struct Entry<'s> {
    /// Begins with its name, then its value, then anything.
    pub(super) tail: &'s [u8],
    pub(super) name_len: usize,
    pub(super) value_len: usize,
    pub(super) mark: Mark,
}

impl<'s> Entry<'s> {
    pub(super) fn name(&self) -> &'s [u8] {
        &self.tail[..self.name_len]
    }

    #[cfg(test)]
    pub(super) fn value(&self) -> &'s [u8] {
        &self.tail[self.name_len..][..self.value_len]
    }

    pub(super) fn text_len(&self) -> usize {
        self.name_len + self.value_len
    }

    /// Copies name and value to the front of `to`, which has room for them. What stands behind them may change, too.
    #[inline]
    pub(super) fn copy_to(&self, to: &mut [u8]) {
        match (self.tail.first_chunk::<COPIED_BYTES>(), to.first_chunk_mut::<COPIED_BYTES>()) {
            // Most are short: a copy of a fixed length is some instructions, one of any length is a call.
            (Some(from), Some(to)) if self.text_len() <= COPIED_BYTES => *to = *from,
            _ => self.copy_any_to(to),
        }
    }

    #[cold]
    fn copy_any_to(&self, to: &mut [u8]) {
        let len = self.text_len();
        to[..len].copy_from_slice(&self.tail[..len]);
    }
}

/// Texts up to this length are copied in one go.
pub(super) const COPIED_BYTES: usize = 32;

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

    /// An entry; 0 is the newest.
    #[inline]
    pub(super) fn get<'s>(&self, storage: &'s [u8], index: usize) -> Option<Entry<'s>> {
        if index >= self.len() {
            return None;
        }
        let Descriptor { at, name_len, value_len, mark } = descriptor(storage, usize::from(self.next) - 1 - index);
        Some(Entry { tail: &storage[at..], name_len, value_len, mark })
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
    pub(super) fn insert(&mut self, storage: &mut [u8], name: &[u8], value: &[u8], mark: Mark) {
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
        let entry = Descriptor { at, name_len: name.len(), value_len: value.len(), mark };
        put_descriptor(storage, self.next.into(), entry);
        self.next += 1;
        self.used += text_len as u16;
        self.size += size as u16;
        self.inserted = self.inserted.wrapping_add(1);
        debug_assert!(self.size <= self.size_max, "what had no place was evicted");
    }

    /// Bytes that the entries take when they are packed.
    pub(super) const fn packed_bytes(&self) -> usize {
        self.size() - self.len() * (FIELD_OVERHEAD_BYTES - DESCRIPTOR_BYTES)
    }

    /// Copies the entries to the front of `to`, as they will be found by [`unpack`](Table::unpack); the storage is not
    /// needed until then. Returns how many bytes that were.
    pub(super) fn pack(&mut self, storage: &mut [u8], to: &mut [u8]) -> usize {
        self.compact(storage);
        let (text, descriptors) = self.parts();
        to[..text].copy_from_slice(&storage[..text]);
        to[text..text + descriptors].copy_from_slice(&storage[storage.len() - descriptors..]);
        debug_assert_eq!(text + descriptors, self.packed_bytes());
        text + descriptors
    }

    /// Copies packed entries back. Returns how many bytes they took.
    pub(super) fn unpack(&self, from: &[u8], storage: &mut [u8]) -> usize {
        let (text, descriptors) = self.parts();
        storage[..text].copy_from_slice(&from[..text]);
        let at = storage.len() - descriptors;
        storage[at..].copy_from_slice(&from[text..text + descriptors]);
        text + descriptors
    }

    /// Bytes of the texts and of the descriptors, of a table that was compacted.
    fn parts(&self) -> (usize, usize) {
        debug_assert_eq!(self.oldest, 0, "nothing evicted is left");
        (self.used.into(), usize::from(self.next) * DESCRIPTOR_BYTES)
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
    let word = storage[from..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let part = |at: u32| usize::from((word >> (16 * at)) as u16);
    Descriptor { at: part(0), name_len: part(1), value_len: part(2), mark: Mark::from_byte(part(3) as u8) }
}

fn put_descriptor(storage: &mut [u8], number: usize, entry: Descriptor) {
    let from = storage.len() - (number + 1) * DESCRIPTOR_BYTES;
    let parts = [entry.at, entry.name_len, entry.value_len, entry.mark.to_byte().into()];
    let word = parts.into_iter().rev().fold(0, |word: u64, part| word << 16 | u64::from(part as u16));
    storage[from..from + DESCRIPTOR_BYTES].copy_from_slice(&word.to_le_bytes());
}

const DESCRIPTOR_BYTES: usize = 8;
