//! Heads of frames (RFC 6455 5.2).

use super::Mask;
use crate::Error;

/// What a frame is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Opcode {
    /// Goes on with the message that was begun.
    Continuation,
    /// Begins a message that is UTF-8.
    Text,
    /// Begins a message of any bytes.
    Binary,
    /// Ends the connection.
    Close,
    /// Asks for a pong with the same payload.
    Ping,
    /// Answers a ping, or says that somebody is there.
    Pong,
}

impl Opcode {
    const fn parse(byte: u8) -> Option<Opcode> {
        Some(match byte {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return None,
        })
    }

    const fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0,
            Opcode::Text => 1,
            Opcode::Binary => 2,
            Opcode::Close => 8,
            Opcode::Ping => 9,
            Opcode::Pong => 10,
        }
    }

    /// Whether it is a control frame: short, never in fragments, allowed between those of a message.
    #[must_use]
    pub const fn is_control(self) -> bool {
        matches!(self, Opcode::Close | Opcode::Ping | Opcode::Pong)
    }
}

/// The head of a frame.
///
/// ```
/// use plimsoll_codec::ws::{FrameHead, Opcode};
///
/// assert_eq!(FrameHead::message(Opcode::Binary, 200).encode().as_bytes(), [0x82, 126, 0, 200]);
/// let first = FrameHead { is_final: false, ..FrameHead::message(Opcode::Text, 2) };
/// assert_eq!(first.encode().as_bytes(), [0x01, 2]);
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The last frame of its message.
    pub is_final: bool,
    /// Begins a message that is compressed (RSV1, RFC 7692 6).
    pub is_compressed: bool,
    /// What it is.
    pub opcode: Opcode,
    /// The key of the mask, for frames of a client.
    pub mask: Option<[u8; 4]>,
    /// Bytes of payload, below 2^63.
    pub payload_bytes: u64,
}

impl FrameHead {
    /// A message or control frame in one frame, not compressed, without a mask.
    #[must_use]
    pub const fn message(opcode: Opcode, payload_bytes: u64) -> FrameHead {
        FrameHead { is_final: true, is_compressed: false, opcode, mask: None, payload_bytes }
    }

    /// The same with a mask. A client takes a key that nobody can guess for each frame (RFC 6455 5.3).
    #[must_use]
    pub const fn masked(self, key: [u8; 4]) -> FrameHead {
        FrameHead { mask: Some(key), ..self }
    }

    /// Masks a whole payload, if the frame has a mask.
    pub fn mask(&self, payload: &mut [u8]) {
        if let Some(key) = self.mask {
            Mask::new(key).apply(payload);
        }
    }

    /// The head as it is sent: 2 to 10 bytes, and 4 more for a mask.
    #[must_use]
    pub fn encode(&self) -> HeadBytes {
        debug_assert!(!self.opcode.is_control() || self.payload_bytes <= CONTROL_BYTES_MAX as u64, "a control frame");
        debug_assert!(self.payload_bytes >> 63 == 0, "a length has 63 bits");
        let mut head = HeadBytes { bytes: [0; HEAD_BYTES_MAX], len: 2 };
        head.bytes[0] = u8::from(self.is_final) << 7 | u8::from(self.is_compressed) << 6 | self.opcode.bits();
        let length = match self.payload_bytes {
            0..=125 => self.payload_bytes as u8,
            126..=0xFFFF => {
                head.put(&(self.payload_bytes as u16).to_be_bytes());
                126
            }
            _ => {
                head.put(&self.payload_bytes.to_be_bytes());
                127
            }
        };
        head.bytes[1] = u8::from(self.mask.is_some()) << 7 | length;
        if let Some(key) = self.mask {
            head.put(&key);
        }
        head
    }

    /// The head that `input` begins with and how long it is; `None` when more of it is needed. What can be refused is
    /// refused with its first bytes; fields that depend on the role or on extensions are the caller's to check.
    pub(super) fn parse(input: &[u8]) -> Result<Option<(FrameHead, usize)>, Error> {
        let Some(&first) = input.first() else { return Ok(None) };
        let opcode = Opcode::parse(first & 0x0F).ok_or(Error::WebSocketReserved)?;
        let (is_final, is_compressed) = (first & 0x80 != 0, first & 0x40 != 0);
        if first & 0x30 != 0 || (is_compressed && (opcode.is_control() || opcode == Opcode::Continuation)) {
            return Err(Error::WebSocketReserved);
        }
        if opcode.is_control() && !is_final {
            return Err(Error::WebSocketControlInvalid);
        }
        let Some(&second) = input.get(1) else { return Ok(None) };
        let short = second & 0x7F;
        if opcode.is_control() && usize::from(short) > CONTROL_BYTES_MAX {
            return Err(Error::WebSocketControlInvalid);
        }
        let (payload_bytes, mut at) = match short {
            126 => {
                let Some(&length) = input[2..].first_chunk::<2>() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(length)), 4)
            }
            127 => {
                let Some(&length) = input[2..].first_chunk::<8>() else { return Ok(None) };
                (u64::from_be_bytes(length), 10)
            }
            short => (u64::from(short), 2),
        };
        let is_shortest = match short {
            126 => payload_bytes > 125,
            127 => payload_bytes > 0xFFFF && payload_bytes >> 63 == 0,
            _ => true,
        };
        if !is_shortest {
            return Err(Error::WebSocketLengthInvalid);
        }
        let mut mask = None;
        if second & 0x80 != 0 {
            let Some(&key) = input[at..].first_chunk::<4>() else { return Ok(None) };
            mask = Some(key);
            at += 4;
        }
        Ok(Some((FrameHead { is_final, is_compressed, opcode, mask, payload_bytes }, at)))
    }
}

/// An encoded head.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeadBytes {
    bytes: [u8; HEAD_BYTES_MAX],
    /// 2 to 14.
    len: u8,
}

impl HeadBytes {
    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }
}

/// Bytes of a head at most.
pub const HEAD_BYTES_MAX: usize = 14;
/// Bytes of the payload of a control frame at most (RFC 6455 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;
