//! The socket of a task.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::net::SocketAddr;
use ::core::pin::pin;
use ::core::task::Poll;
use ::core::time::Duration;

use plimsoll_codec::ws::{CONTROL_BYTES_MAX, CloseCode, Decoder, Event, FrameHead, Opcode, Role};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, PoolBox, signal, sleep, timeout};

use super::WebSocketConfig;
use super::message::{Message, Partial};
use crate::upgrade::Seat;
use crate::{Body, Error};

/// A WebSocket, in a task of its own; see [`Request::upgrade_websocket`](crate::Request::upgrade_websocket).
///
/// While it waits for a message it holds no buffer. Pings are answered, and sent to a peer that is silent, while [`recv`](Self::recv) waits: a task
/// that does not receive does not notice that its peer is gone before it sends. When the server stops, `recv` closes with 1001. Dropping the
/// socket closes the connection without a word.
pub struct WebSocket(PoolBox<Socket>);

/// In the pool, so that a task which moves its WebSocket around stays small.
struct Socket {
    stream: TcpStream,
    decoder: Decoder,
    config: WebSocketConfig,
    state: State,
    /// Received, not looked at yet.
    input: Option<Lease>,
    message: Option<Partial>,
    /// When the message that was begun must be complete.
    message_until: Option<Instant>,
    /// Answers to pings, to be sent before anything is waited for.
    pongs: Option<Lease>,
    /// Dropped after the stream was.
    seat: Seat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Silent for a while, and asked whether it is there.
    Asked,
    /// Our close frame was sent, or nothing can be sent any more.
    Closed,
}

/// What came of waiting for the peer.
enum Waited {
    Bytes(Lease),
    End,
    Elapsed,
    Stopping,
}

impl WebSocket {
    pub(super) fn new(stream: TcpStream, seat: Seat, config: WebSocketConfig) -> Result<Self, OverBudget> {
        let socket = Socket {
            stream,
            decoder: Decoder::new(Role::Server, config.limits),
            config,
            state: State::Open,
            input: None,
            message: None,
            message_until: None,
            pongs: None,
            seat,
        };
        plimsoll_runtime::pool().try_boxed(socket, Kind::Codec).map(Self).map_err(|(over, _closed)| over)
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// [`Error::Runtime`] after a reset.
    pub fn peer_addr(&self) -> Result<SocketAddr, Error> {
        Ok(self.0.stream.peer_addr()?)
    }

    /// The next message; `None` after the peer has closed, or the server stops. Then, and after an error, the connection is closed.
    ///
    /// Cancel safe while nothing has to be sent: a drop while a ping is answered (or asked) leaves a socket that sends no more.
    ///
    /// # Errors
    ///
    /// [`Error::Peer`] when the peer broke the protocol or a limit (it is told the code), [`Error::Gone`] when it went away or is silent for too long,
    /// [`Error::OverBudget`] when there is no room for the message (closed with 1013).
    pub fn recv(&mut self) -> impl Future<Output = Result<Option<Message>, Error>> {
        self.0.recv()
    }

    /// Sends a message. A payload in a lease that is too long to be copied is sent from where it is.
    ///
    /// Not cancel safe: after a drop midway the socket sends no more.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`] when the socket is closed or the peer does not take the message in time, [`Error::OverBudget`], [`Error::Runtime`].
    pub fn send(&mut self, message: Message) -> impl Future<Output = Result<(), Error>> {
        let prepared = self.0.prepare(message);
        let socket = &mut *self.0;
        async move {
            let (first, rest) = prepared?;
            socket.send_lease(first).await?;
            match rest {
                None => Ok(()),
                Some(message) => Box::pin(socket.send_long(message)).await,
            }
        }
    }

    /// Asks the peer whether it is there; the answer is not told. At most 125 bytes of `payload` are sent.
    ///
    /// Not cancel safe, as [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub async fn ping(&mut self, payload: &[u8]) -> Result<(), Error> {
        let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
        self.0.send_control(Opcode::Ping, &[payload]).await
    }

    /// Closes: says why, waits for the peer to do the same, and drops what it still sends. The reason is cut at 123 bytes.
    ///
    /// Not cancel safe, as [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a code that may not be sent, [`Error::Gone`] when the socket was closed before.
    pub async fn close(mut self, code: CloseCode, reason: &str) -> Result<(), Error> {
        if !code.is_sendable() {
            return Err(Error::Misuse("this close code is never sent"));
        }
        let socket = &mut *self.0;
        socket.say_close(Some(code), reason).await?;
        socket.await_close().await;
        socket.end().await;
        Ok(())
    }
}

impl Socket {
    async fn recv(&mut self) -> Result<Option<Message>, Error> {
        loop {
            if self.state == State::Closed {
                return Ok(None);
            }
            let event = self.decode();
            if self.pongs.is_some() && matches!(event, Ok(Event::NeedMore | Event::End | Event::Close { .. })) {
                Box::pin(self.send_pongs()).await?;
            }
            match event {
                Ok(Event::NeedMore) => {
                    let wait = self.patience();
                    let waited = self.wait(wait).await?;
                    if let Waited::Bytes(fresh) = waited {
                        self.came(fresh)?;
                    } else if !Box::pin(self.woken(waited)).await? {
                        return Ok(None);
                    }
                }
                Ok(Event::End) => {
                    self.message_until = None;
                    if let Some(message) = self.message.take() {
                        return Ok(Some(message.finish()));
                    }
                }
                Ok(Event::Close { code, .. }) => {
                    // What we answer to a close frame without a code has none either.
                    Box::pin(self.say_close_and_end(code)).await?;
                    return Ok(None);
                }
                Ok(_) => {}
                Err(error) => {
                    let code = match &error {
                        Error::Peer(error) => error.close_code(),
                        Error::OverBudget(_) => CloseCode::TRY_LATER,
                        _ => CloseCode::UNEXPECTED,
                    };
                    let _sent_or_gone = Box::pin(self.say_close_and_end(Some(code))).await;
                    return Err(error);
                }
            }
        }
    }

    /// The first bytes of a message; and the message, if its payload is sent behind them without a copy.
    fn prepare(&mut self, message: Message) -> Result<(Lease, Option<Message>), Error> {
        if self.state == State::Closed {
            return Err(Error::Gone);
        }
        let head = FrameHead::message(message.opcode(), message.as_bytes().len() as u64).encode();
        let bytes = message.as_bytes();
        let copied = if bytes.len() <= COPY_BYTES_MAX { bytes } else { &[] };
        let mut lease = plimsoll_runtime::pool().try_acquire(head.as_bytes().len() + copied.len(), Kind::Buffers)?;
        lease.extend(head.as_bytes());
        lease.extend(copied);
        let is_whole = copied.len() == bytes.len();
        Ok((lease, (!is_whole).then_some(message)))
    }

    /// Decodes one event of the input, which takes what it needs of it.
    fn decode(&mut self) -> Result<Event, Error> {
        let mut nothing: [u8; 0] = [];
        let input = self.input.as_mut().map_or(&mut nothing[..], |lease| lease.as_mut_slice());
        let decoded = self.decoder.decode(input, plimsoll_runtime::now().as_millis())?;
        match &decoded.event {
            Event::Begin { is_text, .. } => self.message = Some(Partial::new(*is_text)),
            Event::Data(range) => {
                let message = self.message.get_or_insert(Partial::new(false));
                if let Some(mut lease) = self.input.take_if(|lease| message.is_empty() && range.end == lease.len()) {
                    lease.consume(range.start);
                    message.set(lease);
                    return Ok(decoded.event);
                }
                message.push(&input_of(&self.input)[range.clone()])?;
            }
            Event::Ping(range) => {
                let payload = &input_of(&self.input)[range.clone()];
                let head = FrameHead::message(Opcode::Pong, payload.len() as u64).encode();
                // A flood is answered with its last pings alone (RFC 6455 5.5.3).
                let pongs = &mut self.pongs;
                if pongs.as_ref().is_none_or(|pongs| pongs.spare_capacity() < HEAD_BYTES + payload.len()) {
                    *pongs = Some(plimsoll_runtime::pool().try_acquire(PONGS_BYTES, Kind::Buffers)?);
                }
                if let Some(pongs) = pongs {
                    pongs.extend(head.as_bytes());
                    pongs.extend(payload);
                }
            }
            _ => {}
        }
        if let Some(input) = &mut self.input {
            input.consume(decoded.consumed);
        }
        self.input.take_if(|input| input.is_empty());
        Ok(decoded.event)
    }

    /// How long the peer is waited for.
    fn patience(&mut self) -> Option<Duration> {
        if self.message_until.is_none() && (self.input.is_some() || self.message.is_some()) {
            self.message_until = Some(plimsoll_runtime::now() + self.config.message_timeout);
        }
        let left = self.message_until.map(|until| until.since(plimsoll_runtime::now()));
        [left, self.config.ping_interval].into_iter().flatten().min()
    }

    fn came(&mut self, fresh: Lease) -> Result<(), Error> {
        self.state = State::Open;
        if self.message.is_none() && self.input.is_none() {
            self.message_until = None;
        }
        self.keep(fresh)
    }

    /// Something else than bytes was what came; `false` when the socket was closed.
    async fn woken(&mut self, waited: Waited) -> Result<bool, Error> {
        let is_late = self.message_until.is_some_and(|until| until.since(plimsoll_runtime::now()).is_zero());
        match waited {
            Waited::Bytes(fresh) => self.came(fresh)?,
            Waited::End => {
                self.state = State::Closed;
                return Err(Error::Gone);
            }
            Waited::Elapsed if self.state == State::Asked || is_late => {
                let _sent_or_gone = self.say_close(Some(CloseCode::POLICY), "too slow").await;
                return Err(Error::Gone);
            }
            Waited::Elapsed => {
                self.send_control(Opcode::Ping, &[]).await?;
                self.state = State::Asked;
            }
            Waited::Stopping => {
                self.say_close(Some(CloseCode::GOING_AWAY), "").await?;
                self.await_close().await;
                self.end().await;
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn say_close_and_end(&mut self, code: Option<CloseCode>) -> Result<(), Error> {
        let said = self.say_close(code, "").await;
        self.end().await;
        said
    }

    async fn send_long(&mut self, message: Message) -> Result<(), Error> {
        let (body, _charge) = message.into_parts();
        let sent = match body {
            Body::Lease(lease) => timeout(self.config.send_timeout, self.stream.send_all(lease)).await,
            Body::Static(bytes) => timeout(self.config.send_timeout, self.stream.send_static(bytes)).await,
            body => timeout(self.config.send_timeout, self.stream.send_bytes(body.as_slice())).await,
        };
        self.judge(sent)
    }

    /// Puts what has come behind what is there already: a part of a head or of a control frame.
    fn keep(&mut self, fresh: Lease) -> Result<(), Error> {
        let kept = match self.input.take() {
            None => fresh,
            Some(rest) => {
                let mut joined = plimsoll_runtime::pool().try_acquire(rest.len() + fresh.len(), Kind::Buffers)?;
                joined.extend(&rest);
                joined.extend(&fresh);
                joined
            }
        };
        self.input = Some(kept);
        Ok(())
    }

    async fn wait(&mut self, at_most: Option<Duration>) -> Result<Waited, Error> {
        if self.seat.is_stopping() {
            return Ok(Waited::Stopping);
        }
        let mut stopped = pin!(signal::stopped());
        let mut elapsed = pin!(at_most.map(sleep));
        let mut received = pin!(self.stream.recv());
        let waited = poll_fn(|cx| {
            if let Poll::Ready(received) = received.as_mut().poll(cx) {
                return Poll::Ready(received.map(|lease| lease.map_or(Waited::End, Waited::Bytes)));
            }
            if stopped.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(Waited::Stopping));
            }
            match elapsed.as_mut().as_pin_mut() {
                Some(elapsed) => elapsed.poll(cx).map(|()| Ok(Waited::Elapsed)),
                None => Poll::Pending,
            }
        })
        .await;
        if waited.is_err() {
            self.state = State::Closed;
        }
        Ok(waited?)
    }

    async fn send_pongs(&mut self) -> Result<(), Error> {
        match self.pongs.take() {
            Some(pongs) => self.send_lease(pongs).await,
            None => Ok(()),
        }
    }

    async fn send_control(&mut self, opcode: Opcode, parts: &[&[u8]]) -> Result<(), Error> {
        if self.state == State::Closed {
            return Err(Error::Gone);
        }
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        debug_assert!(bytes <= CONTROL_BYTES_MAX, "a control frame");
        let mut lease = plimsoll_runtime::pool().try_acquire(HEAD_BYTES + bytes, Kind::Buffers)?;
        lease.extend(FrameHead::message(opcode, bytes as u64).encode().as_bytes());
        for part in parts {
            lease.extend(part);
        }
        self.send_lease(lease).await
    }

    async fn send_lease(&mut self, lease: Lease) -> Result<(), Error> {
        // As `timeout` does, which would have the future twice.
        let sent = {
            let mut late = pin!(sleep(self.config.send_timeout));
            let mut sent = pin!(self.stream.send_all(lease));
            poll_fn(|cx| match sent.as_mut().poll(cx) {
                Poll::Ready(sent) => Poll::Ready(Ok(sent)),
                Poll::Pending => late.as_mut().poll(cx).map(|()| Err(plimsoll_runtime::Error::TimedOut)),
            })
            .await
        };
        self.judge(sent)
    }

    /// Nothing follows a message of which only a part has left.
    fn judge(&mut self, sent: plimsoll_runtime::Result<plimsoll_runtime::Result<()>>) -> Result<(), Error> {
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => {
                self.state = State::Closed;
                Err(error.into())
            }
            Err(_elapsed) => {
                self.state = State::Closed;
                Err(Error::Gone)
            }
        }
    }

    async fn say_close(&mut self, code: Option<CloseCode>, reason: &str) -> Result<(), Error> {
        let mut end = reason.len().min(CONTROL_BYTES_MAX - 2);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let code = code.map(|code| code.0.to_be_bytes());
        let code = code.as_ref().map_or(&[][..], |code| &code[..]);
        let sent = self.send_control(Opcode::Close, &[code, &reason.as_bytes()[..end]]).await;
        self.state = State::Closed;
        sent
    }

    /// Our close frame has left: waits for the peer's.
    async fn await_close(&mut self) {
        let wait = self.config.close_timeout;
        let _closed_or_late = timeout(wait, async {
            loop {
                match self.decode() {
                    Ok(Event::NeedMore) if !self.decoder.is_closed() => {}
                    Ok(Event::NeedMore | Event::Close { .. }) | Err(_) => return,
                    Ok(_) => {
                        (self.message, self.pongs) = (None, None);
                        continue;
                    }
                }
                match self.stream.recv().await {
                    Ok(Some(fresh)) => {
                        if self.keep(fresh).is_err() {
                            return;
                        }
                    }
                    _ => return,
                }
            }
        })
        .await;
    }

    /// Both have said that they close, or the peer is not believed any more. Reads until the peer has closed: bytes that nobody read would make the
    /// kernel answer with a reset, which can overtake what we sent.
    async fn end(&mut self) {
        self.state = State::Closed;
        (self.input, self.message, self.pongs) = (None, None, None);
        let wait = self.config.close_timeout;
        if self.stream.shutdown_write().await.is_err() {
            return;
        }
        let mut dropped_bytes = 0;
        let _closed_or_late = timeout(wait, async {
            while let Ok(Some(lease)) = self.stream.recv().await {
                dropped_bytes += lease.len();
                if dropped_bytes > DROPPED_BYTES_MAX {
                    return;
                }
            }
        })
        .await;
    }
}

fn input_of(input: &Option<Lease>) -> &[u8] {
    input.as_deref().unwrap_or_default()
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("stream", &self.0.stream)
            .field("state", &self.0.state)
            .finish_non_exhaustive()
    }
}

/// Payloads up to this size are copied behind their head: one send instead of two.
const COPY_BYTES_MAX: usize = 16 * 1_024;
/// Of a control frame of ours.
const HEAD_BYTES: usize = 2;
/// Answers to pings that wait: 16 of the longest, hundreds of short ones.
const PONGS_BYTES: usize = 2_048;
/// What a peer may still send after the end.
const DROPPED_BYTES_MAX: usize = 4 << 20;
