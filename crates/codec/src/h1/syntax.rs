//! Which bytes may stand where (RFC 9110 5.6.2, RFC 3986 2), as one table.

/// Whether `byte` is a `tchar` (RFC 9110 5.6.2).
#[inline]
pub(super) const fn is_token_byte(byte: u8) -> bool {
    CLASS[byte as usize] & TOKEN != 0
}

/// Whether `byte` may stand in a host, see [`HOST`].
#[inline]
pub(super) const fn is_host_byte(byte: u8) -> bool {
    CLASS[byte as usize] & HOST != 0
}

/// Whether `bytes` is a `token`: one or more `tchar`.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && all(bytes, TOKEN)
}

/// Whether `bytes` may be a field value: no control byte but the tab (RFC 9110 5.5).
pub(crate) fn is_field_value(bytes: &[u8]) -> bool {
    all(bytes, VALUE)
}

/// Whether every byte is in the class.
#[inline]
pub(super) fn all(bytes: &[u8], class: u8) -> bool {
    classes_of(bytes, class) != 0
}

/// Those of the classes that every byte is in.
#[inline]
pub(super) fn classes_of(bytes: &[u8], classes: u8) -> u8 {
    // Without an early exit, so that the loop can be unrolled: nearly every input is valid.
    bytes.iter().fold(classes, |seen, &byte| seen & CLASS[byte as usize])
}

/// Where a byte is first. What is short is not worth the set-up of a search in blocks.
#[inline]
pub(super) fn find(byte: u8, bytes: &[u8]) -> Option<usize> {
    let (short, rest) = bytes.split_at(bytes.len().min(SHORT_BYTES));
    let found = short.iter().position(|&other| other == byte);
    found.or_else(|| memchr::memchr(byte, rest).map(|at| short.len() + at))
}

const SHORT_BYTES: usize = 16;

/// Without white space (SP and HTAB) at both ends.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// `tchar`.
pub(super) const TOKEN: u8 = 1;
/// Field values: visible bytes, SP, HTAB and obs-text.
pub(super) const VALUE: u8 = 2;
/// Bytes of a path as they come, percent-encoded or not. More than RFC 3986 lists, as browsers send more: what
/// `http::Uri` takes, ASCII only.
pub(super) const PATH: u8 = 4;
/// [`PATH`] without the percent sign: needs no look at escapes.
pub(super) const PATH_PLAIN: u8 = 32;
/// Bytes of a query as they come.
pub(super) const QUERY: u8 = 8;
/// `reg-name` without percent-encoding and without the comma.
const HOST: u8 = 16;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = class_of(byte as u8);
        byte += 1;
    }
    table
}

const fn class_of(byte: u8) -> u8 {
    let mut class = 0;
    let alphanumeric = byte.is_ascii_alphanumeric();
    if alphanumeric || has(b"!#$%&'*+-.^_`|~", byte) {
        class |= TOKEN;
    }
    if byte == b'\t' || (byte >= b' ' && byte != 0x7f) {
        class |= VALUE;
    }
    if byte.is_ascii_graphic() && !has(b"#?<>`", byte) {
        class |= if byte == b'%' { PATH } else { PATH | PATH_PLAIN };
    }
    if byte.is_ascii_graphic() && !has(b"#<>\"", byte) {
        class |= QUERY;
    }
    if alphanumeric || has(b"-._~!$&'()*+;=", byte) {
        class |= HOST;
    }
    class
}

const fn has(set: &[u8], byte: u8) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}
