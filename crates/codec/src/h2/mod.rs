//! HTTP/2 for a server (RFC 9113, with RFC 8441 and RFC 9218).
//!
//! ```text
//! bytes -> Connection::step -> Event: Request, Data, End, Trailers, Reset
//!               |  \
//!               |   `-> out: SETTINGS, acknowledgements, windows, resets, GOAWAY
//!               v
//!            Storage: slots of streams, tables of HPACK, scratch for one list of fields; all of it the caller's
//!               ^
//! handler -> put_response, put_data_header, put_trailers -> out
//! ```
//!
//! A [`Connection`] is plain data. All that grows with what a peer does is the caller's [`Storage`], so that it can be
//! charged and bounded. A request comes out as the same [`RequestHead`](crate::h1::RequestHead) and slots as in HTTP/1,
//! and a response is the same [`ResponseHead`](crate::h1::ResponseHead): a handler need not know which protocol it
//! speaks.
//!
//! # Who waits for whom
//!
//! * *The peer's bodies wait for memory.* [`Event::Data`] consumes nothing. A server that has nothing reserved for the
//!   bytes does not take them and reads no further; it is told how many there are. [`Connection::release`] gives bytes
//!   back to the peer's windows, [`Connection::hold_windows`] stops that under pressure, [`Connection::grow_window`] is
//!   for bulk.
//! * *Responses wait for windows.* [`Connection::data_room`] says how much may go out, [`Connection::next_to_send`]
//!   whose turn it is.
//! * *Reading waits for output.* After so many control frames that were not sent, [`Event::NeedOutput`] comes until
//!   [`Connection::output_sent`].
//!
//! # Example
//!
//! ```
//! use http::{Method, StatusCode, Version};
//! use plimsoll_codec::h1::{BodyLength, FieldSlot, ResponseHead};
//! use plimsoll_codec::h2::{Connection, Event, Limits, Repeat, Storage, Stream};
//!
//! let limits = Limits::DEFAULT;
//! let (mut streams, mut slots) = ([Stream::FREE; 8], [FieldSlot::EMPTY; 100]);
//! let (mut decoder_table, mut encoder_table) = ([0; 4_096], [0; 4_096]);
//! let mut bytes = vec![0; limits.scratch_bytes()];
//! let mut storage = Storage {
//!     streams: &mut streams,
//!     decoder_table: &mut decoder_table,
//!     encoder_table: &mut encoder_table,
//!     bytes: &mut bytes,
//!     slots: &mut slots,
//!     repeat: &mut Repeat::default(),
//! };
//! let mut connection = Connection::new(&limits);
//! let mut out = Vec::new();
//! connection.begin(&mut out)?;
//!
//! let mut input: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
//!     \0\0\0\x04\0\0\0\0\0\
//!     \0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";
//! loop {
//!     let step = connection.step(input, &mut storage, &mut out, 0)?;
//!     input = &input[step.consumed..];
//!     match step.event {
//!         Event::Request { stream, ends } => {
//!             assert!(ends);
//!             assert_eq!(storage.view().path(), "/");
//!             let method = storage.view().method().clone();
//!             let head = ResponseHead::new(&method, Version::HTTP_2, StatusCode::NO_CONTENT, BodyLength::Empty)?;
//!             connection.put_response(stream, &head, true, &mut storage, &mut out)?;
//!             connection.forget(stream, &mut storage, &mut out)?;
//!         }
//!         Event::NeedMore { .. } => break,
//!         _ => {}
//!     }
//! }
//! // SETTINGS, its acknowledgement, and a head of one byte that ends the stream.
//! assert!(out.ends_with(b"\0\0\x01\x01\x05\0\0\0\x01\x89"));
//! # Ok::<(), plimsoll_codec::Error>(())
//! ```
mod block;
mod closing;
mod connection;
mod control;
mod event;
mod frame;
mod guard;
mod limits;
mod priority;
mod recent;
mod repeat;
mod request;
mod send;
mod settings;
mod stream;
#[cfg(test)]
mod tests;
mod windows;

pub use connection::{Connection, STEP_OUTPUT_BYTES_MAX};
pub use event::{Event, ResetCause, Step, Storage, request_view};
pub use frame::{ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader};
pub use limits::Limits;
pub use priority::Priority;
pub use repeat::Repeat;
pub use send::{block_bytes_max, head_bytes_max};
pub use stream::{Stream, StreamKey, StreamState};
