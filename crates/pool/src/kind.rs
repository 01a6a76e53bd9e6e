//! What charged bytes are used for.
#![forbid(unsafe_code)]

use core::fmt;

/// What bytes are charged for: the lines of the bill.
///
/// ```
/// use plimsoll_pool::Kind;
///
/// assert_eq!(Kind::ALL.len(), Kind::COUNT);
/// assert_eq!(Kind::Buffers.name(), "buffers");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// What is there from the start and stays: tables, the pool's own bookkeeping.
    Fixed = 0,
    /// Slots of connections and of operations.
    Slots = 1,
    /// Cells of tasks.
    Tasks = 2,
    /// Buffers; also resident pages that are free, see [`Budget::charged_by`](crate::Budget::charged_by).
    Buffers = 3,
    /// State of codecs.
    Codec = 4,
    /// Rings shared with the kernel.
    Rings = 5,
    /// Stacks of threads.
    Stacks = 6,
}

impl Kind {
    /// How many kinds there are.
    pub const COUNT: usize = 7;

    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; Kind::COUNT] =
        [Self::Fixed, Self::Slots, Self::Tasks, Self::Buffers, Self::Codec, Self::Rings, Self::Stacks];

    /// One lower-case word, for metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Slots => "slots",
            Self::Tasks => "tasks",
            Self::Buffers => "buffers",
            Self::Codec => "codec",
            Self::Rings => "rings",
            Self::Stacks => "stacks",
        }
    }

    /// The kind with the number in the low three bits of `bits`.
    #[inline]
    pub(crate) fn from_bits(bits: usize) -> Kind {
        Self::ALL[bits & Self::MASK]
    }

    #[inline]
    pub(crate) const fn bits(self) -> usize {
        self as usize
    }

    /// The bits that a kind's number needs.
    pub(crate) const MASK: usize = 0b111;
}

const _: () = assert!(Kind::COUNT <= Kind::MASK + 1);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;
