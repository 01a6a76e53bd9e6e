//! Header blocks that are too long to be put together: they are discarded as they come, frame by frame, so that the
//! table of HPACK stays true. A request gets its answer at the end of its block. How many frames such a block may have
//! is limited as for others.

use super::headers::{Begun, List};
use super::{Connection, Input, need};
use crate::Error;
use crate::h1::Sink;
use crate::h2::Limits;
use crate::h2::event::{Event, Failure, Step, Storage};
use crate::h2::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use crate::hpack::discard::Discard;

/// Such a block, and how far it was discarded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(in crate::h2) struct LongBlock {
    stream: u32,
    /// Bytes of the block that the frame has left, and of padding behind them.
    left: u16,
    padding: u8,
    continuations: u8,
    /// Flags of the first frame, and END_HEADERS if this is the last one.
    flags: u8,
    discard: Discard,
}

impl LongBlock {
    /// From the beginning of the block in its first frame, which is not the last.
    pub(super) fn new(header: FrameHeader, block_bytes: usize, padding: usize) -> LongBlock {
        debug_assert!(!header.has(flag::END_HEADERS) && block_bytes + padding <= FRAME_BYTES_MAX);
        LongBlock {
            stream: header.stream,
            left: block_bytes as u16,
            padding: padding as u8,
            continuations: 0,
            flags: header.flags & flag::END_STREAM,
            discard: Discard::new(),
        }
    }

    fn is_last_frame(&self) -> bool {
        self.flags & flag::END_HEADERS != 0
    }

    fn is_whole(&self) -> bool {
        self.is_last_frame() && self.left == 0
    }

    /// Passes over so many bytes of the block, and the headers of its frames. Copies them to the front of `out`, if
    /// they fit. Returns how many of the input and of the block there were, at most so many.
    fn pass(
        &mut self,
        input: &[u8],
        limits: &Limits,
        bytes_max: usize,
        mut out: Option<&mut [u8]>,
    ) -> Result<(usize, usize), Failure> {
        let (mut at, mut len) = (0, 0);
        loop {
            let part = usize::from(self.left).min(input.len() - at).min(bytes_max - len);
            if let Some(out) = &mut out {
                out[len..len + part].copy_from_slice(&input[at..at + part]);
            }
            (at, len, self.left) = (at + part, len + part, self.left - part as u16);
            if self.left > 0 || self.is_last_frame() {
                return Ok((at, len));
            }
            let padding = usize::from(self.padding);
            let Some(next) = input.get(at + padding..).and_then(FrameHeader::parse) else { return Ok((at, len)) };
            if next.kind != kind::CONTINUATION || next.stream != self.stream {
                return Err(Error::FrameUnexpected.into());
            }
            if next.len > FRAME_BYTES_MAX {
                return Err(Error::FrameSizeInvalid.into());
            }
            self.continuations += 1;
            if self.continuations > limits.continuations_max {
                return Err(Error::Flood.into());
            }
            self.flags |= next.flags & flag::END_HEADERS;
            (self.left, self.padding) = (next.len as u16, 0);
            at += padding + FRAME_HEADER_BYTES;
        }
    }
}

impl Connection {
    /// Whether the input is within a header block that is too long to be put together: what comes belongs to a head,
    /// however little is left of it.
    #[must_use]
    pub const fn is_in_block(&self) -> bool {
        matches!(self.input, Input::LongBlock(_))
    }

    /// A block begins that has no place as a whole: its first fragment is there.
    #[cold]
    pub(super) fn begin_long_block(
        &mut self,
        header: FrameHeader,
        first: std::ops::Range<usize>,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        let padding = FRAME_HEADER_BYTES + header.len - first.end;
        self.guard.overhead(first.start + padding, now_ms)?;
        self.input = Input::LongBlock(LongBlock::new(header, first.len(), padding));
        Ok(Step { consumed: first.start, event: Event::Progress })
    }

    /// Discards what has come of such a block.
    #[cold]
    #[inline(never)]
    pub(super) fn long_block<S: Sink + ?Sized>(
        &mut self,
        mut long: LongBlock,
        input: &[u8],
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Step, Failure> {
        self.last_block = storage.repeat.begin();
        let (scratch, assembly) = storage.bytes.split_at_mut(self.limits.header_list_bytes());
        let bytes_max = assembly.len();
        let mut ahead = long;
        let (_, len) = ahead.pass(input, &self.limits, bytes_max, Some(&mut *assembly))?;
        let mut discard = long.discard;
        let done = self.decoder.discard(&mut discard, storage.decoder_table, scratch, &assembly[..len])?;
        if done.excess > 0 {
            self.guard.overhead(done.excess, now_ms)?;
        }
        if ahead.is_whole() && done.excess == 0 && done.consumed < len {
            // It ends within a field.
            return Err(Error::HpackTruncated.into());
        }
        let (consumed, _) = long.pass(input, &self.limits, done.consumed, None)?;
        long.discard = discard;
        self.input = Input::LongBlock(long);
        if !long.is_whole() {
            return Ok(if consumed == 0 { need(input.len() + 1) } else { Step { consumed, event: Event::Progress } });
        }
        if !discard.is_between() {
            return Err(Error::HpackTruncated.into());
        }
        self.input = Input::Frame;
        let event = match self.long_block_ended(long, storage, out, now_ms) {
            Err(Failure::Stream(id, error)) => self.break_stream(id, error, storage, out, now_ms),
            ended => ended,
        };
        event.map(|event| Step { consumed, event })
    }

    fn long_block_ended<S: Sink + ?Sized>(
        &mut self,
        long: LongBlock,
        storage: &mut Storage<'_>,
        out: &mut S,
        now_ms: u64,
    ) -> Result<Event, Failure> {
        let ends = long.flags & flag::END_STREAM != 0;
        if long.stream <= self.last_id {
            return self.trailers(long.stream, List::Over, ends, storage);
        }
        if self.begin_stream(long.stream) != Begun::PassedOver {
            self.refuse(long.stream, Error::HeadTooLarge, ends, storage, out, now_ms)?;
        }
        Ok(Event::Progress)
    }
}
