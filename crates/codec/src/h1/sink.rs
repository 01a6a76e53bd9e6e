//! Where encoded bytes go.

use super::syntax::{is_field_value, is_token, trim};
use crate::Error;

/// Takes encoded bytes in order. Implement it for the output buffer at hand; `&mut [u8]` and `Vec<u8>` have it.
pub trait Sink {
    /// Appends all of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Full`] if they do not fit. What was written of them does not matter: the caller gives the output up.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full>;
}

/// A sink has no room for what was to be put. Becomes [`Error::OutputFull`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Full;

impl From<Full> for Error {
    fn from(_: Full) -> Error {
        Error::OutputFull
    }
}

/// Writes to the front of the slice, and makes it the rest, as [`std::io::Write`] does.
impl Sink for &mut [u8] {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let (front, rest) = std::mem::take(self).split_at_mut_checked(bytes.len()).ok_or(Full)?;
        front.copy_from_slice(bytes);
        *self = rest;
        Ok(())
    }
}

/// Grows on the heap and is never full. Not for a server that has a memory line.
impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// Encoded field lines that were checked: `name: value` and CRLF for each. Cannot smuggle a line.
///
/// ```
/// use plimsoll_codec::h1::{Fields, put_field};
///
/// let mut block = Vec::new();
/// put_field(&mut block, "content-type", b"text/plain")?;
/// assert!(put_field(&mut block, "location", b"/\r\nset-cookie: a=b").is_err());
/// assert_eq!(Fields::check(&block)?.as_bytes(), b"content-type: text/plain\r\n");
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// No fields.
    pub const NONE: Fields<'static> = Fields(&[]);

    /// Checks a block of encoded field lines from first to last.
    ///
    /// # Errors
    ///
    /// [`Error::ResponseFieldInvalid`], [`Error::FieldReserved`].
    pub fn check(block: &'a [u8]) -> Result<Fields<'a>, Error> {
        let mut rest = block;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).ok_or(Error::ResponseFieldInvalid)?;
            let line = rest[..end].strip_suffix(b"\r").ok_or(Error::ResponseFieldInvalid)?;
            let colon = memchr::memchr(b':', line).ok_or(Error::ResponseFieldInvalid)?;
            check_field(&line[..colon], &line[colon + 1..])?;
            rest = &rest[end + 1..];
        }
        Ok(Fields(block))
    }

    /// Takes a block that [`put_field`] wrote, without checking it again (a debug build does).
    #[must_use]
    pub fn assume_checked(block: &'a [u8]) -> Fields<'a> {
        debug_assert!(Fields::check(block).is_ok(), "a block that put_field wrote");
        Fields(block)
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let colon = memchr::memchr(b':', rest)?;
            let end = colon + memchr::memchr(b'\n', &rest[colon..])?;
            let (name, value) = (&rest[..colon], &rest[colon + 1..end]);
            rest = &rest[end + 1..];
            Some((name, trim(value.strip_suffix(b"\r").unwrap_or(value))))
        })
    }

    /// The encoded lines.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// Checks one field and appends it to a block, [`field_len`] bytes.
///
/// # Errors
///
/// [`Error::ResponseFieldInvalid`] if the name is no token or the value holds CR, LF, NUL or another control byte (a
/// tab is fine), [`Error::FieldReserved`] if the codec writes fields of this name itself. Nothing is written then.
/// [`Error::OutputFull`] if the sink is full; the block ends within a line then.
pub fn put_field<S: Sink + ?Sized>(sink: &mut S, name: &str, value: &[u8]) -> Result<(), Error> {
    check_field(name.as_bytes(), value)?;
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        sink.put(part)?;
    }
    Ok(())
}

/// Encoded length of a field line.
#[must_use]
pub const fn field_len(name: &str, value: &[u8]) -> usize {
    name.len() + ": ".len() + value.len() + "\r\n".len()
}

/// Checks one field as [`put_field`] does, without writing it.
///
/// # Errors
///
/// [`Error::ResponseFieldInvalid`], [`Error::FieldReserved`].
pub fn check_field(name: &[u8], value: &[u8]) -> Result<(), Error> {
    if !is_token(name) || !is_field_value(value) {
        return Err(Error::ResponseFieldInvalid);
    }
    if is_reserved_field(name) { Err(Error::FieldReserved) } else { Ok(()) }
}

/// Whether the codec writes fields of this name itself, so that a program does not: in any case of letters `Date`,
/// `Connection`, `Content-Length` and `Transfer-Encoding`.
///
/// ```
/// use plimsoll_codec::h1::is_reserved_field;
///
/// assert!(is_reserved_field(b"content-length") && !is_reserved_field(b"content-type"));
/// ```
#[must_use]
pub fn is_reserved_field(name: &[u8]) -> bool {
    match name.len() {
        4 => name.eq_ignore_ascii_case(b"date"),
        10 => name.eq_ignore_ascii_case(b"connection"),
        14 => name.eq_ignore_ascii_case(b"content-length"),
        17 => name.eq_ignore_ascii_case(b"transfer-encoding"),
        _ => false,
    }
}
