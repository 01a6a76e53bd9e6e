//! UTF-8 that is checked as it comes.

use crate::Error;

/// Checks a text in parts, split anywhere: an error is told with the first byte that makes the text invalid.
///
/// ```
/// use plimsoll_codec::{Error, ws::Utf8};
///
/// let mut text = Utf8::new();
/// text.check(b"h\xC3")?;
/// assert_eq!(text.finish(), Err(Error::WebSocketTextInvalid));
/// text.check(b"\xA9")?;
/// assert_eq!(text.finish(), Ok(()));
/// // A surrogate, seen before its last byte.
/// assert_eq!(text.check(b"\xED\xA0"), Err(Error::WebSocketTextInvalid));
/// # Ok::<(), Error>(())
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Utf8 {
    /// The beginning of a code point.
    pending: [u8; 4],
    /// Bytes of it: 0 to 3.
    len: u8,
}

impl Utf8 {
    /// At the beginning of a text.
    #[must_use]
    pub const fn new() -> Utf8 {
        Utf8 { pending: [0; 4], len: 0 }
    }

    /// Checks the next bytes.
    ///
    /// # Errors
    ///
    /// [`Error::WebSocketTextInvalid`]; the text is then not to be gone on with.
    pub fn check(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        debug_assert!(self.len < 4, "a whole code point is not pending");
        while self.len > 0 {
            let [first, rest @ ..] = bytes else { return Ok(()) };
            self.pending[usize::from(self.len)] = *first;
            self.len += 1;
            bytes = rest;
            match std::str::from_utf8(&self.pending[..usize::from(self.len)]) {
                Ok(_) => self.len = 0,
                // Four bytes are a code point or an error, so there is always room for the next.
                Err(error) if error.error_len().is_none() => debug_assert!(self.len < 4),
                Err(_) => return Err(Error::WebSocketTextInvalid),
            }
        }
        let Err(error) = std::str::from_utf8(bytes) else { return Ok(()) };
        if error.error_len().is_some() {
            return Err(Error::WebSocketTextInvalid);
        }
        let rest = &bytes[error.valid_up_to()..];
        self.pending[..rest.len()].copy_from_slice(rest);
        self.len = rest.len() as u8;
        Ok(())
    }

    /// Whether the text may end here.
    ///
    /// # Errors
    ///
    /// [`Error::WebSocketTextInvalid`] within a code point.
    pub const fn finish(&self) -> Result<(), Error> {
        if self.len == 0 { Ok(()) } else { Err(Error::WebSocketTextInvalid) }
    }
}
