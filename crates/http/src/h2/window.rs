//! Windows that grow: for bodies that come in bulk, with bytes of the line reserved for what the peer may send then.

use plimsoll_codec::h2::StreamKey;
use plimsoll_runtime::Kind;
use plimsoll_runtime::memory::Level;

use super::Parts;
use super::grown::Grown;
use super::output::Growing;
use super::room::UPDATE_BYTES_MAX;
use super::streams::find;

/// A body of which a handler has taken so many windows comes in bulk.
const BULK_WINDOWS: u64 = 4;
/// What a window grows by: to 128 KiB with what it begins with, and not beyond this part of the line.
const GROWTH_BYTES: u32 = 112 * 1_024;
const LINE_PART: u64 = 256;

impl Parts<'_> {
    /// Grows the window of a stream whose body comes in bulk, once, while memory is plenty.
    pub(super) fn grow_window(&mut self, stream: StreamKey) {
        let Some(exchange) = find(self.exchanges, stream) else { return };
        let is_bulk = exchange.taken_bytes >= BULK_WINDOWS * u64::from(self.env.config.http2_limits.window());
        let wants = is_bulk && exchange.window.is_none() && exchange.request.is_body();
        if !wants || self.env.level() != Level::Calm {
            return;
        }
        let line = self.env.pool.budget().limit().as_bytes();
        let bytes = u64::from(GROWTH_BYTES).min(line / LINE_PART);
        if self.output.reserve(&self.env.pool, UPDATE_BYTES_MAX).is_err() {
            return;
        }
        let Ok(charge) = self.env.pool.charge(Kind::Buffers, bytes) else { return };
        let mut out = Growing(self.output, &self.env.pool);
        match self.codec.grow_window(stream, bytes as u32, &mut self.storage, &mut out) {
            Ok(()) => {
                self.env.counters().window_reserved(bytes as i64);
                exchange.window = Some(Grown { charge, counters: self.env.counted() });
            }
            Err(plimsoll_codec::Error::WindowOverflow) => {}
            Err(_) => self.phase.close(),
        }
    }
}
