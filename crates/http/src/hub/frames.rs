//! What members say: frames of WebSockets. Of streams of events nothing is expected.

use plimsoll_codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_pool::Class;
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Instant, Kind, Lease, Pool, PoolBox};
use plimsoll_slab::Key;

use ::core::ops::Range;
use ::core::time::Duration;

use super::members::{Incoming, Members, Shape, Stage};
use super::{Hub, HubConfig};
use crate::Error;

/// A WebSocket that is in the middle of saying something, or that is to be answered.
pub(super) struct Talk {
    decoder: Decoder,
    /// A part of a head or of a control frame.
    input: Option<Lease>,
    /// The message that was begun.
    message: Option<Lease>,
    is_text: bool,
    /// When it must be complete.
    until: Option<Instant>,
    /// Answers to pings.
    pub(super) pongs: Option<Lease>,
}

impl Talk {
    fn new(config: &HubConfig) -> Self {
        let limits = config.websocket.limits;
        let bytes_max = config.message_bytes_max as u32;
        let limits = Limits { message_bytes_max: limits.message_bytes_max.min(bytes_max), ..limits };
        let decoder = Decoder::new(Role::Server, limits);
        Self { decoder, input: None, message: None, is_text: false, until: None, pongs: None }
    }

    fn is_whole(&self) -> bool {
        self.input.is_none() && !self.decoder.is_within_message()
    }

    /// Whether nothing of it is needed any more.
    pub(super) fn is_idle(&self) -> bool {
        self.is_whole() && self.pongs.is_none()
    }

    /// Whether the message takes too long.
    pub(super) fn is_late(&self) -> bool {
        self.patience().is_some_and(|left| left.is_zero())
    }

    /// How long the rest of the message may take.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.until.map(|until| until.since(plimsoll_runtime::now()))
    }

    /// Puts a part of a message behind what there is of it.
    fn keep(&mut self, part: &[u8], pool: &Pool) -> Result<(), Error> {
        let Some(message) = &mut self.message else {
            self.message = Some(pool.try_copy(part, Kind::Buffers)?);
            return Ok(());
        };
        if message.spare_capacity() < part.len() {
            let wish = part.len().max(message.len().min(Class::K128.bytes().saturating_sub(message.len())));
            pool.try_grow(message, wish)?;
        }
        let taken = message.extend(part);
        debug_assert_eq!(taken, part.len(), "room was made");
        Ok(())
    }

    fn pong(&mut self, payload: &[u8], pool: &Pool) -> Result<(), Error> {
        let head = FrameHead::message(Opcode::Pong, payload.len() as u64).encode();
        let bytes = head.as_bytes().len() + payload.len();
        // A flood is answered with its last pings alone (RFC 6455 5.5.3).
        if self.pongs.as_ref().is_none_or(|pongs| pongs.spare_capacity() < bytes) {
            self.pongs = Some(pool.try_acquire(PONGS_BYTES, Kind::Buffers)?);
        }
        if let Some(pongs) = &mut self.pongs {
            pongs.extend(head.as_bytes());
            pongs.extend(payload);
        }
        Ok(())
    }
}

/// What came of a look at the input.
enum Look {
    /// Used up as far as it goes.
    Done,
    /// The peer closes.
    Close(Option<CloseCode>),
    /// The handler has closed it.
    Gone,
}

impl Members {
    /// Bytes of a member.
    pub(super) fn received(&self, key: Key, bytes: Bytes) {
        let Some(hub) = self.hub_of(key) else { return };
        let mut table = self.table.borrow_mut();
        let place = table.get_mut(key).expect("found above");
        if place.stage == Stage::Asked {
            place.stage = Stage::Open;
        }
        if place.stage != Stage::Open || place.shape != Shape::WebSocket {
            place.strain = place.strain.saturating_add(bytes.len() as u32);
            let too_much = place.strain > DROPPED_BYTES_MAX;
            drop((table, bytes));
            return if too_much { self.close(key) } else { self.receive(key) };
        }
        let talk = place.talk.take();
        drop(table);
        let heard = self.hear(&hub, key, talk, bytes);
        let end = match heard {
            Ok(Look::Done) => return self.receive(key),
            Ok(Look::Gone) => return,
            // What we answer to a close frame without a code has none either.
            Ok(Look::Close(code)) => code,
            Err(Error::Peer(error)) => Some(error.close_code()),
            Err(Error::OverBudget(_)) => Some(CloseCode::TRY_LATER),
            Err(_) => Some(CloseCode::UNEXPECTED),
        };
        self.begin_close(key, end);
    }

    fn hear(&self, hub: &Hub, key: Key, talk: Option<PoolBox<Talk>>, bytes: Bytes) -> Result<Look, Error> {
        let mut talk = match talk {
            Some(talk) => talk,
            None => {
                let talk = Talk::new(&hub.0.config);
                self.pool.try_boxed(talk, Kind::Codec).map_err(|(over, _talk)| over)?
            }
        };
        let mut input = self.join_input(talk.input.take(), bytes)?;
        let (look, used) = self.decode(hub, key, &mut talk, &mut input)?;
        if !matches!(look, Look::Done) {
            return Ok(look);
        }
        input.consume(used);
        talk.input = (!input.is_empty()).then_some(input);
        if talk.is_whole() {
            talk.until = None;
        } else if talk.until.is_none() {
            talk.until = Some(plimsoll_runtime::now() + hub.0.config.websocket.message_timeout);
        }
        let mut table = self.table.borrow_mut();
        let sending = table.is_sending(key);
        let is_idle = talk.is_idle();
        if let Some(place) = table.get_mut(key) {
            place.talk = (!is_idle).then_some(talk);
        }
        drop(table);
        if !sending && !is_idle {
            self.advance(key, hub);
        }
        Ok(Look::Done)
    }

    /// What was kept, with what has come.
    fn join_input(&self, kept: Option<Lease>, bytes: Bytes) -> Result<Lease, Error> {
        let (mut kept, bytes) = match (kept, bytes) {
            (None, Bytes::Owned(lease)) => return Ok(lease),
            (None, Bytes::Borrowed(bytes)) => return Ok(self.pool.try_copy(&bytes, Kind::Buffers)?),
            (Some(kept), bytes) => (kept, bytes),
        };
        self.pool.try_grow(&mut kept, bytes.len())?;
        kept.extend(&bytes);
        Ok(kept)
    }

    /// Decodes all that is complete; how much of the input was used.
    fn decode(&self, hub: &Hub, key: Key, talk: &mut Talk, input: &mut Lease) -> Result<(Look, usize), Error> {
        let now_ms = plimsoll_runtime::now().as_millis();
        let mut at = 0;
        // The only part of a message so far, which may be all of it.
        let mut whole: Option<Range<usize>> = None;
        loop {
            let decoded = talk.decoder.decode(&mut input.as_mut_slice()[at..], now_ms)?;
            let start = at;
            at += decoded.consumed;
            match decoded.event {
                Event::NeedMore => {
                    if let Some(part) = whole {
                        talk.keep(&input[part], &self.pool)?;
                    }
                    return Ok((Look::Done, at));
                }
                Event::Begin { is_text, .. } => talk.is_text = is_text,
                Event::Data(range) => {
                    let part = start + range.start..start + range.end;
                    match whole.take() {
                        None if talk.message.is_none() => whole = Some(part),
                        before => {
                            if let Some(before) = before {
                                talk.keep(&input[before], &self.pool)?;
                            }
                            talk.keep(&input[part], &self.pool)?;
                        }
                    }
                }
                Event::End => {
                    let message = talk.message.take();
                    let part = whole.take().map_or(&[][..], |range| &input[range]);
                    if !self.tell(hub, key, talk.is_text, message.as_deref().unwrap_or(part)) {
                        return Ok((Look::Gone, at));
                    }
                }
                Event::Ping(range) => {
                    talk.pong(&input[start + range.start..start + range.end], &self.pool)?;
                    self.strain(key)?;
                }
                Event::Pong(_) => self.strain(key)?,
                Event::Close { code, .. } => return Ok((Look::Close(code), at)),
            }
        }
    }

    /// Calls the handler with a message; whether the member is still there for more.
    fn tell(&self, hub: &Hub, key: Key, is_text: bool, bytes: &[u8]) -> bool {
        let message = match (is_text, ::core::str::from_utf8(bytes)) {
            (true, Ok(text)) => Incoming::Text(text),
            (true, Err(_)) | (false, _) => Incoming::Binary(bytes),
        };
        self.call(hub, key, |handler, member| handler.message(member, message));
        let table = self.table.borrow();
        table.get(key).is_some_and(|place| place.stage == Stage::Open)
    }

    /// A frame that carries nothing: some are free between two heartbeats.
    fn strain(&self, key: Key) -> Result<(), Error> {
        if let Some(place) = self.table.borrow_mut().get_mut(key) {
            place.strain += 1;
            if place.strain > EMPTY_FRAMES_MAX {
                return Err(plimsoll_codec::Error::Flood.into());
            }
        }
        Ok(())
    }
}

/// Answers to pings that wait: 16 of the longest, hundreds of short ones.
const PONGS_BYTES: usize = 2_048;
/// Pings and pongs between two heartbeats.
const EMPTY_FRAMES_MAX: u32 = 1_000;
/// What is dropped of one that should say nothing, between two heartbeats.
const DROPPED_BYTES_MAX: u32 = 64 * 1_024;
