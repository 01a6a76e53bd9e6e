//! Whom a request is for, as proxies say it: `Forwarded` (RFC 7239) and `X-Forwarded-For`.
//!
//! Each proxy adds whom it got the request from at the right end. So the rightmost address that is no trusted proxy's
//! own is the client; what is left of it anybody may have written. Where all are trusted, the leftmost is the client.
//! What is hidden (`_name`), unknown or malformed there names nobody, and so do two fields that name different clients:
//! a proxy that writes one of them may pass on what a client wrote into the other.

use ::core::fmt;
use ::core::net::{IpAddr, Ipv6Addr, SocketAddr};
use ::core::str::FromStr;

use plimsoll_codec::h1::RequestView;

/// The addresses of a network, or one address: see [`Config::forwarded_from`](crate::Config::forwarded_from).
///
/// ```
/// use plimsoll_http::Network;
///
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.contains([10, 1, 2, 3].into()) && !network.contains([11, 0, 0, 1].into()));
/// assert_eq!("::1".parse::<Network>()?.to_string(), "::1/128");
/// let error = "10.1.0.0/8".parse::<Network>().unwrap_err();
/// assert_eq!(error.to_string(), "a network has no bits set behind its prefix: write 10.0.0.0/8, not 10.1.0.0/8");
/// # Ok::<(), plimsoll_http::ParseNetworkError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// An address of IPv4 as the IPv6 address that it is mapped to.
    bits: u128,
    /// 0 to 128; of IPv4 96 more than is written.
    prefix: u8,
    is_v4: bool,
}

/// Bits of an IPv6 address before the IPv4 address that is mapped to it.
const MAPPED_BITS: u8 = 96;

impl Network {
    /// Whether an address is one of the network's.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (bits, is_v4) = bits_of(address);
        is_v4 == self.is_v4 && bits & mask(self.prefix) == self.bits
    }
}

fn bits_of(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), true),
        IpAddr::V6(v6) => (v6.to_bits(), false),
    }
}

const fn mask(prefix: u8) -> u128 {
    if prefix == 0 { 0 } else { u128::MAX << (128 - prefix) }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        let (bits, is_v4) = bits_of(address);
        Self { bits, prefix: 128, is_v4 }
    }
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    /// An address, or one with `/` and the number of bits that are the same in the whole network.
    ///
    /// # Errors
    ///
    /// What to write.
    fn from_str(text: &str) -> Result<Self, ParseNetworkError> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let whole = Self::from(address.parse::<IpAddr>().map_err(|_| ParseNetworkError::Address)?);
        let Some(prefix) = prefix else { return Ok(whole) };
        let is_plain = prefix.len() <= 3 && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let before = if whole.is_v4 { MAPPED_BITS } else { 0 };
        let written = prefix.parse::<u8>().ok().filter(|bits| is_plain && *bits <= 128 - before);
        let Some(written) = written else { return Err(ParseNetworkError::Prefix) };
        let prefix = before + written;
        if whole.bits & !mask(prefix) != 0 {
            return Err(ParseNetworkError::Bits);
        }
        Ok(Self { prefix, ..whole })
    }
}

/// Why a text is no [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseNetworkError {
    /// It does not begin with an IP address.
    Address,
    /// What follows the slash is no number of bits, or more than the address has.
    Prefix,
    /// The address has bits set behind the prefix.
    Bits,
}

impl fmt::Display for ParseNetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "write an address or a network, such as 10.0.0.7, 10.0.0.0/8 or fd00::/8",
            Self::Prefix => "the bits of a network are at most 32 for IPv4 and 128 for IPv6, as in 10.0.0.0/8",
            Self::Bits => "a network has no bits set behind its prefix: write 10.0.0.0/8, not 10.1.0.0/8",
        })
    }
}

impl ::core::error::Error for ParseNetworkError {}

impl From<ParseNetworkError> for plimsoll_runtime::Error {
    fn from(error: ParseNetworkError) -> Self {
        Self::Service(Box::new(error))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = if self.is_v4 { self.prefix - MAPPED_BITS } else { self.prefix };
        write!(f, "{}/{written}", Ipv6Addr::from_bits(self.bits).to_canonical())
    }
}

/// The client of a request that came from a peer, if that is a trusted proxy and names one.
pub(crate) fn client(view: &RequestView<'_>, peer: IpAddr, trusted: &[Network]) -> Option<IpAddr> {
    let is_trusted = |address| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(peer) {
        return None;
    }
    let mut fields = [("forwarded", Found::Nobody), ("x-forwarded-for", Found::Nobody)];
    for (name, found) in &mut fields {
        for value in view.fields_named(name) {
            *found = match *name {
                "forwarded" => found.and_forwarded(value, &is_trusted),
                _ => value.split(|&byte| byte == b',').fold(*found, |found, node| found.and(node, &is_trusted)),
            };
        }
    }
    match fields.map(|(_, found)| found) {
        [found, Found::Nobody] | [Found::Nobody, found] => found.client(),
        [one, other] => one.client().filter(|client| other.client() == Some(*client)),
    }
}

/// What a list has said so far, from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// Nothing.
    Nobody,
    /// Trusted proxies alone; the first of them.
    Proxies(IpAddr),
    /// Last that was no proxy: this one,
    Client(IpAddr),
    /// or one that was not named.
    Unnamed,
}

impl Found {
    fn client(self) -> Option<IpAddr> {
        match self {
            Self::Client(client) | Self::Proxies(client) => Some(client),
            Self::Nobody | Self::Unnamed => None,
        }
    }

    /// With one more node behind it: an address, perhaps with a port.
    fn and(self, node: &[u8], is_trusted: &impl Fn(IpAddr) -> bool) -> Self {
        match (address(node.trim_ascii()), self) {
            (None, _) => Self::Unnamed,
            (Some(proxy), Self::Nobody) if is_trusted(proxy) => Self::Proxies(proxy),
            (Some(proxy), _) if is_trusted(proxy) => self,
            (Some(client), _) => Self::Client(client),
        }
    }

    /// With one more line of `Forwarded`: elements between commas, pairs between semicolons, values that may be quoted.
    fn and_forwarded(self, line: &[u8], is_trusted: &impl Fn(IpAddr) -> bool) -> Self {
        let mut found = self;
        let mut rest = line;
        loop {
            let (element, after) = cut(rest, b',');
            let (mut pairs, mut node) = (Some(element), &b""[..]);
            while let Some(left) = pairs {
                let (pair, after) = cut(left, b';');
                let pair = pair.trim_ascii();
                if let Some((name, value)) = pair.split_at_checked(4)
                    && name.eq_ignore_ascii_case(b"for=")
                {
                    node = value;
                }
                pairs = after;
            }
            // A quoted address has nothing to escape.
            let plain = node.strip_prefix(b"\"").map_or(Some(node), |quoted| quoted.strip_suffix(b"\""));
            found = plain.map_or(Self::Unnamed, |node| found.and_bracketed(node, is_trusted));
            match after {
                Some(after) => rest = after,
                None => return found,
            }
        }
    }

    /// With a node of `Forwarded`, where an IPv6 address is in brackets.
    fn and_bracketed(self, node: &[u8], is_trusted: &impl Fn(IpAddr) -> bool) -> Self {
        let is_bare_v6 = !node.starts_with(b"[") && node.iter().filter(|&&byte| byte == b':').count() > 1;
        if is_bare_v6 { Self::Unnamed } else { self.and(node, is_trusted) }
    }
}

/// What is before the first separator that is not quoted, and behind it.
fn cut(bytes: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ if byte == separator && !is_quoted => return (&bytes[..at], Some(&bytes[at + 1..])),
            _ => {}
        }
    }
    (bytes, None)
}

/// An address with or without brackets and a port.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = ::core::str::from_utf8(node).ok()?;
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Some(v6) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return v6.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    // The port may be hidden, too (RFC 7239 6): nobody asks for it.
    let (host, port) = text.rsplit_once(':')?;
    let is_hidden = port.strip_prefix('_').is_some_and(|name| !name.is_empty());
    if is_hidden {
        return address(host.as_bytes()).filter(|_| !host.contains(':') || host.ends_with(']'));
    }
    text.parse::<SocketAddr>().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests;
