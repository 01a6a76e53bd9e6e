//! Memory as a test wants it: all of it held but for what the test leaves, and how much somebody holds.

use core::time::Duration;

use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, Lease, pool, pool_stats, sleep};

/// Takes memory until there is no piece of `left` bytes any more.
pub(crate) fn fill(left: usize) -> Vec<Lease> {
    let mut held = Vec::new();
    let mut bytes = 128 * 1_024;
    while bytes >= left {
        match pool().try_acquire(bytes, Kind::Buffers) {
            Ok(lease) => held.push(lease),
            Err(_) => bytes /= 2,
        }
    }
    held
}

/// Takes all memory but for pieces of these sizes.
pub(crate) fn fill_but(pieces: &[usize]) -> Vec<Lease> {
    let acquire = |&bytes: &usize| pool().try_acquire(bytes, Kind::Buffers).expect("there is room yet");
    let spare: Vec<Lease> = pieces.iter().map(acquire).collect();
    let held = fill(1);
    drop(spare);
    held
}

/// Takes memory until it is as short as that.
pub(crate) async fn fill_to(level: Level) -> Vec<Lease> {
    let mut held = Vec::new();
    while pool().budget().level() < level {
        held.push(pool().try_acquire(128 * 1_024, Kind::Buffers).expect("the level changes before the line"));
        sleep(Duration::from_millis(1)).await;
    }
    held
}

/// Leases that somebody holds, by their bytes: buffers, and the entries and tasks that are in the pool, too.
fn held_leases() -> Vec<(u64, u64)> {
    let stats = pool_stats();
    stats.iter().flat_map(|stats| &stats.classes).map(|class| (class.class.bytes() as u64, class.live)).collect()
}

/// Bytes of the pool that somebody holds.
pub(crate) fn held_bytes() -> u64 {
    held_leases().into_iter().map(|(bytes, live)| bytes * live).sum()
}

/// The leases that are no page: tables grow by pages, and keep them for a while.
pub(crate) fn held_but_pages() -> Vec<(u64, u64)> {
    held_leases().into_iter().filter(|(bytes, _)| *bytes != PAGE_BYTES).collect()
}

/// What tables grow by.
pub(crate) const PAGE_BYTES: u64 = plimsoll_slab::CHUNK_BYTES as u64;
