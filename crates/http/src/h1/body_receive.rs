//! How a body is received: in the driver's shared buffers while little comes, else into leases whose size follows what
//! comes.
//!
//! ```text
//!            a receive was full                       a receive brought less than half of its room
//!  Shared --------------------> Own, of the wished size -----------------------------------------> Shared
//!                               |                     ^
//!                               | of the largest size | until less than half of their room is filled
//!                               v                     |
//!                               several at a time: 2, 4, 8 leases
//! ```
//!
//! A lease is armed only where more is likely to be there already: it is filled at once, and hardly ever waits in the
//! kernel for a slow peer. Several leases are never armed: they are taken when bytes are known to be there, and filled
//! by one call.
//!
//! What a byte costs depends on how many come with a call: each receive makes the kernel tell the peer of the room in
//! its window, and, on a loopback device, do the peer's sending too. `docs/uploads.md` has the figures.

use ::core::time::Duration;

use plimsoll_pool::{AdaptiveSize, Class};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::{Bytes, RECEIVE_BYTES_MAX, RECEIVE_LEASES_MAX};
use plimsoll_runtime::{Instant, Lease};

use crate::base::config::Config;
use crate::h1::active::Active;
use crate::memory::desk::Desk;

/// Wishes do not grow beyond these while memory is short.
const YELLOW_MAX: Class = Class::K16;
const ORANGE_MAX: Class = Class::K4;
/// What was learnt before a pause of this length says nothing about after.
const FORGET_AFTER: Duration = Duration::from_secs(1);

/// A connection's body is received into this part of a worker's share of the line at a time at most.
const LINE_PART: u64 = 32;

/// All bodies together are received into this part of it at a time.
const BODIES_PART: u64 = 4;

/// How many leases of the largest size may be filled at a time under a worker's share of the line.
pub(crate) fn leases_max(config: &Config, line_share: u64) -> u8 {
    let fit = line_share / LINE_PART / config.body_receive.highest().bytes() as u64;
    u64::from(config.body_receive_leases_max).min(fit).max(1) as u8
}

/// Parts of a body that were received by one call, in their order.
pub(crate) type Parts = [Option<Lease>; RECEIVE_LEASES_MAX];

/// What a connection has learnt about the bodies that it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receive {
    size: AdaptiveSize,
    from: Source,
    /// Leases of the largest size that the next receive is worth, and at most.
    leases: u8,
    leases_max: u8,
    /// When bytes came last.
    at: Instant,
}

/// Where the next bytes of a body go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Shared,
    Own,
}

impl Receive {
    /// `leases_max` is how many leases of the largest size may be filled at a time.
    pub(crate) fn new(size: AdaptiveSize, leases_max: u8) -> Self {
        Self { size, from: Source::Shared, leases: 1, leases_max, at: Instant::from_millis(0) }
    }

    /// Takes note of bytes that came, with `left` bytes of the body to come after them, if that is known.
    pub(crate) fn received(&mut self, bytes: &Bytes, left: Option<u64>, now: Instant) {
        self.came_at(now);
        match bytes {
            Bytes::Borrowed(received) => self.came_shared(received.len()),
            Bytes::Owned(lease) => {
                let (received, room) = (lease.len(), lease.capacity());
                if received == room && self.size.is_highest() {
                    self.leases = (self.leases * 2).min(self.leases_max);
                }
                self.size.observe(received, room, left.is_some_and(|left| left >= room as u64));
                self.from = if received >= room / 2 { Source::Own } else { Source::Shared };
            }
        }
    }

    /// Takes note of `received` bytes that came into several leases of a class.
    pub(crate) fn received_several(&mut self, received: usize, class: Class, leases: usize, now: Instant) {
        self.came_at(now);
        let room = class.bytes() * leases;
        if received == room {
            self.leases = (self.leases * 2).min(self.leases_max);
        } else if received < room / 2 {
            self.leases = (self.leases / 2).max(1);
        }
        self.size.observe(received.min(class.bytes()), class.bytes(), received > class.bytes());
        self.from = if received >= class.bytes() / 2 { Source::Own } else { Source::Shared };
    }

    /// Takes note that there is no memory for a lease: the driver's shared buffers it is, until they are filled again.
    pub(crate) fn found_no_room(&mut self) {
        self.from = Source::Shared;
    }

    fn came_at(&mut self, now: Instant) {
        if now.since(self.at) >= FORGET_AFTER {
            self.size.reset();
            self.leases = 1;
        }
        self.at = now;
    }

    /// Takes note of bytes in a shared buffer. How much room there was is the driver's affair: full is what would have
    /// filled a lease, or the most that such a receive ever brings. Without the latter, a wish above that could not be
    /// had again after one receive that brought little.
    fn came_shared(&mut self, received: usize) {
        let full = self.size.wish().bytes().min(RECEIVE_BYTES_MAX);
        self.size.raise(received);
        self.from = if received >= full { Source::Own } else { Source::Shared };
    }

    /// The class and the number of leases that the next receive is worth, if they are several; with `data` bytes to
    /// come before any framing.
    pub(crate) fn several(&self, data: u64, cap: Class) -> Option<(Class, usize)> {
        let class = self.size.wish();
        if self.from == Source::Shared || self.leases < 2 || !self.size.is_highest() || class > cap {
            return None;
        }
        let filled = data.div_ceil(class.bytes() as u64).min(u64::from(self.leases)) as usize;
        (filled > 1).then_some((class, filled))
    }

    /// The class of the lease that the next receive is worth, with `left` bytes to come; `None` for the driver's shared
    /// buffers.
    pub(crate) fn next(&self, left: Option<u64>, cap: Class) -> Option<Class> {
        if self.from == Source::Shared {
            return None;
        }
        let wish = self.size.wish_up_to(cap);
        let rest = left.and_then(|left| Class::for_len(usize::try_from(left).unwrap_or(usize::MAX).max(1)));
        Some(rest.map_or(wish, |rest| wish.min(rest.max(Class::K4))))
    }
}

/// The largest class that a wish may be granted at a level, and by one of many that receive, which has so many bytes
/// for it.
pub(crate) fn cap(level: Level, bytes_max: usize) -> Class {
    let of_level = match level {
        Level::Calm => Class::K128,
        Level::Yellow => YELLOW_MAX,
        Level::Orange | Level::Red => ORANGE_MAX,
    };
    let of_share = Class::ALL.into_iter().rev().find(|class| class.bytes() <= bytes_max);
    of_share.unwrap_or(Class::K4).clamp(Class::K4, of_level)
}

/// Bytes that one connection may receive at a time: what all that are worked on receive together leaves most of the
/// line to others.
fn body_bytes_max(desk: &Desk) -> usize {
    let active = desk.counters().active_now().max(1);
    usize::try_from(desk.line_share() / BODIES_PART / active).unwrap_or(usize::MAX)
}

/// The largest class that a part of a body may be received into now.
pub(crate) fn body_cap(desk: &Desk) -> Class {
    cap(desk.level(), body_bytes_max(desk))
}

impl Active {
    /// The class and the number of leases that the next receive of a connection is worth and may have, if they are
    /// several.
    pub(crate) fn several_for(&self, desk: &Desk) -> Option<(Class, usize)> {
        let (class, worth) = self.receive.several(self.decoder.contiguous(), body_cap(desk))?;
        let count = worth.min(body_bytes_max(desk) / class.bytes());
        (count > 1).then_some((class, count))
    }
}

#[cfg(test)]
mod tests;
