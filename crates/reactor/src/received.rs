//! Bytes borrowed from the driver's receive buffers.
//!
//! **I-LENT**: the bytes of a [`Received`] were written before it was made and are not written again while it lives: a
//! buffer is handed to its writer anew (the kernel, or the driver's own receive call) only when its count of lent
//! ranges is zero, and a writer that still has the buffer writes only behind every range lent from it. A byte is lent
//! once, so who has the [`Received`] may change what is in it.
//!
//! **I-SHELF**: a shelf owns its buffers' leases, every [`Received`] keeps the shelf alive, and nothing uses the
//! leases' own views while ranges are lent or the kernel has a buffer.

use core::cell::Cell;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use std::rc::Rc;

use plimsoll_pool::{Kind, Lease, OverBudget, Pool};

/// Bytes of one small receive buffer.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

/// The driver's receive buffers, each of [`RECEIVE_BUFFER_BYTES`], with a count of the ranges lent from each.
pub(crate) struct Shelf {
    buffers: Box<[Buffer]>,
}

struct Buffer {
    /// Owns the memory; initialised all over at the start.
    lease: Lease,
    start: NonNull<u8>,
    lent: Cell<u32>,
}

impl Shelf {
    /// A shelf of `count` buffers, charged as rings and touched at once: their pages stay resident.
    pub(crate) fn new(pool: &Pool, count: u16) -> Result<Rc<Self>, OverBudget> {
        assert!(count > 0, "a driver receives into at least one buffer");
        let mut buffers = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let mut lease = pool.try_acquire(RECEIVE_BUFFER_BYTES, Kind::Rings)?;
            let zeroes = [0_u8; 4096];
            while lease.spare_capacity() > 0 {
                let taken = lease.extend(&zeroes);
                assert!(taken > 0, "a lease with spare room takes bytes");
            }
            let start = NonNull::from(lease.as_mut_slice()).cast::<u8>();
            buffers.push(Buffer { lease, start, lent: Cell::new(0) });
        }
        Ok(Rc::new(Self { buffers: buffers.into_boxed_slice() }))
    }

    /// How many buffers there are.
    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.buffers.len()).expect("counted in u16 at the start")
    }

    /// Where buffer `buffer` starts, for the kernel.
    pub(crate) fn start(&self, buffer: u16) -> NonNull<u8> {
        self.buffers[usize::from(buffer)].start
    }

    /// How many ranges of the buffer are lent.
    pub(crate) fn lent(&self, buffer: u16) -> u32 {
        self.buffers[usize::from(buffer)].lent.get()
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.lease.capacity() as u64).sum()
    }

    /// Lends `len` bytes at `at` of a buffer.
    ///
    /// # Safety
    ///
    /// I-LENT: the writer of the buffer has finished with `[at, at + len)` and writes there only after the shelf says
    /// that nothing is lent.
    pub(crate) unsafe fn lend(self: &Rc<Self>, buffer: u16, at: usize, len: usize) -> Received {
        assert!(len > 0 && at + len <= RECEIVE_BUFFER_BYTES, "a lent range is inside its buffer");
        let source = &self.buffers[usize::from(buffer)];
        source.lent.set(source.lent.get() + 1);
        // SAFETY: I-SHELF: `at` is inside the buffer's memory, as asserted above.
        let start = unsafe { source.start.add(at) };
        Received { shelf: Rc::clone(self), start, len: len as u32, buffer }
    }

    /// Runs `receive` on the room of a buffer from `at` on, and lends what it says it has written there (from the
    /// front).
    ///
    /// For writers that are the driver itself; `at` must lie behind everything lent from the buffer, or nothing be
    /// lent.
    pub(crate) fn fill<E>(
        self: &Rc<Self>,
        buffer: u16,
        at: usize,
        len_max: usize,
        receive: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<Option<Received>, E> {
        assert!(at < RECEIVE_BUFFER_BYTES, "there is room");
        let len_max = len_max.min(RECEIVE_BUFFER_BYTES - at);
        let source = &self.buffers[usize::from(buffer)];
        // SAFETY: I-LENT and I-SHELF: initialised memory of the shelf, behind everything that is lent, and nobody else
        // writes to it.
        let room = unsafe { core::slice::from_raw_parts_mut(source.start.add(at).as_ptr(), len_max) };
        let received = receive(room)?;
        assert!(received <= len_max, "no more than there is room for");
        if received == 0 {
            return Ok(None);
        }
        // SAFETY: I-LENT: the call has ended, and the caller advances behind the range before it fills again.
        Ok(Some(unsafe { self.lend(buffer, at, received) }))
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("buffers", &self.buffers.len()).finish()
    }
}

/// Received bytes, borrowed from the driver until dropped.
///
/// Parse them in place, copy what must survive, and drop it before the worker's turn ends: while it lives, its whole
/// buffer (64 KiB of a small set shared by all connections of the worker) cannot be filled again. Keeping one for long
/// is safe but slows the worker down.
pub struct Received {
    shelf: Rc<Shelf>,
    start: NonNull<u8>,
    len: u32,
    buffer: u16,
}

impl Received {
    /// The bytes, to be changed in place: decrypted, for instance.
    #[doc(hidden)]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: I-LENT and I-SHELF: initialised, kept alive by `shelf`, and lent to this one alone.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }

    /// Forgets the bytes from `len` on, of which one is left at least.
    ///
    /// # Panics
    ///
    /// For 0, and for more than there are.
    #[doc(hidden)]
    pub fn truncate(&mut self, len: usize) {
        assert!(len > 0 && len <= self.len as usize, "a part of what was received");
        self.len = len as u32;
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: I-LENT and I-SHELF: initialised, kept alive by `shelf`, and not written while this borrow is lent.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let lent = &self.shelf.buffers[usize::from(self.buffer)].lent;
        debug_assert!(lent.get() > 0, "lent ranges are counted");
        lent.set(lent.get() - 1);
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").field("len", &self.len).field("buffer", &self.buffer).finish()
    }
}

const _: () = assert!(size_of::<Received>() <= 24);
