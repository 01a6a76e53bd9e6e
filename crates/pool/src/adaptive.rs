//! How large the next receive should be: up fast, down slowly.
//!
//! ```text
//!             two full receives in a row, or one with more waiting
//!            +----------------------------------------------------+
//!            |                                                    v
//!   4 KiB, 8, 16, 32, 64, 128 KiB, within the bounds      the next size up
//!            ^                                                    |
//!            +----------------------------------------------------+
//!              the moving average is below 40 % of the size
//! ```
#![forbid(unsafe_code)]

use crate::class::Class;

/// The sizes that are wished for: doubling.
const LADDER: [Class; 6] = [Class::K4, Class::K8, Class::K16, Class::K32, Class::K64, Class::K128];

/// A moving average that says which size the next receive of a bulk connection is worth.
///
/// The size is a wish: who receives caps it by what the budget allows. Told of every receive by
/// [`observe`](Self::observe), it doubles after two full receives in a row, at once if more is known to wait, and
/// halves when the average of what came (7/8 old, 1/8 new) is below 40 % of it. It knows no clock:
/// [`reset`](Self::reset) it after the connection was idle.
///
/// ```
/// use plimsoll_pool::{AdaptiveSize, Class};
///
/// let mut size = AdaptiveSize::new(Class::K4, Class::K64);
/// assert_eq!(size.wish(), Class::K4);
/// size.observe(4096, 4096, true);
/// size.observe(8192, 8192, true);
/// assert_eq!(size.wish(), Class::K16);
/// for _ in 0..100 {
///     size.observe(500, 16_384, false);
/// }
/// assert_eq!(size.wish(), Class::K4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveSize {
    /// Of received bytes; at most the largest class.
    average_bytes: u32,
    /// A step of the ladder, from `lowest` to `highest`.
    at: u8,
    lowest: u8,
    highest: u8,
    fill: Fill,
}

/// What the last receive was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Partial,
    Full,
}

impl AdaptiveSize {
    /// A wish between two classes, starting at `lowest`. Classes between the steps of the ladder count as the next step
    /// up.
    ///
    /// # Panics
    ///
    /// If `lowest` is above `highest`.
    #[must_use]
    pub const fn new(lowest: Class, highest: Class) -> Self {
        let (lowest, highest) = (step(lowest), step(highest));
        assert!(lowest <= highest, "the bounds are in order");
        Self { average_bytes: 0, at: lowest, lowest, highest, fill: Fill::Partial }
    }

    /// The size that the next receive is worth.
    #[must_use]
    pub const fn wish(&self) -> Class {
        LADDER[self.at as usize]
    }

    /// The largest wish.
    #[must_use]
    pub const fn highest(&self) -> Class {
        LADDER[self.highest as usize]
    }

    /// Whether the wish cannot grow any more.
    #[must_use]
    pub const fn is_highest(&self) -> bool {
        self.at == self.highest
    }

    /// The wish, or `cap` if that is smaller: for when memory is short.
    #[must_use]
    pub fn wish_up_to(&self, cap: Class) -> Class {
        self.wish().min(cap)
    }

    /// Takes note of a receive of `received` bytes into `room` bytes, after which more was waiting or not.
    ///
    /// A receive into less room than is wished for says nothing about the size, unless it was not filled.
    pub fn observe(&mut self, received: usize, room: usize, more_waits: bool) {
        debug_assert!(received <= room);
        let received = received.min(Class::K128.bytes()) as u32;
        self.average_bytes = self.average_bytes - self.average_bytes / 8 + received / 8;
        let size = self.wish().bytes();
        let is_full = received as usize == room && room > 0;
        match (is_full, self.fill) {
            (true, _) if more_waits && room >= size => self.grow(),
            (true, Fill::Full) if room >= size => self.grow(),
            (true, _) => self.fill = Fill::Full,
            (false, _) => {
                self.fill = Fill::Partial;
                if (self.average_bytes as usize) < size * 2 / 5 && self.at > self.lowest {
                    self.at -= 1;
                }
            }
        }
        debug_assert!((self.lowest..=self.highest).contains(&self.at));
    }

    /// Takes note that `received` bytes came where there was room for any number: the wish is at least as large from
    /// now on, within its bounds.
    ///
    /// ```
    /// use plimsoll_pool::{AdaptiveSize, Class};
    ///
    /// let mut size = AdaptiveSize::new(Class::K4, Class::K64);
    /// size.raise(20_000);
    /// assert_eq!(size.wish(), Class::K32);
    /// size.raise(100);
    /// assert_eq!(size.wish(), Class::K32);
    /// ```
    pub fn raise(&mut self, received: usize) {
        while self.at < self.highest && self.wish().bytes() < received {
            self.grow();
        }
    }

    /// Back to the start: what was learnt before an idle time says nothing about after.
    pub fn reset(&mut self) {
        *self = Self { average_bytes: 0, at: self.lowest, fill: Fill::Partial, ..*self };
    }

    fn grow(&mut self) {
        if self.at < self.highest {
            self.at += 1;
        }
        self.fill = Fill::Partial;
        // The average of before would have the new size halved again at the first receive that does not fill it.
        self.average_bytes = self.average_bytes.max(self.wish().bytes() as u32 / 2);
    }
}

/// The step of the ladder that a class is on, or the next one up.
const fn step(class: Class) -> u8 {
    let mut step = 0;
    while LADDER[step].bytes() < class.bytes() {
        step += 1;
    }
    step as u8
}

const _: () = assert!(size_of::<AdaptiveSize>() <= 8);

#[cfg(test)]
mod tests;
