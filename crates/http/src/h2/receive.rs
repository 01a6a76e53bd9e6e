//! How a connection receives: what comes has a place, or it stays in the socket.
//!
//! ```text
//!   calm, no stream             a receive is armed, which brings bytes in a buffer of the driver
//!   streams, or yellow and up   only a wait is armed, which holds nothing --readable--> a place is made, then received
//!                                                                                           | none        into it
//!                                                                                           v
//!                                                                                      waits in line
//! ```
//!
//! What came in a buffer of the driver cannot stay there, and cannot go back into the socket. So it is received that
//! way only while nothing is lost with it: where there is no stream. When memory comes to be short, such receives are
//! recalled, so that they are waits, too. A request is begun out of such a buffer when what came behind it has a place
//! of its own. Few bytes need none: for them there is a little of what is kept for newcomers and for answers.

use plimsoll_pool::Priority;
use plimsoll_runtime::net::RECEIVE_BYTES_MAX;
use plimsoll_runtime::{Errno, Kind, Lease, OverBudget, Pool};
use plimsoll_slab::Key;

use super::Http2;
use super::shared::Env;
use super::step::{Step, Worker};
use crate::exchange::line::Line;
use crate::memory::wait::REQUEST_ROOM_BYTES;

/// What is received at a time while memory is short: of one that holds something already, or at the level orange, and
/// of others.
const SMALL_BYTES: usize = 1_024;
const LARGER_BYTES: usize = 4 * SMALL_BYTES;
/// What fills no more than this part of its place is moved to a smaller one.
const SPARSE_PART: usize = 4;

/// What was received.
enum Came {
    Bytes(usize),
    Nothing,
    End,
    Failure(Errno),
}

impl Http2 {
    /// Has the connection receive.
    #[inline(always)]
    pub(super) fn arm_receive(&mut self, env: Env<'_>, line: &mut impl Line, key: Key) -> Result<(), OverBudget> {
        if line.is_receiving() {
            return Ok(());
        }
        if !env.holds_back() && !self.has_exchanges() {
            return line.receive();
        }
        // What it was granted is for this.
        if env.fed.get() == Some(key) { self.receive_placed(env, line) } else { line.await_readable() }
    }

    /// Receives what there is, or the end of it. Without a place for it the connection waits, or goes on waiting.
    pub(crate) fn receive(&mut self, env: Env<'_>, worker: &mut impl Worker, line: &mut impl Line, key: Key) -> Step {
        if !env.holds_back()
            && let Ok(came) = self.receive_at_once(env, line)
        {
            return self.received_at_once(env, line, key, came);
        }
        let armed = worker.retried(key, || self.receive_placed(env, line));
        let Err(over) = armed else {
            if !self.need.unread {
                return Step::Rest;
            }
            (self.need.unread, self.need.wanted) = (false, None);
            return self.settle(env, line, key, plimsoll_runtime::now());
        };
        self.need.unread = true;
        if self.has_begun() {
            self.need.note_over(Priority::Body, &over);
        } else {
            self.need.note(Priority::Head, REQUEST_ROOM_BYTES);
        }
        self.settle(env, line, key, plimsoll_runtime::now())
    }

    fn received_at_once(&mut self, env: Env<'_>, line: &mut impl Line, key: Key, came: Came) -> Step {
        if ::core::mem::take(&mut self.need.unread) {
            self.need.wanted = None;
        }
        match came {
            Came::Bytes(bytes) => Step::Received(bytes),
            Came::Nothing => self.settle(env, line, key, plimsoll_runtime::now()),
            Came::End => self.ended(line),
            Came::Failure(errno) => Step::Failed(errno),
        }
    }

    /// Receives what is there into a place of its own, which is as large as what a receive brings at most, or behind
    /// what is kept.
    fn receive_at_once(&mut self, env: Env<'_>, line: &mut impl Line) -> Result<Came, OverBudget> {
        let place = match &mut self.input {
            Some(input) => env.pool.try_grow(input, LARGER_BYTES).map(|()| self.input.take())?,
            None => Some(env.pool.try_acquire(RECEIVE_BYTES_MAX, Kind::Buffers)?),
        };
        let bytes_max = place.as_ref().map_or(0, Lease::spare_capacity);
        let mut place = [place];
        let received = line.receive_now(&mut place, bytes_max);
        let [place] = place;
        self.input = place.filter(|place| !place.is_empty());
        Ok(match received {
            Ok(bytes @ 1..) => Came::Bytes(bytes),
            Ok(0) => Came::End,
            Err(Errno::AGAIN) => Came::Nothing,
            Err(errno) => Came::Failure(errno),
        })
    }

    /// Receives into a place of its own.
    fn receive_placed(&mut self, env: Env<'_>, line: &mut impl Line) -> Result<(), OverBudget> {
        if let Some(input) = &mut self.input {
            env.pool.try_grow(input, SMALL_BYTES)?;
        }
        let bytes = if self.input.is_some() || env.is_short() { SMALL_BYTES } else { LARGER_BYTES };
        line.receive_into(env.pool.try_acquire(bytes, Kind::Buffers)?)
    }
}

/// What is kept of the input takes no more memory than it needs.
pub(super) fn move_sparse(pool: &Pool, input: &mut Lease) {
    if input.class().bytes() > LARGER_BYTES
        && input.len() <= input.class().bytes() / SPARSE_PART
        && let Ok(smaller) = pool.try_copy(input, Kind::Buffers)
    {
        *input = smaller;
    }
}
