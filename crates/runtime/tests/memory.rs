//! Waiting for memory on real drivers and in the simulation: a task waits until another lets go, on its own worker and
//! on another; deadlines pass in an idle process; a dropped wait leaves nothing; levels are told.
#![forbid(unsafe_code)]

use core::future::Future;
use core::time::Duration;

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::memory::{self, Footprint, Level, Permit, Priority, Shed};
use plimsoll_runtime::{Builder, DriverChoice, Error, MemoryLimit, Runtime};

fn builder(workers: usize) -> Builder {
    Runtime::builder().workers(workers).memory(MemoryLimit::mib(6)).worker_stack_bytes(128 * 1024).container(None)
}

/// Runs a body on each driver that works here, and in the simulation.
fn everywhere<F: Future<Output = ()>>(workers: usize, body: impl Fn() -> F) {
    for driver in [DriverChoice::Auto, DriverChoice::Mio] {
        let runtime = builder(workers).driver(driver).build().unwrap();
        runtime.block_on(body());
        let report = runtime.shutdown();
        assert!(report.is_clean(), "{report}");
    }
    for seed in 0..20 {
        let simulation = builder(workers).simulate(&World::new(SimConfig::new(seed))).unwrap();
        simulation.block_on(body());
        let report = simulation.shutdown();
        assert!(report.is_clean(), "seed {seed}: {report}");
    }
}

const LARGE: Footprint = Footprint::new().body(128 * 1024);

/// Everything that can be had without waiting.
fn take_all() -> Vec<Permit> {
    core::iter::from_fn(|| memory::admission().try_reserve(LARGE).ok()).collect()
}

#[test]
fn a_task_waits_until_another_lets_go() {
    everywhere(1, || async {
        let mut held = take_all();
        assert!(held.len() > 10);
        let waits =
            plimsoll_runtime::spawn(async move { memory::reserve(LARGE, Priority::Head, 1).await.map(drop) }).unwrap();
        plimsoll_runtime::sleep(Duration::from_millis(5)).await;
        assert!(!waits.is_finished());
        assert_eq!((memory::level(), plimsoll_runtime::metrics().waiters), (Level::Red, 1));
        held.pop();
        waits.await.expect("it does not panic").expect("it is granted");
        drop(held);
    });
}

#[test]
fn what_another_worker_has_free_comes_to_the_one_that_waits() {
    everywhere(2, || async {
        let taken = plimsoll_runtime::spawn_on(1, || async { take_all().len() }).unwrap().await.unwrap();
        assert!(taken > 10);
        // The other worker has nothing to do any more, and most of the line as free pages.
        let mut held = Vec::new();
        for _ in 0..taken / 2 {
            held.push(memory::reserve(LARGE, Priority::Head, 1).await.expect("the other gives it up"));
        }
        drop(held);
    });
}

#[test]
fn a_deadline_passes_though_nothing_happens() {
    everywhere(1, || async {
        let held = take_all();
        let deadline = plimsoll_runtime::now() + Duration::from_millis(20);
        let late = memory::reserve_until(deadline, LARGE, Priority::Head, 1).await;
        assert!(matches!(late, Err(Error::Shed(Shed::Deadline))), "{late:?}");
        assert!(plimsoll_runtime::now() >= deadline);
        drop(held);
    });
}

#[test]
fn a_wait_that_is_given_up_leaves_nothing() {
    everywhere(1, || async {
        let mut levels = memory::watch();
        let held = take_all();
        let waits = memory::acquire(100_000, Priority::Body, 1);
        let gave_up = plimsoll_runtime::timeout(Duration::from_millis(3), waits).await;
        assert!(matches!(gave_up, Err(Error::TimedOut)));
        assert_ne!(levels.changed().await, Level::Calm);
        drop(held);
        assert_eq!(memory::admission().waiting(), 0);
    });
}
