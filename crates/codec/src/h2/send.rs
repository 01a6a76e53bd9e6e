//! What the server sends: settings, responses, bodies and trailers, and whose turn it is.

use http::StatusCode;

use super::event::{Failure, Storage};
use super::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use super::stream::{Output, Transition, get};
use super::{Connection, ErrorCode, StreamKey, priority, settings};
use crate::Error;
use crate::h1::{Fields, Full, ResponseHead, Sink};
use crate::hpack::Encoder;

impl Connection {
    /// Writes our SETTINGS, which is the first that a server sends. Once, before everything else.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn begin<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        Ok(out.put(&settings::ours(&self.limits, self.offer))?)
    }

    /// Tells the peer to have fewer streams, with smaller windows, or more again: never more than the
    /// [limits](super::Limits). For times when memory is short. It holds as soon as the peer has acknowledged it
    /// ([`is_settled`](Connection::is_settled)); then [`hold_windows`](Connection::hold_windows) has to be called, as
    /// streams that began before may wait for the difference. `false` when it has not acknowledged what it was told
    /// last: to be asked again then.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`]; there has to be room for 21 bytes.
    pub fn offer<S: Sink + ?Sized>(&mut self, streams_max: u16, window_bytes: u32, out: &mut S) -> Result<bool, Error> {
        let offer = settings::Offer::within(&self.limits, streams_max, window_bytes);
        if offer == self.offer {
            return Ok(true);
        }
        if self.awaits_ack {
            return Ok(false);
        }
        out.put(&offer.frame())?;
        (self.offer, self.awaits_ack) = (offer, true);
        Ok(true)
    }

    /// Writes the head of a response, after which DATA and trailers follow unless it `ends` the stream. A 1xx head
    /// never does.
    ///
    /// It goes to `out` at once, behind what is there, so that all responses of a turn can leave together.
    ///
    /// # Errors
    ///
    /// [`Error::StreamClosed`] if the stream was reset or is complete: nothing was written. [`Error::HeadTooLarge`] if
    /// the fields do not fit the scratch memory, [`Error::OutputFull`]; after these two the connection has to be given
    /// up, as the peer's table may not be ours any more.
    pub fn put_response<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        head: &ResponseHead<'_>,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let slot = get(storage.streams, stream).filter(|slot| slot.state.can_send()).ok_or(Error::StreamClosed)?;
        if ends {
            if head.status().is_informational() {
                return Err(Error::StateMisuse);
            }
            slot.step(Transition::Sent)?;
            slot.wait(Output::Nothing, &mut self.waiting);
        }
        let len = self.encode(storage, |encoder, table, sink| encoder.response(table, head, sink))?;
        self.put_block(stream.id, len, ends, storage, out)
    }

    /// Writes a whole response, head and body, in one piece, if that can leave at once: no other stream waits to send,
    /// and the body fits one frame and both windows. Else nothing is written, and the answer is `false`; so it is for
    /// an empty body.
    ///
    /// # Errors
    ///
    /// As [`put_response`](Connection::put_response).
    pub fn put_whole<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        head: &ResponseHead<'_>,
        body: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<bool, Error> {
        let slot = get(storage.streams, stream).filter(|slot| slot.state.can_send()).ok_or(Error::StreamClosed)?;
        let window = slot.send_window.min(self.send_window).max(0) as usize;
        let is_within = body.len() <= window.min(FRAME_BYTES_MAX).min(self.peer_frame_bytes as usize);
        if body.is_empty() || !is_within || self.waiting > 0 || head.status().is_informational() {
            return Ok(false);
        }
        slot.step(Transition::Sent)?;
        slot.send_window -= body.len() as i32;
        self.send_window -= body.len() as i32;
        let len = self.encode(storage, |encoder, table, sink| encoder.response(table, head, sink))?;
        self.guard.payload(len + body.len());
        let data = FrameHeader { len: body.len(), kind: kind::DATA, flags: flag::END_STREAM, stream: stream.id };
        let head_end = FRAME_HEADER_BYTES + len;
        let body_at = head_end + FRAME_HEADER_BYTES;
        if len <= FRAME_BYTES_MAX
            && let Some(place) = storage.bytes.get_mut(head_end..body_at + body.len())
        {
            let (header, text) = place.split_at_mut(FRAME_HEADER_BYTES);
            header.copy_from_slice(&data.encode());
            text.copy_from_slice(body);
            let header = FrameHeader { len, kind: kind::HEADERS, flags: flag::END_HEADERS, stream: stream.id };
            storage.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
            out.put(&storage.bytes[..body_at + body.len()])?;
            return Ok(true);
        }
        self.put_block(stream.id, len, false, storage, out)?;
        out.put(&data.encode())?;
        out.put(body)?;
        Ok(true)
    }

    /// Encodes a header block into the scratch memory, behind room for a frame's header. Returns how long it is.
    fn encode(
        &mut self,
        storage: &mut Storage<'_>,
        write: impl FnOnce(&mut Encoder, &mut [u8], &mut &mut [u8]) -> Result<(), Full>,
    ) -> Result<usize, Error> {
        storage.repeat.clear();
        let mut block = storage.bytes.get_mut(FRAME_HEADER_BYTES..).ok_or(Error::HeadTooLarge)?;
        let room = block.len();
        write(&mut self.encoder, storage.encoder_table, &mut block).map_err(|Full| Error::HeadTooLarge)?;
        Ok(room - block.len())
    }

    /// Writes trailers, which end the stream.
    ///
    /// # Errors
    ///
    /// As [`put_response`](Connection::put_response).
    pub fn put_trailers<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        fields: Fields<'_>,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let slot = get(storage.streams, stream).filter(|slot| slot.state.can_send()).ok_or(Error::StreamClosed)?;
        slot.step(Transition::Sent)?;
        slot.wait(Output::Nothing, &mut self.waiting);
        let len = self.encode(storage, |encoder, table, sink| {
            encoder.begin(table, sink)?;
            encoder.fields(table, fields, sink)
        })?;
        self.put_block(stream.id, len, true, storage, out)
    }

    /// Writes the header block that was encoded into the scratch memory, in as many frames as it needs.
    fn put_block<S: Sink + ?Sized>(
        &mut self,
        id: u32,
        len: usize,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        self.guard.payload(len);
        let ends_stream = if ends { flag::END_STREAM } else { 0 };
        if len <= FRAME_BYTES_MAX {
            let header = FrameHeader { len, kind: kind::HEADERS, flags: ends_stream | flag::END_HEADERS, stream: id };
            storage.bytes[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
            return Ok(out.put(&storage.bytes[..FRAME_HEADER_BYTES + len])?);
        }
        let mut rest = &storage.bytes[FRAME_HEADER_BYTES..][..len];
        let (mut kind, mut ends_stream) = (kind::HEADERS, ends_stream);
        while !rest.is_empty() {
            let (fragment, after) = rest.split_at(rest.len().min(FRAME_BYTES_MAX));
            let ends_block = if after.is_empty() { flag::END_HEADERS } else { 0 };
            let header = FrameHeader { len: fragment.len(), kind, flags: ends_stream | ends_block, stream: id };
            out.put(&header.encode())?;
            out.put(fragment)?;
            (rest, kind, ends_stream) = (after, kind::CONTINUATION, 0);
        }
        Ok(())
    }

    /// How many of so many body bytes may go into the next DATA frame: what both windows and the peer's frame size
    /// allow, at most 16 KiB.
    #[must_use]
    pub fn data_room(&self, stream: StreamKey, wanted: usize, storage: &Storage<'_>) -> usize {
        let Some(slot) = storage.streams.get(usize::from(stream.slot)).filter(|slot| slot.id == stream.id) else {
            return 0;
        };
        if !slot.state.can_send() {
            return 0;
        }
        let window = slot.send_window.min(self.send_window).max(0) as usize;
        wanted.min(window).min(FRAME_BYTES_MAX).min(self.peer_frame_bytes as usize)
    }

    /// Writes the header of a DATA frame; the caller lets `len` bytes of the body follow. At most as many as
    /// [`data_room`](Connection::data_room) says. A frame of 0 bytes that `ends` needs no window.
    ///
    /// # Errors
    ///
    /// [`Error::StreamClosed`] if the stream was reset or is complete, [`Error::WindowExceeded`] if these are more
    /// bytes than allowed: nothing was written. [`Error::OutputFull`].
    pub fn put_data_header<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        len: usize,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let allowed = self.data_room(stream, len, storage);
        let slot = get(storage.streams, stream).filter(|slot| slot.state.can_send()).ok_or(Error::StreamClosed)?;
        if allowed < len {
            return Err(Error::WindowExceeded);
        }
        let flags = if ends { flag::END_STREAM } else { 0 };
        out.put(&FrameHeader { len, kind: kind::DATA, flags, stream: stream.id }.encode())?;
        let is_small = self.send_window < SMALL_WINDOW_BYTES;
        self.small_frames = if is_small { self.small_frames.saturating_add(1) } else { 0 };
        slot.send_window -= len as i32;
        self.send_window -= len as i32;
        self.turn = self.turn.wrapping_add(1);
        slot.turn = self.turn;
        self.guard.payload(len);
        if ends {
            slot.step(Transition::Sent)?;
            slot.wait(Output::Nothing, &mut self.waiting);
        }
        Ok(())
    }

    /// Says whether a stream has body bytes to send, for [`next_to_send`](Connection::next_to_send).
    pub fn set_waiting(&mut self, stream: StreamKey, is_waiting: bool, storage: &mut Storage<'_>) {
        if let Some(slot) = get(storage.streams, stream) {
            slot.wait(if is_waiting { Output::Waiting } else { Output::Nothing }, &mut self.waiting);
        }
    }

    /// The stream whose turn it is to send a DATA frame (RFC 9218): the most urgent of those that wait and have a
    /// window; among equals, all incremental ones and the first other one take turns.
    ///
    /// None while the connection [waits for a larger window](Connection::awaits_larger_window).
    #[must_use]
    pub fn next_to_send(&self, storage: &Storage<'_>) -> Option<StreamKey> {
        let is_open = self.waiting > 0 && self.send_window > 0 && !self.awaits_larger_window();
        if is_open { priority::next(storage.streams) } else { None }
    }

    /// Whether bodies wait though a little of the connection's window is open. A peer that gives back what each frame
    /// took would get frames as small as the last ones for ever, each with two window updates of its own (the silly
    /// window of RFC 1122 4.2.3.4; streams share the window, so they cut each other's frames). After a few frames under
    /// 1 KiB of window, the next waits until that much is open.
    ///
    /// A peer may also give nothing back before all is used up: after a while
    /// [`send_small`](Connection::send_small) has to be called.
    #[must_use]
    pub const fn awaits_larger_window(&self) -> bool {
        let is_small = 0 < self.send_window && self.send_window < SMALL_WINDOW_BYTES;
        is_small && self.small_frames >= SMALL_FRAMES_MAX && self.waiting > 0
    }

    /// The peer had its time to open a [larger window](Connection::awaits_larger_window): lets one more frame go
    /// within what is open.
    pub fn send_small(&mut self) {
        self.small_frames = self.small_frames.min(SMALL_FRAMES_MAX - 1);
    }

    /// Whether a stream has body bytes to send.
    #[must_use]
    pub const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the peer's window for the connection lets nothing of any body go. Each
    /// [stream](super::Stream::is_window_shut) has one of its own.
    #[must_use]
    pub const fn is_window_shut(&self) -> bool {
        self.send_window <= 0
    }

    /// Whether the window that the peer has for the connection lets nothing of any body come. Each
    /// [stream](super::Stream::is_receive_window_shut) has one of its own.
    #[must_use]
    pub const fn is_receive_window_shut(&self) -> bool {
        self.receiving.window <= 0
    }

    /// An answer without a body to a request that gets no slot.
    pub(super) fn answer_refused<S: Sink + ?Sized>(
        &mut self,
        id: u32,
        status: StatusCode,
        ends: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Failure> {
        let len = self.encode(storage, |encoder, table, sink| {
            encoder.begin(table, sink)?;
            encoder.status(status, sink)?;
            if status == StatusCode::SERVICE_UNAVAILABLE {
                // Not the same to all, so that they do not come again together.
                encoder.retry_after(1 + (id / 2 % 3) as u8, sink)?;
            }
            encoder.content_length(0, sink)
        })?;
        self.put_block(id, len, true, storage, out)?;
        self.guard.control_frames += 1;
        if ends {
            self.ended.note(id);
            return Ok(());
        }
        self.reset_by_us.note(id);
        Ok(self.put_reset(id, ErrorCode::NoError, out)?)
    }

    pub(super) fn put_control<S: Sink + ?Sized>(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        out: &mut S,
    ) -> Result<(), Full> {
        self.guard.control_frames = self.guard.control_frames.saturating_add(1);
        out.put(&FrameHeader { len: payload.len(), kind, flags, stream }.encode())?;
        out.put(payload)
    }
}

/// The most that a head with these fields, or trailers, takes in the output: so that room can be made before the tables
/// of HPACK change.
#[must_use]
pub const fn head_bytes_max(fields: Fields<'_>) -> usize {
    let block = block_bytes_max(fields);
    block + FRAME_HEADER_BYTES * (1 + block / FRAME_BYTES_MAX)
}

/// The same without the headers of its frames: what has to fit the scratch memory.
#[must_use]
pub const fn block_bytes_max(fields: Fields<'_>) -> usize {
    let text = fields.as_bytes().len();
    // A line has four bytes beside its name and value, a literal has three, and more for lengths from 127 on.
    BLOCK_OWN_BYTES_MAX + text + text / 64
}

/// A connection's window that is small: less makes frames of which too much is overhead.
pub(super) const SMALL_WINDOW_BYTES: i32 = 1_024;
/// DATA frames in a row that may be sent within a small window. A peer whose window is small now and then, at its end,
/// never gets so many.
pub(super) const SMALL_FRAMES_MAX: u8 = 4;

/// Two changes of the table's size, a status, a date, a length, and what the lengths of a few long fields take.
const BLOCK_OWN_BYTES_MAX: usize = 96;
const _: () = assert!(FRAME_HEADER_BYTES + 8 <= super::STEP_OUTPUT_BYTES_MAX);
