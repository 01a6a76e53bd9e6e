//! Those that stay, are in no table of connections, and can be told to end.
//!
//! ```text
//!   put           tell                  next_unended, after its time
//!  -----> Open ----------> Told(when) --------------------------------> Ended (a stream of events, by the server)
//!          |                  |                                           |
//!          +------------------+---------------- take ---------------------+
//! ```
//!
//! The open ones are linked in the order in which they came; streams of events that were told, in the order in which
//! they were told; and streams of events are found by their exchange, in buckets of a hash table. So each operation
//! looks at a few entries, however many there are. Pages and buckets are charged.
#![forbid(unsafe_code)]

use ::core::num::NonZeroU32;
use ::core::task::Waker;
use ::core::time::Duration;

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_runtime::Instant;
use plimsoll_slab::{CHUNK_BYTES, HeapChunk, Key, Slab};

use crate::memory::by_address::Columns;

/// More than a worker has connections and streams.
const PAGES_MAX: u32 = 1 << 20;
/// The end of a list.
const NONE: u32 = u32::MAX;
/// What a page is charged with: itself, its entry in the directory, and two buckets for each of its entries, as the
/// number of buckets is a power of two.
const PAGE_CHARGE_BYTES: usize = CHUNK_BYTES
    + Slab::<Entry>::DIRECTORY_BYTES_PER_CHUNK
    + size_of::<Charge>()
    + Slab::<Entry>::ENTRIES_PER_CHUNK as usize * 2 * size_of::<u32>();

/// Where an entry is, and one: for its owner, while whom it is there.
pub(crate) type Number = NonZeroU32;

/// What stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    /// A WebSocket of the table, with a handler that is called.
    Called,
    /// The same with a task.
    Awaited,
    /// A member of a hub.
    Member,
    /// A connection that a task has.
    Released,
    /// A stream of HTTP/2 that a task has.
    Tunnel,
    /// A stream of events, in its handler.
    Events,
}

impl Sort {
    /// Whether it counts for its address by itself. A handler that runs does so already.
    pub(crate) const fn is_counted(self) -> bool {
        !matches!(self, Self::Events)
    }
}

/// See the module.
pub(crate) struct Stays {
    entries: Slab<Entry>,
    /// One for each page.
    charges: Vec<Charge>,
    open: List,
    /// Streams of events that were told, the first at the front.
    told: List,
    /// Where the chain of each hash begins; a power of two of them, and not fewer than entries.
    buckets: Vec<u32>,
    #[cfg(test)]
    looks: ::core::cell::Cell<u32>,
}

pub(crate) struct Entry {
    sort: Sort,
    pub(crate) columns: Columns,
    state: State,
    exchange: Option<ExchangeId>,
    /// In the list of its stage.
    before: u32,
    after: u32,
    /// In the chain of its exchange.
    next_in_bucket: u32,
}

enum State {
    /// With who waits to be told.
    Open(Option<Waker>),
    Told(Instant),
    Ended,
}

/// Whether it was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Told,
    /// The server ended its answer.
    Ended,
}

/// Which exchange it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExchangeId {
    key: Key,
    /// The number of the request, or the identifier of the stream.
    id: u32,
    slot: Option<u16>,
}

impl ExchangeId {
    pub(crate) fn new(key: Key, number: u32, stream: Option<StreamKey>) -> Self {
        let id = stream.map_or(number, |stream| stream.id);
        Self { key, id, slot: stream.map(|stream| stream.slot) }
    }

    pub(crate) fn key(self) -> Key {
        self.key
    }

    /// The number of the request among those of its connection, in HTTP/1.
    pub(crate) fn number(self) -> u32 {
        self.id
    }

    /// Its stream, in HTTP/2.
    pub(crate) fn stream(self) -> Option<StreamKey> {
        self.slot.map(|slot| StreamKey { slot, id: self.id })
    }

    /// An odd constant spreads neighbours; the high bits of a product are the good ones.
    fn bucket(self, buckets: usize) -> usize {
        let spread = (u64::from(self.key.index()) << 32 | u64::from(self.id)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (spread >> 32) as usize & (buckets - 1)
    }
}

/// A list through the entries.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl Default for Stays {
    fn default() -> Self {
        let empty = List { first: NONE, last: NONE };
        Self {
            entries: Slab::new(PAGES_MAX),
            charges: Vec::new(),
            open: empty,
            told: empty,
            buckets: Vec::new(),
            #[cfg(test)]
            looks: ::core::cell::Cell::new(0),
        }
    }
}

impl Stays {
    /// Puts one in; `None` without room for it.
    pub(crate) fn put(
        &mut self,
        pool: &Pool,
        sort: Sort,
        columns: Columns,
        exchange: Option<ExchangeId>,
    ) -> Option<Number> {
        let state = State::Open(None);
        let entry = Entry { sort, columns, state, exchange, before: NONE, after: NONE, next_in_bucket: NONE };
        let key = match self.entries.insert(entry) {
            Ok(key) => key,
            Err(entry) => {
                self.grow(pool)?;
                self.entries.insert(entry).ok()?
            }
        };
        let at = key.index();
        self.link(at);
        self.chain(at);
        Number::new(at + 1)
    }

    /// Takes one out again.
    pub(crate) fn take(&mut self, at: Number) -> Option<Entry> {
        let at = at.get() - 1;
        let key = self.entries.key_at(at)?;
        self.unlink(at);
        self.unchain(at);
        let entry = self.entries.remove(key);
        if self.entries.is_empty() {
            // Keys of those that were here fail from now on, too.
            while self.entries.release_empty().is_some() {}
            (self.charges, self.buckets) = (Vec::new(), Vec::new());
        }
        entry
    }

    /// Whether one was told, or ended.
    pub(crate) fn stage(&self, at: Number) -> Option<Stage> {
        self.entries.get_at(at.get() - 1).map(Entry::stage)
    }

    /// Who waits for one to be told.
    pub(crate) fn waker(&mut self, at: Number) -> Option<&mut Option<Waker>> {
        match &mut self.entries.get_at_mut(at.get() - 1)?.state {
            State::Open(waker) => Some(waker),
            State::Told(_) | State::Ended => None,
        }
    }

    /// Those that are open, the newest first.
    pub(crate) fn open(&self) -> impl Iterator<Item = (Key, Columns, Sort)> {
        let mut at = self.open.last;
        ::core::iter::from_fn(move || {
            let (key, entry) = (self.entries.key_at(at)?, self.look(at)?);
            at = entry.before;
            Some((key, entry.columns, entry.sort))
        })
    }

    /// Tells one to end, if it is there and open: who waits for that is to be woken.
    pub(crate) fn tell(&mut self, key: Key, now: Instant) -> Option<Option<Waker>> {
        if !matches!(self.entries.get(key)?.state, State::Open(_)) {
            return None;
        }
        match self.change(key.index(), State::Told(now))? {
            State::Open(waker) => Some(waker),
            State::Told(_) | State::Ended => None,
        }
    }

    /// When the first was told of the streams of events that have not ended since.
    pub(crate) fn first_told(&self) -> Option<Instant> {
        match self.look(self.told.first)?.state {
            State::Told(at) => Some(at),
            State::Open(_) | State::Ended => None,
        }
    }

    /// The exchange of a stream of events that was told so long ago: it has ended now.
    pub(crate) fn next_unended(&mut self, now: Instant, after: Duration) -> Option<ExchangeId> {
        let told = self.first_told()?;
        if now.since(told) < after {
            return None;
        }
        let at = self.told.first;
        self.change(at, State::Ended);
        self.entries.get_at(at)?.exchange
    }

    /// The stream of events of an exchange.
    pub(crate) fn find(&self, exchange: ExchangeId) -> Option<(Key, Stage)> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[exchange.bucket(self.buckets.len())];
        loop {
            let entry = self.look(at)?;
            if entry.exchange == Some(exchange) {
                return Some((self.entries.key_at(at)?, entry.stage()));
            }
            at = entry.next_in_bucket;
        }
    }

    fn look(&self, at: u32) -> Option<&Entry> {
        #[cfg(test)]
        self.looks.set(self.looks.get() + 1);
        self.entries.get_at(at)
    }

    /// The only place where a state changes: what it was.
    fn change(&mut self, at: u32, state: State) -> Option<State> {
        self.unlink(at);
        let before = ::core::mem::replace(&mut self.entries.get_at_mut(at)?.state, state);
        self.link(at);
        Some(before)
    }

    /// A page more, and buckets for its entries.
    fn grow(&mut self, pool: &Pool) -> Option<()> {
        self.charges.push(pool.charge(Kind::Slots, PAGE_CHARGE_BYTES as u64).ok()?);
        self.entries.grow(HeapChunk::new()).ok()?;
        let wanted = self.entries.capacity().next_power_of_two();
        if wanted > self.buckets.len() {
            self.buckets = vec![NONE; wanted];
            for at in 0..self.entries.index_bound() {
                self.chain(at);
            }
        }
        Some(())
    }

    /// The list for the stage of an entry.
    fn list_of(&mut self, at: u32) -> Option<&mut List> {
        let entry = self.entries.get_at(at)?;
        match entry.state {
            State::Open(_) => Some(&mut self.open),
            State::Told(_) if entry.sort == Sort::Events => Some(&mut self.told),
            State::Told(_) | State::Ended => None,
        }
    }

    /// Puts an entry at the end of its list.
    fn link(&mut self, at: u32) {
        let Some(list) = self.list_of(at) else { return };
        let last = ::core::mem::replace(&mut list.last, at);
        if last == NONE {
            list.first = at;
        }
        if let Some(last) = self.entries.get_at_mut(last) {
            last.after = at;
        }
        if let Some(entry) = self.entries.get_at_mut(at) {
            (entry.before, entry.after) = (last, NONE);
        }
    }

    /// Takes it out of its list.
    fn unlink(&mut self, at: u32) {
        let Some(&Entry { before, after, .. }) = self.entries.get_at(at) else { return };
        let Some(list) = self.list_of(at) else { return };
        if before == NONE {
            list.first = after;
        }
        if after == NONE {
            list.last = before;
        }
        if let Some(entry) = self.entries.get_at_mut(before) {
            entry.after = after;
        }
        if let Some(entry) = self.entries.get_at_mut(after) {
            entry.before = before;
        }
    }

    /// The bucket of a stream of events.
    fn bucket_of(&self, at: u32) -> Option<usize> {
        let entry = self.entries.get_at(at).filter(|entry| entry.sort == Sort::Events)?;
        Some(entry.exchange?.bucket(self.buckets.len()))
    }

    fn chain(&mut self, at: u32) {
        let Some(bucket) = self.bucket_of(at) else { return };
        let next = ::core::mem::replace(&mut self.buckets[bucket], at);
        if let Some(entry) = self.entries.get_at_mut(at) {
            entry.next_in_bucket = next;
        }
    }

    fn unchain(&mut self, at: u32) {
        let Some(bucket) = self.bucket_of(at) else { return };
        let next = self.entries.get_at(at).map_or(NONE, |entry| entry.next_in_bucket);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
            return;
        }
        let mut other = self.buckets[bucket];
        while let Some(entry) = self.look(other) {
            if entry.next_in_bucket != at {
                other = entry.next_in_bucket;
                continue;
            }
            if let Some(entry) = self.entries.get_at_mut(other) {
                entry.next_in_bucket = next;
            }
            return;
        }
    }
}

impl Entry {
    fn stage(&self) -> Stage {
        match self.state {
            State::Open(_) => Stage::Open,
            State::Told(_) => Stage::Told,
            State::Ended => Stage::Ended,
        }
    }
}

const _: () = assert!(size_of::<Entry>() <= 64, "a cache line for each");

#[cfg(test)]
mod tests;
