//! What a request pays, piece by piece, each beside what one would take instead.
//!
//! `cargo bench -p plimsoll-benches --bench hot_paths`
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the macros of criterion make public items")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use plimsoll::Runtime;
use plimsoll_codec::h1::{self, FieldSlot, HeadSearch, Limits};
use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};
use plimsoll_slab::Slab;

const HEAD: &[u8] = b"GET /pipeline HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

fn pool(c: &mut Criterion) {
    let budget = Budget::new(MemoryLimit::mib(64));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("64 MiB are enough");
    let mut group = c.benchmark_group("buffer of 4 KiB");
    group.bench_function("lease, charged", |b| b.iter(|| black_box(pool.try_acquire(4_096, Kind::Buffers)).is_ok()));
    group.bench_function("system allocator", |b| b.iter(|| black_box(Vec::<u8>::with_capacity(4_096)).capacity()));
    group.finish();
}

fn slab(c: &mut Criterion) {
    let mut slab: Slab<[u64; 5]> = Slab::new(16);
    slab.grow(plimsoll_slab::HeapChunk::new()).unwrap_or_else(|_| unreachable!("16 chunks are allowed"));
    c.bench_function("slab: insert and remove", |b| {
        b.iter(|| {
            let key = slab.insert(black_box([7; 5])).expect("there is room");
            slab.remove(key)
        });
    });
}

fn head(c: &mut Criterion) {
    let mut group = c.benchmark_group("request head of 48 bytes");
    group.bench_function("search and parse, all framing rules", |b| {
        b.iter(|| {
            let mut slots = [FieldSlot::EMPTY; 16];
            let range = HeadSearch::default().search(black_box(HEAD), &Limits::DEFAULT).expect("valid").expect("whole");
            h1::parse_head(&HEAD[range], &mut slots, &Limits::DEFAULT).expect("valid").fields
        });
    });
    group.bench_function("httparse alone, no framing rules", |b| {
        b.iter(|| {
            let mut headers = [httparse::EMPTY_HEADER; 16];
            let mut request = httparse::Request::new(&mut headers);
            request.parse(black_box(HEAD)).expect("valid").is_complete()
        });
    });
    group.finish();
}

fn tasks(c: &mut Criterion) {
    let runtime = Runtime::builder().workers(1).build().expect("a runtime starts");
    c.bench_function("spawn, run and join 100 tasks", |b| {
        b.iter(|| {
            runtime.block_on(async {
                for at in 0..100_u32 {
                    let handle = plimsoll::spawn(async move { black_box(at) }).expect("there is room");
                    black_box(handle.await.expect("no panic"));
                }
            });
        });
    });
}

criterion_group!(benches, pool, slab, head, tasks);
criterion_main!(benches);
