//! The try of each operation: one call that does not wait, and what its answer tells about the next one.
#![forbid(unsafe_code)]

use plimsoll_slab::Key;

use super::files::Started;
use super::table::Flags;
use super::{Mio, Tried};
use crate::fd::Number;
use crate::op::{Errno, Interest, Op};
use crate::slots::Slots;
use crate::sys;

impl Mio {
    pub(super) fn attempt(&mut self, slots: &mut Slots, key: Key) -> Tried {
        let slot = slots.get_mut(key).expect("checked by the caller");
        match &mut slot.op {
            Op::Accept { listener } => {
                let listener = *listener;
                match self.accept_now(listener) {
                    Ok(Some(fd)) => Tried::Done(Ok(fd.raw() as u32)),
                    Ok(None) => Tried::Wait,
                    Err(errno) => Tried::Done(Err(errno)),
                }
            }
            Op::Receive { fd } => {
                let fd = *fd;
                self.attempt_receive(fd)
            }
            Op::ReceiveInto { fd, lease } => {
                let fd = *fd;
                let room = lease.spare_mut();
                let room_bytes = room.len();
                let received = sys::receive_into(fd, room);
                self.received(fd, received, room_bytes)
            }
            Op::Send { fd, bytes } => match sys::send(*fd, bytes.as_slice()) {
                Err(Errno(libc::EAGAIN)) => Tried::Wait,
                sent => Tried::Done(sent.map(|bytes| bytes as u32)),
            },
            Op::Connect { fd, address } => {
                let fd = *fd;
                if self.watch.table.get(fd).flags.has(Flags::CONNECTING) {
                    return self.attempt_connected(fd);
                }
                match sys::connect(fd, address) {
                    Err(Errno(libc::EINPROGRESS)) => Tried::Wait,
                    result => Tried::Done(result.map(|()| 0)),
                }
            }
            Op::Shutdown { fd, how } => Tried::Done(sys::shutdown(*fd, *how).map(|()| 0)),
            Op::Close { fd } => {
                let fd = fd.number();
                if self.watch.table.get(fd).jobs > 0 {
                    self.watch.wait_for_jobs(slots, key.index(), fd);
                    return Tried::Out;
                }
                self.watch.closes(slots, fd);
                self.watch.forget(fd);
                Tried::Done(sys::close(fd).map(|()| 0))
            }
            Op::Poll { fd, interest } => {
                let (fd, interest) = (*fd, *interest);
                self.attempt_poll(fd, interest)
            }
            Op::Open { .. } | Op::Stat { .. } | Op::ReadAt { .. } | Op::WriteAt { .. } | Op::Fsync { .. } => {
                match self.files.start(slots, &mut self.watch.table, key.index()) {
                    Started::Out => Tried::Out,
                    Started::Failed(errno) => Tried::Done(Err(errno)),
                }
            }
        }
    }

    fn attempt_receive(&mut self, fd: Number) -> Tried {
        let room = self.scratch.room().expect("checked before the operation left its queue");
        let mut bytes = 0;
        let filled = self.scratch.shelf.fill(0, self.scratch.cursor, room, |space| {
            bytes = sys::receive(fd, space)?;
            Ok(bytes)
        });
        self.scratch.cursor += bytes;
        let received = match filled {
            Ok(received) => received,
            Err(errno) => return self.received(fd, Err(errno), room),
        };
        match (self.received(fd, Ok(bytes), room), received) {
            (Tried::Done(Ok(_)), Some(received)) => Tried::Received(received),
            (tried, _) => tried,
        }
    }

    /// What a receive into so much room has come to.
    fn received(&mut self, fd: Number, result: Result<usize, Errno>, room: usize) -> Tried {
        self.watch.tried(fd, result, room);
        match result {
            Err(Errno(libc::EAGAIN)) => Tried::Wait,
            result => Tried::Done(result.map(|bytes| bytes as u32)),
        }
    }

    fn attempt_connected(&mut self, fd: Number) -> Tried {
        match sys::poll_now(fd, libc::POLLOUT) {
            Ok(0) => return Tried::Wait,
            Ok(_) => {}
            Err(errno) => return Tried::Done(Err(errno)),
        }
        self.watch.clear(fd, Flags::CONNECTING);
        Tried::Done(sys::socket_error(fd).map(|()| 0))
    }

    /// Does what waited for the last file job of a descriptor.
    pub(super) fn after_jobs(&mut self, slots: &mut Slots, idle: Option<Number>) {
        let Some(fd) = idle else { return };
        let mut entry = self.watch.table.get(fd);
        if entry.flags.has(Flags::CLOSING) {
            self.watch.forget(fd);
            let _closed = sys::close(fd);
            return;
        }
        let mut waiters = core::mem::take(&mut entry.readers);
        self.watch.table.set(fd, entry);
        while let Some(index) = waiters.pop(slots) {
            self.watch.queues.ready(slots, index);
        }
    }

    /// Asks for the state of this moment, unless an edge would have told: that is exact, whatever was told before.
    fn attempt_poll(&mut self, fd: Number, interest: Interest) -> Tried {
        let (events, edge) = match interest {
            Interest::Readable => (libc::POLLIN, Some(Flags::READABLE)),
            Interest::Writable => (libc::POLLOUT, None),
            Interest::PeerClosed => (libc::POLLRDHUP, Some(Flags::ENDED)),
        };
        let flags = self.watch.table.get(fd).flags;
        if flags.has(Flags::REGISTERED) && edge.is_some_and(|edge| !flags.has(edge)) {
            return Tried::Wait;
        }
        match sys::poll_now(fd, events) {
            Ok(0) => {
                if interest == Interest::Readable {
                    self.watch.used_up(fd);
                }
                Tried::Wait
            }
            Ok(_) => Tried::Done(Ok(0)),
            Err(errno) => Tried::Done(Err(errno)),
        }
    }
}
