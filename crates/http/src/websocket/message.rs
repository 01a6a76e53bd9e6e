//! Messages.

use std::borrow::Cow;

use plimsoll_codec::ws::Opcode;
use plimsoll_pool::Charge;
use plimsoll_runtime::{Kind, Lease, OverBudget};

use crate::Body;

/// A message of a WebSocket.
///
/// ```
/// use plimsoll_http::Message;
///
/// let message = Message::text("hello");
/// assert_eq!((message.as_text(), message.as_bytes()), (Some("hello"), &b"hello"[..]));
/// assert_eq!(Message::binary(vec![0xFF]).as_text(), None);
/// ```
#[derive(Debug)]
pub struct Message {
    is_text: bool,
    body: Body,
    /// For a body that was put together on the heap.
    charge: Option<Charge>,
}

impl Message {
    /// A text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        let body = match text.into() {
            Cow::Borrowed(text) => Body::from(text),
            Cow::Owned(text) => Body::from(text),
        };
        Self { is_text: true, body, charge: None }
    }

    /// Any bytes.
    pub fn binary(bytes: impl Into<Body>) -> Self {
        Self { is_text: false, body: bytes.into(), charge: None }
    }

    /// Whether it is a text.
    pub fn is_text(&self) -> bool {
        self.is_text
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        if self.is_text { ::core::str::from_utf8(self.as_bytes()).ok() } else { None }
    }

    /// The bytes, of a text too.
    pub fn as_bytes(&self) -> &[u8] {
        self.body.as_slice()
    }

    pub(super) fn opcode(&self) -> Opcode {
        if self.is_text { Opcode::Text } else { Opcode::Binary }
    }

    /// The bytes, and what they are charged with if they are on the heap.
    pub(super) fn into_parts(self) -> (Body, Option<Charge>) {
        (self.body, self.charge)
    }
}

/// A message that is not complete.
#[derive(Debug)]
pub(super) struct Partial {
    pub(super) is_text: bool,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    None,
    /// All in one part, as it was received.
    Received(Lease),
    /// More than one part.
    Gathered(Vec<u8>, Charge),
}

impl Partial {
    pub(super) fn new(is_text: bool) -> Self {
        Self { is_text, bytes: Bytes::None }
    }

    /// Whether a part can be given as it is.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.bytes, Bytes::None)
    }

    /// The first part, without a copy.
    pub(super) fn set(&mut self, part: Lease) {
        debug_assert!(self.is_empty(), "the first part");
        self.bytes = Bytes::Received(part);
    }

    /// A copy of the next part. What it needs is charged before, and is at most twice what has come.
    pub(super) fn push(&mut self, part: &[u8]) -> Result<(), OverBudget> {
        let (mut bytes, mut charge) = match ::core::mem::replace(&mut self.bytes, Bytes::None) {
            Bytes::Gathered(bytes, charge) => (bytes, charge),
            Bytes::Received(lease) => {
                let charge = plimsoll_runtime::budget().charge(Kind::Buffers, lease.len() as u64)?;
                (lease.to_vec(), charge)
            }
            Bytes::None => (Vec::new(), plimsoll_runtime::budget().charge(Kind::Buffers, 0)?),
        };
        let needed = bytes.len() + part.len();
        if needed > bytes.capacity() {
            let capacity = needed.max(2 * bytes.len());
            charge.grow((capacity as u64).saturating_sub(charge.bytes()))?;
            bytes.reserve_exact(capacity - bytes.len());
        }
        bytes.extend_from_slice(part);
        self.bytes = Bytes::Gathered(bytes, charge);
        Ok(())
    }

    pub(super) fn finish(self) -> Message {
        let (body, charge) = match self.bytes {
            Bytes::None => (Body::Empty, None),
            Bytes::Received(lease) => (Body::Lease(lease), None),
            Bytes::Gathered(bytes, charge) => (Body::from(bytes), Some(charge)),
        };
        Message { is_text: self.is_text, body, charge }
    }
}
