//! Where the members of a worker are, whatever carries them: a place each, which stays theirs. Pages are charged, and
//! go back when nobody is in them.

use ::core::num::NonZeroU32;

use plimsoll_pool::{Charge, Kind, Pool, PoolBox};
use plimsoll_runtime::OverBudget;
use plimsoll_slab::{CHUNK_BYTES, HeapChunk, Key, Slab};

use super::Post;
use super::queue::Queue;
use crate::websocket::Number;

/// What carries a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// A WebSocket in the server's table.
    Socket(Key),
    /// A stream of events that is a whole connection.
    Events(Key),
    /// A WebSocket or a stream of events on a stream of HTTP/2.
    Stream,
}

/// What is sent to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Nothing,
    /// A message is on its way.
    Post,
    /// The same, and it closes: no other is.
    LastPost,
    /// It closes.
    Closing,
}

/// A member.
pub(super) struct Place {
    /// Its number among all that the hub ever had.
    pub(super) id: u64,
    /// Messages that wait.
    pub(super) queue: Option<PoolBox<Queue<Post>>>,
    pub(super) carrier: Carrier,
    /// The low half of the number of the first message that is for it.
    pub(super) since: u32,
    pub(super) room: u32,
    /// Neighbours among the members of the room.
    pub(super) previous: Option<Number>,
    pub(super) next: Option<Number>,
    pub(super) sending: Sending,
}

impl Place {
    /// Whether messages are still sent to it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.sending, Sending::Nothing | Sending::Post)
    }

    /// Whether a message is for it, by its number.
    pub(super) fn is_for(&self, number: u64) -> bool {
        (number as u32).wrapping_sub(self.since) as i32 >= 0 && self.is_open()
    }

    /// Takes what has waited longest; an empty queue goes.
    pub(super) fn pop(&mut self) {
        let _first = self.queue.as_mut().and_then(|queue| queue.pop());
        self.queue.take_if(|queue| queue.is_empty());
    }
}

/// Bytes of a member that waits, beside what carries it.
pub(crate) const PLACE_BYTES: usize = size_of::<Place>() + size_of::<u32>();

const _: () = assert!(PLACE_BYTES <= 56, "a member that waits is small");

/// All places of a worker.
pub(super) struct Places {
    slab: Slab<Place>,
    /// One for each page.
    charges: Vec<Charge>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self { slab: Slab::new(PAGES_MAX), charges: Vec::new() }
    }

    /// Makes room for one more.
    pub(super) fn reserve(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        if self.slab.len() < self.slab.capacity() {
            return Ok(());
        }
        let charge = pool.charge(Kind::Slots, PAGE_CHARGE_BYTES as u64)?;
        self.slab.grow(HeapChunk::new()).map_err(|_full| OverBudget::new(PAGE_CHARGE_BYTES as u64))?;
        self.charges.push(charge);
        Ok(())
    }

    /// Puts a member into the room that was made.
    pub(super) fn put(&mut self, place: Place) -> Number {
        let Ok(key) = self.slab.insert(place) else { unreachable!("room was made") };
        NonZeroU32::MIN.saturating_add(key.index())
    }

    pub(super) fn get(&self, member: Number) -> Option<&Place> {
        self.slab.get_at(member.get() - 1)
    }

    pub(super) fn get_mut(&mut self, member: Number) -> Option<&mut Place> {
        self.slab.get_at_mut(member.get() - 1)
    }

    /// Takes a member out, and links its neighbours.
    pub(super) fn take(&mut self, member: Number) -> Option<Place> {
        let key = self.slab.key_at(member.get() - 1)?;
        let place = self.slab.remove(key)?;
        if let Some(next) = place.next.and_then(|next| self.get_mut(next)) {
            next.previous = place.previous;
        }
        if let Some(previous) = place.previous.and_then(|previous| self.get_mut(previous)) {
            previous.next = place.next;
        }
        while self.slab.release_empty().is_some() {
            self.charges.pop();
        }
        Some(place)
    }
}

/// More than a worker has connections and streams.
const PAGES_MAX: u32 = 1 << 20;
/// What a page is charged with.
const PAGE_CHARGE_BYTES: usize = CHUNK_BYTES + Slab::<Place>::DIRECTORY_BYTES_PER_CHUNK + size_of::<Charge>();
