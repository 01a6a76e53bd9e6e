//! The end of each step: what came is kept, what there is to send is sent, what is waited for is armed, and has a
//! deadline.

use plimsoll_codec::h1::{Next, RequestState, ResponseState};
use plimsoll_pool::Priority;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::peers::PEER_LOOK;
use crate::exchange::line::Line;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::source::Source;
use crate::h1::active::{Active, Deadline, Look, Phase};
use crate::h1::body_receive::body_cap;
use crate::h1::step::Step;
use crate::memory::desk::Desk;
use crate::memory::wait::MemoryWait;

impl Active {
    /// Nothing more can be done with what came, of which some `is_fresh`.
    pub(crate) fn rest(
        &mut self,
        desk: &Desk,
        line: &mut impl Line,
        key: Key,
        source: &mut Source,
        is_fresh: bool,
    ) -> Step {
        if !self.keep(desk, key, source) {
            return Step::Shed(Shed::Head);
        }
        // A handler that waits for the body looks again when more of it is there. What it has looked at in vain, such
        // as a part of a trailer section, may still be kept: that alone is no reason.
        if is_fresh && self.input.is_some() {
            self.wake_reader(desk, key);
        }
        self.write_out(desk, line, key)
    }

    /// Keeps what came and was not used; `false` without room for it.
    fn keep(&mut self, desk: &Desk, key: Key, source: &mut Source) -> bool {
        let mut source = ::core::mem::replace(source, Source::Empty);
        if self.is_closing() {
            source = Source::Empty;
            (self.parts, self.decoded_bytes) = (None, 0);
        }
        let kept = source.keep(desk).or_else(|source| {
            let spare = self.spare_input(desk, key, source.rest());
            spare.map_or(Err(source), |spare| Ok(Some(spare)))
        });
        match kept {
            Ok(kept) => self.input = kept,
            Err(_) => return false,
        }
        true
    }

    /// Sends what there is to send, and arms what there is to wait for.
    pub(crate) fn write_out(&mut self, desk: &Desk, line: &mut impl Line, key: Key) -> Step {
        if desk.is_drawn()
            && !line.is_sending()
            && let Some(lease) = line.send_lent(&mut self.output)
        {
            desk.reserve.put_back(lease);
        }
        let mut flushed = line.flush(&desk.pool, &mut self.output);
        if flushed.is_err() && line.flush_now(&mut self.output) {
            // The socket has taken all of it at once: as after a send.
            flushed = Ok(());
            self.progressed(Deadline::Send);
            self.batch = 0;
            self.list(desk, key);
        }
        self.count_over(desk.counters());
        if self.uncounted.is_some() && !self.output.may_take_back() {
            self.count_begun(desk);
        }
        let sending = line.is_sending();
        let is_empty = self.output.is_empty();
        self.answered.settle(sending, is_empty, desk.counters());
        let next = self.exchange.next();
        let is_last = matches!(next, Next::Close { .. } | Next::Upgraded) && self.handler.is_none();
        let ends = self.is_closing() || is_last;
        if !self.is_queued()
            && self.output.has_room(COPY_BYTES_MAX, desk.config.output_bytes_max)
            && let Some(writer) = self.writer.take()
        {
            writer.wake();
        }
        if next == Next::ReadHead && self.is_parkable() && !ends && flushed.is_ok() {
            self.wait_no_longer(desk, key);
            return Step::Park;
        }
        // After a 101, or the head of an answer that another goes on with.
        let is_released = next == Next::Upgraded || self.exchange.response() == ResponseState::Body;
        let has_left = is_released && !self.is_closing() && !sending && self.output.is_empty();
        if has_left
            && self.handler.is_none()
            && let Some(successor) = self.successor.take()
        {
            return Step::Release(successor);
        }
        let is_over = ends && !sending && self.output.is_empty();
        let armed = if is_over { Ok(()) } else { flushed.and_then(|()| self.arm(desk, line, next)) };
        self.schedule(desk, line, sending || ends);
        match armed {
            _ if is_over => Step::CloseGently,
            Err(over) if !self.is_queued() && !self.awaits_output(desk, key, &over) => Step::Shed(Shed::Output),
            _ => Step::Rest,
        }
    }

    /// Something that has to be done finds no room: whether it waits for some.
    #[cold]
    pub(crate) fn awaits_output(&mut self, desk: &Desk, key: Key, over: &OverBudget) -> bool {
        self.awaits_room(desk, key, Priority::Output, over)
    }

    /// Arms what the exchange waits for.
    fn arm(&self, desk: &Desk, line: &mut impl Line, next: Next) -> Result<(), OverBudget> {
        match next {
            // Only output is waited for. A peer that has closed its half meanwhile gets it all the same.
            _ if self.is_closing() => {
                line.unwatch();
                Ok(())
            }
            // What would come has no place. One that goes away meanwhile makes way for others.
            _ if self.is_queued() && !self.is_half_closed() => line.watch(),
            _ if self.is_queued() => {
                line.unwatch();
                Ok(())
            }
            // Output that the peer does not take stops further reads from it; and what came before is looked at before
            // the end that may be behind it.
            Next::ReadHead if !self.output.is_empty() || self.is_ahead() && line.is_sending() => {
                line.unwatch();
                Ok(())
            }
            // So do requests that were read ahead and may not be begun yet.
            Next::ReadHead if self.is_batch_full(desk) && line.is_sending() => {
                line.unwatch();
                Ok(())
            }
            // And so do those whose turn is over for now.
            Next::ReadHead if self.look == Look::Listed && self.input.is_some() => {
                line.unwatch();
                Ok(())
            }
            Next::ReadHead => await_request(desk, line),
            Next::Drain if self.handler.is_none() => line.receive(),
            Next::Close { .. } if self.handler.is_none() && self.exchange.request() == RequestState::Body => {
                line.receive()
            }
            // A handler may read on behind its answer, also behind the last one of its connection.
            Next::ReadBody | Next::Drain | Next::Close { .. } if self.reader.is_some() => self.receive_body(desk, line),
            // Most likely it asks for more at once; if it does not, the next look finds that out.
            _ if self.look == Look::Fed => Ok(()),
            _ if self.handler.is_some() && !self.is_half_closed() => line.watch(),
            _ => {
                line.unwatch();
                Ok(())
            }
        }
    }

    /// Whether something was read ahead that was not looked at yet: it is no part of a head.
    fn is_ahead(&self) -> bool {
        self.input.is_some() && self.exchange.request() == RequestState::Idle
    }

    /// Arms a receive for a body: into a lease where many bytes are likely to be there.
    fn receive_body(&self, desk: &Desk, line: &mut impl Line) -> Result<(), OverBudget> {
        if line.is_receiving() {
            return Ok(());
        }
        if desk.is_filling() {
            // What has no room stays in the socket.
            return line.await_readable();
        }
        if self.several_for(desk).is_some() {
            return line.await_readable();
        }
        let class = self.receive.next(self.decoder.remaining(), body_cap(desk));
        match class.and_then(|class| desk.pool.try_acquire_class(class, Kind::Buffers).ok()) {
            Some(lease) => line.receive_into(lease),
            None => line.receive(),
        }
    }

    /// Sets the deadline that fits what the connection waits for. One that is set already stands: bytes that come are
    /// no reason to wait longer for others.
    fn schedule(&mut self, desk: &Desk, line: &mut impl Line, sends: bool) {
        let deadline = match self.exchange.request() {
            _ if self.is_queued() => Deadline::Room,
            _ if sends => Deadline::Send,
            _ if self.phase == Phase::AwaitsProxy => Deadline::Proxy,
            _ if self.reader.is_some() => Deadline::Body,
            _ if self.handler.is_some() && self.is_half_closed() => Deadline::Peer,
            _ if self.handler.is_some() => Deadline::None,
            RequestState::Head => Deadline::Head,
            // Its turn comes.
            RequestState::Idle if self.look == Look::Listed => Deadline::None,
            _ => Deadline::Body,
        };
        if deadline == self.deadline && deadline != Deadline::None {
            return;
        }
        let now = plimsoll_runtime::now();
        if self.deadline == Deadline::Body {
            self.min_rate.pause(now);
        }
        self.deadline = deadline;
        let config = &desk.config;
        let after = match deadline {
            Deadline::None => None,
            Deadline::Head => Some(config.head_timeout),
            Deadline::Body => Some(self.min_rate.wait(now)),
            Deadline::Proxy => Some(config.proxy_header_timeout),
            Deadline::Send => Some(config.send_timeout),
            Deadline::Room if self.waits_to_begin() => {
                Some(config.wait_to_begin(matches!(self.memory, MemoryWait::QueuedUpload { .. })))
            }
            Deadline::Room => Some(config.memory_timeout),
            Deadline::Peer => Some(PEER_LOOK),
        };
        match after.map(|after| self.due_after(after, now, config)).or_else(|| self.handler_left(now, config)) {
            Some(after) => line.schedule(after),
            None => line.unschedule(),
        }
    }
}

/// Has a connection wait for a request, or for more of its head. While memory is short its bytes stay in the socket.
fn await_request(desk: &Desk, line: &mut impl Line) -> Result<(), OverBudget> {
    if desk.holds_back() && !line.is_receiving() { line.await_readable() } else { line.receive() }
}
