//! The part of a cell's life that happens on any thread: its waker, the way of a wake to the worker, and giving the
//! memory back.
//!
//! ```text
//!  wake on the worker's thread:   schedule -> ready list
//!  wake elsewhere:                NOTIFIED set first? -> injection stack -> (the worker sleeps? -> bell)
//!                                 ... receive -> ready list
//! ```
//!
//! The invariants that the blocks here cite are stated in `cell.rs`; the pointer in a waker is one reference (I-REF).
#![allow(unsafe_code)]

use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::task::{RawWaker, RawWakerVTable, Waker};

use plimsoll_pool::{Kind, Lease};

use super::cell::{Header, Task};
use super::core::{Bell, Core};
use super::count::Side;
use super::inject::Pushed;
use crate::sync::Ordering;

/// A wake from another thread is on its way: the cell is on the injection stack, or came off it and was not polled
/// since.
pub(super) const NOTIFIED: u8 = 1;
/// The future is gone: wakes from other threads have nothing to do.
pub(super) const FINISHED: u8 = 2;

/// A waker for the cell. Whoever makes it a [`Waker`](core::task::Waker) that is dropped has counted a reference for
/// it.
pub(super) fn raw_waker(cell: NonNull<Header>) -> RawWaker {
    RawWaker::new(cell.as_ptr().cast_const().cast(), &WAKER)
}

static WAKER: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// Whether it is the waker of a task, which runs no code of the program.
#[inline]
pub(crate) fn is_of_task(waker: &Waker) -> bool {
    ptr::eq(waker.vtable(), &WAKER)
}

/// The cell of a waker.
///
/// # Safety
///
/// `data` comes from [`raw_waker`].
unsafe fn cell_of(data: *const ()) -> NonNull<Header> {
    // SAFETY: I-REF: a waker's pointer is that of its cell, never null.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

/// On which side of its cell this thread is.
///
/// # Safety
///
/// The cell is live.
unsafe fn side_of(cell: NonNull<Header>) -> Side {
    // SAFETY: I-REF: the caller keeps the cell, and the cell its core; both fields are immutable.
    unsafe {
        cell.as_ref().life.used();
        let core = cell.as_ref().core.as_ref();
        core.life.used();
        core.side()
    }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: I-REF: the waker that is cloned keeps the cell.
    unsafe {
        let cell = cell_of(data);
        cell.as_ref().wakers.add(side_of(cell));
        raw_waker(cell)
    }
}

unsafe fn wake(data: *const ()) {
    // The reference is kept until the bell has been rung: a worker that was awake anyway could end with its core
    // meanwhile. SAFETY: I-REF: as the two functions' own.
    unsafe {
        wake_by_ref(data);
        drop_waker(data);
    }
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: I-REF: the waker keeps the cell; I-OWNER: the branch for the worker's thread is taken on that thread
    // only.
    unsafe {
        let cell = cell_of(data);
        match side_of(cell) {
            Side::Owner => {
                if let Some(task) = Task::alive(cell) {
                    task.schedule();
                }
            }
            Side::Other => notify(cell),
        }
    }
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: I-REF: the waker ends here, and its reference with it.
    unsafe {
        let cell = cell_of(data);
        release(cell, side_of(cell));
    }
}

/// Sends the cell to its worker, unless it is on its way.
///
/// # Safety
///
/// The caller has a reference and keeps it.
unsafe fn notify(cell: NonNull<Header>) {
    // SAFETY: I-REF: the caller keeps the cell.
    let header = unsafe { cell.as_ref() };
    // The bit is written even if it is set: what this thread did before must be visible to the poll that the earlier
    // wake causes.
    if header.notify.fetch_or(NOTIFIED, Ordering::Release) != 0 {
        return;
    }
    // SAFETY: I-REF: the cell keeps its core. Other threads touch only what is immutable or atomic in it.
    let core = unsafe { header.core.as_ref() };
    header.wakers.add(Side::Other);
    // I-QUEUED: this wake has set NOTIFIED, so the link is its own.
    match core.inject.push(cell, &header.link) {
        Pushed::Queued => {}
        Pushed::Ring => (core.bell)(),
        // SAFETY: I-REF: the entry that was not made had the reference counted above.
        Pushed::Closed => unsafe { release(cell, Side::Other) },
    }
}

/// Uncounts a reference, and gives the memory back if nothing else keeps it.
///
/// # Safety
///
/// The reference is the caller's, and `side` is this thread's.
unsafe fn release(cell: NonNull<Header>, side: Side) {
    // SAFETY: I-REF: the reference keeps the cell until it is uncounted, and if it was the last, nobody else has the
    // cell.
    unsafe {
        if cell.as_ref().wakers.remove(side) {
            free(cell, side);
        }
    }
}

/// Gives a cell's memory back.
///
/// # Safety
///
/// No hold and no reference is left; `side` is this thread's.
pub(super) unsafe fn free(cell: NonNull<Header>, side: Side) {
    // SAFETY: I-REF: the last user of the cell is the caller. The header owns nothing any more that would have to be
    // dropped: a joiner goes with its handle, the links are empty.
    unsafe {
        let core = cell.as_ref().core;
        cell.as_ref().life.ended();
        drop(Lease::from_raw(cell.cast(), Kind::Tasks));
        core.as_ref().life.used();
        if core.as_ref().references.remove(side) {
            end_core(core);
        }
    }
}

/// Frees a core.
///
/// # Safety
///
/// No cell is left, and the worker has let go.
unsafe fn end_core(core: NonNull<Core>) {
    // SAFETY: I-REF: the caller is the last to have it, and it came from a box.
    unsafe {
        core.as_ref().life.ended();
        drop(Box::from_raw(core.as_ptr()));
    }
}

/// A worker's own handle of its core.
pub(super) struct CoreRef(NonNull<Core>);

impl CoreRef {
    /// The core of a worker on this thread.
    pub(super) fn new(bell: Bell) -> Self {
        Self(NonNull::from(Box::leak(Box::new(Core::new(bell)))))
    }

    pub(super) fn as_ptr(&self) -> NonNull<Core> {
        self.0
    }

    /// Moves the tasks that other threads have woken to the ready list, in the order of their wakes.
    pub(super) fn receive(&self) {
        self.receive_all(self.inject.take());
    }

    /// As [`receive`](Self::receive); whoever wakes from now on does nothing.
    pub(super) fn receive_last(&self) {
        self.receive_all(self.inject.close());
    }

    fn receive_all(&self, mut newest: *mut Header) {
        let mut oldest = ptr::null_mut();
        while let Some(cell) = NonNull::new(newest) {
            // SAFETY: I-REF: an entry is a reference; I-QUEUED: its link is the worker's now.
            let link = unsafe { &cell.as_ref().link };
            newest = link.load(Ordering::Relaxed);
            link.store(oldest, Ordering::Relaxed);
            oldest = cell.as_ptr();
        }
        while let Some(cell) = NonNull::new(oldest) {
            // SAFETY: I-REF: the entry's reference is released when it has been looked at; I-QUEUED: NOTIFIED is still
            // set when the link is read; I-OWNER: this is the worker.
            unsafe {
                oldest = cell.as_ref().link.load(Ordering::Relaxed);
                if let Some(task) = Task::alive(cell) {
                    task.schedule_notified();
                }
                release(cell, Side::Owner);
            }
        }
    }
}

impl Deref for CoreRef {
    type Target = Core;

    fn deref(&self) -> &Core {
        // SAFETY: I-REF: this handle keeps the core.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for CoreRef {
    fn drop(&mut self) {
        let last = self.references.merge();
        if last {
            // SAFETY: I-REF: no cell is left, and the worker ends.
            unsafe { end_core(self.0) };
        }
    }
}
