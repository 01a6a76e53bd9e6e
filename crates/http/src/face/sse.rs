//! Server-sent events (WHATWG HTML, 9.2): an answer that goes on for as long as there is something to tell.
//!
//! [`Request::events`] begins the answer, and [`EventWriter`] writes to it.
//!
//! To tell many the same, see [`Hub`](crate::Hub).

use ::core::fmt;
use ::core::fmt::Write as _;
use ::core::future::{Future, poll_fn};
use ::core::pin::pin;
use ::core::task::Poll;
use ::core::time::Duration;

use plimsoll_runtime::{Kind, Lease, signal, sleep};

use crate::exchange::response::Body;
use crate::memory::lasting::Sort;
use crate::worker::stay::Stay;
use crate::{BodyWriter, Error, Request, Response, StatusCode};

/// One event, or a part of one: what is not given is not written.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_http::Event;
///
/// let event = Event::data("one\r\ntwo").event("count").id("7").retry(Duration::from_secs(2));
/// assert_eq!(event.to_text()?, "event: count\nid: 7\nretry: 2000\ndata: one\ndata: two\n\n");
/// assert!(Event::data("x").event("a\nid: b").to_text().is_err(), "a line break in a field is refused");
/// # Ok::<(), plimsoll_http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    data: Option<&'a str>,
    event: Option<&'a str>,
    id: Option<&'a str>,
    retry: Option<Duration>,
}

impl<'a> Event<'a> {
    /// An event with data, of any number of lines. CR, LF and CRLF end a line; the browser gets LF for each.
    pub const fn data(data: &'a str) -> Self {
        Self { data: Some(data), event: None, id: None, retry: None }
    }

    /// No data: for an [`id`](Self::id) or a [`retry`](Self::retry) alone, which a browser takes note of without an
    /// event.
    pub const fn empty() -> Self {
        Self { data: None, event: None, id: None, retry: None }
    }

    /// The event's type; a browser takes `message` when there is none. Neither CR nor LF.
    pub const fn event(self, event: &'a str) -> Self {
        Self { event: Some(event), ..self }
    }

    /// What a browser that lost its connection sends as `Last-Event-ID`. Neither CR, LF nor NUL.
    pub const fn id(self, id: &'a str) -> Self {
        Self { id: Some(id), ..self }
    }

    /// How long a browser waits before it connects again, in whole milliseconds.
    pub const fn retry(self, retry: Duration) -> Self {
        Self { retry: Some(retry), ..self }
    }

    /// The data.
    pub(crate) const fn data_text(&self) -> &'a str {
        match self.data {
            Some(data) => data,
            None => "",
        }
    }

    /// Whether its fields can be written.
    ///
    /// # Errors
    ///
    /// [`Error::Misuse`] for a line break in the type or the id, or a NUL in the id: the id would not come back
    /// (9.2.6).
    pub fn check(&self) -> Result<(), Error> {
        let breaks = |field: Option<&str>, refused: &[char]| field.is_some_and(|text| text.contains(refused));
        if breaks(self.event, &['\r', '\n']) {
            return Err(Error::Misuse("the type of an event has a line break"));
        }
        if breaks(self.id, &['\r', '\n', '\0']) {
            return Err(Error::Misuse("the id of an event has a line break or a NUL"));
        }
        Ok(())
    }

    /// The event as it is sent, its empty line included.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn to_text(&self) -> Result<String, Error> {
        self.check()?;
        let mut text = String::with_capacity(self.encoded_bytes());
        self.write(&mut text);
        Ok(text)
    }

    /// Bytes of the event as it is sent.
    pub(crate) fn encoded_bytes(&self) -> usize {
        let mut count = Count(0);
        self.write(&mut count);
        count.0
    }

    /// Writes the event to what has room for it.
    pub(crate) fn write(&self, out: &mut impl fmt::Write) {
        let written = self.try_write(out);
        debug_assert!(written.is_ok(), "room was made");
    }

    fn try_write(&self, out: &mut impl fmt::Write) -> fmt::Result {
        for (name, field) in [("event: ", self.event), ("id: ", self.id)] {
            if let Some(text) = field {
                out.write_str(name)?;
                out.write_str(text)?;
                out.write_char('\n')?;
            }
        }
        if let Some(retry) = self.retry {
            writeln!(out, "retry: {}", retry.as_millis())?;
        }
        if let Some(data) = self.data {
            for line in Lines(Some(data)) {
                out.write_str("data: ")?;
                out.write_str(line)?;
                out.write_char('\n')?;
            }
        }
        out.write_char('\n')
    }
}

/// The lines of a text, ended by CR, LF or CRLF; one at least.
struct Lines<'a>(Option<&'a str>);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.take()?;
        let Some(at) = text.find(['\r', '\n']) else { return Some(text) };
        let break_bytes = if text[at..].starts_with("\r\n") { 2 } else { 1 };
        self.0 = Some(&text[at + break_bytes..]);
        Some(&text[..at])
    }
}

/// Counts what is written.
struct Count(usize);

impl fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

/// Writes to a lease, up to its end.
pub(crate) struct LeaseText<'a>(pub(crate) &'a mut Lease);

impl fmt::Write for LeaseText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.extend(text.as_bytes()) == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// How a stream of events behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsConfig {
    /// A comment is sent when nothing else was for so long, so that proxies keep the connection and a peer that is gone
    /// is noticed. 15 s; `None` for never.
    pub heartbeat: Option<Duration>,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self { heartbeat: Some(Duration::from_secs(15)) }
    }
}

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
        self.ticket().core().may_stay()?;
        let out = self.respond(response()?, None)?;
        Ok(EventWriter { out, config, stay: self.ticket().stay(Sort::Events) })
    }
}

/// The head of an answer of events. What a proxy has stored is no news, and one that gathers its answers brings them
/// late.
pub(crate) fn response() -> Result<Response, Error> {
    let fields = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")];
    fields.iter().try_fold(Response::new(StatusCode::OK), |response, (name, value)| response.try_header(name, value))
}

/// A comment: ignored by browsers, noticed by proxies.
pub(crate) const HEARTBEAT: &[u8] = b":\n\n";

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
    /// [`Error::Misuse`] for an event that cannot be written, see [`Event::check`]; [`Error::Gone`] when the client
    /// went away; [`Error::OverBudget`].
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
    /// [`Error::Gone`], [`Error::OverBudget`].
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
    /// [`Error::Gone`] when the client went away, [`Error::OverBudget`].
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
                Came::Silence => self.write(Body::Static(HEARTBEAT)).await?,
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

#[cfg(test)]
mod tests;
