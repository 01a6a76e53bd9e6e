//! Who waits for the processor, and for how long: see [`request_queue`](crate::worker::request_queue).

use ::core::cell::{Cell, RefCell};
use ::core::time::Duration;

use plimsoll_pool::{Charge, Kind, PlaceKey, Pool, Queue};
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

/// No request begins in a turn after so long.
pub(super) const TURN_MAX: Duration = Duration::from_millis(5);
/// A request that waits longer to be begun is late,
const DELAY_MAX: Duration = Duration::from_millis(100);
/// and when some have been late for so long, the newest are refused.
const LATE_FOR: Duration = Duration::from_millis(100);
/// Requests of a worker that wait for a turn at most,
pub(super) const PLACES: usize = 128;
/// and while memory is short, of those that hold their heads.
pub(super) const PLACES_SHORT: usize = 8;
/// Addresses that are told apart by the time that their handlers take, at most; a power of two.
const COLUMNS: usize = 1_024;
/// What is known of that is half as much after so long.
const HALVED_AFTER: Duration = Duration::from_secs(1);
/// Of the mean time, a handler's counts for one part.
const MEAN_OF: u32 = 4;
/// What is known of an address's handlers is told apart in steps of so many microseconds.
const COST_STEP_MICROS: u32 = 250;

/// How far a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// No request was begun in it.
    Fresh,
    /// The first was begun then.
    Since(Instant),
    /// No further request begins in it.
    Over,
}

/// When the clock is read: after a turn that was over always, and less often the more requests were quick.
#[derive(Debug, Default)]
struct Looks {
    /// So many requests are begun without a look from now on.
    left: Cell<u8>,
    /// So many were last.
    stride: Cell<u8>,
}

/// Requests that are begun without a look at the clock, at most.
const STRIDE_MAX: u8 = 7;

impl Looks {
    fn are_due(&self) -> bool {
        self.left.get() == 0
    }

    /// A request was begun.
    fn begun(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// The clock was read, for the request that is begun next if the turn is not over.
    fn seen(&self, is_over: bool) {
        let stride = if is_over { 0 } else { (2 * self.stride.get() + 1).min(STRIDE_MAX) };
        self.stride.set(stride);
        self.left.set(if is_over { 0 } else { stride + 1 });
    }
}

/// See the module.
pub(crate) struct Turns {
    pub(super) clock: Cell<Clock>,
    looks: Looks,
    /// How many wait.
    pub(super) waiting: Cell<usize>,
    /// The connection whose turn it is,
    pub(super) served: Cell<Option<Key>>,
    /// and while it is looked after, also when its request was begun.
    pub(super) served_last: Cell<Option<Key>>,
    pub(super) line: RefCell<Line>,
}

/// One who waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) key: Key,
    pub(super) since: Instant,
    pub(super) kept: Kept,
}

/// Where what came of a request is while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    InMemory,
    InSocket,
}

/// Those who wait.
pub(super) struct Line {
    pub(super) places: Queue<Waits>,
    pub(super) delay: Delay,
    pub(super) rate: Rate,
    pub(super) costs: Costs,
    _charge: Option<Charge>,
}

impl Turns {
    const COSTS_BYTES: u64 = (COLUMNS * size_of::<u32>()) as u64;

    /// Bytes of the lists of a worker.
    pub(crate) const fn bytes() -> u64 {
        Self::COSTS_BYTES + Queue::<Waits>::bytes(PLACES)
    }

    pub(crate) fn new(pool: &Pool) -> Self {
        let charge = pool.charge(Kind::Fixed, Self::COSTS_BYTES).ok();
        let places = Queue::new(pool, PLACES, PLACES);
        let costs = Costs::new(if charge.is_some() { COLUMNS } else { 1 });
        let line = Line { places, delay: Delay::Short, rate: Rate::default(), costs, _charge: charge };
        Self {
            clock: Cell::new(Clock::Fresh),
            looks: Looks::default(),
            waiting: Cell::new(0),
            served: Cell::new(None),
            served_last: Cell::new(None),
            line: RefCell::new(line),
        }
    }

    /// Another turn begins.
    pub(crate) fn begin(&self) {
        self.clock.set(Clock::Fresh);
    }

    /// A request is begun.
    #[inline]
    pub(crate) fn begun(&self) {
        match self.clock.get() {
            Clock::Fresh => self.clock.set(Clock::Since(plimsoll_runtime::now())),
            _ => self.looks.begun(),
        }
    }

    /// Whether the next request begins without a look at the clock: nobody waits, and it is the first of its turn or
    /// those before it were quick.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        !self.are_awaited() && (!self.looks.are_due() || self.clock.get() == Clock::Fresh)
    }

    /// Whether anybody waits.
    pub(crate) fn are_awaited(&self) -> bool {
        self.waiting.get() > 0
    }

    /// Whether it is the turn of a connection, and it was not asked yet whether its request may begin.
    pub(crate) fn is_serving(&self, key: Key) -> bool {
        self.served.get() == Some(key)
    }

    /// Whether no further request begins in this turn.
    pub(crate) fn is_over(&self) -> bool {
        if let Clock::Since(begun) = self.clock.get()
            && self.looks.are_due()
        {
            let is_over = plimsoll_runtime::coarse_now().since(begun) >= TURN_MAX;
            self.looks.seen(is_over);
            if is_over {
                self.clock.set(Clock::Over);
            }
        }
        self.clock.get() == Clock::Over
    }

    pub(super) fn serve(&self, place: PlaceKey) {
        let mut line = self.line.borrow_mut();
        line.places.serve(place);
        self.waiting.set(line.places.len());
    }
}

/// What the delay of those who wait says (after CoDel: Nichols and Jacobson 2012).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    Short,
    /// Over the limit since then.
    Long(Instant),
    /// For so long that the newest are refused.
    TooLong,
}

impl Delay {
    pub(super) fn after(self, delay: Duration, now: Instant) -> Self {
        match self {
            _ if delay <= DELAY_MAX => Self::Short,
            Self::Short => Self::Long(now),
            Self::Long(since) if now.since(since) >= LATE_FOR => Self::TooLong,
            as_before => as_before,
        }
    }
}

/// How many of those who waited are begun in the time that one may wait.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// When the interval began that is counted.
    from: Option<Instant>,
    begun: usize,
    /// Begun in the one before.
    before: usize,
}

impl Rate {
    pub(super) fn count(&mut self, now: Instant) {
        self.go_on(now);
        self.begun += 1;
    }

    fn go_on(&mut self, now: Instant) {
        let from = *self.from.get_or_insert(now);
        let elapsed = now.since(from);
        if elapsed >= DELAY_MAX {
            self.before = (self.begun as u128 * DELAY_MAX.as_nanos() / elapsed.as_nanos()) as usize;
            (self.from, self.begun) = (Some(now), 0);
        }
    }

    /// At least two, so that one address does not push another out.
    pub(super) fn of_interval(&mut self, now: Instant) -> usize {
        self.go_on(now);
        self.before.max(self.begun).max(2)
    }
}

/// How long a handler of each address keeps the processor, of late, of those that had waited for a turn. Addresses that
/// fall together are taken for one.
#[derive(Debug)]
pub(super) struct Costs {
    mean_micros: Box<[u32]>,
    halved_at: Option<Instant>,
}

impl Costs {
    fn new(columns: usize) -> Self {
        Self { mean_micros: vec![0; columns].into_boxed_slice(), halved_at: None }
    }

    fn column(&self, host: u64) -> usize {
        // An odd constant spreads neighbouring addresses; the high bits of a product are the good ones.
        (host.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as usize & (self.mean_micros.len() - 1)
    }

    pub(super) fn add(&mut self, host: u64, took: Duration, now: Instant) {
        let halved_at = *self.halved_at.get_or_insert(now);
        if now.since(halved_at) >= HALVED_AFTER {
            self.mean_micros.iter_mut().for_each(|micros| *micros /= 2);
            self.halved_at = Some(now);
        }
        let mean = &mut self.mean_micros[self.column(host)];
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        *mean = if took > *mean { *mean + (took - *mean) / MEAN_OF } else { *mean - (*mean - took) / MEAN_OF };
    }

    pub(super) fn of(&self, host: u64) -> u64 {
        self.mean_micros[self.column(host)].into()
    }

    /// What a place of an address counts for.
    pub(super) fn amount_of(&self, host: u64) -> u64 {
        1 + self.of(host) / u64::from(COST_STEP_MICROS)
    }
}

#[cfg(test)]
mod tests;
