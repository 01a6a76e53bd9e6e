//! Properties, of any sequence of references made and dropped on either side:
//!
//! * the last one is found, and found once;
//! * while the owner has the thing, `is_unshared` says whether there are references;
//! * neither part is further from the number of references that are alive than the balance allows;
//! * however many references are made, only those that are alive count towards the limit; beyond it the process ends.
//!
//! Both limits are small in tests. Threads: `../tests/threads.rs`, and every interleaving of a few:
//! `../tests/interleavings.rs`.
#![forbid(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use proptest::prelude::*;

use super::*;

/// How far the parts are from the references that are alive, at most.
fn check_parts(count: &Count, alive: i32) {
    let (local, remote) = (count.local.get(), count.remote.load(Ordering::Relaxed) >> 1);
    assert_eq!(local + remote, alive);
    assert!(local.abs() < BALANCE_MAX && (remote - alive).abs() < BALANCE_MAX, "{local} here, {remote} elsewhere");
    assert_eq!(count.is_unshared(), alive == 0);
}

fn side(owner: bool) -> Side {
    if owner { Side::Owner } else { Side::Other }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_last_reference_is_found(steps in prop::collection::vec((any::<bool>(), any::<bool>()), 0..200), merge_at in 0..200_usize) {
        let (count, mut alive, mut merged) = (Count::new(), 0, false);
        for (at, (owner, make)) in steps.into_iter().enumerate() {
            if at == merge_at {
                merged = true;
                prop_assert_eq!(count.merge(), alive == 0);
            }
            // A merged count without references belongs to nobody.
            if make && !(merged && alive == 0) {
                count.add(side(owner));
                alive += 1;
            } else if alive > 0 {
                alive -= 1;
                prop_assert_eq!(count.remove(side(owner)), merged && alive == 0);
            }
            if !merged {
                check_parts(&count, alive);
            }
        }
        if !merged {
            prop_assert_eq!(count.merge(), alive == 0);
        }
        for left in (0..alive).rev() {
            prop_assert_eq!(count.remove(side(left % 2 == 0)), left == 0);
        }
    }
}

/// What the owner does costs no atomic operation but at the balance.
#[test]
fn the_owner_counts_in_its_cell_up_to_the_balance() {
    let parts = |count: &Count| (count.local.get(), count.remote.load(Ordering::Relaxed));
    let count = Count::new();
    for local in 1..BALANCE_MAX {
        count.add(Side::Owner);
        assert_eq!(parts(&count), (local, OWNED));
    }
    count.add(Side::Owner);
    assert_eq!(parts(&count), (0, OWNED + BALANCE_MAX * ONE));
    for local in 1..BALANCE_MAX {
        assert!(!count.remove(Side::Owner));
        assert_eq!(parts(&count), (-local, OWNED + BALANCE_MAX * ONE));
    }
    assert!(!count.remove(Side::Owner));
    assert_eq!(parts(&count), (0, OWNED));
    assert!(count.merge());
}

#[test]
fn references_that_always_change_sides_reach_no_limit() {
    for (made, dropped) in [(Side::Owner, Side::Other), (Side::Other, Side::Owner)] {
        let count = Count::new();
        count.add(made);
        for _ in 0..3 * REFERENCES_MAX {
            count.add(made);
            assert!(!count.remove(dropped));
            check_parts(&count, 1);
        }
        assert!(!count.merge());
        assert!(count.remove(dropped));
    }
}

#[test]
fn a_core_and_its_cells_too() {
    // Made by the worker, given back elsewhere by the last waker, with a few alive at any time.
    let count = Count::new();
    (0..8).for_each(|_| count.add(Side::Owner));
    for _ in 0..3 * REFERENCES_MAX / 8 {
        (0..8).for_each(|_| count.add(Side::Owner));
        (0..8).for_each(|_| assert!(!count.remove(Side::Other)));
    }
    check_parts(&count, 8);
    assert!(!count.merge());
    assert_eq!((0..8).filter(|_| count.remove(Side::Other)).count(), 1);
}

/// Which references a child process leaks.
const LEAK: &str = "PLIMSOLL_TEST_LEAK";

/// Runs one test of this program as a child that leaks references.
fn child_leaks(test: &str, sides: &str, references: i32) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().expect("tests are programs"));
    child.args(["--exact", &format!("task::count::tests::{test}")]).env(LEAK, format!("{sides} {references}"));
    child.output().expect("a child starts").status
}

#[test]
fn references_alive_beyond_the_limit_end_the_process() {
    const ITSELF: &str = "references_alive_beyond_the_limit_end_the_process";
    if let Ok(leak) = std::env::var(LEAK) {
        let (sides, references) = leak.split_once(' ').expect("two words");
        let count = Count::new();
        for at in 0..references.parse().expect("a number") {
            count.add(side(sides == "owner" || sides == "both" && at % 3 > 0));
        }
        return;
    }
    for sides in ["owner", "other", "both"] {
        assert!(child_leaks(ITSELF, sides, REFERENCES_MAX - BALANCE_MAX).success(), "{sides}: as many as may be");
        let ended = child_leaks(ITSELF, sides, REFERENCES_MAX + 2 * BALANCE_MAX);
        assert_eq!(ended.signal(), Some(SIGABRT), "{sides}: {ended}");
    }
    // What the owner moves counts at once.
    assert_eq!(child_leaks(ITSELF, "owner", REFERENCES_MAX).signal(), Some(SIGABRT));
}

const SIGABRT: i32 = 6;

/// One that is dropped without having been made may be the thing's end while others still use it, so debug builds look
/// for it.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "more references dropped than made")]
fn the_owner_that_drops_more_than_were_made_is_told_at_the_balance() {
    let count = Count::new();
    (0..BALANCE_MAX).for_each(|_| assert!(!count.remove(Side::Owner)));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "more references dropped than made")]
fn the_owner_that_lets_go_is_told_of_more_drops_than_references() {
    let count = Count::new();
    assert!(!count.remove(Side::Other));
    let _ = count.merge();
}
