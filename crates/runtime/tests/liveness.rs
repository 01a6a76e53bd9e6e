//! Nobody is stuck: 10,000 clients, of which each waits for all that it needs at once and holds it for some turns, all
//! end when the line has room for one footprint a worker.
//!
//! It prints how many ended, for `cargo xtask bench --pool`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a figure is for people")]

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_pool::{Kind, Lease};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::memory::{self, Footprint, Permit, Priority};
use plimsoll_runtime::{Error, JoinHandle, MemoryLimit, Runtime, sleep, spawn, spawn_on, yield_now};

const WORKERS: u32 = 2;
const CLIENTS: u32 = 10_000;
const NAMES: u32 = 4;
/// What an exchange needs.
const FOOTPRINT: Footprint = Footprint::new().head(1_024).body(BODY).out(4_096);
const BODY: usize = 32 << 10;

/// Lets tasks wait for a moment, without memory of the pool.
#[derive(Default)]
struct Gate {
    is_open: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl Gate {
    async fn passed(&self) {
        poll_fn(|cx| {
            if self.is_open.get() {
                return Poll::Ready(());
            }
            self.wakers.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn open(&self) {
        self.is_open.set(true);
        self.wakers.take().into_iter().for_each(Waker::wake);
    }
}

/// Pages that fill the line.
type Ballast = Rc<RefCell<Vec<Lease>>>;

/// The result, unless there was no page for one waiter more, which is not what is tested here: then a page of the
/// ballast goes.
fn unless_crowded<T>(result: Result<T, Error>, ballast: &Ballast) -> Option<Result<T, Error>> {
    match result {
        Err(Error::OverBudget(_)) => {
            drop(ballast.borrow_mut().pop().expect("the queue is smaller than the ballast"));
            None
        }
        result => Some(result),
    }
}

/// An exchange: it gets all that it needs, gives its parts back one after the other, and ends. Notes how many waited at
/// the same time.
async fn exchange(name: u64, ballast: Ballast, waiting: Rc<Cell<u32>>) -> Result<(), Error> {
    let mut permit: Permit = loop {
        let reserved = memory::reserve(FOOTPRINT, Priority::Head, name).await;
        if let Some(result) = unless_crowded(reserved, &ballast) {
            break result?;
        }
    };
    waiting.set(waiting.get().max(memory::admission().waiting()));
    let body = permit.take(BODY).expect("within the footprint");
    let head = permit.take(1_024).expect("within the footprint");
    yield_now().await;
    drop(body);
    yield_now().await;
    assert!(permit.put_back(head).is_ok(), "its place is free");
    yield_now().await;
    drop(permit);
    Ok(())
}

/// What the workers do together: each step begins when all have done the one before.
struct Steps(AtomicU32);

impl Steps {
    async fn done(&self, step: u32) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < step * WORKERS {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

/// One worker's clients; how many ended as they should.
async fn half(steps: Arc<Steps>) -> u32 {
    let (gate, ballast, waiting) = (Rc::new(Gate::default()), Ballast::default(), Rc::new(Cell::new(0)));
    let clients: Vec<JoinHandle<Result<(), Error>>> = (0..CLIENTS / WORKERS)
        .map(|client| {
            let (gate, ballast, waiting) = (Rc::clone(&gate), Rc::clone(&ballast), Rc::clone(&waiting));
            let name = u64::from(client % NAMES);
            let client = async move {
                gate.passed().await;
                exchange(name, ballast, waiting).await
            };
            spawn(client).expect("the line has room for the tasks")
        })
        .collect();
    steps.done(1).await;
    let pool = plimsoll_runtime::pool();
    // In turns with the other worker, so that each has about half of it.
    loop {
        let some: Vec<Lease> = (0..64).map_while(|_| pool.try_acquire(4_096, Kind::Buffers).ok()).collect();
        if some.is_empty() {
            break;
        }
        ballast.borrow_mut().extend(some);
        sleep(Duration::from_millis(1)).await;
    }
    steps.done(2).await;
    let footprint_pages = (FOOTPRINT.page_bytes() / 4_096) as usize;
    let left = ballast.borrow().len().saturating_sub(footprint_pages);
    ballast.borrow_mut().truncate(left);
    steps.done(3).await;
    gate.open();
    let mut ended = 0;
    for client in clients {
        match client.await.expect("it does not panic") {
            Ok(()) => ended += 1,
            Err(error) => println!("a client: {error}"),
        }
    }
    assert!(waiting.get() > CLIENTS / WORKERS * 9 / 10, "{} waited, of {}", waiting.get(), CLIENTS / WORKERS);
    ended
}

#[test]
fn ten_thousand_clients_end_with_room_for_one_footprint_a_worker() {
    for seed in 0..3 {
        let simulation = Runtime::builder()
            .workers(WORKERS as usize)
            .memory(MemoryLimit::mib(32))
            .wait_timeout(Duration::from_secs(3_600))
            .simulate(&World::new(SimConfig::new(seed)))
            .expect("a simulation starts");
        let budget = Arc::clone(simulation.budget());
        let ended = simulation.block_on(async {
            let steps = Arc::new(Steps(AtomicU32::new(0)));
            let others = Arc::clone(&steps);
            let other = spawn_on(1, || half(others)).expect("room");
            half(steps).await + other.await.expect("no panic")
        });
        assert_eq!(ended, CLIENTS, "seed {seed}");
        assert!(budget.peak() <= budget.limit().as_bytes());
        assert!(simulation.shutdown().is_clean(), "seed {seed}");
        println!("figure: clients that ended, runtime {ended}.0 -");
    }
}
