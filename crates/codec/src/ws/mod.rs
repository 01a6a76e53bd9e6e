//! WebSocket (RFC 6455) for both ends, with permessage-deflate (RFC 7692) behind the feature `deflate`.
//!
//! ```text
//!  handshake:  RequestView --> Handshake::check --> accept key, subprotocol, compression --> 101
//!  in:         bytes --> Decoder::decode --> Begin, Data ..., End | Ping | Pong | Close
//!  out:        FrameHead::encode --> 2 to 14 bytes, to be sent before the payload
//! ```
//!
//! The decoder keeps no payload: it unmasks in the caller's buffer and says which bytes of it are data. What it does
//! not consume is to be given again with more behind it: at most a head, or a control frame, of 139 bytes. However long
//! a frame says it is, nothing is allocated for it.
//!
//! ```
//! use plimsoll_codec::ws::{Decoder, Event, FrameHead, Limits, Opcode, Role};
//!
//! // A client sends a text ...
//! let head = FrameHead::message(Opcode::Text, 5).masked([1, 2, 3, 4]);
//! let mut bytes = head.encode().as_bytes().to_vec();
//! let mut payload = *b"hello";
//! head.mask(&mut payload);
//! bytes.extend_from_slice(&payload);
//!
//! // ... which the server reads in place.
//! let mut decoder = Decoder::new(Role::Server, Limits::DEFAULT);
//! let (mut at, mut text) = (0, Vec::new());
//! loop {
//!     let decoded = decoder.decode(&mut bytes[at..], 0)?;
//!     match decoded.event {
//!         Event::Data(range) => text.extend_from_slice(&bytes[at..][range]),
//!         Event::End => break,
//!         _ => {}
//!     }
//!     at += decoded.consumed;
//! }
//! assert_eq!(text, b"hello");
//! # Ok::<(), plimsoll_codec::Error>(())
//! ```

mod close;
mod decoder;
#[cfg(feature = "deflate")]
mod deflate;
mod frame;
mod handshake;
mod limits;
mod mask;
mod negotiate;
mod utf8;

pub use close::CloseCode;
pub use decoder::{Decoded, Decoder, Event, PeerRecord};
#[cfg(feature = "deflate")]
pub use deflate::{Deflater, Inflater};
pub use frame::{CONTROL_BYTES_MAX, FrameHead, HEAD_BYTES_MAX, HeadBytes, Opcode};
pub use handshake::{AcceptKey, Handshake, accept_key, client_key};
pub use limits::Limits;
pub use mask::Mask;
pub use negotiate::{Compression, Offer};
pub use utf8::Utf8;

/// Which end of the connection we are.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Takes masked frames only, and sends frames without a mask.
    Server,
    /// Takes frames without a mask only, and masks what it sends.
    Client,
}

#[cfg(test)]
mod tests;
