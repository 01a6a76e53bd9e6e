//! SETTINGS (RFC 9113 6.5): what we say, and what a peer may.

use super::Limits;
use super::frame::{FRAME_HEADER_BYTES, FrameHeader, kind};
use crate::Error;

/// What a peer's settings change here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    HeaderTableBytes(u32),
    InitialWindow(i32),
    FrameBytes(u32),
    /// Known, and without a meaning for us; or not known.
    Nothing,
}

/// Reads and checks one setting.
pub(super) fn setting(entry: [u8; 6]) -> Result<Setting, Error> {
    let [a, b, c, d, e, f] = entry;
    let value = u32::from_be_bytes([c, d, e, f]);
    match u16::from_be_bytes([a, b]) {
        1 => Ok(Setting::HeaderTableBytes(value)),
        // Push, extended CONNECT and RFC 9218 priorities are switches.
        2 | 8 | 9 if value > 1 => Err(Error::SettingInvalid),
        4 => i32::try_from(value).map(Setting::InitialWindow).map_err(|_| Error::WindowOverflow),
        5 if (16_384..1 << 24).contains(&value) => Ok(Setting::FrameBytes(value)),
        5 => Err(Error::SettingInvalid),
        _ => Ok(Setting::Nothing),
    }
}

/// Our own settings, a whole frame. The size of a frame and of the decoder's table stay as the protocol has them.
pub(super) fn ours(limits: &Limits) -> [u8; SETTINGS_FRAME_BYTES] {
    let entries: [(u16, u32); ENTRIES] = [
        (3, limits.streams_max.into()),
        (4, limits.window_bytes),
        (6, limits.header_list_bytes_max.into()),
        // Extended CONNECT (RFC 8441 3).
        (8, 1),
        // No priorities of RFC 7540 (RFC 9218 2.1).
        (9, 1),
    ];
    let mut frame = [0; SETTINGS_FRAME_BYTES];
    let header = FrameHeader { len: ENTRIES * 6, kind: kind::SETTINGS, flags: 0, stream: 0 };
    frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
    for ((name, value), place) in entries.iter().zip(frame[FRAME_HEADER_BYTES..].chunks_exact_mut(6)) {
        place[..2].copy_from_slice(&name.to_be_bytes());
        place[2..].copy_from_slice(&value.to_be_bytes());
    }
    frame
}

const ENTRIES: usize = 5;
const SETTINGS_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 6 * ENTRIES;
/// More settings than that in a frame are a flood; six are registered for servers to see.
pub(super) const SETTINGS_MAX: usize = 32;
