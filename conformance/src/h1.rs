//! The cases of HTTP/1.1 (RFC 9110, RFC 9112), in files by what they are about.
//!
//! A case is all that a client sends on one connection. The server that it is sent to behaves like this:
//!
//! | request | answer |
//! |---|---|
//! | any | reads the body, then 200 with a field `seen` that describes the request, see [`Answer::Takes`] |
//! | `/early` | 200 with `seen`, and the body is not read |
//! | `/hints` | reads the body, then 102, then 103, then 200 with `seen` |
//! | `/204`, `/205`, `/304` | that status |
//! | `/upgrade` | reads the body, then 101 to a client that offers `echo/1`, else 426 |
//! | CONNECT to `open:1` | 200, and a tunnel |
//! | any other CONNECT | 405 |
//!
//! What comes after a 101 or through a tunnel is given back as it is, until the client closes its half.
//!
//! Whether the connection is kept shows in what becomes of a request that follows the case, the [`PROBE`]: it is part
//! of the same stream of bytes, so a server that loses its place answers it wrongly, and one that repairs an ambiguous
//! message answers it at all.

mod chunks;
mod exchanges;
mod fields;
mod framing;
mod hosts;
mod interims;
mod limits;
mod lines;
mod request_line;
mod switches;

/// One rule, and what a client sends to see it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The rule in a few words.
    pub rule: &'static str,
    /// Number of the RFC and section: `9112 2.2`.
    pub section: &'static str,
    /// What is sent, without the frame of its group and without the probe.
    pub input: Input,
    /// What comes back, in order.
    pub answers: &'static [Answer],
    /// What becomes of the connection.
    pub end: End,
    /// What the client does after the input.
    pub then: Then,
}

/// Bytes to be sent. Long ones are not written out.
#[derive(Clone, Copy, Debug)]
pub enum Input {
    /// These.
    Bytes(&'static [u8]),
    /// `before`, then `repeated` so many `times`, then `after`.
    Long {
        /// The beginning.
        before: &'static [u8],
        /// What makes it long.
        repeated: &'static [u8],
        /// How often that comes.
        times: usize,
        /// The end.
        after: &'static [u8],
    },
}

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 200 with this description of the request: `METHOD path ?query host=HOST body=BODY trailers=NAME=VALUE,...`, the
    /// last four where they are there. The body and the values are escaped as in Rust's `escape_ascii`, or their length
    /// if they have more than [`BODY_SHOWN_BYTES_MAX`] bytes.
    Takes(&'static str),
    /// This status.
    Status(u16),
    /// This status, which ends HTTP on the connection, and then these bytes, escaped as in Rust's `escape_ascii`: what
    /// the client sent behind it.
    Switches(u16, &'static str),
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The next request is answered.
    Kept,
    /// It is closed, and nothing that follows is answered.
    Closed,
}

/// What the client does after the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Sends the [`PROBE`].
    Probe,
    /// Sends nothing more and closes its half.
    HalfClose,
}

/// Cases that share what comes before and after their input.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// What they are about.
    title: &'static str,
    before: &'static [u8],
    cases: &'static [Case],
    after: &'static [u8],
}

/// A case with its frame: what is really sent.
#[derive(Clone, Debug)]
pub struct Framed {
    /// What its group is about.
    pub title: &'static str,
    /// The case.
    pub case: Case,
    /// Everything before the probe.
    pub input: Vec<u8>,
}

impl Framed {
    /// All bytes that the client sends.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self.case.then {
            Then::Probe => [&self.input, PROBE].concat(),
            Then::HalfClose => self.input.clone(),
        }
    }

    /// What a client should see.
    #[must_use]
    pub fn expected(&self) -> Outcome {
        let answers = self.case.answers.iter().map(|answer| match answer {
            Answer::Takes(seen) => format!("200 {seen}"),
            Answer::Status(status) => status.to_string(),
            Answer::Switches(status, bytes) => switched(*status, bytes),
        });
        Outcome { answers: answers.collect(), end: self.case.end }
    }

    /// Whether it is a case for any server, and not one that needs a handler which leaves HTTP or sends interim
    /// answers.
    #[must_use]
    pub fn is_for_any_server(&self) -> bool {
        ![switches::UPGRADE, switches::TUNNEL, interims::HINTS].contains(&self.title)
    }

    /// Whether interim answers matter, also those that must not be there.
    pub(crate) fn wants_interim(&self) -> bool {
        self.title == interims::HINTS || self.case.answers.contains(&Answer::Status(100))
    }
}

/// An answer after which the connection is no more of HTTP, with what came then.
pub(crate) fn switched(status: u16, bytes: &str) -> String {
    match bytes {
        "" => format!("{status} then nothing"),
        _ => format!("{status} then {bytes}"),
    }
}

/// What a client saw, or should see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `200 description`, or the status alone; without the answer to the probe.
    pub answers: Vec<String>,
    /// Whether the probe was answered.
    pub end: End,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let end = match self.end {
            End::Kept => "kept",
            End::Closed => "closed",
        };
        match self.answers.is_empty() {
            true => write!(f, "no answer; {end}"),
            false => write!(f, "{}; {end}", self.answers.join(", ")),
        }
    }
}

/// Every case, in the order of the documents.
#[must_use]
pub fn cases() -> Vec<Framed> {
    let groups = [lines::GROUPS, request_line::GROUPS, hosts::GROUPS, fields::GROUPS, framing::GROUPS, chunks::GROUPS];
    let others = [limits::GROUPS, exchanges::GROUPS, interims::GROUPS, switches::GROUPS];
    let groups = groups.into_iter().chain(others).flatten();
    groups.flat_map(|group| group.cases.iter().map(|case| group.frame(case))).collect()
}

impl Group {
    /// Cases that are written out as a whole.
    const fn raw(title: &'static str, cases: &'static [Case]) -> Group {
        Group { title, before: b"", cases, after: b"" }
    }

    fn frame(&self, case: &Case) -> Framed {
        let input = match case.input {
            Input::Bytes(bytes) => [self.before, bytes, self.after].concat(),
            Input::Long { before, repeated, times, after } => {
                [self.before, before, &repeated.repeat(times), after, self.after].concat()
            }
        };
        Framed { title: self.title, case: *case, input }
    }
}

impl Case {
    /// A case with one answer, after which the connection is kept if it is [`Answer::Takes`].
    const fn new(section: &'static str, rule: &'static str, input: Input, answers: &'static [Answer]) -> Case {
        let end = match answers.last() {
            Some(Answer::Takes(_)) => End::Kept,
            _ => End::Closed,
        };
        Case { rule, section, input, answers, end, then: Then::Probe }
    }

    const fn closes(mut self) -> Case {
        self.end = End::Closed;
        self
    }

    const fn keeps(mut self) -> Case {
        self.end = End::Kept;
        self
    }

    const fn half_close(mut self) -> Case {
        self.then = Then::HalfClose;
        self.end = End::Closed;
        self
    }
}

/// A case with these answers.
const fn case(section: &'static str, rule: &'static str, input: &'static [u8], answers: &'static [Answer]) -> Case {
    Case::new(section, rule, Input::Bytes(input), answers)
}

/// A case that is refused: the answer, and the connection is closed.
macro_rules! refused {
    ($status:literal, $section:literal, $rule:literal, $input:expr) => {
        $crate::h1::case($section, $rule, $input, &[$crate::h1::Answer::Status($status)])
    };
}

/// A case that is taken, with what a handler sees; the connection is kept.
macro_rules! taken {
    ($section:literal, $rule:literal, $input:expr, $seen:literal) => {
        $crate::h1::case($section, $rule, $input, &[$crate::h1::Answer::Takes($seen)])
    };
}

use {refused, taken};

/// What follows a case, to see whether the connection is kept.
pub const PROBE: &[u8] = b"GET /probe HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n";

/// What a handler sees of the probe.
pub const PROBE_SEEN: &str = "GET /probe host=probe";

/// Longer bodies are described by their length.
pub const BODY_SHOWN_BYTES_MAX: usize = 64;

/// A body that nobody reads is dropped up to this length; then the connection is closed.
pub const DRAIN_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
