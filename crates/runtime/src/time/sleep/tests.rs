//! A sleep is ready at its time, and keeps the place of its timer exactly as long as it may look at it.
#![forbid(unsafe_code)]

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use plimsoll_reactor::sim::{SimConfig, World};

use super::{Sleep, interval, sleep, sleep_until, timeout};
use crate::worker::Worker;
use crate::{Error, Report, Runtime, now};

const TICK: Duration = Duration::from_millis(10);

fn simulate(body: impl AsyncFnOnce()) -> Report {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().simulate(&world).expect("a simulation starts");
    simulation.block_on(body());
    simulation.shutdown()
}

fn timers() -> usize {
    Worker::with_current(|worker| worker.timers.borrow().len())
}

/// Polls for a task that is never woken.
fn poll(sleep: &mut Sleep) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_timer_is_let_go_by_the_poll_that_finds_it_fired_by_a_reset_and_by_a_drop() {
    let report = simulate(async || {
        let mut sleeps: Vec<Sleep> = (0..3).map(|_| sleep(TICK)).collect();
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
        assert_eq!(timers(), 3);
        sleep(2 * TICK).await;
        assert_eq!(timers(), 3, "they have fired, and nobody has looked");
        let [mut polled, mut reset, dropped] = sleeps.try_into().expect("three");
        assert!(poll(&mut polled).is_ready() && poll(&mut polled).is_ready());
        assert_eq!(timers(), 2);
        drop(dropped);
        assert_eq!(timers(), 1);
        reset.reset(now() + TICK);
        assert_eq!(timers(), 0);
        assert!(poll(&mut reset).is_pending());
        assert_eq!(timers(), 1);
        poll_fn(|cx| Pin::new(&mut reset).poll(cx)).await;
        assert_eq!(timers(), 0);
    });
    assert!(report.is_clean(), "{report}");
}

/// Were the timers of sleeps that fired not let go, they would be one more in each round.
#[test]
fn a_sleep_that_is_used_again_and_again_has_one_timer() {
    let report = simulate(async || {
        let mut again = sleep(TICK);
        for round in 0..1_000 {
            poll_fn(|cx| Pin::new(&mut again).poll(cx)).await;
            again.reset(now() + TICK);
            assert!(poll(&mut again).is_pending());
            if round % 2 == 0 {
                sleep(2 * TICK).await;
                again.reset(now() + TICK);
            }
            assert!(timers() <= 1);
        }
    });
    assert!(report.is_clean(), "{report}");
}

/// Time passes only while all wait, so what is late and by how much is exact.
#[test]
fn ticks_that_were_missed_are_skipped_and_the_rhythm_is_kept() {
    let report = simulate(async || {
        let start = now();
        let mut ticks = interval(TICK);
        assert_eq!((ticks.tick().await, now()), (start, start), "the first at once");
        for (wait, due, then) in [(0, 1, 1), (TICK.as_millis(), 2, 2), (35, 3, 5), (30, 6, 8), (0, 9, 9)] {
            sleep(Duration::from_millis(wait as u64)).await;
            assert_eq!(ticks.tick().await, start + due * TICK, "due");
            assert!(now() >= start + then * TICK && now() < start + (then + 1) * TICK, "{:?}", now() - start);
        }
        assert_eq!((ticks.tick().await, now()), (start + 10 * TICK, start + 10 * TICK));
    });
    assert!(report.is_clean(), "{report}");
}

#[test]
#[should_panic(expected = "an interval needs a period")]
fn an_interval_of_no_time_is_a_mistake() {
    simulate(async || drop(interval(Duration::ZERO)));
}

#[test]
fn a_timeout_is_over_at_its_time_and_a_future_that_is_ready_wins() {
    let report = simulate(async || {
        let start = now();
        let late = timeout(TICK, sleep(2 * TICK)).await;
        assert!(matches!(late, Err(Error::TimedOut)) && now() == start + TICK);
        assert!(timeout(Duration::ZERO, async {}).await.is_ok());
        assert!(timeout(TICK, sleep(TICK)).await.is_ok() && now() == start + 2 * TICK);
        assert_eq!(timers(), 0, "what was dropped is gone");
    });
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_sleep_until_an_instant_is_ready_at_it_or_at_once() {
    let report = simulate(async || {
        let (past, deadline) = (now(), now() + TICK);
        let mut sleep = sleep_until(deadline);
        assert_eq!(sleep.deadline(), deadline);
        poll_fn(|cx| Pin::new(&mut sleep).poll(cx)).await;
        assert_eq!(now(), deadline);
        assert!(poll(&mut sleep_until(deadline)).is_ready() && poll(&mut sleep_until(past)).is_ready());
        sleep.reset(deadline + TICK);
        assert_eq!(sleep.deadline(), deadline + TICK);
        sleep.await;
        assert_eq!(now(), deadline + TICK);
    });
    assert!(report.is_clean(), "{report}");
}
