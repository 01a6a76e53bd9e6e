//! The end of a runtime whose worker, blocking call or destructor does not come back: it has a deadline, names who is
//! late, and takes nothing from them. What they hold comes home when they return.
//!
//! What blocks waits for a gate that a test opens when the shutdown has returned. Were there no deadline, the gate
//! would give up after a minute, and the report would name nobody.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc;

use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{
    Budget, DriverChoice, MemoryLimit, Report, Runtime, Spawner, sleep, spawn, spawn_blocking, spawn_on, yield_now,
};

/// How long anything may take that does not depend on a deadline of the runtime.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the runtimes here wait for what does not end. Whoever can end does so long before, on a slow machine too.
const DRAIN: Duration = Duration::from_secs(4);

/// Blocks a thread until it is opened.
struct Gate(mpsc::Receiver<()>);

impl Gate {
    fn new() -> (mpsc::Sender<()>, Self) {
        let (open, gate) = mpsc::channel();
        (open, Self(gate))
    }

    /// Says that it blocks, and does.
    fn block(self, blocks: &mpsc::Sender<()>) {
        blocks.send(()).expect("the test waits");
        let _opened = self.0.recv_timeout(TIMEOUT);
    }
}

fn runtime(driver: DriverChoice, workers: usize) -> Runtime {
    let builder = Runtime::builder().workers(workers).memory(MemoryLimit::mib(64)).container(None).driver(driver);
    builder.drain_timeout(DRAIN).stall_limit(None).build().expect("a runtime starts")
}

fn on_each_driver(test: impl Fn(DriverChoice)) {
    [DriverChoice::Auto, DriverChoice::Mio].into_iter().for_each(test);
}

/// What is left when everybody has come back: nothing.
fn all_comes_home(budget: &Arc<Budget>) {
    let begun = std::time::Instant::now();
    while budget.charged() > 0 {
        assert!(begun.elapsed() < TIMEOUT, "{} bytes are not given back", budget.charged());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn check(report: &Report, workers: &[usize], calls: u32) {
    assert_eq!((report.blocked_workers.as_slice(), report.blocked_calls), (workers, calls));
    assert!(!report.is_clean());
    let beside_fixed = report.charged_bytes - report.fixed_bytes;
    assert!(beside_fixed > 0 && report.leaked_bytes >= beside_fixed, "{report}");
    let text = report.to_string();
    let [named, last] = text.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {text}") };
    assert_eq!(named, format!("did not end: workers={workers:?} blocking_calls={calls}"));
    assert!(last.starts_with("memory charged="));
}

/// Blocks a worker by a poll, until the gate opens; the test goes on when it does.
async fn block_worker(worker: usize, gate: Gate) {
    let (blocks, blocked) = mpsc::channel();
    drop(spawn_on(worker, move || async move { gate.block(&blocks) }).expect("the worker takes it"));
    spawn_blocking(move || blocked.recv_timeout(TIMEOUT).expect("it comes to block")).await.expect("it ran");
}

#[test]
fn a_worker_whose_poll_blocks_is_named() {
    on_each_driver(|driver| {
        let runtime = runtime(driver, 3);
        let (open, gate) = Gate::new();
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(block_worker(2, gate));
        let report = runtime.shutdown();
        check(&report, &[2], 0);
        drop(open);
        all_comes_home(&budget);
    });
}

#[test]
fn dropping_a_runtime_waits_no_longer() {
    on_each_driver(|driver| {
        let runtime = runtime(driver, 2);
        let (open, gate) = Gate::new();
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(block_worker(1, gate));
        drop(runtime);
        assert!(budget.charged() > 0, "the worker has not ended");
        open.send(()).expect("it waits still");
        all_comes_home(&budget);
    });
}

#[test]
fn a_blocking_call_that_does_not_return_is_counted() {
    on_each_driver(|driver| {
        let runtime = runtime(driver, 2);
        let (open, gate) = Gate::new();
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(async {
            let (blocks, blocked) = mpsc::channel();
            let call = spawn(spawn_blocking(move || gate.block(&blocks))).expect("there is room");
            // Others run and end; idle threads are no calls.
            for _ in 0..4 {
                spawn_blocking(|| ()).await.expect("it ran");
            }
            spawn_blocking(move || blocked.recv_timeout(TIMEOUT).expect("it comes to block")).await.expect("it ran");
            drop(call);
        });
        let report = runtime.shutdown();
        check(&report, &[], 1);
        open.send(()).expect("it waits still");
        all_comes_home(&budget);
    });
}

#[test]
fn a_destructor_that_blocks_its_worker_is_named() {
    struct Blocks(Option<Gate>, mpsc::Sender<()>);
    impl Drop for Blocks {
        fn drop(&mut self) {
            self.0.take().expect("dropped once").block(&self.1);
        }
    }
    on_each_driver(|driver| {
        let runtime = runtime(driver, 2);
        let (open, gate) = Gate::new();
        let (blocks, blocked) = mpsc::channel();
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(async {
            let started = spawn_on(1, move || async move {
                let blocks = Blocks(Some(gate), blocks);
                drop(spawn(async move {
                    core::future::pending::<()>().await;
                    drop(blocks);
                }));
            });
            started.expect("the worker takes it").await.expect("it has started");
        });
        let report = runtime.shutdown();
        blocked.recv().expect("its destructor has run");
        check(&report, &[1], 0);
        open.send(()).expect("it waits still");
        all_comes_home(&budget);
    });
}

/// The worker comes back to a runtime that is gone, and uses whatever it had of it.
#[test]
fn a_late_worker_still_has_what_it_uses() {
    on_each_driver(|driver| {
        let runtime = runtime(driver, 2);
        let (open, gate) = Gate::new();
        let (blocks, blocked) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let budget = Arc::clone(runtime.budget());
        runtime.block_on(async {
            // A waker of worker 0's, a connection, buffers, timers and tasks of its own.
            let waker = core::future::poll_fn(|cx| core::task::Poll::Ready(cx.waker().clone())).await;
            let kept = spawn_task_waker().await;
            let task = spawn_on(1, move || async move {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let mut client = TcpStream::connect(listener.local_addr()).await.expect("it listens");
                let (mut server, _) = listener.accept().await.expect("it has connected");
                client.send_static(b"before").await.expect("it is open");
                let mut timer = Box::pin(sleep(Duration::from_millis(1)));
                drop(spawn(sleep(TIMEOUT)));
                gate.block(&blocks);
                waker.wake_by_ref();
                kept.wake();
                drop(waker);
                let refused = Spawner::current().spawn_on(0, || async {});
                tell.send(refused.is_err()).expect("the test waits");
                // This is the last poll: none of these is ready in it, or all are what they would have been.
                let received = timer_and_bytes(&mut timer, &mut server);
                core::future::poll_fn(received).await;
                unreachable!("the worker ends after this poll");
            });
            drop(task.expect("the worker takes it"));
            spawn_blocking(move || blocked.recv_timeout(TIMEOUT).expect("it comes to block")).await.expect("it ran");
        });
        let report = runtime.shutdown();
        check(&report, &[1], 0);
        open.send(()).expect("it waits still");
        assert!(told.recv_timeout(TIMEOUT).expect("it goes on"), "nothing is started any more");
        all_comes_home(&budget);
    });
}

/// The waker of a task of this worker that lives until the end.
async fn spawn_task_waker() -> core::task::Waker {
    let (give, given) = mpsc::channel();
    drop(spawn(core::future::poll_fn(move |cx| {
        let _nobody_waits = give.send(cx.waker().clone());
        core::task::Poll::<()>::Pending
    })));
    yield_now().await;
    given.recv_timeout(TIMEOUT).expect("it was polled")
}

/// Polls a timer and a receive, and is never ready.
fn timer_and_bytes<'a>(
    timer: &'a mut core::pin::Pin<Box<plimsoll_runtime::Sleep>>,
    server: &'a mut TcpStream,
) -> impl FnMut(&mut core::task::Context<'_>) -> core::task::Poll<()> + 'a {
    move |cx| {
        let _due_or_not = timer.as_mut().poll(cx);
        let _there_or_not = core::pin::pin!(server.recv()).as_mut().poll(cx);
        core::task::Poll::Pending
    }
}

/// The inner runtime's worker waits for something that only the outer worker could do, which is busy ending the inner
/// one.
#[test]
fn a_runtime_that_is_dropped_within_another_one_waits_no_longer() {
    on_each_driver(|driver| {
        let (outer, inner) = (runtime(driver, 1), runtime(driver, 2));
        let (open, gate) = Gate::new();
        inner.block_on(block_worker(1, gate));
        let inner_budget = outer.block_on(async {
            drop(spawn(async move { open.send(()).expect("it waits still") }));
            let budget = Arc::clone(inner.budget());
            drop(inner);
            assert!(budget.charged() > 0, "its worker has not ended");
            // The outer one goes on as if nothing had been.
            sleep(Duration::from_millis(1)).await;
            budget
        });
        all_comes_home(&inner_budget);
        let report = outer.shutdown();
        assert!(report.is_clean(), "{report}");
    });
}

/// A poll that blocks for long, but returns in time, is no failure; nor is a timeout that has passed before the end is
/// asked for.
#[test]
fn whoever_comes_in_time_is_waited_for() {
    on_each_driver(|driver| {
        let builder = Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).container(None).driver(driver);
        let runtime = builder.drain_timeout(TIMEOUT).stall_limit(None).build().expect("a runtime starts");
        let (open, gate) = Gate::new();
        let opener = runtime.block_on(async {
            block_worker(1, gate).await;
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(200));
                open.send(()).expect("it waits still");
            })
        });
        let report = runtime.shutdown();
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.to_string().lines().count(), 1);
        opener.join().expect("it did not panic");
    });
}
