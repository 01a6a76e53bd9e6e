//! WebSockets without a task: a handler that is called with each message.

use ::core::fmt;
use ::core::net::SocketAddr;
use plimsoll_codec::ws::{CONTROL_BYTES_MAX, CloseCode};
use plimsoll_pool::{Charge, Kind};
use plimsoll_runtime::OverBudget;

use super::end::WebSocketEnd;
use super::message::Message;
use super::place::Place;
use super::wire::{Phase, Wire};
use crate::Error;
use crate::base::misuse::Misuse;
use crate::memory::desk::Desk;

/// What is called with the messages of a WebSocket; see [`Request::serve_websocket`](crate::Request::serve_websocket).
///
/// A closure that takes the socket and a message is one, too. While nothing comes, the connection has no task, no
/// future and no buffer: what the handler itself holds is all there is beside the connection's 64 bytes. So these calls
/// must not block; for work that takes time, spawn a task with a [`WebSocketSender`].
///
/// A handler that panics, or returns an error, closes its connection with 1011 (1013 for [`Error::OverBudget`]).
///
/// ```
/// use plimsoll_http::{Error, Message, WebSocketEnd, WebSocketHandler, WebSocketRef};
///
/// /// Counts what it gets.
/// struct Counting(u64);
///
/// impl WebSocketHandler for Counting {
///     fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> Result<(), Error> {
///         socket.send(Message::text("welcome"))
///     }
///
///     fn message(&mut self, socket: &mut WebSocketRef<'_>, _message: Message) -> Result<(), Error> {
///         self.0 += 1;
///         socket.send(Message::text(self.0.to_string()))
///     }
///
///     fn closed(&mut self, end: WebSocketEnd) {
///         println!("{} messages, then {end:?}", self.0);
///     }
/// }
/// ```
pub trait WebSocketHandler: 'static {
    /// The connection is open. Does nothing unless it is written.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> Result<(), Error> {
        let _nothing_to_say = socket;
        Ok(())
    }

    /// A message has come. The next one waits until there is room in the output.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error>;

    /// It is over; called once, and last.
    fn closed(&mut self, end: WebSocketEnd) {
        let _nothing_to_do = end;
    }
}

impl<H> WebSocketHandler for H
where
    H: FnMut(&mut WebSocketRef<'_>, Message) -> Result<(), Error> + 'static,
{
    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
        self(socket, message)
    }
}

/// A handler on the heap, with what it is charged with.
struct Charged<H> {
    handler: H,
    _charge: Charge,
}

impl<H: WebSocketHandler> WebSocketHandler for Charged<H> {
    fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> Result<(), Error> {
        self.handler.opened(socket)
    }

    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
        self.handler.message(socket, message)
    }

    fn closed(&mut self, end: WebSocketEnd) {
        self.handler.closed(end);
    }
}

/// A handler without state needs no memory; another is charged.
pub(super) fn boxed<H: WebSocketHandler>(handler: H) -> Result<Box<dyn WebSocketHandler>, OverBudget> {
    if size_of::<H>() == 0 {
        return Ok(Box::new(handler));
    }
    let bytes = (size_of::<Charged<H>>() as u64).next_multiple_of(16) + 16;
    let charge = plimsoll_runtime::budget().charge(Kind::Codec, bytes)?;
    Ok(Box::new(Charged { handler, _charge: charge }))
}

/// A WebSocket, for the length of a handler's call.
pub struct WebSocketRef<'a> {
    pub(super) place: &'a Place,
    pub(super) desk: &'a Desk,
    pub(super) wire: &'a mut Wire,
}

impl WebSocketRef<'_> {
    /// Sends a message. It leaves at the end of the turn, in one operation with what else is there.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] after [`close`](Self::close), [`Error::OutputFull`] when
    /// [`Config::output_bytes_max`](crate::Config::output_bytes_max) bytes or a long message wait for the peer already,
    /// [`Error::OverBudget`]. The message is then dropped, and the connection is as it was. The first answer to a
    /// message always has room.
    pub fn send(&mut self, message: Message) -> Result<(), Error> {
        self.wire.put_message(self.desk, message)
    }

    /// Asks the peer whether it is there; the answer is not told. At most 125 bytes of `payload` are sent.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn ping(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.wire.put_ping(self.desk, &payload[..payload.len().min(CONTROL_BYTES_MAX)])
    }

    /// Closes: says why, and waits for the peer to do the same. What it still sends is dropped. The reason is cut at
    /// 123 bytes. Does nothing the second time.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a code that may not be sent.
    pub fn close(&mut self, code: CloseCode, reason: &str) -> Result<(), Error> {
        if !code.is_sendable() {
            return Err(Error::Misuse(Misuse::CloseCode));
        }
        if self.wire.is_open() {
            self.wire.note_end(WebSocketEnd::ByUs(code));
            self.wire.close(self.desk, Some(code), reason, Phase::Closing);
        }
        Ok(())
    }

    /// A handle with which others on this worker can send.
    pub fn sender(&self) -> WebSocketSender {
        WebSocketSender { place: self.place.clone() }
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] after a reset.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.place.peer_address().ok_or(Error::Disconnected)
    }
}

impl fmt::Debug for WebSocketRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocketRef").field("is_open", &self.wire.is_open()).finish_non_exhaustive()
    }
}

/// Sends on a WebSocket from elsewhere on its worker: from a task, or from the handler of another connection. It does
/// not keep the connection open, and sends nothing while its own handler is being called: that has the
/// [`WebSocketRef`].
#[derive(Clone)]
pub struct WebSocketSender {
    place: Place,
}

impl WebSocketSender {
    pub(super) fn new(place: &Place) -> Self {
        Self { place: place.clone() }
    }

    /// Sends a message, without waiting.
    ///
    /// # Errors
    ///
    /// As [`WebSocketRef::send`]; [`Error::Disconnected`] also after the end of the connection.
    pub fn send(&self, message: Message) -> Result<(), Error> {
        let mut message = Some(message);
        self.with(|desk, wire| wire.take_message(desk, &mut message))
    }

    /// Closes; see [`WebSocketRef::close`].
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a code that may not be sent, [`Error::Disconnected`] after the end of the connection.
    pub fn close(&self, code: CloseCode, reason: &str) -> Result<(), Error> {
        self.with(|desk, wire| WebSocketRef { place: &self.place, desk, wire }.close(code, reason))
    }

    fn with(&self, mut act: impl FnMut(&Desk, &mut Wire) -> Result<(), Error>) -> Result<(), Error> {
        let desk = self.place.desk();
        let done = self.place.with(desk, |socket| act(desk, &mut socket.wire));
        done.unwrap_or(Err(Error::Disconnected))
    }
}

impl fmt::Debug for WebSocketSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebSocketSender")
    }
}
