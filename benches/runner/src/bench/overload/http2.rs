//! A connection of HTTP/2 with many requests at once, without bodies of their own.

use std::collections::BTreeMap;

use plimsoll_codec::h1::FieldSlot;
use plimsoll_codec::hpack::{Decoder, FieldBuf, TABLE_BYTES};

use super::ask::{Ask, Work};
use super::ledger::Outcome;
use super::talk::{Attempt, Effects};
use crate::soak::http2::{
    ACK, CANCEL, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, REFUSED_STREAM, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, request,
};

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    streams: BTreeMap<u32, Stream>,
    next: u32,
    streams_max: usize,
    is_going_away: bool,
    received: Vec<u8>,
    decoder: Decoder,
    table: Vec<u8>,
}

#[derive(Debug)]
struct Stream {
    attempt: Attempt,
    /// The status and when to come back, as soon as they are known.
    head: Option<(u16, Option<u64>)>,
}

/// The server said something that is no HTTP/2.
struct Malformed;

impl Session {
    pub(super) fn new(out: &mut Vec<u8>) -> Session {
        out.extend(PREFACE);
        out.extend(frame(SETTINGS, 0, 0, &[]));
        Session {
            streams: BTreeMap::new(),
            next: 1,
            streams_max: STREAMS_MAX,
            is_going_away: false,
            received: Vec::new(),
            decoder: Decoder::new(TABLE_BYTES as u16),
            table: vec![0; TABLE_BYTES],
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.is_going_away && self.streams.len() < self.streams_max
    }

    pub(super) fn begin(&mut self, attempt: Attempt, ask: &Ask, out: &mut Vec<u8>) {
        let Work::Get { target, .. } = ask.work else { unreachable!("profiles of HTTP/2 have no bodies") };
        out.extend(frame(HEADERS, END_HEADERS | END_STREAM, self.next, &request("GET", target)));
        self.streams.insert(self.next, Stream { attempt, head: None });
        self.next += 2;
    }

    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, effects: &mut Effects) {
        self.received.extend_from_slice(bytes);
        let mut taken = 0;
        while let Some(head) = self.received[taken..].first_chunk::<9>().copied() {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(payload) = self.received.get(taken + 9..taken + 9 + len).map(<[u8]>::to_vec) else { break };
            taken += 9 + len;
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            if self.frame(head[3], head[4], id, &payload, out, effects).is_err() {
                effects.ended.extend(
                    std::mem::take(&mut self.streams).into_values().map(|stream| (stream.attempt, Outcome::Wrong)),
                );
                effects.closes = true;
                return;
            }
        }
        self.received.drain(..taken);
        effects.closes |= self.is_going_away && self.streams.is_empty();
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        id: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
        effects: &mut Effects,
    ) -> Result<(), Malformed> {
        match kind {
            SETTINGS if flags & ACK == 0 => {
                for entry in payload.chunks_exact(6).filter(|entry| entry[..2] == [0, 3]) {
                    let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]) as usize;
                    self.streams_max = value.min(STREAMS_MAX);
                }
                out.extend(frame(SETTINGS, ACK, 0, &[]));
            }
            PING if flags & ACK == 0 => out.extend(frame(PING, ACK, 0, payload)),
            GOAWAY => self.go_away(word(payload), effects),
            RST_STREAM => {
                let outcome = |stream: &Stream| match (word(payload), stream.head) {
                    (REFUSED_STREAM, _) => Outcome::Refused(None),
                    (_, Some(_)) => Outcome::Cut,
                    (_, None) => Outcome::Silent,
                };
                let ended = self.streams.remove(&id).map(|stream| (stream.attempt, outcome(&stream)));
                effects.ended.extend(ended);
            }
            HEADERS => self.head(flags, id, payload, effects)?,
            DATA => {
                if !payload.is_empty() {
                    let used = (payload.len() as u32).to_be_bytes();
                    out.extend(frame(WINDOW_UPDATE, 0, 0, &used));
                    if flags & END_STREAM == 0 {
                        out.extend(frame(WINDOW_UPDATE, 0, id, &used));
                    }
                }
                self.ends(flags, id, effects);
            }
            _ => {}
        }
        Ok(())
    }

    /// Streams behind the last one were not looked at, and may be tried again (RFC 9113 6.8): that is a refusal.
    fn go_away(&mut self, last: u32, effects: &mut Effects) {
        self.is_going_away = true;
        let refused = self.streams.split_off(&(last + 1));
        effects.ended.extend(refused.into_values().map(|stream| (stream.attempt, Outcome::Refused(None))));
    }

    fn head(&mut self, flags: u8, id: u32, payload: &[u8], effects: &mut Effects) -> Result<(), Malformed> {
        let (mut bytes, mut slots) = ([0; 4_096], [FieldSlot::EMPTY; 32]);
        let mut fields = FieldBuf::new(&mut bytes, &mut slots, 4_096);
        self.decoder.decode(&mut self.table, payload, &mut fields).map_err(|_| Malformed)?;
        let number = |wanted: &[u8]| -> Option<u64> {
            let (_, value) = fields.fields().find(|(name, _)| *name == wanted)?;
            std::str::from_utf8(value).ok()?.parse().ok()
        };
        let (status, retry_after) = (number(b":status").ok_or(Malformed)?, number(b"retry-after"));
        if flags & END_HEADERS == 0 {
            return Err(Malformed);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.head.get_or_insert((status as u16, retry_after));
        }
        self.ends(flags, id, effects);
        Ok(())
    }

    fn ends(&mut self, flags: u8, id: u32, effects: &mut Effects) {
        if flags & END_STREAM != 0
            && let Some(stream) = self.streams.remove(&id)
        {
            let outcome = match stream.head {
                Some((200, _)) => Outcome::Served,
                Some((503, retry_after)) => Outcome::Refused(retry_after),
                _ => Outcome::Wrong,
            };
            effects.ended.push((stream.attempt, outcome));
        }
    }

    pub(super) fn end(&mut self, effects: &mut Effects) {
        for stream in std::mem::take(&mut self.streams).into_values() {
            let outcome = if stream.head.is_some() { Outcome::Cut } else { Outcome::Silent };
            effects.ended.push((stream.attempt, outcome));
        }
    }

    pub(super) fn give_up(&mut self, id: u64, out: &mut Vec<u8>) -> Option<Attempt> {
        let stream = self.streams.iter().find(|(_, stream)| stream.attempt.id == id).map(|(stream, _)| *stream)?;
        out.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        self.streams.remove(&stream).map(|stream| stream.attempt)
    }
}

fn word(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |word| u32::from_be_bytes(*word))
}

/// At most as many at a time on a connection.
const STREAMS_MAX: usize = 100;
