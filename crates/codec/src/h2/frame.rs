//! Frame headers, types, flags and error codes (RFC 9113 4.1, 6, 7).

use crate::Error;

/// The nine bytes before each frame's payload.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload, 24 bits.
    pub len: usize,
    /// What the payload is.
    pub kind: u8,
    /// Flags, whose meaning depends on the kind.
    pub flags: u8,
    /// The stream, 31 bits; 0 is the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads a header; `None` if there are fewer than nine bytes. The reserved bit is ignored.
    #[inline]
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        let &[a, b, c, kind, flags, e, f, g, h] = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        Some(FrameHeader {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([e, f, g, h]) & STREAM_ID_MAX,
        })
    }

    /// The header as bytes.
    ///
    /// ```
    /// use plimsoll_codec::h2::FrameHeader;
    ///
    /// let header = FrameHeader { len: 8, kind: 6, flags: 1, stream: 0 };
    /// assert_eq!(header.encode(), [0, 0, 8, 6, 1, 0, 0, 0, 0]);
    /// assert_eq!(FrameHeader::parse(&header.encode()), Some(header));
    /// ```
    #[inline]
    #[must_use]
    pub const fn encode(self) -> [u8; FRAME_HEADER_BYTES] {
        debug_assert!(self.len < 1 << 24 && self.stream <= STREAM_ID_MAX);
        let [_, a, b, c] = (self.len as u32).to_be_bytes();
        let [e, f, g, h] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, e, f, g, h]
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// That this frame concerns a stream, or the connection.
    pub(super) fn expect_stream(self, of_stream: bool) -> Result<(), Error> {
        if (self.stream != 0) == of_stream { Ok(()) } else { Err(Error::FrameOnWrongStream) }
    }

    pub(super) fn expect_len(self, len: usize) -> Result<(), Error> {
        if self.len == len { Ok(()) } else { Err(Error::FrameSizeInvalid) }
    }
}

/// Why a stream or connection ends (RFC 9113 7).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names of the RFC say it")]
pub enum ErrorCode {
    NoError = 0,
    ProtocolError = 1,
    InternalError = 2,
    FlowControlError = 3,
    SettingsTimeout = 4,
    StreamClosed = 5,
    FrameSizeError = 6,
    RefusedStream = 7,
    Cancel = 8,
    CompressionError = 9,
    ConnectError = 10,
    EnhanceYourCalm = 11,
    InadequateSecurity = 12,
    Http11Required = 13,
}

impl ErrorCode {
    /// The code of a number that a peer sent; `None` for numbers without a meaning.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<ErrorCode> {
        Some(match number {
            0 => ErrorCode::NoError,
            1 => ErrorCode::ProtocolError,
            2 => ErrorCode::InternalError,
            3 => ErrorCode::FlowControlError,
            4 => ErrorCode::SettingsTimeout,
            5 => ErrorCode::StreamClosed,
            6 => ErrorCode::FrameSizeError,
            7 => ErrorCode::RefusedStream,
            8 => ErrorCode::Cancel,
            9 => ErrorCode::CompressionError,
            10 => ErrorCode::ConnectError,
            11 => ErrorCode::EnhanceYourCalm,
            12 => ErrorCode::InadequateSecurity,
            13 => ErrorCode::Http11Required,
            _ => return None,
        })
    }

    /// The code that tells a peer of this error.
    #[must_use]
    pub const fn of(error: Error) -> ErrorCode {
        match error {
            Error::HpackTruncated
            | Error::HpackIndexInvalid
            | Error::HpackIntegerOverflow
            | Error::HpackHuffmanInvalid
            | Error::HpackSizeUpdateInvalid => ErrorCode::CompressionError,
            Error::FrameSizeInvalid => ErrorCode::FrameSizeError,
            Error::WindowOverflow | Error::WindowExceeded => ErrorCode::FlowControlError,
            Error::StreamClosed => ErrorCode::StreamClosed,
            Error::StreamRefused => ErrorCode::RefusedStream,
            Error::Flood => ErrorCode::EnhanceYourCalm,
            _ => match error.fault() {
                crate::Fault::Caller => ErrorCode::InternalError,
                _ => ErrorCode::ProtocolError,
            },
        }
    }
}

/// Bytes of a frame header.
pub const FRAME_HEADER_BYTES: usize = 9;
/// The longest payload that is taken: what the protocol begins with, never raised (RFC 9113 6.5.2).
pub const FRAME_BYTES_MAX: usize = 16_384;
/// The highest stream identifier.
pub(super) const STREAM_ID_MAX: u32 = (1 << 31) - 1;

pub(super) mod kind {
    pub(in crate::h2) const DATA: u8 = 0;
    pub(in crate::h2) const HEADERS: u8 = 1;
    pub(in crate::h2) const PRIORITY: u8 = 2;
    pub(in crate::h2) const RST_STREAM: u8 = 3;
    pub(in crate::h2) const SETTINGS: u8 = 4;
    pub(in crate::h2) const PUSH_PROMISE: u8 = 5;
    pub(in crate::h2) const PING: u8 = 6;
    pub(in crate::h2) const GOAWAY: u8 = 7;
    pub(in crate::h2) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::h2) const CONTINUATION: u8 = 9;
    /// RFC 9218 7.1.
    pub(in crate::h2) const PRIORITY_UPDATE: u8 = 16;
}

pub(super) mod flag {
    pub(in crate::h2) const ACK: u8 = 1;
    pub(in crate::h2) const END_STREAM: u8 = 1;
    pub(in crate::h2) const END_HEADERS: u8 = 4;
    pub(in crate::h2) const PADDED: u8 = 8;
    pub(in crate::h2) const PRIORITY: u8 = 32;
}
