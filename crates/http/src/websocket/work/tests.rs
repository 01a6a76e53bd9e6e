//! What is taken without a copy, and what is given back.
#![forbid(unsafe_code)]

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{MemoryLimit, Runtime, pool};

use super::*;
use crate::websocket::WebSocketConfig;

/// Takes all memory.
fn fill() -> Vec<Lease> {
    let sizes = [131_072, 16_384, 4_096, 2_048, 1_024, 512, 256, 128, 64];
    let acquire = |bytes| ::core::iter::from_fn(move || pool().try_acquire(bytes, Kind::Buffers).ok());
    sizes.into_iter().flat_map(acquire).collect()
}

#[test]
fn what_is_in_a_lease_already_needs_no_memory() {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&World::new(SimConfig::new(7)));
    runtime.expect("a simulation starts").block_on(async {
        let pool = pool();
        let mut work = Work::new(&Values::new(&WebSocketConfig::default(), None), PeerRecord::NEW);
        let [first, second] = [b'a', b'b'].map(|byte| pool.try_copy(&[byte; 5_000], Kind::Buffers).expect("room"));
        let (at, held) = (first.as_ptr(), fill());
        assert!(work.take(&pool, Bytes::Owned(first)).is_ok());
        assert_eq!(work.input.as_ref().map(|input| input.as_ptr()), Some(at), "it is not copied");
        let Err((_, second)) = work.take(&pool, Bytes::Owned(second)) else { panic!("there is no room for both") };
        assert_eq!(*second, [b'b'; 5_000], "it is given back");
        assert_eq!(work.input.as_deref(), Some(&[b'a'; 5_000][..]), "nothing has happened");
        drop(held);
        assert!(work.take(&pool, second).is_ok());
        let input = work.input.expect("both");
        assert!(input.len() == 10_000 && input[..5_000] == [b'a'; 5_000] && input[5_000..] == [b'b'; 5_000]);
    });
}
