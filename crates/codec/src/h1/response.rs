//! Response heads: which framing a response has, and its encoding.

use http::{Method, StatusCode, Version};

use super::status::status_line;
use super::{Fields, Full, Sink};
use crate::Error;
use crate::date::DATE_BYTES;

/// Whether the connection is used again after an exchange.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Persistence {
    /// Another request may follow.
    KeepAlive,
    /// The connection is closed after the response.
    Close,
}

/// What the program knows of the body it wants to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyLength {
    /// No body.
    Empty,
    /// Exactly so many bytes; can be 0. For an answer to HEAD, and for 304, the length that GET would have had.
    Known(u64),
    /// A body whose end is not known yet.
    Unknown,
}

/// How the body of a response goes over the wire after the head.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyOut {
    /// Nothing follows the head.
    None,
    /// Exactly so many bytes, at least one.
    Length(u64),
    /// Chunks, see [`chunk_header`](super::chunk_header).
    Chunked,
    /// Bytes until the connection is closed, for HTTP/1.0.
    UntilClose,
}

/// A response head, judged against the request it answers, ready to be encoded into exactly
/// [`encoded_len`](ResponseHead::encoded_len) bytes.
///
/// ```
/// use http::{Method, StatusCode, Version};
/// use plimsoll_codec::h1::{BodyLength, BodyOut, ResponseHead};
///
/// let head = ResponseHead::new(&Method::GET, Version::HTTP_11, StatusCode::OK, BodyLength::Known(3))?;
/// assert_eq!(head.body(), BodyOut::Length(3));
/// let mut out = [0; 64];
/// let len = head.encoded_len();
/// head.encode(&mut &mut out[..len])?;
/// assert_eq!(&out[..len], b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct ResponseHead<'a> {
    status: StatusCode,
    length: LengthField,
    body: BodyOut,
    connection: ConnectionField,
    is_10: bool,
    date: Option<&'a [u8; DATE_BYTES]>,
    fields: Fields<'a>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum LengthField {
    Nothing,
    ContentLength(u64),
    Chunked,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ConnectionField {
    /// HTTP/1.1 persists unless told otherwise.
    Nothing,
    KeepAlive,
    Close,
    Upgrade,
    CloseAndUpgrade,
    /// A tunnel begins: nothing is said about a connection that is not HTTP's any more.
    Tunnel,
}

impl<'a> ResponseHead<'a> {
    /// Decides the framing of a response to a request of this method and version (RFC 9110 6.4.1 and 8.6, RFC 9112 6).
    ///
    /// | response | fields | body |
    /// |---|---|---|
    /// | 1xx, 204, 2xx to CONNECT | neither Content-Length nor Transfer-Encoding | none |
    /// | 205 | `Content-Length: 0` | none |
    /// | 304 | Content-Length if it is known | none |
    /// | to HEAD | as for GET, but no Transfer-Encoding | none |
    /// | length known | Content-Length | so many bytes |
    /// | length unknown, HTTP/1.1 | `Transfer-Encoding: chunked` | chunks |
    /// | length unknown, HTTP/1.0 | `Connection: close` | until close |
    ///
    /// # Errors
    ///
    /// [`Error::BodyNotAllowed`] if there is a body, known not to be empty or unknown, for 1xx, 204, 205 or a 2xx
    /// answer to CONNECT.
    pub fn new(method: &Method, version: Version, status: StatusCode, length: BodyLength) -> Result<Self, Error> {
        let is_10 = version < Version::HTTP_11;
        let is_tunnel = *method == Method::CONNECT && status.is_success();
        let bodiless = status.is_informational() || status == StatusCode::NO_CONTENT || is_tunnel;
        let is_empty = matches!(length, BodyLength::Empty | BodyLength::Known(0));
        if (bodiless || status == StatusCode::RESET_CONTENT) && !is_empty {
            return Err(Error::BodyNotAllowed);
        }
        let no_content = bodiless || status == StatusCode::NOT_MODIFIED || *method == Method::HEAD;
        let length_field = match length {
            _ if bodiless => LengthField::Nothing,
            BodyLength::Empty if status == StatusCode::NOT_MODIFIED => LengthField::Nothing,
            BodyLength::Unknown if no_content || is_10 => LengthField::Nothing,
            BodyLength::Empty => LengthField::ContentLength(0),
            BodyLength::Known(bytes) => LengthField::ContentLength(bytes),
            BodyLength::Unknown => LengthField::Chunked,
        };
        let body = match (no_content, length) {
            (true, _) | (false, BodyLength::Empty | BodyLength::Known(0)) => BodyOut::None,
            (false, BodyLength::Known(bytes)) => BodyOut::Length(bytes),
            (false, BodyLength::Unknown) if is_10 => BodyOut::UntilClose,
            (false, BodyLength::Unknown) => BodyOut::Chunked,
        };
        debug_assert!(!bodiless || body == BodyOut::None);
        let head = ResponseHead {
            status,
            length: length_field,
            body,
            connection: if is_tunnel { ConnectionField::Tunnel } else { ConnectionField::Nothing },
            is_10,
            date: None,
            fields: Fields::NONE,
        };
        Ok(head.persistence(Persistence::KeepAlive))
    }

    /// The head of an interim response (RFC 9110 15.2), such as `103 Early Hints` (RFC 8297): it goes before the final
    /// head, says nothing about length or connection, and needs no Date. A client of HTTP/1.0 must not get one.
    ///
    /// ```
    /// use http::StatusCode;
    /// use plimsoll_codec::h1::{Fields, ResponseHead};
    ///
    /// let fields = Fields::check(b"link: </mast.css>; rel=preload\r\n")?;
    /// let mut out = Vec::new();
    /// ResponseHead::interim(StatusCode::EARLY_HINTS)?.fields(fields).encode(&mut out)?;
    /// assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nlink: </mast.css>; rel=preload\r\n\r\n");
    /// assert!(ResponseHead::interim(StatusCode::SWITCHING_PROTOCOLS).is_err());
    /// # Ok::<(), plimsoll_codec::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InterimStatusInvalid`] unless the status is 1xx and not 101, which is not followed by another head.
    pub fn interim(status: StatusCode) -> Result<Self, Error> {
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::InterimStatusInvalid);
        }
        Self::new(&Method::GET, Version::HTTP_11, status, BodyLength::Empty)
    }

    /// Says whether the connection persists; it does unless this is called. `Connection: close` is written for a body
    /// that ends with the connection whatever was asked for, and nothing for 1xx and for 2xx to CONNECT.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.connection = match persistence {
            _ if self.connection == ConnectionField::Tunnel => ConnectionField::Tunnel,
            _ if self.status == StatusCode::SWITCHING_PROTOCOLS => ConnectionField::Upgrade,
            _ if self.status.is_informational() => ConnectionField::Nothing,
            _ if self.body == BodyOut::UntilClose => ConnectionField::Close,
            // It must name a protocol in Upgrade, which Connection must name (RFC 9110 15.5.22, 7.8).
            Persistence::Close if self.status == StatusCode::UPGRADE_REQUIRED => ConnectionField::CloseAndUpgrade,
            Persistence::KeepAlive if self.status == StatusCode::UPGRADE_REQUIRED && !self.is_10 => {
                ConnectionField::Upgrade
            }
            Persistence::Close => ConnectionField::Close,
            Persistence::KeepAlive if self.is_10 => ConnectionField::KeepAlive,
            Persistence::KeepAlive => ConnectionField::Nothing,
        };
        self
    }

    /// Sets the Date field, see [`date::format`](crate::date::format). Required with a clock for 2xx, 3xx and 4xx (RFC
    /// 9110 6.6.1), unless the fields have one already.
    #[must_use]
    pub const fn date(mut self, date: &'a [u8; DATE_BYTES]) -> Self {
        self.date = Some(date);
        self
    }

    /// Sets the program's own fields.
    #[must_use]
    pub const fn fields(mut self, fields: Fields<'a>) -> Self {
        self.fields = fields;
        self
    }

    /// The status code.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// What has to follow the head.
    #[must_use]
    pub const fn body(&self) -> BodyOut {
        self.body
    }

    /// Whether the head tells the client that the connection is closed afterwards.
    #[must_use]
    pub const fn closes(&self) -> bool {
        matches!(self.connection, ConnectionField::Close | ConnectionField::CloseAndUpgrade)
    }

    /// The Date field.
    pub(crate) const fn date_value(&self) -> Option<&'a [u8; DATE_BYTES]> {
        self.date
    }

    /// The value of Content-Length, where there is such a field.
    pub(crate) const fn content_length(&self) -> Option<u64> {
        match self.length {
            LengthField::ContentLength(bytes) => Some(bytes),
            LengthField::Nothing | LengthField::Chunked => None,
        }
    }

    /// The program's own fields.
    pub(crate) const fn own_fields(&self) -> Fields<'a> {
        self.fields
    }

    /// Exactly as many bytes as [`encode`](ResponseHead::encode) will write.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        let mut counted = Counted(0);
        let counting = self.encode(&mut counted);
        debug_assert!(counting.is_ok(), "counting cannot fail");
        counted.0
    }

    /// Appends the head with its empty line.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`] if the sink has less room than [`encoded_len`](ResponseHead::encoded_len).
    pub fn encode<S: Sink + ?Sized>(&self, sink: &mut S) -> Result<(), Error> {
        // What is short is gathered first: a put is dearer than a copy of some bytes.
        let mut lines = [0; OWN_LINES_BYTES_MAX + GATHERED_FIELDS_BYTES_MAX + 2];
        let bytes = lines.len();
        let mut room = &mut lines[..];
        self.own_lines(&mut room)?;
        let fields = self.fields.as_bytes();
        let is_short = fields.len() <= GATHERED_FIELDS_BYTES_MAX;
        if is_short {
            room.put(fields)?;
            room.put(b"\r\n")?;
        }
        let len = bytes - room.len();
        sink.put(&lines[..len])?;
        if !is_short {
            sink.put(fields)?;
            sink.put(b"\r\n")?;
        }
        Ok(())
    }

    /// The status line, and the fields that are not the program's.
    // In each answer, and called once.
    #[inline(always)]
    fn own_lines(&self, sink: &mut &mut [u8]) -> Result<(), Full> {
        status_line(self.status, sink)?;
        if let Some(date) = self.date {
            sink.put(b"Date: ")?;
            sink.put(date)?;
            sink.put(b"\r\n")?;
        }
        match self.length {
            LengthField::Nothing => {}
            LengthField::ContentLength(bytes) => {
                let (digits, from) = decimal(bytes);
                sink.put(b"Content-Length: ")?;
                sink.put(&digits[from..])?;
                sink.put(b"\r\n")?;
            }
            LengthField::Chunked => sink.put(b"Transfer-Encoding: chunked\r\n")?,
        }
        match self.connection {
            ConnectionField::Nothing | ConnectionField::Tunnel => Ok(()),
            ConnectionField::KeepAlive => sink.put(b"Connection: keep-alive\r\n"),
            ConnectionField::Close => sink.put(b"Connection: close\r\n"),
            ConnectionField::Upgrade => sink.put(b"Connection: upgrade\r\n"),
            ConnectionField::CloseAndUpgrade => sink.put(b"Connection: close, upgrade\r\n"),
        }
    }
}

/// The longest of what the codec writes itself: a status line (none has a reason of more than 31 bytes), `Date`,
/// `Content-Length` of 20 digits, `Connection: close, upgrade`.
const OWN_LINES_BYTES_MAX: usize = 13 + 31 + 2 + (8 + DATE_BYTES) + (18 + 20) + 28;

/// Fields that are put together with that.
const GATHERED_FIELDS_BYTES_MAX: usize = 96;

/// Counts what it is given.
struct Counted(usize);

impl Sink for Counted {
    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// The digits of a number at the end of the array, and where they begin.
#[inline]
pub(crate) fn decimal(number: u64) -> ([u8; 20], usize) {
    let mut digits = [b'0'; 20];
    let from = fill(&mut digits, number);
    (digits, from)
}

/// Writes the digits of a number at the end of zeros; where they begin.
// Inlined, the array becomes twenty variables.
#[inline(never)]
fn fill(zeros: &mut [u8; 20], mut number: u64) -> usize {
    let mut from = zeros.len();
    loop {
        from -= 1;
        zeros[from] += (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return from;
        }
    }
}
