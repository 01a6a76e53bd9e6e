//! A set of chunk numbers with quick access to its lowest and highest member.
//!
//! One bit per number and two cursors. A cursor moves outwards when a member is added beyond it and inwards while it
//! looks for the next member, so a search costs what the additions since the last one have moved it.

#![forbid(unsafe_code)]

/// A set of chunk numbers below a bound that only grows.
#[derive(Debug, Default)]
pub(crate) struct Set {
    words: Vec<u64>,
    /// No word below this one has a member.
    low: usize,
    /// No word from this one on has a member.
    high: usize,
    len: u32,
}

impl Set {
    pub(crate) const fn new() -> Set {
        Set { words: Vec::new(), low: 0, high: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Makes room for the numbers below `bound`, allocating for exactly `reserve` of them if it must allocate.
    pub(crate) fn extend_to(&mut self, bound: usize, reserve: usize) {
        let words = bound.div_ceil(64);
        if words > self.words.capacity() {
            self.words.reserve_exact(reserve.div_ceil(64).max(words) - self.words.len());
        }
        while self.words.len() < words {
            self.words.push(0);
        }
    }

    /// Adds a number that is not a member.
    pub(crate) fn insert(&mut self, number: usize) {
        let word = number / 64;
        debug_assert!(!self.contains(number), "{number} is a member already");
        self.words[word] |= 1 << (number % 64);
        self.low = self.low.min(word);
        self.high = self.high.max(word + 1);
        self.len += 1;
    }

    /// Removes a member.
    pub(crate) fn remove(&mut self, number: usize) {
        debug_assert!(self.contains(number), "{number} is no member");
        self.words[number / 64] &= !(1 << (number % 64));
        self.len -= 1;
    }

    pub(crate) fn contains(&self, number: usize) -> bool {
        self.words[number / 64] & 1 << (number % 64) != 0
    }

    /// The lowest member.
    pub(crate) fn first(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        while self.words[self.low] == 0 {
            self.low += 1;
        }
        Some(self.low * 64 + self.words[self.low].trailing_zeros() as usize)
    }

    /// The highest member.
    pub(crate) fn last(&mut self) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        while self.words[self.high - 1] == 0 {
            self.high -= 1;
        }
        let word = self.high - 1;
        Some(word * 64 + 63 - self.words[word].leading_zeros() as usize)
    }

    /// Heap bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}
