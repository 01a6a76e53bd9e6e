//! The end of what a carried connection sends: what its transport says of it, whole, and then the end of the half.
//!
//! ```text
//!                        a send is in flight
//!   Ending::No --asked--> Ending::Asked --sent--+
//!       |                                       v
//!       +--asked------------------------> the transport's end --the socket takes it--> shut down
//!                                               | a part of it, or nothing             ^
//!                                               v                                      |
//!                                         Ending::InFlight --sent---------------------+
//! ```
//!
//! Nothing is shut down behind a part of a record. Without memory for the rest of the end, nothing is shut down either.
#![forbid(unsafe_code)]

use plimsoll_pool::Kind;
use plimsoll_reactor::SendBytes;
use plimsoll_slab::Key;

use super::Table;
use super::slot::Ending;
use crate::net::transport::END_BYTES_MAX;

impl<C: Default> Table<C> {
    /// Ends what is sent, behind all that is in flight.
    #[cold]
    pub(super) fn end_carried(&mut self, key: Key) {
        if self.entry(key).send.is_some() || self.send_output(key).is_err() || self.entry(key).send.is_some() {
            self.carried(key).ending = Ending::Asked;
            return;
        }
        self.carried(key).ending = Ending::No;
        let (pool, mut room) = (self.worker.pool.clone(), [0; END_BYTES_MAX]);
        let len = self.carried(key).with(&pool, |transport| transport.end(&mut room));
        let end = &room[..len];
        let sent = if len == 0 { Ok(0) } else { self.worker.driver.borrow_mut().send_now(self.fd(key), end) };
        let rest = &end[sent.unwrap_or(0)..];
        if rest.is_empty() {
            return self.shut_down(key);
        }
        let rest = self.worker.pool.try_copy(rest, Kind::Buffers);
        if rest.is_ok_and(|rest| self.submit_send(key, SendBytes::Lease(rest)).is_ok()) {
            self.carried(key).ending = Ending::InFlight;
        } else if sent.unwrap_or(0) == 0 {
            self.shut_down(key);
        }
    }

    /// What was in flight has left: whether the end was among it, or follows.
    pub(super) fn goes_on_ending(&mut self, key: Key) -> bool {
        match self.carried(key).ending {
            Ending::No => return false,
            Ending::Asked => self.end_carried(key),
            Ending::InFlight => {
                self.carried(key).ending = Ending::No;
                self.shut_down(key);
            }
        }
        true
    }
}
