//! What the server says of its handlers, and whether that is what the clients know.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::ledger::Tally;
use crate::bench::client;

/// The handlers of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) begun: u64,
    /// By themselves.
    pub(super) finished: u64,
    /// Half way.
    pub(super) dropped: u64,
}

/// By how much the server's counts are not what the clients know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Difference {
    /// Handlers that were dropped half way although no client of theirs had left.
    pub(super) dropped: u64,
    /// Handlers that ended by themselves, and whose clients did not get the answer; those that had left are not
    /// counted.
    pub(super) unheard: u64,
    /// Handlers that were begun and have no end.
    pub(super) running: u64,
    /// Requests that were served without a handler: a fault of the measurement.
    pub(super) unbegun: u64,
}

impl Counts {
    /// Asks until no handler of this kind runs any more, and for some time at most. The error is that the server does
    /// not answer.
    pub(super) fn settled(server: SocketAddr, kind: &str) -> Result<Counts, String> {
        let deadline = Instant::now() + SETTLED_IN;
        loop {
            let asked = client::get(server, "/counts").map_err(|error| format!("GET /counts: {error}"));
            let counts = asked.and_then(|text| Counts::parse(&text, kind));
            match counts {
                Ok(counts) if counts.running() == 0 => return Ok(counts),
                counts if Instant::now() >= deadline => return counts,
                _ => thread::sleep(POLL),
            }
        }
    }

    /// From the server's text.
    fn parse(text: &str, kind: &str) -> Result<Counts, String> {
        let of = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, "begun", begun, "finished", finished, "dropped", dropped] = words[..] else { return None };
            let number = |word: &str| word.parse().ok();
            (name == kind).then(|| {
                Some(Counts { begun: number(begun)?, finished: number(finished)?, dropped: number(dropped)? })
            })?
        };
        text.lines().find_map(of).ok_or_else(|| format!("/counts says nothing of {kind}"))
    }

    /// Without so many that were begun and ended for somebody else.
    pub(super) const fn without(self, others: u64) -> Counts {
        Counts {
            begun: self.begun.saturating_sub(others),
            finished: self.finished.saturating_sub(others),
            dropped: self.dropped,
        }
    }

    const fn running(&self) -> u64 {
        self.begun - self.finished - self.dropped
    }

    /// What the clients cannot explain.
    pub(super) fn beside(&self, tally: &Tally) -> Difference {
        // A handler of a client that left may have been dropped for that, or have ended all the same.
        let unexplained = self.dropped.saturating_sub(tally.late);
        let left = tally.late.saturating_sub(self.dropped);
        Difference {
            dropped: unexplained,
            unheard: self.finished.saturating_sub(tally.served + left),
            running: self.running(),
            unbegun: tally.served.saturating_sub(self.finished),
        }
    }
}

/// After the clients have gone.
const SETTLED_IN: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    //! The server's text is read, and what does not add up is found.

    use super::{Counts, Difference};
    use crate::bench::overload::ledger::Tally;

    #[test]
    fn the_line_of_the_kind_is_read() {
        let text = "HTTP/1.1 200 OK\r\n\r\nsleep begun 7 finished 4 dropped 2\ntiny begun 1 finished 1 dropped 0\n";
        assert_eq!(Counts::parse(text, "sleep"), Ok(Counts { begun: 7, finished: 4, dropped: 2 }));
        assert_eq!(Counts::parse(text, "tiny").map(|counts| counts.running()), Ok(0));
        assert!(
            Counts::parse(text, "poll").is_err()
                && Counts::parse("sleep begun x finished 1 dropped 0", "sleep").is_err()
        );
    }

    #[test]
    fn what_the_clients_cannot_explain_is_told() {
        let beside = |begun, finished, dropped, served, late| {
            Counts { begun, finished, dropped }.beside(&Tally { served, late, ..Tally::default() })
        };
        assert_eq!(beside(10, 8, 2, 8, 2), Difference::default());
        // Three were dropped and one client left; two of those that ended were not heard, one still runs.
        assert_eq!(beside(12, 8, 3, 6, 1), Difference { dropped: 2, unheard: 2, running: 1, unbegun: 0 });
        // Both clients that left did so after their handlers had ended.
        assert_eq!(beside(8, 8, 0, 6, 2), Difference::default());
        assert_eq!(beside(5, 5, 0, 7, 0), Difference { unbegun: 2, ..Difference::default() });
    }
}
