//! From a wake to the poll, beside tokio's runtime. What passes the wakes on is the same on both: tokio's `Notify`,
//! which knows no runtime.

use std::rc::Rc;

use criterion::{Criterion, Throughput};
use tokio::sync::Notify;

/// Wakes for each time that is taken.
const WAKES: u64 = 1_000;

pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("wakes");
    let (ours, theirs) = (crate::plimsoll(), crate::tokio());
    group.throughput(Throughput::Elements(WAKES));
    group.bench_function("a task wakes another, plimsoll", |b| {
        b.iter(|| {
            ours.block_on(async {
                let (here, there) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
                let task = plimsoll::spawn(answer(Rc::clone(&here), Rc::clone(&there))).expect("there is room");
                call(&here, &there).await;
                task.await.expect("no panic");
            });
        });
    });
    let local = tokio::task::LocalSet::new();
    group.bench_function("a task wakes another, tokio", |b| {
        b.iter(|| {
            local.block_on(&theirs, async {
                let (here, there) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
                let task = tokio::task::spawn_local(answer(Rc::clone(&here), Rc::clone(&there)));
                call(&here, &there).await;
                task.await.expect("no panic");
            });
        });
    });
    group.throughput(Throughput::Elements(1));
    group.bench_function("another thread wakes a task, plimsoll", |b| {
        b.iter(|| ours.block_on(async { plimsoll::spawn_blocking(|| ()).await.expect("there is room") }));
    });
    group.bench_function("another thread wakes a task, tokio", |b| {
        b.iter(|| theirs.block_on(async { tokio::task::spawn_blocking(|| ()).await.expect("no panic") }));
    });
    group.finish();
}

/// Wakes the other one, and waits for it.
async fn call(here: &Notify, there: &Notify) {
    for _ in 0..WAKES / 2 {
        there.notify_one();
        here.notified().await;
    }
}

/// Waits for the other one, and wakes it.
async fn answer(here: Rc<Notify>, there: Rc<Notify>) {
    for _ in 0..WAKES / 2 {
        there.notified().await;
        here.notify_one();
    }
}
