//! Server-sent events (WHATWG HTML, 9.2): an answer that goes on for as long as there is something to tell.
//!
//! [`Request::events`] begins the answer, and [`EventWriter`] writes to it.
//!
//! To tell many the same, see [`Hub`](crate::Hub).

use ::core::fmt::Write as _;
use ::core::future::{Future, poll_fn};
use ::core::pin::pin;
use ::core::task::Poll;

use plimsoll_runtime::{Kind, signal, sleep};

use crate::exchange::event::{self, Event, EventsConfig, LeaseText, Lines};
use crate::exchange::response::Body;
use crate::memory::lasting::Sort;
use crate::worker::stay::Stay;
use crate::{BodyWriter, Error, Request, Response};

impl Request {
    /// The id of the last event that the client saw before it lost its connection; `None` on its first. What is not
    /// UTF-8 counts as none.
    pub fn last_event_id(&self) -> Option<&str> {
        ::core::str::from_utf8(self.header("last-event-id")?).ok().filter(|id| !id.is_empty())
    }

    /// Begins an answer of server-sent events. The handler returns what [`EventWriter::finish`] gives.
    ///
    /// ```
    /// use plimsoll_http::{Error, Event, EventsConfig, Request, Response};
    ///
    /// async fn hello(mut req: Request) -> Result<Response, Error> {
    ///     let mut events = req.events(EventsConfig::default())?;
    ///     events.send(&Event::data("hello")).await?;
    ///     events.finish().await
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`respond`](Self::respond).
    pub fn events(&mut self, config: EventsConfig) -> Result<EventWriter, Error> {
        if let Some(desk) = self.handle().desk() {
            desk.may_stay()?;
        }
        let out = self.respond(event::response()?, None)?;
        Ok(EventWriter { out, config, stay: Stay::of(self.handle(), Sort::Events) })
    }
}

/// Writes server-sent events, as fast as the peer takes them. See [`Request::events`].
///
/// Dropped before [`finish`](Self::finish), it leaves the answer cut short, which a browser takes as a lost connection.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_http::{Error, Event, EventsConfig, Request, Response};
///
/// async fn clock(mut req: Request) -> Result<Response, Error> {
///     // A browser that comes back says which event it saw last.
///     let mut at: u64 = req.last_event_id().and_then(|id| id.parse().ok()).unwrap_or(0);
///     let mut events = req.events(EventsConfig::default())?;
///     // Heartbeats while nothing happens, and `None` when the answer is to end.
///     while events.wait(plimsoll_runtime::sleep(Duration::from_secs(1))).await?.is_some() {
///         at += 1;
///         events.send(&Event::data("tick\ntock").event("clock").id(&at.to_string())).await?;
///     }
///     events.finish().await
/// }
/// ```
#[derive(Debug)]
pub struct EventWriter {
    out: BodyWriter,
    config: EventsConfig,
    stay: Stay,
}

impl EventWriter {
    /// Sends an event. Waits while more than the configured output waits for the socket.
    ///
    /// Not cancel safe: after a drop midway nobody knows whether the event was written.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for an event that cannot be written, see [`Event::check`]; [`Error::Disconnected`] when the
    /// client went away; [`Error::OverBudget`].
    pub async fn send(&mut self, event: &Event<'_>) -> Result<(), Error> {
        event.check()?;
        let bytes = event.encoded_bytes();
        let body = match plimsoll_runtime::pool().try_acquire(bytes, Kind::Buffers) {
            Ok(mut lease) => {
                event.write(&mut LeaseText(&mut lease));
                Body::Lease(lease)
            }
            // Longer than the longest lease: on the heap of the program, as its data are.
            Err(_) if bytes > plimsoll_pool::Class::K128.bytes() => Body::from(event.to_text()?),
            Err(over) => return Err(over.into()),
        };
        self.write(body).await
    }

    /// Sends a comment, which browsers ignore; a line for each of its lines.
    ///
    /// Not cancel safe, as [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`], [`Error::OverBudget`].
    pub async fn comment(&mut self, text: &str) -> Result<(), Error> {
        let mut comment = String::new();
        for line in Lines(Some(text)) {
            // Writing to a string does not fail.
            let _infallible = writeln!(comment, ": {line}");
        }
        comment.push('\n');
        self.write(Body::from(comment)).await
    }

    /// Waits for something, with a heartbeat as often as nothing else was sent for the configured time. `None` when the
    /// server stops, or when others wait for memory that this answer takes: [`finish`](Self::finish) then. A stop does
    /// not have to wait for this answer, and its client gets a whole one, and connects again. For want of memory the
    /// server itself ends one that goes on for another second, and drops its handler.
    ///
    /// Cancel safe if the future is, but while a heartbeat waits for the socket.
    ///
    /// # Errors
    ///
    /// [`Error::Disconnected`] when the client went away, [`Error::OverBudget`].
    pub async fn wait<T>(&mut self, what: impl Future<Output = T>) -> Result<Option<T>, Error> {
        let mut what = pin!(what);
        let mut stopped = pin!(signal::stopped());
        loop {
            let mut silent = pin!(self.config.heartbeat.map(sleep));
            let came = poll_fn(|cx| {
                if let Poll::Ready(value) = what.as_mut().poll(cx) {
                    return Poll::Ready(Came::Value(value));
                }
                if stopped.as_mut().poll(cx).is_ready() || self.stay.poll_told(cx).is_ready() {
                    return Poll::Ready(Came::Stop);
                }
                match silent.as_mut().as_pin_mut() {
                    Some(silent) => silent.poll(cx).map(|()| Came::Silence),
                    None => Poll::Pending,
                }
            })
            .await;
            match came {
                Came::Value(value) => return Ok(Some(value)),
                Came::Stop => return Ok(None),
                Came::Silence => self.write(Body::Static(event::HEARTBEAT)).await?,
            }
        }
    }

    /// Sends events that were encoded before.
    pub(crate) async fn write(&mut self, body: Body) -> Result<(), Error> {
        match body {
            Body::Static(bytes) => self.out.write_static(bytes).await,
            Body::Lease(lease) => self.out.write(lease).await,
            Body::Bytes(bytes) => self.out.write_bytes(bytes).await,
            Body::Empty => Ok(()),
        }
    }

    /// Ends the answer. A browser connects again after a while; to have it stay away, answer that request with 204.
    ///
    /// # Errors
    ///
    /// As [`BodyWriter::finish`].
    pub async fn finish(self) -> Result<Response, Error> {
        self.out.finish().await
    }
}

enum Came<T> {
    Value(T),
    Stop,
    Silence,
}
