//! A request head: from the bytes that [`HeadSearch`](super::HeadSearch) found to offsets and a judgement.

use std::mem::MaybeUninit;

use http::{Method, Version};

use super::framing::FramingFields;
use super::syntax::{find, is_token, is_token_byte};
use super::{FIELDS_CEILING, FieldSlot, Limits, Span, TargetForm, target};
use crate::Error;

/// How the body of a request is delimited (RFC 9112 6.3).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// No body.
    None,
    /// Exactly so many bytes; can be 0.
    Length(u64),
    /// Chunks.
    Chunked,
}

impl Framing {
    /// Whether anything follows the head: no for `Content-Length: 0`, which some clients send with every request.
    /// Chunks do, even if none has data.
    #[must_use]
    pub const fn has_body(self) -> bool {
        !matches!(self, Framing::None | Framing::Length(0))
    }
}

/// What a request head says, as offsets into the head. Holds no reference, so that the head can move.
///
/// Pair it with the head's bytes and its slots in a [`RequestView`](super::RequestView) to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestHead {
    /// The method; case matters, so `get` is an extension method.
    pub method: Method,
    /// The target as it was sent; visible ASCII, not empty.
    pub target: Span,
    /// Which of the four forms the target has.
    pub form: TargetForm,
    /// The path of the target. Empty for [`TargetForm::Authority`], and for an absolute target without a path.
    pub path: Span,
    /// What follows the first `?` of the target, if there is one.
    pub query: Option<Span>,
    /// [`Version::HTTP_10`] or [`Version::HTTP_11`].
    pub version: Version,
    /// Host and port that the request is for. The authority of the target if it has one: then the Host field, which
    /// must be there and valid all the same, is not used, even if it differs (RFC 9112 3.2.2). `None` only in HTTP/1.0.
    pub host: Option<Span>,
    /// Number of field lines, and of slots that are filled.
    pub fields: u16,
    /// Where the message ends.
    pub framing: Framing,
    /// Whether the client wants the connection to persist after this request (RFC 9112 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 (Continue)` before it sends the body (RFC 9110 10.1.1). False without a body.
    pub expect_continue: bool,
    /// The first Upgrade field, if Connection names it too and the version is 1.1 (RFC 9110 7.8).
    pub upgrade: Option<Span>,
}

/// Parses a head, all of it: from the first byte of the request line to the end of the empty line, as
/// [`HeadSearch::search`](super::HeadSearch::search) found it. Fills one slot for each field line, in order.
///
/// It is safe to call with bytes that were not searched: line ends are checked here too.
///
/// # Errors
///
/// Those of [`Fault::Peer`](crate::Fault::Peer) that concern a head, see [`Error`]. [`Error::TooManyFields`] also if
/// `slots` is too short.
///
/// ```
/// use plimsoll_codec::h1::{self, FieldSlot, Framing, Limits};
///
/// let head = b"POST /upload?part=2 HTTP/1.1\r\nHost: example.org\r\nContent-Length: 10\r\n\r\n";
/// let mut slots = [FieldSlot::EMPTY; 16];
/// let request = h1::parse_head(head, &mut slots, &Limits::DEFAULT)?;
/// assert_eq!(request.method, http::Method::POST);
/// assert_eq!(request.path.of_head(head), b"/upload");
/// assert_eq!(request.framing, Framing::Length(10));
/// assert_eq!(request.fields, 2);
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
pub fn parse_head(head: &[u8], slots: &mut [FieldSlot], limits: &Limits) -> Result<RequestHead, Error> {
    if head.len() > limits.head_bytes() {
        return Err(Error::HeadTooLarge);
    }
    if !head.first().is_some_and(|&first| is_token_byte(first)) {
        return Err(diagnose(head, httparse::Error::Token));
    }
    let mut headers = [const { MaybeUninit::uninit() }; FIELDS_CEILING];
    let fields_max = limits.fields().min(slots.len());
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(head, &mut headers[..fields_max]) {
        Ok(httparse::Status::Complete(len)) if len == head.len() && head.ends_with(b"\r\n\r\n") => {}
        Ok(_) => return Err(diagnose(head, httparse::Error::NewLine)),
        Err(error) => return Err(diagnose(head, error)),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Error::RequestLineInvalid);
    };
    let version = if version == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    let line = RequestLine { method: method.as_bytes(), target: target.as_bytes(), version };
    judge(head, &line, request.headers, slots, limits)
}

/// Parses the head that `bytes` begin with, and says how long it is: [`parse_head`] without a search before it, for a
/// head that is there as a whole, which nearly all are.
///
/// `None` if it is not, or is not allowed, or has more fields than there are slots or than [`WHOLE_HEAD_FIELDS_MAX`].
/// [`HeadSearch`](super::HeadSearch) and [`parse_head`] tell which; whatever this takes they take in the same way.
///
/// ```
/// use plimsoll_codec::h1::{self, FieldSlot, Limits};
///
/// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
/// let mut slots = [FieldSlot::EMPTY; 16];
/// let (len, request) = h1::parse_whole_head(bytes, &mut slots, &Limits::DEFAULT).expect("all of it is there");
/// assert_eq!((len, request.fields), (27, 1));
/// assert!(h1::parse_whole_head(&bytes[27..], &mut slots, &Limits::DEFAULT).is_none());
/// ```
pub fn parse_whole_head(bytes: &[u8], slots: &mut [FieldSlot], limits: &Limits) -> Option<(usize, RequestHead)> {
    let window = &bytes[..bytes.len().min(limits.head_bytes())];
    if !window.first().is_some_and(|&first| is_token_byte(first)) {
        return None;
    }
    let (line, fields) = RequestLine::split(window)?;
    let mut headers = [httparse::EMPTY_HEADER; WHOLE_HEAD_FIELDS_MAX];
    let fields_max = limits.fields().min(slots.len()).min(headers.len());
    let httparse::Status::Complete((len, headers)) =
        httparse::parse_headers(fields, &mut headers[..fields_max]).ok()?
    else {
        return None;
    };
    let head = &window[..window.len() - fields.len() + len];
    if !head.ends_with(b"\r\n\r\n") {
        return None;
    }
    let parsed = judge(head, &line, headers, slots, limits).ok()?;
    Some((head.len(), parsed))
}

/// The parts of a request line, which begins the head.
struct RequestLine<'a> {
    method: &'a [u8],
    /// Not empty.
    target: &'a [u8],
    version: Version,
}

impl<'a> RequestLine<'a> {
    /// Takes the request line off a head, if it has the three parts that it must have and is there as a whole. Which
    /// bytes are in the method and the target is not looked at: [`judge`] does that.
    fn split(head: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (method, rest) = split_at_space(head)?;
        let (target, rest) = split_at_space(rest)?;
        let (end, rest) = rest.split_first_chunk()?;
        let version = match end {
            b"HTTP/1.1\r\n" => Version::HTTP_11,
            b"HTTP/1.0\r\n" => Version::HTTP_10,
            _ => return None,
        };
        (!target.is_empty()).then_some((Self { method, target, version }, rest))
    }
}

/// What is before the first space, and what is behind it.
fn split_at_space(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = find(b' ', bytes)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// What a head says that the tokeniser took, or which rule it breaks.
#[inline]
fn judge(
    head: &[u8],
    &RequestLine { method, target, version }: &RequestLine<'_>,
    headers: &[httparse::Header<'_>],
    slots: &mut [FieldSlot],
    limits: &Limits,
) -> Result<RequestHead, Error> {
    debug_assert!(method.as_ptr() == head.as_ptr(), "the head begins with the method");
    if method.len() > METHOD_BYTES_MAX {
        return Err(Error::MethodTooLong);
    }
    let mut framing = FramingFields::default();
    for (header, slot) in headers.iter().zip(slots.iter_mut()) {
        let name = Span::of(head, header.name.as_bytes());
        let value = Span::of(head, header.value);
        // The tokeniser takes LF alone as the end of a line; we do not.
        if !head[..usize::from(name.at)].ends_with(b"\r\n") {
            return Err(Error::BareLf);
        }
        *slot = FieldSlot { name_at: name.at, name_len: name.len, value_at: value.at, value_len: value.len };
        framing.field(header.name.as_bytes(), header.value, value)?;
    }
    let target_span = Span::of(head, target);
    if target_span.range().end + " HTTP/1.1".len() > limits.request_line_bytes() {
        return Err(Error::RequestLineTooLong);
    }
    let is_bodiless = matches!(method, b"CONNECT" | b"TRACE");
    let method = Method::from_bytes(method).map_err(|_| Error::MethodInvalid)?;
    let target = target::parse(&method, target, usize::from(target_span.at))?;
    let verdict = framing.finish(version)?;
    if is_bodiless && verdict.framing.has_body() {
        return Err(Error::RequestBodyNotAllowed);
    }
    Ok(RequestHead {
        method,
        target: target_span,
        form: target.form,
        path: target.path,
        query: target.query,
        version,
        host: target.authority.or(verdict.host),
        fields: headers.len() as u16,
        framing: verdict.framing,
        keep_alive: verdict.keep_alive,
        expect_continue: verdict.expect_continue,
        upgrade: verdict.upgrade,
    })
}

/// Says which rule a head that the tokeniser refused has broken.
#[cold]
fn diagnose(head: &[u8], error: httparse::Error) -> Error {
    let mut lines = head.split_inclusive(|&byte| byte == b'\n').map(|line| match line {
        [line @ .., b'\r', b'\n'] => Ok(line),
        [.., b'\n'] => Err(Error::BareLf),
        _ => Err(Error::BareCr),
    });
    let fault = lines
        .by_ref()
        .enumerate()
        .map(|(at, line)| line.and_then(|line| if at == 0 { request_line(line) } else { field_line(line) }))
        .find_map(Result::err);
    fault.unwrap_or(match error {
        httparse::Error::TooManyHeaders => Error::TooManyFields,
        // Each line was read by our own rules, which are at least as strict.
        _ => Error::RequestLineInvalid,
    })
}

/// RFC 9112 3: one space between the three parts, each of them as it must be.
fn request_line(line: &[u8]) -> Result<(), Error> {
    let mut parts = line.splitn(3, |&byte| byte == b' ');
    let (method, target, version) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    check_bytes(line)?;
    if !is_token(method) {
        return Err(Error::MethodInvalid);
    }
    let (Some(target), Some(version)) = (target, version) else {
        return Err(Error::RequestLineInvalid);
    };
    if target.is_empty() || version.is_empty() {
        return Err(Error::RequestLineInvalid);
    }
    if !target.iter().all(u8::is_ascii_graphic) {
        return Err(Error::TargetInvalid);
    }
    match version {
        b"HTTP/1.1" | b"HTTP/1.0" => Ok(()),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] if major.is_ascii_digit() && minor.is_ascii_digit() => {
            Err(Error::VersionUnsupported)
        }
        _ => Err(Error::VersionInvalid),
    }
}

/// RFC 9112 5: `name ":" value`; 5.1: nothing before the colon; 5.2: no folding.
pub(super) fn field_line(line: &[u8]) -> Result<(), Error> {
    if line.is_empty() {
        return Ok(());
    }
    check_bytes(line)?;
    if let [b' ' | b'\t', ..] = line {
        return Err(Error::LeadingSpace);
    }
    let Some(colon) = line.iter().position(|&byte| byte == b':') else {
        return Err(Error::FieldNameInvalid);
    };
    match &line[..colon] {
        [name @ .., b' ' | b'\t'] if is_token(super::syntax::trim(name)) => Err(Error::SpaceBeforeColon),
        name if !is_token(name) => Err(Error::FieldNameInvalid),
        _ if !super::syntax::is_field_value(&line[colon + 1..]) => Err(Error::FieldValueInvalid),
        _ => Ok(()),
    }
}

/// Control bytes that would change how lines are read come before any other complaint.
fn check_bytes(line: &[u8]) -> Result<(), Error> {
    match line.iter().find(|&&byte| byte == b'\r' || byte == 0) {
        Some(b'\r') => Err(Error::BareCr),
        Some(_) => Err(Error::NulByte),
        None => Ok(()),
    }
}

/// Field lines that [`parse_whole_head`] takes at most: nearly no head has more.
pub const WHOLE_HEAD_FIELDS_MAX: usize = 32;

/// Longest method that is looked at. The longest registered one has 17 bytes; [`Method`] boxes those of 16 and more
/// that it does not know, so this bounds what a peer can make it allocate.
pub const METHOD_BYTES_MAX: usize = 32;

const _: () = assert!(size_of::<RequestHead>() <= 80);
