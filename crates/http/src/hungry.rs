//! Connections that found no room and wait for it: in turns over the addresses of their peers, so that a thousand connections of one address
//! cost another no more than one of them does.
//!
//! Each place has a *tag*, and the lowest is served next. A place's tag is that of the last place of its address, or of the last that was
//! served if that is later, and its cost on top (self-clocked fair queueing, Golestani 1994). Output of an answer that has begun costs least, a new
//! request most, so that what was begun ends before more is begun, and neither ever waits for ever.
//!
//! The list has a fixed number of places, which are charged from the start: nothing is needed to wait when there is no memory. It is searched
//! from end to end, which takes a microsecond and happens only while memory is short.

use plimsoll_pool::{Charge, Kind, Pool};
use plimsoll_slab::Key;

/// Connections of a worker that wait for room at most; more are refused.
const HUNGRY_MAX: usize = 512;

/// What room is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// An answer that has begun, or that the handler has given.
    Output,
    /// The body of a request that a handler works on.
    Body,
    /// A new request.
    Request,
}

impl Want {
    const fn cost(self) -> u64 {
        match self {
            Self::Output => 1,
            Self::Body => 2,
            Self::Request => 4,
        }
    }
}

/// One connection that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) key: Key,
    pub(crate) want: Want,
    /// Bytes that have to be free before it is worth a try.
    pub(crate) bytes: u32,
    pub(crate) host: u64,
    tag: u64,
}

/// There is no place: too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

/// See the module.
#[derive(Debug)]
pub(crate) struct Hungry {
    /// Never longer than its capacity.
    places: Vec<Place>,
    /// The tag of the last place that was served.
    served: u64,
    _charge: Option<Charge>,
}

impl Hungry {
    /// An empty list. Under a line that has no room for it nobody waits: all are refused at once.
    pub(crate) fn new(pool: &Pool) -> Self {
        Self::with_places(pool, HUNGRY_MAX)
    }

    /// The same with so many places, at most as many as it usually has.
    pub(crate) fn with_places(pool: &Pool, places: usize) -> Self {
        let charge = pool.charge(Kind::Fixed, (places * size_of::<Place>()) as u64).ok();
        let places = Vec::with_capacity(if charge.is_some() { places } else { 0 });
        Self { places, served: 0, _charge: charge }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.places.len() == self.places.capacity()
    }

    /// Adds a connection of a host, behind all others of that host.
    pub(crate) fn add(&mut self, key: Key, host: u64, want: Want, bytes: usize) -> Result<(), TooMany> {
        debug_assert!(self.places.iter().all(|place| place.key != key), "a connection waits once");
        if self.is_full() {
            return Err(TooMany);
        }
        let of_host = self.places.iter().filter(|place| place.host == host).map(|place| place.tag).max();
        let tag = of_host.unwrap_or(0).max(self.served) + want.cost();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.places.push(Place { key, want, bytes, host, tag });
        Ok(())
    }

    /// Whose turn it is of those that may be served. Of places with the same tag, the one that came first.
    pub(crate) fn first(&self, may_be_served: impl Fn(&Place) -> bool) -> Option<Place> {
        self.places.iter().filter(|place| may_be_served(place)).min_by_key(|place| place.tag).copied()
    }

    /// Whose turn is the last. Of places with the same tag, that of the host for which `weight` says most, and of these the one that came last.
    pub(crate) fn last(&self, weight: impl Fn(u64) -> u64) -> Option<Place> {
        self.places.iter().max_by_key(|place| (place.tag, weight(place.host))).copied()
    }

    /// The connection is served.
    pub(crate) fn serve(&mut self, key: Key) {
        if let Some(place) = self.remove(key) {
            self.served = self.served.max(place.tag);
        }
    }

    /// Whether a connection has a place.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.places.iter().any(|place| place.key == key)
    }

    /// How many connections of a host wait.
    pub(crate) fn count_of(&self, host: u64) -> usize {
        self.places.iter().filter(|place| place.host == host).count()
    }

    /// Takes a place for another: the last of a request that waits to be begun. For such a one itself, that of the host that has the most of them, if
    /// those are more than the places of `host` with one added. What was begun keeps its place.
    pub(crate) fn displace_for(&mut self, host: u64, want: Want) -> Option<Key> {
        let is_request = |place: &&Place| place.want == Want::Request;
        if want != Want::Request {
            let key = self.places.iter().filter(is_request).max_by_key(|place| place.tag)?.key;
            return self.remove(key).map(|place| place.key);
        }
        let mut hosts = [0; HUNGRY_MAX];
        let requests = self.places.iter().filter(is_request);
        let count = hosts.iter_mut().zip(requests).map(|(host, place)| *host = place.host).count();
        let hosts = &mut hosts[..count];
        hosts.sort_unstable();
        let most = hosts.chunk_by(|one, other| one == other).max_by_key(|run| run.len())?;
        if most.len() <= self.count_of(host) + 1 {
            return None;
        }
        let (of, last) = (most[0], |place: &&Place| place.tag);
        let key = self.places.iter().filter(is_request).filter(|place| place.host == of).max_by_key(last)?.key;
        self.remove(key).map(|place| place.key)
    }

    /// Whether nobody of another host waits.
    pub(crate) fn are_all_of(&self, host: u64) -> bool {
        self.places.iter().all(|place| place.host == host)
    }

    /// Forgets those for whom `waits` says no.
    pub(crate) fn retain(&mut self, mut waits: impl FnMut(Key) -> bool) {
        self.places.retain(|place| waits(place.key));
    }

    /// The connection does not wait any more.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Place> {
        let at = self.places.iter().position(|place| place.key == key)?;
        Some(self.places.remove(at))
    }
}

#[cfg(test)]
mod tests;
