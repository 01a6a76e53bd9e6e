//! A sleep keeps the place of its timer exactly as long as it may look at it.
#![forbid(unsafe_code)]

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use plimsoll_reactor::sim::{SimConfig, World};

use super::{Sleep, sleep};
use crate::worker::Worker;
use crate::{Report, Runtime, now};

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
