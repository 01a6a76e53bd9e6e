//! What is known of a field without another look at its text: which one it is, and whether it may be there at all.
//!
//! A peer puts most of what it says again and again into its table. Such a field is looked at once, when it is put
//! there, and each reference to it brings along what was found out then.

use crate::h1::syntax::{is_field_value, is_token};
use crate::h1::target::{host_and_port, is_plain_path};

/// Which field it is, among those that mean something to a request of HTTP/2.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Name {
    Other,
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
    /// Another name that begins with a colon.
    OtherPseudo,
    Host,
    ContentLength,
    Expect,
    Priority,
    Te,
    /// One that only has a meaning for a connection of HTTP/1 (RFC 9113 8.2.2).
    OfConnection,
}

/// A [`Name`], and the judgement of name and value, in a byte.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u8);

impl Mark {
    /// Nothing is known.
    pub(crate) const NONE: Mark = Mark(0);

    /// A field of the static table, by its index: all of them are valid but `:status`.
    pub(super) const fn of_static(index: usize) -> Mark {
        let name = match index {
            1 => Name::Authority,
            2 | 3 => Name::Method,
            4 | 5 => return Mark(Name::Path as u8 | NAME | VALUE | KNOWN),
            6 | 7 => Name::Scheme,
            8..=14 => return Mark(Name::OtherPseudo as u8 | VALUE),
            28 => Name::ContentLength,
            35 => Name::Expect,
            38 => Name::Host,
            57 => Name::OfConnection,
            _ => Name::Other,
        };
        Mark(name as u8 | NAME | VALUE)
    }

    /// A name alone. A valid one is a token in lower case (RFC 9113 8.2.1), or a pseudo-header field of a request.
    pub(super) fn of_name(name: &[u8]) -> Mark {
        let known = match name {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            b":protocol" => Name::Protocol,
            [b':', ..] => return Mark(Name::OtherPseudo as u8),
            b"host" => Name::Host,
            b"content-length" => Name::ContentLength,
            b"expect" => Name::Expect,
            b"priority" => Name::Priority,
            b"te" => Name::Te,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Name::OfConnection
            }
            _ if is_token(name) && !name.iter().any(u8::is_ascii_uppercase) => Name::Other,
            _ => return Mark::NONE,
        };
        Mark(known as u8 | NAME)
    }

    /// The same name with this value. A valid one has no control bytes and no white space around it.
    pub(super) fn with_value(self, value: &[u8]) -> Mark {
        let mut mark = self.0 & (NAME_BITS | NAME);
        if is_value(value) {
            mark |= VALUE;
        }
        let is_known = match self.name() {
            Name::Authority | Name::Host => host_and_port(value).is_some(),
            Name::Path => is_plain_path(value),
            _ => false,
        };
        if is_known {
            mark |= KNOWN;
        }
        Mark(mark)
    }

    pub(crate) fn name(self) -> Name {
        NAMES[usize::from(self.0 & NAME_BITS)]
    }

    /// Whether name and value are valid, each for itself.
    pub(crate) fn is_valid(self) -> bool {
        self.0 & (NAME | VALUE) == NAME | VALUE
    }

    /// Whether the value of `:authority` or `host` is a host with or without a port.
    pub(crate) fn is_host(self) -> bool {
        self.0 & KNOWN != 0
    }

    /// Whether the value of `:path` is a path without a query and without escapes: there is nothing to take apart.
    pub(crate) fn is_plain_path(self) -> bool {
        self.0 & KNOWN != 0
    }

    pub(super) const fn to_byte(self) -> u8 {
        self.0
    }

    pub(super) const fn from_byte(byte: u8) -> Mark {
        Mark(byte)
    }
}

/// Whether a field's value is valid in HTTP/2 (RFC 9113 8.2.1).
pub(crate) fn is_value(value: &[u8]) -> bool {
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_field_value(value) && !is_space(value.first()) && !is_space(value.last())
}

const NAME_BITS: u8 = 0x0f;
/// The name is valid.
const NAME: u8 = 0x10;
/// The value is.
const VALUE: u8 = 0x20;
/// The value is a host, or a plain path.
const KNOWN: u8 = 0x40;

/// By their numbers.
const NAMES: [Name; 16] = {
    let mut names = [Name::Other; 16];
    let known = [
        Name::Method,
        Name::Scheme,
        Name::Authority,
        Name::Path,
        Name::Protocol,
        Name::OtherPseudo,
        Name::Host,
        Name::ContentLength,
        Name::Expect,
        Name::Priority,
        Name::Te,
        Name::OfConnection,
    ];
    let mut at = 0;
    while at < known.len() {
        names[known[at] as usize] = known[at];
        at += 1;
    }
    names
};
