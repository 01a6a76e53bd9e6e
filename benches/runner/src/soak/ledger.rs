//! What honest clients have sent and got, and what went wrong for them.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Http1,
    Http2,
    WebSocket,
    /// On a stream of HTTP/2.
    WebSocketHttp2,
    /// HTTP/1.1 through the relay.
    Relayed,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] = [Kind::Http1, Kind::Http2, Kind::WebSocket, Kind::WebSocketHttp2, Kind::Relayed];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Http1 => "HTTP/1.1",
            Kind::Http2 => "HTTP/2",
            Kind::WebSocket => "WebSocket",
            Kind::WebSocketHttp2 => "WebSocket on HTTP/2",
            Kind::Relayed => "through the relay",
        }
    }
}

/// The fate of one request, message or connection, as far as it is legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Answered, all of it, with what was due.
    Answered(u16),
    /// A message of a WebSocket has come back.
    Echoed,
    /// Turned away in words: 408 or 503, REFUSED_STREAM, WebSocket 1013.
    Refused(u16),
    /// The connection was closed before anything of the answer: an idle one may be at any time, a new one when there is
    /// no room.
    LetGo,
    /// The server ended it when its answer had begun: to make room, under one of its reasons.
    Cut,
    /// The client went away in the middle.
    Cancelled,
    /// The relay's target was away, or went away meanwhile.
    Interrupted,
}

/// Sums for one kind of client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Connections that were opened.
    pub(super) connections: u64,
    /// Requests of which the server may have heard, handshakes included.
    pub(super) requests: u64,
    /// Answers that came whole, by status, refusals included.
    pub(super) answers: BTreeMap<u16, u64>,
    pub(super) echoes: u64,
    pub(super) refused: u64,
    pub(super) let_go: u64,
    pub(super) cut: u64,
    pub(super) cancelled: u64,
    pub(super) interrupted: u64,
}

impl Tally {
    pub(super) fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Answered(status) => *self.answers.entry(status).or_default() += 1,
            Fate::Refused(status) => {
                self.refused += 1;
                if status > 0 {
                    *self.answers.entry(status).or_default() += 1;
                }
            }
            Fate::Echoed => self.echoes += 1,
            Fate::LetGo => self.let_go += 1,
            Fate::Cut => self.cut += 1,
            Fate::Cancelled => self.cancelled += 1,
            Fate::Interrupted => self.interrupted += 1,
        }
    }

    /// Answers that were no refusal.
    pub(super) fn served(&self) -> u64 {
        self.answers.iter().filter(|(status, _)| !REFUSALS.contains(status)).map(|(_, count)| count).sum()
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.connections += other.connections;
        self.requests += other.requests;
        self.echoes += other.echoes;
        self.refused += other.refused;
        self.let_go += other.let_go;
        self.cut += other.cut;
        self.cancelled += other.cancelled;
        self.interrupted += other.interrupted;
        for (status, count) in &other.answers {
            *self.answers.entry(*status).or_default() += count;
        }
    }
}

/// By kind of client.
pub(super) type Tallies = BTreeMap<Kind, Tally>;

/// What the clients of one phase report to.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tallies: Mutex<Tallies>,
    failures: Mutex<Vec<String>>,
}

impl Ledger {
    pub(super) fn add(&self, kind: Kind, tally: &Tally) {
        *lock(&self.tallies).entry(kind).or_default() += tally;
    }

    /// What must not happen. The first of them are kept.
    pub(super) fn fail(&self, what: String) {
        let mut failures = lock(&self.failures);
        if failures.len() < FAILURES_MAX {
            failures.push(what);
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        !lock(&self.failures).is_empty()
    }

    pub(super) fn into_parts(self) -> (Tallies, Vec<String>) {
        (
            self.tallies.into_inner().unwrap_or_else(PoisonError::into_inner),
            self.failures.into_inner().unwrap_or_else(PoisonError::into_inner),
        )
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Statuses by which a server says that it is the line, or the time, and not the request.
pub(super) const REFUSALS: [u16; 2] = [408, 503];
const FAILURES_MAX: usize = 20;
