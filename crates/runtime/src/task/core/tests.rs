//! Properties: a worker knows its own thread, and takes no other thread for it.
#![forbid(unsafe_code)]

use std::process::Command;
use std::thread;

use super::*;

/// Says that the test has a process of its own, in which no worker was made yet.
const ALONE: &str = "PLIMSOLL_TEST_ALONE";

/// What a thread has on which no worker was made must not be the mark of a worker, nor of the first one.
#[test]
fn the_first_worker_of_a_process_is_told_from_other_threads() {
    const ITSELF: &str = "task::core::tests::the_first_worker_of_a_process_is_told_from_other_threads";
    if std::env::var_os(ALONE).is_none() {
        let mut child = Command::new(std::env::current_exe().expect("tests are programs"));
        let output = child.args(["--exact", ITSELF]).env(ALONE, "1").output().expect("a child starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let core = Core::new(Arc::new(|| {}));
    assert_eq!(core.side(), Side::Owner);
    let other = thread::spawn(|| THREAD.with(Cell::get)).join().expect("it does not panic");
    assert_ne!(other, core.owner);
}

#[test]
fn a_thread_keeps_its_mark_and_no_other_gets_it() {
    let bell: Bell = Arc::new(|| {});
    let (one, two) = (Core::new(Arc::clone(&bell)), Core::new(bell));
    assert_eq!((one.side(), two.side()), (Side::Owner, Side::Owner), "workers of one thread");
    let others: Vec<u64> = (0..8).map(|_| thread::spawn(claim_thread).join().expect("it does not panic")).collect();
    for (at, mark) in others.iter().enumerate() {
        assert!(*mark != one.owner && !others[..at].contains(mark), "{others:?} and {}", one.owner);
    }
}
