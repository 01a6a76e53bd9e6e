//! What is needed while a message is received or sent.

mod weight;

use ::core::ops::Range;

use plimsoll_codec::ws::{CloseCode, Decoder, Event, Opcode, PeerRecord, Role};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, Pool};

use super::assembly::Assembly;
use super::control::{ControlFrame, put_control};
use super::deflate::Streams;
use super::message::Message;
use super::settings::Values;
use crate::Error;
use crate::core::Core;
use crate::output::Output;

/// What is needed while a message is received or sent.
pub(crate) struct Work {
    pub(super) decoder: Decoder,
    /// Received, not looked at yet.
    pub(super) input: Option<Lease>,
    pub(super) output: Output,
    /// Our close frame, which waits for a long message to leave.
    pub(super) last_words: Option<ControlFrame>,
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
            output: Output::default(),
            last_words: None,
            assembly: Assembly::default(),
            is_text: false,
            is_compressed: false,
            ready: None,
            message_until: None,
            streams: None,
        }
    }

    /// Whether something is remembered for the next message, after what can be given up is.
    pub(super) fn keeps_streams(&mut self, core: &Core) -> bool {
        self.streams.as_mut().is_some_and(|streams| streams.are_kept(core))
    }

    /// Whether a message was begun that is not complete, or a frame.
    pub(super) fn is_within_message(&self) -> bool {
        self.decoder.is_within_message() || (self.input.is_some() && self.ready.is_none())
    }

    /// Drops what was received, but for a message that is complete: its task takes it still.
    pub(super) fn forget(&mut self) {
        (self.input, self.message_until, self.streams) = (None, None, None);
        self.assembly = Assembly::default();
    }

    /// Puts what has come behind what is there already: a part of a head or of a control frame, or what waits for its turn.
    pub(super) fn take(&mut self, pool: &Pool, fresh: Bytes) -> Result<(), OverBudget> {
        self.input = Some(match (self.input.take(), fresh) {
            (None, Bytes::Owned(lease)) => lease,
            (None, fresh) => pool.try_copy(&fresh, Kind::Buffers)?,
            (Some(mut rest), fresh) => {
                if rest.spare_capacity() < fresh.len() {
                    let mut larger = pool.try_acquire(rest.len() + fresh.len(), Kind::Buffers)?;
                    larger.extend(&rest);
                    rest = larger;
                }
                rest.extend(&fresh);
                rest
            }
        });
        Ok(())
    }

    /// Puts bytes that were kept before the first of all.
    pub(super) fn begin_with(&mut self, kept: Option<Lease>) {
        debug_assert!(self.input.is_none(), "before anything was received");
        self.input = kept;
    }

    pub(super) fn step(&mut self, core: &Core, answers: bool, values: &Values) -> Result<Step, Error> {
        let mut nothing: [u8; 0] = [];
        let input = self.input.as_mut().map_or(&mut nothing[..], |lease| lease.as_mut_slice());
        let decoded = self.decoder.decode(input, plimsoll_runtime::now().as_millis())?;
        let step = match decoded.event {
            Event::NeedMore => Step::NeedMore,
            Event::Begin { is_text, is_compressed } => {
                (self.is_text, self.is_compressed) = (is_text, is_compressed);
                Step::On
            }
            Event::Data(range) => {
                // All that is left: taken as it is, without a copy.
                let is_rest = range.end == input.len() && self.assembly.is_empty() && !self.is_compressed;
                if let Some(mut lease) = self.input.take_if(|_| is_rest) {
                    lease.consume(range.start);
                    self.assembly.set(lease);
                    return Ok(Step::On);
                }
                self.data(core, range, values)?;
                Step::On
            }
            Event::End => {
                self.end(core, values)?;
                self.message_until = None;
                Step::Message(Message::received(self.is_text, ::core::mem::take(&mut self.assembly).finish()))
            }
            Event::Ping(range) => {
                if answers {
                    put_control(&mut self.output, &core.pool, Opcode::Pong, &[&input[range]])?;
                }
                Step::On
            }
            Event::Pong(_) => Step::On,
            Event::Close { code, .. } => Step::Close(code),
        };
        if let Some(input) = &mut self.input {
            input.consume(decoded.consumed);
        }
        self.input.take_if(|input| input.is_empty());
        Ok(step)
    }

    /// A part of a message.
    fn data(&mut self, core: &Core, range: Range<usize>, values: &Values) -> Result<(), Error> {
        let part = &self.input.as_deref().unwrap_or_default()[range];
        if !self.is_compressed {
            return Ok(self.assembly.push(&core.pool, part)?);
        }
        Streams::of(&mut self.streams, core)?.inflate(core, (values, self.is_text), part, &mut self.assembly)
    }

    /// The end of a message.
    fn end(&mut self, core: &Core, values: &Values) -> Result<(), Error> {
        if !self.is_compressed {
            return Ok(());
        }
        Streams::of(&mut self.streams, core)?.finish(core, (values, self.is_text), &mut self.assembly)
    }
}

const _: () = assert!(size_of::<Work>() <= 512, "what a message needs fits its class");
