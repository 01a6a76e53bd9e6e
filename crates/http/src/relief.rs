//! What the memory level means for the connections of a server.
//!
//! | level | what is done |
//! |---|---|
//! | calm | nothing |
//! | yellow | a connection that is parked now waits a quarter of its time |
//! | orange, red | answers close their connections, a connection that has output waiting begins no further request, and room is made |
//!
//! Room is made a little in each turn, and at once when a whole request finds none: incomplete heads go first, with a 503 from static bytes;
//! when none was found, connections whose peer has taken nothing of its output for a second. The places of the table are looked at from the
//! highest to the lowest: low ones are filled first, so the newest tend to be high.
#![forbid(unsafe_code)]

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_runtime::net::Table;
use plimsoll_slab::Key;

use crate::config::Config;
use crate::connection::{Connection, Deadline};
use crate::counters::Shed;
use crate::engine::Engine;
use crate::server::Service;

/// Connections looked at in one turn at most.
const LOOKS_MAX: u32 = 512;
/// Connections let go of in one turn at most.
const SHED_MAX: u32 = 32;
/// How often a request that finds no room is tried again after room was made.
const TRIES_MAX: u32 = 4;
/// Output of which the peer has taken nothing for so long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Why a connection may be let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    IncompleteHead,
    StalledOutput,
}

impl<S: Service> Engine<S> {
    /// Makes some room, if memory is short.
    pub(crate) fn relieve(&mut self) {
        if self.core.is_short() && self.make_room(None) {
            // There may be more to let go of.
            self.core.look_again();
        }
    }

    /// Does what needs room for a connection; when there is none, lets go of others and tries again. The error is that of the last try.
    pub(crate) fn retried<T, E>(&mut self, key: Key, mut act: impl FnMut(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let mut tries = 0;
        loop {
            match act(self) {
                Err(_) if tries < TRIES_MAX && self.make_room(Some(key)) => tries += 1,
                done => return done,
            }
        }
    }

    /// Lets go of some connections, but not of `keep`; whether of any.
    fn make_room(&mut self, keep: Option<Key>) -> bool {
        // A request that waits for room is worth a look at everybody.
        let places = self.core.table.borrow().places();
        let looks = if keep.is_some() { places } else { places.min(LOOKS_MAX) };
        self.let_go_of(Victim::IncompleteHead, looks, keep) || self.let_go_of(Victim::StalledOutput, looks, keep)
    }

    /// Looks at so many places for connections of a sort and lets go of them; whether of any.
    fn let_go_of(&mut self, sort: Victim, looks: u32, keep: Option<Key>) -> bool {
        let core = Rc::clone(&self.core);
        let mut shed = 0;
        for _ in 0..looks {
            let found = {
                let table = core.table.borrow();
                let key = table.key_at(core.next_look(table.places()));
                key.filter(|key| Some(*key) != keep && victim(&table, *key, &core.config) == Some(sort))
            };
            let Some(key) = found else { continue };
            match sort {
                Victim::IncompleteHead => self.shed(key, Shed::Head),
                Victim::StalledOutput => {
                    core.counters().shed(Shed::Output);
                    self.close(key);
                }
            }
            shed += 1;
            if shed == SHED_MAX {
                break;
            }
        }
        shed > 0
    }
}

/// Why a connection may be let go of, if it may.
fn victim(table: &Table<Connection>, key: Key, config: &Config) -> Option<Victim> {
    let Some(Connection::Active(active)) = table.get(key) else { return None };
    match active.deadline {
        Deadline::Head if active.handler.is_none() && !table.is_sending(key) => Some(Victim::IncompleteHead),
        Deadline::Send if table.is_sending(key) && active.must_finish == 0 => {
            let left = table.scheduled_in(key)?;
            (config.send_timeout.saturating_sub(left) >= STALLED_AFTER).then_some(Victim::StalledOutput)
        }
        _ => None,
    }
}
