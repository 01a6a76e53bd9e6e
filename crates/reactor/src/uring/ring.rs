//! The ring itself: set-up, the submission and completion queues, and the one call that enters the kernel.
//!
//! **I-ENTRY**: an [`Entry`] names no memory but leases of an operation that is in its slot, and bytes that live for
//! ever. It is pushed while its operation is in flight, so I-FLIGHT keeps that memory in place until the kernel is done
//! with it.
//!
//! **I-ARGS**: what the kernel is handed besides entries lives on the caller's stack, and is used within the call only.
//!
//! **I-GROUP**: the memory of a registered buffer group, its ring of entries and its buffers, stays in place until it
//! is unregistered, or for ever. See [`Group`](super::group::Group).
//!
//! **I-PEEK**: a view of the completion queue that is forgotten instead of dropped has taken nothing from it, and no
//! other view exists meanwhile: the ring is borrowed exclusively.
#![allow(unsafe_code)]

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::time::Duration;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{Builder, EnterFlags, IoUring, cqueue, squeue, types};
use plimsoll_pool::{Budget, Charge, Kind, page_bytes};

use super::entry::Entry;
use crate::config::ENTRIES_MAX;
use crate::{Errno, Error, sys};

/// One io_uring instance. Stays on the thread that made it.
pub(super) struct Ring {
    io: IoUring,
    handle: Handle,
    setup: Setup,
    _charge: Charge,
    bytes: u64,
    /// As if the kernel had no memory for entries.
    #[cfg(test)]
    pub(super) takes_nothing: bool,
}

/// How an enter names the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    /// By its index among the thread's registered rings, which saves the kernel a look-up.
    Registered(u32),
    /// By its file descriptor.
    Descriptor,
}

/// What kind of ring the kernel gave us, best first. Each drops what its predecessor had and an older kernel does not
/// know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setup {
    /// Entries in order, completions when we ask for them (Linux 6.6).
    Direct,
    /// Completions when we ask for them (Linux 6.1).
    Deferred,
    /// Completions at any system call, no interruptions (Linux 5.19).
    Cooperative,
    /// A bad entry does not hold up those behind it (Linux 5.18).
    SubmitAll,
    /// Queue sizes of our choice.
    Plain,
}

impl Setup {
    pub(super) const LADDER: [Self; 5] =
        [Self::Direct, Self::Deferred, Self::Cooperative, Self::SubmitAll, Self::Plain];

    fn build(self, entries: u32) -> Result<IoUring, Errno> {
        let mut builder: Builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(entries * COMPLETIONS_PER_ENTRY).dontfork();
        if self <= Self::SubmitAll {
            builder.setup_submit_all();
        }
        if self <= Self::Cooperative {
            builder.setup_single_issuer().setup_taskrun_flag();
        }
        match self {
            Self::Direct => builder.setup_defer_taskrun().setup_no_sqarray(),
            Self::Deferred => builder.setup_defer_taskrun(),
            Self::Cooperative => builder.setup_coop_taskrun(),
            Self::SubmitAll | Self::Plain => &mut builder,
        };
        Ok(builder.build(entries)?)
    }
}

/// How long an enter may wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timeout {
    None,
    For(Duration),
    Unlimited,
}

/// What became of the entries in the submission queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submitted {
    /// The kernel has taken them all.
    All,
    /// The kernel is short of memory or behind with completions: some are still queued.
    Some,
}

impl Ring {
    /// A ring with room for `entries` submissions and four times as many completions, less if the system has no memory
    /// for as many.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`] when its memory does not fit under the line, else [`Error::System`] with the step
    /// `io_uring_setup`.
    pub(super) fn new(entries: u32, budget: &Arc<Budget>) -> Result<Self, Error> {
        Self::on_ladder(&Setup::LADDER, entries, budget)
    }

    /// A ring as good as the first set-up of `ladder` that the kernel knows.
    pub(super) fn on_ladder(ladder: &[Setup], wanted: u32, budget: &Arc<Budget>) -> Result<Self, Error> {
        assert!(wanted.is_power_of_two() && wanted <= ENTRIES_MAX, "queues are powers of two, up to a limit");
        let mut entries = wanted;
        let mut tries_left = RETURN_TRIES;
        loop {
            let charge = budget.charge(Kind::Rings, ring_bytes(entries))?;
            match set_up(ladder, entries) {
                Ok((io, setup)) => {
                    if entries < wanted {
                        tracing::warn!(
                            wanted,
                            entries,
                            "the system has memory for a smaller ring only: see RLIMIT_MEMLOCK"
                        );
                    }
                    return Ok(Self::from_parts(io, setup, entries, charge));
                }
                // A ring that was closed just now, as after a probe, gives its locked memory back some time later.
                Err(Errno(libc::ENOMEM)) if tries_left > 0 => {
                    tries_left -= 1;
                    sys::pause(RETURN_DELAY);
                }
                Err(Errno(libc::ENOMEM | libc::EAGAIN)) if entries > ENTRIES_MIN => entries /= 2,
                Err(errno) => return Err(Error::system("io_uring_setup", errno)),
            }
        }
    }

    fn from_parts(io: IoUring, setup: Setup, entries: u32, charge: Charge) -> Self {
        debug_assert!(io.params().sq_entries() <= entries, "charged for what the kernel gave");
        debug_assert!(io.params().cq_entries() <= entries * COMPLETIONS_PER_ENTRY);
        let handle = register_descriptor(&io).map_or(Handle::Descriptor, Handle::Registered);
        // Kernels that do not know this keep their own limits, and nothing on a socket needs it: see `entry`.
        let _kept = io.submitter().register_iowq_max_workers(&mut [FILE_THREADS_MAX, OTHER_THREADS_MAX]);
        Self {
            io,
            handle,
            setup,
            _charge: charge,
            bytes: ring_bytes(entries),
            #[cfg(test)]
            takes_nothing: false,
        }
    }

    /// Whether it is entered by its index among the thread's registered rings.
    #[cfg(test)]
    pub(super) fn is_registered(&self) -> bool {
        self.handle != Handle::Descriptor
    }

    /// Bytes of its queues, as charged.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether completions come only while we enter, so that nothing moves between two enters.
    pub(super) fn is_deferred(&self) -> bool {
        self.setup <= Setup::Deferred
    }

    /// Appends an entry, handing over what is queued if there is no room; whether it could.
    pub(super) fn push(&mut self, entry: &Entry) -> bool {
        self.try_push(entry) || (self.submit() == Ok(Submitted::All) && self.try_push(entry))
    }

    fn try_push(&mut self, entry: &Entry) -> bool {
        let mut queue = self.io.submission();
        // SAFETY: I-ENTRY.
        unsafe { queue.push(entry.raw()) }.is_ok()
    }

    /// Cancels everything that the kernel has, as far as that can be, without an entry and without waiting for it.
    pub(super) fn cancel_all(&self) {
        let at_once = types::Timespec::new();
        let _nothing_there = self.io.submitter().register_sync_cancel(Some(at_once), types::CancelBuilder::any().all());
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn queued(&mut self) -> u32 {
        self.io.submission().len() as u32
    }

    /// Hands over what is queued; does not look at completions.
    pub(super) fn submit(&mut self) -> Result<Submitted, Errno> {
        loop {
            let queued = self.queued();
            if queued == 0 {
                return Ok(Submitted::All);
            }
            match self.call(queued, EnterFlags::empty(), Timeout::None) {
                Ok(0) | Err(Errno(libc::EAGAIN | libc::EBUSY)) => return Ok(Submitted::Some),
                Ok(_) | Err(Errno(libc::EINTR)) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Hands over what is queued, lets the kernel finish what it can, and waits for a completion as long as `timeout`
    /// lasts. Stays out of the kernel if there is nothing to do there.
    pub(super) fn enter(&mut self, timeout: Timeout) -> Result<(), Errno> {
        let mut timeout = if self.io.completion().is_empty() { timeout } else { Timeout::None };
        loop {
            let queued = self.queued();
            if queued == 0 && timeout == Timeout::None && !self.has_deferred() {
                return Ok(());
            }
            match self.call(queued, EnterFlags::GETEVENTS, timeout) {
                // It stopped early, and has not waited.
                Ok(taken) if (1..queued).contains(&taken) => {}
                Ok(_) | Err(Errno(libc::ETIME | libc::EINTR)) => return Ok(()),
                Err(Errno(libc::EAGAIN | libc::EBUSY)) if queued > 0 => {
                    timeout = timeout.at_most(RETRY_DELAY);
                    return match self.call(0, EnterFlags::GETEVENTS, timeout) {
                        Ok(_) | Err(Errno(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(()),
                        Err(errno) => Err(errno),
                    };
                }
                Err(Errno(libc::EAGAIN | libc::EBUSY)) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Whether the kernel holds completions back until we enter: because the queue was full, or because we have asked
    /// it to.
    fn has_deferred(&mut self) -> bool {
        let queue = self.io.submission();
        queue.cq_overflow() || queue.taskrun()
    }

    /// Whether the completion queue was full and more is to come than it shows.
    pub(super) fn is_overflown(&mut self) -> bool {
        self.io.submission().cq_overflow()
    }

    fn call(&self, submit: u32, mut flags: EnterFlags, timeout: Timeout) -> Result<u32, Errno> {
        #[cfg(test)]
        if self.takes_nothing && submit > 0 {
            return Err(Errno::AGAIN);
        }
        let wanted = u32::from(timeout != Timeout::None);
        let (number, registered) = match self.handle {
            Handle::Registered(index) => (index as i32, EnterFlags::REGISTERED_RING),
            Handle::Descriptor => (self.io.as_raw_fd(), EnterFlags::empty()),
        };
        flags |= registered;
        if wanted > 0 && self.io.params().is_feature_no_iowait() {
            // Waiting for peers is idling, not waiting for disks.
            flags |= EnterFlags::NO_IOWAIT;
        }
        let timespec = match timeout {
            Timeout::For(time) => types::Timespec::from(time),
            Timeout::None | Timeout::Unlimited => types::Timespec::new(),
        };
        let args = types::SubmitArgs::new().timespec(&timespec);
        let (argument, argument_bytes) = match timeout {
            Timeout::For(_) => {
                flags |= EnterFlags::EXT_ARG;
                (&raw const args, size_of_val(&args))
            }
            Timeout::None | Timeout::Unlimited => (core::ptr::null(), 0),
        };
        // SAFETY: I-ARGS, and I-ENTRY for what is queued.
        unsafe { sys::ring_enter(number as u32, submit, wanted, flags.bits(), argument.cast(), argument_bytes) }
    }

    /// Takes the next completion out of the queue.
    pub(super) fn pop(&mut self) -> Option<cqueue::Entry> {
        self.io.completion().next()
    }

    /// Shows the completions in the queue without taking them.
    pub(super) fn peek(&mut self, mut see: impl FnMut(&cqueue::Entry)) {
        // I-PEEK: dropped, the view would give what it has shown back to the kernel.
        let mut view = ManuallyDrop::new(self.io.completion());
        for entry in &mut *view {
            see(&entry);
        }
    }

    /// Completions in the queue.
    pub(super) fn visible(&mut self) -> u32 {
        self.io.completion().len() as u32
    }

    /// Registers a ring of provided buffers.
    ///
    /// # Safety
    ///
    /// I-GROUP: `entries` is page-aligned, has room for `count` entries, and stays in place, as do the buffers it
    /// names.
    pub(super) unsafe fn register_group(
        &self,
        entries: NonNull<u8>,
        count: u16,
        group: u16,
        flags: u16,
    ) -> Result<(), Errno> {
        debug_assert!(count.is_power_of_two(), "the kernel takes powers of two");
        let address = entries.as_ptr().addr() as u64;
        // SAFETY: I-GROUP, as the caller promises.
        unsafe { self.io.submitter().register_buf_ring_with_flags(address, count, group, flags) }?;
        Ok(())
    }

    /// Takes a ring of provided buffers back: receives that are armed with it find no buffer from now on.
    pub(super) fn unregister_group(&self, group: u16) -> Result<(), Errno> {
        Ok(self.io.submitter().unregister_buf_ring(group)?)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if let Handle::Registered(index) = self.handle {
            // A registered ring lives on without its descriptor, until its thread ends.
            let mut update = sys::RingUpdate { offset: index, reserved: 0, data: 0 };
            let _gone = sys::ring_register(self.io.as_raw_fd(), UNREGISTER_RING_FDS, &mut update);
        }
    }
}

impl Timeout {
    pub(super) fn at_most(self, limit: Duration) -> Self {
        match self {
            Self::None => Self::None,
            Self::For(time) => Self::For(time.min(limit)),
            Self::Unlimited => Self::For(limit),
        }
    }
}

/// Major and minor number of the running kernel; zeros if it does not say.
pub(crate) fn kernel_release() -> (u32, u32) {
    parse_release(&sys::kernel_release())
}

/// The first two numbers of a release like `6.18.4-arch1`.
pub(super) fn parse_release(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn set_up(ladder: &[Setup], entries: u32) -> Result<(IoUring, Setup), Errno> {
    let mut refused = Errno(libc::EINVAL);
    for &setup in ladder {
        match setup.build(entries) {
            Ok(io) => return Ok((io, setup)),
            Err(Errno(libc::EINVAL)) => refused = Errno(libc::EINVAL),
            Err(errno) => return Err(errno),
        }
    }
    Err(refused)
}

/// Bytes of the queues: submission entries of 64 bytes; completion entries of 16, the index array and the heads in one
/// piece.
fn ring_bytes(entries: u32) -> u64 {
    let entries = u64::from(entries);
    let page = page_bytes() as u64;
    let submissions = (entries * 64).next_multiple_of(page);
    let completions = HEADS_BYTES + entries * u64::from(COMPLETIONS_PER_ENTRY) * 16 + entries * 4;
    submissions + completions.next_multiple_of(page)
}

/// The index under which the ring can be entered; `None` where the kernel offers none.
fn register_descriptor(io: &IoUring) -> Option<u32> {
    let mut update = sys::RingUpdate { offset: u32::MAX, reserved: 0, data: io.as_raw_fd() as u64 };
    match sys::ring_register(io.as_raw_fd(), REGISTER_RING_FDS, &mut update) {
        Ok(1) => Some(update.offset),
        _ => None,
    }
}

/// Threads of the kernel at most on which operations of files wait for a disk, for each thread that has a ring. They
/// end after 5 s without work.
const FILE_THREADS_MAX: u32 = 4;
/// The same for what is no regular file or block device: pipes and terminals. The kernel knows no limit below one.
const OTHER_THREADS_MAX: u32 = 1;
/// Completions that fit for each submission that fits.
const COMPLETIONS_PER_ENTRY: u32 = 4;
/// Below this, no memory is no memory.
const ENTRIES_MIN: u32 = 8;
/// How often, and how long each time, to wait for locked memory before a smaller ring is asked for.
const RETURN_TRIES: u32 = 5;
const RETURN_DELAY: Duration = Duration::from_millis(10);
/// How long to wait when the kernel takes no more entries.
pub(super) const RETRY_DELAY: Duration = Duration::from_millis(5);
/// Heads, tails and counters of both queues, rounded up.
const HEADS_BYTES: u64 = 512;
const REGISTER_RING_FDS: u32 = 20;
const UNREGISTER_RING_FDS: u32 = 21;

const _: () = assert!(size_of::<squeue::Entry>() == 64 && size_of::<cqueue::Entry>() == 16);
const _: () = assert!(size_of::<types::SubmitArgs<'static, 'static>>() == 24, "struct io_uring_getevents_arg");
