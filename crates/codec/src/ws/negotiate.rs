//! Parameters of permessage-deflate (RFC 7692 7.1).

use crate::h1::syntax::trim;

/// An offer of a client.
///
/// ```
/// use plimsoll_codec::ws::{Compression, Offer};
///
/// let offer = Offer::parse(b"permessage-deflate; client_max_window_bits; server_max_window_bits=10");
/// let agreed = offer.and_then(|offer| offer.accept(Compression::WITHOUT_TAKEOVER));
/// let agreed = agreed.expect("it is well formed");
/// assert_eq!(agreed.to_string(), "permessage-deflate; server_no_context_takeover; \
///     client_no_context_takeover; server_max_window_bits=10");
/// // A parameter that nobody knows.
/// assert_eq!(Offer::parse(b"permessage-deflate; fast"), None);
/// ```
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    /// 8 to 15.
    server_max_window_bits: Option<u8>,
    /// 8 to 15; 15 when it comes without a value, which says that the client can be limited.
    client_max_window_bits: Option<u8>,
}

/// What both ends have agreed on, or what ours would like to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The server keeps its window from message to message: better compression for about 256 KiB on each connection.
    pub server_context_takeover: bool,
    /// The client does: the server keeps 32 KiB and more to inflate.
    pub client_context_takeover: bool,
    /// The server's window, 9 to 15, as a power of 2.
    pub server_window_bits: u8,
    /// The client's window, 8 to 15, as a power of 2.
    pub client_window_bits: u8,
}

impl Compression {
    /// Each message for itself: nothing is kept between messages.
    pub const WITHOUT_TAKEOVER: Compression = Compression {
        server_context_takeover: false,
        client_context_takeover: false,
        server_window_bits: WINDOW_BITS_MAX,
        client_window_bits: WINDOW_BITS_MAX,
    };

    /// Messages refer to those before: the best compression, for about 330 KiB on each connection that uses it.
    pub const WITH_TAKEOVER: Compression = Compression {
        server_context_takeover: true,
        client_context_takeover: true,
        server_window_bits: WINDOW_BITS_MAX,
        client_window_bits: WINDOW_BITS_MAX,
    };
}

impl Offer {
    /// Reads one element of `Sec-WebSocket-Extensions`. `None` for another extension, and for an offer that must be
    /// declined: with a parameter that is unknown, given twice or out of range.
    #[must_use]
    pub fn parse(element: &[u8]) -> Option<Offer> {
        let mut parts = element.split(|&byte| byte == b';').map(trim);
        if parts.next() != Some(b"permessage-deflate") {
            return None;
        }
        let mut offer = Offer::default();
        for part in parts {
            let mut pair = part.splitn(2, |&byte| byte == b'=').map(trim);
            let (name, value) = (pair.next()?, pair.next());
            let was_set = match (name, value) {
                (b"server_no_context_takeover", None) => std::mem::replace(&mut offer.server_no_context_takeover, true),
                (b"client_no_context_takeover", None) => std::mem::replace(&mut offer.client_no_context_takeover, true),
                (b"server_max_window_bits", Some(value)) => {
                    offer.server_max_window_bits.replace(window_bits(value)?).is_some()
                }
                (b"client_max_window_bits", value) => {
                    let bits = value.map_or(Some(WINDOW_BITS_MAX), window_bits)?;
                    offer.client_max_window_bits.replace(bits).is_some()
                }
                _ => return None,
            };
            if was_set {
                return None;
            }
        }
        Some(offer)
    }

    /// The agreement, if the offer can be taken: within what the client offers, as near to `ours` as it goes. The
    /// deflate that is used has no window of 256 bytes, so an offer that insists on one is declined.
    #[must_use]
    pub fn accept(&self, ours: Compression) -> Option<Compression> {
        let server_window_bits = self.server_max_window_bits.unwrap_or(WINDOW_BITS_MAX).min(ours.server_window_bits);
        let client_window_bits = self.client_max_window_bits.map(|bits| bits.min(ours.client_window_bits));
        if server_window_bits < WINDOW_BITS_MIN {
            return None;
        }
        Some(Compression {
            server_context_takeover: ours.server_context_takeover && !self.server_no_context_takeover,
            client_context_takeover: ours.client_context_takeover && !self.client_no_context_takeover,
            server_window_bits,
            // A client that does not say that it can be limited cannot be.
            client_window_bits: client_window_bits.unwrap_or(WINDOW_BITS_MAX),
        })
    }
}

/// The element of `Sec-WebSocket-Extensions` that answers the offer.
impl std::fmt::Display for Compression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("permessage-deflate")?;
        if !self.server_context_takeover {
            f.write_str("; server_no_context_takeover")?;
        }
        if !self.client_context_takeover {
            f.write_str("; client_no_context_takeover")?;
        }
        if self.server_window_bits < WINDOW_BITS_MAX {
            write!(f, "; server_max_window_bits={}", self.server_window_bits)?;
        }
        if self.client_window_bits < WINDOW_BITS_MAX {
            write!(f, "; client_max_window_bits={}", self.client_window_bits)?;
        }
        Ok(())
    }
}

/// 8 to 15 without leading zeros, perhaps quoted (RFC 7692 7.1.2).
fn window_bits(value: &[u8]) -> Option<u8> {
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

const WINDOW_BITS_MAX: u8 = 15;
const WINDOW_BITS_MIN: u8 = 9;
