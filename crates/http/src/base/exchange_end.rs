//! Exchanges that were begun: each ends once, for one reason, which is counted.
//!
//! ```text
//!        handler made         over, all of its answer written      the socket has taken that
//!  None -------------> Running ------------------------------> Answered ----------------> finished
//!                        |                                        | the connection ends before
//!                        | it cannot go on, and why               v
//!                        v                 slot or connection   peer, timeout, overstay, stop
//!                     Cut(why) ---------------------------------> why
//! ```
//!
//! An exchange has its [`Course`] while it is worked on. From then on it is one of those that its connection counts in
//! [`Answered`]: of answers to requests that came together nothing is known but how many are on their way. The first
//! reason that is noted stays: what follows from it is no other.

use plimsoll_runtime::OverBudget;

use crate::base::counters::WorkerCounters;
use crate::base::error::Error;

/// How an exchange ended that was begun: its handler's future was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum ExchangeEnd {
    /// Its handler is over, and the socket has taken all of its answer. So ends an answer, too, that its handler cut
    /// short.
    Finished,
    /// The peer went away, reset the connection or the stream, or broke the protocol.
    Peer,
    /// The time of a setting was up: for a body, the peer to take output, the handler, or memory; or its peer was too
    /// slow while others waited.
    Timeout,
    /// It was shed for want of memory, after [`begun_protection`](crate::Config::begun_protection).
    Overstay,
    /// The server stopped, and the time to drain was over.
    Stop,
}

impl ExchangeEnd {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Finished, Self::Peer, Self::Timeout, Self::Overstay, Self::Stop];

    /// Its name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Peer => "peer",
            Self::Timeout => "timeout",
            Self::Overstay => "overstay",
            Self::Stop => "stop",
        }
    }
}

/// Where an exchange is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Course {
    /// Not begun, or over.
    #[default]
    None,
    Running,
    /// It cannot go on, and counts so when it is over.
    Cut(ExchangeEnd),
}

impl Course {
    /// It cannot go on.
    pub(crate) fn note(&mut self, why: ExchangeEnd) {
        if *self == Self::Running {
            *self = Self::Cut(why);
        }
    }

    /// What its handler is told that asks for more of it, when it is over.
    pub(crate) fn error(self) -> Error {
        match self {
            Self::Cut(ExchangeEnd::Timeout) => Error::TimedOut,
            Self::Cut(ExchangeEnd::Overstay) => OverBudget::new(0).into(),
            Self::Cut(ExchangeEnd::Peer | ExchangeEnd::Stop | ExchangeEnd::Finished) | Self::None | Self::Running => {
                Error::Disconnected
            }
        }
    }

    /// It is over before its answer was written.
    pub(crate) fn end(&mut self, why: ExchangeEnd, counters: &WorkerCounters) {
        self.note(why);
        if let Self::Cut(why) = ::core::mem::take(self) {
            counters.exchanges_ended(why, 1);
        }
    }
}

/// Exchanges of a connection whose answers are written and not taken by the socket yet. Each of those has some bytes in
/// an output of 64 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Their last bytes wait in the output.
    gathered: u16,
    /// Their last bytes are in the send that is in flight.
    sending: u16,
}

impl Answered {
    /// Of a connection on which nothing was worked: so many are in flight.
    pub(crate) fn sending(sending: u16) -> Self {
        Self { gathered: 0, sending }
    }

    /// An exchange is over, and its answer is written if it was not cut.
    #[inline]
    pub(crate) fn add(&mut self, course: &mut Course, counters: &WorkerCounters) {
        if *course == Course::None {
            return;
        }
        if let Course::Cut(why) = ::core::mem::take(course) {
            return counters.exchanges_ended(why, 1);
        }
        debug_assert!(self.gathered < u16::MAX, "each has bytes in the output");
        self.gathered += 1;
    }

    /// Output was handed to the socket, or the socket has taken some: whether a send is in flight now, and all that was
    /// gathered is in it or has left.
    #[inline]
    pub(crate) fn settle(&mut self, is_sending: bool, is_output_empty: bool, counters: &WorkerCounters) {
        if *self == Self::default() {
            return;
        }
        if is_output_empty {
            self.sending += ::core::mem::take(&mut self.gathered);
        }
        if !is_sending && self.sending > 0 {
            counters.exchanges_ended(ExchangeEnd::Finished, ::core::mem::take(&mut self.sending).into());
        }
    }

    /// The connection ends before the socket has taken all.
    pub(crate) fn end(&mut self, why: ExchangeEnd, counters: &WorkerCounters) {
        let Self { gathered, sending } = ::core::mem::take(self);
        if gathered + sending > 0 {
            counters.exchanges_ended(why, u32::from(gathered) + u32::from(sending));
        }
    }

    /// Those of a connection with nothing in its output: they are in the send that is in flight.
    pub(crate) fn in_flight(self) -> u16 {
        debug_assert_eq!(self.gathered, 0, "nothing is gathered");
        self.sending
    }
}

#[cfg(test)]
mod tests;
