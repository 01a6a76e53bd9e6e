//! A set of small numbers: one bit each.
#![forbid(unsafe_code)]

/// A set of numbers below `64 * WORDS`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Bitmap<WORDS> {
    pub(crate) const EMPTY: Self = Self([0; WORDS]);

    /// The numbers from 0 to `count - 1`.
    pub(crate) fn first(count: u32) -> Self {
        let mut bits = Self::EMPTY;
        for (index, word) in bits.0.iter_mut().enumerate() {
            *word = low_bits(count.saturating_sub(index as u32 * 64));
        }
        debug_assert_eq!(bits.0.iter().map(|word| word.count_ones()).sum::<u32>(), count, "the numbers fit");
        bits
    }

    pub(crate) fn insert(&mut self, number: u32) {
        self.0[word(number)] |= bit(number);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        self.0[word(number)] &= !bit(number);
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0[word(number)] & bit(number) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn lowest(&self) -> Option<u32> {
        lowest(&self.0)
    }

    /// The highest number below `bound`.
    pub(crate) fn highest_below(&self, bound: u32) -> Option<u32> {
        highest_below(&self.0, bound)
    }

    /// How many numbers in a row, ending with `last`, are in the set, at most `count_max`.
    pub(crate) fn run_ending_at(&self, last: u32, count_max: u32) -> u32 {
        debug_assert!(self.contains(last) && count_max > 0);
        let mut count = 1;
        while count < count_max && count <= last && self.contains(last - count) {
            count += 1;
        }
        count
    }
}

/// The lowest number in a set of any length.
pub(crate) fn lowest(words: &[u64]) -> Option<u32> {
    let index = words.iter().position(|word| *word != 0)?;
    Some(index as u32 * 64 + words[index].trailing_zeros())
}

/// The highest number below `bound` in a set of any length.
pub(crate) fn highest_below(words: &[u64], bound: u32) -> Option<u32> {
    let full = (word(bound)).min(words.len());
    if let Some(partial) = words.get(full).map(|word| word & low_bits(bound % 64)).filter(|partial| *partial != 0) {
        return Some(full as u32 * 64 + 63 - partial.leading_zeros());
    }
    let index = words[..full].iter().rposition(|word| *word != 0)?;
    Some(index as u32 * 64 + 63 - words[index].leading_zeros())
}

/// A word with its `count` low bits set, all from 64 on.
pub(crate) const fn low_bits(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

pub(crate) const fn word(number: u32) -> usize {
    number as usize / 64
}

pub(crate) const fn bit(number: u32) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests;
