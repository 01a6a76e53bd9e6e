//! The head of a request of the `http` crate as one that our requests have: written as HTTP/1.1 has it, and parsed with
//! the limits of a server, so that a handler finds in it what it finds in one that came by a connection.

use ::core::fmt::Write as _;

use http::request::Parts;
use http::{Version, header};
use plimsoll_codec::Error;
use plimsoll_codec::h1::{FieldSlot, Framing, Limits, RequestHead, RequestView, Span, TargetForm, parse_head};

/// A head and what was parsed.
pub(crate) struct Head {
    text: Vec<u8>,
    slots: Vec<FieldSlot>,
    parsed: RequestHead,
}

/// Where the host stands that the request is for.
enum Host {
    /// In a field, or in the target.
    Said,
    /// In a field that the request has not: behind the others.
    Beside,
    /// Nowhere.
    Missing,
}

impl Head {
    /// Of a request with a body of so many bytes, if that is known. What its fields say of the body's length does not
    /// count.
    ///
    /// # Errors
    ///
    /// As those of a head that came by a connection.
    pub(crate) fn of(parts: &Parts, body_bytes: Option<u64>, limits: &Limits) -> Result<Self, Error> {
        let (text, host) = written(parts);
        let mut slots = vec![FieldSlot::EMPTY; parts.headers.len() + 1];
        let mut parsed = parse_head(&text, &mut slots, limits)?;
        if !matches!(host, Host::Said) {
            // It stands in the text for the parser alone.
            parsed.fields -= 1;
        }
        if matches!(host, Host::Missing) {
            parsed.host = None;
        }
        parsed.version = if parts.version > Version::HTTP_11 { Version::HTTP_2 } else { parts.version };
        parsed.framing = match body_bytes {
            Some(0) => Framing::None,
            Some(bytes) => Framing::Length(bytes),
            None => Framing::Chunked,
        };
        parsed.expect_continue = false;
        if parsed.version == Version::HTTP_2 && parsed.form == TargetForm::Absolute {
            let end = parsed.target.range().end;
            parsed.target = Span { at: parsed.path.at, len: end as u16 - parsed.path.at };
            parsed.form = TargetForm::Origin;
        }
        slots.truncate(usize::from(parsed.fields));
        Ok(Self { text, slots, parsed })
    }

    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView::new(&self.text, &self.slots[..], &self.parsed)
    }

    pub(crate) fn slots(&self) -> &[FieldSlot] {
        &self.slots
    }
}

fn written(parts: &Parts) -> (Vec<u8>, Host) {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let has_field = parts.headers.contains_key(header::HOST);
    let (host, value) = match parts.uri.authority() {
        _ if has_field => (Host::Said, None),
        Some(authority) => (Host::Beside, Some(authority.as_str())),
        // The parser wants one.
        None => (Host::Missing, Some("none")),
    };
    let mut line = format!("{} ", parts.method);
    if let (Some(authority), true) = (parts.uri.authority(), has_field) {
        // The target's host goes before the field's (RFC 9112 3.2.2).
        let scheme = parts.uri.scheme_str().unwrap_or("http");
        // Writing to a string does not fail.
        let _infallible = write!(line, "{scheme}://{authority}");
    }
    line += path;
    line += " HTTP/1.1\r\n";
    let mut text = line.into_bytes();
    for (name, value) in &parts.headers {
        put_field(&mut text, name.as_str(), value.as_bytes());
    }
    if let Some(value) = value {
        put_field(&mut text, "host", value.as_bytes());
    }
    text.extend_from_slice(b"\r\n");
    (text, host)
}

fn put_field(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        text.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests;
