//! Where a request body ends, and which of the received bytes are its data (RFC 9112 6 and 7).

use std::ops::Range;

use super::examined::examined;
use super::head::field_line;
use super::syntax::{is_token_byte, trim};
use super::{BODY_BYTES_CEILING, Framing, Limits};
use crate::Error;

/// What a call of [`BodyDecoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes at the start of the input that are done with; the ranges of `event` lie within them. The next call begins
    /// after them.
    pub consumed: usize,
    /// What the bytes mean.
    pub event: BodyEvent,
}

/// A part of a body. Ranges are relative to the input of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEvent {
    /// Data of the body; never empty.
    Data(Range<usize>),
    /// The trailer section: all its field lines, each with its CRLF, checked, without the empty line. Read it with
    /// [`trailers`]. Comes at most once, directly before `End`.
    Trailers(Range<usize>),
    /// The body is complete; every later call says so again and consumes nothing.
    End,
    /// The input is used up. Bytes that are not consumed must be presented again, in front of what comes next.
    NeedMore,
}

/// Decodes one request body, delimited by length or in chunks. Can go on after any byte.
///
/// Everything but trailers is consumed as it comes. A trailer section is left unconsumed until it is complete, and
/// never grows over [`Limits::trailer_bytes`]. Chunk extensions are checked and dropped.
///
/// ```
/// use plimsoll_codec::h1::{BodyDecoder, BodyEvent, Framing, Limits};
///
/// let mut body = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
/// let mut input: &[u8] = b"4\r\nhull\r\n2;x=y\r\ns!\r\n0\r\nsum: 7\r\n\r\nGET /";
/// let mut data = Vec::new();
/// loop {
///     let decoded = body.decode(input)?;
///     match decoded.event {
///         BodyEvent::Data(range) => data.extend_from_slice(&input[range]),
///         BodyEvent::Trailers(range) => assert_eq!(&input[range], b"sum: 7\r\n"),
///         BodyEvent::End => break,
///         BodyEvent::NeedMore => panic!("receive more here"),
///     }
///     input = &input[decoded.consumed..];
/// }
/// assert_eq!((data.as_slice(), input), (&b"hulls!"[..], &b"GET /"[..]));
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyDecoder {
    state: State,
    /// Bytes of chunk framing that may still come; data adds to it.
    allowance: u64,
    /// Bytes of chunk extensions that may still come.
    extension_left: u32,
    ratio: u16,
    trailer_bytes_max: u16,
    fields_max: u16,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Bytes still to come of a body with a length.
    Length(u64),
    /// Within a chunk size.
    Size {
        value: u64,
        digits: u8,
    },
    /// Within the extensions of a chunk.
    Extension {
        size: u64,
        at: Extension,
    },
    /// After the CR of a size line.
    SizeLf {
        size: u64,
    },
    /// Bytes still to come of a chunk; not 0.
    Data(u64),
    /// Before the CR that follows the data of a chunk.
    DataCr,
    /// Before the LF of that CRLF.
    DataLf,
    /// After the last chunk: bytes that were searched for the end of the section, and lines that are complete.
    Trailers {
        searched: u16,
        lines: u16,
    },
    Done,
    Failed(Error),
}

/// Where in `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )` the decoder stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Extension {
    /// White space before a semicolon.
    BeforeSemicolon,
    BeforeName,
    Name,
    /// White space after a name: `=` or `;` follows.
    AfterName,
    BeforeValue,
    Token,
    Quoted,
    QuotedPair,
    AfterQuoted,
}

impl BodyDecoder {
    /// Begins a body.
    #[must_use]
    pub const fn new(framing: Framing, limits: &Limits) -> BodyDecoder {
        BodyDecoder {
            state: match framing {
                Framing::None | Framing::Length(0) => State::Done,
                Framing::Length(length) => State::Length(length),
                Framing::Chunked => State::Size { value: 0, digits: 0 },
            },
            allowance: limits.chunk_overhead_free_bytes() as u64,
            extension_left: limits.chunk_extension_bytes(),
            ratio: limits.chunk_overhead_ratio() as u16,
            trailer_bytes_max: limits.trailer_bytes() as u16,
            fields_max: limits.fields() as u16,
        }
    }

    /// Finds the next part of the body in `input`: the bytes that earlier calls did not consume, plus what came since.
    ///
    /// # Errors
    ///
    /// Those of [`Fault::Peer`](crate::Fault::Peer) that concern chunks and trailers, see [`Error`]. The decoder gives
    /// the same error ever after.
    #[inline]
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, Error> {
        match self.state {
            State::Done => Ok(Decoded { consumed: 0, event: BodyEvent::End }),
            State::Length(left) => Ok(self.take(input, 0, left, State::Length, State::Done)),
            State::Failed(error) => Err(error),
            _ => self.decode_chunked(input).inspect_err(|&error| self.state = State::Failed(error)),
        }
    }

    /// Bytes of the body that are still to come, if its length is known.
    #[must_use]
    pub const fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// Bytes of data that will come before any framing: what can be received straight into a buffer of the body's own.
    /// Report them with [`BodyDecoder::advance`].
    #[must_use]
    pub const fn contiguous(&self) -> u64 {
        match self.state {
            State::Length(left) | State::Data(left) => left,
            _ => 0,
        }
    }

    /// Takes note of `bytes` bytes of data that were received without passing through `decode`.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] if they are more than [`BodyDecoder::contiguous`].
    pub fn advance(&mut self, bytes: u64) -> Result<(), Error> {
        if bytes > self.contiguous() {
            return Err(Error::StateMisuse);
        }
        self.state = match self.state {
            State::Length(left) if left == bytes => State::Done,
            State::Length(left) => State::Length(left - bytes),
            State::Data(left) => {
                self.allow(bytes);
                if left == bytes { State::DataCr } else { State::Data(left - bytes) }
            }
            other => other,
        };
        Ok(())
    }

    /// Whether the body is complete.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Says that the peer will send nothing more.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if the body is not complete.
    pub const fn finish(&self) -> Result<(), Error> {
        match self.state {
            State::Done => Ok(()),
            State::Failed(error) => Err(error),
            _ => Err(Error::Truncated),
        }
    }

    /// Takes note that the peer will send nothing more: a body that is not complete is [`Error::Truncated`] from now
    /// on.
    ///
    /// ```
    /// use plimsoll_codec::Error;
    /// use plimsoll_codec::h1::{BodyDecoder, Framing, Limits};
    ///
    /// let mut body = BodyDecoder::new(Framing::Length(3), &Limits::DEFAULT);
    /// assert_eq!(body.failure(), None);
    /// body.peer_closed();
    /// assert_eq!(body.failure(), Some(Error::Truncated));
    /// ```
    pub const fn peer_closed(&mut self) {
        if !matches!(self.state, State::Done | State::Failed(_)) {
            self.state = State::Failed(Error::Truncated);
        }
    }

    /// The error that the decoder gives ever after, if it has given one.
    #[must_use]
    pub const fn failure(&self) -> Option<Error> {
        match self.state {
            State::Failed(error) => Some(error),
            _ => None,
        }
    }

    fn decode_chunked(&mut self, input: &[u8]) -> Result<Decoded, Error> {
        let mut at = 0;
        loop {
            match self.state {
                State::Data(left) if at < input.len() => {
                    return Ok(self.take(input, at, left, State::Data, State::DataCr));
                }
                State::Trailers { searched, lines } => return self.trailers(input, at, searched, lines),
                _ => {}
            }
            let Some(&byte) = input.get(at) else {
                return Ok(Decoded { consumed: at, event: BodyEvent::NeedMore });
            };
            examined(1);
            self.allowance = self.allowance.checked_sub(1).ok_or(Error::ChunkOverhead)?;
            self.state = self.framing_byte(byte)?;
            at += 1;
        }
    }

    /// The state after one byte of a size line, or of the CRLF after data.
    fn framing_byte(&mut self, byte: u8) -> Result<State, Error> {
        match (self.state, byte) {
            (State::Size { value, digits }, _) if byte.is_ascii_hexdigit() => {
                if digits == CHUNK_SIZE_DIGITS_MAX {
                    return Err(Error::ChunkSizeInvalid);
                }
                // Sixteen digits fill 64 bits exactly, so nothing is shifted out.
                debug_assert!(value >> 60 == 0);
                let value = value << 4 | hex_value(byte);
                if value > BODY_BYTES_CEILING {
                    return Err(Error::ChunkSizeInvalid);
                }
                Ok(State::Size { value, digits: digits + 1 })
            }
            (State::Size { digits: 0, .. }, _) => Err(Error::ChunkSizeInvalid),
            (State::Size { value: size, .. }, b'\r') => Ok(State::SizeLf { size }),
            (State::Size { value: size, .. }, b';' | b' ' | b'\t') => {
                self.extension_byte(size, Extension::BeforeSemicolon, byte)
            }
            (State::Size { .. }, b'\n') => Err(Error::BareLf),
            (State::Size { .. }, _) => Err(Error::ChunkSizeInvalid),
            (State::Extension { size, at }, _) => self.extension_byte(size, at, byte),
            (State::SizeLf { size: 0 }, b'\n') => Ok(State::Trailers { searched: 0, lines: 0 }),
            (State::SizeLf { size }, b'\n') => Ok(State::Data(size)),
            (State::SizeLf { .. }, _) => Err(Error::BareCr),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size { value: 0, digits: 0 }),
            (State::DataCr | State::DataLf, _) => Err(Error::ChunkDataUnterminated),
            (State::Length(_) | State::Data(_) | State::Trailers { .. } | State::Done | State::Failed(_), _) => {
                debug_assert!(false, "not a framing byte");
                Err(Error::StateMisuse)
            }
        }
    }

    /// The state after one byte of a chunk extension.
    fn extension_byte(&mut self, size: u64, at: Extension, byte: u8) -> Result<State, Error> {
        use Extension as At;
        let is_space = byte == b' ' || byte == b'\t';
        let next = match (at, byte) {
            (At::Name | At::Token | At::AfterQuoted, b'\r') => return Ok(State::SizeLf { size }),
            (_, b'\n') => return Err(Error::BareLf),
            (At::BeforeSemicolon | At::Name | At::AfterName | At::Token | At::AfterQuoted, b';') => At::BeforeName,
            (At::BeforeSemicolon | At::Token | At::AfterQuoted, _) if is_space => At::BeforeSemicolon,
            (At::BeforeName | At::AfterName | At::BeforeValue, _) if is_space => at,
            (At::Name, _) if is_space => At::AfterName,
            (At::Name | At::AfterName, b'=') => At::BeforeValue,
            (At::BeforeName | At::Name, _) if is_token_byte(byte) => At::Name,
            (At::BeforeValue | At::Token, _) if is_token_byte(byte) => At::Token,
            (At::BeforeValue, b'"') => At::Quoted,
            (At::Quoted, b'"') => At::AfterQuoted,
            (At::Quoted, b'\\') => At::QuotedPair,
            (At::Quoted | At::QuotedPair, _) if super::syntax::is_field_value(&[byte]) => At::Quoted,
            _ => return Err(Error::ChunkExtensionInvalid),
        };
        self.extension_left = self.extension_left.checked_sub(1).ok_or(Error::ChunkExtensionsTooLarge)?;
        Ok(State::Extension { size, at: next })
    }

    /// Hands out data from `at`, at most `left` bytes.
    fn take(&mut self, input: &[u8], at: usize, left: u64, more: fn(u64) -> State, end: State) -> Decoded {
        debug_assert!(left > 0 && at <= input.len());
        let available = input.len() - at;
        let taken = usize::try_from(left).map_or(available, |left| left.min(available));
        if taken == 0 {
            return Decoded { consumed: at, event: BodyEvent::NeedMore };
        }
        self.allow(taken as u64);
        self.state = if taken as u64 == left { end } else { more(left - taken as u64) };
        Decoded { consumed: at + taken, event: BodyEvent::Data(at..at + taken) }
    }

    fn allow(&mut self, data: u64) {
        self.allowance = self.allowance.saturating_add(data.saturating_mul(u64::from(self.ratio)));
    }

    /// Looks for the end of the trailer section that begins at `at`, and checks its lines once it is there.
    fn trailers(&mut self, input: &[u8], at: usize, mut searched: u16, mut lines: u16) -> Result<Decoded, Error> {
        let section = &input[at..];
        debug_assert!(section.len() >= usize::from(searched), "bytes that were not consumed must be presented again");
        let found =
            search_section(section, &mut searched, &mut lines, usize::from(self.trailer_bytes_max), self.fields_max)?;
        let Some(len) = found else {
            self.state = State::Trailers { searched, lines };
            return Ok(Decoded { consumed: at, event: BodyEvent::NeedMore });
        };
        self.state = State::Done;
        let consumed = at + len;
        let fields = at..consumed - 2;
        if fields.is_empty() {
            return Ok(Decoded { consumed, event: BodyEvent::End });
        }
        for (line, name, _) in field_lines(&input[fields.clone()]) {
            field_line(line)?;
            if is_forbidden_trailer(name) {
                return Err(Error::TrailerForbidden);
            }
        }
        Ok(Decoded { consumed, event: BodyEvent::Trailers(fields) })
    }
}

/// The field lines of a trailer section, as [`BodyEvent::Trailers`] delimits it: name and value of each.
///
/// ```
/// use plimsoll_codec::h1::trailers;
///
/// let fields: Vec<_> = trailers(b"Sum: 7\r\nkind:\tweak \r\n").collect();
/// assert_eq!(fields, [("Sum", &b"7"[..]), ("kind", &b"weak"[..])]);
/// ```
pub fn trailers(section: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    field_lines(section).map(|(_, name, value)| (std::str::from_utf8(name).unwrap_or_default(), value))
}

/// Line, name and value of each field line of a section whose line ends were checked.
fn field_lines(section: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
    section.split_inclusive(|&byte| byte == b'\n').map(|line| {
        let line = line.strip_suffix(b"\r\n").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
        (line, &line[..colon], trim(line.get(colon + 1..).unwrap_or_default()))
    })
}

/// The length of a section of lines that ends with an empty line, if it is complete.
fn search_section(
    section: &[u8],
    searched: &mut u16,
    lines: &mut u16,
    bytes_max: usize,
    lines_max: u16,
) -> Result<Option<usize>, Error> {
    let window = &section[..section.len().min(bytes_max)];
    let mut from = usize::from(*searched);
    loop {
        let found = memchr::memchr3(b'\r', b'\n', 0, &window[from..]);
        examined(found.map_or(window.len() - from, |found| found + 1));
        let Some(found) = found else {
            *searched = window.len() as u16;
            return if window.len() == bytes_max { Err(Error::TrailersTooLarge) } else { Ok(None) };
        };
        let at = from + found;
        match section[at] {
            0 => return Err(Error::NulByte),
            b'\n' => return Err(Error::BareLf),
            _ if at + 1 >= bytes_max => return Err(Error::TrailersTooLarge),
            _ => {}
        }
        match section.get(at + 1) {
            Some(b'\n') => {}
            Some(_) => return Err(Error::BareCr),
            None => {
                *searched = at as u16;
                return Ok(None);
            }
        }
        if at == 0 || section[at - 1] == b'\n' {
            return Ok(Some(at + 2));
        }
        if *lines == lines_max {
            return Err(Error::TrailersTooLarge);
        }
        *lines += 1;
        from = at + 2;
        *searched = from as u16;
    }
}

fn hex_value(byte: u8) -> u64 {
    match byte {
        b'0'..=b'9' => u64::from(byte - b'0'),
        _ => u64::from((byte | 0x20) - b'a' + 10),
    }
}

/// Fields that frame, route, authenticate or modify a request, or say how to read its content, must come before the
/// body (RFC 9110 6.5.1).
pub(crate) fn is_forbidden_trailer(name: &[u8]) -> bool {
    FORBIDDEN_TRAILERS.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden.as_bytes()))
}

const FORBIDDEN_TRAILERS: [&str; 30] = [
    "transfer-encoding",
    "content-length",
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "max-forwards",
    "cache-control",
    "pragma",
    "range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "authorization",
    "proxy-authorization",
    "proxy-authenticate",
    "www-authenticate",
    "cookie",
    "set-cookie",
    "content-encoding",
    "content-type",
    "content-range",
    "forwarded",
    "x-forwarded-for",
];

/// Sixteen hexadecimal digits are 64 bits.
const CHUNK_SIZE_DIGITS_MAX: u8 = 16;

const _: () = assert!(size_of::<BodyDecoder>() <= 48);
