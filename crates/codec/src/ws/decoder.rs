//! Frames to messages.
//!
//! ```text
//!            head of a data frame              all of its payload, not final
//!   Head ----------------------------> Payload -------------------------------> Head
//!    |                                    |  all of it, final: End
//!    | Close                              +-------------------------------> Head
//!    v
//!  Closed: what follows is dropped       an error is for ever
//! ```

use std::ops::Range;

use super::{CONTROL_BYTES_MAX, CloseCode, FrameHead, HEAD_BYTES_MAX, Limits, Mask, Opcode, Role, Utf8};
use crate::Error;
use crate::misbehaviour::{Misbehaviour, Score, Verdict};

/// Reads what one end of a WebSocket sends.
///
/// A ping, a pong and a frame without payload are free as long as they are few beside the data (8 to 1, and 64 KiB);
/// then each costs a point of the connection's [`Misbehaviour`].
#[derive(Clone, Debug)]
pub struct Decoder {
    role: Role,
    takes_compressed: bool,
    limits: Limits,
    state: State,
    message: Option<Message>,
    /// Bytes that frames without payload may still have for nothing. Payload adds to it.
    allowance_bytes: i32,
    misbehaviour: Misbehaviour,
}

/// What a [`Decoder`] knows of its peer between two messages: 16 bytes, which are all that a connection has to keep
/// while it waits.
///
/// ```
/// use plimsoll_codec::ws::{Decoder, Limits, PeerRecord, Role};
///
/// let decoder = Decoder::new(Role::Server, Limits::DEFAULT);
/// let record: PeerRecord = decoder.record().expect("nothing was begun");
/// let again = Decoder::resume(Role::Server, Limits::DEFAULT, record);
/// assert!(again.record().is_some());
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PeerRecord {
    allowance_bytes: i32,
    // As its parts, which take less room so: of the milliseconds, all that are ever reached.
    score: Score,
    at_ms: [u8; 7],
}

const _: () = assert!(size_of::<PeerRecord>() == 12, "each parked connection has one");

impl PeerRecord {
    /// Of a peer that has sent nothing yet.
    pub const NEW: PeerRecord = PeerRecord { allowance_bytes: OVERHEAD_FREE_BYTES, score: Score::NONE, at_ms: [0; 7] };

    const fn at_ms(&self) -> u64 {
        let [a, b, c, d, e, f, g] = self.at_ms;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    Head,
    Payload { left: u64, mask: Mask, is_final: bool },
    Closed,
    Failed(Error),
}

/// The message that was begun and has not ended.
#[derive(Copy, Clone, Debug)]
struct Message {
    /// At most `message_bytes_max`.
    bytes: u64,
    /// At most `fragments_max`.
    fragments: u32,
    /// For a text that is not compressed.
    text: Option<Utf8>,
}

/// What became of some input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that are used up. Ranges of the event lie within them.
    pub consumed: usize,
    /// What they mean.
    pub event: Event,
}

/// What came. Ranges are of the input, unmasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Give the rest of the input again, with more behind it.
    NeedMore,
    /// A message begins.
    Begin {
        /// UTF-8, which is checked as it comes unless it is compressed.
        is_text: bool,
        /// To be inflated.
        is_compressed: bool,
    },
    /// A part of the message; never empty.
    Data(Range<usize>),
    /// The message is complete.
    End,
    /// To be answered by a pong with the same payload: the last one at least (RFC 6455 5.5.3).
    Ping(Range<usize>),
    /// The peer is there.
    Pong(Range<usize>),
    /// The peer closes: nothing that follows is looked at. To be answered by a close frame, unless one was sent.
    Close {
        /// Why; `None` if the peer does not say.
        code: Option<CloseCode>,
        /// The same in words, UTF-8.
        reason: Range<usize>,
    },
}

/// One move of the machine: so many bytes are used up.
enum Step {
    /// Nothing to tell yet.
    On(usize),
    Event(usize, Event),
}

impl Event {
    /// The same, for an input that begins `by` bytes earlier.
    fn shifted(self, by: usize) -> Event {
        let shifted = |range: Range<usize>| range.start + by..range.end + by;
        match self {
            Event::Data(range) => Event::Data(shifted(range)),
            Event::Ping(range) => Event::Ping(shifted(range)),
            Event::Pong(range) => Event::Pong(shifted(range)),
            Event::Close { code, reason } => Event::Close { code, reason: shifted(reason) },
            event @ (Event::NeedMore | Event::Begin { .. } | Event::End) => event,
        }
    }
}

impl Decoder {
    /// At the beginning of a connection. The role is ours: a server reads what a client sends.
    #[must_use]
    pub const fn new(role: Role, limits: Limits) -> Decoder {
        Decoder::resume(role, limits, PeerRecord::NEW)
    }

    /// Goes on with a connection that was between two messages.
    #[must_use]
    pub const fn resume(role: Role, limits: Limits, record: PeerRecord) -> Decoder {
        Decoder {
            role,
            takes_compressed: false,
            limits,
            state: State::Head,
            message: None,
            allowance_bytes: record.allowance_bytes,
            misbehaviour: Misbehaviour::from_parts(record.score, record.at_ms()),
        }
    }

    /// What there is to know of the peer; `None` while a message is incomplete, and after the end.
    #[must_use]
    pub const fn record(&self) -> Option<PeerRecord> {
        if self.message.is_some() || !matches!(self.state, State::Head) {
            return None;
        }
        let (score, at_ms) = self.misbehaviour.into_parts();
        let [at_ms @ .., _] = at_ms.to_le_bytes();
        Some(PeerRecord { allowance_bytes: self.allowance_bytes, score, at_ms })
    }

    /// The same for a connection on which permessage-deflate was agreed on.
    #[must_use]
    pub const fn compressed(self) -> Decoder {
        Decoder { takes_compressed: true, ..self }
    }

    /// Whether a message was begun and has not ended.
    #[must_use]
    pub const fn is_within_message(&self) -> bool {
        self.message.is_some()
    }

    /// Whether the peer has sent its close frame.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Reads the front of `input`, and unmasks it there. `now_ms` is any clock that does not go back. To be called
    /// until it needs more.
    ///
    /// # Errors
    ///
    /// What the peer did wrong; close with [`Error::close_code`]. The same error comes again from then on.
    pub fn decode(&mut self, input: &mut [u8], now_ms: u64) -> Result<Decoded, Error> {
        let mut at = 0;
        loop {
            let step = match self.state {
                State::Failed(error) => return Err(error),
                State::Closed => Step::Event(input.len() - at, Event::NeedMore),
                State::Head => self.head(&mut input[at..], now_ms).inspect_err(|&error| self.fail(error))?,
                State::Payload { left, mask, is_final } => {
                    let step = self.payload(&mut input[at..], left, mask, is_final);
                    step.inspect_err(|&error| self.fail(error))?
                }
            };
            match step {
                Step::On(consumed) => at += consumed,
                Step::Event(consumed, event) => {
                    debug_assert!(at + consumed <= input.len(), "no more than there is");
                    return Ok(Decoded { consumed: at + consumed, event: event.shifted(at) });
                }
            }
        }
    }

    /// Bytes of the message that are still to come in the frame that is read: after [`Event::Begin`] all of those in
    /// its first frame.
    #[must_use]
    pub fn payload_left(&self) -> u64 {
        match self.state {
            State::Payload { left, .. } => left,
            State::Head | State::Closed | State::Failed(_) => 0,
        }
    }

    fn fail(&mut self, error: Error) {
        self.state = State::Failed(error);
    }

    fn head(&mut self, input: &mut [u8], now_ms: u64) -> Result<Step, Error> {
        // The first byte alone, so that the same is found wrong however the input is split.
        let _first = FrameHead::parse(&input[..input.len().min(1)])?;
        self.check_early(input)?;
        let Some((head, head_bytes)) = FrameHead::parse(input)? else { return Ok(Step::Event(0, Event::NeedMore)) };
        debug_assert_eq!(head.mask.is_some(), self.role == Role::Server, "checked early");
        let mut mask = Mask::new(head.mask.unwrap_or_default());
        if head.opcode.is_control() {
            let end = head_bytes + head.payload_bytes as usize;
            let Some(payload) = input.get_mut(head_bytes..end) else { return Ok(Step::Event(0, Event::NeedMore)) };
            mask.apply(payload);
            match head.opcode {
                Opcode::Close => self.state = State::Closed,
                _ => self.overhead(end, now_ms)?,
            }
            return Ok(Step::Event(end, control(head.opcode, payload, head_bytes..end)?));
        }
        if head.payload_bytes == 0 && !head.is_final {
            self.overhead(head_bytes, now_ms)?;
        }
        let begun = self.message.is_some();
        let is_text = head.opcode == Opcode::Text;
        let text = (is_text && !head.is_compressed).then(Utf8::new);
        let message = self.message.get_or_insert(Message { bytes: 0, fragments: 0, text });
        message.bytes = message.bytes.saturating_add(head.payload_bytes);
        message.fragments += 1;
        if message.bytes > u64::from(self.limits.message_bytes_max) {
            return Err(Error::WebSocketMessageTooLarge);
        }
        if message.fragments > self.limits.fragments_max {
            return Err(Error::WebSocketTooManyFragments);
        }
        self.state = State::Payload { left: head.payload_bytes, mask, is_final: head.is_final };
        if begun {
            return Ok(Step::On(head_bytes));
        }
        Ok(Step::Event(head_bytes, Event::Begin { is_text, is_compressed: head.is_compressed }))
    }

    /// What the first two bytes tell beside their own syntax, so that no peer has to be waited for to be refused.
    fn check_early(&self, input: &[u8]) -> Result<(), Error> {
        let Some(&first) = input.first() else { return Ok(()) };
        if first & 0x40 != 0 && !self.takes_compressed {
            return Err(Error::WebSocketReserved);
        }
        match (first & 0x0F, self.message.is_some()) {
            (0, false) | (1 | 2, true) => return Err(Error::WebSocketFragmentUnexpected),
            _ => {}
        }
        match input.get(1) {
            Some(second) if (second & 0x80 != 0) != (self.role == Role::Server) => Err(Error::WebSocketMaskInvalid),
            _ => Ok(()),
        }
    }

    fn payload(&mut self, input: &mut [u8], left: u64, mut mask: Mask, is_final: bool) -> Result<Step, Error> {
        let Some(message) = &mut self.message else { return Err(Error::StateMisuse) };
        if left == 0 {
            self.state = State::Head;
            if !is_final {
                return Ok(Step::On(0));
            }
            if let Some(text) = &message.text {
                text.finish()?;
            }
            self.message = None;
            return Ok(Step::Event(0, Event::End));
        }
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        if len == 0 {
            return Ok(Step::Event(0, Event::NeedMore));
        }
        let data = &mut input[..len];
        mask.apply(data);
        if let Some(text) = &mut message.text {
            text.check(data)?;
        }
        let earned = i32::try_from(len as u64 * OVERHEAD_RATIO_MAX).unwrap_or(i32::MAX);
        self.allowance_bytes = self.allowance_bytes.saturating_add(earned);
        self.state = State::Payload { left: left - len as u64, mask, is_final };
        Ok(Step::Event(len, Event::Data(0..len)))
    }

    /// A frame that carries nothing of a message.
    fn overhead(&mut self, bytes: usize, now_ms: u64) -> Result<(), Error> {
        debug_assert!(bytes <= HEAD_BYTES_MAX + CONTROL_BYTES_MAX, "a head or a control frame");
        self.allowance_bytes = self.allowance_bytes.saturating_sub((bytes + FRAME_COST_BYTES) as i32);
        if self.allowance_bytes < 0 && self.misbehaviour.add(1, now_ms) == Verdict::Close {
            return Err(Error::Flood);
        }
        Ok(())
    }
}

/// What a whole control frame says.
fn control(opcode: Opcode, payload: &[u8], range: Range<usize>) -> Result<Event, Error> {
    debug_assert!(opcode.is_control() && payload.len() == range.len(), "a whole control frame");
    Ok(match (opcode, payload) {
        (Opcode::Ping, _) => Event::Ping(range),
        (Opcode::Pong, _) => Event::Pong(range),
        (_, []) => Event::Close { code: None, reason: range },
        (_, [_]) => return Err(Error::WebSocketCloseInvalid),
        (_, [high, low, reason @ ..]) => {
            let code = CloseCode(u16::from_be_bytes([*high, *low]));
            if !code.is_sendable() {
                return Err(Error::WebSocketCloseInvalid);
            }
            if std::str::from_utf8(reason).is_err() {
                return Err(Error::WebSocketTextInvalid);
            }
            Event::Close { code: Some(code), reason: range.start + 2..range.end }
        }
    })
}

/// What a frame costs beside its bytes.
const FRAME_COST_BYTES: usize = 64;
const OVERHEAD_RATIO_MAX: u64 = 8;
const OVERHEAD_FREE_BYTES: i32 = 64 * 1_024;
