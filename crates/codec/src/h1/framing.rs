//! The fields that decide where a message ends, whether the connection lives on, and what the client waits for.
//!
//! Every rule here refuses instead of repairing: two readers that repair differently are how requests are smuggled.

use http::Version;

use super::syntax::{is_token, trim};
use super::{BODY_BYTES_CEILING, Framing, Span};
use crate::Error;

/// What the fields of a head said, gathered line by line, judged by [`FramingFields::finish`].
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct FramingFields {
    host: Option<Span>,
    content_length: Option<u64>,
    codings: Codings,
    wish: Wish,
    upgrade_named: Mention,
    upgrade: Option<Span>,
    expect: Expect,
}

/// The judgement.
#[derive(Copy, Clone, Debug)]
pub(super) struct Verdict {
    pub(super) host: Option<Span>,
    pub(super) framing: Framing,
    pub(super) keep_alive: bool,
    pub(super) expect_continue: bool,
    pub(super) upgrade: Option<Span>,
}

/// Transfer codings seen so far, in order.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Codings {
    #[default]
    None,
    /// Registered codings, not followed by `chunked` yet.
    Known,
    /// `chunked` and nothing else.
    Chunked,
    /// Registered codings, then `chunked`.
    KnownThenChunked,
}

/// What Connection asks for; `close` wins over `keep-alive`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    Nothing,
    KeepAlive,
    Close,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Mention {
    #[default]
    No,
    Yes,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Nothing,
    Continue,
    Other,
}

impl FramingFields {
    /// Takes note of one field line. Lines of no interest cost one comparison of a length.
    #[inline]
    pub(super) fn field(&mut self, name: &[u8], value: &[u8], at: Span) -> Result<(), Error> {
        debug_assert!(!name.is_empty() && usize::from(at.len) == value.len());
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.host(value, at),
            6 if name.eq_ignore_ascii_case(b"expect") => self.expect(value),
            7 if name.eq_ignore_ascii_case(b"upgrade") => {
                if self.upgrade.is_none() && !value.is_empty() {
                    self.upgrade = Some(at);
                }
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => self.connection(value),
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            _ => Ok(()),
        }
    }

    /// Judges all of them together.
    pub(super) fn finish(self, version: Version) -> Result<Verdict, Error> {
        debug_assert!(version == Version::HTTP_11 || version == Version::HTTP_10);
        let is_11 = version == Version::HTTP_11;
        let framing = match (self.content_length, self.codings) {
            (None, Codings::None) => Framing::None,
            (Some(length), Codings::None) => Framing::Length(length),
            // RFC 9112 6.1: a server may refuse a message with both; RFC 9112 11.2 says why it should.
            (Some(_), _) => return Err(Error::ConflictingFraming),
            // RFC 9112 6.1: the framing of such a message is faulty.
            (None, _) if !is_11 => return Err(Error::TransferEncodingInHttp10),
            (None, Codings::Chunked) => Framing::Chunked,
            // RFC 9112 6.1: 501 for a coding that is not understood; 6.3: 400 when the end cannot be told.
            (None, Codings::KnownThenChunked) => return Err(Error::TransferCodingUnsupported),
            (None, Codings::Known) => return Err(Error::TransferEncodingInvalid),
        };
        // RFC 9112 3.2.
        if is_11 && self.host.is_none() {
            return Err(Error::HostMissing);
        }
        // Expect means nothing in HTTP/1.0, and neither does Upgrade.
        if is_11 && self.expect == Expect::Other {
            return Err(Error::ExpectationUnknown);
        }
        Ok(Verdict {
            host: self.host,
            framing,
            keep_alive: match self.wish {
                Wish::Close => false,
                Wish::KeepAlive => true,
                Wish::Nothing => is_11,
            },
            expect_continue: is_11 && framing.has_body() && self.expect == Expect::Continue,
            upgrade: if is_11 && self.upgrade_named == Mention::Yes { self.upgrade } else { None },
        })
    }

    /// RFC 9112 3.2: one valid Host; also in HTTP/1.0, where it may be missing.
    fn host(&mut self, value: &[u8], at: Span) -> Result<(), Error> {
        if self.host.is_some() {
            return Err(Error::HostRepeated);
        }
        if super::target::host_and_port(value).is_none() {
            return Err(Error::HostInvalid);
        }
        self.host = Some(at);
        Ok(())
    }

    /// RFC 9110 10.1.1.
    fn expect(&mut self, value: &[u8]) -> Result<(), Error> {
        for member in members(value) {
            self.expect = match self.expect {
                Expect::Nothing | Expect::Continue if member.eq_ignore_ascii_case(b"100-continue") => Expect::Continue,
                _ => Expect::Other,
            };
        }
        Ok(())
    }

    /// RFC 9110 7.6.1, RFC 9112 9.3.
    fn connection(&mut self, value: &[u8]) -> Result<(), Error> {
        for member in members(value) {
            if member.eq_ignore_ascii_case(b"close") {
                self.wish = Wish::Close;
            } else if member.eq_ignore_ascii_case(b"keep-alive") {
                if self.wish == Wish::Nothing {
                    self.wish = Wish::KeepAlive;
                }
            } else if member.eq_ignore_ascii_case(b"upgrade") {
                self.upgrade_named = Mention::Yes;
            } else if !is_token(member) {
                return Err(Error::ConnectionInvalid);
            }
        }
        Ok(())
    }

    /// RFC 9110 8.6: 1*DIGIT; RFC 9112 6.3: once, though a list of equal values might be taken as one.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Error> {
        if self.content_length.is_some() || value.contains(&b',') {
            return Err(Error::ContentLengthRepeated);
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Error::ContentLengthInvalid);
        }
        let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        let length = value.iter().try_fold(0, add).filter(|&length| length <= BODY_BYTES_CEILING);
        self.content_length = Some(length.ok_or(Error::ContentLengthOverflow)?);
        Ok(())
    }

    /// RFC 9112 6.1 and 7: codings without parameters, `chunked` once and last. An empty member is no coding.
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Error> {
        for coding in value.split(|&byte| byte == b',').map(trim) {
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.codings = match self.codings {
                Codings::None if is_chunked => Codings::Chunked,
                Codings::Known if is_chunked => Codings::KnownThenChunked,
                Codings::None | Codings::Known if is_registered(coding) => Codings::Known,
                _ => return Err(Error::TransferEncodingInvalid),
            };
        }
        Ok(())
    }
}

/// The members of a list field that are not empty (RFC 9110 5.6.1).
fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim).filter(|member| !member.is_empty())
}

/// The transfer codings of RFC 9112 7 beside `chunked`.
fn is_registered(coding: &[u8]) -> bool {
    [&b"gzip"[..], b"x-gzip", b"deflate", b"compress", b"x-compress"]
        .iter()
        .any(|known| coding.eq_ignore_ascii_case(known))
}
