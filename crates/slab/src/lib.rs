//! A generational slab in chunks that its caller hands in and gets back.
//!
//! A [`Slab`] is a table of values addressed by [`Key`]s. It differs from the usual slab in who owns the memory: the
//! slab never allocates room for values. When it has none left it says so, and its caller hands in a [`Chunk`] of
//! [`CHUNK_BYTES`] that was paid for from a budget; when the load is over, the caller takes empty chunks back with
//! [`Slab::release_empty`]. So every byte of a connection table, or of a table of operations in flight, can be charged
//! before it is touched.
//!
//! ```text
//!   directory (heap, one entry per chunk)          chunks (the caller's memory, 4096 bytes each)
//!  +-------------------------------------+        +--------------------------+---------------+----+
//!  | chunk 0 | free 0..0110 | generation |------->| N values                 | N generations |    |
//!  | hole    | free 0..0000 | generation |        +--------------------------+---------------+----+
//!  | chunk 2 | free 1..1111 | generation |------->| N values                 | N generations |    |
//!  +-------------------------------------+        +--------------------------+---------------+----+
//!   sets of chunk numbers: room {0, 2}, empty {2}, holes {1}
//! ```
//!
//! * **Lowest first.** An insertion takes the lowest free index, so that the live values gather at the bottom and the
//!   chunks above them become empty and can be given back.
//! * **Stale keys fail.** Each insertion gets a generation from a counter of its chunk. The counter stays in the
//!   directory when the chunk goes, so keys from before a release fail after it too. See [`Key`] for the limit.
//! * **Values stay put.** A value does not move from its insertion to its removal.
//! * **Dense.** Generations lie in an array of their own behind the values: no padding between values, and a page
//!   holds as many as fit, up to 128.
//!
//! The only heap memory of a slab is the directory: at most [`Slab::directory_bytes_max`], for which a caller under a
//! budget reserves once.
//!
//! # Example
//!
//! ```
//! use plimsoll_slab::{HeapChunk, Slab};
//!
//! let mut slab: Slab<&str> = Slab::new(16);
//! assert!(slab.vacant().is_none(), "a new slab has no room: its caller provides it");
//! slab.grow(HeapChunk::new()).expect("below 16 chunks");
//!
//! // The key is known before the value, so a value can contain it.
//! let vacant = slab.vacant().expect("there is a fresh chunk");
//! let key = vacant.key();
//! assert_eq!(vacant.insert("in flight"), key);
//!
//! assert_eq!(slab.get(key), Some(&"in flight"));
//! assert_eq!(slab.remove(key), Some("in flight"));
//! assert_eq!(slab.get(key), None, "stale");
//!
//! let chunk = slab.release_empty().expect("nothing lives in it");
//! drop(chunk);
//! assert_eq!(slab.capacity(), 0);
//! ```

mod chunk;
mod key;
mod set;
mod slab;
#[cfg(test)]
mod tests;

pub use chunk::{CHUNK_BYTES, Chunk, HeapChunk};
pub use key::{GENERATION_BITS, Key};
pub use slab::{Iter, Slab, Vacant};
