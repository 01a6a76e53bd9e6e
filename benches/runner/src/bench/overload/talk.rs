//! What is said on one connection: bytes in, bytes and ended requests out.

use std::time::Duration;

use super::answer::Answer;
use super::ask::{Ask, UPLOAD_PIECE_BYTES, UPLOAD_PIECES, Wire, Work};
use super::http2::Session;
use super::ledger::Outcome;
use super::member::Member;

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attempt {
    /// No other one has it.
    pub(super) id: u64,
    /// Since the start.
    pub(super) due: Duration,
    /// How often its client has come back.
    pub(super) returns: u8,
}

/// What is said on one connection.
#[derive(Debug)]
pub(super) enum Talk {
    Http1(Exchange),
    Http2(Session),
    WebSocket(Member),
}

/// What has come of some bytes.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) ended: Vec<(Attempt, Outcome)>,
    /// The client closes the connection.
    pub(super) closes: bool,
    /// A WebSocket is where it stays.
    pub(super) stays: bool,
}

impl Talk {
    pub(super) fn new(ask: &Ask, out: &mut Vec<u8>) -> Talk {
        match (ask.work, ask.wire) {
            (Work::WebSocket, _) => Talk::WebSocket(Member::default()),
            (_, Wire::Http2) => Talk::Http2(Session::new(out)),
            (_, wire) => Talk::Http1(Exchange::new(wire == Wire::New)),
        }
    }

    /// It can take another request.
    pub(super) fn has_room(&self) -> bool {
        match self {
            Talk::Http1(exchange) => exchange.has_room(),
            Talk::Http2(session) => session.has_room(),
            Talk::WebSocket(member) => member.has_room(),
        }
    }

    /// A request begins.
    pub(super) fn begin(&mut self, attempt: Attempt, ask: &Ask, out: &mut Vec<u8>) {
        match self {
            Talk::Http1(exchange) => exchange.begin(attempt, ask, out),
            Talk::Http2(session) => session.begin(attempt, ask, out),
            Talk::WebSocket(member) => member.begin(attempt, ask, out),
        }
    }

    /// Takes what has come.
    pub(super) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>, effects: &mut Effects) {
        match self {
            Talk::Http1(exchange) => exchange.feed(bytes, effects),
            Talk::Http2(session) => session.feed(bytes, out, effects),
            Talk::WebSocket(member) => member.feed(bytes, out, effects),
        }
    }

    /// The connection has ended; it was there at all, or was not.
    pub(super) fn end(&mut self, was_open: bool, effects: &mut Effects) {
        let from = effects.ended.len();
        match self {
            Talk::Http1(exchange) => exchange.end(effects),
            Talk::Http2(session) => session.end(effects),
            Talk::WebSocket(member) => member.end(effects),
        }
        if !was_open {
            effects.ended[from..].iter_mut().for_each(|(_, outcome)| *outcome = Outcome::Unopened);
        }
    }

    /// The client has waited long enough for this request.
    pub(super) fn give_up(&mut self, id: u64, out: &mut Vec<u8>, effects: &mut Effects) {
        let attempt = match self {
            Talk::Http1(exchange) => exchange.attempt.take_if(|attempt| attempt.id == id),
            Talk::WebSocket(member) => member.give_up(id),
            Talk::Http2(session) => session.give_up(id, out),
        };
        if let Some(attempt) = attempt {
            effects.ended.push((attempt, Outcome::Late));
            effects.closes |= !matches!(self, Talk::Http2(_));
        }
    }

    /// The next piece of a body; whether there is one after it.
    pub(super) fn next_piece(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Talk::Http1(exchange) => exchange.next_piece(out),
            Talk::Http2(_) | Talk::WebSocket(_) => false,
        }
    }

    /// A WebSocket has stayed long enough.
    pub(super) fn leave(&mut self, out: &mut Vec<u8>) {
        if let Talk::WebSocket(member) = self {
            member.leave(out);
        }
    }
}

/// One request at a time in HTTP/1.1.
#[derive(Debug)]
pub(super) struct Exchange {
    attempt: Option<Attempt>,
    answer: Answer,
    /// Pieces of the body that are not sent.
    pieces_left: usize,
    /// It is for one request only.
    once: bool,
    is_used: bool,
}

impl Exchange {
    fn new(once: bool) -> Exchange {
        Exchange { attempt: None, answer: Answer::default(), pieces_left: 0, once, is_used: false }
    }

    fn has_room(&self) -> bool {
        self.attempt.is_none() && !(self.once && self.is_used)
    }

    fn begin(&mut self, attempt: Attempt, ask: &Ask, out: &mut Vec<u8>) {
        (self.attempt, self.answer, self.is_used) = (Some(attempt), Answer::default(), true);
        out.extend(ask.head());
        if ask.work == Work::Upload {
            self.pieces_left = UPLOAD_PIECES;
            self.next_piece(out);
        }
    }

    fn next_piece(&mut self, out: &mut Vec<u8>) -> bool {
        if self.pieces_left > 0 {
            self.pieces_left -= 1;
            out.extend([b'u'; UPLOAD_PIECE_BYTES]);
        }
        self.pieces_left > 0
    }

    fn feed(&mut self, bytes: &[u8], effects: &mut Effects) {
        let taken = self.answer.feed(bytes);
        if self.attempt.is_some() && taken == Ok(bytes.len()) && !self.answer.is_done() {
            return;
        }
        // Bytes that nobody asked for, or that are no answer, end the connection, too.
        let is_whole = taken == Ok(bytes.len()) && self.answer.is_done();
        if let Some(attempt) = self.attempt.take() {
            let outcome = match self.answer.status {
                _ if !is_whole => Outcome::Wrong,
                200 => Outcome::Served,
                503 => Outcome::Refused(self.answer.retry_after),
                _ => Outcome::Wrong,
            };
            effects.ended.push((attempt, outcome));
        }
        effects.closes |= !is_whole || self.once || self.answer.closes || self.pieces_left > 0;
    }

    fn end(&mut self, effects: &mut Effects) {
        if let Some(attempt) = self.attempt.take() {
            let outcome = if self.answer.is_begun() { Outcome::Cut } else { Outcome::Silent };
            effects.ended.push((attempt, outcome));
        }
    }
}

#[cfg(test)]
mod tests;
