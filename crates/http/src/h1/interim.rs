//! Informational responses (RFC 9110 15.2), which a handler sends before its answer: what they may be, and how they
//! leave over HTTP/1.1. Those of HTTP/2 are in [`h2`](crate::h2).

use ::core::task::{Context, Poll};

use http::Version;
use plimsoll_codec::h1::ResponseHead;

use crate::Error;
use crate::base::misuse::Misuse;
use crate::exchange::response::Response;
use crate::exchange::user_code::UserWaker;
use crate::h1::actives::{Actives, Http1};
use crate::memory::lasting::ExchangeId;

impl<A: Actives> Http1<'_, A> {
    /// Writes an informational response of HTTP/1, as soon as there is room for it behind what waits for the socket.
    /// HTTP/1.0 does not know them.
    pub(crate) fn poll_inform(
        &self,
        id: ExchangeId,
        cx: &mut Context<'_>,
        response: &Response,
    ) -> Poll<Result<(), Error>> {
        self.release_kept_for(id.key());
        let polled = self.with_reserve(id, |active| {
            if active.is_closing() {
                return Err(active.course.error());
            }
            let head = ResponseHead::interim(response.status())?.fields(response.fields());
            let mut exchange = active.exchange;
            exchange.interim_sent(&head).map_err(|_| Error::Misuse(Misuse::InterimTooLate))?;
            if active.version < Version::HTTP_11 {
                return Ok(true);
            }
            let bytes = head.encoded_len();
            if !active.output.has_room(bytes, self.config.output_bytes_max) {
                active.writer = Some(UserWaker::of(cx));
                active.list(self, id.key());
                return Ok(false);
            }
            active.output.reserve(&self.pool, bytes)?;
            head.encode(&mut active.output)?;
            active.exchange = exchange;
            active.memory.get_on();
            active.list(self, id.key());
            Ok(true)
        });
        self.written(id, cx, polled)
    }
}
