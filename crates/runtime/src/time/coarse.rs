//! A lazy bucket wheel for timeouts that are put off much more often than they are reached.
//!
//! ```text
//!   position                                    position + 255
//!      |                                              |
//!   +--v--+-----+-----+-----+-----+     +-----+-----+-v---+
//!   |  b  | b+1 | b+2 | b+3 | b+4 | ... |     |     | b-1 |     256 buckets of 64 ms: 16 s
//!   +-----+--+--+-----+--+--+-----+     +-----+-----+-----+
//!            |           |
//!        +---v---+   +---v---+   +-------+
//!        | 7     |   | 3     +---> 12    |    links in the owner's records: next, prev, deadline
//!        | due 9 |   | due 3 |   | due 8 |
//!        +-------+   +-------+   +-------+
//! ```
//!
//! The bucket that an entry is in says when it is *looked at*; the deadline in its link says when it is due. The first
//! is never after the second, so:
//!
//! * to put a deadline off is to write it into the link: one store to a record that is warm, no list is touched;
//! * when its bucket is visited and an entry is not due, it moves to the bucket of its deadline, or, if that is further
//!   away than the wheel reaches, to the furthest. An entry is so moved once in a timeout, however often it was put
//!   off, and once in 16 s if the timeout is longer;
//! * only a deadline that is before the visit of its bucket moves its entry at once.
//!
//! The wheel itself is a little over 1 KiB and never grows.

#![forbid(unsafe_code)]

use core::fmt;

/// Length of a tick in milliseconds. A tick is counted in 32 bits: enough for 8 years.
pub(crate) const TICK_MS: u32 = 64;

/// Where the links are: the records of the owner.
///
/// A record may be freed or given to somebody else only after [`Coarse::cancel`], or after its entry came out of
/// [`Coarse::pop_due`].
pub(crate) trait Links {
    /// The link of a record: [`Link::default`] at first, afterwards what was stored last.
    fn link(&self, index: u32) -> Link;

    /// Stores the link of a record.
    fn set_link(&mut self, index: u32, link: Link);
}

/// What a record keeps for [`Coarse`]: 12 bytes.
///
/// ```text
///   next   | 28 bits: index of the next entry     | bucket, high 4 bits |
///   prev   | 28 bits: index of the entry before   | bucket, low 4 bits  |
///   tick   | 32 bits: the tick at which it is due                       |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    next_and_bucket: u32,
    prev_and_bucket: u32,
    deadline_tick: u32,
}

impl Link {
    /// Whether a deadline is set.
    pub(crate) fn is_scheduled(self) -> bool {
        self.next() != NIL
    }

    /// The tick that was scheduled last.
    pub(crate) fn deadline_tick(self) -> Option<u32> {
        self.is_scheduled().then_some(self.deadline_tick)
    }

    fn new(next: u32, prev: u32, bucket: u8, deadline_tick: u32) -> Link {
        debug_assert!(next <= NIL && prev <= NIL);
        Link {
            next_and_bucket: next << 4 | u32::from(bucket >> 4),
            prev_and_bucket: prev << 4 | u32::from(bucket & 0xf),
            deadline_tick,
        }
    }

    fn next(self) -> u32 {
        self.next_and_bucket >> 4
    }

    fn prev(self) -> u32 {
        self.prev_and_bucket >> 4
    }

    fn bucket(self) -> u8 {
        (self.next_and_bucket << 4 | self.prev_and_bucket & 0xf) as u8
    }

    fn with_next(self, next: u32) -> Link {
        Link::new(next, self.prev(), self.bucket(), self.deadline_tick)
    }

    fn with_prev(self, prev: u32) -> Link {
        Link::new(self.next(), prev, self.bucket(), self.deadline_tick)
    }
}

impl Default for Link {
    /// Not scheduled.
    fn default() -> Link {
        Link::new(NIL, NIL, 0, 0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deadline_tick() {
            None => f.write_str("Link(not scheduled)"),
            Some(tick) => f
                .debug_struct("Link")
                .field("next", &self.next())
                .field("prev", &self.prev())
                .field("bucket", &self.bucket())
                .field("deadline_tick", &tick)
                .finish(),
        }
    }
}

/// The wheel: see the [module](self).
///
/// All functions take the records that the links are in; they must be the same ones every time.
pub(crate) struct Coarse {
    /// First entry of each bucket, or [`NIL`]. Lists are circular.
    heads: [u32; BUCKETS as usize],
    /// A bit for each bucket with an entry.
    occupied: [u64; BUCKETS as usize / 64],
    /// Every bucket is visited at a tick from this one to 255 later. Never after the last `now_tick`.
    position: u32,
    /// Entries with a deadline.
    len: u32,
}

impl Coarse {
    /// A wheel without entries at the tick `now_tick`.
    pub(crate) fn new(now_tick: u32) -> Coarse {
        Coarse { heads: [NIL; BUCKETS as usize], occupied: [0; BUCKETS as usize / 64], position: now_tick, len: 0 }
    }

    #[cfg(test)]
    /// Entries with a deadline.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Sets or moves the deadline of the record at `index`. One that has passed is due at once.
    ///
    /// O(1), and only one store if the entry's bucket is visited no later than the new deadline.
    ///
    /// # Panics
    ///
    /// If `index` is not below [`INDEX_MAX`].
    pub(crate) fn schedule(&mut self, links: &mut impl Links, index: u32, deadline_tick: u32) {
        assert!(index < INDEX_MAX, "an index of a coarse timeout has 28 bits");
        let link = links.link(index);
        if link.is_scheduled() {
            if self.visit_tick(link.bucket()) <= deadline_tick.max(self.position) {
                return links.set_link(index, Link { deadline_tick, ..link });
            }
            self.unlink(links, index, link);
        }
        self.append(links, index, deadline_tick);
    }

    /// Removes the deadline of the record at `index`, and says whether it had one. O(1).
    pub(crate) fn cancel(&mut self, links: &mut impl Links, index: u32) -> bool {
        let link = links.link(index);
        if link.is_scheduled() {
            self.unlink(links, index, link);
        }
        link.is_scheduled()
    }

    /// Takes an entry whose deadline is at `now_tick` or before. It is not scheduled any more.
    ///
    /// Looks at no more than [`VISITS_MAX`] entries, so that a burst of connections that were all opened at once does
    /// not stall its worker when their bucket comes. `None` says that nothing is due, or that the rest of the work is
    /// for the next turn: then [`next_tick`](Coarse::next_tick) is not after `now_tick`.
    ///
    /// `now_tick` must not go back.
    // In each turn: without a frame of its own.
    #[inline(always)]
    pub(crate) fn pop_due(&mut self, links: &mut impl Links, now_tick: u32) -> Option<u32> {
        debug_assert!(now_tick >= self.position, "ticks do not go back");
        // After a jump of the clock all buckets are to be visited; the ticks before need not be walked through.
        self.position = self.position.max(now_tick.saturating_sub(HORIZON));
        for _ in 0..VISITS_MAX {
            match self.next_tick() {
                Some(tick) if tick <= now_tick => self.position = tick,
                _ => {
                    self.position = now_tick;
                    return None;
                }
            }
            let index = self.heads[bucket_of(self.position) as usize];
            let link = links.link(index);
            self.unlink(links, index, link);
            if link.deadline_tick <= now_tick {
                return Some(index);
            }
            self.append(links, index, link.deadline_tick);
        }
        None
    }

    /// The tick at which the next bucket with an entry is to be visited, `None` without entries: until then nothing is
    /// due. Not after now if there is something to do already.
    pub(crate) fn next_tick(&self) -> Option<u32> {
        let start = bucket_of(self.position);
        let (word, bit) = (start as usize / 64, start % 64);
        // The word of the position, from its bit on; the words after it; its own again, in which then only bits below
        // are left.
        let at_or_after = self.occupied[word] >> bit << bit;
        let after = (1..self.occupied.len()).map(|n| (word + n) % self.occupied.len());
        core::iter::once((word, at_or_after))
            .chain(after.chain([word]).map(|word| (word, self.occupied[word])))
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| self.visit_tick((word * 64) as u8 + bits.trailing_zeros() as u8))
    }

    /// When a bucket is visited next: the one tick in reach that falls on it.
    fn visit_tick(&self, bucket: u8) -> u32 {
        self.position.saturating_add(u32::from(bucket.wrapping_sub(bucket_of(self.position))))
    }

    /// Links an entry that is in no bucket into the one of its deadline, or into the nearest to it in reach.
    fn append(&mut self, links: &mut impl Links, index: u32, deadline_tick: u32) {
        let tick = deadline_tick.clamp(self.position, self.position.saturating_add(HORIZON));
        let bucket = bucket_of(tick);
        let first = self.heads[bucket as usize];
        let (next, prev) = if first == NIL {
            self.heads[bucket as usize] = index;
            self.occupied[bucket as usize / 64] |= 1 << (bucket % 64);
            (index, index)
        } else {
            let head = links.link(first);
            let last = head.prev();
            links.set_link(first, head.with_prev(index));
            links.set_link(last, links.link(last).with_next(index));
            (first, last)
        };
        links.set_link(index, Link::new(next, prev, bucket, deadline_tick));
        self.len += 1;
    }

    /// Takes an entry out of its bucket.
    fn unlink(&mut self, links: &mut impl Links, index: u32, link: Link) {
        debug_assert!(self.len > 0 && link.is_scheduled());
        let bucket = link.bucket();
        let (next, prev) = (link.next(), link.prev());
        if next == index {
            debug_assert!(self.heads[bucket as usize] == index, "alone, so the first");
            self.heads[bucket as usize] = NIL;
            self.occupied[bucket as usize / 64] &= !(1 << (bucket % 64));
        } else {
            links.set_link(prev, links.link(prev).with_next(next));
            links.set_link(next, links.link(next).with_prev(prev));
            if self.heads[bucket as usize] == index {
                self.heads[bucket as usize] = next;
            }
        }
        links.set_link(index, Link::default());
        self.len -= 1;
    }
}

impl fmt::Debug for Coarse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coarse")
            .field("len", &self.len)
            .field("position", &self.position)
            .field("next_tick", &self.next_tick())
            .finish_non_exhaustive()
    }
}

fn bucket_of(tick: u32) -> u8 {
    (tick % BUCKETS) as u8
}

/// Indexes of records are below it.
pub(crate) const INDEX_MAX: u32 = NIL;

/// Entries that one call of [`Coarse::pop_due`] looks at.
pub(crate) const VISITS_MAX: u32 = 64;

/// As many as the eight bits for a bucket in a link can tell apart.
const BUCKETS: u32 = 256;

/// The furthest bucket from the position.
const HORIZON: u32 = BUCKETS - 1;

/// No entry: the largest 28-bit number.
const NIL: u32 = (1 << 28) - 1;

const _: () = assert!(size_of::<Link>() == 12, "each connection has one");

#[cfg(test)]
mod tests;
