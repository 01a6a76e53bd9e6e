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

/// What our settings say that may be less than the limits for a while.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) streams_max: u16,
    pub(super) window_bytes: u32,
}

impl Offer {
    /// At least one stream with a window worth the name, and no more than the limits.
    pub(super) fn within(limits: &Limits, streams_max: u16, window_bytes: u32) -> Offer {
        Offer {
            streams_max: streams_max.clamp(1, limits.streams_max),
            window_bytes: window_bytes.clamp(WINDOW_BYTES_MIN, limits.window_bytes),
        }
    }

    const fn entries(self) -> [(u16, u32); 2] {
        [(3, self.streams_max as u32), (4, self.window_bytes)]
    }

    /// A frame that says this and nothing else.
    pub(super) fn frame(self) -> [u8; OFFER_FRAME_BYTES] {
        encode(&self.entries())
    }
}

/// Our own settings, a whole frame. The size of a frame and of the decoder's table stay as the protocol has them.
pub(super) fn ours(limits: &Limits, offer: Offer) -> [u8; SETTINGS_FRAME_BYTES] {
    let [streams, window] = offer.entries();
    let entries: [(u16, u32); ENTRIES] = [
        streams,
        window,
        (6, limits.header_list_bytes_max.into()),
        // Extended CONNECT (RFC 8441 3).
        (8, 1),
        // No priorities of RFC 7540 (RFC 9218 2.1).
        (9, 1),
    ];
    encode(&entries)
}

fn encode<const BYTES: usize>(entries: &[(u16, u32)]) -> [u8; BYTES] {
    let mut frame = [0; BYTES];
    let header = FrameHeader { len: entries.len() * 6, kind: kind::SETTINGS, flags: 0, stream: 0 };
    frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode());
    for ((name, value), place) in entries.iter().zip(frame[FRAME_HEADER_BYTES..].chunks_exact_mut(6)) {
        place[..2].copy_from_slice(&name.to_be_bytes());
        place[2..].copy_from_slice(&value.to_be_bytes());
    }
    frame
}

const ENTRIES: usize = 5;
const SETTINGS_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 6 * ENTRIES;
const OFFER_FRAME_BYTES: usize = FRAME_HEADER_BYTES + 6 * 2;
/// As the limit itself.
const WINDOW_BYTES_MIN: u32 = 1_024;
/// More settings than that in a frame are a flood; six are registered for servers to see.
pub(super) const SETTINGS_MAX: usize = 32;
