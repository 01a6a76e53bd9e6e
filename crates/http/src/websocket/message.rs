//! Messages.

use std::borrow::Cow;

use plimsoll_codec::ws::Opcode;

use crate::Body;
use crate::exchange::user_code::UserBody;

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
    body: UserBody,
}

impl Message {
    /// A text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        let body = match text.into() {
            Cow::Borrowed(text) => Body::from(text),
            Cow::Owned(text) => Body::from(text),
        };
        Self { is_text: true, body: body.into() }
    }

    /// Any bytes.
    pub fn binary(bytes: impl Into<Body>) -> Self {
        Self { is_text: false, body: bytes.into().into() }
    }

    pub(super) fn received(is_text: bool, body: Body) -> Self {
        Self { is_text, body: body.into() }
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

    pub(super) fn body_mut(&mut self) -> &mut Body {
        &mut self.body
    }
}
