//! What a [`Tunnel`](crate::exchange::tunnel::Tunnel) asks of its stream.
//!
//! The stream's exchange is *held* by the tunnel as it is by a handler: its slot is not free before both have let go.

use ::core::task::{Context, Poll};

use http::Method;
use plimsoll_codec::h1::BodyLength;
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_slab::Key;

use super::Http2;
use super::calls::{Calls, Http2s};
use super::streams::{Outgoing, find};
use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::response::Response;
use crate::exchange::user_code::UserWaker;

impl Http2 {
    /// Whether a tunnel is open on a stream, by its identifier.
    pub(crate) fn is_held(&self, stream: u32) -> bool {
        self.slots.exchanges().iter().flatten().any(|exchange| exchange.id == stream && exchange.stage.is_tunnel())
    }

    /// It is the turn of what waits for memory on a tunnel; whether its task is woken for that.
    pub(crate) fn wake_held(&mut self, stream: u32) -> bool {
        let mut exchanges = self.slots.parts().1.iter_mut().flatten();
        let held = exchanges.find(|exchange| exchange.id == stream && exchange.stage.is_tunnel());
        let writer = held.and_then(|exchange| exchange.writer.take());
        writer.map(UserWaker::wake).is_some()
    }
}

impl<W: Http2s> Calls<'_, W> {
    /// What still comes on a tunnel is dropped: there is no room for it, and was none for too long.
    pub(crate) fn give_up_rest(&self, key: Key, stream: StreamKey) {
        let _gone = self.on_stream(key, stream, |parts| {
            if let Some(exchange) = find(parts.exchanges, stream) {
                exchange.give_up_rest(&parts.env);
            }
            Ok(())
        });
    }

    /// Has a tunnel's task woken when it is its turn among those that wait for memory.
    pub(crate) fn await_turn(&self, key: Key, stream: StreamKey, cx: &Context<'_>) {
        self.0.with_http2(key, |http2| {
            if let Some(exchange) = http2.slots.exchange(stream) {
                exchange.writer = Some(UserWaker::of(cx));
            }
        });
    }

    /// Has the worker look after a connection: something waits for memory there.
    pub(crate) fn look_after(&self, key: Key) {
        let env = self.env();
        self.0.with_http2(key, |http2| http2.list(&env, key));
    }

    /// A tunnel is made for a request that was not answered yet.
    pub(crate) fn hold(&self, key: Key, stream: StreamKey) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| match find(parts.exchanges, stream) {
            Some(exchange) if exchange.response == Outgoing::Head && !exchange.stage.is_tunnel() => {
                exchange.stage.open_tunnel();
                Ok(())
            }
            _ => Err(Error::Misuse(Misuse::AnsweredAlready)),
        })
    }

    /// Answers: what follows are the tunnel's bytes.
    pub(crate) fn begin_tunnel(&self, key: Key, stream: StreamKey, response: &mut Response) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.stage.is_tunnel()) else {
                return Err(Error::Disconnected);
            };
            // A 2xx to CONNECT says nothing of a length, and is followed by DATA all the same: as an answer to GET
            // whose length is not known.
            exchange.method = Method::GET;
            exchange.min_rate.pause(plimsoll_runtime::now());
            parts.put_answer(stream, response, BodyLength::Unknown)
        })
    }

    pub(crate) fn poll_flush(&self, key: Key, stream: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Disconnected) };
            if exchange.rest().is_empty() {
                return Ok(true);
            }
            exchange.writer = Some(UserWaker::of(cx));
            Ok(false)
        });
        match polled {
            Err(error) => Poll::Ready(Err(error)),
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
        }
    }

    /// The tunnel was dropped. What it has sent before the end of its side still leaves.
    pub(crate) fn release(&self, key: Key, stream: StreamKey) {
        let env = self.env();
        self.0.with_http2(key, |http2| {
            if !http2.phase.is_open() {
                return;
            }
            http2.with_parts(env, |parts| {
                let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.stage.is_tunnel()) else {
                    return;
                };
                exchange.stage.leave_tunnel();
                (exchange.reader, exchange.writer) = (None, None);
                match exchange.response {
                    // The handler can still answer something else.
                    Outgoing::Head => {}
                    Outgoing::Body if !exchange.finished => parts.break_off(stream, ErrorCode::Cancel),
                    Outgoing::Body | Outgoing::Complete | Outgoing::Reset => parts.end_if_done(stream),
                }
            });
            http2.list(&env, key);
        });
    }
}
