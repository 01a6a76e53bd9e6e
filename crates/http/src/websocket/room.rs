//! A WebSocket that found no room in memory, and waits for it.

use ::core::time::Duration;

use plimsoll_slab::Key;

use super::wire::{Flags, Phase, Wire, quarters};
use super::{Consumer, Socket};
use crate::core::Core;
use crate::hungry::Want;

/// When it is looked again for room that was not enough, or for which too many wait.
pub(super) const STARVED_RETRY: Duration = Duration::from_millis(250);
/// Room for so much is waited for.
const STARVED_BYTES: usize = 4 * 1_024;

/// Has a WebSocket that found no room wait for it, or wait no longer.
pub(super) fn starve(core: &Core, key: Key, wire: &mut Wire) {
    let is_over = matches!(wire.phase, Phase::Lingering { .. } | Phase::Over);
    if wire.flags.has(Flags::STARVED) && !is_over {
        if wire.starved_at == 0 {
            wire.starved_at = (quarters(plimsoll_runtime::now()) as u16).max(1);
        }
        // One of too many looks again after a while, as one does that found no room in its turn.
        let mut waits = wire.flags.has(Flags::HUNGRY);
        if !wire.flags.has(Flags::RETRIES) && core.starve_as(key, &mut waits, 0, Want::Output, STARVED_BYTES).is_ok() {
            wire.flags.put(Flags::HUNGRY, waits);
        }
        return;
    }
    if wire.flags.put(Flags::HUNGRY, false) {
        core.sate(key);
    }
    if is_over || !wire.flags.has(Flags::RETRIES) {
        wire.starved_at = 0;
    }
}

impl Socket {
    /// Whether it waits for memory.
    pub(crate) fn is_hungry(&self) -> bool {
        self.wire.flags.has(Flags::HUNGRY)
    }

    pub(super) fn is_starved(&self) -> bool {
        self.wire.flags.has(Flags::STARVED)
    }

    /// There is some; whether its task waited for that.
    pub(crate) fn feed(&mut self) -> bool {
        self.wire.flags.put(Flags::HUNGRY, false);
        self.wire.flags.put(Flags::STARVED, false);
        self.wire.flags.put(Flags::RETRIES, true);
        match &mut self.consumer {
            Consumer::Task(Some(mailbox)) => mailbox.wake_writer(),
            Consumer::Task(None) | Consumer::Handler(_) => false,
        }
    }

    /// A task that waits for room looks again.
    pub(super) fn wake_writer(&mut self) {
        if let Consumer::Task(Some(mailbox)) = &mut self.consumer {
            mailbox.wake_writer();
        }
    }
}
