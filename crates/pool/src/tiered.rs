//! A buffer that holds a few bytes in itself and the rest in the class that fits.
#![forbid(unsafe_code)]

use core::fmt;

use crate::class::Class;
use crate::error::OverBudget;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::pool::Pool;

/// Bytes in the cheapest place that holds them: up to `INLINE` in the value itself, more in a lease of the smallest
/// class, up to 131,072.
///
/// It goes up by [`extend`](Self::extend) and comes down by [`shrink`](Self::shrink), or at once when it is empty: an
/// empty buffer holds no memory of the pool. `INLINE` up to 1,024 is sensible.
///
/// ```
/// use plimsoll_pool::{Budget, Class, Kind, MemoryLimit, Pool, PoolConfig, TieredBuf};
///
/// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
/// let mut buf = TieredBuf::<32>::new();
/// buf.extend(&pool, b"a few bytes")?;
/// assert_eq!(buf.class(), None);
/// buf.extend(&pool, &[b'x'; 5000])?;
/// assert_eq!(buf.class(), Some(Class::K8));
/// buf.consume(5000);
/// buf.shrink(&pool);
/// assert_eq!((buf.class(), buf.as_slice()), (None, &b"xxxxxxxxxxx"[..]));
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
pub struct TieredBuf<const INLINE: usize> {
    tier: Tier<INLINE>,
    kind: Kind,
}

enum Tier<const INLINE: usize> {
    /// Bytes `[start, end)` of the array.
    Inline { bytes: [u8; INLINE], start: u16, end: u16 },
    /// Never empty.
    Leased(Lease),
}

impl<const INLINE: usize> Tier<INLINE> {
    const EMPTY: Self = Self::Inline { bytes: [0; INLINE], start: 0, end: 0 };
}

impl<const INLINE: usize> TieredBuf<INLINE> {
    /// An empty buffer whose memory will be charged as [`Kind::Buffers`].
    ///
    /// More than 65,535 bytes inline do not compile.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_kind(Kind::Buffers)
    }

    /// An empty buffer whose memory will be charged as `kind`.
    #[must_use]
    pub const fn with_kind(kind: Kind) -> Self {
        const { assert!(INLINE <= u16::MAX as usize, "inline bytes are counted with 16 bits") };
        Self { tier: Tier::EMPTY, kind }
    }

    /// How many bytes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.tier {
            Tier::Inline { bytes, start, end } => &bytes[usize::from(*start)..usize::from(*end)],
            Tier::Leased(lease) => lease,
        }
    }

    /// The class of the lease that holds the bytes; `None` while they are inline.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        match &self.tier {
            Tier::Inline { .. } => None,
            Tier::Leased(lease) => Some(lease.class()),
        }
    }

    /// Appends all of `bytes`, in place if they fit, else in the smallest class that holds everything.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] as [`Pool::try_acquire`]; the buffer is then as before.
    pub fn extend(&mut self, pool: &Pool, bytes: &[u8]) -> Result<(), OverBudget> {
        if self.extend_inline(bytes) {
            return Ok(());
        }
        match &mut self.tier {
            Tier::Inline { .. } => {
                let old = self.as_slice();
                let mut lease = pool.try_acquire(old.len().saturating_add(bytes.len()), self.kind)?;
                let taken = lease.extend(old) + lease.extend(bytes);
                debug_assert_eq!(taken, old.len() + bytes.len(), "the class was chosen for them");
                self.tier = Tier::Leased(lease);
            }
            Tier::Leased(lease) => {
                pool.try_grow(lease, bytes.len())?;
                let taken = lease.extend(bytes);
                debug_assert_eq!(taken, bytes.len(), "room was made for them");
            }
        }
        Ok(())
    }

    /// Appends all of `more` if they fit without more memory, and says whether they did; nothing is appended
    /// otherwise.
    #[must_use = "nothing is appended if they do not fit"]
    pub fn extend_inline(&mut self, more: &[u8]) -> bool {
        if let Tier::Leased(lease) = &mut self.tier {
            if !lease.make_room(more.len()) {
                return false;
            }
            let taken = lease.extend(more);
            debug_assert_eq!(taken, more.len(), "there is room");
            return true;
        }
        match self.extend_in_place(more.len()) {
            Some(room) => {
                room.copy_from_slice(more);
                true
            }
            None => false,
        }
    }

    /// Appends so many bytes, to be written by whoever asks, if they fit in the value itself: for what is put together
    /// of several parts, which need one look at how much room there is. `None`, and nothing is appended, if they do not
    /// fit, or the bytes are in a lease.
    ///
    /// ```
    /// use plimsoll_pool::TieredBuf;
    ///
    /// let mut buf = TieredBuf::<8>::new();
    /// buf.extend_in_place(4).expect("there is room").copy_from_slice(b"abcd");
    /// assert_eq!(buf.as_slice(), b"abcd");
    /// assert!(buf.extend_in_place(5).is_none());
    /// ```
    #[must_use = "what is appended is to be written"]
    #[inline]
    pub fn extend_in_place(&mut self, more: usize) -> Option<&mut [u8]> {
        let Tier::Inline { bytes, start, end } = &mut self.tier else { return None };
        let len = usize::from(*end - *start);
        if more > INLINE - len {
            return None;
        }
        if more > INLINE - usize::from(*end) {
            bytes.copy_within(usize::from(*start)..usize::from(*end), 0);
            (*start, *end) = (0, len as u16);
        }
        let at = usize::from(*end);
        *end += more as u16;
        Some(&mut bytes[at..at + more])
    }

    /// Drops `count` bytes from the front. Nothing left means no lease left.
    ///
    /// # Panics
    ///
    /// If it holds fewer.
    pub fn consume(&mut self, count: usize) {
        assert!(count <= self.len(), "no more is consumed than there is");
        if count == self.len() {
            return self.clear();
        }
        match &mut self.tier {
            Tier::Inline { start, .. } => *start += count as u16,
            Tier::Leased(lease) => lease.consume(count),
        }
    }

    /// Drops all bytes, and the lease.
    pub fn clear(&mut self) {
        self.tier = Tier::EMPTY;
        debug_assert!(self.is_empty());
    }

    /// Moves the bytes down to the cheapest place that holds them. If the line leaves no room for the smaller lease
    /// beside the larger one, they stay where they are.
    pub fn shrink(&mut self, pool: &Pool) {
        let Tier::Leased(lease) = &self.tier else { return };
        let len = lease.len();
        if len <= INLINE {
            let mut bytes = [0; INLINE];
            bytes[..len].copy_from_slice(lease);
            self.tier = Tier::Inline { bytes, start: 0, end: len as u16 };
        } else if Class::for_len(len).is_some_and(|class| class < lease.class())
            && let Ok(smaller) = pool.try_copy(lease, self.kind)
        {
            self.tier = Tier::Leased(smaller);
        }
        debug_assert_eq!(self.len(), len);
    }
}

impl<const INLINE: usize> Default for TieredBuf<INLINE> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const INLINE: usize> fmt::Debug for TieredBuf<INLINE> {
    /// Not the bytes: they may be secret, and many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TieredBuf").field("len", &self.len()).field("class", &self.class()).finish()
    }
}

#[cfg(test)]
mod tests;
