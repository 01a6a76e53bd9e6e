//! Control frames that we send.

use plimsoll_codec::ws::{CONTROL_BYTES_MAX, CloseCode, FrameHead, Opcode};
use plimsoll_runtime::{OverBudget, Pool};

use crate::exchange::output::Output;

pub(super) fn put_control(output: &mut Output, pool: &Pool, opcode: Opcode, parts: &[&[u8]]) -> Result<(), OverBudget> {
    output.append(pool, ControlFrame::new(opcode, parts).as_bytes())
}

/// A whole control frame.
pub(super) struct ControlFrame {
    bytes: [u8; CONTROL_BYTES_MAX + 2],
    len: u8,
}

impl ControlFrame {
    pub(super) fn new(opcode: Opcode, parts: &[&[u8]]) -> Self {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(len <= CONTROL_BYTES_MAX, "a control frame");
        let mut bytes = [0; CONTROL_BYTES_MAX + 2];
        bytes[..2].copy_from_slice(FrameHead::message(opcode, len as u64).encode().as_bytes());
        let mut at = 2;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self { bytes, len: at as u8 }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The close frame of a code that we send ourselves: it needs no room.
pub(super) fn static_close(code: Option<CloseCode>) -> Option<&'static [u8]> {
    Some(match code? {
        CloseCode::NORMAL => CLOSE_NORMAL,
        CloseCode::GOING_AWAY => &[0x88, 2, 0x03, 0xE9],
        CloseCode::PROTOCOL => &[0x88, 2, 0x03, 0xEA],
        CloseCode::UNSUPPORTED => &[0x88, 2, 0x03, 0xEB],
        CloseCode::INVALID => &[0x88, 2, 0x03, 0xEF],
        CloseCode::POLICY => &[0x88, 2, 0x03, 0xF0],
        CloseCode::TOO_LARGE => &[0x88, 2, 0x03, 0xF1],
        CloseCode::UNEXPECTED => &[0x88, 2, 0x03, 0xF3],
        CloseCode::TRY_LATER => &[0x88, 2, 0x03, 0xF5],
        _ => return None,
    })
}

const CLOSE_NORMAL: &[u8] = &[0x88, 2, 0x03, 0xE8];
/// A ping without payload.
pub(super) const PING: &[u8] = &[0x89, 0];
