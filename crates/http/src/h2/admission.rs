//! Whether a request may wait to be begun, and as what it counts when it may not.

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{Kind, OverBudget};
use plimsoll_slab::Key;

use super::STREAM_BYTES;
use super::shared::Env;
use super::streams::{Exchange, Stage};
use super::waiting::Waiting;
use crate::base::counters::Shed;
use crate::base::exchange_end::Course;
use crate::exchange::kept_head;
use crate::memory::wait::MemoryWait;

/// Streams of a worker that wait hold at most this part of its share of the line,
const SHARE_PART: u64 = 64;
/// or this under a low one, in bytes.
const HELD_BYTES_MIN: u64 = 16 * 1_024;
/// What one holds that has a usual head.
const USUAL_BYTES: u64 = 1_024;
/// A head that is not long.
const USUAL_HEAD_BYTES: usize = 256;

impl Env<'_> {
    /// What streams may hold together that wait, in bytes.
    pub(super) fn waiting_bytes_max(self) -> u64 {
        (self.line_share() / SHARE_PART).max(HELD_BYTES_MIN)
    }

    /// Whether one more stream of a connection may wait, once its head is decoded, as far as is known before.
    pub(super) fn may_stream_wait(self, key: Key) -> bool {
        let place = || {
            let exchange = self.pool.try_acquire_class(PoolBox::<Exchange>::CLASS, Kind::Codec)?;
            let waiting = self.pool.try_acquire_class(PoolBox::<Waiting>::CLASS, Kind::Codec)?;
            let head = self.pool.try_acquire(USUAL_HEAD_BYTES, Kind::Buffers)?;
            drop((exchange, waiting, head));
            Ok::<_, OverBudget>(())
        };
        let has_room = || place().is_ok() || self.spared_stream(key, place).is_some();
        !self.is_drawn() && !self.do_too_many_wait(key) && has_room()
    }

    /// Whether no more streams may wait, or none of the client that a connection is for.
    fn do_too_many_wait(self, key: Key) -> bool {
        let most = self.waiting_bytes_max();
        let of_host = self.waiting_streams(self.host_of(key)) as u64 * USUAL_BYTES;
        self.shared.waiting.bytes() + USUAL_BYTES > most || 2 * of_host >= most
    }

    /// Has a stream wait to be begun, for the client that its connection is for now.
    ///
    /// # Errors
    ///
    /// There is no place for it, or no room for its head.
    pub(super) fn await_begin(
        self,
        key: Key,
        exchange: &mut Exchange,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
    ) -> Result<(), OverBudget> {
        if self.do_too_many_wait(key) {
            return Err(OverBudget::new(USUAL_BYTES));
        }
        let keep = || kept_head::keep(&self.pool, view, slots);
        let kept = keep().or_else(|over| self.spared_stream(key, keep).ok_or(over))?;
        let place = || self.pool.try_acquire_class(PoolBox::<Waiting>::CLASS, Kind::Codec);
        let place = place().or_else(|over| self.spared_stream(key, place).ok_or(over))?;
        let bytes = STREAM_BYTES + place.class().bytes() + kept.class().bytes();
        self.shared.waiting.may_grow(bytes, self.waiting_bytes_max())?;
        let mut memory = MemoryWait::None;
        let line = self.enqueue_stream(key, exchange.id, &mut memory);
        let line = line.map_err(|_too_many| OverBudget::new(bytes as u64))?;
        let time = self.config.wait_to_begin(exchange.request.is_body());
        let mut waiting = Waiting {
            memory,
            place: line,
            until: plimsoll_runtime::now() + time,
            parsed: view.request().clone(),
            kept,
            head_bytes: view.head().len() as u16,
            held_by_all: self.shared.waiting.clone(),
            held_bytes: 0,
        };
        waiting.hold(bytes);
        let waiting = PoolBox::from_lease(place, waiting);
        (exchange.stage, exchange.course) = (Stage::Waiting(waiting), Course::None);
        Ok(())
    }

    /// As what it counts that there is no room for a request.
    pub(super) fn why_not_begun(self) -> Shed {
        if self.has_all_handlers() { Shed::Cpu } else { Shed::Queue }
    }

    pub(super) fn note_shed(self, reason: Shed) {
        match reason {
            Shed::Cpu => self.shed_for_cpu(),
            reason => self.shed_for_room(reason),
        }
    }

    /// A stream was answered 503 that was not begun.
    pub(super) fn note_refused(self, reason: Shed) {
        self.note_shed(reason);
        self.counters().response(503);
    }
}
