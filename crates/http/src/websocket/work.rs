//! What is needed while a message is received or sent.

mod weight;

use ::core::ops::Range;

use plimsoll_codec::ws::{CloseCode, Decoded, Decoder, Event, Opcode, PeerRecord, Role};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, Pool};

use super::assembly::Assembly;
use super::control::{ControlFrame, put_control};
use super::deflate::Streams;
use super::message::Message;
use super::settings::{Settings, Values};
use crate::Error;
use crate::exchange::output::Output;
use crate::memory::desk::Desk;

/// What is needed while a message is received or sent.
pub(crate) struct Work {
    pub(super) decoder: Decoder,
    /// Received, not looked at yet.
    pub(super) input: Option<Lease>,
    /// What the input begins with, decoded: there was no room for it.
    again: Option<Decoded>,
    /// For so much there was none.
    pub(super) wanted_bytes: u32,
    pub(super) output: Output,
    /// Our close frame, which waits for a long message to leave.
    pub(super) pending_close: Option<ControlFrame>,
    /// Of the message that was begun.
    assembly: Assembly,
    is_text: bool,
    is_compressed: bool,
    /// Complete, and not taken by its task yet.
    pub(super) ready: Option<Message>,
    /// When the message that was begun must be complete.
    pub(super) message_until: Option<Instant>,
    pub(super) streams: Option<PoolBox<Streams>>,
}

/// What came of a step.
pub(super) enum Step {
    NeedMore,
    /// Nothing that anybody has to be told.
    On,
    Message(Message),
    Close(Option<CloseCode>),
}

impl Work {
    pub(super) fn new(values: &Values, record: PeerRecord) -> Self {
        let decoder = Decoder::resume(Role::Server, values.limits, record);
        Self {
            decoder: if values.compression.is_some() { decoder.compressed() } else { decoder },
            input: None,
            again: None,
            wanted_bytes: 0,
            output: Output::default(),
            pending_close: None,
            assembly: Assembly::default(),
            is_text: false,
            is_compressed: false,
            ready: None,
            message_until: None,
            streams: None,
        }
    }

    /// Whether something is remembered for the next message, after what can be given up is.
    pub(super) fn keeps_streams(&mut self, worker: &Desk) -> bool {
        self.streams.as_mut().is_some_and(|streams| streams.are_kept(worker))
    }

    /// Whether a message was begun that is not complete, or a frame.
    pub(super) fn is_within_message(&self) -> bool {
        let is_incomplete = self.input.is_some() || self.again.is_some();
        self.decoder.is_within_message() || (is_incomplete && self.ready.is_none())
    }

    /// Whether all that came was looked at, and no message is incomplete.
    pub(super) fn is_between_messages(&self) -> bool {
        self.input.is_none() && self.again.is_none() && self.decoder.record().is_some()
    }

    /// Drops what was received, but for a message that is complete: its task takes it still.
    pub(super) fn forget(&mut self) {
        (self.input, self.again, self.message_until, self.streams) = (None, None, None, None);
        self.assembly = Assembly::default();
    }

    /// Takes what has come, behind what is there already: a part of a head or of a control frame, or what waits for its
    /// turn. A lease becomes the input as it is if nothing is there, all else is copied. Without room nothing has
    /// happened, and it is given back.
    pub(super) fn take(&mut self, pool: &Pool, fresh: Bytes) -> Result<(), (OverBudget, Bytes)> {
        match (&mut self.input, fresh) {
            (input @ None, Bytes::Owned(lease)) => *input = Some(lease),
            (input @ None, fresh) => match pool.try_copy(&fresh, Kind::Buffers) {
                Ok(lease) => *input = Some(lease),
                Err(over) => return Err((over, fresh)),
            },
            (Some(rest), fresh) => {
                if let Err(over) = pool.try_grow(rest, fresh.len()) {
                    return Err((over, fresh));
                }
                rest.extend(&fresh);
            }
        }
        Ok(())
    }

    /// Room for at most so many bytes behind what is there already, which is copied there.
    pub(super) fn room_behind(&self, pool: &Pool, bytes: usize) -> Result<Lease, OverBudget> {
        let rest = self.input.as_deref().unwrap_or_default();
        let mut lease = pool.try_acquire(rest.len() + bytes, Kind::Buffers)?;
        lease.extend(rest);
        Ok(lease)
    }

    /// Reads on in the input. After [`Error::OverBudget`] it may be tried again, if
    /// [`may_try_again`](Self::may_try_again) says so.
    pub(super) fn step(&mut self, worker: &Desk, answers: bool, settings: &Settings) -> Result<Step, Error> {
        let decoded = match self.again.take() {
            Some(decoded) => decoded,
            None => {
                let mut nothing: [u8; 0] = [];
                let input = self.input.as_mut().map_or(&mut nothing[..], |lease| lease.as_mut_slice());
                self.decoder.decode(input, plimsoll_runtime::now().as_millis())?
            }
        };
        match self.act(worker, answers, settings, &decoded) {
            // Who holds a part of a message waits for no more of it: others may do the same.
            Err(Error::OverBudget(over)) if !(self.holds_part() && matches!(decoded.event, Event::Data(_))) => {
                self.wanted_bytes = u32::try_from(over.wanted_bytes()).unwrap_or(u32::MAX);
                self.again = Some(decoded);
                Err(over.into())
            }
            acted => acted,
        }
    }

    /// Whether what found no room is all still there. What an inflater has taken in, it does not give back.
    pub(super) fn may_try_again(&self) -> bool {
        self.again.is_some() && !self.streams.as_ref().is_some_and(|streams| streams.are_lost())
    }

    /// Whether a message waits to begin: for the room that it says it needs.
    pub(super) fn waits_for_message(&self) -> bool {
        self.again.as_ref().is_some_and(|decoded| matches!(decoded.event, Event::Begin { .. }))
    }

    /// Whether a part of a message that is not compressed is held.
    fn holds_part(&self) -> bool {
        !self.is_compressed && !self.assembly.is_empty()
    }

    /// Makes room for all that a frame brings of a message, unless it has come already.
    fn reserve_frame(&mut self, worker: &Desk, used: usize) -> Result<(), OverBudget> {
        let left = usize::try_from(self.decoder.payload_left()).unwrap_or(usize::MAX);
        let has_come = self.input.as_ref().map_or(0, |input| input.len() - used);
        if left <= has_come && self.assembly.is_empty() {
            return Ok(());
        }
        self.assembly.reserve(&worker.pool, left)
    }

    /// Does what the front of the input asks for, and uses it up: all of it or, without room, nothing.
    fn act(&mut self, worker: &Desk, answers: bool, settings: &Settings, decoded: &Decoded) -> Result<Step, Error> {
        let step = match &decoded.event {
            Event::NeedMore => Step::NeedMore,
            &Event::Begin { is_text, is_compressed } => {
                if !is_compressed {
                    self.reserve_frame(worker, decoded.consumed)?;
                }
                (self.is_text, self.is_compressed) = (is_text, is_compressed);
                Step::On
            }
            Event::Data(range) => {
                // All that is left: taken as it is, without a copy.
                let is_rest = self.input.as_ref().is_some_and(|input| range.end == input.len())
                    && self.assembly.is_empty()
                    && !self.is_compressed;
                if let Some(mut lease) = self.input.take_if(|_| is_rest) {
                    lease.consume(range.start);
                    self.assembly.set(lease);
                    return Ok(Step::On);
                }
                if self.holds_part() {
                    let more =
                        range.len().saturating_add(usize::try_from(self.decoder.payload_left()).unwrap_or(usize::MAX));
                    self.assembly.reserve(&worker.pool, more)?;
                }
                self.data(worker, range.clone(), settings)?;
                Step::On
            }
            Event::End => {
                self.end(worker, settings)?;
                self.message_until = None;
                Step::Message(Message::received(self.is_text, ::core::mem::take(&mut self.assembly).finish()))
            }
            Event::Ping(range) => {
                if answers {
                    let payload = &self.input.as_deref().unwrap_or_default()[range.clone()];
                    put_control(&mut self.output, &worker.pool, Opcode::Pong, &[payload])?;
                }
                Step::On
            }
            Event::Pong(_) => Step::On,
            &Event::Close { code, .. } => Step::Close(code),
        };
        if let Some(input) = &mut self.input {
            input.consume(decoded.consumed);
        }
        self.input.take_if(|input| input.is_empty());
        Ok(step)
    }

    /// A part of a message.
    fn data(&mut self, worker: &Desk, range: Range<usize>, settings: &Settings) -> Result<(), Error> {
        let part = &self.input.as_deref().unwrap_or_default()[range];
        if !self.is_compressed {
            return Ok(self.assembly.push(&worker.pool, part)?);
        }
        Streams::of(&mut self.streams, worker)?.inflate(worker, (settings, self.is_text), part, &mut self.assembly)
    }

    /// The end of a message.
    fn end(&mut self, worker: &Desk, settings: &Settings) -> Result<(), Error> {
        if !self.is_compressed {
            return Ok(());
        }
        Streams::of(&mut self.streams, worker)?.finish(worker, (settings, self.is_text), &mut self.assembly)
    }
}

const _: () = assert!(size_of::<Work>() <= 512, "what a message needs fits its class");

#[cfg(test)]
mod tests;
