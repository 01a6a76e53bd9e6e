//! Properties, each in a child process that does what it must not and has to die of it: under the address sanitizer,
//! the cell of a task is not touched after its memory was given back, on whichever thread that was, nor behind its end.
//!
//! **I-MEANT**: the address is that of a cell that was there; its page is mapped as long as the pool lives, and the
//! child ends at the access that it means.
#![allow(unsafe_code)]

use core::mem::ManuallyDrop;
use core::task::Waker;
use std::process::Command;

use super::rig::{Place, Rig, stuck};

/// What the child is to do.
const VARIABLE: &str = "PLIMSOLL_MISDEED";

const MISDEEDS: [(&str, fn(&Rig)); 4] = [
    ("wake_after_the_last_reference", |rig| {
        let waker = waker_of_an_ended_task(rig);
        let kept = twice(&waker);
        drop(waker);
        kept.wake_by_ref();
    }),
    ("drop_of_a_waker_twice", |rig| {
        let waker = waker_of_an_ended_task(rig);
        let kept = twice(&waker);
        drop(waker);
        drop(ManuallyDrop::into_inner(kept));
    }),
    ("wake_after_the_last_reference_went_elsewhere", |rig| {
        let waker = waker_of_an_ended_task(rig);
        let kept = twice(&waker);
        std::thread::spawn(move || drop(waker)).join().unwrap();
        kept.wake_by_ref();
    }),
    ("behind_the_cell", |rig| {
        let waker = waker_of_an_ended_task(rig);
        let last = waker.data().cast::<u8>().cast_mut().wrapping_add(rig.cell_bytes() as usize - 1);
        // SAFETY: I-MEANT: the last byte of the slot, whose cell is shorter.
        unsafe { last.write_volatile(1) };
    }),
];

/// The only thing that keeps the cell of a task that has ended.
fn waker_of_an_ended_task(rig: &Rig) -> Waker {
    let place = Place::default();
    let task = rig.spawn(stuck(&place));
    rig.settle();
    task.abort();
    rig.settle();
    drop(task);
    let waker = place.take();
    assert!(rig.cell_bytes() > 0, "the waker keeps the cell");
    waker
}

/// A second handle of one reference.
fn twice(waker: &Waker) -> ManuallyDrop<Waker> {
    // SAFETY: I-MEANT: this is the misdeed.
    ManuallyDrop::new(unsafe { core::ptr::read(waker) })
}

#[test]
#[ignore = "run by the test below, in a process of its own"]
fn child_that_does_what_it_is_told() {
    let Ok(told) = std::env::var(VARIABLE) else { return };
    let rig = Rig::new();
    match MISDEEDS.iter().find(|(name, _)| *name == told) {
        Some((_, misdeed)) => misdeed(&rig),
        None => {
            let waker = waker_of_an_ended_task(&rig);
            let another = waker.clone();
            std::thread::spawn(move || another.wake()).join().unwrap();
            waker.wake();
            rig.end();
        }
    }
}

/// Whether the child lived, and what it said.
fn child(told: &str) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "task::tests::poison::child_that_does_what_it_is_told", "--ignored", "--nocapture"]);
    let output = command.env(VARIABLE, told).output().unwrap();
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (output.status.success(), text)
}

#[test]
fn the_sanitizer_finds_the_use_of_a_cell_that_was_given_back() {
    for (misdeed, _) in MISDEEDS {
        let (lived, text) = child(misdeed);
        assert!(!lived, "{misdeed} was not found: {text}");
        assert!(text.contains("AddressSanitizer: use-after-poison"), "{misdeed}: {text}");
        assert!(text.contains("plimsoll_runtime::task"), "{misdeed}: it names the access: {text}");
    }
}

#[test]
fn the_sanitizer_is_silent_about_a_cell_that_is_kept() {
    let (lived, text) = child("nothing");
    assert!(lived && text.contains("1 passed"), "{text}");
}
