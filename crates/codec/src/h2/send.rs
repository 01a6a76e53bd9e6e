//! What the server sends: responses, bodies, resets, windows and farewells.

use http::StatusCode;

use super::connection::{Going, Input, Replenishing, WINDOW_BYTES};
use super::control::SHUTDOWN_PING;
use super::event::{Failure, Storage};
use super::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, STREAM_ID_MAX, flag, kind};
use super::stream::{Output, Transition, get};
use super::{Connection, ErrorCode, Stream, StreamKey, StreamState, priority, settings};
use crate::Error;
use crate::h1::{Fields, Full, ResponseHead, Sink};
use crate::hpack::Encoder;
use crate::misbehaviour::Verdict;

impl Connection {
    /// Writes our SETTINGS, which is the first that a server sends. Once, before everything else.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn begin<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        Ok(out.put(&settings::ours(&self.limits, self.offer))?)
    }

    /// Tells the peer to have fewer streams, with smaller windows, or more again: never more than the [limits](super::Limits). For times when memory is
    /// short. It holds as soon as the peer has acknowledged it ([`is_settled`](Connection::is_settled)); then [`hold_windows`](Connection::hold_windows) has to
    /// be called, as streams that began before may wait for the difference. `false` when it has not acknowledged what it was told last: to be asked again then.
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

    /// Writes the head of a response, after which DATA and trailers follow unless it `ends` the stream. A 1xx head never does.
    ///
    /// It goes to `out` at once, behind what is there, so that all responses of a turn can leave together.
    ///
    /// # Errors
    ///
    /// [`Error::StreamClosed`] if the stream was reset or is complete: nothing was written. [`Error::HeadTooLarge`] if the fields do not fit the
    /// scratch memory, [`Error::OutputFull`]; after these two the connection has to be given up, as the peer's table may not be ours any more.
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

    /// Writes a whole response, head and body, in one piece, if that can leave at once: no other stream waits to send, and the body fits one frame and
    /// both windows. Else nothing is written, and the answer is `false`; so it is for an empty body.
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

    /// How many of so many body bytes may go into the next DATA frame: what both windows and the peer's frame size allow, at most 16 KiB.
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
    /// [`Error::StreamClosed`] if the stream was reset or is complete, [`Error::WindowExceeded`] if these are more bytes than allowed: nothing was
    /// written. [`Error::OutputFull`].
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

    /// The stream whose turn it is to send a DATA frame (RFC 9218): the most urgent of those that wait and have a window; among equals, all
    /// incremental ones and the first other one take turns.
    #[must_use]
    pub fn next_to_send(&self, storage: &Storage<'_>) -> Option<StreamKey> {
        if self.waiting == 0 || self.send_window <= 0 { None } else { priority::next(storage.streams) }
    }

    /// Whether a stream has body bytes to send.
    #[must_use]
    pub const fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the peer's window for the connection lets nothing of any body go. Each [stream](Stream::is_window_shut) has one of its own.
    #[must_use]
    pub const fn is_window_shut(&self) -> bool {
        self.send_window <= 0
    }

    /// Bytes of a body are not in memory any more. The peer may send as many, and is told when it is worth a frame, unless windows are
    /// [held](Connection::hold_windows).
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`]; there has to be room for [`STEP_OUTPUT_BYTES_MAX`](super::STEP_OUTPUT_BYTES_MAX).
    pub fn release<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        bytes: usize,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        if let Some(slot) = get(storage.streams, stream) {
            let released = slot.receiving.release(bytes as u32);
            self.receiving.release(released);
            self.replenish_stream(slot_of(storage, stream), out)?;
        }
        Ok(self.replenish_connection(out)?)
    }

    /// As [`release`](Connection::release), without room to tell the peer: it is told with the next that is released, or that
    /// [is not held](Connection::hold_windows).
    pub fn release_untold(&mut self, stream: StreamKey, bytes: usize, storage: &mut Storage<'_>) {
        if let Some(slot) = get(storage.streams, stream) {
            let released = slot.receiving.release(bytes as u32);
            self.receiving.release(released);
        }
    }

    /// Lets a stream's window, and the connection's with it, grow by so many bytes, which the caller has reserved: for a body that comes in bulk.
    ///
    /// # Errors
    ///
    /// [`Error::WindowOverflow`] if a window would be more than 2^31 - 1: nothing was changed. [`Error::OutputFull`].
    pub fn grow_window<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        bytes: u32,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let Some(slot) = get(storage.streams, stream) else { return Ok(()) };
        let fits = |total: i64| total + i64::from(bytes) <= i64::from(i32::MAX);
        if !fits(slot.receiving.total()) || !fits(self.receiving.total()) {
            return Err(Error::WindowOverflow);
        }
        slot.receiving.owed += bytes;
        // What was taken back and is still open at the peer is given anew: so the window is never larger than all that was granted at a time.
        let still_open = self.receiving.debt.min(bytes);
        self.receiving.debt -= still_open;
        self.receiving.owed += bytes - still_open;
        self.replenish_stream(slot_of(storage, stream), out)?;
        Ok(self.replenish_connection(out)?)
    }

    /// Takes back so many bytes by which the connection's window was grown: as many that are released are not told. For when a body that came in bulk is
    /// over.
    pub fn shrink_window(&mut self, bytes: u32) {
        self.receiving.debt += bytes;
    }

    /// Stops telling the peer that it may send more, or goes on: what was held back is told then. For times without memory. Meanwhile a window is
    /// told when nearly nothing of it is left and nothing of it is in use, so that a body that was begun comes to its end, bit by bit.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`]; going on needs room for 13 bytes for each stream and the connection.
    pub fn hold_windows<S: Sink + ?Sized>(
        &mut self,
        is_held: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        self.replenishing = if is_held { Replenishing::Held } else { Replenishing::On };
        for slot in storage.streams.iter_mut().filter(|slot| slot.state.can_receive()) {
            self.replenish_stream(slot, out)?;
        }
        Ok(self.replenish_connection(out)?)
    }

    /// The window that streams have, or soon will.
    fn stream_window(&self) -> u32 {
        self.offer.window_bytes.min(self.own_window.max(0) as u32)
    }

    fn replenish_stream<S: Sink + ?Sized>(&mut self, slot: &mut Stream, out: &mut S) -> Result<(), Full> {
        let is_held = self.replenishing == Replenishing::Held && !slot.receiving.is_used_up(self.stream_window());
        if is_held || !slot.state.can_receive() {
            return Ok(());
        }
        match slot.receiving.update(self.stream_window() / 2) {
            Some(increment) => self.put_update(slot.id, increment, out),
            None => Ok(()),
        }
    }

    pub(super) fn replenish_connection<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Full> {
        if self.holds_window() {
            return Ok(());
        }
        match self.receiving.update(CONNECTION_UPDATE_BYTES) {
            Some(increment) => self.put_update(0, increment, out),
            None => Ok(()),
        }
    }

    /// Whether the next step would tell the peer of the connection's window.
    pub(super) fn owes_update(&self) -> bool {
        let owed = self.receiving.owed.saturating_sub(self.receiving.debt);
        owed >= CONNECTION_UPDATE_BYTES && !self.holds_window()
    }

    fn holds_window(&self) -> bool {
        self.replenishing == Replenishing::Held && !self.receiving.is_used_up(WINDOW_BYTES as u32)
    }

    /// Window updates follow from what we use, not from what the peer asks for: they do not count as its control frames.
    fn put_update<S: Sink + ?Sized>(&mut self, id: u32, increment: u32, out: &mut S) -> Result<(), Full> {
        debug_assert!(increment > 0 && increment <= STREAM_ID_MAX);
        out.put(&FrameHeader { len: 4, kind: kind::WINDOW_UPDATE, flags: 0, stream: id }.encode())?;
        out.put(&increment.to_be_bytes())
    }

    /// Ends a stream from our side. Its slot stays until it is [forgotten](Connection::forget).
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn reset<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        code: ErrorCode,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        if self.close(storage, stream) {
            self.put_reset(stream.id, code, out)?;
        }
        Ok(())
    }

    /// Gives the slot of a stream free, when nobody works on it any more. A stream that is not over is reset: with NO_ERROR if its response
    /// is complete, so that the client stops sending the rest of its request (RFC 9113 8.1), else with INTERNAL_ERROR.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn forget<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let Some(slot) = get(storage.streams, stream) else { return Ok(()) };
        match slot.state {
            StreamState::Closed | StreamState::Free => {
                let held = slot.receiving.held;
                slot.receiving.release(held);
                self.receiving.release(held);
                if !self.reset_by_us.has(stream.id) {
                    self.ended.note(stream.id);
                }
            }
            StreamState::HalfClosedLocal => self.reset(stream, ErrorCode::NoError, storage, out)?,
            StreamState::Open | StreamState::HalfClosedRemote => {
                self.reset(stream, ErrorCode::InternalError, storage, out)?;
            }
        }
        storage.streams[usize::from(stream.slot)] = Stream::FREE;
        debug_assert!(self.live > 0, "every stream in a slot is counted");
        self.live -= 1;
        Ok(self.replenish_connection(out)?)
    }

    /// Bytes that [`pack`](Connection::pack) needs.
    #[must_use]
    pub const fn packed_bytes(&self) -> usize {
        self.decoder.packed_bytes() + self.encoder.packed_bytes()
    }

    /// Moves both tables of HPACK to `to`: a connection that waits needs no storage for them. Nothing but what needs no [`Storage`] may be called before
    /// [`unpack`](Connection::unpack).
    ///
    /// # Panics
    ///
    /// If `to` has fewer than [`packed_bytes`](Connection::packed_bytes).
    pub fn pack(&mut self, decoder_table: &mut [u8], encoder_table: &mut [u8], to: &mut [u8]) {
        let used = self.decoder.pack(decoder_table, to);
        self.encoder.pack(encoder_table, &mut to[used..]);
    }

    /// Moves both tables back to storage of the same sizes as before.
    ///
    /// # Panics
    ///
    /// If `from` is not what was packed.
    pub fn unpack(&self, from: &[u8], decoder_table: &mut [u8], encoder_table: &mut [u8]) {
        let used = self.decoder.unpack(from, decoder_table);
        self.encoder.unpack(&from[used..], encoder_table);
    }

    /// Everything that was written has been taken by the socket: control frames are counted from 0 again.
    pub fn output_sent(&mut self) {
        self.guard.control_frames = 0;
    }

    /// Whether so many control frames wait to be sent that [`Event::NeedOutput`](super::Event::NeedOutput) would come: there is no use in reading on.
    #[must_use]
    pub const fn needs_output(&self) -> bool {
        self.guard.control_frames >= self.limits.control_frames_max
    }

    /// Streams that have a slot.
    #[must_use]
    pub const fn live_streams(&self) -> u16 {
        self.live
    }

    /// Whether no stream has a slot and the input is between two frames: what a connection has to be to wait without buffers.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.live == 0 && self.input == Input::Frame
    }

    /// Whether the next byte of the input begins a frame: without one there is nothing to [step](Connection::step) through.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        matches!(self.input, Input::Frame | Input::FirstFrame)
    }

    /// Whether the peer has acknowledged our SETTINGS, which change its windows (RFC 9113 6.5.3).
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        !self.awaits_ack
    }

    /// Whether new streams are not served any more.
    #[must_use]
    pub fn is_going_away(&self) -> bool {
        self.going == Going::Final || matches!(self.input, Input::Failed(_))
    }

    /// Begins a shutdown (RFC 9113 6.8): asks the peer to open no more streams, and with a ping when that has reached it. When the ping is
    /// answered, [`shutdown_finish`](Connection::shutdown_finish) follows by itself; call it after a while if the peer does not answer.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn shutdown<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        if self.going != Going::Serving {
            return Ok(());
        }
        self.going = Going::Announced;
        self.put_goaway(STREAM_ID_MAX, ErrorCode::NoError, out)?;
        Ok(self.put_control(kind::PING, 0, 0, &SHUTDOWN_PING, out)?)
    }

    /// Tells the peer which stream was the last, and serves no new ones from now on. When all have ended, the connection can be closed.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn shutdown_finish<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        if self.going == Going::Final {
            return Ok(());
        }
        self.going = Going::Final;
        Ok(self.put_goaway(self.processed_id, ErrorCode::NoError, out)?)
    }

    /// A peer that misbehaves may finish what it has begun.
    pub(super) fn warn<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Full> {
        if self.going == Going::Final || self.guard.misbehaviour.verdict() == Verdict::Tolerated {
            return Ok(());
        }
        self.going = Going::Final;
        self.put_goaway(self.processed_id, ErrorCode::EnhanceYourCalm, out)
    }

    /// Ends the connection: GOAWAY, and nothing after it.
    pub(super) fn fail<S: Sink + ?Sized>(&mut self, error: Error, out: &mut S) -> Error {
        self.input = Input::Failed(error);
        match self.put_goaway(self.processed_id, ErrorCode::of(error), out) {
            Ok(()) => error,
            Err(Full) => Error::OutputFull,
        }
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
            encoder.content_length(0, sink)
        })?;
        self.put_block(id, len, true, storage, out)?;
        self.guard.control_frames += 1;
        if ends {
            self.ended.note(id);
            return Ok(());
        }
        Ok(self.put_reset(id, ErrorCode::NoError, out)?)
    }

    pub(super) fn put_reset<S: Sink + ?Sized>(&mut self, id: u32, code: ErrorCode, out: &mut S) -> Result<(), Full> {
        if code == ErrorCode::RefusedStream {
            self.refused.note(id);
        } else {
            self.reset_by_us.note(id);
        }
        self.put_control(kind::RST_STREAM, 0, id, &(code as u32).to_be_bytes(), out)
    }

    fn put_goaway<S: Sink + ?Sized>(&mut self, last_id: u32, code: ErrorCode, out: &mut S) -> Result<(), Full> {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last_id.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        self.put_control(kind::GOAWAY, 0, 0, &payload, out)
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

/// The most that a head with these fields, or trailers, takes in the output: so that room can be made before the tables of HPACK change.
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

fn slot_of<'s>(storage: &'s mut Storage<'_>, key: StreamKey) -> &'s mut Stream {
    &mut storage.streams[usize::from(key.slot)]
}

/// Two changes of the table's size, a status, a date, a length, and what the lengths of a few long fields take.
const BLOCK_OWN_BYTES_MAX: usize = 96;
/// Half of the window that the protocol gives every connection.
const CONNECTION_UPDATE_BYTES: u32 = 32_768;

const _: () = assert!(FRAME_HEADER_BYTES + 8 <= super::STEP_OUTPUT_BYTES_MAX);
