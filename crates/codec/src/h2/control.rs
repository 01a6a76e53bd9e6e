//! Frames that carry no request: SETTINGS, PING, windows, resets, priorities, GOAWAY, and those that nobody knows.

use super::connection::{Going, Input, need};
use super::event::{Event, Failure, ResetCause, Step, Storage};
use super::frame::{FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use super::settings::{self, SETTINGS_MAX, Setting};
use super::stream::{find, get};
use super::{Connection, Priority, Stream};
use crate::Error;
use crate::h1::Sink;

impl Connection {
    pub(super) fn control_frame<S: Sink + ?Sized>(
        &mut self,
        header: FrameHeader,
        input: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        let wanted = self.wanted(header, storage)?;
        let Some(payload) = input[FRAME_HEADER_BYTES..].get(..wanted) else {
            return Ok(need(FRAME_HEADER_BYTES + wanted));
        };
        self.guard.overhead(FRAME_HEADER_BYTES + header.len, now_ms)?;
        let event = match header.kind {
            kind::SETTINGS if header.has(flag::ACK) => {
                self.settings_acknowledged(storage);
                Ok(Event::Progress)
            }
            kind::SETTINGS => self.settings(payload, storage, out),
            kind::PING if header.has(flag::ACK) => {
                if payload == SHUTDOWN_PING && self.going == Going::Announced {
                    self.shutdown_finish(out)?;
                }
                Ok(Event::Progress)
            }
            kind::PING => {
                self.put_control(kind::PING, flag::ACK, 0, payload, out)?;
                Ok(Event::Progress)
            }
            kind::WINDOW_UPDATE => self.window_update(header.stream, word(payload), storage),
            kind::RST_STREAM => self.reset_received(header.stream, word(payload), storage, now_ms),
            kind::PRIORITY if word(payload) & !(1 << 31) == header.stream => {
                Err(blame(header.stream, Error::SelfDependency, storage.streams))
            }
            kind::GOAWAY => Ok(Event::PeerGoesAway { code: word(&payload[4..]) }),
            kind::PRIORITY_UPDATE => {
                self.priority_update(payload, header.len, storage)?;
                Ok(Event::Progress)
            }
            _ if header.len == 0 && wanted == 0 => {
                self.guard.empty(&self.limits).map(|()| Event::Progress).map_err(Into::into)
            }
            _ => Ok(Event::Progress),
        }?;
        self.pass_over(header.len - wanted);
        Ok(Step { consumed: FRAME_HEADER_BYTES + wanted, event })
    }

    /// How much of the payload has to be there, after all that the header can be judged by.
    fn wanted(&self, header: FrameHeader, storage: &Storage<'_>) -> Result<usize, Failure> {
        match header.kind {
            kind::SETTINGS => {
                header.expect_stream(false)?;
                if header.has(flag::ACK) {
                    header.expect_len(0)?;
                }
                if !header.len.is_multiple_of(6) {
                    return Err(Error::FrameSizeInvalid.into());
                }
                if header.len > SETTINGS_MAX * 6 {
                    return Err(Error::Flood.into());
                }
            }
            kind::PING => {
                header.expect_stream(false)?;
                header.expect_len(8)?;
            }
            kind::GOAWAY => {
                header.expect_stream(false)?;
                if header.len < 8 {
                    return Err(Error::FrameSizeInvalid.into());
                }
                return Ok(8);
            }
            kind::WINDOW_UPDATE => {
                header.expect_len(4)?;
                self.expect_not_idle(header.stream)?;
            }
            kind::RST_STREAM => {
                header.expect_stream(true)?;
                header.expect_len(4)?;
                self.expect_not_idle(header.stream)?;
            }
            kind::PRIORITY => {
                header.expect_stream(true)?;
                if header.len != 5 {
                    return Err(blame(header.stream, Error::FrameSizeInvalid, storage.streams));
                }
            }
            kind::PRIORITY_UPDATE => {
                header.expect_stream(false)?;
                if header.len < 4 {
                    return Err(Error::FrameSizeInvalid.into());
                }
                return Ok(header.len.min(4 + PRIORITY_VALUE_BYTES_MAX));
            }
            kind::PUSH_PROMISE | kind::CONTINUATION => return Err(Error::FrameUnexpected.into()),
            _ => return Ok(0),
        }
        Ok(header.len)
    }

    fn expect_not_idle(&self, stream: u32) -> Result<(), Error> {
        let is_idle = stream > self.last_id || (stream != 0 && stream.is_multiple_of(2));
        if is_idle { Err(Error::StreamIdle) } else { Ok(()) }
    }

    fn settings<S: Sink + ?Sized>(
        &mut self,
        payload: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<Event, Failure> {
        let (entries, rest) = payload.as_chunks::<6>();
        debug_assert!(rest.is_empty(), "the length was checked");
        let mut event = Event::Progress;
        for entry in entries {
            match settings::setting(*entry)? {
                Setting::HeaderTableBytes(bytes) => self.encoder.set_peer_table_bytes(storage.encoder_table, bytes),
                Setting::FrameBytes(bytes) => self.peer_frame_bytes = bytes,
                Setting::InitialWindow(window) => {
                    let change = i64::from(window) - i64::from(self.peer_window);
                    for stream in storage.streams.iter_mut().filter(|stream| stream.id != 0) {
                        let changed = i64::from(stream.send_window) + change;
                        stream.send_window = i32::try_from(changed).map_err(|_| Error::WindowOverflow)?;
                    }
                    self.peer_window = window;
                    if change > 0 {
                        event = Event::Writable;
                    }
                }
                Setting::Nothing => {}
            }
        }
        self.input = Input::Frame;
        self.put_control(kind::SETTINGS, flag::ACK, 0, &[], out)?;
        Ok(event)
    }

    fn window_update(&mut self, id: u32, word: u32, storage: &mut Storage<'_>) -> Result<Event, Failure> {
        let increment = (word & !(1 << 31)) as i32;
        if id == 0 {
            if increment == 0 {
                return Err(Error::WindowIncrementZero.into());
            }
            self.send_window = self.send_window.checked_add(increment).ok_or(Error::WindowOverflow)?;
            return Ok(Event::Writable);
        }
        if increment == 0 {
            return Err(Failure::Stream(id, Error::WindowIncrementZero));
        }
        let Some(key) = find(storage.streams, id) else { return Ok(Event::Progress) };
        let stream = &mut storage.streams[usize::from(key.slot)];
        if stream.state.is_over() {
            return Ok(Event::Progress);
        }
        stream.send_window =
            stream.send_window.checked_add(increment).ok_or(Failure::Stream(id, Error::WindowOverflow))?;
        Ok(if stream.state.can_send() { Event::Writable } else { Event::Progress })
    }

    fn reset_received(&mut self, id: u32, code: u32, storage: &mut Storage<'_>, now_ms: u64) -> Result<Event, Failure> {
        self.ended.note(id);
        let alive = find(storage.streams, id).filter(|key| !storage.streams[usize::from(key.slot)].state.is_over());
        // One for a stream that has ended undoes no work: it is overhead. Some proxies send one for each frame that was
        // on its way when they gave up.
        let Some(key) = alive else { return Ok(Event::Progress) };
        self.guard.reset(&self.limits, now_ms)?;
        let was_alive = self.close(storage, key);
        debug_assert!(was_alive, "its state was looked at");
        Ok(Event::Reset { stream: key, cause: ResetCause::Peer(code) })
    }

    fn priority_update(&mut self, payload: &[u8], len: usize, storage: &mut Storage<'_>) -> Result<(), Failure> {
        let id = word(payload) & !(1 << 31);
        if id == 0 || id.is_multiple_of(2) {
            return Err(Error::StreamIdInvalid.into());
        }
        // One for a stream that is to come may be dropped (RFC 9218 7.1), and so is one that is longer than any that
        // says something.
        if let Some(stream) = find(storage.streams, id).and_then(|key| get(storage.streams, key))
            && len <= 4 + PRIORITY_VALUE_BYTES_MAX
        {
            stream.priority = Priority::parse(&payload[4..]);
        }
        Ok(())
    }
}

/// A stream that is there can be reset; for one that is not, only the connection can be blamed.
fn blame(id: u32, error: Error, streams: &[Stream]) -> Failure {
    if find(streams, id).is_some() { Failure::Stream(id, error) } else { Failure::Connection(error) }
}

/// The first four bytes of a payload whose length was checked.
fn word(payload: &[u8]) -> u32 {
    debug_assert!(payload.len() >= 4);
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// What a ping carries whose answer shows that the peer has read our first GOAWAY.
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"shutdown";
const PRIORITY_VALUE_BYTES_MAX: usize = 64;
