//! A reader and a task on two threads. With `--cfg loom`, every interleaving:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-tower --lib loom`. A wake-up that is lost is a deadlock.

use core::task::{Context, Poll, Waker};
use std::sync::Arc as StdArc;
use std::task::Wake;

use bytes::Bytes;
use http_body::Frame;
use plimsoll_http::Error;

use super::{Reader, Slot};

#[cfg(loom)]
use loom::sync::{Arc, Condvar, Mutex};
#[cfg(loom)]
use loom::thread;
#[cfg(not(loom))]
use std::sync::{Arc, Condvar, Mutex};
#[cfg(not(loom))]
use std::thread;

/// A thread that waits to be woken.
struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

impl Bell {
    fn new() -> StdArc<Self> {
        StdArc::new(Self { rung: Mutex::new(false), condition: Condvar::new() })
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().expect("no panic");
        while !*rung {
            rung = self.condition.wait(rung).expect("no panic");
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: StdArc<Self>) {
        *self.rung.lock().expect("no panic") = true;
        self.condition.notify_one();
    }
}

/// The task: it answers with so many frames and the end, if it is asked for them, and ends.
fn answer_all(slot: &Slot, bell: &StdArc<Bell>, frames: usize) {
    let waker = Waker::from(StdArc::clone(bell));
    let mut given = 0;
    while given <= frames {
        let kept = slot.begin_turn();
        if slot.end_turn(kept, &waker) {
            let frame = || Reader::Ready(Frame::data(Bytes::from_static(b"some")));
            let reader = slot.answer(if given < frames { frame() } else { Reader::Ended });
            reader.expect("it waits").wake();
            given += 1;
        } else {
            bell.wait();
        }
    }
    slot.end();
}

/// The next frame of a reader that waits for it.
fn next_frame(slot: &Slot) -> Option<Result<Frame<Bytes>, Error>> {
    let bell = Bell::new();
    let waker = Waker::from(StdArc::clone(&bell));
    loop {
        match slot.poll_frame(&mut Context::from_waker(&waker)) {
            Poll::Ready(frame) => return frame,
            Poll::Pending => bell.wait(),
        }
    }
}

fn read_all(slot: &Slot) -> usize {
    let mut frames = 0;
    while let Some(frame) = next_frame(slot) {
        frame.expect("no error");
        frames += 1;
    }
    frames
}

fn read_elsewhere() {
    let (slot, bell) = (Arc::new(Slot::new()), Bell::new());
    let reader = Arc::clone(&slot);
    let reader = thread::spawn(move || assert_eq!(read_all(&reader), 1));
    answer_all(&slot, &bell, 1);
    reader.join().expect("it has read all");
}

/// Asked for here, with a waker that nobody hears, then read there.
fn move_the_reader() {
    let (slot, bell) = (Arc::new(Slot::new()), Bell::new());
    assert!(slot.poll_frame(&mut Context::from_waker(Waker::noop())).is_pending());
    let reader = Arc::clone(&slot);
    let reader = thread::spawn(move || read_all(&reader));
    answer_all(&slot, &bell, 1);
    let frames = reader.join().expect("it has read all");
    assert_eq!(frames, 1, "none is lost and none comes twice");
}

/// A thread asks in the name of the task itself, which has to look.
fn ask_with_the_tasks_waker() {
    let (slot, bell) = (Arc::new(Slot::new()), Bell::new());
    let reader = {
        let (slot, waker) = (Arc::clone(&slot), Waker::from(StdArc::clone(&bell)));
        thread::spawn(move || {
            let polled = slot.poll_frame(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        })
    };
    answer_all(&slot, &bell, 0);
    reader.join().expect("it has asked");
}

fn end_the_task() {
    let (slot, bell) = (Arc::new(Slot::new()), Bell::new());
    let reader = {
        let slot = Arc::clone(&slot);
        thread::spawn(move || assert!(matches!(next_frame(&slot), Some(Err(Error::Disconnected)))))
    };
    let kept = slot.begin_turn();
    slot.end_turn(kept, &Waker::from(bell));
    slot.end();
    reader.join().expect("it was told");
}

/// The reader goes while the task answers: neither waits, and no waker is left behind.
fn give_up() {
    let (slot, bell, asking) = (Arc::new(Slot::new()), Bell::new(), Bell::new());
    let reader = {
        let (slot, asking) = (Arc::clone(&slot), StdArc::clone(&asking));
        thread::spawn(move || {
            let waker = Waker::from(asking);
            let _whatever_came = slot.poll_frame(&mut Context::from_waker(&waker));
            slot.give_up();
        })
    };
    let kept = slot.begin_turn();
    if slot.end_turn(kept, &Waker::from(StdArc::clone(&bell)))
        && let Some(reader) = slot.answer(Reader::Ended)
    {
        reader.wake();
    }
    slot.end();
    reader.join().expect("it is gone");
    assert_eq!((StdArc::strong_count(&bell), StdArc::strong_count(&asking)), (1, 1));
}

const RACES: [fn(); 5] = [read_elsewhere, move_the_reader, ask_with_the_tasks_waker, end_the_task, give_up];

#[cfg(loom)]
#[test]
fn loom_no_wake_up_is_lost() {
    for race in RACES {
        loom::model(race);
    }
}

#[cfg(not(loom))]
#[test]
fn no_wake_up_is_lost() {
    for _ in 0..500 {
        for race in RACES {
            race();
        }
    }
}
