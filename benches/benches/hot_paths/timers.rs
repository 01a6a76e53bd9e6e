//! Timers that do not fire, as nearly all of a server's, beside tokio's.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use criterion::{Criterion, Throughput};

/// Timers that are armed at a time.
const ARMED: u64 = 1_000;

pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("timers");
    group.throughput(Throughput::Elements(ARMED));
    let ours = crate::plimsoll();
    group.bench_function("armed and dropped one by one, plimsoll", |b| {
        b.iter(|| ours.block_on(one_by_one(plimsoll::sleep)));
    });
    let theirs = crate::tokio();
    group.bench_function("armed and dropped one by one, tokio", |b| {
        b.iter(|| theirs.block_on(one_by_one(tokio::time::sleep)));
    });
    group.bench_function("a thousand armed, then dropped, plimsoll", |b| {
        b.iter(|| ours.block_on(all_together(plimsoll::sleep)));
    });
    group.bench_function("a thousand armed, then dropped, tokio", |b| {
        b.iter(|| theirs.block_on(all_together(tokio::time::sleep)));
    });
    group.finish();
}

async fn one_by_one<S: Future>(sleep: fn(Duration) -> S) {
    for number in 0..ARMED {
        let mut timer = pin!(sleep(due(number)));
        arm(timer.as_mut()).await;
    }
}

async fn all_together<S: Future>(sleep: fn(Duration) -> S) {
    let mut timers: Vec<_> = (0..ARMED).map(|number| Box::pin(sleep(due(number)))).collect();
    for timer in &mut timers {
        arm(timer.as_mut()).await;
    }
}

/// A first poll arms a timer.
async fn arm<S: Future>(mut timer: Pin<&mut S>) {
    poll_fn(|cx| {
        assert!(timer.as_mut().poll(cx).is_pending(), "it is not due for a minute");
        Poll::Ready(())
    })
    .await;
}

/// Between one and two minutes.
fn due(number: u64) -> Duration {
    Duration::from_secs(60) + Duration::from_millis(number * 7 % 60_000)
}
