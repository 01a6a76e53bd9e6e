//! Conditional requests (RFC 9110 13): what a client has already, and what it would change.

use ::core::time::Duration;

use http::StatusCode;
use plimsoll_codec::date;
use plimsoll_runtime::fs::Metadata;

use crate::RequestRef;

/// A file may be changed again so long after a change without another time of modification.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// What tells one state of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Validators {
    /// Last modification in seconds since 1970, not in the future.
    modified: u64,
    /// With its quotes.
    tag: String,
    strength: Strength,
}

/// RFC 9110 8.8.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strength {
    Strong,
    Weak,
}

impl Validators {
    /// Of a file, at a time in seconds since 1970.
    pub(super) fn of(metadata: &Metadata, now: u64) -> Self {
        let modified = metadata.modified;
        let is_settled = modified.saturating_add(SETTLED_AFTER) <= Duration::from_secs(now);
        Self {
            modified: modified.as_secs().min(now),
            tag: format!("\"{:x}-{:x}\"", modified.as_nanos(), metadata.len),
            strength: if is_settled { Strength::Strong } else { Strength::Weak },
        }
    }

    /// The value of `ETag`.
    pub(super) fn etag(&self) -> String {
        match self.strength {
            Strength::Strong => self.tag.clone(),
            Strength::Weak => format!("W/{}", self.tag),
        }
    }

    /// The value of `Last-Modified`.
    pub(super) fn last_modified(&self) -> [u8; date::DATE_BYTES] {
        date::format(self.modified)
    }

    /// The status that is answered instead, if a condition says so (RFC 9110 13.2.2).
    pub(super) fn judge(&self, request: &RequestRef<'_>) -> Option<StatusCode> {
        let date_of = |name| request.field(name).and_then(date::parse);
        let is_any = |name, compare: fn(&Self, Tag<'_>) -> bool| {
            let mut values = request.fields_named(name).peekable();
            values.peek()?;
            Some(values.any(|value| value.trim_ascii() == b"*" || tags(value).any(|tag| compare(self, tag))))
        };
        let holds = is_any("if-match", Self::is_strongly)
            .or_else(|| date_of("if-unmodified-since").map(|since| self.modified <= since));
        if holds == Some(false) {
            return Some(StatusCode::PRECONDITION_FAILED);
        }
        let has_it = is_any("if-none-match", Self::is_weakly)
            .or_else(|| date_of("if-modified-since").map(|since| self.modified <= since));
        if has_it == Some(true) { Some(StatusCode::NOT_MODIFIED) } else { None }
    }

    /// Whether a part of the file fits to what the client has (RFC 9110 13.1.5): so without `If-Range`, too.
    pub(super) fn fits_range(&self, request: &RequestRef<'_>) -> bool {
        let Some(value) = request.field("if-range") else { return true };
        match tags(value).next() {
            Some(tag) => self.is_strongly(tag),
            None => self.strength == Strength::Strong && date::parse(value) == Some(self.modified),
        }
    }

    fn is_strongly(&self, tag: Tag<'_>) -> bool {
        (self.strength, tag.strength) == (Strength::Strong, Strength::Strong) && self.is_weakly(tag)
    }

    fn is_weakly(&self, tag: Tag<'_>) -> bool {
        tag.quoted == self.tag.as_bytes()
    }
}

/// An entity-tag (RFC 9110 8.8.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag<'a> {
    strength: Strength,
    /// With its quotes.
    quoted: &'a [u8],
}

/// The tags of a list, up to what is none.
fn tags(mut list: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    ::core::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', rest @ ..] = list {
            list = rest;
        }
        let (strength, quoted) = match list.strip_prefix(b"W/") {
            Some(weak) => (Strength::Weak, weak),
            None => (Strength::Strong, list),
        };
        let inside = quoted.strip_prefix(b"\"")?;
        let end = inside.iter().position(|&byte| byte == b'"')? + 2;
        list = &quoted[end..];
        Some(Tag { strength, quoted: &quoted[..end] })
    })
}

#[cfg(test)]
mod tests;
