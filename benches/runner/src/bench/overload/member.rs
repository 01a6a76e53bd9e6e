//! A WebSocket that joins: it is opened, has one message echoed, stays, and closes.
//!
//! ```text
//! opening -- 101 --> echoing -- echo --> staying -- leave --> closing -- close --> served
//! ```

use super::answer::Answer;
use super::ask::Ask;
use super::ledger::Outcome;
use super::talk::{Attempt, Effects};
use crate::bench::swarm::websocket;

/// Where a WebSocket is.
#[derive(Debug, Default)]
pub(super) struct Member {
    attempt: Option<Attempt>,
    stage: Stage,
    answer: Answer,
    /// Of a frame that is not complete.
    received: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Opening,
    Echoing,
    Staying,
    Closing,
    Over,
}

impl Member {
    pub(super) fn has_room(&self) -> bool {
        self.attempt.is_none() && self.stage == Stage::Opening
    }

    pub(super) fn begin(&mut self, attempt: Attempt, ask: &Ask, out: &mut Vec<u8>) {
        self.attempt = Some(attempt);
        out.extend(ask.head());
    }

    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, effects: &mut Effects) {
        let mut rest = bytes;
        if self.stage == Stage::Opening {
            let Ok(taken) = self.answer.feed(rest) else { return self.over(Outcome::Wrong, effects) };
            if !self.answer.is_done() {
                return;
            }
            match self.answer.status {
                101 => {
                    self.stage = Stage::Echoing;
                    out.extend(websocket::message(MESSAGE_BYTES));
                }
                503 => return self.over(Outcome::Refused(self.answer.retry_after), effects),
                _ => return self.over(Outcome::Wrong, effects),
            }
            rest = &rest[taken..];
        }
        self.received.extend_from_slice(rest);
        while self.stage != Stage::Over && self.frame(effects) {}
    }

    /// Takes a whole frame, if there is one.
    fn frame(&mut self, effects: &mut Effects) -> bool {
        if self.received.first() == Some(&CLOSE) {
            let Some(&len) = self.received.get(1).filter(|len| self.received.len() >= 2 + usize::from(**len)) else {
                return false;
            };
            let code = self.received.get(2..4).filter(|_| len >= 2).map(|code| u16::from_be_bytes([code[0], code[1]]));
            let outcome = match (self.stage, code) {
                (_, Some(TRY_AGAIN_LATER)) => Outcome::Refused(None),
                (Stage::Closing, None | Some(NORMAL)) => Outcome::Served,
                _ => Outcome::Cut,
            };
            self.over(outcome, effects);
            return true;
        }
        match websocket::frame(&self.received) {
            Ok(Some((head, payload))) if self.received.len() >= head + payload as usize => {
                self.received.drain(..head + payload as usize);
                if self.stage == Stage::Echoing {
                    self.stage = Stage::Staying;
                    effects.stays = true;
                }
                true
            }
            Ok(_) => false,
            Err(_) => {
                self.over(Outcome::Wrong, effects);
                true
            }
        }
    }

    pub(super) fn leave(&mut self, out: &mut Vec<u8>) {
        if self.stage == Stage::Staying {
            self.stage = Stage::Closing;
            out.extend([CLOSE, 0x80 | 2]);
            // A mask of zeros.
            out.extend([0; 4]);
            out.extend(NORMAL.to_be_bytes());
        }
    }

    pub(super) fn end(&mut self, effects: &mut Effects) {
        let outcome = match self.stage {
            Stage::Opening if !self.answer.is_begun() => Outcome::Silent,
            _ => Outcome::Cut,
        };
        self.over(outcome, effects);
    }

    pub(super) fn give_up(&mut self, id: u64) -> Option<Attempt> {
        let attempt = self.attempt.take_if(|attempt| attempt.id == id)?;
        self.stage = Stage::Over;
        Some(attempt)
    }

    fn over(&mut self, outcome: Outcome, effects: &mut Effects) {
        self.stage = Stage::Over;
        effects.closes = true;
        effects.ended.extend(self.attempt.take().map(|attempt| (attempt, outcome)));
    }
}

const MESSAGE_BYTES: usize = 16;
const CLOSE: u8 = 0x88;
/// Close codes.
const NORMAL: u16 = 1000;
const TRY_AGAIN_LATER: u16 = 1013;
