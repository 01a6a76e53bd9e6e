//! The limits of the table of operations, crossed.
#![forbid(unsafe_code)]

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};

use super::*;
use crate::fd::Number;
use crate::op::Interest;

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(8)), PoolConfig::default()).unwrap()
}

fn op() -> Op<'static> {
    Op::Poll { fd: Number::from_raw(7), interest: Interest::Readable }
}

fn raw(key: Key) -> Raw {
    Raw { key, result: Ok(0), received: None }
}

fn send() -> Op<'static> {
    Op::Send { fd: Number::from_raw(7), bytes: SendBytes::Static(b"an answer") }
}

/// The table is full before the budget is: the operation comes back, nothing more is charged, and there is room again
/// when one has ended. The last slots are for sends.
#[test]
fn a_full_table_refuses_and_goes_on() {
    const CHUNKS: u32 = 2;
    let pool = pool();
    let mut slots = Slots::with_chunks_max(CHUNKS);
    let entries = CHUNKS * Slab::<Slot, PoolPage>::ENTRIES_PER_CHUNK;
    let others = entries - SLOTS_FOR_SENDS as u32;
    let mut keys: Vec<Key> = (0..others).map(|at| slots.insert(&pool, op(), Token(at)).unwrap()).collect();
    assert!(slots.insert(&pool, op(), Token(0)).is_err(), "what is left is for sends");
    keys.extend((others..entries).map(|at| slots.insert(&pool, send(), Token(at)).unwrap()));
    let mut charged = Vec::new();
    for _ in 0..3 {
        let Err((_, Op::Send { fd, .. })) = slots.insert(&pool, send(), Token(0)) else { panic!("it is full") };
        assert_eq!(fd.raw(), 7, "as it was");
        charged.push(pool.budget().charged());
    }
    assert_eq!(slots.len(), entries as usize);
    assert!(
        charged.iter().all(|bytes| *bytes == charged[0]),
        "the page that was not taken goes back to the pool: {charged:?}"
    );
    let last = *keys.last().unwrap();
    let Some(Finished::Completed(completion)) = slots.finish(raw(last)) else { panic!("it was in flight") };
    assert_eq!(completion.token, Token(entries - 1));
    assert!(slots.finish(raw(last)).is_none(), "once");
    let again = slots.insert(&pool, send(), Token(9)).unwrap();
    assert_eq!(again.index(), last.index());
    assert_ne!(again, last, "of another generation");
}

/// A page that is unused goes, unless the sends would have too few slots without it: it would be taken again for the
/// next operation.
#[test]
fn the_page_kept_for_sends_is_not_spare() {
    const PAGE_SLOTS: usize = Slab::<Slot, PoolPage>::ENTRIES_PER_CHUNK as usize;
    let pool = pool();
    let mut slots = Slots::new();
    let mut keys: Vec<Key> = (0..=PAGE_SLOTS).map(|_| slots.insert(&pool, op(), Token(0)).unwrap()).collect();
    assert_eq!(slots.table_bytes(), 2 * plimsoll_slab::CHUNK_BYTES as u64);
    slots.finish(raw(keys.pop().unwrap())).unwrap();
    while keys.len() + SLOTS_FOR_SENDS > PAGE_SLOTS {
        assert!(!slots.has_empty_page() && !slots.release_page(), "with {} in flight", keys.len());
        slots.finish(raw(keys.pop().unwrap())).unwrap();
    }
    assert!(slots.has_empty_page() && slots.release_page());
    assert!(!slots.has_empty_page() && !slots.release_page(), "some are in flight");
    for key in keys {
        slots.finish(raw(key)).unwrap();
    }
    assert!(slots.release_page(), "an empty table keeps nothing");
    assert_eq!(slots.table_bytes(), 0);
}

#[test]
fn links_reach_to_their_limit() {
    for index in [0, 1, 255, 256, 65_535, 65_536, Link::INDEX_END - 1] {
        assert_eq!(Link::to(index).index(), Some(index));
    }
    assert_eq!(Link::NONE.index(), None);
}
