//! Pings and pongs that are dealt with where they lie.
#![forbid(unsafe_code)]

use plimsoll_codec::ws::{CONTROL_BYTES_MAX, Decoder, Event, Opcode, Role};

use super::super::control::put_control;
use super::Wire;
use crate::Error;
use crate::memory::desk::Desk;

impl Wire {
    /// While memory is short: deals with what came where it lies, if that is nothing but whole pings and pongs and
    /// follows a whole message. Whether it was that; else nothing was done. A receive that was armed before a message
    /// began to wait for memory is no reason to need some.
    pub(in crate::websocket) fn pass(&mut self, worker: &Desk, bytes: &[u8]) -> Result<bool, Error> {
        let is_short = worker.holds_back() || self.flow.is_blocked();
        if !is_short || bytes.is_empty() || frames(bytes).any(|frame| frame.is_none()) {
            return Ok(false);
        }
        let answers = self.is_open() && frames(bytes).flatten().any(|frame| frame[0] == PING_BYTE);
        if self.work.as_ref().is_some_and(|work| !work.is_between_messages()) {
            return Ok(false);
        }
        if answers {
            let bytes_max = worker.config.output_bytes_max;
            let has_room = self.work(&worker.pool).is_ok_and(|work| {
                let bytes = bytes.len();
                work.output.has_room(bytes, bytes_max) && work.output.reserve(&worker.pool, bytes).is_ok()
            });
            if !has_room {
                return Ok(false);
            }
        }
        let now = plimsoll_runtime::now().as_millis();
        for frame in frames(bytes).flatten() {
            let mut copy = [0; CONTROL_FRAME_BYTES_MAX];
            let copy = &mut copy[..frame.len()];
            copy.copy_from_slice(frame);
            let Some(work) = &mut self.work else {
                let mut decoder = Decoder::resume(Role::Server, self.settings.values.limits, self.record);
                decoder.decode(copy, now)?;
                self.record = decoder.record().unwrap_or(self.record);
                continue;
            };
            if let Event::Ping(range) = work.decoder.decode(copy, now)?.event
                && answers
            {
                put_control(&mut work.output, &worker.pool, Opcode::Pong, &[&copy[range]])?;
            }
        }
        Ok(true)
    }
}

/// The whole pings and pongs of a client at the front; a `None` at the end for what follows that is none.
fn frames(bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = bytes;
    ::core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = match *rest {
            [PING_BYTE | PONG_BYTE, second @ 0x80..=0xFD, ..] => rest.split_at_checked(usize::from(second & 0x7F) + 6),
            _ => None,
        };
        rest = frame.map_or(&[][..], |(_, rest)| rest);
        Some(frame.map(|(frame, _)| frame))
    })
}

/// The first bytes of a ping and a pong, whole as they have to be.
const PING_BYTE: u8 = 0x89;
const PONG_BYTE: u8 = 0x8A;
/// A control frame of a client.
const CONTROL_FRAME_BYTES_MAX: usize = CONTROL_BYTES_MAX + 6;

#[cfg(test)]
mod tests;
