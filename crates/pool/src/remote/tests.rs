//! Properties, of any number of pushes between the owner's turns, under loom in every interleaving:
//!
//! * every slot that is pushed is drained once, or refused once because the list was closed;
//! * its kind comes back with it, and the link it was pushed with is seen;
//! * an owner that waits is rung once, or finds the slot itself;
//! * exactly one party learns that it was the last, and only after all slots were given up.
#![cfg_attr(loom, allow(dead_code))]

use super::*;

#[cfg(not(loom))]
mod threads {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[repr(align(64))]
    struct Slot(#[expect(dead_code, reason = "room for the link")] [u64; 8]);

    #[test]
    fn slots_of_four_threads_arrive_once() {
        const SLOTS: usize = 4000;
        let list = RemoteList::<SlotLinks>::new();
        let rings = AtomicUsize::new(0);
        let slots: Vec<Slot> = (0..SLOTS).map(|_| Slot([0; 8])).collect();
        let address = |index: usize| NonNull::from(&slots[index]).cast::<u8>();
        let addresses: Vec<usize> = (0..SLOTS).map(|index| address(index).expose_provenance().get()).collect();
        let mut seen = vec![0; SLOTS];
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (list, rings, addresses) = (&list, &rings, &addresses);
                scope.spawn(move || {
                    for (index, address) in addresses.iter().enumerate().skip(thread).step_by(4) {
                        let slot = NonNull::new(ptr::with_exposed_provenance_mut(*address)).unwrap();
                        // SAFETY: I-OWNED: each slot belongs to one thread, which pushes it once.
                        let pushed = unsafe { list.push(slot, Kind::ALL[index % Kind::COUNT], || Some(())) };
                        match pushed {
                            Pushed::Queued(Some(())) => _ = rings.fetch_add(1, Ordering::Relaxed),
                            Pushed::Queued(None) => {}
                            Pushed::Closed { .. } => panic!("nobody closes it"),
                        }
                    }
                });
            }
            let first = addresses[0];
            let mut drained = 0;
            let mut each = |slot: NonNull<u8>, kind| {
                let index = (slot.addr().get() - first) / size_of::<Slot>();
                assert_eq!(kind, Kind::ALL[index % Kind::COUNT]);
                seen[index] += 1;
            };
            let mut turns = 0;
            while drained < SLOTS {
                turns += 1;
                drained += if turns % 3 == 0 { list.arm_doorbell(true, &mut each) } else { list.drain(&mut each) };
            }
            assert!(rings.load(Ordering::Relaxed) <= turns);
        });
        assert!(seen.iter().all(|times| *times == 1));
    }

    #[test]
    fn a_bell_rings_once_for_an_owner_that_waits() {
        let list = RemoteList::<SlotLinks>::new();
        let slots = [const { Slot([0; 8]) }; 3];
        let mut slots = slots.iter().map(|slot| NonNull::from(slot).cast::<u8>());
        // SAFETY: I-OWNED: three slots of this test's own.
        let mut push = || unsafe { list.push(slots.next().unwrap(), Kind::Codec, || Some(7)) };
        assert_eq!(push(), Pushed::Queued(None));
        assert_eq!(list.arm_doorbell(true, |_, _| {}), 1);
        assert_eq!(push(), Pushed::Queued(Some(7)));
        assert_eq!(push(), Pushed::Queued(None));
        assert_eq!(list.drain(|_, kind| assert_eq!(kind, Kind::Codec)), 2);
        assert_eq!(list.drain(|_, _| {}), 0);
    }

    #[test]
    fn a_look_that_finds_nothing_leaves_the_bell_armed() {
        let list = RemoteList::<SlotLinks>::new();
        let slot = Slot([0; 8]);
        assert_eq!(list.arm_doorbell(true, |_, _| {}), 0);
        assert_eq!((list.drain(|_, _| {}), list.drain(|_, _| {})), (0, 0));
        // SAFETY: I-OWNED: a slot of this test's own.
        let pushed = unsafe { list.push(NonNull::from(&slot).cast(), Kind::Codec, || Some(7)) };
        assert_eq!(pushed, Pushed::Queued(Some(7)));
        assert_eq!(list.drain(|_, _| {}), 1);
    }

    /// However many slots come before the owner says how many there are.
    #[test]
    fn whoever_is_last_of_a_closed_list_is_told() {
        for before in 0..=3 {
            let list = RemoteList::<SlotLinks>::new();
            let slots = [const { Slot([0; 8]) }; 3];
            assert_eq!(list.close(|_, _| {}), 0);
            // SAFETY: I-OWNED: a slot of this test's own.
            let push = |at: usize| unsafe { list.push(NonNull::from(&slots[at]).cast(), Kind::Codec, || Some(7)) };
            (0..before).for_each(|at| assert_eq!(push(at), Pushed::Closed { last: false }));
            assert_eq!(list.settle(3), before == 3, "{before} came before");
            (before..3).for_each(|at| assert_eq!(push(at), Pushed::Closed { last: at == 2 }, "{before} came before"));
        }
    }
}

#[cfg(loom)]
mod interleavings {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[repr(align(64))]
    struct Node {
        link: UnsafeCell<*mut u8>,
        /// Written by the holder before it gives the slot up.
        content: UnsafeCell<u32>,
    }

    struct NodeLinks;

    // SAFETY: I-LINK: both use the same cell of the node.
    unsafe impl Links for NodeLinks {
        unsafe fn set(slot: NonNull<u8>, next: *mut u8) {
            // SAFETY: I-OWNED: slots are nodes in these tests.
            unsafe { slot.cast::<Node>().as_ref().link.with_mut(|link| *link = next) }
        }

        unsafe fn get(slot: NonNull<u8>) -> *mut u8 {
            // SAFETY: I-OWNED: slots are nodes in these tests.
            unsafe { slot.cast::<Node>().as_ref().link.with(|link| *link) }
        }
    }

    struct Shared {
        list: RemoteList<NodeLinks>,
        refused: AtomicUsize,
        last: AtomicUsize,
        /// Taken by whoever ends the arena: loom reports it if anybody else still uses it.
        arena: UnsafeCell<bool>,
    }

    fn shared() -> Arc<Shared> {
        Arc::new(Shared {
            list: RemoteList::new(),
            refused: AtomicUsize::new(0),
            last: AtomicUsize::new(0),
            arena: UnsafeCell::new(true),
        })
    }

    fn node() -> NonNull<u8> {
        let node = Node { link: UnsafeCell::new(ptr::null_mut()), content: UnsafeCell::new(0) };
        NonNull::from(Box::leak(Box::new(node))).cast()
    }

    /// What a holder on another thread does.
    fn give_up(shared: &Shared, node: usize, kind: Kind) -> bool {
        let slot: NonNull<u8> = NonNull::new(ptr::with_exposed_provenance_mut(node)).unwrap();
        // SAFETY: I-OWNED: the node is this thread's until the push.
        unsafe { slot.cast::<Node>().as_ref().content.with_mut(|content| *content = 1) };
        // A holder reads the header before it gives up its slot.
        shared.arena.with(|alive| assert!(unsafe { *alive }));
        // SAFETY: I-OWNED: as above.
        match unsafe { shared.list.push(slot, kind, || Some(())) } {
            Pushed::Queued(bell) => bell.is_some(),
            Pushed::Closed { last } => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                free(slot);
                if last {
                    end(shared);
                }
                false
            }
        }
    }

    fn end(shared: &Shared) {
        shared.last.fetch_add(1, Ordering::Relaxed);
        // SAFETY: I-COUNT: the only one who sees the end, as the test checks.
        shared.arena.with_mut(|alive| unsafe { *alive = false });
    }

    fn take(slot: NonNull<u8>) {
        // SAFETY: I-OWNED: drained, so the owner's.
        let content = unsafe { slot.cast::<Node>().as_ref().content.with(|content| *content) };
        assert_eq!(content, 1, "what the holder wrote is visible");
        free(slot);
    }

    fn free(slot: NonNull<u8>) {
        // SAFETY: I-OWNED: nodes are leaked boxes, and this is the only owner.
        drop(unsafe { Box::from_raw(slot.cast::<Node>().as_ptr()) });
    }

    fn spawn(shared: &Arc<Shared>, kind: Kind) -> loom::thread::JoinHandle<bool> {
        let (shared, node) = (shared.clone(), node().expose_provenance().get());
        loom::thread::spawn(move || give_up(&shared, node, kind))
    }

    #[test]
    fn loom_two_pushes_and_drains() {
        loom::model(|| {
            let shared = shared();
            let threads = [spawn(&shared, Kind::Slots), spawn(&shared, Kind::Stacks)];
            let mut kinds = Vec::new();
            let mut each = |slot, kind| {
                take(slot);
                kinds.push(kind);
            };
            let mut drained = shared.list.drain(&mut each);
            for thread in threads {
                thread.join().unwrap();
            }
            drained += shared.list.drain(&mut each);
            kinds.sort();
            assert_eq!((drained, kinds), (2, vec![Kind::Slots, Kind::Stacks]));
        });
    }

    #[test]
    fn loom_an_owner_that_waits_is_rung_or_finds_the_slot() {
        loom::model(|| {
            let shared = shared();
            let threads = [spawn(&shared, Kind::Slots), spawn(&shared, Kind::Tasks)];
            let found = shared.list.arm_doorbell(true, |slot, _| take(slot));
            let rung = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|rung| *rung).count();
            let late = shared.list.drain(|slot, _| take(slot));
            assert_eq!(found + late, 2);
            assert_eq!(rung, usize::from(late > 0), "rung once if something came after the look, else not");
        });
    }

    #[test]
    fn loom_closing_ends_the_arena_once() {
        loom::model(|| {
            let shared = shared();
            let threads = [spawn(&shared, Kind::Slots), spawn(&shared, Kind::Tasks)];
            let drained = shared.list.close(|slot, _| take(slot));
            let live = 2 - drained as u64;
            if live == 0 || shared.list.settle(live) {
                end(&shared);
            }
            for thread in threads {
                assert!(!thread.join().unwrap(), "nobody rings");
            }
            assert_eq!(shared.refused.load(Ordering::Relaxed), live as usize);
            assert_eq!(shared.last.load(Ordering::Relaxed), 1, "exactly one ends the arena");
        });
    }

    #[test]
    fn loom_closing_while_the_bell_is_armed() {
        loom::model(|| {
            let shared = shared();
            let thread = spawn(&shared, Kind::Codec);
            let mut drained = shared.list.arm_doorbell(true, |slot, _| take(slot));
            drained += shared.list.close(|slot, _| take(slot));
            if drained == 1 || shared.list.settle(1) {
                end(&shared);
            }
            thread.join().unwrap();
            assert_eq!(shared.last.load(Ordering::Relaxed), 1);
        });
    }
}
