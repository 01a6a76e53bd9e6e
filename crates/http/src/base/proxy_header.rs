//! The PROXY protocol, versions 1 and 2 (HAProxy's `proxy-protocol.txt`): bytes in, the client's address out.
//!
//! Strict: one space between words, decimal ports without leading zeros, canonical addresses, a TLV section that adds
//! up, a checksum that is right where there is one. A header is complete or awaited; it never needs more than
//! [`HEADER_BYTES_MAX`] bytes.

use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::base::peers::Source;

/// The longest header: version 2 with its addresses and what a proxy may tell besides.
pub(crate) const HEADER_BYTES_MAX: usize = 2_048;
/// The longest line of version 1, with its CRLF.
const LINE_BYTES_MAX: usize = 107;

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family and protocol, length.
const FIXED_BYTES: usize = 16;
/// The TLV that holds a CRC32C of the whole header.
const TLV_CRC32C: u8 = 0x03;

/// The bytes are no PROXY header, or a malformed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Reads a header at the start of `bytes`: where the connection comes from, and how many bytes the header has. `None`
/// if it is not complete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    let begins = |signature: &[u8]| {
        let shared = signature.len().min(bytes.len());
        bytes[..shared] == signature[..shared]
    };
    if begins(SIGNATURE_1) {
        return parse_1(bytes);
    }
    if begins(SIGNATURE_2) { parse_2(bytes) } else { Err(Malformed) }
}

fn parse_1(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    let window = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\n') else {
        return if window.len() == LINE_BYTES_MAX { Err(Malformed) } else { Ok(None) };
    };
    let line = window[..end].strip_suffix(b"\r").ok_or(Malformed)?;
    let line = ::core::str::from_utf8(line).map_err(|_| Malformed)?;
    let words: Words = split(line)?;
    let source = match words.as_slice() {
        // What follows UNKNOWN is to be ignored.
        ["PROXY", "UNKNOWN", ..] => Source::Socket,
        ["PROXY", family @ ("TCP4" | "TCP6"), source, destination, source_port, destination_port] => {
            let is_v4 = *family == "TCP4";
            let source = ip(source, is_v4)?;
            ip(destination, is_v4)?;
            port(destination_port)?;
            Source::Proxied(SocketAddr::new(source, port(source_port)?))
        }
        _ => return Err(Malformed),
    };
    Ok(Some((source, end + 1)))
}

/// Up to six words, without the heap.
struct Words<'a>([&'a str; 6], usize);

impl<'a> Words<'a> {
    fn as_slice(&self) -> &[&'a str] {
        &self.0[..self.1]
    }
}

/// The words of a line that single spaces part.
fn split(line: &str) -> Result<Words<'_>, Malformed> {
    let mut words = Words([""; 6], 0);
    for word in line.split(' ') {
        if words.1 >= 2 && words.0[1] == "UNKNOWN" {
            break;
        }
        *words.0.get_mut(words.1).ok_or(Malformed)? = word;
        words.1 += 1;
    }
    Ok(words)
}

fn ip(text: &str, is_v4: bool) -> Result<IpAddr, Malformed> {
    if is_v4 {
        text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| Malformed)
    } else {
        text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| Malformed)
    }
}

fn port(text: &str) -> Result<u16, Malformed> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { text.parse().map_err(|_| Malformed) } else { Err(Malformed) }
}

fn parse_2(bytes: &[u8]) -> Result<Option<(Source, usize)>, Malformed> {
    // What is wrong is wrong as soon as it is there.
    if bytes.get(12).is_some_and(|&byte| !matches!(byte, 0x20 | 0x21)) {
        return Err(Malformed);
    }
    if bytes.get(13).is_some_and(|&byte| byte >> 4 > 3 || byte & 0x0f > 2) {
        return Err(Malformed);
    }
    let Some(fixed) = bytes.get(..FIXED_BYTES) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let whole = FIXED_BYTES + length;
    if whole > HEADER_BYTES_MAX {
        return Err(Malformed);
    }
    let Some(header) = bytes.get(..whole) else { return Ok(None) };
    let payload = &header[FIXED_BYTES..];
    let address_bytes = match fixed[13] >> 4 {
        0 => 0,
        1 => 12,
        2 => 36,
        _ => 216,
    };
    let tlvs = payload.get(address_bytes..);
    let source = match (fixed[12] & 0x0f, fixed[13]) {
        // A connection of the proxy's own, such as a health check: the rest is to be skipped.
        (0, _) => return Ok(Some((Source::Socket, whole))),
        (_, 0x11) => {
            let address: [u8; 4] = part(payload, 0)?;
            Source::Proxied(SocketAddr::new(Ipv4Addr::from(address).into(), u16::from_be_bytes(part(payload, 8)?)))
        }
        (_, 0x21) => {
            let address: [u8; 16] = part(payload, 0)?;
            Source::Proxied(SocketAddr::new(Ipv6Addr::from(address).into(), u16::from_be_bytes(part(payload, 32)?)))
        }
        // Unspecified, Unix sockets: the proxy has a client without an internet address.
        (_, 0x00 | 0x31) => Source::Socket,
        // A stream that is said to have come as datagrams or the like.
        _ => return Err(Malformed),
    };
    check_tlvs(header, tlvs.ok_or(Malformed)?)?;
    Ok(Some((source, whole)))
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    bytes.get(at..at + N).and_then(|part| part.try_into().ok()).ok_or(Malformed)
}

/// The section adds up, and its checksum, if there is one, is right.
fn check_tlvs(header: &[u8], mut rest: &[u8]) -> Result<(), Malformed> {
    while let [kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let value = after.get(..length).ok_or(Malformed)?;
        if *kind == TLV_CRC32C {
            let told: [u8; 4] = value.try_into().map_err(|_| Malformed)?;
            let at = header.len() - after.len();
            if crc32c(header, at..at + 4) != u32::from_be_bytes(told) {
                return Err(Malformed);
            }
        }
        rest = &after[length..];
    }
    if rest.is_empty() { Ok(()) } else { Err(Malformed) }
}

/// CRC-32C (Castagnoli) of `bytes`, with the bytes in `zeroed` taken as 0. Bit by bit: at most [`HEADER_BYTES_MAX`]
/// bytes, once a connection.
fn crc32c(bytes: &[u8], zeroed: ::core::ops::Range<usize>) -> u32 {
    let mut crc = u32::MAX;
    for (at, &byte) in bytes.iter().enumerate() {
        crc ^= if zeroed.contains(&at) { 0 } else { u32::from(byte) };
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

#[cfg(test)]
mod tests;
