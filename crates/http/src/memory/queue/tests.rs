//! Whose turn it is of those who wait, who makes way for another, who is looked at for that, and what is counted of
//! those who do not wait.

use ::core::cell::RefCell;
use ::core::net::SocketAddr;
use std::rc::{Rc, Weak};

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{MemoryLimit, Runtime};

use super::*;
use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::peers::Addresses;
use crate::memory::desk::Connections;
use crate::memory::lasting::StayBytes;
use crate::memory::waits::PLACES;

/// Connections of an address each thousand of them have.
#[derive(Default)]
struct Thousands {
    gone: RefCell<Vec<Key>>,
    displaced: RefCell<Vec<Key>>,
    /// How often it was asked whether one still waits.
    asked: Cell<u32>,
}

impl Connections for Thousands {
    fn socket_address(&self, key: Key) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, (key.index() / 1_000) as u8], 80)))
    }

    fn waits(&self, who: &Waits) -> bool {
        self.asked.set(self.asked.get() + 1);
        !self.gone.borrow().contains(&who.key)
    }

    fn displaced(&self, who: &Waits) {
        self.displaced.borrow_mut().push(who.key);
    }
}

fn key(index: u32) -> Key {
    Key::unpack(0x03_0000_0000 | u64::from(index)).1
}

fn with_desk(act: impl FnOnce(&Desk, &Thousands)) {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&World::new(SimConfig::new(7)));
    runtime.expect("a simulation starts").block_on(async {
        let stay_bytes = StayBytes { called: 0, awaited: 0, member: 0, released: 0, tunnel: 0, events: 0 };
        let shared = (Counters::new(1), Addresses::default());
        let desk = Desk::new((Config::default(), None), 1 << 24, plimsoll_runtime::pool(), shared, stay_bytes);
        let connections = Rc::new(Thousands::default());
        let weak: Weak<Thousands> = Rc::downgrade(&connections);
        desk.serve(weak);
        act(&desk, &connections);
    });
}

/// Has a request wait.
fn enqueue(desk: &Desk, index: u32) -> Result<(), TooMany> {
    desk.enqueue_once(Waits::new(key(index), None), &mut MemoryWait::None, Priority::Head, 64)
}

#[test]
fn it_is_the_turn_of_the_first_that_still_waits() {
    with_desk(|desk, connections| {
        assert!(!desk.is_turn_of_others(key(1)), "nobody waits");
        assert_eq!((enqueue(desk, 1), enqueue(desk, 1_001)), (Ok(()), Ok(())));
        assert_eq!(desk.swept_at.get(), None, "while there are places it is not looked for who is gone");
        assert_eq!([1, 1_001].map(|index| desk.is_turn_of_others(key(index))), [false, true]);
        connections.gone.borrow_mut().push(key(1));
        assert!(!desk.is_turn_of_others(key(1_001)));
        assert_eq!([1, 1_001].map(|index| desk.is_in_queue(key(index))), [false, true], "it is forgotten");
        desk.leave_queue(key(1_001));
        assert!(!desk.has_waiting());
    });
}

#[test]
fn who_is_gone_makes_way_in_the_full_queue_and_then_the_newest_of_who_has_most() {
    with_desk(|desk, connections| {
        let places = PLACES as u32;
        assert!((0..places).all(|index| enqueue(desk, index).is_ok()));
        connections.gone.borrow_mut().push(key(5));
        assert_eq!(enqueue(desk, 700), Ok(()), "in the place of one that is gone");
        assert_eq!(enqueue(desk, 701), Err(TooMany), "nobody of its own address makes way");
        assert_eq!(*connections.displaced.borrow(), []);
        assert!(desk.has_no_place_for(key(702)) && !desk.has_no_place_for(key(1_000)));
        assert_eq!(enqueue(desk, 1_000), Ok(()));
        assert_eq!(*connections.displaced.borrow(), [key(700)], "the newest of the other address");
        assert_eq!([700, 1_000].map(|index| desk.is_in_queue(key(index))), [false, true]);
    });
}

#[test]
fn what_a_request_takes_counts_for_its_address_while_memory_is_short() {
    with_desk(|desk, _| {
        let held = || desk.crowd.held_bytes(desk.host_of(key(1)));
        assert!(desk.take_share(key(1), 1_000, 0).is_none() && held() == 0, "nothing is counted");
        let before = desk.pool.used_bytes();
        let taken = desk.pool.try_acquire(4_096, Kind::Buffers).expect("room");
        let share = desk.take_share(key(1), 1_000, before);
        assert!(share.is_some() && held() >= 5_000, "{} bytes of {before}", held());
        drop((share, taken));
        assert_eq!(held(), 0);
    });
}
