//! Size classes, and how each divides its range of addresses.
//!
//! A range is cut into *steps* of about 2 MiB, by which it is opened; a step into *units*, the smallest part that is
//! resident or not; a unit into *slots*, the smallest part that is live or not. A slot that is smaller than a page
//! shares a unit of one page with others; a slot of whole pages is a unit of its own, so that it can go back to the
//! system alone. Slots of 20 KiB are whole pages of 4 KiB; with larger ones, a unit is the fewest of them that end with
//! a page.
//!
//! Where a slot is does not depend on the page ([`Shape`]); what is resident together does ([`Division`]).
#![forbid(unsafe_code)]

use core::fmt;

use crate::page::{PAGE_BYTES_MIN, is_page};

/// Addresses of one class in one pool. Under valgrind a program can reserve less than 64 GiB in a row, and a
/// reservation is made at twice its size to be aligned: `RUSTFLAGS="--cfg plimsoll_small_arena"` makes pools of 8 GiB,
/// which run there, with the same code.
pub(crate) const RANGE_BYTES: u64 = if cfg!(plimsoll_small_arena) { 512 << 20 } else { 4 << 30 };
const STEP_BYTES: usize = 2 << 20;
/// Offsets are counted in the smallest class.
const GRAIN_SHIFT: u32 = 6;
const RECIPROCAL_SHIFT: u32 = 36;

/// A size of slots.
///
/// Below 4 KiB the sizes are for connections, tasks and small pieces, above for buffers. 20 KiB is there because a TLS
/// record has up to 16,645 bytes.
///
/// ```
/// use plimsoll_pool::Class;
///
/// assert_eq!(Class::for_len(150), Some(Class::B256));
/// assert_eq!(Class::for_len(16_645), Some(Class::K20));
/// assert_eq!(Class::for_len(131_073), None);
/// assert_eq!(Class::K20.bytes(), 20_480);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// 64 bytes.
    B64 = 0,
    /// 128 bytes.
    B128 = 1,
    /// 256 bytes.
    B256 = 2,
    /// 512 bytes.
    B512 = 3,
    /// 1,024 bytes.
    B1024 = 4,
    /// 4 KiB.
    K4 = 5,
    /// 8 KiB.
    K8 = 6,
    /// 16 KiB.
    K16 = 7,
    /// 20 KiB.
    K20 = 8,
    /// 32 KiB.
    K32 = 9,
    /// 64 KiB.
    K64 = 10,
    /// 128 KiB.
    K128 = 11,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 12;

    /// Every class, from the smallest to the largest.
    pub const ALL: [Class; Class::COUNT] = [
        Self::B64,
        Self::B128,
        Self::B256,
        Self::B512,
        Self::B1024,
        Self::K4,
        Self::K8,
        Self::K16,
        Self::K20,
        Self::K32,
        Self::K64,
        Self::K128,
    ];

    /// The bytes of a slot.
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> usize {
        match self {
            Self::B64 => 64,
            Self::B128 => 128,
            Self::B256 => 256,
            Self::B512 => 512,
            Self::B1024 => 1024,
            Self::K4 => 4 << 10,
            Self::K8 => 8 << 10,
            Self::K16 => 16 << 10,
            Self::K20 => 20 << 10,
            Self::K32 => 32 << 10,
            Self::K64 => 64 << 10,
            Self::K128 => 128 << 10,
        }
    }

    /// The smallest class with at least `len` bytes; `None` above 131,072.
    #[must_use]
    #[inline]
    pub const fn for_len(len: usize) -> Option<Class> {
        if len > Self::K128.bytes() {
            return None;
        }
        let bits = usize::BITS - len.saturating_sub(1).leading_zeros();
        let class = BY_BITS[bits as usize];
        if matches!(class, Self::K32) && len <= Self::K20.bytes() { Some(Self::K20) } else { Some(class) }
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    #[inline]
    pub(crate) fn shape(self) -> &'static Shape {
        &SHAPES[self.index()]
    }
}

/// For every number of bits, the smallest power of two among the classes that holds all lengths with as many bits in
/// the length less one.
const BY_BITS: [Class; 18] = {
    let mut classes = [Class::B64; 18];
    let mut bits = 0;
    while bits < classes.len() {
        let mut index = 0;
        while Class::ALL[index].bytes() < 1 << bits || !Class::ALL[index].bytes().is_power_of_two() {
            index += 1;
        }
        classes[bits] = Class::ALL[index];
        bits += 1;
    }
    classes
};

impl fmt::Display for Class {
    /// The bytes with their unit, as in `20KiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes() {
            bytes if bytes.is_multiple_of(1024) => write!(f, "{}KiB", bytes / 1024),
            bytes => write!(f, "{bytes}B"),
        }
    }
}

/// Where the slots of a class are.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) slot_bytes: u32,
    /// Free slots kept at hand: at most 16, and at most 64 KiB.
    pub(crate) magazine_slots_max: u32,
    reciprocal: u64,
}

/// How the range of a class is divided, for a size of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Whole pages.
    pub(crate) unit_bytes: u32,
    /// A power of two: 1 for slots of whole pages.
    pub(crate) slots_per_unit: u32,
    /// At most 512.
    pub(crate) units_per_step: u32,
    pub(crate) slots_per_step: u32,
    /// Whole units, and at most 2 MiB.
    pub(crate) step_bytes: u32,
    /// Steps in the class's range.
    pub(crate) steps_max: u32,
}

impl Division {
    /// How a class is divided with pages of so many bytes.
    pub(crate) const fn of(class: Class, page_bytes: usize) -> Self {
        debug_assert!(is_page(page_bytes));
        let slot_bytes = class.bytes();
        let power = 1 << slot_bytes.trailing_zeros();
        let unit_bytes = (slot_bytes / power) * if power < page_bytes { page_bytes } else { power };
        let units_per_step = STEP_BYTES / unit_bytes;
        let step_bytes = units_per_step * unit_bytes;
        Self {
            unit_bytes: unit_bytes as u32,
            slots_per_unit: (unit_bytes / slot_bytes) as u32,
            units_per_step: units_per_step as u32,
            slots_per_step: (step_bytes / slot_bytes) as u32,
            step_bytes: step_bytes as u32,
            steps_max: (RANGE_BYTES / step_bytes as u64) as u32,
        }
    }
}

pub(crate) const MAGAZINE_SLOTS_MAX: usize = 16;
const MAGAZINE_BYTES_MAX: usize = 64 << 10;
pub(crate) const UNITS_PER_STEP_MAX: usize = STEP_BYTES / PAGE_BYTES_MIN;

static SHAPES: [Shape; Class::COUNT] = {
    let mut shapes = [const { Shape::of(Class::B64) }; Class::COUNT];
    let mut index = 0;
    while index < Class::COUNT {
        shapes[index] = Shape::of(Class::ALL[index]);
        index += 1;
    }
    shapes
};

impl Shape {
    const fn of(class: Class) -> Shape {
        let slot_bytes = class.bytes();
        let magazine = MAGAZINE_BYTES_MAX / slot_bytes;
        Shape {
            slot_bytes: slot_bytes as u32,
            magazine_slots_max: if magazine < MAGAZINE_SLOTS_MAX { magazine as u32 } else { MAGAZINE_SLOTS_MAX as u32 },
            reciprocal: (1_u64 << RECIPROCAL_SHIFT).div_ceil((slot_bytes >> GRAIN_SHIFT) as u64),
        }
    }

    /// The number of the slot that holds the byte at `offset` of the range.
    ///
    /// A multiplication instead of a division. It is exact: the reciprocal is too high by less than 320 / 2^36 of
    /// itself, and only for 20 KiB; times 2^26 grains that is less than the 1 / 320 by which a quotient can be short of
    /// the next number.
    #[inline]
    pub(crate) fn slot_at(&self, offset: u32) -> u32 {
        let slot = ((u64::from(offset >> GRAIN_SHIFT) * self.reciprocal) >> RECIPROCAL_SHIFT) as u32;
        debug_assert_eq!(slot, offset / self.slot_bytes);
        slot
    }

    /// Where a slot starts in the range.
    #[inline]
    pub(crate) fn slot_offset(&self, slot: u32) -> u32 {
        let offset = u64::from(slot) * u64::from(self.slot_bytes);
        debug_assert!(offset + u64::from(self.slot_bytes) <= RANGE_BYTES, "the slot is in the range");
        offset as u32
    }
}

#[cfg(test)]
mod tests;
