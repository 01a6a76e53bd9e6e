//! How streams end: what the peer is told, what is given back, and what waits until there is room to say so.

use plimsoll_codec::h2::{ErrorCode, FRAME_HEADER_BYTES, StreamKey};
use plimsoll_runtime::JoinHandle;

use super::Parts;
use super::no_room::make;
use super::output::Growing;
use super::pending::Windows;
use super::room::{END_BYTES_MAX, UPDATE_BYTES_MAX};
use super::streams::{Ending, Incoming, Outgoing, Stage, find};
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::misbehaviour::{COMPLETED_POINTS, UNWANTED_BYTES_FREE, Verdict, unwanted_points};
use crate::exchange::user_code::UserBody;

impl Parts<'_> {
    /// Notes why an exchange cannot go on.
    pub(super) fn note(&mut self, stream: StreamKey, why: ExchangeEnd) {
        if let Some(exchange) = find(self.exchanges, stream) {
            exchange.course.note(why);
        }
    }

    /// Ends a stream before its time: what the peer is told, and what is counted. Returns what has to be dropped while
    /// the connection is not in the table.
    pub(super) fn cut(&mut self, stream: StreamKey, (code, why): (ErrorCode, ExchangeEnd)) -> Option<JoinHandle<()>> {
        let exchange = find(self.exchanges, stream)?;
        exchange.course.note(why);
        if exchange.must_finish > 0 && exchange.stage.is_running() {
            // Its slot stays taken until it has finished.
            exchange.response = Outgoing::Reset;
            // The end of its answer is not due any more.
            *self.answers -= u16::from(exchange.ending.take().is_some());
            (exchange.body, exchange.body_sent, exchange.received, exchange.blocked_since) =
                (UserBody::default(), 0, None, None);
            exchange.min_rate.pause(plimsoll_runtime::now());
            exchange.wake();
            exchange.shrink_window(self.codec);
            // Without its body it has nothing to send: the end of that would look like the end of a whole answer.
            self.codec.set_waiting(stream, false, &mut self.storage);
            if make(self.output, self.need, self.env, END_BYTES_MAX).is_err() {
                // Told when its slot is given free.
                return None;
            }
            let mut out = Growing(self.output, &self.env.pool);
            if self.codec.reset(stream, code, &mut self.storage, &mut out).is_err() {
                self.phase.close();
            }
            return None;
        }
        let handler = exchange.handler.take();
        self.break_off(stream, code);
        handler
    }

    /// There was no room to do this to a stream: it is done when there is. Nothing of it is kept until then.
    pub(super) fn end_later(&mut self, stream: StreamKey, ending: Ending) {
        let Some(exchange) = find(self.exchanges, stream) else {
            // A slot of the codec alone: room is made before there is one.
            self.phase.close();
            return;
        };
        *self.answers += u16::from(exchange.ending.is_none());
        let is_reset = matches!(exchange.ending, Some(Ending::Reset(_)));
        exchange.ending = if is_reset { exchange.ending } else { Some(ending) };
        if ending == Ending::Finish {
            return;
        }
        *self.answers -= exchange.drop_answer();
        exchange.wait_no_more(&self.env);
        (exchange.stage, exchange.response) = (Stage::Over, Outgoing::Reset);
        (exchange.body, exchange.body_sent, exchange.received) = (UserBody::default(), 0, None);
        (exchange.blocked_since, exchange.drain_until, exchange.begun_at) = (None, None, None);
        exchange.min_rate.pause(plimsoll_runtime::now());
        exchange.needs_room = false;
        exchange.wake();
        exchange.shrink_window(self.codec);
        self.codec.set_waiting(stream, false, &mut self.storage);
    }

    /// Does what is due on a stream; whether there was room for it.
    pub(super) fn end_now(&mut self, stream: StreamKey) -> bool {
        let ending = find(self.exchanges, stream).and_then(|exchange| exchange.ending);
        match ending {
            None => {}
            Some(Ending::Finish) => self.put_end(stream),
            Some(Ending::Free) => self.free(stream),
            Some(Ending::Reset(code)) => self.break_off(stream, code),
        }
        find(self.exchanges, stream).is_none_or(|exchange| exchange.ending.is_none())
    }

    /// Ends an answer whose body has left.
    pub(super) fn put_end(&mut self, stream: StreamKey) {
        if make(self.output, self.need, self.env, FRAME_HEADER_BYTES).is_err() {
            return self.end_later(stream, Ending::Finish);
        }
        let Some(exchange) = find(self.exchanges, stream) else { return };
        *self.answers -= u16::from(exchange.ending.take().is_some());
        let mut out = Growing(self.output, &self.env.pool);
        match self.codec.put_data_header(stream, 0, true, &mut self.storage, &mut out) {
            Ok(()) => exchange.response = Outgoing::Complete,
            Err(error) => {
                debug_assert!(false, "the stream may end, and room was made: {error}");
                self.phase.close();
            }
        }
        self.end_if_done(stream);
    }

    /// Resets a stream whose handler is gone, and frees its slot. Without room to say so, the peer is told later.
    pub(super) fn break_off(&mut self, stream: StreamKey, code: ErrorCode) {
        if make(self.output, self.need, self.env, END_BYTES_MAX).is_err() {
            return self.end_later(stream, Ending::Reset(code));
        }
        let mut out = Growing(self.output, &self.env.pool);
        if self.codec.reset(stream, code, &mut self.storage, &mut out).is_err() {
            self.phase.close();
        }
        self.free(stream);
    }

    /// Frees the slot of a stream that nobody works on any more and whose answer is complete. What is still to come of
    /// its request is taken and dropped for a while before: a reset could overtake the answer at the peer.
    pub(super) fn end_if_done(&mut self, stream: StreamKey) {
        let Some(exchange) = find(self.exchanges, stream) else { return };
        let is_answered = exchange.response == Outgoing::Complete
            || exchange.stage.is_tunnel() && exchange.response != Outgoing::Head;
        if !exchange.stage.is_running() && is_answered {
            self.answered.add(&mut exchange.course, self.env.counters());
        }
        let is_held = exchange.stage.is_running() || exchange.stage.is_tunnel();
        if is_held || !matches!(exchange.response, Outgoing::Complete | Outgoing::Reset) {
            return;
        }
        if matches!(exchange.request, Incoming::Done | Incoming::Gone) || exchange.response == Outgoing::Reset {
            return self.free(stream);
        }
        if exchange.drain_until.is_none() {
            exchange.drain_until = Some(plimsoll_runtime::now() + self.env.config.linger_timeout);
            exchange.min_rate.pause(plimsoll_runtime::now());
            if let Some(unread) = exchange.received.take() {
                self.drop_data(stream, unread.len());
            }
        }
    }

    /// Gives bytes back to the peer that nobody reads. After too many of them the peer is asked to stop.
    pub(super) fn drop_data(&mut self, stream: StreamKey, bytes: usize) {
        self.release(stream, bytes);
        let Some(exchange) = find(self.exchanges, stream) else { return };
        exchange.dropped_bytes = exchange.dropped_bytes.saturating_add(bytes as u32);
        if exchange.dropped_bytes > self.env.config.drain_bytes_max && exchange.response == Outgoing::Complete {
            self.free(stream);
        }
    }

    /// Bytes of a request's body are not in memory any more.
    pub(super) fn release(&mut self, stream: StreamKey, bytes: usize) {
        if self.output.reserve(&self.env.pool, UPDATE_BYTES_MAX).is_err() {
            self.pending.windows = Windows::Pending;
            return self.codec.release_deferred(stream, bytes, &mut self.storage);
        }
        let mut out = Growing(self.output, &self.env.pool);
        if self.codec.release(stream, bytes, &mut self.storage, &mut out).is_err() {
            self.phase.close();
        }
    }

    pub(super) fn free(&mut self, stream: StreamKey) {
        if make(self.output, self.need, self.env, END_BYTES_MAX).is_err() {
            return self.end_later(stream, Ending::Free);
        }
        if let Some(exchange) = find(self.exchanges, stream) {
            if let Some(status) = exchange.status.take() {
                self.env.log_exchange(exchange, status);
            }
            exchange.wake();
            *self.answers -= u16::from(exchange.answer.is_some()) + u16::from(exchange.ending.is_some());
            let over = self.exchanges[usize::from(stream.slot)].take();
            if let Some(mut over) = over {
                over.wait_no_more(&self.env);
                self.answered.add(&mut over.course, self.env.counters());
                over.shrink_window(self.codec);
                self.judge(over.dropped_bytes);
                over.clear();
                self.env.shared.spare.set(Some(over));
            }
        }
        let mut out = Growing(self.output, &self.env.pool);
        if self.codec.forget(stream, &mut self.storage, &mut out).is_err() {
            self.phase.close();
        }
    }

    /// Long bodies that no handler wants are legal each time.
    fn judge(&mut self, dropped_bytes: u32) {
        if dropped_bytes <= UNWANTED_BYTES_FREE {
            return self.score.forgive(COMPLETED_POINTS);
        }
        let ends = match self.score.add(unwanted_points(dropped_bytes)) {
            Verdict::Tolerated => return,
            Verdict::GoAway => self.codec.shutdown_finish(&mut Growing(self.output, &self.env.pool)).is_err(),
            Verdict::Close => {
                self.env.counters().shed(Shed::Misbehaviour);
                true
            }
        };
        if ends {
            self.phase.close();
        }
    }
}
