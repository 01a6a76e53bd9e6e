//! Leases, beside the system's allocator, which charges nobody.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use plimsoll_pool::{Budget, Kind, MemoryLimit, Pool, PoolConfig};

/// Held at a time where more than one is.
const BURST: usize = 16;

pub(crate) fn bench(c: &mut Criterion) {
    let budget = Budget::new(MemoryLimit::mib(64));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("64 MiB are enough");
    let mut group = c.benchmark_group("pool");
    for bytes in [64, 512, 4_096, 16_384] {
        group.bench_function(format!("{bytes} bytes, lease"), |b| {
            b.iter(|| black_box(pool.try_acquire(black_box(bytes), Kind::Buffers)).is_ok());
        });
        group.bench_function(format!("{bytes} bytes, system allocator"), |b| {
            b.iter(|| black_box(Vec::<u8>::with_capacity(black_box(bytes))).capacity());
        });
    }
    group.throughput(Throughput::Elements(BURST as u64));
    let mut leases = Vec::with_capacity(BURST);
    group.bench_function("16 of 1,024 bytes together, leases", |b| {
        b.iter(|| {
            leases.extend((0..BURST).filter_map(|_| pool.try_acquire(black_box(1_024), Kind::Buffers).ok()));
            leases.clear();
        });
    });
    let mut buffers = Vec::with_capacity(BURST);
    group.bench_function("16 of 1,024 bytes together, system allocator", |b| {
        b.iter(|| {
            buffers.extend((0..BURST).map(|_| Vec::<u8>::with_capacity(black_box(1_024))));
            black_box(&buffers);
            buffers.clear();
        });
    });
    group.finish();
}
