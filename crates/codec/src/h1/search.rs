//! Finds the end of a head, and refuses line ends that two readers could understand in two ways.

use std::ops::Range;

use super::Limits;
use super::examined::examined;
use super::syntax::is_token_byte;
use crate::Error;

/// A search for the end of a request head that can go on where it stopped.
///
/// One value serves one head; begin the next head with a new one. A byte is looked at once however the head is split,
/// so a peer that sends single bytes costs O(n). Limits are checked as early as the bytes show that they are broken.
///
/// At most [`LEADING_LINES_MAX`] empty lines before the request line are skipped (RFC 9112 2.2).
///
/// ```
/// use plimsoll_codec::h1::{HeadSearch, Limits};
///
/// let bytes = b"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
/// let mut search = HeadSearch::default();
/// assert_eq!(search.search(&bytes[..20], &Limits::DEFAULT)?, None);
/// assert_eq!(search.search(bytes, &Limits::DEFAULT)?, Some(2..29));
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadSearch {
    /// Bytes that need no second look; at most the head limit plus `skipped`.
    searched: u32,
    /// Lines that are complete, the request line included.
    lines: u16,
    /// Bytes of empty lines before the request line that are still presented: 0, 2, .. 2 * LEADING_LINES_MAX.
    skipped: u8,
    /// Empty lines that were seen, discarded ones included; at most LEADING_LINES_MAX.
    empty_lines: u8,
}

impl HeadSearch {
    /// A search that goes on after so many empty lines, which were discarded: see [`empty_lines`](Self::empty_lines).
    pub const fn after_empty_lines(lines: u8) -> Self {
        Self { searched: 0, lines: 0, skipped: 0, empty_lines: lines }
    }

    /// Empty lines seen so far: all that a search that has not started needs to be remembered by.
    pub const fn empty_lines(&self) -> u8 {
        self.empty_lines
    }

    /// Looks on for the end of the head in `bytes`, which hold everything received since the end of the previous
    /// message: what earlier calls were given, plus what came since.
    ///
    /// Returns the range of the head within `bytes`, from the request line to the empty line, or `None` if more bytes
    /// are needed. The range begins after skipped empty lines.
    ///
    /// # Errors
    ///
    /// [`Error::BareLf`], [`Error::BareCr`], [`Error::NulByte`], [`Error::LeadingLines`], [`Error::MethodInvalid`] (the
    /// first byte is no token), [`Error::RequestLineTooLong`], [`Error::HeadTooLarge`], [`Error::TooManyFields`],
    /// [`Error::Http2Preface`]. The connection cannot be used after an error.
    #[inline]
    pub fn search(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<Range<usize>>, Error> {
        debug_assert!(bytes.len() >= self.searched as usize, "bytes that were searched must be presented again");
        if !self.started() && !self.skip_empty_lines(bytes)? {
            return Ok(None);
        }
        let start = usize::from(self.skipped);
        let head_bound = start + limits.head_bytes();
        loop {
            let bound = match self.lines {
                0 => start + limits.request_line_bytes() + 1,
                _ => head_bound,
            };
            let window = &bytes[..bytes.len().min(bound)];
            let from = self.searched as usize;
            let found = memchr::memchr3(b'\r', b'\n', 0, &window[from..]);
            examined(found.map_or(window.len() - from, |found| found + 1));
            let Some(found) = found else {
                self.searched = window.len() as u32;
                return if window.len() == bound { Err(self.over_limit()) } else { Ok(None) };
            };
            let at = from + found;
            match bytes[at] {
                0 => return Err(Error::NulByte),
                b'\n' => return Err(Error::BareLf),
                _ if at + 1 >= head_bound => return Err(Error::HeadTooLarge),
                _ => {}
            }
            match bytes.get(at + 1) {
                Some(b'\n') => {}
                Some(_) => return Err(Error::BareCr),
                None => {
                    self.searched = at as u32;
                    return Ok(None);
                }
            }
            self.searched = at as u32 + 2;
            debug_assert!(at > start, "the request line is not empty");
            if bytes[at - 1] == b'\n' {
                return self.found_head(bytes, start..at + 2).map(Some);
            }
            if usize::from(self.lines) > limits.fields() {
                return Err(Error::TooManyFields);
            }
            self.lines += 1;
        }
    }

    /// Whether a byte of the request line was seen. Empty lines before it do not count, so a connection for which this
    /// is false is idle.
    #[must_use]
    pub const fn started(&self) -> bool {
        self.searched > self.skipped as u32
    }

    /// Stops expecting the empty lines that were skipped, and says how many bytes they have: the caller drops that many
    /// from the front of its buffer. So a connection that sent an empty line after its last body needs no buffer while
    /// it is idle.
    ///
    /// ```
    /// use plimsoll_codec::h1::{HeadSearch, Limits};
    ///
    /// let mut search = HeadSearch::default();
    /// assert_eq!(search.search(b"\r\n", &Limits::DEFAULT)?, None);
    /// assert_eq!((search.started(), search.discard_skipped()), (false, 2));
    /// assert_eq!(search.search(b"GET / HTTP/1.0\r\n\r\n", &Limits::DEFAULT)?, Some(0..18));
    /// # Ok::<(), plimsoll_codec::Error>(())
    /// ```
    pub fn discard_skipped(&mut self) -> usize {
        debug_assert!(self.searched >= u32::from(self.skipped));
        let skipped = std::mem::take(&mut self.skipped);
        self.searched -= u32::from(skipped);
        usize::from(skipped)
    }

    /// Bytes that were looked at, each of them once.
    #[must_use]
    pub const fn searched(&self) -> usize {
        self.searched as usize
    }

    /// Whether the first byte of the request line is there.
    fn skip_empty_lines(&mut self, bytes: &[u8]) -> Result<bool, Error> {
        debug_assert!(self.lines == 0, "a head that began has no empty lines before it");
        loop {
            let at = usize::from(self.skipped);
            examined(bytes.len().saturating_sub(at).min(2));
            match bytes.get(at) {
                None => return Ok(false),
                Some(b'\r') if self.empty_lines == LEADING_LINES_MAX => return Err(Error::LeadingLines),
                Some(b'\r') => match bytes.get(at + 1) {
                    None => return Ok(false),
                    Some(b'\n') => {
                        self.empty_lines += 1;
                        self.skipped += 2;
                        self.searched = u32::from(self.skipped);
                    }
                    Some(_) => return Err(Error::BareCr),
                },
                Some(b'\n') => return Err(Error::BareLf),
                Some(0) => return Err(Error::NulByte),
                Some(&first) if !is_token_byte(first) => return Err(Error::MethodInvalid),
                Some(_) => return Ok(true),
            }
        }
    }

    #[cold]
    fn over_limit(&self) -> Error {
        match self.lines {
            0 => Error::RequestLineTooLong,
            _ => Error::HeadTooLarge,
        }
    }

    fn found_head(&self, bytes: &[u8], head: Range<usize>) -> Result<Range<usize>, Error> {
        debug_assert!(bytes[head.clone()].ends_with(b"\r\n\r\n"));
        let preface = &HTTP2_PREFACE[..HTTP2_PREFACE_HEAD_BYTES];
        if self.empty_lines == 0 && head.len() == preface.len() && bytes[head.clone()] == *preface {
            return Err(Error::Http2Preface);
        }
        Ok(head)
    }
}

/// Most empty lines that are skipped before a request line.
pub const LEADING_LINES_MAX: u8 = 2;

/// The bytes an HTTP/2 client begins with (RFC 9113 3.4).
pub const HTTP2_PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What looks like a head of the preface.
const HTTP2_PREFACE_HEAD_BYTES: usize = 18;

const _: () = assert!(size_of::<HeadSearch>() == 8);
