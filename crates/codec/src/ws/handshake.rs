//! The opening handshake (RFC 6455 4).

use http::{Method, Version};

use super::Offer;
use crate::Error;
use crate::h1::RequestView;
use crate::h1::syntax::{is_token, trim};

/// A request for a WebSocket that may be accepted.
///
/// ```
/// use plimsoll_codec::h1::{self, FieldSlot, Limits, RequestView};
/// use plimsoll_codec::ws::Handshake;
///
/// let head = b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
///     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
///     Sec-WebSocket-Protocol: v2.chat, v1.chat\r\n\r\n";
/// let mut slots = [FieldSlot::EMPTY; 8];
/// let request = h1::parse_head(head, &mut slots, &Limits::DEFAULT)?;
/// let view = RequestView::new(head, &slots[..], &request);
/// let handshake = Handshake::check(&view)?;
/// assert_eq!(handshake.accept().map(|key| key.to_string()).as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
/// assert_eq!(handshake.choose_subprotocol(&["v1.chat", "v0.chat"]), Some("v1.chat"));
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct Handshake<'a> {
    view: RequestView<'a>,
    accept: Option<AcceptKey>,
}

impl<'a> Handshake<'a> {
    /// Checks a request of HTTP/1.1 (RFC 6455 4.2.1), or an extended CONNECT of HTTP/2 (RFC 8441 5), which has no key.
    /// Its Origin is the caller's to judge: see [`origin`](Self::origin).
    ///
    /// # Errors
    ///
    /// [`Error::WebSocketUpgradeMissing`], [`Error::WebSocketVersionUnsupported`] (to be answered with
    /// `Sec-WebSocket-Version: 13`), [`Error::WebSocketHandshakeInvalid`]; their [`status`](Error::status) is the
    /// answer.
    pub fn check(view: &RequestView<'a>) -> Result<Handshake<'a>, Error> {
        if *view.method() == Method::CONNECT && view.version() == Version::HTTP_2 {
            if !view.upgrade().is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket")) {
                return Err(Error::WebSocketUpgradeMissing);
            }
            if only_field(view, "sec-websocket-version") != Some(b"13") {
                return Err(Error::WebSocketVersionUnsupported);
            }
            return Ok(Handshake { view: *view, accept: None });
        }
        let asks = has_element(view, "connection", "upgrade") && has_element(view, "upgrade", "websocket");
        if !asks || view.version() != Version::HTTP_11 {
            return Err(Error::WebSocketUpgradeMissing);
        }
        if *view.method() != Method::GET || view.framing().has_body() {
            return Err(Error::WebSocketHandshakeInvalid);
        }
        if only_field(view, "sec-websocket-version") != Some(b"13") {
            return Err(Error::WebSocketVersionUnsupported);
        }
        let key = only_field(view, "sec-websocket-key").filter(|key| is_key(key));
        let key = key.ok_or(Error::WebSocketHandshakeInvalid)?;
        Ok(Handshake { view: *view, accept: Some(accept_key(key)) })
    }

    /// What `Sec-WebSocket-Accept` says in the answer, a 101; `None` for a stream of HTTP/2, which is answered with
    /// 200.
    #[must_use]
    pub const fn accept(&self) -> Option<AcceptKey> {
        self.accept
    }

    /// Where the page that asks comes from; browsers always say it (RFC 6455 10.2).
    #[must_use]
    pub fn origin(&self) -> Option<&'a [u8]> {
        self.view.field("origin")
    }

    /// The subprotocols that the client speaks, best first.
    pub fn subprotocols(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        elements(&self.view, "sec-websocket-protocol").filter(|name| is_token(name))
    }

    /// The first of the client's subprotocols that is one of ours. It goes into the answer; if there is none, no such
    /// field does.
    #[must_use]
    pub fn choose_subprotocol<'s>(&self, ours: &[&'s str]) -> Option<&'s str> {
        self.subprotocols().find_map(|name| ours.iter().copied().find(|own| own.as_bytes() == name))
    }

    /// The offers of permessage-deflate that are well formed, best first.
    pub fn compression_offers(&self) -> impl Iterator<Item = Offer> + use<'a> {
        elements(&self.view, "sec-websocket-extensions").filter_map(Offer::parse)
    }
}

/// The value of `Sec-WebSocket-Accept`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct AcceptKey([u8; 28]);

impl AcceptKey {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let text = std::str::from_utf8(&self.0);
        debug_assert!(text.is_ok(), "base64 is ASCII");
        text.unwrap_or_default()
    }
}

impl std::fmt::Display for AcceptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a server answers to a key (RFC 6455 4.2.2); a client compares.
#[must_use]
pub fn accept_key(key: &[u8]) -> AcceptKey {
    let mut hash = sha1_smol::Sha1::new();
    hash.update(key);
    hash.update(GUID);
    let mut accept = [0; 28];
    base64(&hash.digest().bytes(), &mut accept);
    AcceptKey(accept)
}

/// The key of a client, from 16 bytes that were chosen at random.
///
/// ```
/// assert_eq!(&plimsoll_codec::ws::client_key(*b"the sample nonce"), b"dGhlIHNhbXBsZSBub25jZQ==");
/// ```
#[must_use]
pub fn client_key(nonce: [u8; 16]) -> [u8; 24] {
    let mut key = [0; 24];
    base64(&nonce, &mut key);
    key
}

/// The elements of a list field, over all its lines.
fn elements<'a>(view: &RequestView<'a>, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let lines = view.fields_named(name);
    lines.flat_map(|line| line.split(|&byte| byte == b',')).map(trim).filter(|element| !element.is_empty())
}

fn has_element(view: &RequestView<'_>, name: &'static str, element: &str) -> bool {
    elements(view, name).any(|found| found.eq_ignore_ascii_case(element.as_bytes()))
}

fn only_field<'a>(view: &RequestView<'a>, name: &'static str) -> Option<&'a [u8]> {
    let mut lines = view.fields_named(name);
    let first = lines.next()?;
    lines.next().is_none().then_some(first)
}

/// Whether it is 16 bytes in base64. The last digit has four bits that do not matter; some clients set them.
fn is_key(key: &[u8]) -> bool {
    let [digits @ .., b'=', b'='] = key else { return false };
    digits.len() == 22 && digits.iter().all(|digit| DIGITS.contains(digit))
}

fn base64(bytes: &[u8], out: &mut [u8]) {
    debug_assert_eq!(out.len(), bytes.len().div_ceil(3) * 4, "four digits for three bytes");
    for (three, four) in bytes.chunks(3).zip(out.chunks_exact_mut(4)) {
        let mut bits = 0;
        for at in 0..3 {
            bits = bits << 8 | u32::from(three.get(at).copied().unwrap_or_default());
        }
        for (at, digit) in four.iter_mut().enumerate() {
            let value = bits >> (18 - 6 * at) & 0x3F;
            *digit = if at > three.len() { b'=' } else { DIGITS[value as usize] };
        }
    }
}

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
