//! What a completion means: for its operation an answer, another try, or a wait for a buffer.
#![forbid(unsafe_code)]

use io_uring::cqueue;
use plimsoll_slab::Key;

use super::cancel::close_opened;
use super::entry::{Arming, Kind};
use super::receive::{Receiver, Scratched, Taken};
use super::watch::Told;
use super::{Bell, Uring, queue};
use crate::op::{Errno, Fd, Op};
use crate::slots::{Raw, SlotState, Slots};
use crate::{Received, sys};

/// What became of a completion.
#[derive(Debug)]
enum Step {
    Done(Result<u32, Errno>),
    Received(Received),
    /// Once more.
    Again,
    /// When there is a buffer.
    Starve,
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
            Kind::Operation | Kind::Opening => debug_assert!(!more, "operations are one-shot"),
        }
        let result = u32::try_from(completion.result()).map_err(|_| Errno(-completion.result()));
        let Some(slot) = slots.get(key) else {
            close_opened(completion);
            return Some(Raw { key, result, received: None });
        };
        if queue::is_listed(slot) {
            self.cancels.remove(slots, key.index());
        }
        let step = self.step(key, result, taken, slots);
        self.finish(key, step, slots)
    }

    /// Tries a receive into the scratch buffer.
    fn receive(&mut self, key: Key, slots: &mut Slots) -> Option<Raw> {
        let slot = slots.get(key).expect("a receive that waits is in flight");
        let Op::Receive { fd } = slot.op else { unreachable!("only receives wait for a watch") };
        self.watches.set_queued(fd, false);
        let step = self.received(fd, 0, Taken::Nothing, slot.state);
        self.finish(key, step, slots)
    }

    fn finish(&mut self, key: Key, step: Step, slots: &mut Slots) -> Option<Raw> {
        match step {
            Step::Done(result) => Some(Raw { key, result, received: None }),
            Step::Received(bytes) => Some(Raw { key, result: Ok(bytes.len() as u32), received: Some(bytes) }),
            Step::Again => {
                self.place(key, Arming::Parked, slots);
                None
            }
            Step::Starve => {
                self.enobufs_total += 1;
                self.starved.push(slots, key.index());
                None
            }
        }
    }

    /// What a completion means for its operation.
    fn step(&mut self, key: Key, result: Result<u32, Errno>, taken: Taken, slots: &Slots) -> Step {
        let slot = slots.get(key).expect("looked up by the caller");
        let wanted = slot.state == SlotState::InFlight;
        let count = match result {
            Ok(count) => count,
            Err(Errno::NOBUFS) if wanted && matches!(slot.op, Op::Receive { .. }) => return Step::Starve,
            Err(Errno(libc::EINTR)) if wanted => return interrupted(&slot.op),
            // A worker thread of the kernel that is told to stop, and a receive that would have to queue for a buffer.
            Err(Errno(libc::EINTR | libc::ENOBUFS)) if !wanted => return Step::Done(Err(Errno::CANCELED)),
            Err(errno) => return Step::Done(Err(errno)),
        };
        match slot.op {
            Op::Accept { .. } if !wanted => Step::Done(Err(Errno::CANCELED)),
            Op::Accept { listener } => match sys::accept(listener, false) {
                Ok(Some(fd)) => Step::Done(Ok(fd.raw() as u32)),
                Ok(None) => Step::Again,
                Err(errno) => Step::Done(Err(errno)),
            },
            Op::Receive { fd } => self.received(fd, count, taken, slot.state),
            // Its descriptor may be closed, and the number another file's.
            Op::Shutdown { .. } if slot.state.is_cancelled() => Step::Done(Err(Errno::CANCELED)),
            Op::Shutdown { fd, how } => Step::Done(sys::shutdown(fd, how).map(|()| 0)),
            Op::Stat { .. } => Step::Done(Ok(sys::STATX_BYTES as u32)),
            Op::Poll { .. } => Step::Done(Ok(0)),
            _ => Step::Done(Ok(count)),
        }
    }

    fn received(&mut self, fd: Fd, count: u32, taken: Taken, state: SlotState) -> Step {
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
                    Step::Again
                }
                Ok(Scratched::NoRoom) => Step::Starve,
                Err(errno) => Step::Done(Err(errno)),
            },
            (Receiver::Ring(group), Taken::Bytes(span)) if state != SlotState::Orphaned => {
                Step::Received(group.lend(span))
            }
            // The end of the stream, or bytes that nobody wants.
            (Receiver::Ring(_), _) => Step::Done(Ok(count)),
        }
    }
}

/// What a signal that reached a worker thread of the kernel means for an operation: it is made again.
fn interrupted(op: &Op) -> Step {
    match op {
        Op::Close { .. } => Step::Done(Ok(0)),
        // Asked again, the socket would say that it is connecting already.
        Op::Connect { .. } => Step::Done(Err(Errno(libc::EINTR))),
        _ => Step::Again,
    }
}
