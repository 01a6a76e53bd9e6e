//! A hierarchical timer wheel with a resolution of 1 ms.
//!
//! ```text
//!   deadline  = ....  digit 5  digit 4  digit 3  digit 2  digit 1  digit 0      (base 64, in ms)
//!                        |        |        |        |        |        |
//!   level                5        4        3        2        1        0
//!   width of a slot    12.4 d    4.7 h    4.4 min  4.1 s    64 ms    1 ms
//!   turn of the level  2.2 y    12.4 d    4.7 h    4.4 min  4.1 s    64 ms
//! ```
//!
//! The wheel has a position. A timer is linked at the level of the highest digit in which its deadline differs from the
//! position, in the slot of that digit; on level 0 if it does not differ, or has passed. One whose deadline differs
//! above the highest level is in the overflow list. From that follows:
//!
//! * all timers of a slot on level 0 are due at the same millisecond;
//! * every timer of a level is due before every timer of the levels above, so the first occupied slot of the lowest
//!   occupied level comes next: two bit scans;
//! * when the position reaches the start of a slot of a higher level, its timers belong on lower levels and are moved
//!   there ("cascade"), which happens to a timer at most six times, and costs as much as setting it.
//!
//! Lists are circular through indexes of the table, so that the tail, where timers are added, is one step from the
//! head. Timers of one millisecond fire in the order in which they came to its slot.

#![forbid(unsafe_code)]

use core::fmt;

use plimsoll_slab::{Chunk, Key, Slab};

/// The handle of a timer, which keeps its place in the table, also when it has fired: until its owner gives the handle
/// to [`Wheel::remove`], or to a [`Wheel::reset`] that comes too late, and then forgets it.
///
/// So no other timer ever has the same handle. The generations of the table alone do not see to that: they begin anew
/// after 2^23 insertions, and a timer that has fired may be looked at later than that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimerKey(Key);

/// A timer wheel that holds a `T` for each timer, in chunks that its caller provides.
///
/// Times are milliseconds since an epoch of the caller's. Deadlines from 2^48 ms (8,900 years) on fire then.
pub(crate) struct Wheel<T, C: Chunk> {
    timers: Slab<Timer<T>, C>,
    /// First timer of each list, or [`NIL`].
    heads: [u32; LISTS],
    /// A bit for each slot with a timer, a word for each level.
    occupied: [u64; LEVELS],
    /// Everything due before this has fired.
    position_ms: u64,
    /// The time now, never before the position: what is due until then may fire.
    now_ms: u64,
}

struct Timer<T> {
    /// `None` once it has fired; it is in no list then.
    value: Option<T>,
    /// Deadline (48 bits) and the list that the timer is in (16 bits), lowest.
    when: u64,
    /// The next timer of the list; the last has the first.
    next: u32,
    /// The timer before in the list; the first has the last.
    prev: u32,
}

impl<T, C: Chunk> Wheel<T, C> {
    /// A wheel without timers at the time `now_ms`, whose table takes at most `chunks_max` chunks.
    pub(crate) fn new(now_ms: u64, chunks_max: u32) -> Wheel<T, C> {
        let now_ms = now_ms.min(TIME_MAX_MS);
        Wheel { timers: Slab::new(chunks_max), heads: [NIL; LISTS], occupied: [0; LEVELS], position_ms: now_ms, now_ms }
    }

    /// Timers that are set, and those that have fired and were not let go yet.
    pub(crate) fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether [`insert`](Wheel::insert) would fail until [`grow`](Wheel::grow) brings a chunk, or a timer is let go.
    pub(crate) fn needs_chunk(&self) -> bool {
        self.timers.len() == self.timers.capacity()
    }

    /// Whether chunks of the table are unused.
    pub(crate) fn has_empty_chunks(&self) -> bool {
        self.timers.empty_chunks() > 0
    }

    #[cfg(test)]
    /// Chunks of the table.
    pub(crate) fn chunks(&self) -> u32 {
        self.timers.chunks()
    }

    /// Takes a chunk for the table, or gives it back if the table has its most.
    pub(crate) fn grow(&mut self, chunk: C) -> Result<(), C> {
        self.timers.grow(chunk)
    }

    /// Gives a chunk without timers back.
    pub(crate) fn release_empty(&mut self) -> Option<C> {
        self.timers.release_empty()
    }

    /// Sets a timer. One whose deadline has passed is due at once. O(1).
    ///
    /// Gives the value back if the table [needs a chunk](Wheel::needs_chunk).
    pub(crate) fn insert(&mut self, deadline_ms: u64, value: T) -> Result<TimerKey, T> {
        let Some(vacant) = self.timers.vacant() else { return Err(value) };
        let key = vacant.insert(Timer { value: Some(value), when: when(deadline_ms), next: NIL, prev: NIL });
        self.link(key.index());
        Ok(TimerKey(key))
    }

    /// Gives a timer another deadline. If it has fired it is let go instead, and this is `false`: the handle is used
    /// up. O(1).
    pub(crate) fn reset(&mut self, key: TimerKey, deadline_ms: u64) -> bool {
        if self.get_mut(key).is_none() {
            self.remove(key);
            return false;
        }
        self.unlink(key.0.index());
        self.timer(key.0.index()).when = when(deadline_ms);
        self.link(key.0.index());
        true
    }

    /// Lets a timer go; its value, unless it has fired. The handle is used up. O(1).
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<T> {
        if self.get_mut(key).is_some() {
            self.unlink(key.0.index());
        }
        self.timers.remove(key.0)?.value
    }

    /// The value of a timer, unless it has fired.
    pub(crate) fn get_mut(&mut self, key: TimerKey) -> Option<&mut T> {
        self.timers.get_mut(key.0)?.value.as_mut()
    }

    /// A time until which nothing fires, or `None` if no timer is set.
    ///
    /// It is exact for the next 64 ms block and else the start of the slot of the next timer: at most as much early as
    /// the slot is wide, never late. Whoever sleeps until then and then asks again is woken at most seven times for
    /// one timer. A timer that is due already gives a time that is not after now.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.next_list().map(|(_, start_ms)| start_ms)
    }

    /// Moves the clock; the timers due until then are had from [`pop_expired`](Wheel::pop_expired). O(1). A time that
    /// is before the last one changes nothing.
    pub(crate) fn advance(&mut self, now_ms: u64) {
        self.now_ms = self.now_ms.max(now_ms.min(TIME_MAX_MS));
    }

    /// Takes the value of the next timer that is due, earliest first; `None` when all have fired. The timer keeps its
    /// place for its owner.
    ///
    /// A caller may stop whenever it likes and go on later. A call costs O(1), and the cascades on the way: at most
    /// six moves for each timer in its life.
    pub(crate) fn pop_expired(&mut self) -> Option<(TimerKey, T)> {
        loop {
            let (list, start_ms) = match self.next_list() {
                Some(next) if next.1 <= self.now_ms => next,
                _ => {
                    self.position_ms = self.now_ms;
                    return None;
                }
            };
            debug_assert!(start_ms >= self.position_ms, "the wheel does not turn back");
            self.position_ms = start_ms;
            if list < SLOTS {
                return self.fire(self.heads[list]);
            }
            self.cascade(list);
        }
    }

    /// Takes the timer at an index out of its list; its value and its key.
    fn fire(&mut self, index: u32) -> Option<(TimerKey, T)> {
        self.unlink(index);
        let key = self.timers.key_at(index)?;
        self.timer(index).value.take().map(|value| (TimerKey(key), value))
    }

    /// The list that comes next, and when its first timer could be due.
    fn next_list(&self) -> Option<(usize, u64)> {
        for (level, occupied) in self.occupied.iter().enumerate() {
            if *occupied != 0 {
                let slot = occupied.trailing_zeros() as usize;
                let turn_ms = self.position_ms >> (DIGIT_BITS * (level + 1)) << (DIGIT_BITS * (level + 1));
                return Some((level * SLOTS + slot, turn_ms | (slot as u64) << (DIGIT_BITS * level)));
            }
        }
        let turn_bits = DIGIT_BITS * LEVELS;
        (self.heads[OVERFLOW] != NIL).then(|| (OVERFLOW, ((self.position_ms >> turn_bits) + 1) << turn_bits))
    }

    /// Moves the timers of a list to where they belong, now that the position has reached the list's start.
    fn cascade(&mut self, list: usize) {
        let first = self.heads[list];
        debug_assert!(first != NIL && list >= SLOTS);
        self.clear(list);
        let mut index = first;
        loop {
            // Linking overwrites it. The chain ahead stays whole, because only timers behind are linked anew.
            let next = self.timer(index).next;
            self.link(index);
            if next == first {
                return;
            }
            index = next;
        }
    }

    /// The list of a deadline, seen from the position.
    fn list_of(&self, deadline_ms: u64) -> usize {
        let deadline_ms = deadline_ms.max(self.position_ms);
        let differs = deadline_ms ^ self.position_ms;
        let level = (differs | 1).ilog2() as usize / DIGIT_BITS;
        if level >= LEVELS {
            return OVERFLOW;
        }
        let slot = (deadline_ms >> (DIGIT_BITS * level)) as usize % SLOTS;
        level * SLOTS + slot
    }

    /// Appends a timer that is in no list to the one of its deadline.
    fn link(&mut self, index: u32) {
        let deadline_ms = self.timer(index).when >> LIST_BITS;
        let list = self.list_of(deadline_ms);
        let first = self.heads[list];
        let (next, prev) = if first == NIL {
            self.heads[list] = index;
            if list < OVERFLOW {
                self.occupied[list / SLOTS] |= 1 << (list % SLOTS);
            }
            (index, index)
        } else {
            let last = core::mem::replace(&mut self.timer(first).prev, index);
            self.timer(last).next = index;
            (first, last)
        };
        let timer = self.timer(index);
        timer.when = deadline_ms << LIST_BITS | list as u64;
        (timer.next, timer.prev) = (next, prev);
    }

    /// Takes a timer out of its list.
    fn unlink(&mut self, index: u32) {
        let timer = self.timer(index);
        let (next, prev, list) = (timer.next, timer.prev, (timer.when & LIST_MASK) as usize);
        debug_assert!(self.heads[list] != NIL, "a linked timer is in its list");
        if next == index {
            return self.clear(list);
        }
        self.timer(prev).next = next;
        self.timer(next).prev = prev;
        if self.heads[list] == index {
            self.heads[list] = next;
        }
    }

    /// Marks a list as empty.
    fn clear(&mut self, list: usize) {
        self.heads[list] = NIL;
        if list < OVERFLOW {
            self.occupied[list / SLOTS] &= !(1 << (list % SLOTS));
        }
    }

    fn timer(&mut self, index: u32) -> &mut Timer<T> {
        match self.timers.get_at_mut(index) {
            Some(timer) => timer,
            None => unreachable!("a list has live timers only"),
        }
    }
}

impl<T, C: Chunk> fmt::Debug for Wheel<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheel")
            .field("len", &self.len())
            .field("position_ms", &self.position_ms)
            .field("now_ms", &self.now_ms)
            .field("next_deadline_ms", &self.next_deadline_ms())
            .finish_non_exhaustive()
    }
}

/// A deadline as a timer stores it, in no list yet.
fn when(deadline_ms: u64) -> u64 {
    deadline_ms.min(TIME_MAX_MS) << LIST_BITS
}

const LEVELS: usize = 6;

/// Slots of a level: one word of `occupied`.
const SLOTS: usize = 1 << DIGIT_BITS;
const DIGIT_BITS: usize = 6;

/// The list of timers that are due after the turn of the highest level, behind the slots of all levels.
const OVERFLOW: usize = LEVELS * SLOTS;
const LISTS: usize = OVERFLOW + 1;

const LIST_BITS: u32 = 16;
const LIST_MASK: u64 = (1 << LIST_BITS) - 1;

const TIME_MAX_MS: u64 = u64::MAX >> LIST_BITS;

/// No timer; the table has no such index.
const NIL: u32 = u32::MAX;

const _: () = assert!(LISTS as u64 <= LIST_MASK);
const _: () = assert!(size_of::<Timer<core::task::Waker>>() == 32, "what a sleeping task pays");

#[cfg(test)]
mod tests;
