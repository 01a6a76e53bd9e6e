//! The socket of a task.

use ::core::fmt;
use ::core::future::poll_fn;
use ::core::net::SocketAddr;
use ::core::task::{Context, Poll};

use plimsoll_codec::ws::{CONTROL_BYTES_MAX, CloseCode};
use plimsoll_runtime::OverBudget;

use super::end::WebSocketEnd;
use super::entry::{Consumer, Socket};
use super::handler::{WebSocketRef, WebSocketSender};
use super::message::Message;
use super::place::Place;
use super::wire::Phase;
use crate::Error;
use crate::exchange::user_code::UserWaker;

/// A WebSocket, in a task of its own; see [`Request::upgrade_websocket`](crate::Request::upgrade_websocket).
///
/// The server drives the connection: pings are answered, and sent to a peer that is silent, whatever the task does; one
/// message is received ahead. While nothing comes, no buffer is held. When the server stops, it closes with 1001, and
/// [`recv`](Self::recv) says `None`. Dropping the socket closes the connection without a word, after what was sent.
pub struct WebSocket {
    place: Place,
}

impl WebSocket {
    pub(super) fn new(place: Place) -> Self {
        Self { place }
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] after a reset.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        self.place.peer_address().ok_or(Error::Disconnected)
    }

    /// The next message; `None` after the peer has closed, or the server stops. Then, and after an error, the
    /// connection is closed.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Peer`] when the peer broke the protocol or a limit (it is told the code), [`Error::Disconnected`] when
    /// it went away, [`Error::TimedOut`] when it is silent for too long, [`Error::OverBudget`] when there was no room
    /// for the message for [`memory_timeout`](crate::Config::memory_timeout) (closed with 1013).
    pub fn recv(&mut self) -> impl Future<Output = Result<Option<Message>, Error>> {
        poll_fn(|cx| self.poll_recv(cx))
    }

    /// As [`recv`](Self::recv), for futures that wait for other things too.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Message>, Error>> {
        let place = &self.place;
        let polled = place.on(|socket| {
            let Socket { wire, consumer } = socket;
            if let Some(message) = wire.take_ready() {
                place.list(place.desk(), wire);
                return Poll::Ready(Ok(Some(message)));
            }
            let Consumer::Task(Some(mailbox)) = consumer else { return Poll::Ready(Err(Error::Disconnected)) };
            let Some(end) = wire.end else {
                keep(&mut mailbox.reader, cx);
                return Poll::Pending;
            };
            Poll::Ready(match end {
                _ if ::core::mem::replace(&mut mailbox.is_told, true) => Ok(None),
                WebSocketEnd::ByPeer(_) | WebSocketEnd::ByUs(_) => Ok(None),
                WebSocketEnd::Disconnected => Err(Error::Disconnected),
                WebSocketEnd::TimedOut => Err(Error::TimedOut),
                WebSocketEnd::Broken(error) => Err(Error::Peer(error)),
                WebSocketEnd::NoRoom => Err(Error::OverBudget(OverBudget::new(0))),
            })
        });
        polled.unwrap_or(Poll::Ready(Err(Error::Disconnected)))
    }

    /// Sends a message: waits until there is room in the output, which is
    /// [`Config::output_bytes_max`](crate::Config::output_bytes_max) bytes or one long message ahead of the peer, and
    /// in memory. The peer has [`send_timeout`](crate::WebSocketConfig::send_timeout) to take some of what is there;
    /// memory is waited for up to [`memory_timeout`](crate::Config::memory_timeout), then the connection is closed with
    /// 1013. It leaves at the end of the turn, in one operation with what else is there.
    ///
    /// Cancel safe: a message is sent as a whole or not at all.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] when the socket is closed.
    pub fn send(&mut self, message: Message) -> impl Future<Output = Result<(), Error>> {
        let mut message = Some(message);
        poll_fn(move |cx| self.poll_send(cx, &mut message))
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, message: &mut Option<Message>) -> Poll<Result<(), Error>> {
        let (place, desk) = (&self.place, self.place.desk());
        place.release_kept_for(desk);
        let polled = place.on(|socket| {
            let Socket { wire, consumer } = socket;
            let is_full = !wire.has_room(desk) || wire.flow.is_send_blocked();
            if wire.is_open()
                && is_full
                && let Consumer::Task(Some(mailbox)) = consumer
            {
                keep(&mut mailbox.writer, cx);
                return Poll::Pending;
            }
            place.list(desk, wire);
            let put = wire.take_message(desk, message);
            if let (Err(Error::OverBudget(_)), Consumer::Task(Some(mailbox))) = (&put, consumer) {
                wire.flow.block_send();
                keep(&mut mailbox.writer, cx);
                return Poll::Pending;
            }
            Poll::Ready(put)
        });
        polled.unwrap_or(Poll::Ready(Err(Error::Disconnected)))
    }

    /// Asks the peer whether it is there; the answer is not told. At most 125 bytes of `payload` are sent.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`], [`Error::OutputFull`] when so much waits to be sent that the peer is not there, or will
    /// see it late, [`Error::OverBudget`].
    pub fn ping(&mut self, payload: &[u8]) -> Result<(), Error> {
        let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
        let desk = self.place.desk();
        let put = self.place.with(desk, |socket| socket.wire.put_ping(desk, payload));
        put.unwrap_or(Err(Error::Disconnected))
    }

    /// Closes: says why, waits for the peer to do the same, and drops what it still sends. The reason is cut at 123
    /// bytes.
    ///
    /// After a drop midway the close goes on.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a code that may not be sent, [`Error::Disconnected`] when the socket was closed before.
    pub async fn close(self, code: CloseCode, reason: &str) -> Result<(), Error> {
        let (place, desk) = (&self.place, self.place.desk());
        let closed = place.with(desk, |socket| match socket.wire.is_open() {
            true => WebSocketRef { place, desk, wire: &mut socket.wire }.close(code, reason),
            false => Err(Error::Disconnected),
        });
        closed.unwrap_or(Err(Error::Disconnected))?;
        poll_fn(|cx| {
            let waits = place.on(|socket| {
                let Consumer::Task(Some(mailbox)) = &mut socket.consumer else { return false };
                keep(&mut mailbox.reader, cx);
                matches!(socket.wire.phase, Phase::Closing | Phase::Ending)
            });
            if waits == Some(true) { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        Ok(())
    }

    /// A handle with which others on this worker can send, too. It does not keep the connection open.
    pub fn sender(&self) -> WebSocketSender {
        WebSocketSender::new(&self.place)
    }
}

impl Drop for WebSocket {
    fn drop(&mut self) {
        let consumer = self.place.with(self.place.desk(), |socket| {
            if socket.wire.is_open() {
                socket.wire.note_end(WebSocketEnd::ByUs(CloseCode::GOING_AWAY));
                socket.wire.phase = Phase::Ending;
            }
            ::core::mem::replace(&mut socket.consumer, Consumer::Task(None))
        });
        // Not while the table is borrowed: a waker may hold what has a socket of its own.
        drop(consumer);
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebSocket")
    }
}

/// Remembers who waits.
fn keep(place: &mut Option<UserWaker>, cx: &Context<'_>) {
    if !place.as_ref().is_some_and(|known| known.wakes(cx)) {
        *place = Some(UserWaker::of(cx));
    }
}
