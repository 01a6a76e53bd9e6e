//! What a [`Tunnel`](crate::exchange::tunnel::Tunnel) asks of its stream.
//!
//! The stream's exchange is *held* by the tunnel as it is by a handler: its slot is not free before both have let go.

use ::core::task::{Context, Poll};

use http::Method;
use plimsoll_codec::h1::BodyLength;
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_slab::Key;

use super::Http2;
use super::streams::{Outgoing, find};
use crate::base::error::Error;
use crate::exchange::response::Response;
use crate::exchange::user_code::UserWaker;
use crate::worker::connection::Connection;
use crate::worker::state::Core;

impl Http2 {
    /// Whether a tunnel is open on a stream, by its identifier.
    pub(crate) fn is_held(&self, stream: u32) -> bool {
        self.slots.exchanges().iter().flatten().any(|exchange| exchange.id == stream && exchange.held)
    }
}

impl Core {
    /// What still comes on a tunnel is dropped: there is no room for it, and was none for too long.
    pub(crate) fn h2_give_up_rest(&self, key: Key, stream: StreamKey) {
        let _gone = self.on_stream(key, stream, |parts| {
            if let Some(exchange) = find(parts.exchanges, stream) {
                exchange.give_up_rest(self);
            }
            Ok(())
        });
    }

    /// Has a tunnel's task woken when it is its turn among those that wait for memory.
    pub(crate) fn h2_await_turn(&self, key: Key, stream: StreamKey, cx: &Context<'_>) {
        let mut table = self.table.borrow_mut();
        if let Some(Connection::Http2(http2)) = table.get_mut(key)
            && let Some(exchange) = http2.slots.exchange(stream)
        {
            exchange.writer = Some(UserWaker::of(cx));
        }
    }

    /// Has the engine look after a connection: something waits for memory there.
    pub(crate) fn h2_look_after(&self, key: Key) {
        if let Some(Connection::Http2(http2)) = self.table.borrow_mut().get_mut(key) {
            self.list_http2(key, http2);
        }
    }

    /// It is the turn of what waits for memory on a tunnel; whether its task is woken for that.
    pub(crate) fn wake_held(&self, key: Key, stream: u32) -> bool {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return false };
        let mut exchanges = http2.slots.parts().1.iter_mut().flatten();
        let held = exchanges.find(|exchange| exchange.id == stream && exchange.held);
        let writer = held.and_then(|exchange| exchange.writer.take());
        writer.map(UserWaker::wake).is_some()
    }

    /// A tunnel is made for a request that was not answered yet.
    pub(crate) fn h2_hold(&self, key: Key, stream: StreamKey) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| match find(parts.exchanges, stream) {
            Some(exchange) if exchange.response == Outgoing::Head && !exchange.held => {
                exchange.held = true;
                Ok(())
            }
            _ => Err(Error::Misuse("the request was answered already")),
        })
    }

    /// Answers: what follows are the tunnel's bytes.
    pub(crate) fn h2_begin_tunnel(&self, key: Key, stream: StreamKey, response: &mut Response) -> Result<(), Error> {
        self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.held) else {
                return Err(Error::Gone);
            };
            // A 2xx to CONNECT says nothing of a length, and is followed by DATA all the same: as an answer to GET
            // whose length is not known.
            exchange.method = Method::GET;
            exchange.patience.pause(plimsoll_runtime::now());
            self.put_answer(parts, stream, response, BodyLength::Unknown)
        })
    }

    pub(crate) fn h2_poll_flush(&self, key: Key, stream: StreamKey, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = self.on_stream(key, stream, |parts| {
            let Some(exchange) = find(parts.exchanges, stream) else { return Err(Error::Gone) };
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
    pub(crate) fn h2_let_go(&self, key: Key, stream: StreamKey) {
        let mut table = self.table.borrow_mut();
        let Some(Connection::Http2(http2)) = table.get_mut(key) else { return };
        if http2.closing {
            return;
        }
        self.with_parts(http2, |parts| {
            let Some(exchange) = find(parts.exchanges, stream).filter(|exchange| exchange.held) else { return };
            exchange.held = false;
            (exchange.reader, exchange.writer) = (None, None);
            match exchange.response {
                // The handler can still answer something else.
                Outgoing::Head => {}
                Outgoing::Body if !exchange.finished => self.break_off(parts, stream, ErrorCode::Cancel),
                Outgoing::Body | Outgoing::Complete => self.end_if_done(parts, stream),
            }
        });
        self.list_http2(key, http2);
    }
}
