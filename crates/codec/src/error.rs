//! What can go wrong in a codec, whose fault it is, and which answer it deserves.

use http::StatusCode;

use crate::ws::CloseCode;

/// Who has to change something.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The peer broke a rule of the protocol or one of our limits. Answer with [`Error::status`] and close.
    Peer,
    /// The peer used something valid that this codec does not speak. Answer with [`Error::status`] and close.
    PeerUnsupported,
    /// The program that uses the codec broke a rule of its interface.
    Caller,
}

/// An error of a codec: one byte, no payload.
///
/// Errors of [`Fault::Peer`] and [`Fault::PeerUnsupported`] end the connection: after one of them nothing that follows
/// on it can be trusted, so nothing is ever repaired.
///
/// ```
/// use plimsoll_codec::{Error, Fault};
///
/// assert_eq!(Error::ConflictingFraming.status(), http::StatusCode::BAD_REQUEST);
/// assert_eq!(Error::HeadTooLarge.status().as_u16(), 431);
/// assert_eq!(Error::FieldReserved.fault(), Fault::Caller);
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// A line ended with LF alone. RFC 9112 2.2; 400.
    BareLf,
    /// A CR that is not followed by LF. RFC 9112 2.2; 400.
    BareCr,
    /// A NUL byte in a head or a trailer. RFC 9110 5.5; 400.
    NulByte,
    /// More empty lines before the request line than are tolerated. RFC 9112 2.2; 400.
    LeadingLines,
    /// The request line is not `method SP target SP version`. RFC 9112 3; 400.
    RequestLineInvalid,
    /// The method is empty or not a token. RFC 9112 3.1; 400.
    MethodInvalid,
    /// The method is longer than any that is known. RFC 9112 3; 501.
    MethodTooLong,
    /// The request target has a form or a byte that is not allowed. RFC 9112 3.2; 400.
    TargetInvalid,
    /// The form of the target does not fit the method: `*` is for OPTIONS, an authority for CONNECT. RFC 9112 3.2; 400.
    TargetFormInvalid,
    /// The version is not `HTTP/` DIGIT `.` DIGIT. RFC 9112 2.3; 400.
    VersionInvalid,
    /// A version other than HTTP/1.0 and HTTP/1.1. RFC 9110 15.6.6; 505.
    VersionUnsupported,
    /// The preface of HTTP/2 where only HTTP/1 is spoken; a server that speaks both changes over instead. RFC 9113 3.4;
    /// 400.
    Http2Preface,
    /// The request line is longer than `request_line_bytes_max`. RFC 9112 3; 414.
    RequestLineTooLong,
    /// The head is longer than `head_bytes_max`. RFC 6585 5; 431.
    HeadTooLarge,
    /// More field lines than `fields_max`. RFC 6585 5; 431.
    TooManyFields,
    /// A field name is empty or not a token, or a field line has no colon. RFC 9112 5; 400.
    FieldNameInvalid,
    /// White space between a field name and the colon. RFC 9112 5.1; 400.
    SpaceBeforeColon,
    /// A field line that begins with white space: obs-fold, or before the first field. RFC 9112 2.2, 5.2; 400.
    LeadingSpace,
    /// A control byte in a field value. RFC 9110 5.5; 400.
    FieldValueInvalid,
    /// Content-Length and Transfer-Encoding together. RFC 9112 6.1; 400.
    ConflictingFraming,
    /// More than one Content-Length, even with equal values, or a list. RFC 9112 6.3; 400.
    ContentLengthRepeated,
    /// A Content-Length that is not 1*DIGIT. RFC 9110 8.6; 400.
    ContentLengthInvalid,
    /// A Content-Length of 2^63 or more, in HTTP/2 of 2^64 or more. RFC 9110 8.6; 400.
    ContentLengthOverflow,
    /// Any Transfer-Encoding in HTTP/1.0. RFC 9112 6.1; 400.
    TransferEncodingInHttp10,
    /// Transfer-Encoding whose final coding is not one `chunked`. RFC 9112 6.3; 400.
    TransferEncodingInvalid,
    /// A registered transfer coding below a final `chunked`. RFC 9112 6.1, 7; 501.
    TransferCodingUnsupported,
    /// HTTP/1.1 without Host. RFC 9112 3.2; 400.
    HostMissing,
    /// More than one Host. RFC 9112 3.2; 400.
    HostRepeated,
    /// Host is empty or not `uri-host [":" port]`. RFC 9110 7.2; 400.
    HostInvalid,
    /// Connection is not a list of tokens. RFC 9110 7.6.1; 400.
    ConnectionInvalid,
    /// An expectation other than `100-continue`. RFC 9110 10.1.1; 417.
    ExpectationUnknown,
    /// CONNECT or TRACE with a body. RFC 9110 9.3.6, 9.3.8; 400.
    RequestBodyNotAllowed,
    /// A chunk size that is empty, longer than 16 digits, not hexadecimal, or 2^63 or more. RFC 9112 7.1; 400.
    ChunkSizeInvalid,
    /// A chunk extension outside of the grammar. RFC 9112 7.1.1; 400.
    ChunkExtensionInvalid,
    /// More bytes of chunk extensions than `chunk_extension_bytes_max`. RFC 9112 7.1.1; 400.
    ChunkExtensionsTooLarge,
    /// The data of a chunk is not followed by CRLF. RFC 9112 7.1; 400.
    ChunkDataUnterminated,
    /// Far more framing than data. RFC 9112 7.1.1; 400.
    ChunkOverhead,
    /// The trailer section is longer than `trailer_bytes_max`, or has more lines than `fields_max`. RFC 9110 15.5.14;
    /// 413.
    TrailersTooLarge,
    /// A trailer that frames, routes or authenticates the message. RFC 9110 6.5.1; 400.
    TrailerForbidden,
    /// The peer closed its side within a head or a body. RFC 9112 8; 400.
    Truncated,
    /// A header block ends within a field. RFC 7541 5; COMPRESSION_ERROR.
    HpackTruncated,
    /// An index of neither table. RFC 7541 2.3.3; COMPRESSION_ERROR.
    HpackIndexInvalid,
    /// An integer that is longer than any that is needed. RFC 7541 5.1; COMPRESSION_ERROR.
    HpackIntegerOverflow,
    /// A Huffman string with the end-of-string symbol or wrong padding. RFC 7541 5.2; COMPRESSION_ERROR.
    HpackHuffmanInvalid,
    /// A size update that is too large, misplaced or one too many. RFC 7541 4.2, 6.3; COMPRESSION_ERROR.
    HpackSizeUpdateInvalid,
    /// The connection does not begin with the preface and SETTINGS. RFC 9113 3.4; PROTOCOL_ERROR.
    PrefaceInvalid,
    /// A frame that is too long, or not as long as its type. RFC 9113 4.2; FRAME_SIZE_ERROR.
    FrameSizeInvalid,
    /// A frame for a stream on stream 0, or the other way round. RFC 9113 6; PROTOCOL_ERROR.
    FrameOnWrongStream,
    /// A frame that is not allowed here: a CONTINUATION without HEADERS, another frame before the end of a header
    /// block, a push by a client. RFC 9113 6; PROTOCOL_ERROR.
    FrameUnexpected,
    /// More padding than frame. RFC 9113 6.1; PROTOCOL_ERROR.
    PaddingInvalid,
    /// A new stream with an even number, or one that is not higher than all before. RFC 9113 5.1.1; PROTOCOL_ERROR.
    StreamIdInvalid,
    /// A frame for a stream that was not opened. RFC 9113 5.1; PROTOCOL_ERROR.
    StreamIdle,
    /// A frame for a stream that is closed, or closed on this side. RFC 9113 5.1; STREAM_CLOSED.
    StreamClosed,
    /// More streams than allowed at a time. RFC 9113 5.1.2; REFUSED_STREAM.
    StreamRefused,
    /// A stream that depends on itself. RFC 7540 5.3.1; PROTOCOL_ERROR.
    SelfDependency,
    /// A setting with a value that is not allowed. RFC 9113 6.5.2; PROTOCOL_ERROR.
    SettingInvalid,
    /// A WINDOW_UPDATE of nothing. RFC 9113 6.9; PROTOCOL_ERROR.
    WindowIncrementZero,
    /// A window beyond 2^31 - 1. RFC 9113 6.9.1; FLOW_CONTROL_ERROR.
    WindowOverflow,
    /// More data than the window allows. RFC 9113 6.9; FLOW_CONTROL_ERROR.
    WindowExceeded,
    /// A pseudo-header field that is unknown, repeated, missing, misplaced or malformed. RFC 9113 8.3; PROTOCOL_ERROR.
    PseudoFieldInvalid,
    /// `host` differs from `:authority`. RFC 9113 8.3.1; PROTOCOL_ERROR.
    AuthorityConflict,
    /// A field of HTTP/1 connections, or TE other than `trailers`. RFC 9113 8.2.2; PROTOCOL_ERROR.
    ConnectionField,
    /// Content-Length differs from the length of all DATA. RFC 9113 8.1.1; PROTOCOL_ERROR.
    BodyLengthMismatch,
    /// A second header block that does not end the stream. RFC 9113 8.1; PROTOCOL_ERROR.
    TrailersUnfinished,
    /// More CONTINUATION, empty or control frames, resets or overhead than an honest peer sends. RFC 9113 10.5;
    /// ENHANCE_YOUR_CALM.
    Flood,
    /// The request does not ask for an upgrade to WebSocket. RFC 6455 4.2.1; 426.
    WebSocketUpgradeMissing,
    /// Sec-WebSocket-Version is not 13. RFC 6455 4.4; 426.
    WebSocketVersionUnsupported,
    /// Sec-WebSocket-Key is missing, repeated or not 16 bytes in base64, the method is not GET, or there is a body. RFC
    /// 6455 4.2.1; 400.
    WebSocketHandshakeInvalid,
    /// A reserved bit that no extension uses, or a reserved opcode. RFC 6455 5.2; close code 1002.
    WebSocketReserved,
    /// A frame of a client without a mask, or one of a server with a mask. RFC 6455 5.1; close code 1002.
    WebSocketMaskInvalid,
    /// A length that is not in its shortest form, or over 2^63 - 1. RFC 6455 5.2; close code 1002.
    WebSocketLengthInvalid,
    /// A control frame that is fragmented or over 125 bytes. RFC 6455 5.5; close code 1002.
    WebSocketControlInvalid,
    /// A continuation without a beginning, or a beginning within a message. RFC 6455 5.4; close code 1002.
    WebSocketFragmentUnexpected,
    /// A close frame of one byte, or with a code that is never sent. RFC 6455 7.4; close code 1002.
    WebSocketCloseInvalid,
    /// A text or a reason for closing that is not UTF-8. RFC 6455 8.1; close code 1007.
    WebSocketTextInvalid,
    /// A message over `message_bytes_max`, inflated or not. RFC 6455 7.4.1; close code 1009.
    WebSocketMessageTooLarge,
    /// A message of more fragments than `fragments_max`. RFC 6455 10.4; close code 1008.
    WebSocketTooManyFragments,
    /// A compressed message that does not inflate. RFC 7692 7.2.2; close code 1007.
    WebSocketDeflateInvalid,
    /// A field value or name that the program set is not valid. RFC 9110 5.1, 5.5; 500.
    ResponseFieldInvalid,
    /// The program set a field that the codec writes itself (framing, Connection, Date). 500.
    FieldReserved,
    /// The output has no room for what was to be written. 500.
    OutputFull,
    /// A body was given with a status or method that has none, or a length that does not fit. RFC 9110 6.4.1; 500.
    BodyNotAllowed,
    /// More bytes of a body than its head announced. RFC 9112 6.3; 500.
    BodyTooLong,
    /// Fewer bytes of a body than its head announced. RFC 9112 8; 500.
    BodyTooShort,
    /// An interim response with a status that is not 1xx, or with 101, which is the last of its exchange. RFC 9110
    /// 15.2; 500.
    InterimStatusInvalid,
    /// A method of a state machine was called in a state in which it is not allowed. 500.
    StateMisuse,
    /// A limit outside of its documented range. 500.
    LimitInvalid,
}

/// Adds the newline to each line.
macro_rules! lines {
    ($error:expr, $($of:pat => $text:literal,)*) => {
        match $error { $($of => concat!($text, "\n"),)* }
    };
}

impl Error {
    /// The status code that answers this error: 4xx and 5xx for the peer, 500 for our caller's mistakes.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Error::MethodTooLong | Error::TransferCodingUnsupported => StatusCode::NOT_IMPLEMENTED,
            Error::VersionUnsupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Error::RequestLineTooLong => StatusCode::URI_TOO_LONG,
            Error::HeadTooLarge | Error::TooManyFields => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            // The head was fine: it is the content that is too large.
            Error::TrailersTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Error::ExpectationUnknown => StatusCode::EXPECTATION_FAILED,
            Error::WebSocketUpgradeMissing | Error::WebSocketVersionUnsupported => StatusCode::UPGRADE_REQUIRED,
            _ => match self.fault() {
                Fault::Caller => StatusCode::INTERNAL_SERVER_ERROR,
                Fault::Peer | Fault::PeerUnsupported => StatusCode::BAD_REQUEST,
            },
        }
    }

    /// The code with which a WebSocket is closed after this error.
    #[must_use]
    pub const fn close_code(self) -> CloseCode {
        match self {
            Error::WebSocketTextInvalid | Error::WebSocketDeflateInvalid => CloseCode::INVALID,
            Error::WebSocketMessageTooLarge => CloseCode::TOO_LARGE,
            Error::WebSocketTooManyFragments | Error::Flood => CloseCode::POLICY,
            _ => match self.fault() {
                Fault::Caller => CloseCode::UNEXPECTED,
                Fault::Peer | Fault::PeerUnsupported => CloseCode::PROTOCOL,
            },
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(self) -> Fault {
        match self {
            Error::MethodTooLong
            | Error::VersionUnsupported
            | Error::Http2Preface
            | Error::TransferCodingUnsupported
            | Error::WebSocketVersionUnsupported
            | Error::ExpectationUnknown => Fault::PeerUnsupported,
            Error::ResponseFieldInvalid
            | Error::FieldReserved
            | Error::OutputFull
            | Error::BodyNotAllowed
            | Error::BodyTooLong
            | Error::BodyTooShort
            | Error::InterimStatusInvalid
            | Error::StateMisuse
            | Error::LimitInvalid => Fault::Caller,
            _ => Fault::Peer,
        }
    }

    /// What is wrong, for the person who sees it: a line of text with its newline, to be the body of the answer.
    ///
    /// ```
    /// assert_eq!(plimsoll_codec::Error::HostMissing.line(), "HTTP/1.1 needs a Host field\n");
    /// ```
    #[must_use]
    pub const fn line(self) -> &'static str {
        lines! { self,
            Error::BareLf => "a line ends with LF instead of CRLF",
            Error::BareCr => "a CR is not followed by LF",
            Error::NulByte => "a head or trailer holds a NUL byte",
            Error::LeadingLines => "too many empty lines before the request line",
            Error::RequestLineInvalid => "the request line is not method, target and version with one space between",
            Error::MethodInvalid => "the method is not a token",
            Error::MethodTooLong => "the method is longer than any known method",
            Error::TargetInvalid => "the request target is not valid",
            Error::TargetFormInvalid => "the form of the request target does not fit the method",
            Error::VersionInvalid => "the HTTP version is not well formed",
            Error::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Error::Http2Preface => "HTTP/2 is not spoken here",
            Error::RequestLineTooLong => "the request line is over the limit; shorten the target",
            Error::HeadTooLarge => "the request head is over the limit; send fewer or shorter fields",
            Error::TooManyFields => "too many field lines; send fewer",
            Error::FieldNameInvalid => "a field name is not a token followed by a colon",
            Error::SpaceBeforeColon => "white space between a field name and its colon",
            Error::LeadingSpace => "a field line begins with white space",
            Error::FieldValueInvalid => "a field value holds a control byte",
            Error::ConflictingFraming => "Content-Length and Transfer-Encoding exclude each other",
            Error::ContentLengthRepeated => "Content-Length must be given once",
            Error::ContentLengthInvalid => "Content-Length must be digits only",
            Error::ContentLengthOverflow => "Content-Length is longer than any body can be",
            Error::TransferEncodingInHttp10 => "HTTP/1.0 has no Transfer-Encoding",
            Error::TransferEncodingInvalid => "Transfer-Encoding must be exactly one chunked",
            Error::TransferCodingUnsupported => "no transfer coding but chunked is supported",
            Error::HostMissing => "HTTP/1.1 needs a Host field",
            Error::HostRepeated => "Host must be given once",
            Error::HostInvalid => "Host must be a host name or address with an optional port",
            Error::ConnectionInvalid => "Connection must be a list of tokens",
            Error::ExpectationUnknown => "the only supported expectation is 100-continue",
            Error::RequestBodyNotAllowed => "a request of this method has no body",
            Error::ChunkSizeInvalid => "a chunk size must be 1 to 16 hexadecimal digits, and less than 2^63",
            Error::ChunkExtensionInvalid => "a chunk extension is not well formed",
            Error::ChunkExtensionsTooLarge => "too many bytes of chunk extensions",
            Error::ChunkDataUnterminated => "the data of a chunk must be followed by CRLF",
            Error::ChunkOverhead => "too much chunk framing for too little data; send larger chunks",
            Error::TrailersTooLarge => "the trailer section is over the limit",
            Error::TrailerForbidden => "a field of this name is not allowed in trailers",
            Error::Truncated => "the connection was closed within a message",
            Error::HpackTruncated => "a header block ends within a field",
            Error::HpackIndexInvalid => "a header block refers to an entry that does not exist",
            Error::HpackIntegerOverflow => "an integer in a header block is too long",
            Error::HpackHuffmanInvalid => "a Huffman string is not well formed",
            Error::HpackSizeUpdateInvalid => "a table size update is not allowed here or too large",
            Error::PrefaceInvalid => "the connection does not begin with the HTTP/2 preface and a SETTINGS frame",
            Error::FrameSizeInvalid => "a frame has a length that its type does not allow",
            Error::FrameOnWrongStream => "a frame of this type does not belong on this stream",
            Error::FrameUnexpected => "a frame of this type is not allowed here",
            Error::PaddingInvalid => "the padding is as long as the frame",
            Error::StreamIdInvalid => "the identifier of a new stream must be odd and higher than all before",
            Error::StreamIdle => "a frame for a stream that was not opened",
            Error::StreamClosed => "the stream is closed",
            Error::StreamRefused => "too many streams at a time; wait for one to end",
            Error::SelfDependency => "a stream cannot depend on itself",
            Error::SettingInvalid => "a setting has a value that is not allowed",
            Error::WindowIncrementZero => "a window cannot grow by 0",
            Error::WindowOverflow => "a window would be larger than 2^31 - 1",
            Error::WindowExceeded => "more data than the window allows",
            Error::PseudoFieldInvalid => "the pseudo-header fields are not as they must be",
            Error::AuthorityConflict => "host and :authority must be the same",
            Error::ConnectionField => "fields of HTTP/1 connections are not allowed in HTTP/2",
            Error::BodyLengthMismatch => "Content-Length differs from the length of the body",
            Error::TrailersUnfinished => "trailers must end the stream",
            Error::Flood => "too many frames or resets for too little use; send fewer",
            Error::WebSocketUpgradeMissing =>
                "this is a WebSocket; ask with Upgrade: websocket and Connection: Upgrade",
            Error::WebSocketVersionUnsupported => "only version 13 of WebSocket is spoken here",
            Error::WebSocketHandshakeInvalid =>
                "the handshake must be a GET without a body, with one Sec-WebSocket-Key of 16 bytes",
            Error::WebSocketReserved => "a reserved bit or opcode is used",
            Error::WebSocketMaskInvalid => "frames of clients must be masked, frames of servers must not",
            Error::WebSocketLengthInvalid => "the length of a frame is not in its shortest form",
            Error::WebSocketControlInvalid => "a control frame has at most 125 bytes and no fragments",
            Error::WebSocketFragmentUnexpected =>
                "a message must end before the next begins, and begin before it continues",
            Error::WebSocketCloseInvalid => "a close frame is empty or begins with a code that may be sent",
            Error::WebSocketTextInvalid => "a text is not UTF-8",
            Error::WebSocketMessageTooLarge => "the message is over the limit; send less at a time",
            Error::WebSocketTooManyFragments => "the message has too many fragments; send fewer",
            Error::WebSocketDeflateInvalid => "a compressed message does not inflate",
            Error::ResponseFieldInvalid => "the name must be a token and the value must not hold control bytes",
            Error::FieldReserved => "this field is written by the codec; use the response's own setting",
            Error::OutputFull => "the output is too small; reserve encoded_len bytes",
            Error::BodyNotAllowed => "this response cannot have this body",
            Error::BodyTooLong => "more bytes than the head announced",
            Error::BodyTooShort => "fewer bytes than the head announced; close the connection",
            Error::InterimStatusInvalid => "an interim response has a status from 100 to 199, and not 101",
            Error::StateMisuse => "called in a state that does not allow it; see the diagram of Exchange",
            Error::LimitInvalid => "a limit is outside of its documented range",
        }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self.fault() {
            Fault::Peer => "peer error",
            Fault::PeerUnsupported => "unsupported by us",
            Fault::Caller => "caller error",
        };
        write!(f, "{whose}: {}", self.line().trim_end())
    }
}

impl std::error::Error for Error {}

const _: () = assert!(size_of::<Result<(), Error>>() == 1);

#[cfg(test)]
mod tests;
