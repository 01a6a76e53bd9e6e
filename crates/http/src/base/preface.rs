//! Which protocol a connection speaks, by its first bytes (RFC 9113 3.4).

use plimsoll_codec::h1::HTTP2_PREFACE;

/// Whether a connection that began so is, or may become, one of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Preface {
    Whole,
    /// All there is of it so far.
    Part,
    Other,
}

/// Looks for the preface, in any split.
pub(crate) fn preface(bytes: &[u8]) -> Preface {
    let have = bytes.len().min(HTTP2_PREFACE.len());
    match bytes[..have] == HTTP2_PREFACE[..have] {
        true if have == HTTP2_PREFACE.len() => Preface::Whole,
        true => Preface::Part,
        false => Preface::Other,
    }
}
