//! Where a header block is. One frame that is whole and plain is decoded where it lies; padding, priority and
//! CONTINUATION take the longer way, and a block in several frames is put together in scratch memory. One that has no
//! place there is left to `connection/long.rs`.

use super::Limits;
use super::event::Failure;
use super::frame::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, flag, kind};
use crate::Error;

pub(super) enum Located {
    /// The input ends before the block; so many bytes are needed to know more.
    Need(usize),
    Whole(Found),
    /// It is longer than what can be put together: where its first fragment is.
    Long(std::ops::Range<usize>),
}

pub(super) struct Found {
    /// Bytes of all its frames.
    pub(super) consumed: usize,
    /// Bytes of the block in them.
    pub(super) block_bytes: usize,
    /// Where the first fragment begins and ends.
    first: std::ops::Range<usize>,
    /// The stream of an RFC 7540 priority.
    pub(super) depends_on: Option<u32>,
}

/// Finds the block that begins with this HEADERS frame. All limits are checked as soon as the header of a frame is
/// there.
pub(super) fn locate(header: FrameHeader, input: &[u8], limits: &Limits) -> Result<Located, Failure> {
    let end = FRAME_HEADER_BYTES + header.len;
    if header.flags & (flag::PADDED | flag::PRIORITY | flag::END_HEADERS) == flag::END_HEADERS {
        let found = Found { consumed: end, block_bytes: header.len, first: FRAME_HEADER_BYTES..end, depends_on: None };
        return Ok(if input.len() < end { Located::Need(end) } else { Located::Whole(found) });
    }
    let prefix = usize::from(header.has(flag::PADDED)) + if header.has(flag::PRIORITY) { PRIORITY_BYTES } else { 0 };
    if header.len < prefix {
        return Err(Error::FrameSizeInvalid.into());
    }
    if input.len() < end {
        return Ok(Located::Need(end));
    }
    let mut from = FRAME_HEADER_BYTES;
    let mut until = end;
    if header.has(flag::PADDED) {
        let padding = usize::from(input[from]);
        from += 1;
        until = until.checked_sub(padding).ok_or(Error::PaddingInvalid)?;
    }
    let mut depends_on = None;
    if header.has(flag::PRIORITY) {
        depends_on = input[from..].first_chunk().map(|id| u32::from_be_bytes(*id) & !(1 << 31));
        from += PRIORITY_BYTES;
    }
    if from > until {
        return Err(Error::PaddingInvalid.into());
    }
    let mut found = Found { consumed: end, block_bytes: until - from, first: from..until, depends_on };
    let mut is_last = header.has(flag::END_HEADERS);
    let mut continuations = 0;
    while !is_last {
        let Some(next) = FrameHeader::parse(&input[found.consumed..]) else {
            return Ok(Located::Need(found.consumed + FRAME_HEADER_BYTES));
        };
        if next.kind != kind::CONTINUATION || next.stream != header.stream {
            return Err(Error::FrameUnexpected.into());
        }
        continuations += 1;
        found.block_bytes += next.len;
        if next.len > FRAME_BYTES_MAX {
            return Err(Error::FrameSizeInvalid.into());
        }
        if continuations > limits.continuations_max {
            return Err(Error::Flood.into());
        }
        if found.block_bytes > limits.block_bytes() {
            return Ok(Located::Long(found.first));
        }
        found.consumed += FRAME_HEADER_BYTES + next.len;
        if input.len() < found.consumed {
            return Ok(Located::Need(found.consumed));
        }
        is_last = next.has(flag::END_HEADERS);
    }
    Ok(Located::Whole(found))
}

impl Found {
    /// The block, if it is in one frame.
    pub(super) fn in_one_piece<'b>(&self, input: &'b [u8]) -> Option<&'b [u8]> {
        input.get(self.first.clone()).filter(|first| first.len() == self.block_bytes)
    }

    /// The block: in the input, or put together in `assembly`.
    pub(super) fn assemble<'b>(&self, input: &'b [u8], assembly: &'b mut [u8]) -> &'b [u8] {
        let first = &input[self.first.clone()];
        if first.len() == self.block_bytes {
            return first;
        }
        assembly[..first.len()].copy_from_slice(first);
        let mut len = first.len();
        for fragment in continuations(input) {
            assembly[len..len + fragment.len()].copy_from_slice(fragment);
            len += fragment.len();
        }
        debug_assert_eq!(len, self.block_bytes);
        &assembly[..len]
    }
}

/// The payloads of the CONTINUATION frames behind the first frame, up to the one that ends the block.
fn continuations(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    let mut is_last = false;
    let payloads = std::iter::from_fn(move || {
        if is_last {
            return None;
        }
        let header = FrameHeader::parse(&input[at..])?;
        is_last = header.has(flag::END_HEADERS);
        let from = at + FRAME_HEADER_BYTES;
        at = from + header.len;
        input.get(from..at)
    });
    payloads.skip(1)
}

/// Bytes of the frames of a whole header block.
pub(super) fn frames_bytes(input: &[u8]) -> usize {
    let first = FrameHeader::parse(input).map_or(0, |header| FRAME_HEADER_BYTES + header.len);
    first + continuations(input).map(|payload| FRAME_HEADER_BYTES + payload.len()).sum::<usize>()
}

/// A dependency and a weight (RFC 7540 6.2).
const PRIORITY_BYTES: usize = 5;
