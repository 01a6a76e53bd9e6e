//! Informational responses of HTTP/2 (RFC 9113 8.1): HEADERS that do not end the stream, before those of the answer.

use ::core::task::{Context, Poll};

use http::StatusCode;
use plimsoll_codec::Error as CodecError;
use plimsoll_codec::h1::ResponseHead;
use plimsoll_codec::h2::{FRAME_HEADER_BYTES, StreamKey, head_bytes_max};
use plimsoll_slab::Key;

use super::Parts;
use super::calls::{Calls, Http2s};
use super::no_room::make;
use super::output::Growing;
use super::shared::ENCODING_BYTES;
use super::streams::{Outgoing, find};
use crate::Error;
use crate::base::misuse::Misuse;
use crate::exchange::interim::FIELDS_BYTES_MAX;
use crate::exchange::response::Response;
use crate::exchange::user_code::UserWaker;

// As `block_bytes_max` reckons it.
const _: () = assert!(FIELDS_BYTES_MAX + FIELDS_BYTES_MAX / 64 + 128 <= ENCODING_BYTES - FRAME_HEADER_BYTES);

impl<W: Http2s> Calls<'_, W> {
    /// Writes an informational response, as soon as there is room for it behind what waits for the socket.
    pub(crate) fn poll_inform(
        &self,
        key: Key,
        stream: StreamKey,
        cx: &mut Context<'_>,
        response: &Response,
    ) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            if exchange.response != Outgoing::Head {
                return Err(Error::Misuse(Misuse::InterimTooLate));
            }
            let head = ResponseHead::interim(response.status())?.fields(response.fields());
            if !parts.env.has_room(parts.output) {
                (exchange.writer, parts.pending.interims) = (Some(UserWaker::of(cx)), true);
                return Ok(false);
            }
            if make(parts.output, parts.need, parts.env, head_bytes_max(response.fields())).is_err() {
                (exchange.writer, exchange.needs_room) = (Some(UserWaker::of(cx)), true);
                return Ok(false);
            }
            let mut out = Growing(parts.output, &parts.env.pool);
            match parts.codec.put_response(stream, &head, false, &mut parts.storage, &mut out) {
                Ok(()) => {}
                Err(CodecError::StreamClosed) => return Err(Error::Disconnected),
                Err(error) => {
                    debug_assert!(false, "room was made: {error}");
                    parts.phase.close();
                    return Err(error.into());
                }
            }
            if response.status() == StatusCode::CONTINUE {
                exchange.request.let_come();
            }
            Ok(true)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }
}

impl Parts<'_> {
    /// The socket has taken output: handlers that wait to inform their clients try again. Those that wait for memory
    /// are woken when there is some.
    #[inline]
    pub(super) fn wake_informers(&mut self) {
        if !self.pending.interims || !self.env.has_room(self.output) {
            return;
        }
        self.pending.interims = false;
        for exchange in self.exchanges.iter_mut().flatten() {
            if exchange.response == Outgoing::Head
                && !exchange.needs_room
                && let Some(writer) = exchange.writer.take()
            {
                writer.wake();
            }
        }
    }
}
