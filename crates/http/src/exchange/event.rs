//! Server-sent events as text (WHATWG HTML, 9.2).

use ::core::fmt;
use ::core::time::Duration;

use http::StatusCode;
use plimsoll_runtime::Lease;

use crate::base::error::Error;
use crate::base::misuse::Misuse;
use crate::exchange::response::Response;

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
            return Err(Error::Misuse(Misuse::EventType));
        }
        if breaks(self.id, &['\r', '\n', '\0']) {
            return Err(Error::Misuse(Misuse::EventId));
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
pub(crate) struct Lines<'a>(pub(crate) Option<&'a str>);

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

/// The head of an answer of events. What a proxy has stored is no news, and one that gathers its answers brings them
/// late.
pub(crate) fn response() -> Result<Response, Error> {
    let fields = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no")];
    fields.iter().try_fold(Response::new(StatusCode::OK), |response, (name, value)| response.try_header(name, value))
}

/// A comment: ignored by browsers, noticed by proxies.
pub(crate) const HEARTBEAT: &[u8] = b":\n\n";

#[cfg(test)]
mod tests;
