//! Addresses of peers that were asked for. Who is told of each request's peer asks again and again for the same
//! connections, and each time that would be a system call.

use ::core::net::SocketAddr;

use plimsoll_pool::Charge;
use plimsoll_slab::Key;

/// So many connections are remembered; a power of two. Those whose indices end alike take each other's places.
const PLACES: usize = 64;

/// The addresses of some connections of a worker, until they are closed. Without room for them none are remembered.
#[derive(Default)]
pub(crate) struct KnownPeers(Option<Known>);

struct Known {
    places: Box<[Option<(Key, SocketAddr)>; PLACES]>,
    _charge: Charge,
}

fn place(key: Key) -> usize {
    key.index() as usize % PLACES
}

impl KnownPeers {
    /// What the places take, in bytes.
    pub(crate) const BYTES: u64 = (PLACES * size_of::<Option<(Key, SocketAddr)>>()) as u64;

    pub(crate) fn get(&self, key: Key) -> Option<SocketAddr> {
        let (known, address) = self.0.as_ref()?.places[place(key)]?;
        (known == key).then_some(address)
    }

    /// Remembers one. The first needs a charge of [`BYTES`](Self::BYTES).
    pub(crate) fn put(&mut self, key: Key, address: SocketAddr, charge: impl FnOnce() -> Option<Charge>) {
        if self.0.is_none() {
            self.0 = charge().map(|charge| Known { places: Box::new([None; PLACES]), _charge: charge });
        }
        if let Some(known) = &mut self.0 {
            known.places[place(key)] = Some((key, address));
        }
    }

    /// The connection is no more.
    pub(crate) fn forget(&mut self, key: Key) {
        if let Some(known) = &mut self.0 {
            known.places[place(key)].take_if(|(known, _)| *known == key);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_pool::{Budget, Kind, MemoryLimit};

    use super::*;

    fn key(index: u32, generation: u32) -> Key {
        Key::unpack(u64::from(generation) << 32 | u64::from(index)).1
    }

    fn address(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_connection_is_known_until_it_is_closed() {
        let budget = Budget::new(MemoryLimit::mib(1));
        let mut known = KnownPeers::default();
        assert_eq!(known.get(key(3, 1)), None);
        known.put(key(3, 1), address(1), || budget.charge(Kind::Slots, KnownPeers::BYTES).ok());
        assert_eq!((known.get(key(3, 1)), known.get(key(3, 3))), (Some(address(1)), None));
        assert_eq!(budget.charged_by(Kind::Slots), KnownPeers::BYTES);
        // Another is in its place: the end of the first is not its own.
        let other = key(3 + PLACES as u32, 1);
        known.put(other, address(2), || unreachable!("there is room"));
        assert_eq!((known.get(key(3, 1)), known.get(other)), (None, Some(address(2))));
        known.forget(key(3, 1));
        assert_eq!(known.get(other), Some(address(2)));
        known.forget(other);
        assert_eq!(known.get(other), None);
        drop(known);
        assert_eq!(budget.charged_by(Kind::Slots), 0);
    }

    #[test]
    fn without_room_none_are_remembered() {
        let mut known = KnownPeers::default();
        known.put(key(1, 1), address(1), || None);
        known.forget(key(1, 1));
        assert_eq!(known.get(key(1, 1)), None);
    }
}
