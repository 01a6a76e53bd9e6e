//! Tasks do not use the heap.
//!
//! **I-SYSTEM**: every call of the allocator goes on to the system's with the caller's own arguments.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::future::ready;
use std::alloc::{GlobalAlloc, Layout, System};

use super::super::Started;
use super::rig::{Rig, result, yields};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: I-SYSTEM.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: I-SYSTEM.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: I-SYSTEM.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of this thread during `call`.
fn allocations(call: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    call();
    ALLOCATIONS.get() - before
}

#[test]
fn spawn_run_and_join_do_not_allocate() {
    let rig = Rig::new();
    let round = || {
        let task = rig.spawn(async {
            yields(2).await;
            [7_u8; 300]
        });
        rig.settle();
        assert_eq!(result(task).expect("an output")[299], 7);
        let detached = rig.spawn(yields(1));
        drop(detached);
        rig.settle();
        rig.spawn(yields(9)).abort();
        rig.settle();
    };
    round();
    assert_eq!(allocations(|| (0..100).for_each(|_| round())), 0);
    rig.end();
}

#[test]
fn starting_on_the_spot_does_not_allocate() {
    let rig = Rig::new();
    let mut cell = Some(rig.tasks.spare().expect("there is room"));
    let mut round = || {
        let Started::Ready(5, again) = rig.tasks.start(cell.take().expect("it came back"), || ready(5)) else {
            panic!("it is ready")
        };
        cell = Some(again);
    };
    round();
    assert_eq!(allocations(|| (0..100).for_each(|_| round())), 0);
    drop(cell);
    rig.end();
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0);
}
