//! Properties: a thread has no mark until it asks for one, then always the same, and no other thread has it.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::thread;

use super::*;

#[test]
fn marks_are_of_one_thread() {
    let of_a_thread = || {
        assert_eq!(mark(), NOBODY);
        let own_mark = own();
        assert_eq!((mark(), own()), (own_mark, own_mark));
        own_mark
    };
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(of_a_thread)).collect();
    let marks: BTreeSet<u64> = threads.into_iter().map(|thread| thread.join().expect("no assertion failed")).collect();
    assert_eq!(marks.len(), 8);
    assert!(!marks.contains(&NOBODY) && !marks.contains(&ORPHAN));
}
