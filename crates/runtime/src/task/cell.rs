//! The cell of a task: a header, and behind it the future or what it left, in one lease of the pool.
//!
//! ```text
//!  Vacant::begin                    +--- Pending ---+
//!  (make, first poll) -----------+  |               |
//!                                v  v               |
//!  EMPTY -- Vacant::fill -----> IDLE -- Task::run -> RUNNING -- Ready -> DONE ------+
//!    ^                           |                   |  |                           |
//!    |                         cancel             cancel +---- panic -> PANICKED ---+
//!    |                           v                   v                              |
//!    |                        STOPPING <---------- STOPPING                         |
//!    |                           | (future dropped)                                 |
//!    |                           v                                                  |
//!    +-- taken, or no handle -- CANCELLED                                           |
//!    +-- taken, or no handle -------------------------------------------------------+
//! ```
//!
//! A task that is cancelled while it runs is STOPPING until its poll ends; if that poll completes it, the output
//! counts.
//!
//! Who keeps a cell: on the worker's thread [`Task`] handles, counted in a plain cell ("holds": the lists, the
//! [`Join`], a poll that is going on); on any thread wakers, counted in a [`Count`]. When the last hold goes, the count
//! is merged, and the last waker gives the memory back, wherever it is dropped. The cell, the core that its cells share
//! and the wakers are one idea in three files that import each other.
//!
//! # How is this safe?
//!
//! **I-OWNER**: the place and every field of a header or core that is neither atomic nor immutable are touched only on
//! the worker's thread. `Task`, `Vacant`, `Join` and `CoreRef` hold pointers and are thus `!Send`; the functions of the
//! waker compare thread marks first.
//!
//! **I-REF**: a `Task` is one hold of its cell, a waker or an entry of the injection stack one reference of its
//! [`Count`]. A cell's memory is valid while any of them exists and is given back once, by whoever ends the last. A
//! live task has a hold; one without holds gets none. A cell is one reference of its core, in the same way.
//!
//! **I-CONTENT**: what lies in the place follows from the phase. Empty, Cancelled: nothing. Idle: the future. Done: the
//! output. Panicked: the payload. Running, Stopping: it belongs to the one function that set Running, or Stopping after
//! Idle, and nobody else touches it. Phases are set by this file only, and before code of others runs.
//!
//! **I-PIN**: a future does not move from being written into the place to being dropped there, and it is dropped once,
//! before the place is used again.
//!
//! **I-TYPE**: a cell is made for one type of future, by `Vacant::new`. Its vtable and the type parameters of its
//! `Vacant` and `Join` are that type's.
//!
//! **I-QUEUED**: a header's `link` belongs to the thread whose wake set NOTIFIED, then to the stack, then to the worker
//! that took the stack. Only the worker clears NOTIFIED, after it took the cell off, so a cell is pushed at most once
//! at a time.
//!
//! **I-FIT**: the lease is at least as long as the cell. A slot is aligned to its class's size up to 4096, and no class
//! is smaller than the cell's alignment, because a size is a multiple of it.
#![allow(unsafe_code)]

use core::any::{Any, type_name};
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, needs_drop, offset_of};
use core::pin::Pin;
use core::ptr::{self, NonNull};
use core::task::{Context, Poll, Waker};
use std::panic::{AssertUnwindSafe, catch_unwind};

use plimsoll_pool::{Kind, OverBudget, Pool, catch_panic};

use super::core::{Core, Stage};
use super::count::{Count, Side};
use super::join_error::JoinError;
use super::lists::{Linked, Links};
use super::remote::{CoreRef, FINISHED, NOTIFIED, free, raw_waker};
use crate::sync::{AtomicPtr, AtomicU8, Cell, Life, Ordering};

/// What a panic carries.
pub(super) type Payload = Box<dyn Any + Send>;

/// See the diagram of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Empty,
    Idle,
    Running,
    Stopping,
    Done,
    Panicked,
    Cancelled,
}

/// Whether a task waits to be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Out,
    Ready,
    /// And NOTIFIED is still set, so that wakes from other threads until the poll cost nothing more.
    ReadyNotified,
}

/// Whether somebody may ask for the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interest {
    Detached,
    Joinable,
}

/// The part of a cell that does not depend on the future's type.
#[repr(C)]
pub(super) struct Header {
    vtable: &'static VTable,
    pub(super) core: NonNull<Core>,
    /// The next older entry of the injection stack.
    pub(super) link: AtomicPtr<Header>,
    links: Links<Task>,
    id: Cell<u64>,
    joiner: Cell<Option<Waker>>,
    /// Wakers, and the entry of the injection stack if there is one.
    pub(super) wakers: Count,
    /// [`Task`]s of this cell; the last one to go merges `wakers`.
    holds: Cell<u32>,
    /// [`NOTIFIED`] and [`FINISHED`].
    pub(super) notify: AtomicU8,
    phase: Cell<Phase>,
    queue: Cell<Queue>,
    interest: Cell<Interest>,
    /// Used by whoever has the cell by a hold or a reference, ended when its memory is given back.
    pub(super) life: Life,
}

/// What depends on the future's type. All functions want a cell of that type (I-TYPE) on its worker's thread (I-OWNER).
struct VTable {
    /// From the start of the cell to its place, in bytes.
    place_offset: usize,
    /// Polls the future; if it ends, drops it and leaves its output or payload.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Polled,
    drop_future: unsafe fn(NonNull<Header>),
    drop_output: unsafe fn(NonNull<Header>),
    drop_payload: unsafe fn(NonNull<Header>),
    name: fn() -> &'static str,
}

/// What a poll came to. The place holds what is named.
#[derive(Clone, Copy)]
enum Polled {
    Pending,
    Done,
    Panicked,
}

#[repr(C)]
struct TaskCell<F: Future> {
    header: Header,
    place: Place<F>,
}

/// Which one it is: I-CONTENT.
#[repr(C)]
union Place<F: Future> {
    future: ManuallyDrop<F>,
    output: ManuallyDrop<F::Output>,
    payload: ManuallyDrop<Payload>,
}

impl<F: Future> TaskCell<F> {
    const VTABLE: VTable = VTable {
        place_offset: offset_of!(Self, place),
        poll: Self::poll,
        drop_future: Self::drop_future,
        drop_output: Self::drop_output,
        drop_payload: Self::drop_payload,
        name: type_name::<F>,
    };

    /// As [`place`], of a cell that was made for `F`.
    unsafe fn place(task: NonNull<Header>) -> NonNull<()> {
        // SAFETY: I-REF, I-TYPE: the caller says so.
        unsafe { task.cast::<()>().byte_add(offset_of!(Self, place)) }
    }

    unsafe fn poll(task: NonNull<Header>, cx: &mut Context<'_>) -> Polled {
        // SAFETY: I-REF, I-TYPE.
        let place = unsafe { Self::place(task) };
        let poll = || {
            // SAFETY: I-CONTENT: the caller set Running, so the future is here and nobody else touches it; I-PIN.
            unsafe { Pin::new_unchecked(&mut *place.cast::<F>().as_ptr()) }.poll(cx)
        };
        match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => Polled::Pending,
            Ok(Poll::Ready(output)) => {
                // SAFETY: I-CONTENT: as above; the output takes the place of the future.
                unsafe {
                    Self::drop_future(task);
                    place.cast::<F::Output>().write(output);
                }
                Polled::Done
            }
            Err(payload) => {
                // SAFETY: I-CONTENT: as above; the payload takes the place of the future.
                unsafe {
                    Self::drop_future(task);
                    place.cast::<Payload>().write(payload);
                }
                Polled::Panicked
            }
        }
    }

    unsafe fn drop_future(task: NonNull<Header>) {
        if needs_drop::<F>() {
            // SAFETY: I-TYPE, I-CONTENT: the caller says that the future is here; I-PIN: it is dropped in place.
            catch_panic(|| unsafe { Self::place(task).cast::<F>().drop_in_place() });
        }
    }

    unsafe fn drop_output(task: NonNull<Header>) {
        // SAFETY: I-TYPE, I-CONTENT: the caller says that the output is here.
        catch_panic(|| unsafe { Self::place(task).cast::<F::Output>().drop_in_place() });
    }

    unsafe fn drop_payload(task: NonNull<Header>) {
        // SAFETY: I-TYPE, I-CONTENT: the caller says that the payload is here.
        catch_panic(|| unsafe { Self::place(task).cast::<Payload>().drop_in_place() });
    }
}

/// Where the future, the output or the payload of a cell is or will be.
///
/// # Safety
///
/// The cell is live (I-REF).
unsafe fn place(task: NonNull<Header>) -> NonNull<()> {
    // SAFETY: I-REF: it can be read; I-TYPE: the offset is that of the cell's own type, so the result is in the cell
    // too.
    unsafe { task.cast::<()>().byte_add(task.as_ref().vtable.place_offset) }
}

/// A task on its worker's thread: one hold of its cell.
pub(super) struct Task(NonNull<Header>);

impl Task {
    fn header(&self) -> &Header {
        // SAFETY: I-REF: this hold keeps the cell; I-OWNER: it is on the worker's thread.
        unsafe { self.0.as_ref() }
    }

    fn core(&self) -> &Core {
        // SAFETY: I-REF: the cell keeps its core.
        unsafe { self.header().core.as_ref() }
    }

    /// A hold of a cell whose task is alive, `None` of one whose future is gone. The latter may have no holds any more,
    /// and must not get new ones: its references are merged.
    ///
    /// # Safety
    ///
    /// The caller has a reference, and this is the worker's thread.
    pub(super) unsafe fn alive(cell: NonNull<Header>) -> Option<Self> {
        // SAFETY: I-REF: the caller's reference keeps the cell; I-OWNER.
        let header = unsafe { cell.as_ref() };
        if !matches!(header.phase.get(), Phase::Idle | Phase::Running) {
            return None;
        }
        header.holds.set(header.holds.get() + 1);
        Some(Self(cell))
    }

    /// The name of the future's type.
    pub(super) fn name(&self) -> &'static str {
        (self.header().vtable.name)()
    }

    /// Polls a task that came off the ready list; `false` if it has ended meanwhile.
    pub(super) fn run(&self) -> bool {
        let header = self.header();
        self.leave_queue();
        if header.phase.get() != Phase::Idle {
            return false;
        }
        header.phase.set(Phase::Running);
        // SAFETY: I-OWNER, I-TYPE: the cell's own vtable; I-CONTENT: it was Idle, so the future is there, and Running
        // makes it this poll's.
        let polled = self.with_waker(|cx| unsafe { (header.vtable.poll)(self.0, cx) });
        match (polled, header.phase.get()) {
            (Polled::Pending, Phase::Stopping) => self.stop(),
            (Polled::Pending, _) => header.phase.set(Phase::Idle),
            (Polled::Done, _) => self.finish(Phase::Done),
            (Polled::Panicked, _) => self.finish(Phase::Panicked),
        }
        true
    }

    /// Takes note that the task is off the ready list. What other threads did before their wakes is visible from here
    /// on.
    pub(super) fn leave_queue(&self) {
        if self.header().queue.replace(Queue::Out) == Queue::ReadyNotified {
            // I-QUEUED: it is not on the injection stack, or the queue would not say so.
            self.header().notify.fetch_and(!NOTIFIED, Ordering::Acquire);
        }
    }

    /// Drops the future: now if it does not run, else after its poll. Nothing happens to a task that has ended.
    pub(super) fn cancel(&self) {
        match self.header().phase.get() {
            Phase::Idle => {
                self.header().phase.set(Phase::Stopping);
                self.stop();
            }
            Phase::Running => self.header().phase.set(Phase::Stopping),
            Phase::Empty | Phase::Stopping | Phase::Done | Phase::Panicked | Phase::Cancelled => {}
        }
    }

    /// Drops the future of a task that is Stopping and does not run.
    fn stop(&self) {
        debug_assert_eq!(self.header().phase.get(), Phase::Stopping, "set before code of others runs");
        // SAFETY: I-OWNER, I-TYPE: the cell's own vtable; I-CONTENT: the caller set Stopping or ended the poll, so the
        // future is its own.
        unsafe { (self.header().vtable.drop_future)(self.0) };
        self.finish(Phase::Cancelled);
    }

    /// The future is gone; what it left is in the place.
    fn finish(&self, end: Phase) {
        let header = self.header();
        header.notify.store(FINISHED, Ordering::Relaxed);
        header.phase.set(end);
        self.core().live.remove(self);
        match header.interest.get() {
            Interest::Detached => self.drop_result(),
            Interest::Joinable => {
                if let Some(joiner) = header.joiner.take() {
                    catch_panic(|| joiner.wake());
                }
            }
        }
    }

    /// Drops what the future left, if it has ended.
    fn drop_result(&self) {
        let header = self.header();
        match header.phase.get() {
            Phase::Empty | Phase::Idle | Phase::Running | Phase::Stopping => {}
            Phase::Cancelled => header.phase.set(Phase::Empty),
            Phase::Done => {
                header.phase.set(Phase::Empty);
                // SAFETY: I-OWNER, I-TYPE: the cell's own vtable; I-CONTENT: it was Done, and nobody else sees that any
                // more.
                unsafe { (header.vtable.drop_output)(self.0) };
            }
            Phase::Panicked => {
                header.phase.set(Phase::Empty);
                // SAFETY: I-OWNER, I-TYPE, I-CONTENT: as for Done, with the payload of Panicked.
                unsafe { (header.vtable.drop_payload)(self.0) };
            }
        }
    }

    /// Queues the task unless it is queued.
    pub(super) fn schedule(self) {
        if self.header().queue.get() == Queue::Out {
            self.header().queue.set(Queue::Ready);
            self.push_ready();
        }
    }

    /// Queues a task that came off the injection stack, where a wake with NOTIFIED brought it.
    pub(super) fn schedule_notified(self) {
        match self.header().queue.replace(Queue::ReadyNotified) {
            Queue::Out => self.push_ready(),
            Queue::Ready => {}
            Queue::ReadyNotified => debug_assert!(false, "I-QUEUED: NOTIFIED was set, so nobody pushed it"),
        }
    }

    fn push_ready(self) {
        let core = self.header().core;
        // SAFETY: I-REF: the list's hold keeps the cell, and the cell its core.
        unsafe { core.as_ref() }.ready.push(self);
    }

    /// Runs `poll` as this task, with its waker; the waker costs no reference unless it is cloned.
    fn with_waker<R>(&self, poll: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let core = self.core();
        core.polls.set(core.polls.get() + 1);
        let before = core.current.replace(self.header().id.get());
        // SAFETY: I-REF: this hold outlives the waker, which is not dropped and so needs no reference of its own.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(raw_waker(self.0)) });
        let result = poll(&mut Context::from_waker(&waker));
        core.current.set(before);
        result
    }
}

impl Linked for Task {
    fn links(&self) -> &Links<Self> {
        &self.header().links
    }

    fn is(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Clone for Task {
    fn clone(&self) -> Self {
        let holds = &self.header().holds;
        holds.set(holds.get() + 1);
        Self(self.0)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let header = self.header();
        let holds = header.holds.get() - 1;
        header.holds.set(holds);
        if holds > 0 {
            return;
        }
        // A live task is held by the list of live ones, a result by its handle.
        debug_assert!(
            matches!(header.phase.get(), Phase::Empty | Phase::Cancelled),
            "I-CONTENT: nothing is left in the place"
        );
        debug_assert!(header.links.are_clear(), "a list is a hold");
        let last = header.wakers.merge();
        if last {
            // SAFETY: I-REF: the last hold, and no reference.
            unsafe { free(self.0, Side::Owner) };
        }
    }
}

/// An empty cell for a future of type `F`.
pub(super) struct Vacant<F: Future> {
    task: Task,
    future: PhantomData<fn(F) -> F>,
}

/// What became of a future that was begun.
pub(super) enum Begun<F: Future> {
    Ready(F::Output, Vacant<F>),
    Pending(Join<F::Output>),
    Panicked(Payload, Vacant<F>),
}

impl<F: Future + 'static> Vacant<F> {
    /// A cell of the smallest class that holds the header and `F` or its output.
    pub(super) fn new(pool: &Pool, core: &CoreRef) -> Result<Self, OverBudget> {
        const { assert!(align_of::<TaskCell<F>>() <= SLOT_ALIGN_MAX, "a future's alignment is at most 4096") };
        let lease = pool.try_acquire(size_of::<TaskCell<F>>(), Kind::Tasks)?;
        debug_assert!(lease.capacity() >= size_of::<TaskCell<F>>(), "I-FIT");
        let cell: NonNull<Header> = lease.into_raw(size_of::<TaskCell<F>>()).cast();
        debug_assert!(cell.cast::<TaskCell<F>>().is_aligned(), "I-FIT");
        core.references.add(Side::Owner);
        let header = Header {
            vtable: &TaskCell::<F>::VTABLE,
            core: core.as_ptr(),
            link: AtomicPtr::new(ptr::null_mut()),
            links: Links::new(),
            id: Cell::new(0),
            joiner: Cell::new(None),
            wakers: Count::new(),
            holds: Cell::new(1),
            notify: AtomicU8::new(0),
            phase: Cell::new(Phase::Empty),
            queue: Cell::new(Queue::Out),
            interest: Cell::new(Interest::Detached),
            life: Life::new(),
        };
        // SAFETY: I-FIT: the slot has room for a cell, and it is ours.
        unsafe { cell.write(header) };
        Ok(Self { task: Task(cell), future: PhantomData })
    }

    /// Makes a live task of it, queued for its first poll.
    pub(super) fn fill(self, future: F) -> Join<F::Output> {
        debug_assert_eq!(self.task.header().phase.get(), Phase::Empty, "a vacant cell");
        // SAFETY: I-TYPE; I-CONTENT: it is Empty, so nothing is overwritten; I-PIN begins.
        unsafe { TaskCell::<F>::place(self.task.0).cast::<F>().write(future) };
        self.task.header().id.set(self.task.core().next_id());
        let join = self.into_live();
        // SAFETY: I-REF, I-OWNER: as the handle's.
        if let Some(task) = unsafe { Task::alive(join.task.0) } {
            task.schedule();
        }
        join
    }

    /// Makes a future in the cell and polls it once. If it is ready at once, the cell is empty again.
    pub(super) fn begin(self, make: impl FnOnce() -> F) -> Begun<F> {
        let task = &self.task;
        let header = task.header();
        debug_assert_eq!(header.phase.get(), Phase::Empty, "a vacant cell");
        header.id.set(task.core().next_id());
        header.phase.set(Phase::Running);
        // SAFETY: I-REF, I-TYPE.
        let place = unsafe { TaskCell::<F>::place(task.0) }.cast::<F>();
        // Filled from within, so that a large output is not carried out through every layer.
        let (mut made, mut output) = (false, None);
        let begin = |cx: &mut Context<'_>| {
            let run = || {
                // SAFETY: I-CONTENT: it was Empty, and Running makes the place this function's; I-PIN begins.
                unsafe { place.write(make()) };
                made = true;
                // SAFETY: I-CONTENT: as above; I-PIN.
                if let Poll::Ready(ready) = unsafe { Pin::new_unchecked(&mut *place.as_ptr()) }.poll(cx) {
                    output = Some(ready);
                }
            };
            catch_unwind(AssertUnwindSafe(run))
        };
        let caught = task.with_waker(begin);
        if caught.is_ok() && output.is_none() {
            return Begun::Pending(self.into_live());
        }
        if made {
            // SAFETY: I-OWNER, I-TYPE, I-CONTENT: it was made and polled here, and nobody else has seen it.
            unsafe { TaskCell::<F>::drop_future(task.0) };
        }
        header.phase.set(Phase::Empty);
        match (caught, output) {
            (Err(payload), _) => Begun::Panicked(payload, self),
            (Ok(()), Some(output)) => Begun::Ready(output, self),
            (Ok(()), None) => unreachable!("it was pending, see above"),
        }
    }

    /// The cell has a future that is pending or was never polled.
    fn into_live(self) -> Join<F::Output> {
        let task = self.task;
        task.header().phase.set(Phase::Idle);
        task.header().interest.set(Interest::Joinable);
        task.core().live.push(&task);
        if task.core().stage.get() == Stage::Closed {
            task.core().drop_tasks();
        }
        Join { task, output: PhantomData }
    }

    /// Whether no waker of an earlier future is left, so that the cell can be used for another one.
    pub(super) fn is_unshared(&self) -> bool {
        self.task.header().wakers.is_unshared()
    }

    /// Gives up a cell for whose earlier future wakers still exist: they do nothing from now on.
    pub(super) fn retire(self) {
        self.task.header().notify.store(FINISHED, Ordering::Relaxed);
    }
}

/// The one handle that may have a task's result.
pub(super) struct Join<T> {
    task: Task,
    output: PhantomData<T>,
}

impl<T> Join<T> {
    /// The result, once. Until then `waker` is remembered in place of any earlier one.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Result<T, JoinError>> {
        if !self.has_ended() {
            let joiner = self.joiner_like(waker);
            // Cloning a waker runs code of others, which may have ended the task.
            if !self.has_ended() {
                self.task.header().joiner.set(Some(joiner));
                return Poll::Pending;
            }
        }
        Poll::Ready(self.take())
    }

    /// The remembered waker if it wakes the same task, else a new one.
    fn joiner_like(&self, waker: &Waker) -> Waker {
        match self.task.header().joiner.take() {
            Some(joiner) if joiner.will_wake(waker) => joiner,
            _ => waker.clone(),
        }
    }

    fn take(&self) -> Result<T, JoinError> {
        let header = self.task.header();
        // SAFETY: I-REF. I-TYPE: the cell is that of a future with the output T.
        let place = unsafe { place(self.task.0) };
        match header.phase.replace(Phase::Empty) {
            // SAFETY: I-CONTENT: it was Done, and is Empty now, so the output is moved out once.
            Phase::Done => Ok(unsafe { place.cast::<T>().read() }),
            // SAFETY: I-CONTENT: the same with the payload of Panicked.
            Phase::Panicked => Err(JoinError::Panicked(unsafe { place.cast::<Payload>().read() })),
            Phase::Cancelled => Err(JoinError::Cancelled),
            Phase::Empty => panic!("a JoinHandle was polled after it was ready"),
            Phase::Idle | Phase::Running | Phase::Stopping => unreachable!("asked after the end only"),
        }
    }

    /// See [`Task::cancel`].
    pub(super) fn cancel(&self) {
        self.task.cancel();
    }

    /// Whether the future is gone.
    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.task.header().phase.get(), Phase::Idle | Phase::Running | Phase::Stopping)
    }
}

impl<T> Drop for Join<T> {
    fn drop(&mut self) {
        let header = self.task.header();
        header.interest.set(Interest::Detached);
        let joiner = header.joiner.take();
        self.task.drop_result();
        drop(joiner);
    }
}

/// What a slot of a class is aligned to at most, in bytes.
const SLOT_ALIGN_MAX: usize = 4096;

// What a task costs beside its future; cells come in classes of 64, 128, 256, .. bytes.
#[cfg(not(all(test, loom)))]
const _: () = assert!(size_of::<Header>() == 88);
