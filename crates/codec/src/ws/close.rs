//! Why a WebSocket is closed (RFC 6455 7.4).

/// The code of a close frame.
///
/// ```
/// use plimsoll_codec::ws::CloseCode;
///
/// assert!(CloseCode(4_000).is_sendable());
/// // Stands for a close frame without a code, and is never sent.
/// assert!(!CloseCode(1_005).is_sendable());
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct CloseCode(pub u16);

impl CloseCode {
    /// The purpose is fulfilled.
    pub const NORMAL: CloseCode = CloseCode(1_000);
    /// The server stops, or the page is left.
    pub const GOING_AWAY: CloseCode = CloseCode(1_001);
    /// The peer broke the protocol.
    pub const PROTOCOL: CloseCode = CloseCode(1_002);
    /// A kind of message that is not taken here.
    pub const UNSUPPORTED: CloseCode = CloseCode(1_003);
    /// A message with content that does not fit its kind, such as a text that is not UTF-8.
    pub const INVALID: CloseCode = CloseCode(1_007);
    /// A message that is against the rules of the application.
    pub const POLICY: CloseCode = CloseCode(1_008);
    /// A message that is too large.
    pub const TOO_LARGE: CloseCode = CloseCode(1_009);
    /// The server met something that it cannot go on with.
    pub const UNEXPECTED: CloseCode = CloseCode(1_011);
    /// The server has no room at present (IANA registry).
    pub const TRY_LATER: CloseCode = CloseCode(1_013);

    /// Whether it may stand in a close frame: what RFC 6455 and the IANA registry define for that, libraries (3000 to
    /// 3999) and applications (4000 to 4999).
    #[must_use]
    pub const fn is_sendable(self) -> bool {
        matches!(self.0, 1_000..=1_003 | 1_007..=1_014 | 3_000..=4_999)
    }
}
