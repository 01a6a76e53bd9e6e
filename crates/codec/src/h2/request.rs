//! From a decoded list of fields to a judged request (RFC 9113 8).

use http::{Method, Version};

use super::Priority;
use crate::Error;
use crate::h1::syntax::is_token;
use crate::h1::target::{self, Port, host_and_port};
use crate::h1::{FieldSlot, Framing, METHOD_BYTES_MAX, RequestHead, Span, TargetForm, is_forbidden_trailer};
use crate::hpack::mark::{Mark, Name, is_value};

/// A request, and how many pseudo-header fields came before its fields.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) head: RequestHead,
    pub(super) pseudo_fields: usize,
    pub(super) priority: Priority,
    /// What Content-Length says.
    pub(super) length: Option<u64>,
}

impl Judged {
    /// Before the first request.
    pub(super) const NONE: Judged = Judged {
        head: RequestHead {
            method: Method::GET,
            target: Span { at: 0, len: 0 },
            form: TargetForm::Origin,
            path: Span { at: 0, len: 0 },
            query: None,
            version: Version::HTTP_2,
            host: None,
            fields: 0,
            framing: Framing::None,
            keep_alive: true,
            expect_continue: false,
            upgrade: None,
        },
        pseudo_fields: 0,
        priority: Priority::DEFAULT,
        length: None,
    };
}

/// The pseudo-header fields that came, each at most once.
#[derive(Default)]
struct Pseudo {
    method: Option<Span>,
    scheme: Option<Span>,
    authority: Option<Span>,
    path: Option<Span>,
    is_plain_path: bool,
    protocol: Option<Span>,
}

/// What the fields say that matters here.
#[derive(Default)]
struct Noted {
    host: Option<Span>,
    length: Option<u64>,
    expect_continue: Expect,
    priority: Priority,
}

#[derive(Copy, Clone, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Nothing,
    Continue,
}

/// Judges the fields of a request. `ends` if there is no body.
pub(super) fn judge(bytes: &[u8], slots: &[FieldSlot], marks: &[Mark], ends: bool) -> Result<Judged, Error> {
    debug_assert!(marks.len() >= slots.len(), "a mark for each slot");
    let (mut pseudo, mut noted, mut pseudo_fields) = (Pseudo::default(), Noted::default(), 0);
    let mut is_host = false;
    for (at, (slot, mark)) in slots.iter().zip(marks).enumerate() {
        if !mark.is_valid() {
            return Err(fault(slot.name().of_head(bytes), slot.value().of_head(bytes), at == pseudo_fields));
        }
        let span = slot.value();
        let place = match mark.name() {
            Name::Other => continue,
            Name::Method => &mut pseudo.method,
            Name::Scheme => &mut pseudo.scheme,
            Name::Authority => {
                is_host = mark.is_host();
                &mut pseudo.authority
            }
            Name::Path => {
                pseudo.is_plain_path = mark.is_plain_path();
                &mut pseudo.path
            }
            Name::Protocol => &mut pseudo.protocol,
            name => {
                noted.take(name, *mark, span.of_head(bytes), span)?;
                continue;
            }
        };
        // They come before all others (RFC 9113 8.3).
        let is_missing = span.len == 0 && mark.name() != Name::Authority;
        if at != pseudo_fields || is_missing || place.replace(span).is_some() {
            return Err(Error::PseudoFieldInvalid);
        }
        pseudo_fields += 1;
    }
    let method = pseudo.method.ok_or(Error::PseudoFieldInvalid)?.of_head(bytes);
    if method.len() > METHOD_BYTES_MAX {
        return Err(Error::MethodTooLong);
    }
    let method = Method::from_bytes(method).map_err(|_| Error::MethodInvalid)?;
    if let Some(authority) = pseudo.authority {
        // No userinfo, and nothing else than Host says (RFC 9113 8.3.1).
        if !is_host {
            return Err(Error::HostInvalid);
        }
        let is_same = |host: Span| host.of_head(bytes).eq_ignore_ascii_case(authority.of_head(bytes));
        if !noted.host.is_none_or(is_same) {
            return Err(Error::AuthorityConflict);
        }
    }
    let target = target(bytes, &method, &pseudo)?;
    let host = pseudo.authority.or(noted.host);
    if host.is_none() {
        return Err(Error::HostMissing);
    }
    // What follows is a tunnel's, not content (RFC 8441 4): haproxy passes on the length with which some clients ask
    // for a WebSocket.
    let is_tunnel = noted.length == Some(0) && method == Method::CONNECT;
    let length = if is_tunnel { None } else { noted.length };
    let framing = match (ends, length) {
        (true, Some(1..)) => return Err(Error::BodyLengthMismatch),
        (true, Some(0)) => Framing::Length(0),
        (true, None) => Framing::None,
        (false, Some(length)) => Framing::Length(length),
        (false, None) => Framing::Chunked,
    };
    let head = RequestHead {
        method,
        target: target.whole,
        form: target.form,
        path: target.path,
        query: target.query,
        version: Version::HTTP_2,
        host,
        fields: (slots.len() - pseudo_fields) as u16,
        framing,
        keep_alive: true,
        expect_continue: !ends && noted.expect_continue == Expect::Continue,
        upgrade: pseudo.protocol,
    };
    Ok(Judged { head, pseudo_fields, priority: noted.priority, length })
}

/// Judges the fields of a trailer section.
pub(super) fn judge_trailers(bytes: &[u8], slots: &[FieldSlot]) -> Result<(), Error> {
    for slot in slots {
        let (name, value) = (slot.name().of_head(bytes), slot.value().of_head(bytes));
        if name.first() == Some(&b':') {
            return Err(Error::PseudoFieldInvalid);
        }
        check_field(name, value)?;
        if is_forbidden_trailer(name) {
            return Err(Error::TrailerForbidden);
        }
    }
    Ok(())
}

impl Noted {
    fn take(&mut self, name: Name, mark: Mark, value: &[u8], span: Span) -> Result<(), Error> {
        match name {
            Name::OfConnection => Err(Error::ConnectionField),
            Name::Te if !value.eq_ignore_ascii_case(b"trailers") => Err(Error::ConnectionField),
            Name::ContentLength => self.content_length(value),
            Name::Host if self.host.replace(span).is_some() => Err(Error::HostRepeated),
            Name::Host if !mark.is_host() => Err(Error::HostInvalid),
            Name::Expect if value.eq_ignore_ascii_case(b"100-continue") => {
                self.expect_continue = Expect::Continue;
                Ok(())
            }
            Name::Expect => Err(Error::ExpectationUnknown),
            Name::Priority => {
                self.priority = Priority::parse(value);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Error> {
        if self.length.is_some() {
            return Err(Error::ContentLengthRepeated);
        }
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Error::ContentLengthInvalid);
        }
        let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        self.length = Some(value.iter().try_fold(0, add).ok_or(Error::ContentLengthOverflow)?);
        Ok(())
    }
}

/// What is wrong with a field that is not valid. Pseudo-header fields that are not known, or stand behind others, are
/// wrong as such.
#[cold]
fn fault(name: &[u8], value: &[u8], may_be_pseudo: bool) -> Error {
    let is_pseudo = may_be_pseudo && name.first() == Some(&b':');
    let checked = if is_pseudo { check_value(value) } else { check_field(name, value) };
    checked.err().unwrap_or(Error::PseudoFieldInvalid)
}

/// A name in lower case, a value without space around it (RFC 9113 8.2.1). A colon is no part of a token, so that a
/// pseudo-header field behind the others is refused here, too.
fn check_field(name: &[u8], value: &[u8]) -> Result<(), Error> {
    if !is_token(name) || name.iter().any(u8::is_ascii_uppercase) {
        let is_pseudo = name.first() == Some(&b':');
        return Err(if is_pseudo { Error::PseudoFieldInvalid } else { Error::FieldNameInvalid });
    }
    check_value(value)
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    if is_value(value) { Ok(()) } else { Err(Error::FieldValueInvalid) }
}

struct Target {
    whole: Span,
    form: TargetForm,
    path: Span,
    query: Option<Span>,
}

fn target(bytes: &[u8], method: &Method, pseudo: &Pseudo) -> Result<Target, Error> {
    if *method == Method::CONNECT && pseudo.protocol.is_none() {
        // RFC 9113 8.5.
        let (Some(authority), None, None) = (pseudo.authority, pseudo.scheme, pseudo.path) else {
            return Err(Error::PseudoFieldInvalid);
        };
        if host_and_port(authority.of_head(bytes)) != Some(Port::Given) {
            return Err(Error::TargetInvalid);
        }
        let path = Span { len: 0, ..authority };
        return Ok(Target { whole: authority, form: TargetForm::Authority, path, query: None });
    }
    // RFC 8441 4: only CONNECT has a protocol.
    if pseudo.protocol.is_some_and(|span| *method != Method::CONNECT || !is_token(span.of_head(bytes))) {
        return Err(Error::PseudoFieldInvalid);
    }
    let (Some(scheme), Some(path)) = (pseudo.scheme, pseudo.path) else {
        return Err(Error::PseudoFieldInvalid);
    };
    let is_scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme = scheme.of_head(bytes);
    if !matches!(scheme, b"http" | b"https") && !scheme.iter().all(is_scheme_byte) {
        return Err(Error::PseudoFieldInvalid);
    }
    if pseudo.is_plain_path {
        return Ok(Target { whole: path, form: TargetForm::Origin, path, query: None });
    }
    let text = path.of_head(bytes);
    if text[0] != b'/' && text != b"*" {
        return Err(Error::TargetInvalid);
    }
    let judged_as = if *method == Method::CONNECT { &Method::GET } else { method };
    let parsed = target::parse(judged_as, text, usize::from(path.at))?;
    Ok(Target { whole: path, form: parsed.form, path: parsed.path, query: parsed.query })
}
