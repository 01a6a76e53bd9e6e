//! HTTP/1.0 and HTTP/1.1 for a server (RFC 9110, RFC 9112).
//!
//! ```text
//! bytes -> HeadSearch -> range -> parse_head -> RequestHead + slots -> RequestView -> handler
//!                                     |
//!                                  Framing -> BodyDecoder -> data, trailers, end
//!
//! handler -> ResponseHead, Fields -> Sink
//!                   |
//!               BodyOut -> BodyEncoder -> frames
//!
//! Exchange: what may be read and sent now, and does the connection persist
//! ```
//!
//! Each part stands alone: a proxy can use the decoder without the state machine, a test client the encoder without the
//! parser. An example through all states is at [`Exchange`].
//!
//! # Strict by default
//!
//! What two readers could understand in two ways is refused, never repaired: each variant of [`Error`](crate::Error) is
//! one such rule, with the section it follows and the status that answers it. Where the RFCs leave a choice:
//!
//! | input | choice |
//! |---|---|
//! | empty lines before a request line | [`LEADING_LINES_MAX`] are skipped |
//! | bytes that RFC 3986 does not list, such as `\|` or `{`, in a path or query | taken if `http::Uri` takes them; never control bytes, non-ASCII, `#`, `<`, `>` |
//! | `%` without two hexadecimal digits | refused in a path, taken in a query |
//! | a Host that differs from the authority of an absolute target | the target wins (RFC 9112 3.2.2); Host must be valid all the same |
//! | percent-encoding in Host | refused |
//! | a minor version above 1 | 505 |
//! | a transfer coding below `chunked` | 501 if it is registered, 400 if not |
//! | `Expect` and `Upgrade` in HTTP/1.0 | ignored |
//! | a body with CONNECT or TRACE | refused |
//! | a CONNECT that is answered with anything but 2xx | the connection is closed: what follows may be meant for the tunnel |
//! | a Content-Length or a chunk size of 2^63 or more | refused: no body is that long, and nobody waits for its end |
//! | a chunk extension | checked against the grammar, then dropped |
//! | white space between a chunk size and CRLF | refused |
//! | trailers that frame, route or authenticate | refused |
//!
//! # Splits
//!
//! [`HeadSearch`] and [`BodyDecoder`] go on where they stopped. Both look at each byte once, and both give the same
//! results for every split of the same bytes. What they do not consume must be presented again, at the front of what
//! comes next.
mod body;
mod body_out;
mod chunk;
mod examined;
mod exchange;
mod framing;
mod head;
mod limits;
mod response;
mod search;
mod sink;
mod span;
mod status;
pub(crate) mod syntax;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use body::is_forbidden_trailer;
pub use body::{BodyDecoder, BodyEvent, Decoded, trailers};
pub use body_out::{BodyEncoder, Frame};
pub use chunk::{
    CHUNK_END, CHUNK_HEADER_BYTES_MAX, ChunkHeader, LAST_CHUNK, check_trailers, chunk_header, is_trailer,
    put_last_chunk,
};
pub use exchange::{Event, Exchange, Next, RequestState, ResponseState};
pub use head::{Framing, METHOD_BYTES_MAX, RequestHead, WHOLE_HEAD_FIELDS_MAX, parse_head, parse_whole_head};
pub use limits::{FIELDS_CEILING, Limits, LimitsBuilder};
pub(crate) use response::decimal;
pub use response::{BodyLength, BodyOut, Persistence, ResponseHead};
pub use search::{HTTP2_PREFACE, HeadSearch, LEADING_LINES_MAX};
pub use sink::{Fields, Full, Sink, check_field, field_len, is_reserved_field, put_field};
pub use span::{FieldSlot, Span};
pub use status::{CONTINUE, error_line, error_response};
pub use target::TargetForm;
pub use view::{RequestView, SlotTable};

/// No body, and no chunk of one, is longer: what is announced beyond it is a mistake or an attack, and is not waited
/// for.
const BODY_BYTES_CEILING: u64 = i64::MAX as u64;
