//! The blocking pool in every interleaving of small programs, as it is, with loom's locks and threads:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p plimsoll-reactor --lib loom`.
//!
//! * A job runs once, or is dropped, or comes back; a job that was taken while the pool stays open runs.
//! * Whoever found the queue full is rung when there is room.
//! * A shutdown ends every thread, and nothing is charged afterwards.
//!
//! A job that is lost, or a thread that is not woken, is a deadlock, which loom reports.
#![forbid(unsafe_code)]

use loom::sync::atomic::AtomicUsize;
use loom::sync::{Arc as Tracked, Notify};

use plimsoll_pool::MemoryLimit;

use super::*;
use crate::sync::Ordering;

/// Every interleaving with up to so many preemptions.
fn bounded(preemptions: usize, program: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(program);
}

/// A pool whose idle threads end at once, as after their timeout, or never.
fn pool(threads_max: u32, queue_max: u32, idle_timeout_ms: u32) -> (Arc<Blocking>, Arc<Budget>) {
    let budget = Budget::new(MemoryLimit::mib(8));
    let config = BlockingConfig { threads_max, queue_max, idle_timeout_ms, ..BlockingConfig::default() };
    (Blocking::new(config, &budget), budget)
}

const ENDS_AT_ONCE: u32 = 0;
const NEVER_ENDS: u32 = 1;

fn end(blocking: &Blocking, budget: &Budget) {
    // The clock is not the model's: this never comes.
    assert_eq!(blocking.shutdown(Instant::from_nanos(u64::MAX)), 0);
    assert_eq!((blocking.threads(), blocking.queued()), (0, 0));
    assert_eq!(budget.charged(), 0);
}

/// Counts what becomes of jobs, and tells of each that ran.
struct Jobs {
    ran: AtomicUsize,
    dropped: AtomicUsize,
    done: Notify,
}

impl Jobs {
    fn new() -> Tracked<Self> {
        Tracked::new(Self { ran: AtomicUsize::new(0), dropped: AtomicUsize::new(0), done: Notify::new() })
    }

    fn job(jobs: &Tracked<Self>) -> Job {
        struct Counted(Tracked<Jobs>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counted = Counted(Tracked::clone(jobs));
        Box::new(move || {
            counted.0.ran.fetch_add(1, Ordering::Relaxed);
            counted.0.done.notify();
        })
    }

    /// Until so many ran; loom's waits may also end for nothing.
    fn wait_for(&self, jobs: usize) {
        while self.ran() < jobs {
            self.done.wait();
        }
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }
}

#[test]
fn loom_jobs_from_two_threads_run_once() {
    bounded(2, || {
        let (blocking, budget) = pool(1, 2, NEVER_ENDS);
        let jobs = [Jobs::new(), Jobs::new()];
        let other = {
            let (blocking, job) = (Arc::clone(&blocking), Jobs::job(&jobs[0]));
            loom::thread::spawn(move || assert!(blocking.run(job).is_ok()))
        };
        assert!(blocking.run(Jobs::job(&jobs[1])).is_ok());
        jobs.iter().for_each(|jobs| jobs.wait_for(1));
        other.join().unwrap();
        end(&blocking, &budget);
        assert!(jobs.iter().all(|jobs| jobs.ran() == 1));
    });
}

/// The thread is about to end, because nothing came for so long, when something comes.
#[test]
fn loom_a_job_meets_a_thread_that_is_about_to_end() {
    bounded(2, || {
        let (blocking, budget) = pool(1, 2, ENDS_AT_ONCE);
        for _ in 0..2 {
            let jobs = Jobs::new();
            assert!(blocking.run(Jobs::job(&jobs)).is_ok());
            jobs.wait_for(1);
            assert_eq!(jobs.ran(), 1);
        }
        end(&blocking, &budget);
    });
}

#[test]
fn loom_a_shutdown_meets_a_job() {
    bounded(2, || {
        let (blocking, budget) = pool(1, 1, NEVER_ENDS);
        let jobs = Jobs::new();
        let other = {
            let (blocking, job) = (Arc::clone(&blocking), Jobs::job(&jobs));
            loom::thread::spawn(move || usize::from(blocking.run(job).is_ok()))
        };
        end(&blocking, &budget);
        let taken = other.join().unwrap();
        assert_eq!(jobs.dropped.load(Ordering::Relaxed), 1, "whatever became of it, it is gone once");
        assert!(jobs.ran() <= taken, "a job that came back has not run");
        end(&blocking, &budget);
    });
}

#[test]
fn loom_whoever_waits_for_room_is_rung() {
    bounded(2, || {
        let (blocking, budget) = pool(1, 1, NEVER_ENDS);
        let (bell, jobs) = (Doorbell::simulated(), Jobs::new());
        let mut taken = 0;
        for _ in 0..3 {
            let mut job = Jobs::job(&jobs);
            while let Err(back) = blocking.run(job) {
                job = back;
                blocking.ring_at_room(&bell);
                bell.wait();
            }
            taken += 1;
        }
        jobs.wait_for(taken);
        end(&blocking, &budget);
        assert_eq!(jobs.ran(), taken);
    });
}
