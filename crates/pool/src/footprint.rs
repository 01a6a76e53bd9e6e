//! What an exchange needs at once.
#![forbid(unsafe_code)]

use crate::class::{Class, Division};
use crate::error::OverBudget;
use crate::page::page_bytes;

/// Up to three buffers that are reserved together, so that nobody holds one while waiting for the next. 12 bytes.
///
/// Each part is a number of bytes up to 131,072, or 0 for none; it becomes a lease of the smallest class.
///
/// ```
/// use plimsoll_pool::{Footprint, page_bytes};
///
/// let footprint = Footprint::new().head(1000).out(4096);
/// assert_eq!(footprint.class_bytes(), 1024 + 4096);
/// assert_eq!(footprint.page_bytes(), 2 * page_bytes() as u64, "a slot may need a page");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    parts: [u32; Self::PARTS],
}

impl Footprint {
    /// How many parts there are: head, body, output.
    pub const PARTS: usize = 3;

    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { parts: [0; Self::PARTS] }
    }

    /// One buffer.
    #[must_use]
    pub const fn one(len: usize) -> Self {
        Self::new().out(len)
    }

    /// Bytes of the request's head.
    #[must_use]
    pub const fn head(mut self, len: usize) -> Self {
        self.parts[0] = clamp(len);
        self
    }

    /// Bytes of the request's body that are held at a time.
    #[must_use]
    pub const fn body(mut self, len: usize) -> Self {
        self.parts[1] = clamp(len);
        self
    }

    /// Bytes of output that are held at a time.
    #[must_use]
    pub const fn out(mut self, len: usize) -> Self {
        self.parts[2] = clamp(len);
        self
    }

    /// The classes of the parts.
    pub(crate) fn classes(self) -> Result<[Option<Class>; Self::PARTS], OverBudget> {
        let mut classes = [None; Self::PARTS];
        for (class, len) in classes.iter_mut().zip(self.parts) {
            if len > 0 {
                *class = Some(Class::for_len(len as usize).ok_or(OverBudget::too_large(u64::from(len)))?);
            }
        }
        Ok(classes)
    }

    /// The classes' bytes together: what the use ledger counts. Parts that no class holds count as nothing.
    #[must_use]
    pub fn class_bytes(self) -> u64 {
        self.sum(Class::bytes)
    }

    /// What it charges at most when no free slot is at hand, without metadata.
    #[must_use]
    pub fn page_bytes(self) -> u64 {
        self.sum(|class| Division::of(class, page_bytes()).unit_bytes as usize)
    }

    fn sum(self, bytes: impl Fn(Class) -> usize) -> u64 {
        let classes = self.parts.into_iter().filter(|len| *len > 0).filter_map(|len| Class::for_len(len as usize));
        classes.map(|class| bytes(class) as u64).sum()
    }
}

const fn clamp(len: usize) -> u32 {
    if len > u32::MAX as usize { u32::MAX } else { len as u32 }
}

#[cfg(test)]
mod tests;
