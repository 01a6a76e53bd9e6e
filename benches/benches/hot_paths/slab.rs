//! The table of connections and of operations, beside the slab crate, which has no generations: an old key finds the
//! new value there.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use plimsoll_slab::{HeapChunk, Slab};

/// As large as an entry of the connection table.
type Value = [u64; 7];

const VALUE: Value = [7; 7];
/// As many as are looked up in turns.
const LIVE: usize = 4_096;

pub(crate) fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("slab");
    let (mut ours, mut theirs) = (with_room(1), slab::Slab::with_capacity(16));
    group.bench_function("insert and remove, plimsoll-slab", |b| {
        b.iter(|| {
            let key = ours.insert(black_box(VALUE)).expect("there is room");
            ours.remove(key)
        });
    });
    group.bench_function("insert and remove, slab crate", |b| {
        b.iter(|| {
            let key = theirs.insert(black_box(VALUE));
            theirs.remove(key)
        });
    });
    group.throughput(Throughput::Elements(LIVE as u64));
    let mut ours = with_room(LIVE);
    let keys: Vec<_> = (0..LIVE).map(|_| ours.insert(VALUE).expect("there is room")).collect();
    group.bench_function("look up, plimsoll-slab", |b| {
        b.iter(|| keys.iter().filter_map(|&key| ours.get(black_box(key))).map(|value| value[0]).sum::<u64>());
    });
    let mut theirs = slab::Slab::with_capacity(LIVE);
    let keys: Vec<_> = (0..LIVE).map(|_| theirs.insert(VALUE)).collect();
    group.bench_function("look up, slab crate", |b| {
        b.iter(|| keys.iter().filter_map(|&key| theirs.get(black_box(key))).map(|value| value[0]).sum::<u64>());
    });
    group.finish();
}

/// An empty slab with room for so many values.
fn with_room(values: usize) -> Slab<Value> {
    let mut slab = Slab::new(1_024);
    while slab.capacity() < values {
        slab.grow(HeapChunk::new()).unwrap_or_else(|_| unreachable!("1,024 chunks are allowed"));
    }
    slab
}
