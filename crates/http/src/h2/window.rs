//! Windows that grow: for bodies that come in bulk, with bytes of the line reserved for what the peer may send then.

use std::sync::Arc;

use plimsoll_codec::h2::{Connection as Codec, StreamKey};
use plimsoll_pool::Charge;
use plimsoll_runtime::Kind;
use plimsoll_runtime::memory::Level;

use super::Parts;
use super::output::Growing;
use super::room::UPDATE_BYTES_MAX;
use super::streams::{Exchange, Incoming, find};
use crate::base::counters::WorkerCounters;
use crate::worker::state::Core;

/// A body of which a handler has taken so many windows comes in bulk.
const BULK_WINDOWS: u64 = 4;
/// What a window grows by: to 128 KiB with what it begins with, and not beyond this part of the line.
const GROWTH_BYTES: u32 = 112 * 1_024;
const LINE_PART: u64 = 256;

/// The reserve for a window that was grown. Dropped, it is given back.
pub(super) struct Grown {
    charge: Charge,
    counters: Arc<WorkerCounters>,
}

impl Grown {
    pub(super) fn bytes(&self) -> u32 {
        self.charge.bytes() as u32
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        self.counters.window_reserved(-i64::from(self.bytes()));
    }
}

/// No more of a stream's body comes, or what comes is not kept: what its window was grown by is given back.
pub(super) fn shrink_window(codec: &mut Codec, exchange: &mut Exchange) {
    if let Some(grown) = exchange.window.take() {
        codec.shrink_window(grown.bytes());
    }
}

impl Core {
    /// Grows the window of a stream whose body comes in bulk, once, while memory is plenty.
    pub(super) fn grow_window(&self, parts: &mut Parts<'_>, stream: StreamKey) {
        let Some(exchange) = find(parts.exchanges, stream) else { return };
        let is_bulk = exchange.taken_bytes >= BULK_WINDOWS * u64::from(self.config.http2_limits.window());
        let wants = is_bulk && exchange.window.is_none() && exchange.request == Incoming::Body;
        if !wants || self.level() != Level::Calm {
            return;
        }
        let line = self.pool.budget().limit().as_bytes();
        let bytes = u64::from(GROWTH_BYTES).min(line / LINE_PART);
        if parts.output.reserve(&self.pool, UPDATE_BYTES_MAX).is_err() {
            return;
        }
        let Ok(charge) = self.pool.charge(Kind::Buffers, bytes) else { return };
        let mut out = Growing(parts.output, &self.pool);
        match parts.codec.grow_window(stream, bytes as u32, &mut parts.storage, &mut out) {
            Ok(()) => {
                self.counters().window_reserved(bytes as i64);
                exchange.window = Some(Grown { charge, counters: self.counted() });
            }
            Err(plimsoll_codec::Error::WindowOverflow) => {}
            Err(_) => *parts.closing = true,
        }
    }
}
