//! What a worker calls between tasks, see `worker_tasks::run_soon`.

#![forbid(unsafe_code)]

mod support;

use std::cell::Cell;
use std::task::Waker;

use plimsoll_runtime::{spawn, worker_tasks, yield_now};
use support::{on_each, until};

thread_local! {
    static CALLED: Cell<u32> = const { Cell::new(0) };
}

fn count() {
    CALLED.set(CALLED.get() + 1);
}

/// Asks for itself once more, a few times.
fn count_and_ask() {
    count();
    if CALLED.get() < 5 {
        assert!(worker_tasks::run_soon(count_and_ask));
    }
}

fn count_and_panic() {
    count();
    panic!("a panic that is meant");
}

#[test]
fn what_is_asked_for_is_called_once_and_not_within_a_task() {
    on_each("between tasks", async || {
        CALLED.set(0);
        drop(spawn(async {
            for _ in 0..3 {
                assert!(worker_tasks::run_soon(count));
            }
            assert_eq!(CALLED.get(), 0, "not within the task");
            yield_now().await;
        })?);
        // Nothing else wakes the worker.
        until("it is called", || CALLED.get() > 0).await;
        assert_eq!(CALLED.get(), 1);
        assert!(worker_tasks::run_soon(count_and_ask));
        until("it is called as often as it asks", || CALLED.get() == 5).await;
        assert!(worker_tasks::run_soon(count_and_panic) && worker_tasks::run_soon(count));
        until("a panic ends nothing", || CALLED.get() == 7).await;
        Ok(())
    });
}

#[test]
fn what_is_left_at_the_end_is_called_there() {
    on_each("between tasks, at the end", async || {
        CALLED.set(0);
        assert!(worker_tasks::run_soon(count));
        Ok(())
    });
    // Of the last of the drivers.
    assert_eq!(CALLED.get(), 1);
    assert!(!worker_tasks::run_soon(count), "there is no worker any more");
}

#[test]
fn wakers_of_tasks_are_told_from_others() {
    on_each("wakers", async || {
        assert!(!worker_tasks::is_of_task(Waker::noop()));
        let task = core::future::poll_fn(|cx| core::task::Poll::Ready(worker_tasks::is_of_task(cx.waker())));
        assert!(spawn(task)?.await.expect("it ends"));
        Ok(())
    });
}
