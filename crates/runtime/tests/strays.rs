//! What outlives its runtime, and what other people's code does to a worker: wakers that panic, things that are dropped
//! late.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use plimsoll_runtime::net::{Table, TableConfig, TcpListener};
use plimsoll_runtime::{
    DriverChoice, Error, Kind, MemoryLimit, Runtime, Spawner, fs, signal, sleep, spawn, spawn_on, yield_now,
};

/// Runs a test on each driver that works here.
fn on_each(name: &str, workers: usize, test: impl Fn(Runtime)) {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        match Runtime::builder().workers(workers).memory(MemoryLimit::mib(32)).driver(choice).build() {
            Ok(runtime) => test(runtime),
            Err(error) => {
                assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}");
                println!("skipped: {name} on io_uring: {error}");
            }
        }
    }
}

#[test]
fn what_outlives_its_runtime_is_closed_when_it_is_dropped() {
    on_each("what outlives its runtime", 1, |runtime| {
        let (listener, stream, mut peer, rest) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let peer = std::net::TcpStream::connect(listener.local_addr()).expect("it listens");
            let (mut stream, _) = listener.accept().await.expect("a connection waits");
            let table = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let table = Table::<u64>::new(table, TableConfig::default()).expect("there is room");
            let file = fs::File::open("/proc/self/stat").await.expect("it is there");
            let task = spawn(sleep(Duration::from_secs(3_600))).expect("there is room");
            let mut late = sleep(Duration::from_secs(3_600));
            let lease = plimsoll_runtime::pool().try_copy(b"bytes", Kind::Buffers).expect("there is room");
            {
                // The receive and the timer are armed when the runtime ends.
                let mut receive = pin!(stream.recv());
                poll_fn(|cx| {
                    assert!(receive.as_mut().poll(cx).is_pending() && Pin::new(&mut late).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            (listener, stream, peer, (table, file, task, late, lease))
        });
        let address = listener.local_addr();
        runtime.shutdown();
        assert_eq!(&rest.4[..], b"bytes");
        drop((listener, stream, rest));
        assert_eq!(peer.read(&mut [0; 8]).expect("no reset: nothing was left unread"), 0, "the stream was closed");
        assert!(std::net::TcpStream::connect(address).is_err(), "the listener was closed");
    });
}

/// A waker whose last reference panics when it goes, or when it is woken.
struct Bomb(&'static str);

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        if self.0 == "wake" {
            panic!("a waker panics when it is woken");
        }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 == "drop" && !std::thread::panicking() {
            panic!("a waker panics when it is dropped");
        }
    }
}

fn bomb(when: &'static str) -> Waker {
    Waker::from(Arc::new(Bomb(when)))
}

/// Polls once with a waker that is gone afterwards but for what the future keeps of it.
fn poll_with<F: Future>(future: Pin<&mut F>, waker: Waker) -> Poll<F::Output> {
    let polled = future.poll(&mut Context::from_waker(&waker));
    if polled.is_ready() {
        // Nobody else has it: it may not go off here.
        core::mem::forget(waker);
    }
    polled
}

#[test]
fn a_waker_that_panics_loses_no_bytes() {
    on_each("wakers that panic", 1, |runtime| {
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            {
                let mut accept = pin!(listener.accept());
                assert!(poll_with(accept.as_mut(), bomb("drop")).is_pending());
                let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    poll_with(accept.as_mut(), Waker::noop().clone())
                }));
                assert!(replaced.is_err(), "the waker before panics when it is replaced");
            }
            let mut peer = std::net::TcpStream::connect(listener.local_addr()).expect("it listens");
            let (mut stream, _) = listener.accept().await.expect("the connection was not lost");
            {
                let mut receive = pin!(stream.recv());
                assert!(poll_with(receive.as_mut(), bomb("drop")).is_pending());
                let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    poll_with(receive.as_mut(), Waker::noop().clone())
                }));
                assert!(replaced.is_err(), "the waker before panics when it is replaced");
            }
            peer.write_all(b"not lost").expect("the peer sends");
            let received = stream.recv().await.expect("it works on").expect("the bytes come");
            assert_eq!(&received[..], b"not lost");
        });
        let report = runtime.shutdown();
        assert!(report.is_clean() && report.in_flight == 0, "{report}");
    });
}

#[test]
fn a_worker_survives_wakers_that_panic() {
    on_each("a worker and wakers that panic", 2, |runtime| {
        runtime.block_on(async {
            let armed = Arc::new(AtomicUsize::new(0));
            let on_worker = |worker| {
                let armed = Arc::clone(&armed);
                spawn_on(worker, move || async move {
                    let mut timer = Box::pin(sleep(Duration::from_millis(1)));
                    assert!(poll_with(timer.as_mut(), bomb("wake")).is_pending());
                    let mut stop = Box::pin(signal::stopped());
                    assert!(poll_with(stop.as_mut(), bomb("wake")).is_pending());
                    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
                    let peer = std::net::TcpStream::connect(listener.local_addr()).expect("it listens");
                    let (mut stream, _) = listener.accept().await.expect("a connection waits");
                    drop(peer);
                    {
                        let mut receive = pin!(stream.recv());
                        assert!(poll_with(receive.as_mut(), bomb("wake")).is_pending());
                    }
                    timer.await;
                    assert!(stream.recv().await.expect("no error").is_none(), "the end came");
                    armed.fetch_add(1, Ordering::SeqCst);
                    signal::stopped().await;
                    drop(stop);
                })
                .expect("the worker exists")
            };
            let tasks = [on_worker(0), on_worker(1)];
            while armed.load(Ordering::SeqCst) < 2 {
                sleep(Duration::from_millis(1)).await;
            }
            Spawner::current().stop();
            for task in tasks {
                task.await.expect("the worker lives");
            }
        });
        let report = runtime.shutdown();
        assert!(report.is_clean() && report.in_flight == 0, "{report}");
    });
}

#[test]
fn waiting_for_the_stop_keeps_nothing() {
    struct Counted(Arc<AtomicUsize>);
    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    on_each("waiting for the stop", 1, |runtime| {
        runtime.block_on(async {
            let woken = Arc::new(AtomicUsize::new(0));
            let counted = Arc::new(Counted(Arc::clone(&woken)));
            for _ in 0..100 {
                let mut stop = pin!(signal::stopped());
                assert!(poll_with(stop.as_mut(), Waker::from(Arc::clone(&counted))).is_pending());
            }
            assert_eq!(Arc::strong_count(&counted), 1, "a wait that was given up keeps no waker");
            let mut stop = pin!(signal::stopped());
            for _ in 0..3 {
                assert!(poll_with(stop.as_mut(), Waker::from(Arc::clone(&counted))).is_pending());
            }
            Spawner::current().stop();
            yield_now().await;
            assert_eq!(woken.load(Ordering::SeqCst), 1, "who still waits is woken once");
            assert!(poll_with(stop.as_mut(), Waker::noop().clone()).is_ready());
            signal::stopped().await;
        });
        assert!(runtime.shutdown().is_clean());
    });
}

#[test]
fn who_waits_for_a_worker_that_has_ended_is_told() {
    on_each("a worker that has ended", 2, |runtime| {
        let (spawner, pending) = runtime.block_on(async {
            let spawner = Spawner::current();
            (spawner.clone(), spawner.spawn_on(1, core::future::pending::<()>).expect("the worker exists"))
        });
        runtime.shutdown();
        let told = poll_with(pin!(pending), Waker::noop().clone());
        assert!(matches!(told, Poll::Ready(Err(Error::ShuttingDown))), "its future was dropped");
        assert!(matches!(spawner.spawn_on(0, || async {}), Err(Error::ShuttingDown)));
    });
}
