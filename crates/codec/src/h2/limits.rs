//! Bounds of one HTTP/2 connection, validated once.

use crate::Error;
use crate::h1::FIELDS_CEILING;
use crate::hpack::discard::PART_BYTES_MAX;

/// Bounds on what a peer may send and make us do. Each method checks one and returns the changed limits.
///
/// ```
/// use plimsoll_codec::h2::Limits;
///
/// let limits = Limits::DEFAULT.streams_max(32)?.window_bytes(65_535)?;
/// assert!(limits.streams_max(0).is_err());
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub(super) streams_max: u16,
    pub(super) header_list_bytes_max: u16,
    pub(super) fields_max: u16,
    pub(super) window_bytes: u32,
    pub(super) continuations_max: u8,
    pub(super) control_frames_max: u16,
    pub(super) empty_frames_max: u8,
    pub(super) resets_burst: u16,
    pub(super) resets_per_second: u16,
    pub(super) encoder_table_bytes_max: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

impl Limits {
    /// The limits that hold if nothing else is asked for.
    pub const DEFAULT: Limits = Limits {
        streams_max: 128,
        header_list_bytes_max: 16_384,
        fields_max: 100,
        window_bytes: 16_384,
        continuations_max: 8,
        control_frames_max: 64,
        empty_frames_max: 8,
        resets_burst: 100,
        resets_per_second: 20,
        encoder_table_bytes_max: 4_096,
    };

    /// Most streams at a time, 1 to 1,024; default 128.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`], as all of these methods.
    pub fn streams_max(self, streams: u16) -> Result<Self, Error> {
        check((1..=1_024).contains(&streams), Limits { streams_max: streams, ..self })
    }

    /// Largest header list in bytes, with 32 for each field, 4,096 to 32,768; default 16,384. A request with a larger
    /// one is answered with 431. So is one whose block is larger in its compressed form, as far as its CONTINUATION
    /// frames are [allowed](Limits::continuations_max).
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn header_list_bytes_max(self, bytes: u16) -> Result<Self, Error> {
        check((4_096..=32_768).contains(&bytes), Limits { header_list_bytes_max: bytes, ..self })
    }

    /// Most fields in a list, pseudo-header fields and each cookie crumb counted, 8 to [`FIELDS_CEILING`]; default 100.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn fields_max(self, fields: u16) -> Result<Self, Error> {
        check((8..=FIELDS_CEILING as u16).contains(&fields), Limits { fields_max: fields, ..self })
    }

    /// The window with which a stream begins, in bytes, 1,024 to 1 MiB; default 16,384.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn window_bytes(self, bytes: u32) -> Result<Self, Error> {
        check((1_024..=1 << 20).contains(&bytes), Limits { window_bytes: bytes, ..self })
    }

    /// The window with which a stream begins, in bytes.
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window_bytes
    }

    /// Most streams at a time.
    #[must_use]
    pub const fn streams(&self) -> u16 {
        self.streams_max
    }

    /// Most CONTINUATION frames of a header block, up to 64; default 8. One more ends the connection.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn continuations_max(self, frames: u8) -> Result<Self, Error> {
        check(frames <= 64, Limits { continuations_max: frames, ..self })
    }

    /// Most control frames that wait for the peer to read, 8 to 1,024; default 64.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn control_frames_max(self, frames: u16) -> Result<Self, Error> {
        check((8..=1_024).contains(&frames), Limits { control_frames_max: frames, ..self })
    }

    /// Resets that a peer may cause at once, and a second after that; default 100 and 20. For every four streams
    /// that both sides complete, one more.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`] if either is 0.
    pub fn resets_max(self, burst: u16, per_second: u16) -> Result<Self, Error> {
        let limits = Limits { resets_burst: burst, resets_per_second: per_second, ..self };
        check(burst > 0 && per_second > 0, limits)
    }

    /// Our own table for response fields, up to 4,096 bytes; default 4,096. The caller's storage for it needs as many
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`Error::LimitInvalid`].
    pub fn encoder_table_bytes_max(self, bytes: u16) -> Result<Self, Error> {
        let is_valid = usize::from(bytes) <= crate::hpack::TABLE_BYTES;
        check(is_valid, Limits { encoder_table_bytes_max: bytes, ..self })
    }

    /// Bytes that [`Storage::bytes`](super::Storage::bytes) needs: a header list, and a block that came in several
    /// frames.
    #[must_use]
    pub const fn scratch_bytes(&self) -> usize {
        self.header_list_bytes() + self.assembly_bytes()
    }

    pub(super) const fn header_list_bytes(&self) -> usize {
        self.header_list_bytes_max as usize
    }

    /// Where blocks are put together, and parts of those that are too long.
    const fn assembly_bytes(&self) -> usize {
        if self.block_bytes() > PART_BYTES_MAX { self.block_bytes() } else { PART_BYTES_MAX }
    }

    /// A block is hardly ever longer than the list it stands for.
    pub(super) const fn block_bytes(&self) -> usize {
        self.header_list_bytes()
    }
}

fn check(is_valid: bool, limits: Limits) -> Result<Limits, Error> {
    if is_valid { Ok(limits) } else { Err(Error::LimitInvalid) }
}
