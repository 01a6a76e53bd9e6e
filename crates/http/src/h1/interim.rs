//! Informational responses (RFC 9110 15.2), which a handler sends before its answer: what they may be, and how they
//! leave over HTTP/1.1. Those of HTTP/2 are in [`h2`](crate::h2).

use ::core::task::{Context, Poll};

use http::Version;
use plimsoll_codec::h1::{BodyLength, ResponseHead};

use crate::Error;
use crate::exchange::handle::Ticket;
use crate::exchange::response::{Kind, Response};
use crate::worker::state::Core;

/// Bytes of fields of an informational response at most, in HTTP/1.1 as in HTTP/2, whose compression has room for no
/// more.
pub(crate) const FIELDS_BYTES_MAX: usize = 15 * 1_024;

/// Whether a response is one that may go before the answer.
pub(crate) fn check(response: &Response) -> Result<(), Error> {
    if response.kind() == Kind::Streamed || response.length() != BodyLength::Empty {
        return Err(Error::Misuse("an informational response has no body"));
    }
    if ResponseHead::interim(response.status()).is_err() {
        // What `Response::header` refused has become a 500.
        return Err(Error::Misuse(
            "an informational response has valid fields and a status from 100 to 199, but not 101",
        ));
    }
    if response.fields().as_bytes().len() > FIELDS_BYTES_MAX {
        return Err(Error::Misuse("the fields of an informational response are too long: there is room for 15 KiB"));
    }
    Ok(())
}

/// Why there cannot be one any more.
pub(crate) const TOO_LATE: &str = "an informational response goes before the answer, which was begun";

impl Core {
    /// Writes an informational response of HTTP/1, as soon as there is room for it behind what waits for the socket.
    /// HTTP/1.0 does not know them.
    pub(crate) fn poll_inform(
        &self,
        ticket: &Ticket,
        cx: &mut Context<'_>,
        response: &Response,
    ) -> Poll<Result<(), Error>> {
        self.redeem(ticket.key);
        let polled = self.with_reserve(ticket, |active| {
            if active.closing {
                return Err(Error::Gone);
            }
            let head = ResponseHead::interim(response.status())?.fields(response.fields());
            let mut exchange = active.exchange;
            exchange.interim_sent(&head).map_err(|_| Error::Misuse(TOO_LATE))?;
            if active.version < Version::HTTP_11 {
                return Ok(true);
            }
            let bytes = head.encoded_len();
            if !active.output.has_room(bytes, self.config.output_bytes_max) {
                active.writer = Some(cx.waker().clone());
                self.list(ticket.key, active);
                return Ok(false);
            }
            active.output.reserve(&self.pool, bytes)?;
            head.encode(&mut active.output)?;
            active.exchange = exchange;
            active.memory.get_on();
            self.list(ticket.key, active);
            Ok(true)
        });
        match polled {
            None => Poll::Ready(Err(Error::Gone)),
            Some(Err(Error::OverBudget(over))) if ticket.waits_for_output(cx, &over) => Poll::Pending,
            Some(Err(error)) => Poll::Ready(Err(error)),
            Some(Ok(true)) => Poll::Ready(Ok(())),
            Some(Ok(false)) => Poll::Pending,
        }
    }
}
