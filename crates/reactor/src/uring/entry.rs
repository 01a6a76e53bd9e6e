//! Operations as submission queue entries: one `match` from [`Op`] to the kernel's form.
//!
//! Some operations are entered in another form than their name, and end in `next` with a call that does not wait:
//!
//! | operation | entry | because |
//! |---|---|---|
//! | accept | poll | the owner may take what waits without another operation; nothing unwanted is accepted |
//! | receive, without a buffer ring | poll that stays | one entry for all receives of a descriptor; a buffer only when there are bytes |
//! | shutdown | no-op | the kernel would use a worker thread; the entry keeps its place behind earlier sends |
#![forbid(unsafe_code)]

use core::ptr;

use io_uring::{opcode, squeue, types};
use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use crate::op::{Fd, Interest, Op};
use crate::{RECEIVE_BYTES_MAX, sys};

/// A submission queue entry that names only memory which its operation keeps in place: I-ENTRY of
/// [`ring`](super::ring).
pub(super) struct Entry(squeue::Entry);

/// What a completion is about: the highest 8 bits of its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An operation.
    Operation,
    /// An operation whose result is a descriptor.
    Opening,
    /// A cancellation: nobody waits for it.
    Cancel,
    /// The doorbell.
    Doorbell,
    /// A descriptor that the kernel watches; the key's index is its number. See [`watch`](super::watch).
    Watch,
    /// The end of a watch: nobody waits for it.
    Unwatch,
}

/// How a receive into the buffer ring is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arming {
    /// Bytes are hardly there yet: wait for readiness first, so that an empty buffer ring does not matter.
    Parked,
    /// Bytes were there when no buffer was: take them at once.
    Starved,
}

impl Kind {
    /// The kind and the key in a completion's user data; `None` for what we have not sent.
    pub(super) fn of(user_data: u64) -> Option<(Self, Key)> {
        let (kind, key) = Key::unpack(user_data);
        let kind = match kind {
            1 => Self::Operation,
            2 => Self::Opening,
            3 => Self::Cancel,
            4 => Self::Doorbell,
            5 => Self::Watch,
            6 => Self::Unwatch,
            _ => return None,
        };
        Some((kind, key))
    }

    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Operation => 1,
            Self::Opening => 2,
            Self::Cancel => 3,
            Self::Doorbell => 4,
            Self::Watch => 5,
            Self::Unwatch => 6,
        }
    }

    /// What the completions of `op` are about.
    const fn for_op(op: &Op) -> Self {
        match op {
            Op::Open { .. } => Self::Opening,
            _ => Self::Operation,
        }
    }
}

impl Entry {
    /// Starts an operation that is in its slot. `group` is the buffer ring that receives draw from, if there is one.
    pub(super) fn start(key: Key, op: &mut Op, group: Option<u16>, arming: Arming) -> Self {
        let user_data = key.pack(Kind::for_op(op).number());
        let entry = match op {
            Op::Accept { listener } => {
                opcode::PollAdd::new(types::Fd(listener.raw()), events(Interest::Readable)).build()
            }
            Op::Receive { fd } => match group {
                Some(group) => small_receive(fd.raw(), group, arming),
                None => opcode::PollAdd::new(types::Fd(fd.raw()), events(Interest::Readable)).build(),
            },
            Op::ReceiveInto { fd, lease } => {
                let (start, len) = room(lease);
                opcode::Recv::new(types::Fd(fd.raw()), start, len).build()
            }
            Op::Send { fd, bytes } => {
                let (start, len) = bytes.raw_parts();
                opcode::Send::new(types::Fd(fd.raw()), start, capped(len)).flags(libc::MSG_NOSIGNAL).build()
            }
            Op::Connect { fd, address } => {
                let len = address.len() as libc::socklen_t;
                opcode::Connect::new(types::Fd(fd.raw()), address.as_ptr().cast(), len).build()
            }
            Op::Shutdown { .. } => opcode::Nop::new().build(),
            Op::Close { fd } => opcode::Close::new(types::Fd(fd.raw())).build(),
            Op::Poll { fd, interest } => opcode::PollAdd::new(types::Fd(fd.raw()), events(*interest)).build(),
            Op::Open { path, flags, mode } => {
                debug_assert_eq!(path.last(), Some(&0), "a path ends with its NUL");
                let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr().cast());
                open.flags(*flags | libc::O_CLOEXEC).mode(*mode).build()
            }
            Op::Stat { fd, lease } => {
                let (start, _) = room(lease);
                let stat = opcode::Statx::new(types::Fd(fd.raw()), c"".as_ptr(), start.cast());
                stat.flags(libc::AT_EMPTY_PATH).mask(sys::STATX_MASK).build()
            }
            Op::ReadAt { fd, lease, offset } => {
                let (start, len) = room(lease);
                opcode::Read::new(types::Fd(fd.raw()), start, len).offset(*offset).build()
            }
            Op::WriteAt { fd, lease, offset } => {
                opcode::Write::new(types::Fd(fd.raw()), lease.as_ptr(), capped(lease.len())).offset(*offset).build()
            }
            Op::Fsync { fd, data_only } => {
                let flags = if *data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
                opcode::Fsync::new(types::Fd(fd.raw())).flags(flags).build()
            }
        };
        Self(entry.user_data(user_data))
    }

    /// Cancels an operation that the kernel has.
    pub(super) fn cancel(key: Key, op: &Op) -> Self {
        let target = key.pack(Kind::for_op(op).number());
        let cancel = opcode::AsyncCancel::new(target).build().user_data(key.pack(Kind::Cancel.number()));
        // Its success shows in the operation's own completion.
        Self(cancel.flags(squeue::Flags::SKIP_SUCCESS))
    }

    /// Waits for rings of the bell behind `eventfd`, again and again. Each ring is an event of its own, so nothing has
    /// to be read from it.
    pub(super) fn doorbell(eventfd: i32) -> Self {
        let poll = opcode::PollAdd::new(types::Fd(eventfd), libc::POLLIN as u32).multi(true);
        Self(poll.build().user_data(DOORBELL))
    }

    /// Watches a descriptor until it is told to stop: says when bytes or the end come.
    pub(super) fn watch(fd: Fd, name: u64) -> Self {
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        Self(opcode::PollAdd::new(types::Fd(fd.raw()), events).multi(true).build().user_data(name))
    }

    /// Ends a watch, which holds its file open.
    pub(super) fn unwatch(name: u64) -> Self {
        let cancel = opcode::AsyncCancel::new(name).build().user_data(UNWATCH);
        Self(cancel.flags(squeue::Flags::SKIP_SUCCESS))
    }

    /// The same on a worker thread of the kernel.
    #[cfg(test)]
    pub(super) fn on_worker(self) -> Self {
        Self(self.0.flags(squeue::Flags::ASYNC))
    }

    pub(super) fn raw(&self) -> &squeue::Entry {
        &self.0
    }
}

/// A receive that takes its buffer from the ring when the bytes are there.
fn small_receive(fd: i32, group: u16, arming: Arming) -> squeue::Entry {
    let ioprio = match arming {
        Arming::Parked => RECEIVE_POLL_FIRST,
        Arming::Starved => 0,
    };
    let receive = opcode::Recv::new(types::Fd(fd), ptr::null_mut(), RECEIVE_BYTES_MAX as u32);
    receive.ioprio(ioprio).buf_group(group).build().flags(squeue::Flags::BUFFER_SELECT)
}

/// Where a lease can be filled.
fn room(lease: &mut Lease) -> (*mut u8, u32) {
    let spare = lease.spare_mut();
    debug_assert!(!spare.is_empty(), "checked when it was submitted");
    (spare.as_mut_ptr().cast(), capped(spare.len()))
}

/// What one call transfers at most.
fn capped(len: usize) -> u32 {
    len.min(TRANSFER_BYTES_MAX) as u32
}

fn events(interest: Interest) -> u32 {
    let events = match interest {
        Interest::Readable => libc::POLLIN,
        Interest::Writable => libc::POLLOUT,
        Interest::PeerClosed => libc::POLLRDHUP,
    };
    events as u32
}

/// `IORING_RECVSEND_POLL_FIRST`.
const RECEIVE_POLL_FIRST: u16 = 1;
const UNWATCH: u64 = (Kind::Unwatch.number() as u64) << 56;
const DOORBELL: u64 = (Kind::Doorbell.number() as u64) << 56;
/// The kernel's `MAX_RW_COUNT`.
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;
