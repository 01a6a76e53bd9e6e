//! Who is next among those who wait: for memory, for the processor.
//!
//! Each place has a *tag*, and the lowest is next. A place's tag is its cost above that of the last place that it
//! stands behind, or above that of the last that was served if that is later (self-clocked fair queueing, Golestani
//! 1994). Its cost is its amount, twice that for [`Body`](Priority::Body), four times for [`Head`](Priority::Head).
//!
//! **I8**: of one who came when the tag `s` was served last, and whose own is `t`, the bound of waiting: at each
//! priority, each name is served before it at most `(t - s) / c` times with places that came later, where `c` is the
//! least cost of these.
//!
//! Places are kept in the order of their tags. Who is next is found at the front; the last of a name is looked for from
//! the end, which takes a microsecond for some hundred places, and happens only when somebody comes to wait.
#![forbid(unsafe_code)]

use std::collections::{VecDeque, vec_deque};

use crate::budget::Charge;
use crate::error::OverBudget;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::priority::Priority;

/// Names a place of a [`Queue`], and says when it is its turn: the lowest is next, of the same tag the one that came
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceKey {
    tag: u64,
    /// How many came before.
    number: u64,
}

/// What a [`Queue`] knows of one who waits.
#[derive(Clone, Copy, Debug)]
pub struct Place<T> {
    key: PlaceKey,
    name: u64,
    priority: Priority,
    item: T,
}

impl<T> Place<T> {
    /// Names it. A key of a place that is gone names nothing.
    #[must_use]
    pub fn key(&self) -> PlaceKey {
        self.key
    }

    /// Among whom waiting is fair: the address of a peer, say.
    #[must_use]
    pub fn name(&self) -> u64 {
        self.name
    }

    /// What is waited for.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.priority
    }

    /// Who waits.
    #[must_use]
    pub fn item(&self) -> &T {
        &self.item
    }
}

/// A fair order of those who wait, in places that are charged before they are needed: nothing is needed to wait when
/// there is no memory.
///
/// Names take turns, so that a thousand places of one name cost another name no more than one of them does: each gets
/// even shares of the amounts that are served. Within a name, who comes first is first, but what was begun stands
/// before what is [new](Priority::Head). Priorities get their shares by weight, and nobody waits for ever.
///
/// ```
/// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig, Priority, Queue};
///
/// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
/// let mut queue = Queue::new(&pool, 64, 64);
/// for item in ["first", "second"] {
///     queue.add(7, Priority::Head, 1, item).expect("a place");
/// }
/// queue.add(8, Priority::Head, 1, "of another name").expect("a place");
/// let mut order = Vec::new();
/// while let Some(key) = queue.first(|_place| true).map(|place| place.key()) {
///     order.extend(queue.serve(key));
/// }
/// assert_eq!(order, ["first", "of another name", "second"]);
/// # Ok::<(), plimsoll_pool::Error>(())
/// ```
#[derive(Debug)]
pub struct Queue<T> {
    pool: Pool,
    /// In the order of their keys.
    places: VecDeque<Place<T>>,
    /// So many places are charged at a time, the first of these from the start.
    step: usize,
    places_max: usize,
    first: Option<Charge>,
    /// Stand for the others; nobody writes to them. At the line a pool may find one in what it has, where a charge
    /// needs a part of the line that no worker holds.
    more: Vec<Lease>,
    /// The tag of the last place that was served.
    served: u64,
    /// How many came.
    came: u64,
    /// How many of the places are of others than who is new.
    begun: usize,
}

impl<T> Queue<T> {
    /// An empty queue with so many places from the start, and up to `places_max` as far as there is memory, as many at
    /// a time: those have at most 128 KiB. Under a line that has no room for the first ones, nobody waits.
    #[must_use]
    pub fn new(pool: &Pool, places: usize, places_max: usize) -> Self {
        let step = places.clamp(1, places_max.max(1));
        let first = pool.charge(Kind::Fixed, Self::bytes(step)).ok();
        let places = VecDeque::with_capacity(if first.is_some() { step } else { 0 });
        Self { pool: pool.clone(), places, step, places_max, first, more: Vec::new(), served: 0, came: 0, begun: 0 }
    }

    /// Bytes that are charged for so many places.
    #[must_use]
    pub const fn bytes(places: usize) -> u64 {
        step_bytes::<T>(places) as u64
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether anybody waits who is not [new](Priority::Head).
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun > 0
    }

    /// Whether there is no place.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let steps = usize::from(self.first.is_some()) + self.more.len();
        self.len() >= (steps * self.step).min(self.places_max)
    }

    /// Makes sure that there is a place.
    ///
    /// # Errors
    ///
    /// At the line, and when as many wait as may.
    pub fn make_room(&mut self) -> Result<(), OverBudget> {
        if !self.is_full() {
            return Ok(());
        }
        let bytes = step_bytes::<T>(self.step);
        if self.len() >= self.places_max || self.first.is_none() {
            return Err(OverBudget::new(bytes as u64));
        }
        self.more.push(self.pool.try_acquire(bytes, Kind::Fixed)?);
        self.places.reserve_exact(self.step);
        Ok(())
    }

    /// Adds one who waits for so much, behind all others of that name with the same or an earlier priority.
    ///
    /// # Errors
    ///
    /// Whom it would have been, when there is [no room](Self::make_room).
    pub fn add(&mut self, name: u64, priority: Priority, amount: u64, item: T) -> Result<PlaceKey, T> {
        if self.make_room().is_err() {
            return Err(item);
        }
        let stands_behind = |place: &&Place<T>| place.name == name && place.priority <= priority;
        let behind = self.places.iter().rev().find(stands_behind).map_or(0, |place| place.key.tag);
        let tag = behind.max(self.served) + amount.max(1) * priority.cost();
        self.came += 1;
        let key = PlaceKey { tag, number: self.came };
        let at = self.places.partition_point(|place| place.key < key);
        self.places.insert(at, Place { key, name, priority, item });
        self.begun += usize::from(priority != Priority::Head);
        Ok(key)
    }

    /// Everybody who waits, who is next first.
    pub fn iter(&self) -> vec_deque::Iter<'_, Place<T>> {
        self.places.iter()
    }

    /// The same from behind a place on, which may be gone.
    pub(crate) fn iter_behind(&self, key: Option<PlaceKey>) -> vec_deque::Iter<'_, Place<T>> {
        self.places.range(self.places.partition_point(|place| Some(place.key) <= key)..)
    }

    /// Who is next of those that may be.
    pub fn first(&self, may_be: impl Fn(&Place<T>) -> bool) -> Option<&Place<T>> {
        self.iter().find(|place| may_be(place))
    }

    /// Who is last. Of places with the same tag, that of the name for which `weight` says most, and of these the one
    /// that came last.
    pub fn last(&self, weight: impl Fn(u64) -> u64) -> Option<&Place<T>> {
        let tag = self.places.back()?.key.tag;
        let of_tag = self.iter().rev().take_while(|place| place.key.tag == tag);
        of_tag.max_by_key(|place| (weight(place.name), place.key))
    }

    fn index_of(&self, key: PlaceKey) -> Option<usize> {
        self.places.binary_search_by_key(&key, Place::key).ok()
    }

    /// What is known of one who waits.
    #[must_use]
    pub fn get(&self, key: PlaceKey) -> Option<&Place<T>> {
        self.places.get(self.index_of(key)?)
    }

    /// Who waits at a place, to be changed.
    pub fn item_mut(&mut self, key: PlaceKey) -> Option<&mut T> {
        let at = self.index_of(key)?;
        self.places.get_mut(at).map(|place| &mut place.item)
    }

    /// How many of a name wait.
    #[must_use]
    pub fn count_of(&self, name: u64) -> usize {
        self.iter().filter(|place| place.name == name).count()
    }

    /// It is this place's turn, though it stays: those who come later stand behind it.
    pub fn pass(&mut self, key: PlaceKey) {
        if self.index_of(key).is_some() {
            self.served = self.served.max(key.tag);
        }
    }

    /// It is this place's turn, and it ends.
    pub fn serve(&mut self, key: PlaceKey) -> Option<T> {
        self.pass(key);
        self.remove(key)
    }

    /// Somebody does not wait any more.
    pub fn remove(&mut self, key: PlaceKey) -> Option<T> {
        let place = self.places.remove(self.index_of(key)?)?;
        self.begun -= usize::from(place.priority != Priority::Head);
        if self.is_empty() && !self.more.is_empty() {
            self.places.shrink_to(self.step);
            self.more = Vec::new();
        }
        Some(place.item)
    }

    /// Forgets those for whom `waits` says no.
    pub fn retain(&mut self, waits: impl Fn(&T) -> bool) {
        self.places.retain(|place| waits(&place.item));
        self.begun = self.iter().filter(|place| place.priority != Priority::Head).count();
    }

    /// Whose place would be taken for another, in a queue of at most 512 places: that of the last who is
    /// [new](Priority::Head). For one who is new itself, of the name that has the most of them, if those are more than
    /// the places of `name` with one added. What was begun keeps its place.
    #[must_use]
    pub fn displaced_by(&self, name: u64, priority: Priority) -> Option<&Place<T>> {
        let mut heads = self.iter().filter(|place| place.priority == Priority::Head);
        if priority != Priority::Head {
            return heads.next_back();
        }
        let own = self.count_of(name);
        if self.len() <= 2 * own + 1 {
            // Nobody else can have more.
            return None;
        }
        let mut names = [0; DISPLACED_OF];
        let count = names.iter_mut().zip(heads.by_ref()).map(|(name, place)| *name = place.name).count();
        let names = &mut names[..count];
        names.sort_unstable();
        let most = names.chunk_by(|one, other| one == other).max_by_key(|run| run.len())?;
        if most.len() <= own + 1 {
            return None;
        }
        self.iter().rev().find(|place| place.priority == Priority::Head && place.name == most[0])
    }
}

/// Bytes of so many places, and of what stands for them.
const fn step_bytes<T>(places: usize) -> usize {
    places * size_of::<Place<T>>() + size_of::<Lease>()
}

/// Places that are looked at for the name that has most.
const DISPLACED_OF: usize = 512;

#[cfg(test)]
mod tests;
