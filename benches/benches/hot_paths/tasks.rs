//! Tasks from spawn to join, beside tokio's local ones.

use std::hint::black_box;

use criterion::{Criterion, Throughput};

/// Tasks for each time that is taken.
const TASKS: u32 = 100;

pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("spawn");
    group.throughput(Throughput::Elements(u64::from(TASKS)));
    let ours = crate::plimsoll();
    group.bench_function("one by one, plimsoll", |b| {
        b.iter(|| {
            ours.block_on(async {
                for at in 0..TASKS {
                    let task = plimsoll::spawn(async move { black_box(at) }).expect("there is room");
                    black_box(task.await.expect("no panic"));
                }
            });
        });
    });
    let (theirs, local) = (crate::tokio(), tokio::task::LocalSet::new());
    group.bench_function("one by one, tokio", |b| {
        b.iter(|| {
            local.block_on(&theirs, async {
                for at in 0..TASKS {
                    black_box(tokio::task::spawn_local(async move { black_box(at) }).await.expect("no panic"));
                }
            });
        });
    });
    group.bench_function("all, then joined, plimsoll", |b| {
        b.iter(|| {
            ours.block_on(async {
                let spawn = |at| plimsoll::spawn(async move { black_box(at) }).expect("there is room");
                let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
                for task in tasks {
                    black_box(task.await.expect("no panic"));
                }
            });
        });
    });
    group.bench_function("all, then joined, tokio", |b| {
        b.iter(|| {
            local.block_on(&theirs, async {
                let spawn = |at| tokio::task::spawn_local(async move { black_box(at) });
                let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
                for task in tasks {
                    black_box(task.await.expect("no panic"));
                }
            });
        });
    });
    group.finish();
}
