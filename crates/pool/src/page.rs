//! The size of the system's pages.
#![forbid(unsafe_code)]

use std::sync::OnceLock;

use crate::sys;

/// The smallest page there is; a step of the smallest units has the most.
pub(crate) const PAGE_BYTES_MIN: usize = 4 << 10;
/// The largest for which a unit of every class fits into a step.
pub(crate) const PAGE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a page of the system: a power of two from 4,096 to 262,144. Asked once for the process, then the load of a
/// static.
///
/// Classes do not depend on it, what is charged does: memory is resident by whole pages, so a slot that is smaller
/// shares the page that is charged for it, and a thread's stack is rounded up to pages.
///
/// `RUSTFLAGS='--cfg plimsoll_page_bytes="65536"'` (or `"16384"`) builds with pages of that size whatever the system
/// has, if its own are not larger: for tests.
///
/// ```
/// use plimsoll_pool::page_bytes;
///
/// assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
/// ```
///
/// # Panics
///
/// The first time, if the system's pages are larger than 262,144 bytes: no such Linux is known.
#[must_use]
#[inline]
pub fn page_bytes() -> usize {
    *PAGE_BYTES.get_or_init(ask)
}

static PAGE_BYTES: OnceLock<usize> = OnceLock::new();

#[cold]
fn ask() -> usize {
    let system = sys::page_bytes();
    let bytes = if cfg!(plimsoll_page_bytes = "65536") {
        system.max(65_536)
    } else if cfg!(plimsoll_page_bytes = "16384") {
        system.max(16_384)
    } else {
        system
    };
    assert!(is_page(bytes), "a page of {bytes} bytes is not a power of two from 4,096 to 262,144");
    bytes
}

/// Whether a page can have so many bytes.
pub(crate) const fn is_page(bytes: usize) -> bool {
    bytes.is_power_of_two() && PAGE_BYTES_MIN <= bytes && bytes <= PAGE_BYTES_MAX
}

#[cfg(test)]
mod tests;
