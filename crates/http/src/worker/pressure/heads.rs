//! Incomplete heads, which are the first to be let go of while memory is short, and how long each has.
//!
//! | a head that is | is let go of |
//! |---|---|
//! | older than a second | when room is made |
//! | younger | only when somebody found no room and nothing else made some: of the address that has most of them, if that is more than a few, the newest first |
//!
//! So a client that is slow has a second, and one that begins more heads than it ends takes no places from others with
//! them.

use std::rc::Rc;

use plimsoll_slab::Key;

use super::shed_order::{LOOKS_MAX, SHED_MAX, has_young_head};
use crate::base::counters::Shed;
use crate::worker::engine::Engine;
use crate::worker::service::Service;

/// An address keeps so many young heads.
const FEW: usize = 4;

impl<S: Service> Engine<S> {
    /// Lets go of the newest young heads of the address that has most of those that are looked at; whether of any.
    pub(super) fn let_go_of_young_heads(&mut self, keep: Option<Key>) -> bool {
        let core = Rc::clone(&self.core);
        let mut young = Vec::new();
        let places = core.table.borrow().places();
        for _ in 0..places.min(LOOKS_MAX) {
            let found = {
                let table = core.table.borrow();
                let key = table.key_at(core.next_look(places));
                key.filter(|key| Some(*key) != keep && has_young_head(&table, *key, &core.config))
            };
            young.extend(found.map(|key| (core.host_of(key), key)));
        }
        let of = |host: u64| young.iter().filter(move |(other, _)| *other == host);
        let mut hosts: Vec<u64> = young.iter().map(|(host, _)| *host).collect();
        hosts.sort_unstable();
        let most = hosts.chunk_by(|one, other| one == other).max_by_key(|same| same.len());
        let Some(&[host, ..]) = most.filter(|same| same.len() > FEW) else { return false };
        // The newest tend to have the highest places, which were looked at first.
        let let_go: Vec<Key> =
            of(host).map(|(_, key)| *key).take((of(host).count() - FEW).min(SHED_MAX as usize)).collect();
        for key in let_go {
            self.shed(key, Shed::Head);
        }
        true
    }
}
