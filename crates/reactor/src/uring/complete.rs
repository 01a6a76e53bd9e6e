//! What a completion means: for its operation an answer, another try, or a wait for a buffer.
#![forbid(unsafe_code)]

use io_uring::cqueue;
use plimsoll_slab::Key;

use super::cancel::close_opened;
use super::entry::{Form, Kind};
use super::receive::{Receiver, Scratched, Taken};
use super::watch::Told;
use super::{Bell, Uring};
use crate::fd::Number;
use crate::op::{Errno, Interest, Op};
use crate::slots::{Raw, Slot, SlotState, Slots};
use crate::{Received, list, sys};

/// What became of a completion.
#[derive(Debug)]
enum Step {
    Done(Result<u32, Errno>),
    Received(Received),
    /// Not yet: its descriptor says when.
    Wait,
    /// Not yet, and the end of the peer's half, which has come, says nothing of when.
    Stay,
    /// Its call is to be made, again or at last.
    Call,
    /// When there is a buffer.
    Block,
}

impl Uring {
    pub(crate) fn next(&mut self, slots: &mut Slots) -> Option<Raw> {
        loop {
            if let Some(key) = self.ended.pop(slots) {
                return Some(Raw { key, result: Err(Errno::CANCELED), received: None });
            }
            if self.tries > 0 {
                self.tries -= 1;
                if let Some(key) = self.readable.pop(slots)
                    && let Some(raw) = self.receive(key, slots)
                {
                    return Some(raw);
                }
                continue;
            }
            self.batch = self.batch.checked_sub(1)?;
            let Some(completion) = self.spill.pop_front().or_else(|| self.ring.pop()) else {
                debug_assert!(false, "a batch is what was in the queue");
                return None;
            };
            if let Some(raw) = self.complete(&completion, slots) {
                return Some(raw);
            }
        }
    }

    fn complete(&mut self, completion: &cqueue::Entry, slots: &mut Slots) -> Option<Raw> {
        let taken = self.receiver.take(completion);
        let (kind, key) = Kind::of(completion.user_data())?;
        let more = cqueue::more(completion.flags());
        match kind {
            Kind::Cancel => {
                if completion.result() == -libc::ENOENT {
                    self.cancel_again(key, slots);
                }
                return None;
            }
            Kind::Doorbell => {
                if !more {
                    self.bell = Bell::Unarmed;
                }
                return None;
            }
            Kind::Watch => {
                // Of a watch that fails, the receive finds out why.
                let events = completion.result().max(0) as u32;
                match self.watches.told(key, events, more) {
                    Told::Waiter(index) => {
                        let key = slots.key_at(index).expect("what waits for a watch is in flight");
                        return self.receive(key, slots);
                    }
                    Told::Nobody => {}
                    Told::TooMuch(name) => self.end_watch(name),
                }
                return None;
            }
            Kind::Unwatch => return None,
            Kind::Wait if more => {
                self.stays(key, completion.result(), slots);
                return None;
            }
            Kind::Operation | Kind::Opening | Kind::Wait => debug_assert!(!more, "calls are one-shot"),
        }
        let result = u32::try_from(completion.result()).map_err(|_| Errno(-completion.result()));
        let Some(slot) = slots.get(key) else {
            close_opened(completion);
            return Some(Raw { key, result, received: None });
        };
        if list::is_listed(slot) {
            self.cancels.remove(slots, key.index());
        }
        let slot = slots.get(key).expect("found above");
        let step = match kind {
            Kind::Wait => self.waited(slot, result),
            _ => self.called(slot, result, taken),
        };
        self.finish(key, step, slots)
    }

    /// A wait that stays has told something. When it is what is waited for, it is cancelled, and the call follows its
    /// end.
    fn stays(&mut self, key: Key, events: i32, slots: &mut Slots) {
        let Some(slot) = slots.get(key) else { return };
        if can_send(events as u32) && !slot.state.is_cancelled() && !list::is_listed(slot) {
            self.cancel(key, slots);
        }
    }

    /// Tries a receive into the scratch buffer, or tells that there is something to receive.
    fn receive(&mut self, key: Key, slots: &mut Slots) -> Option<Raw> {
        let slot = slots.get(key).expect("a receive that waits is in flight");
        let fd = slot.op.number().expect("it waits for a descriptor");
        self.watches.set_queued(fd, false);
        let step = match slot.op {
            Op::Receive { .. } => self.received(fd, 0, Taken::Nothing, slot.state),
            Op::Poll { .. } if slot.state == SlotState::InFlight => self.told_readable(fd),
            Op::Poll { .. } => Step::Done(Err(Errno::CANCELED)),
            _ => unreachable!("only receives and polls wait for a watch"),
        };
        self.finish(key, step, slots)
    }

    /// The kernel tells the end of a wait for bytes when anything comes, also an urgent byte that is not part of the
    /// stream; and what it told earlier may have been used up.
    fn told_readable(&mut self, fd: Number) -> Step {
        match sys::poll_now(fd, libc::POLLIN) {
            Ok(0) => {
                self.watches.used_up(fd);
                Step::Wait
            }
            Ok(_) => Step::Done(Ok(0)),
            Err(errno) => Step::Done(Err(errno)),
        }
    }

    fn finish(&mut self, key: Key, step: Step, slots: &mut Slots) -> Option<Raw> {
        match step {
            Step::Done(result) => Some(Raw { key, result, received: None }),
            Step::Received(bytes) => Some(Raw { key, result: Ok(bytes.len() as u32), received: Some(bytes) }),
            Step::Wait | Step::Stay | Step::Call | Step::Block
                if !self.is_wanted(slots.get(key).expect("in flight")) =>
            {
                Some(Raw { key, result: Err(Errno::CANCELED), received: None })
            }
            Step::Wait => {
                self.place(key, Form::Wait, slots);
                None
            }
            Step::Stay => {
                self.place(key, Form::Stay, slots);
                None
            }
            Step::Call => {
                self.place(key, Form::Call, slots);
                None
            }
            Step::Block => {
                self.enobufs_total += 1;
                self.blocked.push(slots, key.index());
                None
            }
        }
    }

    /// Whether an operation may be done by its descriptor's number now: its end was not asked for, and the number is no
    /// other file's.
    fn is_wanted(&self, slot: &Slot) -> bool {
        !slot.state.is_cancelled() && slot.op.number().is_none_or(|fd| self.watches.is_open(fd))
    }

    /// What the end of its wait means for an operation.
    fn waited(&mut self, slot: &Slot, result: Result<u32, Errno>) -> Step {
        let events = match result {
            Ok(events) => events,
            // A wait that stayed and was ended by `stays`.
            Err(Errno::CANCELED) if matches!(slot.op, Op::Send { .. }) && !slot.state.is_cancelled() => {
                return Step::Call;
            }
            Err(errno) => return Step::Done(Err(errno)),
        };
        match slot.op {
            Op::Poll { fd, interest: Interest::Readable } if self.is_wanted(slot) => self.told_readable(fd),
            Op::Poll { .. } => Step::Done(Ok(0)),
            _ if !self.is_wanted(slot) => Step::Done(Err(Errno::CANCELED)),
            Op::Accept { listener } => match self.accept_now(listener) {
                Ok(Some(fd)) => Step::Done(Ok(fd.raw() as u32)),
                Ok(None) => Step::Wait,
                Err(errno) => Step::Done(Err(errno)),
            },
            Op::Receive { fd } if self.receiver.group().is_none() => self.received(fd, 0, Taken::Nothing, slot.state),
            Op::Connect { fd, .. } => Step::Done(sys::socket_error(fd).map(|()| 0)),
            Op::Send { .. } if !can_send(events) => Step::Stay,
            _ => Step::Call,
        }
    }

    /// What the answer to its call means for an operation.
    fn called(&mut self, slot: &Slot, result: Result<u32, Errno>, taken: Taken) -> Step {
        let is_wanted = !slot.state.is_cancelled();
        let receives = matches!(slot.op, Op::Receive { .. });
        let waits = receives || matches!(slot.op, Op::ReceiveInto { .. } | Op::Send { .. });
        let count = match result {
            Ok(count) => count,
            Err(Errno::NOBUFS) if is_wanted && receives => return Step::Block,
            Err(Errno::AGAIN) if is_wanted && waits => return Step::Wait,
            Err(Errno(libc::EINTR)) if is_wanted => return interrupted(&slot.op),
            // A worker thread of the kernel that is told to stop, and what would have to wait or to queue for a buffer.
            Err(Errno(libc::EINTR | libc::ENOBUFS)) if !is_wanted => return Step::Done(Err(Errno::CANCELED)),
            Err(Errno::AGAIN) if !is_wanted && waits => return Step::Done(Err(Errno::CANCELED)),
            Err(errno) => return Step::Done(Err(errno)),
        };
        match &slot.op {
            Op::Receive { fd } => self.received(*fd, count, taken, slot.state),
            Op::Connect { .. } | Op::Shutdown { .. } if !self.is_wanted(slot) => Step::Done(Err(Errno::CANCELED)),
            Op::Connect { fd, address } => match sys::connect(*fd, address) {
                Err(Errno(libc::EINPROGRESS)) => Step::Wait,
                result => Step::Done(result.map(|()| 0)),
            },
            Op::Shutdown { fd, how } => Step::Done(sys::shutdown(*fd, *how).map(|()| 0)),
            Op::Stat { .. } => Step::Done(Ok(sys::STATX_BYTES as u32)),
            Op::Open { flags, .. } => {
                let fd = Number::from_raw(count as i32);
                sys::end_opening(fd, *flags);
                self.opened(fd);
                Step::Done(Ok(count))
            }
            _ => Step::Done(Ok(count)),
        }
    }

    fn received(&mut self, fd: Number, count: u32, taken: Taken, state: SlotState) -> Step {
        match (&mut self.receiver, taken) {
            (_, Taken::Lost) if state != SlotState::Orphaned => Step::Done(Err(Errno(libc::EIO))),
            (Receiver::Poll(_), _) if state != SlotState::InFlight => Step::Done(Err(Errno::CANCELED)),
            (Receiver::Poll(scratch), _) => match scratch.receive(fd) {
                Ok(Scratched::Full(bytes)) => Step::Received(bytes),
                Ok(Scratched::Short(bytes)) => {
                    self.watches.cut_short(fd);
                    Step::Received(bytes)
                }
                Ok(Scratched::EndOfFile) => Step::Done(Ok(0)),
                Ok(Scratched::Nothing) => {
                    self.watches.used_up(fd);
                    Step::Wait
                }
                Ok(Scratched::NoRoom) => Step::Block,
                Err(errno) => Step::Done(Err(errno)),
            },
            // A receive on a worker thread of the kernel keeps its buffer also when the stream has ended.
            (Receiver::Ring(group), Taken::Bytes(span)) if state != SlotState::Orphaned && !span.is_empty() => {
                Step::Received(group.lend(span))
            }
            // The end of the stream, or bytes that nobody wants.
            (Receiver::Ring(_), _) => Step::Done(Ok(count)),
        }
    }
}

/// Whether what a poll has told is worth a send: there is room, or the send says what has become of the connection.
fn can_send(events: u32) -> bool {
    events & (libc::POLLOUT | libc::POLLERR | libc::POLLHUP) as u32 != 0
}

/// What a signal that reached a worker thread of the kernel means for an operation: it is made again.
fn interrupted(op: &Op<'static>) -> Step {
    match op {
        Op::Close { .. } => Step::Done(Ok(0)),
        _ => Step::Call,
    }
}
