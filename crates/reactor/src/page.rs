//! A page of the pool as a chunk of a slab.
//!
//! **I-PAGE**: a lease of the 4 KiB class is 4,096 bytes, aligned to as many, that belong to the lease alone and do
//! not move while it lives; the wrapper neither reads nor writes them.

use core::ptr::NonNull;

use plimsoll_pool::{Kind, Lease, OverBudget, Pool};
use plimsoll_slab::{CHUNK_BYTES, Chunk, Key, Slab};

/// A page of the pool, charged to it, that a [`Slab`](plimsoll_slab::Slab) can grow by.
#[derive(Debug)]
pub struct PoolPage(Lease);

impl PoolPage {
    /// A page charged as `kind`.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line.
    pub fn try_new(pool: &Pool, kind: Kind) -> Result<Self, OverBudget> {
        let lease = pool.try_acquire(CHUNK_BYTES, kind)?;
        assert_eq!(lease.capacity(), CHUNK_BYTES, "the page class is the chunk size");
        Ok(Self(lease))
    }

    /// Has a table grow by a page that is charged as [`Kind::Slots`].
    ///
    /// # Errors
    ///
    /// [`OverBudget`] at the line, and when the table takes no further page: `grow` gives it back, as [`Slab::grow`]
    /// does.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
    /// use plimsoll_reactor::PoolPage;
    /// use plimsoll_slab::Slab;
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let mut table: Slab<u64, PoolPage> = Slab::new(1);
    /// PoolPage::add(&pool, |page| table.grow(page))?;
    /// assert!(PoolPage::add(&pool, |page| table.grow(page)).is_err(), "one page is all that it takes");
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    pub fn add(pool: &Pool, grow: impl FnOnce(Self) -> Result<(), Self>) -> Result<(), OverBudget> {
        let page = Self::try_new(pool, Kind::Slots)?;
        grow(page).map_err(|_full| OverBudget::new(CHUNK_BYTES as u64))
    }

    /// Stores a value in a slab, which [grows](Self::add) when it has no free cell.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add); the value comes back.
    ///
    /// ```
    /// use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
    /// use plimsoll_reactor::PoolPage;
    /// use plimsoll_slab::Slab;
    ///
    /// let pool = Pool::new(&Budget::new(MemoryLimit::mib(1)), PoolConfig::default())?;
    /// let mut table: Slab<u64, PoolPage> = Slab::new(1);
    /// let key = PoolPage::insert(&mut table, &pool, 7).expect("a page has room");
    /// assert_eq!((table.get(key), table.chunks()), (Some(&7), 1));
    /// while table.len() < table.capacity() {
    ///     assert!(PoolPage::insert(&mut table, &pool, 8).is_ok());
    /// }
    /// let (over, value) = PoolPage::insert(&mut table, &pool, 9).expect_err("one page is all that it takes");
    /// assert_eq!((over.wanted_bytes(), value), (4096, 9));
    /// # Ok::<(), plimsoll_pool::Error>(())
    /// ```
    #[inline]
    pub fn insert<T>(slab: &mut Slab<T, Self>, pool: &Pool, value: T) -> Result<Key, (OverBudget, T)> {
        let value = match slab.insert(value) {
            Ok(key) => return Ok(key),
            Err(value) => value,
        };
        if let Err(over) = Self::add(pool, |page| slab.grow(page)) {
            return Err((over, value));
        }
        slab.insert(value).map_err(|_| unreachable!("a table that has just grown has room"))
    }
}

// SAFETY: I-PAGE: exclusive, CHUNK_BYTES long, page-aligned and immovable while owned.
unsafe impl Chunk for PoolPage {
    fn as_ptr(&self) -> NonNull<u8> {
        let start = NonNull::new(self.0.as_ptr()).expect("a lease is somewhere");
        debug_assert_eq!(start.as_ptr().addr() % CHUNK_BYTES, 0, "a page");
        start
    }
}
