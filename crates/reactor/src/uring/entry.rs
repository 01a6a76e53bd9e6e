//! Operations as submission queue entries: one `match` from [`Op`] to the kernel's form.
//!
//! **Nothing on a socket waits inside the kernel but polls.** The kernel waits for a socket with a poll of its own that
//! also asks for urgent data (`EPOLLPRI`). A peer that sends one urgent byte makes that poll ready at once and for
//! ever; after some tries in vain, or when it has no memory for the poll, the kernel moves the operation to a worker
//! thread, one for each. So an entry that calls a socket says `MSG_DONTWAIT`, which makes the kernel answer `EAGAIN`
//! instead, and the operation then waits with an entry of its own, a poll for what it needs: a poll is never moved to a
//! thread. Beside that, errors and the end of the peer's half end every poll.
//!
//! | operation | call | wait | because |
//! |---|---|---|---|
//! | accept | in `next` | poll first | the owner may take what waits without another operation; nothing unwanted is accepted |
//! | receive, with a buffer ring | entry | poll first | bytes are hardly there yet, and an empty buffer ring does not matter |
//! | receive, without a buffer ring | in `next` | poll that stays | one entry for all receives of a descriptor; a buffer only when there are bytes |
//! | receive into a lease, send | entry | poll after `EAGAIN` | mostly there are bytes, or there is room |
//! | connect | in `next`, after a no-op | poll while it is under way | no entry for it can be told not to wait |
//! | poll for bytes, without a buffer ring | a look in `next` | the poll of receives | one entry for all of a descriptor |
//! | other polls | | poll | |
//! | shutdown | in `next`, after a no-op | | the kernel would use a worker thread; the entry keeps its place behind earlier sends |
//! | operations of files | entry | | the kernel may use a worker thread, of a few: [`ring`](super::ring) |
#![forbid(unsafe_code)]

use core::ptr;

use io_uring::{opcode, squeue, types};
use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use super::watch::EVENTS;
use crate::fd::Number;
use crate::op::{Interest, Op};
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
    /// The wait of an operation for its descriptor.
    Wait,
}

/// In which form an operation goes to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As a poll of its descriptor, which says when its call is worth it.
    Wait,
    /// As a poll that stays until it has said so: of a send to a peer that has ended its half. The kernel always asks
    /// for that end too, which makes every poll ready at once and for ever; one that stays tells it once.
    Stay,
    /// As its call, which does not wait.
    Call,
}

impl Form {
    /// The form in which an operation begins.
    pub(super) const fn first(op: &Op<'static>) -> Self {
        match op {
            Op::Accept { .. } | Op::Receive { .. } | Op::Poll { .. } => Self::Wait,
            _ => Self::Call,
        }
    }
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
            7 => Self::Wait,
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
            Self::Wait => 7,
        }
    }

    /// What the completion of the call of `op` is about.
    const fn of_call(op: &Op<'static>) -> Self {
        match op {
            Op::Open { .. } => Self::Opening,
            _ => Self::Operation,
        }
    }

    /// Which entry of `op` can stay with the kernel: calls of sockets end while they are handed over.
    const fn of_stay(op: &Op<'static>) -> Self {
        match awaited(op) {
            Some(_) => Self::Wait,
            None => Self::of_call(op),
        }
    }
}

impl Entry {
    /// Has an operation that is in its slot wait for its descriptor.
    ///
    /// # Panics
    ///
    /// When it is one that does not wait: of a file, a shutdown or a close.
    pub(super) fn wait(key: Key, op: &Op<'static>) -> Self {
        let (fd, events) = awaited(op).expect("files are not waited for");
        let poll = opcode::PollAdd::new(types::Fd(fd.raw()), events as u32);
        Self(poll.build().user_data(key.pack(Kind::Wait.number())))
    }

    /// The same, until it is cancelled: each change is told, the first one at once.
    ///
    /// # Panics
    ///
    /// As [`wait`](Self::wait).
    pub(super) fn stay(key: Key, op: &Op<'static>) -> Self {
        let (fd, events) = awaited(op).expect("files are not waited for");
        let poll = opcode::PollAdd::new(types::Fd(fd.raw()), events as u32).multi(true);
        Self(poll.build().user_data(key.pack(Kind::Wait.number())))
    }

    /// Makes the call of an operation that is in its slot. `group` is the buffer ring that receives draw from.
    pub(super) fn call(key: Key, op: &mut Op<'static>, group: Option<u16>) -> Self {
        let user_data = key.pack(Kind::of_call(op).number());
        let entry = match op {
            Op::Accept { .. } | Op::Poll { .. } => unreachable!("made in `next`"),
            Op::Receive { fd } => small_receive(fd.raw(), group.expect("without one it is made in `next`")),
            Op::ReceiveInto { fd, lease } => {
                let (start, len) = room(lease);
                opcode::Recv::new(types::Fd(fd.raw()), start, len).flags(libc::MSG_DONTWAIT).build()
            }
            Op::Send { fd, bytes } => {
                let (start, len) = bytes.raw_parts();
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                opcode::Send::new(types::Fd(fd.raw()), start, capped(len)).flags(flags).build()
            }
            Op::Connect { .. } | Op::Shutdown { .. } => opcode::Nop::new().build(),
            Op::Close { fd } => opcode::Close::new(types::Fd(fd.raw())).build(),
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
    pub(super) fn cancel(key: Key, op: &Op<'static>) -> Self {
        let target = key.pack(Kind::of_stay(op).number());
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
    pub(super) fn watch(fd: Number, name: u64) -> Self {
        Self(opcode::PollAdd::new(types::Fd(fd.raw()), EVENTS).multi(true).build().user_data(name))
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

    /// A receive from the ring that waits on a worker thread of the kernel, as no entry of the driver's does.
    #[cfg(test)]
    pub(super) fn receive_on_worker(key: Key, fd: Number, group: u16) -> Self {
        let receive = opcode::Recv::new(types::Fd(fd.raw()), ptr::null_mut(), RECEIVE_BYTES_MAX as u32);
        let flags = squeue::Flags::BUFFER_SELECT | squeue::Flags::ASYNC;
        Self(receive.buf_group(group).build().flags(flags).user_data(key.pack(Kind::Operation.number())))
    }

    pub(super) fn raw(&self) -> &squeue::Entry {
        &self.0
    }
}

/// A receive that takes its buffer from the ring.
fn small_receive(fd: i32, group: u16) -> squeue::Entry {
    let receive = opcode::Recv::new(types::Fd(fd), ptr::null_mut(), RECEIVE_BYTES_MAX as u32);
    receive.flags(libc::MSG_DONTWAIT).buf_group(group).build().flags(squeue::Flags::BUFFER_SELECT)
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

/// What an operation waits for, and where; `None` for those that do not wait. Errors and the end of a connection are
/// told beside it.
const fn awaited(op: &Op<'static>) -> Option<(Number, libc::c_short)> {
    match op {
        Op::Accept { listener: fd } | Op::Receive { fd } | Op::ReceiveInto { fd, .. } => Some((*fd, libc::POLLIN)),
        Op::Send { fd, .. } | Op::Connect { fd, .. } => Some((*fd, libc::POLLOUT)),
        Op::Poll { fd, interest } => Some((*fd, events(*interest))),
        Op::Shutdown { .. }
        | Op::Close { .. }
        | Op::Open { .. }
        | Op::Stat { .. }
        | Op::ReadAt { .. }
        | Op::WriteAt { .. }
        | Op::Fsync { .. } => None,
    }
}

const fn events(interest: Interest) -> libc::c_short {
    match interest {
        Interest::Readable => libc::POLLIN,
        Interest::Writable => libc::POLLOUT,
        Interest::PeerClosed => libc::POLLRDHUP,
    }
}

const UNWATCH: u64 = (Kind::Unwatch.number() as u64) << 56;
const DOORBELL: u64 = (Kind::Doorbell.number() as u64) << 56;
/// The kernel's `MAX_RW_COUNT`.
const TRANSFER_BYTES_MAX: usize = 0x7fff_f000;
