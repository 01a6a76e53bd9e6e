//! DATA frames: their headers, checked before a byte of the data is looked at, and what the caller takes of them.

use super::{Connection, Input, need};
use crate::Error;
use crate::h2::event::{Event, Failure, Step, Storage};
use crate::h2::frame::{FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use crate::h2::stream::{Transition, find, get};
use crate::h2::{Stream, StreamKey};

impl Connection {
    /// The header of a DATA frame: every rule is checked before a byte of the data is looked at.
    pub(super) fn data_frame(
        &mut self,
        header: FrameHeader,
        input: &[u8],
        storage: &mut Storage<'_>,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        header.expect_stream(true)?;
        let (padding, prefix_bytes) = if header.has(flag::PADDED) {
            if header.len == 0 {
                return Err(Error::FrameSizeInvalid.into());
            }
            let Some(&padding) = input.get(FRAME_HEADER_BYTES) else {
                return Ok(need(FRAME_HEADER_BYTES + 1));
            };
            (usize::from(padding), 1)
        } else {
            (0, 0)
        };
        let data = (header.len - prefix_bytes).checked_sub(padding).ok_or(Error::PaddingInvalid)? as u32;
        if header.stream > self.last_id || header.stream.is_multiple_of(2) {
            return Err(Error::StreamIdle.into());
        }
        let ends = header.has(flag::END_STREAM);
        let overhead = header.len as u32 - data;
        self.receiving.receive(data, overhead)?;
        self.guard.overhead(FRAME_HEADER_BYTES + overhead as usize, now_ms)?;
        if data > 0 || ends {
            self.guard.payload(data as usize);
        } else {
            self.guard.empty(&self.limits)?;
        }
        let consumed = FRAME_HEADER_BYTES + prefix_bytes;
        let key = find(storage.streams, header.stream);
        let received = match key {
            Some(key) => get(storage.streams, key).map(|stream| (key, receive(stream, data, overhead, ends))),
            None => None,
        };
        match received {
            Some((stream, Ok(()))) => {
                self.input = Input::Data { stream, left: data, padding: padding as u32, ends };
                Ok(Step { consumed, event: Event::Progress })
            }
            refused => {
                self.receiving.release(data);
                let error =
                    refused.map_or(Error::StreamClosed, |(_, refused)| refused.err().unwrap_or(Error::StreamClosed));
                let is_over = key.is_none_or(|key| storage.streams[usize::from(key.slot)].state.is_over());
                let is_passed_over = is_over && self.is_passed_over(header.stream);
                if error == Error::StreamClosed && (is_passed_over || self.reset_by_us.has(header.stream)) {
                    // It was on its way when we reset the stream, or said which was the last.
                    self.pass_over(header.len - prefix_bytes);
                    return Ok(Step { consumed, event: Event::Progress });
                }
                Err(Failure::Stream(header.stream, error))
            }
        }
    }

    /// Whether this input, which stands behind the head of a stream, brings a part of its body among its next frames:
    /// the peer does not wait for `100 (Continue)` then (RFC 9110 10.1.1).
    #[must_use]
    pub fn is_body_next(&self, stream: StreamKey, input: &[u8]) -> bool {
        let mut rest = input;
        let headers = std::iter::from_fn(|| {
            let header = FrameHeader::parse(rest)?;
            rest = rest.get(FRAME_HEADER_BYTES + header.len..).unwrap_or_default();
            Some(header)
        });
        headers.take(FRAMES_AHEAD_MAX).any(|header| header.kind == kind::DATA && header.stream == stream.id)
    }

    /// Within a DATA frame.
    pub(super) fn data(
        &mut self,
        input: &[u8],
        storage: &mut Storage<'_>,
        key: StreamKey,
        left: u32,
        padding: u32,
        ends: bool,
    ) -> Step {
        let Some(stream) = get(storage.streams, key).filter(|stream| stream.state.can_receive()) else {
            // Reset meanwhile, and its bytes were given back then.
            self.pass_over((left + padding) as usize);
            return Step { consumed: 0, event: Event::Progress };
        };
        if left > 0 {
            if input.is_empty() {
                return need(1);
            }
            let bytes = input.len().min(left as usize);
            return Step { consumed: 0, event: Event::Data { stream: key, bytes, frame_bytes: left as usize } };
        }
        if input.len() < padding as usize {
            if input.is_empty() {
                return need(1);
            }
            self.input = Input::Data { stream: key, left, padding: padding - input.len() as u32, ends };
            return Step { consumed: input.len(), event: Event::Progress };
        }
        self.input = Input::Frame;
        let event = if ends && stream.step(Transition::Received).is_ok() {
            Event::End { stream: key }
        } else {
            Event::Progress
        };
        Step { consumed: padding as usize, event }
    }

    /// Takes bytes of the last [`Event::Data`]: so many of the input are consumed. Can be fewer than there are; what is
    /// left is presented again. Give them back with [`release`](Connection::release) when they are not in memory any
    /// more.
    ///
    /// # Panics
    ///
    /// If these are more than the frame has left, or there is none.
    pub fn take_data(&mut self, bytes: usize) {
        let Input::Data { left, .. } = &mut self.input else { panic!("there is no data to take") };
        assert!(bytes <= *left as usize, "more than the frame has left");
        *left -= bytes as u32;
    }
}

/// A stream gets the header of a DATA frame.
fn receive(stream: &mut Stream, data: u32, overhead: u32, ends: bool) -> Result<(), Error> {
    if !stream.state.can_receive() {
        return Err(Error::StreamClosed);
    }
    if let Some(left) = &mut stream.length_left {
        *left = left.checked_sub(data.into()).ok_or(Error::BodyLengthMismatch)?;
        if ends && *left > 0 {
            return Err(Error::BodyLengthMismatch);
        }
    }
    stream.receiving.receive(data, overhead)
}

/// Frames that are looked at for the beginning of a body: a few, so that many heads in one input do not cost their
/// square.
const FRAMES_AHEAD_MAX: usize = 8;
