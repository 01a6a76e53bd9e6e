//! Properties of the blocking pool: every job it takes runs once or is dropped at the end; threads, queue and stacks
//! stay within their limits; the stacks are charged while the threads live and not longer.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};

use plimsoll_pool::{Budget, Kind, MemoryLimit};

use super::*;

const STACK: u32 = 64 * 1024;

fn config(threads_max: u32, queue_max: u32) -> BlockingConfig {
    BlockingConfig { threads_max, stack_bytes: STACK, queue_max, idle_timeout_ms: 60_000 }
}

fn stacks(budget: &Budget) -> u64 {
    budget.charged_by(Kind::Stacks)
}

/// Waits for what other threads bring about soon.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = sys::now() + Duration::from_secs(10);
    while !holds() {
        assert!(sys::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A pool takes a job.
fn take(blocking: &Arc<Blocking>, job: impl FnOnce() + Send + 'static) {
    assert!(blocking.run(Box::new(job)).is_ok(), "there is room for it");
}

/// A job that waits until it is let go on, and the way to do that.
fn gate() -> (Box<dyn FnOnce() + Send>, mpsc::Sender<()>) {
    let (open, opened) = mpsc::channel();
    (Box::new(move || opened.recv().unwrap_or(())), open)
}

#[test]
fn jobs_run_once_each() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(4, 1_000), &budget);
    let ran = Arc::new(AtomicU32::new(0));
    for _ in 0..500 {
        let ran = Arc::clone(&ran);
        take(&blocking, move || {
            ran.fetch_add(1, Ordering::Relaxed);
        });
    }
    eventually("all run", || ran.load(Ordering::Relaxed) == 500);
    assert!(blocking.threads() <= 4);
    assert_eq!(stacks(&budget), u64::from(blocking.threads()) * u64::from(STACK));
    assert_eq!(blocking.shutdown(sys::now() + Duration::from_secs(10)), 0);
    assert_eq!(budget.charged_by(Kind::Fixed), 0);
    assert_eq!(stacks(&budget), 0, "joined threads have given their stacks back");
    assert_eq!(ran.load(Ordering::Relaxed), 500);
}

#[test]
fn threads_start_as_needed_and_run_side_by_side() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(3, 10), &budget);
    let together = Arc::new(Barrier::new(3));
    for expected in 1..=3 {
        let together = Arc::clone(&together);
        take(&blocking, move || {
            together.wait();
        });
        assert_eq!(blocking.threads(), expected, "no thread is idle");
    }
    // The barrier lets go only when all three run at once.
    eventually("all are idle", || blocking.shared.lock().idle == 3);
    take(&blocking, || {});
    assert_eq!(blocking.threads(), 3, "an idle one takes it");
}

#[test]
fn a_full_queue_gives_the_job_back() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(1, 2), &budget);
    let (job, open) = gate();
    take(&blocking, job);
    eventually("it runs", || blocking.queued() == 0);
    let ran = Arc::new(AtomicU32::new(0));
    let count = || -> Box<dyn FnOnce() + Send> {
        let ran = Arc::clone(&ran);
        Box::new(move || {
            ran.fetch_add(1, Ordering::Relaxed);
        })
    };
    take(&blocking, count());
    take(&blocking, count());
    let Err(back) = blocking.run(count()) else { panic!("the queue holds two") };
    assert_eq!(blocking.try_run(|| unreachable!("there is no place")), Err(Refused::Full));

    let bell = Doorbell::new().expect("an eventfd");
    blocking.ring_at_room(&bell);
    assert!(!bell.silence(), "there is no room yet");
    open.send(()).expect("the job waits for it");
    eventually("there is room", || bell.silence());
    eventually("the queued ones run", || ran.load(Ordering::Relaxed) == 2);
    blocking.ring_at_room(&bell);
    assert!(bell.silence(), "there is room");
    back();
    assert_eq!(ran.load(Ordering::Relaxed), 3, "the job that came back is whole");
}

#[test]
fn the_line_limits_threads() {
    // 10 that wait, and one for each thread.
    let queue_bytes = (10 + 8) * size_of::<Job>() as u64;
    let budget = Budget::new(MemoryLimit::bytes(2 * u64::from(STACK) + queue_bytes));
    let blocking = Blocking::new(config(8, 10), &budget);
    let (mut opens, mut jobs) = (Vec::new(), 0);
    while jobs < 6 {
        let (job, open) = gate();
        assert!(blocking.run(job).is_ok(), "it waits in the queue");
        opens.push(open);
        jobs += 1;
    }
    assert_eq!((blocking.threads(), stacks(&budget)), (2, 2 * u64::from(STACK)));
    assert!(budget.charged() <= 2 * u64::from(STACK) + queue_bytes);
    drop(opens);
    eventually("all run", || blocking.queued() == 0);
}

#[test]
fn without_room_for_one_thread_a_job_is_refused() {
    let budget = Budget::new(MemoryLimit::bytes(u64::from(STACK)));
    let blocking = Blocking::new(config(8, 10), &budget);
    assert!(blocking.run(Box::new(|| {})).is_err());
    assert_eq!(blocking.try_run(|| unreachable!("no thread would take it")), Err(Refused::NoThread));
    assert_eq!((blocking.threads(), blocking.queued()), (0, 0));
    assert_eq!(stacks(&budget), 0);
}

#[test]
fn a_panic_ends_its_job_only() {
    struct Second;
    impl Drop for Second {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::resume_unwind(Box::new("in the drop of what the panic carries"));
            }
        }
    }
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(1, 10), &budget);
    assert!(blocking.run(Box::new(|| std::panic::resume_unwind(Box::new("on purpose")))).is_ok());
    assert!(blocking.run(Box::new(|| std::panic::resume_unwind(Box::new(Second)))).is_ok());
    let (answer, answers) = mpsc::channel();
    assert!(blocking.run(Box::new(move || answer.send(1).expect("somebody listens"))).is_ok());
    assert_eq!(answers.recv(), Ok(1));
    assert_eq!(blocking.threads(), 1);
}

#[test]
fn idle_threads_end() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(BlockingConfig { idle_timeout_ms: 20, ..config(4, 10) }, &budget);
    for _ in 0..3 {
        let together = Arc::new(Barrier::new(2));
        for _ in 0..2 {
            let together = Arc::clone(&together);
            take(&blocking, move || {
                together.wait();
            });
        }
        eventually("both end", || blocking.threads() == 0 && stacks(&budget) == 0);
    }
    assert!(blocking.shared.lock().places.len() <= 2, "places are used again");
}

#[test]
fn shutdown_reports_what_still_runs() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(1, 10), &budget);
    let (job, open) = gate();
    take(&blocking, job);
    eventually("it runs", || blocking.queued() == 0);
    struct Dropped(mpsc::Sender<()>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send(()).expect("somebody listens");
        }
    }
    let (dropped, drops) = mpsc::channel();
    let waiting = Dropped(dropped);
    take(&blocking, move || {
        let _never = waiting;
        unreachable!("it is dropped")
    });
    assert_eq!(blocking.shutdown(sys::now() + Duration::from_millis(30)), 1);
    drops.try_recv().expect("the queued job was dropped");
    assert_eq!(stacks(&budget), u64::from(STACK), "it is still there");
    assert_eq!(blocking.try_run(|| unreachable!("it is closed")), Err(Refused::Closed));
    open.send(()).expect("the job waits for it");
    eventually("its stack goes with it", || stacks(&budget) == 0);
    assert_eq!(blocking.shutdown(sys::now()), 0);
}

#[test]
fn a_thread_without_a_job_is_no_call_that_runs() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(3, 10), &budget);
    let (first, open_first) = gate();
    let (second, open_second) = gate();
    take(&blocking, first);
    take(&blocking, second);
    eventually("both run", || blocking.queued() == 0);
    open_first.send(()).expect("the job waits for it");
    eventually("one is idle", || blocking.shared.lock().idle == 1);
    // The deadline has passed: only what cannot be waited for is left.
    assert_eq!(blocking.shutdown(sys::now()), 1);
    assert_eq!(blocking.threads(), 1);
    open_second.send(()).expect("the job waits for it");
    eventually("its stack goes with it", || stacks(&budget) == 0);
}

#[test]
fn dropping_the_pool_lets_threads_end() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(2, 10), &budget);
    take(&blocking, || {});
    drop(blocking);
    eventually("its thread ends", || budget.charged() == 0);
}

#[test]
fn a_bell_that_waits_for_room_is_kept_once() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(1, 1), &budget);
    let (running, let_it_go) = gate();
    take(&blocking, running);
    eventually("the thread takes it", || blocking.queued() == 0);
    take(&blocking, || {});
    let bells = [Doorbell::simulated(), Doorbell::simulated()];
    for _ in 0..1_000 {
        // As each turn of a driver with file operations in its backlog.
        bells.iter().for_each(|bell| blocking.ring_at_room(bell));
    }
    assert_eq!(blocking.shared.lock().bells.len(), 2, "what a driver may ask each turn may not grow a list");
    let_it_go.send(()).expect("it waits");
    eventually("there is room", || bells.iter().all(Doorbell::is_rung));
    assert_eq!(blocking.shutdown(sys::now() + Duration::from_secs(10)), 0);
}

#[test]
fn the_queue_is_never_longer_than_it_may_be() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(16, 2), &budget);
    let mut gates = Vec::new();
    // Threads start as fast as jobs come, and take them later.
    for _ in 0..100 {
        let (job, open) = gate();
        if blocking.run(job).is_ok() {
            gates.push(open);
        }
        let (queued, room) = {
            let state = blocking.shared.lock();
            (state.queue.len(), state.queue.capacity())
        };
        let charged = budget.charged_by(Kind::Fixed) as usize / size_of::<Job>();
        assert!(queued <= charged && room <= charged, "{queued} jobs, room for {room}, {charged} charged");
    }
    drop(gates);
    assert_eq!(blocking.shutdown(sys::now() + Duration::from_secs(10)), 0);
}

#[test]
fn a_job_that_panics_when_it_is_dropped_holds_up_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped without having run");
        }
    }
    let budget = Budget::new(MemoryLimit::mib(8));
    let blocking = Blocking::new(config(1, 2), &budget);
    let (running, let_it_go) = gate();
    take(&blocking, running);
    eventually("the thread takes it", || blocking.queued() == 0);
    let (dropped, told) = mpsc::channel::<()>();
    let bomb = Bomb;
    assert!(blocking.run(Box::new(move || core::mem::forget(bomb))).is_ok());
    assert!(blocking.run(Box::new(move || drop(dropped))).is_ok());
    let bell = Doorbell::simulated();
    blocking.ring_at_room(&bell);
    let_it_go.send(()).expect("it waits");
    // The thread may take the jobs before the end does; they are harmless then.
    assert_eq!(blocking.shutdown(sys::now() + Duration::from_secs(10)), 0);
    assert!(told.recv().is_err() && bell.is_rung());
    assert_eq!(budget.charged(), 0);
}
