//! What a peer may send.

/// Limits of a [`Decoder`](super::Decoder).
///
/// ```
/// use plimsoll_codec::ws::Limits;
///
/// let limits = Limits { fragments_max: 16, ..Limits::DEFAULT };
/// assert_eq!(limits.message_bytes_max, 1 << 20);
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a message at most, all fragments together; of a compressed one, before and after inflation.
    pub message_bytes_max: u32,
    /// Frames of a message at most, empty ones included.
    pub fragments_max: u32,
}

impl Limits {
    /// 1 MiB in 128 fragments.
    pub const DEFAULT: Limits = Limits { message_bytes_max: 1 << 20, fragments_max: 128 };
}

impl Default for Limits {
    fn default() -> Limits {
        Limits::DEFAULT
    }
}
