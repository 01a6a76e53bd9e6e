//! Integers with a prefix (RFC 7541 5.1).

use crate::Error;
use crate::h1::{Full, Sink};

/// Reads an integer whose first byte has `prefix_bits` bits of it. Returns it and how many bytes it took.
///
/// No integer of a header block means anything above 2^28, so more than four bytes after the prefix are refused, as are
/// those that say nothing but zeros for longer than that.
#[inline]
pub(super) fn decode(bytes: &[u8], prefix_bits: u32) -> Result<(usize, usize), Error> {
    debug_assert!((1..=8).contains(&prefix_bits));
    let mask = (1usize << prefix_bits) - 1;
    let first = usize::from(*bytes.first().ok_or(Error::HpackTruncated)?) & mask;
    if first < mask {
        return Ok((first, 1));
    }
    let mut value = first;
    for (at, &byte) in bytes.iter().enumerate().skip(1).take(CONTINUATION_BYTES_MAX) {
        value += usize::from(byte & 0x7f) << (7 * (at - 1));
        if byte & 0x80 == 0 {
            return Ok((value, at + 1));
        }
    }
    Err(if bytes.len() <= CONTINUATION_BYTES_MAX { Error::HpackTruncated } else { Error::HpackIntegerOverflow })
}

/// Writes an integer behind the bits of `first` that are not its prefix.
#[inline]
pub(super) fn encode<S: Sink + ?Sized>(
    sink: &mut S,
    first: u8,
    prefix_bits: u32,
    mut value: usize,
) -> Result<(), Full> {
    let mask = (1usize << prefix_bits) - 1;
    debug_assert!(usize::from(first) & mask == 0, "the prefix is free");
    if value < mask {
        return sink.put(&[first | value as u8]);
    }
    let mut bytes = [0; 12];
    bytes[0] = first | mask as u8;
    let mut len = 1;
    value -= mask;
    while value >= 0x80 {
        bytes[len] = value as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value as u8;
    sink.put(&bytes[..=len])
}

const CONTINUATION_BYTES_MAX: usize = 4;
