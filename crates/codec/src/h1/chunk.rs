//! Chunks of a response (RFC 9112 7.1).

use super::body::is_forbidden_trailer;
use super::{Fields, Sink};
use crate::Error;

/// The size line of a chunk, encoded.
///
/// ```
/// use plimsoll_codec::h1::{CHUNK_END, LAST_CHUNK, chunk_header};
///
/// let mut out = Vec::new();
/// out.extend_from_slice(chunk_header(4).as_bytes());
/// out.extend_from_slice(b"hull");
/// out.extend_from_slice(CHUNK_END);
/// out.extend_from_slice(LAST_CHUNK);
/// assert_eq!(out, b"4\r\nhull\r\n0\r\n\r\n");
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    bytes: [u8; CHUNK_HEADER_BYTES_MAX],
    /// 3 to 18.
    len: u8,
}

impl ChunkHeader {
    /// Hexadecimal digits and CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Encodes the size line of a chunk of `len` bytes.
///
/// # Panics
///
/// If `len` is 0: a chunk of no bytes would end the body.
#[must_use]
pub fn chunk_header(len: u64) -> ChunkHeader {
    assert!(len > 0, "an empty chunk would end the body");
    let digits = (64 - len.leading_zeros()).div_ceil(4) as usize;
    debug_assert!((1..=16).contains(&digits));
    let mut bytes = [0; CHUNK_HEADER_BYTES_MAX];
    for (at, byte) in bytes[..digits].iter_mut().enumerate() {
        let shift = 4 * (digits - 1 - at);
        *byte = b"0123456789abcdef"[(len >> shift) as usize & 15];
    }
    bytes[digits..digits + 2].copy_from_slice(b"\r\n");
    ChunkHeader { bytes, len: digits as u8 + 2 }
}

/// Puts the last chunk with trailers and the empty line; [`LAST_CHUNK`] is the same without trailers.
///
/// ```
/// use plimsoll_codec::Error;
/// use plimsoll_codec::h1::{Fields, put_last_chunk};
///
/// let mut out = Vec::new();
/// put_last_chunk(&mut out, Fields::check(b"sum: 7\r\n")?)?;
/// assert_eq!(out, b"0\r\nsum: 7\r\n\r\n");
/// let late = put_last_chunk(&mut out, Fields::check(b"content-type: text/plain\r\n")?);
/// assert_eq!(late, Err(Error::TrailerForbidden));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// [`Error::TrailerForbidden`] for a field that must come before the body, see [`check_trailers`]; nothing is put then.
/// [`Error::OutputFull`] if the sink has no room for `5 + trailers.as_bytes().len()` bytes.
pub fn put_last_chunk<S: Sink + ?Sized>(sink: &mut S, trailers: Fields<'_>) -> Result<(), Error> {
    check_trailers(trailers)?;
    for part in [b"0\r\n", trailers.as_bytes(), b"\r\n"] {
        sink.put(part)?;
    }
    Ok(())
}

/// Checks that the fields may come after the body of a response: none that frames, routes, authenticates or controls
/// it, or says how to read its content (RFC 9110 6.5.1).
///
/// ```
/// use plimsoll_codec::Error;
/// use plimsoll_codec::h1::{Fields, check_trailers};
///
/// assert_eq!(check_trailers(Fields::check(b"server-timing: db;dur=53\r\netag: \"7\"\r\n")?), Ok(()));
/// assert_eq!(check_trailers(Fields::check(b"set-cookie: a=b\r\n")?), Err(Error::TrailerForbidden));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
///
/// [`Error::TrailerForbidden`].
pub fn check_trailers(trailers: Fields<'_>) -> Result<(), Error> {
    if trailers.iter().all(|(name, _)| is_trailer(name)) { Ok(()) } else { Err(Error::TrailerForbidden) }
}

/// Whether a field of this name, in any case of letters, may come behind the body of an answer; see
/// [`check_trailers`].
#[must_use]
pub fn is_trailer(name: &[u8]) -> bool {
    let is_control = RESPONSE_CONTROL.iter().any(|field| name.eq_ignore_ascii_case(field.as_bytes()));
    !is_control && !is_forbidden_trailer(name)
}

/// Response control data (RFC 7231 7.1): who has decided by it already would have to decide again.
const RESPONSE_CONTROL: [&str; 7] = ["age", "date", "expires", "location", "retry-after", "vary", "warning"];

/// What follows the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Ends a chunked body that has no trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Longest size line: 16 digits and CRLF.
pub const CHUNK_HEADER_BYTES_MAX: usize = 18;
