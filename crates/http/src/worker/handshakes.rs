//! Handshakes of TLS are bounded in number, memory and time, and fair over addresses.
//!
//! ```text
//!  accepted --bytes--> time left in this turn, and a place among those in progress? --yes--> a step is made
//!             ^           | no                                                                |         |
//!             |           v                                                            more is needed   over
//!             |        waits for its turn, its bytes in the socket --its turn--> as above     |         v
//!             |           | 512 wait                                                          |      parked
//!             |           v                                                                   |
//!             |        left out: found again by a look at the table when fewer wait           |
//!             +-------------------------------------------------------------------------------+
//! ```
//!
//! Nothing is reserved for a connection before its handshake begins, and nothing is read of its first message. All of
//! them, in whichever state, end when the time of a head is over from their accept. A step takes at most some 4 KiB
//! from the socket and calls rustls with them.
//!
//! **Time**: steps take a millisecond of a turn, or one step if that takes longer, and of 100 ms half, unless nothing
//! else was there to do in the turn. **Number**: [`handshakes_in_progress_max`](crate::Config), and half of that for an
//! address. When others cannot begin for that, who has waited for its client for 2 s gives way, the oldest of the
//! address with the most.

use ::core::cell::Cell;
use ::core::future::Future;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use ::core::time::Duration;
use plimsoll_pool::{Charge, Kind, PlaceKey, Pool, Priority, Queue};
use plimsoll_runtime::{Instant, Sleep, sleep_until};
use plimsoll_slab::Key;

use crate::base::config::Config;

/// Steps of a turn take so long,
pub(super) const TURN_MAX: Duration = Duration::from_millis(1);
/// and of so long
pub(super) const SPAN: Duration = Duration::from_millis(100);
/// half, while there is something else to do.
const SPAN_PART: Duration = Duration::from_millis(50);
/// Steps that wait for their turn, at most. Others are left out.
pub(super) const WAITING_MAX: usize = 512;
/// So many places for them are charged at a time.
const PLACES_AT_ONCE: usize = 64;
/// Of a worker's share of the line, this part at most is for handshakes in progress,
const PART_OF_SHARE: u64 = 8;
/// each of which may come to hold so much.
pub(super) const HANDSHAKE_BYTES: u64 = 24 * 1_024;
/// More of a worker are in progress only where that is asked for.
const IN_PROGRESS_CEILING: u64 = 4_096;
/// One that has waited for its client for so long gives way when others cannot begin.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(2);
/// How soon one is tried again that found no memory.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// One that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct InProgress {
    pub(super) key: Key,
    pub(super) host: u64,
    pub(super) since: Instant,
}

/// Those of a worker.
pub(crate) struct Handshakes {
    pub(super) in_progress: Vec<InProgress>,
    in_progress_max: usize,
    pub(super) waiting: Queue<Key>,
    /// Some are left out.
    pub(super) has_left_out: bool,
    /// Something else was there to do in this turn.
    pub(super) has_others: bool,
    /// What the steps of this turn took, and those of a span that began then.
    pub(super) in_turn: Duration,
    pub(super) span: (Instant, Duration),
    pub(super) look: Look,
    _charge: Option<Charge>,
}

/// When the engine has a turn for them.
pub(super) enum Look {
    AtEvents,
    Now,
    At(Sleep),
}

impl Handshakes {
    /// How many may be in progress on a worker with such a share of the line.
    pub(crate) fn in_progress_max(config: &Config, line_share: u64) -> usize {
        let usual = (line_share / PART_OF_SHARE / HANDSHAKE_BYTES).clamp(2, IN_PROGRESS_CEILING);
        config.handshakes_in_progress_max.map_or(usual as usize, |max| max as usize)
    }

    /// Bytes of the lists of a worker.
    #[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
    pub(crate) fn bytes(in_progress_max: usize) -> u64 {
        (in_progress_max * size_of::<InProgress>()) as u64 + Queue::<Key>::bytes(PLACES_AT_ONCE)
    }

    pub(crate) fn new(pool: &Pool, config: &Config, line_share: u64) -> Box<Self> {
        let wanted = Self::in_progress_max(config, line_share);
        let charge = pool.charge(Kind::Fixed, (wanted * size_of::<InProgress>()) as u64).ok();
        // Without room for the list one at a time is in progress.
        let in_progress_max = if charge.is_some() { wanted } else { 1 };
        Box::new(Self {
            in_progress: Vec::with_capacity(in_progress_max),
            in_progress_max,
            waiting: Queue::new(pool, PLACES_AT_ONCE, WAITING_MAX),
            has_left_out: false,
            has_others: false,
            in_turn: Duration::ZERO,
            span: (plimsoll_runtime::now(), Duration::ZERO),
            look: Look::AtEvents,
            _charge: charge,
        })
    }

    /// Ready when some may go on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.look {
            Look::AtEvents => Poll::Pending,
            Look::Now => Poll::Ready(()),
            Look::At(sleep) => Pin::new(sleep).poll(cx),
        }
    }

    pub(super) fn look_at(&mut self, at: Instant) {
        match &mut self.look {
            Look::At(sleep) if sleep.deadline() <= at => {}
            Look::At(sleep) => sleep.reset(at),
            Look::AtEvents => self.look = Look::At(sleep_until(at)),
            Look::Now => {}
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.in_turn = Duration::ZERO;
        self.has_others = false;
    }

    /// Whether a step may be made now.
    pub(super) fn has_time(&mut self, is_alone: bool) -> bool {
        let now = plimsoll_runtime::now();
        if now.since(self.span.0) >= SPAN {
            self.span = (now, Duration::ZERO);
        }
        self.in_turn < TURN_MAX && (self.span.1 < SPAN_PART || is_alone)
    }

    pub(super) fn took(&mut self, took: Duration) {
        self.in_turn += took;
        self.span.1 += took;
    }

    fn count_of(&self, host: u64) -> usize {
        self.in_progress.iter().filter(|one| one.host == host).count()
    }

    /// Whether one more of a host may begin.
    pub(super) fn has_place(&self, host: u64) -> bool {
        let of_host = self.in_progress_max.div_ceil(2);
        self.in_progress.len() < self.in_progress_max && self.count_of(host) < of_host
    }

    /// Who waits that may go on, and first.
    pub(super) fn first(&self) -> Option<(PlaceKey, Key)> {
        // Those of one host tend to wait behind each other.
        let known = Cell::new(None);
        let may_begin = |host| match known.get() {
            Some((known, may)) if known == host => may,
            _ => {
                let may = self.has_place(host);
                known.set(Some((host, may)));
                may
            }
        };
        let first = self.waiting.first(|place| place.priority() != Priority::Head || may_begin(place.name()))?;
        Some((first.key(), *first.item()))
    }

    /// Who gives way so that the first of those who wait may begin, and when.
    pub(super) fn gives_way(&self) -> Option<(Key, Instant)> {
        let host = self.waiting.first(|_| true)?.name();
        let is_full = self.in_progress.len() >= self.in_progress_max;
        let those = self.in_progress.iter().filter(|one| is_full || one.host == host);
        let oldest = those.min_by_key(|one| one.since)?;
        Some((oldest.key, oldest.since + GIVES_WAY_AFTER))
    }

    /// There was something else to do in this turn.
    pub(crate) fn note_others(&mut self) {
        self.has_others = true;
    }

    /// It is over; whether it was begun.
    pub(super) fn remove(&mut self, key: Key) -> bool {
        let at = self.in_progress.iter().position(|one| one.key == key);
        if let Some(at) = at {
            self.in_progress.swap_remove(at);
        }
        if !self.waiting.is_empty() || self.has_left_out {
            self.look = Look::Now;
        }
        at.is_some()
    }
}
