//! The request target and the host (RFC 9112 3.2, RFC 9110 4.2 and 7.2).

use core::net::Ipv6Addr;

use http::Method;

use super::Span;
use super::syntax::{PATH, PATH_PLAIN, QUERY, all, classes_of, find, is_host_byte};
use crate::Error;

/// The four forms of a request target (RFC 9112 3.2).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetForm {
    /// `/path?query`.
    Origin,
    /// `http://host/path?query`, as sent to proxies. Every server must take it.
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
    /// `*`, for OPTIONS only.
    Asterisk,
}

/// A target taken apart; spans are relative to the head.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    pub(crate) path: Span,
    pub(crate) query: Option<Span>,
    pub(crate) authority: Option<Span>,
}

/// Takes apart the target that starts `at` bytes into the head.
pub(crate) fn parse(method: &Method, target: &[u8], at: usize) -> Result<Target, Error> {
    debug_assert!(!target.is_empty(), "the tokeniser does not return an empty target");
    if *method == Method::CONNECT {
        return authority_form(target, at);
    }
    if target[0] == b'/' {
        let (path, query) = path_and_query(target, at)?;
        return Ok(Target { form: TargetForm::Origin, path, query, authority: None });
    }
    if target == b"*" {
        if *method != Method::OPTIONS {
            return Err(Error::TargetFormInvalid);
        }
        return Ok(Target { form: TargetForm::Asterisk, path: Span::new(at, 1), query: None, authority: None });
    }
    absolute_form(target, at)
}

/// RFC 9112 3.2.3, RFC 9110 9.3.6: host and port, both.
fn authority_form(target: &[u8], at: usize) -> Result<Target, Error> {
    match host_and_port(target) {
        _ if target[0] == b'/' || target == b"*" => return Err(Error::TargetFormInvalid),
        Some(Port::Given) => {}
        Some(Port::Absent) | None => return Err(Error::TargetInvalid),
    }
    Ok(Target {
        form: TargetForm::Authority,
        path: Span::new(at + target.len(), 0),
        query: None,
        authority: Some(Span::new(at, target.len())),
    })
}

/// RFC 9112 3.2.2: every server takes it; RFC 9110 4.2.1: the host is not empty; 4.2.4: no userinfo.
fn absolute_form(target: &[u8], at: usize) -> Result<Target, Error> {
    let scheme = [&b"http://"[..], b"https://"]
        .into_iter()
        .find(|scheme| target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    let Some(scheme) = scheme else {
        // `host:port` without CONNECT is the likely cause, but so is any other garbage.
        let error =
            if host_and_port(target) == Some(Port::Given) { Error::TargetFormInvalid } else { Error::TargetInvalid };
        return Err(error);
    };
    let rest = &target[scheme.len()..];
    let authority_len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(authority_len);
    if host_and_port(authority).is_none() {
        return Err(Error::TargetInvalid);
    }
    let authority_at = at + scheme.len();
    let (path, query) = path_and_query(rest, authority_at + authority_len)?;
    let authority = Some(Span::new(authority_at, authority_len));
    Ok(Target { form: TargetForm::Absolute, path, query, authority })
}

/// RFC 9112 3.2.1; RFC 9110 4.1: no fragment.
fn path_and_query(bytes: &[u8], at: usize) -> Result<(Span, Option<Span>), Error> {
    let (path, query) = match find(b'?', bytes) {
        None => (bytes, None),
        Some(mark) => (&bytes[..mark], Some(&bytes[mark + 1..])),
    };
    let classes = classes_of(path, PATH | PATH_PLAIN);
    // A broken escape is decoded in as many ways as there are decoders, and a path decides who answers (RFC 3986 2.1).
    let is_path = classes & PATH_PLAIN != 0 || (classes & PATH != 0 && has_whole_escapes(path));
    if !is_path || !query.is_none_or(|query| all(query, QUERY)) {
        return Err(Error::TargetInvalid);
    }
    Ok((Span::new(at, path.len()), query.map(|query| Span::new(at + path.len() + 1, query.len()))))
}

/// Whether these bytes are a path as [`parse`] takes it, without a query and without escapes.
pub(crate) fn is_plain_path(bytes: &[u8]) -> bool {
    bytes.first() == Some(&b'/') && all(bytes, PATH_PLAIN)
}

/// Whether each `%` is followed by two hexadecimal digits.
fn has_whole_escapes(path: &[u8]) -> bool {
    memchr::memchr_iter(b'%', path).all(|at| {
        let digits = path.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Whether a host came with a port.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Given,
    Absent,
}

/// Checks `uri-host [":" port]`, strictly: no userinfo, path, comma, percent-encoding or empty host; what stands in
/// brackets is an IPv6 address without a zone; a port is 1 to 5 digits and at most 65,535.
pub(crate) fn host_and_port(bytes: &[u8]) -> Option<Port> {
    let (host_len, port) = match bytes.first()? {
        b'[' => {
            let end = bytes.iter().position(|&byte| byte == b']')?;
            let literal = std::str::from_utf8(&bytes[1..end]).unwrap_or_default();
            let is_literal = literal.parse::<Ipv6Addr>().is_ok();
            (if is_literal { end + 1 } else { return None }, &bytes[end + 1..])
        }
        _ => {
            let end = bytes.iter().position(|&byte| !is_host_byte(byte)).unwrap_or(bytes.len());
            (end, &bytes[end..])
        }
    };
    debug_assert!(host_len + port.len() == bytes.len(), "nothing is left out");
    match port {
        _ if host_len == 0 => None,
        [] => Some(Port::Absent),
        [b':', digits @ ..] if is_port(digits) => Some(Port::Given),
        _ => None,
    }
}

fn is_port(digits: &[u8]) -> bool {
    let add = |sum: u32, digit: &u8| digit.is_ascii_digit().then(|| sum * 10 + u32::from(digit - b'0'));
    matches!(digits.len(), 1..=5) && digits.iter().try_fold(0, add).is_some_and(|port| port <= u32::from(u16::MAX))
}
