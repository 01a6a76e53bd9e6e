//! What is known of a descriptor: who waits for bytes on it, the readiness that the kernel told of and nobody has used
//! up, and which life of its number this is.
//!
//! The kernel watches a descriptor from its first receive until it is closed: one entry that stays, instead of one for
//! each receive. It tells when something comes, not while something is there; what it told is remembered here. Each of
//! its tells costs a completion, whether a receive is there or not: a watch ends early when it has told twice and
//! nobody has begun a receive, and the next receive begins another.
//!
//! ```text
//!   word 0: 24 bits the receive that waits, plus one | 8 bits flags
//!   word 1: 24 bits the life of the descriptor | 8 bits which watch of it this is
//! ```
//!
//! A life begins with the first operation of a descriptor and ends with its close. An operation that may be done by the
//! number once more has its life with it, so that it does not act on another file after a close: I-OPEN of
//! [`fd`](crate::fd). Lives are counted over all descriptors of the driver, in 24 bits that go round: an operation
//! could be taken for another's only if it was still in flight, uncancelled, on a descriptor that was closed, after
//! exactly 16,777,214 more descriptors, with the last of them under the same number. A watch is told from earlier ones
//! by its own number and the lower bits of the life: what an earlier one told would be believed for once, and the
//! receive would find nothing.
#![forbid(unsafe_code)]

use plimsoll_pool::Pool;
use plimsoll_slab::Key;

use super::entry::Kind;
use crate::descriptors::Descriptors;
use crate::fd::{Life, Number};

/// Bytes that a watched descriptor costs, beside its operation slot.
pub(super) const WATCH_BYTES: usize = 2 * size_of::<u32>();

/// The kernel watches.
const WATCHED: u32 = 1 << 24;
/// There may be something to receive.
const READABLE: u32 = 2 << 24;
/// The peer's half has ended, or there is an error: a receive will see it, and the kernel does not tell of it again.
const ENDED: u32 = 4 << 24;
/// A receive is in the list of those that try.
const QUEUED: u32 = 8 << 24;
/// The kernel told of something while no receive was there to take it, and none has begun since.
const UNHEARD: u32 = 16 << 24;
const WAITER: u32 = WATCHED - 1;

/// What a watch asks for. Not for urgent bytes: the kernel would tell of one with all that comes.
pub(super) const EVENTS: u32 = (libc::POLLIN | libc::POLLRDHUP) as u32;

/// Events that tell of an end.
const ENDS: u32 = (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) as u32;

/// What a receive that begins has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Ask the kernel to watch under this name, and tell [`Watches::watched`].
    Watch(u64),
    /// It will be told; it is remembered.
    Wait,
    /// There may be something: try.
    Try,
    /// Wait by itself: another one waits here already, or is about to try, or there is no memory.
    Alone,
}

/// What has to be done about something that the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The operation at this index was waiting for it.
    Waiter(u32),
    /// Nothing: it is remembered, or of an earlier watch.
    Nobody,
    /// The watch with this name has to end: nobody has taken what came before. The next receive begins a new one, which
    /// tells at once of what is there.
    TooMuch(u64),
}

/// The watches of a driver.
pub(super) struct Watches {
    table: Descriptors<2>,
    /// The last life that has begun: 0 to `lives_max`.
    lives: u32,
    lives_max: u32,
}

impl Watches {
    pub(super) fn new(pool: &Pool) -> Self {
        Self { table: Descriptors::new(pool), lives: 0, lives_max: LIVES_MAX }
    }

    /// One whose lives go round sooner.
    #[cfg(test)]
    pub(super) fn with_lives_max(pool: &Pool, lives_max: u32) -> Self {
        Self { lives_max, ..Self::new(pool) }
    }

    /// The life of an open descriptor; `None` when there is no memory to note it.
    #[inline]
    pub(super) fn life(&mut self, fd: Number) -> Option<Life> {
        let [_, word] = self.table.get(fd);
        if word & LIFE != 0 {
            return Some(Life::new(word & LIFE));
        }
        self.table.reserve(fd).ok()?;
        let word = self.next_life();
        self.table.set(fd, [0, word]);
        Some(Life::new(word))
    }

    fn next_life(&mut self) -> u32 {
        self.lives = if self.lives == self.lives_max { 1 } else { self.lives + 1 };
        self.lives
    }

    /// Whether the descriptor has not been closed since its life was noted. Also when it was not: a close finds the
    /// operation by other means.
    #[inline]
    pub(super) fn is_open(&self, fd: Number) -> bool {
        matches!(fd.life(), Life::UNNOTED | Life::UNKNOWN) || self.table.get(fd)[1] & LIFE == fd.life().get()
    }

    /// A receive, the operation at `index`, begins.
    pub(super) fn begin(&mut self, fd: Number, index: u32) -> Begin {
        let [state, word] = self.table.get(fd);
        // One at a time waits or tries by this record: that tells a close whether one is queued.
        if state & (WAITER | QUEUED) != 0 {
            return Begin::Alone;
        }
        if state & WATCHED == 0 {
            if self.table.reserve(fd).is_err() {
                return Begin::Alone;
            }
            let word = if word & LIFE == 0 { self.next_life() } else { word.wrapping_add(TURN) };
            return Begin::Watch(name(fd, word));
        }
        if state & (READABLE | ENDED) != 0 {
            return Begin::Try;
        }
        self.table.set(fd, [state | (index + 1), word]);
        Begin::Wait
    }

    /// The kernel was asked to watch, as [`begin`](Self::begin) said; the operation at `index` waits.
    pub(super) fn watched(&mut self, fd: Number, index: u32) {
        let [state, word] = self.table.get(fd);
        debug_assert_eq!(state & (WAITER | QUEUED), 0, "as `begin` has found it");
        let word = if word & LIFE == 0 { self.lives } else { word.wrapping_add(TURN) };
        self.table.set(fd, [WATCHED | (index + 1), word]);
    }

    /// The kernel could not be asked to watch, as [`begin`](Self::begin) said.
    pub(super) fn unwatched(&mut self, fd: Number) {
        // Gives the page back, if it is of no use.
        self.table.set(fd, self.table.get(fd));
    }

    /// What the kernel told of the watch `key`, and whether it goes on watching.
    pub(super) fn told(&mut self, key: Key, events: u32, goes_on: bool) -> Told {
        let fd = Number::from_raw(key.index() as i32);
        let [mut state, word] = self.table.get(fd);
        if state & WATCHED == 0 || generation(word) != key.generation() {
            return Told::Nobody;
        }
        if state & (WAITER | QUEUED) == 0 && goes_on {
            if state & UNHEARD != 0 {
                self.table.set(fd, [0, word]);
                return Told::TooMuch(name(fd, word));
            }
            state |= UNHEARD;
        }
        state |= READABLE;
        if events & ENDS != 0 {
            state |= ENDED;
        }
        if !goes_on {
            state &= !WATCHED;
        }
        let waiter = state & WAITER;
        let state = if goes_on { state & !WAITER } else { state & QUEUED };
        self.table.set(fd, [state, word]);
        match waiter.checked_sub(1) {
            Some(index) => Told::Waiter(index),
            None => Told::Nobody,
        }
    }

    /// Remembers whether a receive of the descriptor is in the list of those that try, if it is watched.
    pub(super) fn set_queued(&mut self, fd: Number, is_queued: bool) {
        let [state, word] = self.table.get(fd);
        if state & (WATCHED | QUEUED) != 0 {
            let state = if is_queued { (state | QUEUED) & !UNHEARD } else { state & !QUEUED };
            self.table.set(fd, [state, word]);
        }
    }

    /// Whether a receive of the descriptor may be in the list of those that try.
    pub(super) fn is_queued(&self, fd: Number) -> bool {
        self.table.get(fd)[0] & QUEUED != 0
    }

    /// A receive has found nothing.
    pub(super) fn used_up(&mut self, fd: Number) {
        let [state, word] = self.table.get(fd);
        self.table.set(fd, [state & !(READABLE | ENDED | UNHEARD), word]);
    }

    /// A receive brought less than there was room for: there is nothing more, unless the end is there. What is behind
    /// an urgent byte, at which receives stop, is received with what comes next.
    pub(super) fn cut_short(&mut self, fd: Number) {
        let [state, word] = self.table.get(fd);
        if state & (READABLE | ENDED) == READABLE {
            self.table.set(fd, [state & !(READABLE | UNHEARD), word]);
        }
    }

    /// Forgets that the operation at `index` waits; whether it did.
    pub(super) fn withdraw(&mut self, fd: Number, index: u32) -> bool {
        let [state, word] = self.table.get(fd);
        let waits = state & WAITER == index + 1;
        if waits {
            self.table.set(fd, [state & !WAITER, word]);
        }
        waits
    }

    #[cfg(test)]
    pub(super) fn pages_held(&self) -> usize {
        self.table.pages_held()
    }

    /// Forgets the watch of an open descriptor unless a receive waits. Gives the name of the watch that has to end.
    pub(super) fn forget_idle(&mut self, fd: Number) -> Option<u64> {
        let [state, word] = self.table.get(fd);
        if state & (WAITER | QUEUED) != 0 || state & WATCHED == 0 {
            return None;
        }
        self.table.set(fd, [0, word]);
        Some(name(fd, word))
    }

    /// Forgets a descriptor that is closed, and ends its life. Gives the name of the watch that has to end, and the
    /// operation that waits.
    pub(super) fn forget(&mut self, fd: Number) -> (Option<u64>, Option<u32>) {
        let [state, word] = self.table.get(fd);
        if [state, word] == [0, 0] {
            return (None, None);
        }
        self.table.set(fd, [0, 0]);
        let watch = (state & WATCHED != 0).then(|| name(fd, word));
        (watch, (state & WAITER).checked_sub(1))
    }
}

/// The user data of a watch.
fn name(fd: Number, word: u32) -> u64 {
    u64::from(Kind::Watch.number()) << 56 | u64::from(generation(word)) << 32 | fd.raw() as u64
}

/// What a key keeps of a watch: which of the descriptor's it is, and the lower bits of the life.
fn generation(word: u32) -> u32 {
    (word >> 24) << 16 | word & 0xffff
}

/// The life, in the second word of a record.
const LIFE: u32 = (1 << 24) - 1;
/// One more watch, in the second word of a record.
const TURN: u32 = 1 << 24;
const LIVES_MAX: u32 = Life::UNKNOWN.get() - 1;

#[cfg(test)]
mod tests {
    use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};

    use super::*;

    const FD: Number = Number::from_raw(700);
    const READ: u32 = libc::POLLIN as u32;

    fn watches() -> Watches {
        Watches::new(&Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default()).unwrap())
    }

    /// Begins a receive that makes the kernel watch; gives what the kernel will call it.
    fn watch(watches: &mut Watches, index: u32) -> Key {
        let Begin::Watch(name) = watches.begin(FD, index) else { panic!("the first one") };
        watches.watched(FD, index);
        let (kind, key) = Kind::of(name).unwrap();
        assert_eq!((kind, key.index()), (Kind::Watch, 700));
        key
    }

    #[test]
    fn one_watch_serves_many_receives() {
        let mut watches = watches();
        let key = watch(&mut watches, 5);
        assert_eq!(watches.told(key, READ, true), Told::Waiter(5));
        assert_eq!(watches.begin(FD, 6), Begin::Try, "nobody has used it up");
        watches.used_up(FD);
        assert_eq!(watches.begin(FD, 6), Begin::Wait);
        assert_eq!(watches.begin(FD, 8), Begin::Alone, "one waits already");
        assert_eq!(watches.told(key, READ, true), Told::Waiter(6));
        watches.cut_short(FD);
        assert_eq!(watches.begin(FD, 9), Begin::Wait);
    }

    #[test]
    fn the_end_is_not_forgotten_by_a_short_receive() {
        let mut watches = watches();
        let key = watch(&mut watches, 0);
        assert_eq!(watches.told(key, READ | libc::POLLRDHUP as u32, true), Told::Waiter(0));
        watches.cut_short(FD);
        assert_eq!(watches.begin(FD, 1), Begin::Try);
    }

    #[test]
    fn what_an_earlier_watch_told_is_not_believed() {
        let mut watches = watches();
        let old = watch(&mut watches, 1);
        assert!(watches.withdraw(FD, 1) && !watches.withdraw(FD, 1));
        let (name, waiter) = watches.forget(FD);
        assert_eq!((name.and_then(Kind::of), waiter), (Some((Kind::Watch, old)), None));
        assert_eq!(watches.told(old, READ, true), Told::Nobody);
        let new = watch(&mut watches, 2);
        assert_ne!(old, new);
        assert_eq!(watches.told(old, READ, true), Told::Nobody);
        assert_eq!(watches.told(new, READ, true), Told::Waiter(2));
        assert_eq!(watches.forget(FD).1, None);
        assert_eq!(watches.forget(FD), (None, None));
        assert_eq!(watches.table.pages_held(), 0, "memory is given back");
    }

    #[test]
    fn a_watch_that_nobody_listens_to_ends() {
        let mut watches = watches();
        let key = watch(&mut watches, 1);
        assert_eq!(watches.told(key, READ, true), Told::Waiter(1));
        assert_eq!(watches.told(key, READ, true), Told::Nobody);
        // One that tries has heard it.
        assert_eq!(watches.begin(FD, 2), Begin::Try);
        watches.set_queued(FD, true);
        assert_eq!(watches.begin(FD, 3), Begin::Alone, "one is queued already");
        assert_eq!(watches.told(key, READ, true), Told::Nobody, "it will see this, too");
        watches.set_queued(FD, false);
        assert_eq!(watches.told(key, READ, true), Told::Nobody);
        let Told::TooMuch(name) = watches.told(key, READ, true) else { panic!("twice unheard") };
        assert_eq!(Kind::of(name), Some((Kind::Watch, key)));
        assert_eq!(watches.told(key, READ, true), Told::Nobody, "what was under way");
        assert_ne!(watch(&mut watches, 3), key);
        watches.forget(FD);
        assert_eq!(watches.table.pages_held(), 0);
    }

    /// A descriptor with the life that it has now.
    fn noted(watches: &mut Watches, fd: Number) -> Number {
        let mut noted = fd;
        noted.set_life(watches.life(fd).unwrap());
        noted
    }

    #[test]
    fn a_life_ends_with_its_descriptor_and_with_nothing_else() {
        let mut watches = watches();
        let first = noted(&mut watches, FD);
        assert_eq!(first.life(), watches.life(FD).unwrap());
        let key = watch(&mut watches, 1);
        assert_eq!(watches.told(key, READ, true), Told::Waiter(1));
        assert_eq!(watches.told(key, READ, true), Told::Nobody);
        assert!(matches!(watches.told(key, READ, true), Told::TooMuch(_)));
        let key = watch(&mut watches, 2);
        assert_eq!(watches.told(key, 0, false), Told::Waiter(2));
        watch(&mut watches, 3);
        assert!(watches.withdraw(FD, 3) && watches.forget_idle(FD).is_some());
        assert!(watches.is_open(first), "whatever became of its watches");
        watches.forget(FD);
        assert!(!watches.is_open(first));
        let second = noted(&mut watches, FD);
        assert!(watches.is_open(second) && !watches.is_open(first));
        assert!(watches.is_open(FD), "not noted");
    }

    /// Lives go round: an operation is taken for another's after as many as there are, and not before.
    #[test]
    fn lives_go_round() {
        const LIVES: u32 = 3;
        let pool = Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default()).unwrap();
        let mut watches = Watches::with_lives_max(&pool, LIVES);
        let first = noted(&mut watches, FD);
        for turn in 1..3 * LIVES {
            watches.forget(FD);
            assert!(!watches.is_open(first), "no life is that of a closed descriptor");
            // By the first receive, or by another operation.
            if turn % 2 == 0 {
                watch(&mut watches, turn);
            }
            let other = noted(&mut watches, FD);
            assert!((1..=LIVES).contains(&other.life().get()));
            assert_eq!(watches.is_open(first), turn % LIVES == 0, "turn {turn}");
        }
    }

    /// What an earlier one of so many watches told is believed for once: the receive finds nothing.
    #[test]
    fn watches_of_a_life_go_round() {
        let mut watches = watches();
        let life = watches.life(FD).unwrap();
        let first = watch(&mut watches, 0);
        for turn in 1..=256 {
            assert!(watches.withdraw(FD, turn - 1) && watches.forget_idle(FD).is_some());
            let key = watch(&mut watches, turn);
            assert_eq!(key == first, turn == 256, "turn {turn}");
            assert_eq!(watches.life(FD), Some(life));
        }
    }

    #[test]
    fn a_watch_that_ends_is_begun_again() {
        let mut watches = watches();
        let key = watch(&mut watches, 3);
        assert_eq!(watches.told(key, 0, false), Told::Waiter(3), "the receive finds out why");
        let again = watch(&mut watches, 3);
        assert_ne!(key, again);
        assert_eq!(watches.forget_idle(FD), None, "a receive waits");
        assert!(watches.withdraw(FD, 3));
        assert!(watches.forget_idle(FD).is_some());
    }
}
