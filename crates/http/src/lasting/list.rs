//! Lists of those that stay: charged, and grown a little at a time.

use ::core::num::NonZeroU32;
use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use super::Sort;
use crate::core::Core;
use crate::crowd::Columns;
use crate::ticket::Ticket;

/// What is added to a list at a time, in bytes.
const GROWTH_BYTES: usize = 2_048;

/// Places with numbers, which may be empty.
pub(super) struct Listed<T> {
    places: Vec<Option<T>>,
    charge: Option<Charge>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { places: Vec::new(), charge: None }
    }
}

impl<T> Listed<T> {
    /// Puts something into an empty place; `false` without room for a longer list.
    pub(super) fn put(&mut self, pool: &Pool, at: usize, value: T) -> bool {
        if at >= self.places.len() {
            let step = (GROWTH_BYTES / size_of::<Option<T>>()).max(1);
            let len = (at + 1).next_multiple_of(step).max(self.places.len() / 4 * 5);
            let Ok(larger) = pool.charge(Kind::Slots, (len * size_of::<Option<T>>()) as u64) else { return false };
            self.places.reserve_exact(len - self.places.len());
            self.places.resize_with(len, || None);
            self.charge = Some(larger);
        }
        let before = self.places[at].replace(value);
        debug_assert!(before.is_none(), "a place is taken once");
        true
    }

    pub(super) fn take(&mut self, at: usize) -> Option<T> {
        self.places.get_mut(at)?.take()
    }

    pub(super) fn get(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref()
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.places.get_mut(at)?.as_mut()
    }

    fn first_empty_from(&self, from: usize) -> usize {
        let empty = self.places.iter().skip(from).position(Option::is_none);
        empty.map_or(self.places.len().max(from), |at| from + at)
    }
}

/// Those that are in no table of connections and can be told to end.
#[derive(Default)]
pub(super) struct Stays {
    entries: Listed<Entry>,
    /// No place before this one is empty.
    full_to: usize,
    count: usize,
}

struct Entry {
    sort: Sort,
    columns: Columns,
    stage: Stage,
    /// Of the one that waits to be told.
    waker: Option<Waker>,
    exchange: Option<ExchangeId>,
}

/// Which exchange it is of.
struct ExchangeId {
    key: Key,
    number: u32,
    stream: Option<StreamKey>,
}

/// Whether it was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    /// At this time.
    Told(Instant),
    /// The server ended its answer.
    Ended,
}

/// The number of a place in the list, and one.
pub(crate) type Number = NonZeroU32;

/// One in the list, until this is dropped.
pub(crate) struct Listing {
    core: Rc<Core>,
    at: Number,
}

impl Listing {
    /// Of a connection without an exchange. `None` without room for it.
    pub(crate) fn new(core: &Rc<Core>, sort: Sort, columns: Columns) -> Option<Self> {
        let at = core.list_stay(sort, columns, None)?;
        Some(Self { core: Rc::clone(core), at })
    }

    /// Ready when it is to end.
    pub(crate) fn poll_told(&self, cx: &Context<'_>) -> Poll<()> {
        self.core.poll_told(self.at, cx)
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.core.unlist_stay(self.at);
    }
}

fn place(at: Number) -> usize {
    at.get() as usize - 1
}

impl Core {
    /// Puts one into the list, if there is room for it.
    pub(super) fn list_stay(&self, sort: Sort, columns: Columns, ticket: Option<&Ticket>) -> Option<Number> {
        let id = |ticket: &Ticket| ExchangeId { key: ticket.key, number: ticket.number, stream: ticket.stream };
        let entry = Entry { sort, columns, stage: Stage::Open, waker: None, exchange: ticket.map(id) };
        let mut stays = self.lasting.stays.borrow_mut();
        let at = stays.entries.first_empty_from(stays.full_to);
        let number = Number::new(u32::try_from(at + 1).ok()?)?;
        if !stays.entries.put(&self.pool, at, entry) {
            return None;
        }
        (stays.full_to, stays.count) = (at + 1, stays.count + 1);
        Some(number)
    }

    /// Takes it out again; where it is counted.
    pub(super) fn unlist_stay(&self, at: Number) -> Columns {
        let at = place(at);
        let mut stays = self.lasting.stays.borrow_mut();
        let entry = stays.entries.take(at).expect("it was put there, and is taken once");
        (stays.full_to, stays.count) = (stays.full_to.min(at), stays.count - 1);
        if stays.count == 0 {
            stays.entries = Listed::default();
        }
        drop(stays);
        // Its waker goes now, while the list is not borrowed: it may hold what stays, too.
        entry.columns
    }

    /// Ready when it is to end.
    pub(super) fn poll_told(&self, at: Number, cx: &Context<'_>) -> Poll<()> {
        let is_known = {
            let mut stays = self.lasting.stays.borrow_mut();
            let Some(entry) = stays.entries.get_mut(place(at)) else { return Poll::Pending };
            if entry.stage != Stage::Open {
                return Poll::Ready(());
            }
            entry.waker.as_ref().is_some_and(|known| known.will_wake(cx.waker()))
        };
        if !is_known {
            // Wakers are made and dropped by their owners' code: while nothing is borrowed.
            let waker = cx.waker().clone();
            let mut stays = self.lasting.stays.borrow_mut();
            let outdated = stays.entries.get_mut(place(at)).and_then(|entry| entry.waker.replace(waker));
            drop(stays);
            drop(outdated);
        }
        Poll::Pending
    }

    /// Those that can be told, from the last place on: the newest tend to be there.
    pub(crate) fn untold_stays(&self, mut act: impl FnMut(usize, Columns, Sort) -> bool) {
        let stays = self.lasting.stays.borrow();
        let entries = stays.entries.places.iter().enumerate().rev();
        let untold = entries.filter_map(|(at, entry)| Some((at, entry.as_ref()?)));
        for (at, entry) in untold.filter(|(_, entry)| entry.stage == Stage::Open) {
            if !act(at, entry.columns, entry.sort) {
                return;
            }
        }
    }

    /// Tells one to end.
    pub(crate) fn tell_stay(&self, at: usize, now: Instant) {
        let mut stays = self.lasting.stays.borrow_mut();
        let Some(entry) = stays.entries.get_mut(at) else { return };
        entry.stage = Stage::Told(now);
        let waker = entry.waker.take();
        drop(stays);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// When the first was told of the streams of events that have not ended since.
    pub(crate) fn first_told(&self) -> Option<Instant> {
        let stays = self.lasting.stays.borrow();
        let events = stays.entries.places.iter().flatten().filter(|entry| entry.sort == Sort::Events);
        let told = events.filter_map(|entry| match entry.stage {
            Stage::Told(at) => Some(at),
            _ => None,
        });
        told.min()
    }

    /// A stream of events that was told so long ago, and has not ended: it is ended by the server.
    pub(crate) fn next_unended(self: &Rc<Self>, now: Instant, after: Duration) -> Option<Ticket> {
        let mut stays = self.lasting.stays.borrow_mut();
        let is_due = |entry: &&mut Entry| {
            entry.sort == Sort::Events && matches!(entry.stage, Stage::Told(at) if now.since(at) >= after)
        };
        let entry = stays.entries.places.iter_mut().flatten().find(is_due)?;
        entry.stage = Stage::Ended;
        let &ExchangeId { key, number, stream } = entry.exchange.as_ref()?;
        let of_stream = |stream| Ticket::of_stream(self, key, stream);
        Some(stream.map_or_else(|| Ticket::new(self, key, number), of_stream))
    }

    /// How the stream of events of an exchange was told to end, if it is one: at most one of a connection of HTTP/1.
    pub(crate) fn find_events(&self, key: Key, stream: Option<StreamKey>) -> Option<(usize, Stage)> {
        let stays = self.lasting.stays.borrow();
        let entries = stays.entries.places.iter().enumerate();
        let mut entries = entries.filter_map(|(at, entry)| Some((at, entry.as_ref()?)));
        let is_of = |id: &ExchangeId| (id.key, id.stream) == (key, stream);
        let is_it = |entry: &Entry| entry.sort == Sort::Events && entry.exchange.as_ref().is_some_and(is_of);
        entries.find(|(_, entry)| is_it(entry)).map(|(at, entry)| (at, entry.stage))
    }
}
