//! How a handler may use a call when that makes no sense.

use ::core::fmt;

use plimsoll_codec::Error as CodecError;

/// What a handler asked for when it makes no sense, or cannot be said in HTTP.
///
/// It is the program that is to be changed: as the result of a handler it is a 500, and trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// A second answer to a request.
    AnsweredAlready,
    /// A status or a field for an answer whose head was sent before its body.
    HeadSent,
    /// A response that begins a streamed answer, and has a part that was refused: the log says which.
    ResponseRefused,
    /// A body in the response that begins a streamed answer.
    StreamedWithBody,
    /// More bytes of a body than were announced.
    BodyTooLong,
    /// Fewer bytes of a body than were announced.
    BodyTooShort,
    /// A handler that a program called itself ended before its answer did.
    AnswerCutShort,
    /// A handler was called, or its answer read, on a thread that is no worker of the runtime, or not that handler's.
    OffWorker,
    /// A body for a status or a method that has none.
    BodyNotAllowed,
    /// More fields of an answer than HTTP/2 has room for.
    FieldsTooLong,
    /// More trailers than HTTP/2 has room for.
    TrailersTooLong,
    /// A change of the protocol before the request's body was read.
    BodyUnread,
    /// A tunnel for a method other than CONNECT.
    NotConnect,
    /// A tunnel in a stream for a request that is no CONNECT of HTTP/2.
    NotConnectInStream,
    /// A tunnel that begins with another answer than a 2xx without a body.
    TunnelAnswer,
    /// An informational response behind the beginning of the answer.
    InterimTooLate,
    /// More informational responses than [`Config::interim_responses_max`](crate::Config::interim_responses_max).
    TooManyInterims,
    /// An informational response with a body.
    InterimWithBody,
    /// An informational response with a status or a field that it cannot have.
    InterimHead,
    /// More fields of an informational response than there is room for.
    InterimFieldsTooLong,
    /// A line break in the type of an event.
    EventType,
    /// A line break or a NUL in the id of an event.
    EventId,
    /// A code that a WebSocket is never closed with.
    CloseCode,
    /// Something else that the protocol has no words for, as the codec says.
    Protocol(CodecError),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnsweredAlready => "the request was answered already",
            Self::HeadSent => "the answer was streamed: its status and fields were sent before its body",
            Self::ResponseRefused => "a part of the response was refused: see the line of the log before this one",
            Self::StreamedWithBody => "an answer that is streamed has no body of its own",
            Self::BodyTooLong => "more bytes than were announced",
            Self::BodyTooShort => "fewer bytes than were announced",
            Self::AnswerCutShort => "the handler ended before its answer was complete",
            Self::OffWorker => {
                "a handler of Plimsoll stays on a worker: call its service, and read its answer, within `block_on` or \
                 a task of Plimsoll's runtime, and not on a thread of another one"
            }
            Self::BodyNotAllowed => "this answer has no body",
            Self::FieldsTooLong => "the fields of an answer are too long: HTTP/2 has room for 15 KiB",
            Self::TrailersTooLong => "the trailers are too long: HTTP/2 has room for 15 KiB",
            Self::BodyUnread => "the request's body is read before the connection changes its protocol",
            Self::NotConnect => "only a CONNECT becomes a tunnel",
            Self::NotConnectInStream => "a tunnel begins with CONNECT, in HTTP/2",
            Self::TunnelAnswer => "a tunnel begins with a 2xx that has no body, and may have one",
            Self::InterimTooLate => "an informational response goes before the answer, which was begun",
            Self::TooManyInterims => "more informational responses than Config::interim_responses_max allows",
            Self::InterimWithBody => "an informational response has no body",
            Self::InterimHead => "an informational response has valid fields and a status from 100 to 199, but not 101",
            Self::InterimFieldsTooLong => {
                "the fields of an informational response are too long: there is room for 15 KiB"
            }
            Self::EventType => "the type of an event has a line break",
            Self::EventId => "the id of an event has a line break or a NUL",
            Self::CloseCode => "this close code is never sent",
            Self::Protocol(error) => return error.fmt(f),
        })
    }
}

impl ::core::error::Error for Misuse {
    fn source(&self) -> Option<&(dyn ::core::error::Error + 'static)> {
        match self {
            Self::Protocol(error) => Some(error),
            _ => None,
        }
    }
}
