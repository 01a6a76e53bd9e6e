//! Against peers that make us work for nothing: every frame is weighed here.
//!
//! | attack | what stops it |
//! |---|---|
//! | rapid reset (CVE-2023-44487), MadeYouReset (CVE-2025-8671) | one bucket of tokens for resets by the peer and by us because of it; four streams that both sides complete give one back: a proxy carries many clients, some of which give up |
//! | ping, settings and reset floods of a peer that does not read (CVE-2019-9512, 9514, 9515) | control frames that wait are counted, then reading stops |
//! | empty frames (CVE-2019-9518) | so many in a row |
//! | priority and window-update floods, tiny DATA frames, padding (CVE-2019-9511, 9513, 9517) | overhead against payload |

use super::Limits;
use crate::Error;
use crate::misbehaviour::{Misbehaviour, Verdict};

#[derive(Copy, Clone, Debug)]
pub(super) struct Guard {
    /// Resets that are still allowed, in thousandths.
    reset_millitokens: u32,
    /// When they were counted.
    refilled_at_ms: u64,
    /// Control frames that were written and may not have been sent.
    pub(super) control_frames: u16,
    empty_frames: u8,
    overhead_bytes: u64,
    payload_bytes: u64,
    pub(super) misbehaviour: Misbehaviour,
}

impl Guard {
    pub(super) const fn new(limits: &Limits) -> Guard {
        Guard {
            reset_millitokens: limits.resets_burst as u32 * 1_000,
            refilled_at_ms: 0,
            control_frames: 0,
            empty_frames: 0,
            overhead_bytes: 0,
            payload_bytes: 0,
            misbehaviour: Misbehaviour::new(),
        }
    }

    /// A reset, by the peer or because of it.
    pub(super) fn reset(&mut self, limits: &Limits, now_ms: u64) -> Result<(), Error> {
        let full = u32::from(limits.resets_burst) * 1_000;
        let passed = now_ms.saturating_sub(self.refilled_at_ms);
        let refill = passed.saturating_mul(u64::from(limits.resets_per_second)).min(u64::from(full)) as u32;
        self.refilled_at_ms = self.refilled_at_ms.max(now_ms);
        self.reset_millitokens = (self.reset_millitokens + refill).min(full);
        self.reset_millitokens = self.reset_millitokens.checked_sub(1_000).ok_or(Error::Flood)?;
        Ok(())
    }

    /// A stream that both sides have completed.
    pub(super) fn completed(&mut self, limits: &Limits) {
        self.reset_millitokens =
            (self.reset_millitokens + COMPLETED_MILLITOKENS).min(u32::from(limits.resets_burst) * 1_000);
    }

    /// A frame that carries nothing and ends nothing.
    pub(super) fn empty(&mut self, limits: &Limits) -> Result<(), Error> {
        self.empty_frames += 1;
        if self.empty_frames > limits.empty_frames_max { Err(Error::Flood) } else { Ok(()) }
    }

    /// Bytes that are of use, either way.
    pub(super) fn payload(&mut self, bytes: usize) {
        self.empty_frames = 0;
        self.payload_bytes = self.payload_bytes.saturating_add(bytes as u64);
    }

    /// Bytes that only move others. When they are far more than those, that counts, and both begin anew.
    pub(super) fn overhead(&mut self, bytes: usize, now_ms: u64) -> Result<(), Error> {
        self.overhead_bytes = self.overhead_bytes.saturating_add(bytes as u64);
        let allowed = self.payload_bytes.saturating_mul(OVERHEAD_RATIO_MAX).saturating_add(OVERHEAD_FREE_BYTES);
        if self.overhead_bytes <= allowed {
            return Ok(());
        }
        (self.overhead_bytes, self.payload_bytes) = (0, 0);
        match self.misbehaviour.add(OVERHEAD_POINTS, now_ms) {
            Verdict::Tolerated | Verdict::GoAway => Ok(()),
            Verdict::Close => Err(Error::Flood),
        }
    }
}

/// What a completed stream gives back: one reset for four of them.
const COMPLETED_MILLITOKENS: u32 = 250;
const OVERHEAD_RATIO_MAX: u64 = 8;
const OVERHEAD_FREE_BYTES: u64 = 64 * 1_024;
const OVERHEAD_POINTS: u32 = 25;
