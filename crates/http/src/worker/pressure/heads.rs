//! Incomplete heads, which are the first to be shed while memory is short, and how long each has.
//!
//! | a head that is | is shed |
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
pub(super) const FEW: usize = 4;

impl<S: Service> Engine<S> {
    /// Sheds the newest young heads of the address that has most of those that are looked at; whether of any.
    pub(super) fn shed_young_heads(&mut self, keep: Option<Key>) -> bool {
        let worker = Rc::clone(&self.worker);
        let mut young = Vec::new();
        let places = worker.table.borrow().places();
        for _ in 0..places.min(LOOKS_MAX) {
            let found = {
                let table = worker.table.borrow();
                let key = table.key_at(worker.next_look(places));
                key.filter(|key| Some(*key) != keep && has_young_head(&table, *key, &worker.config))
            };
            young.extend(found.map(|key| (worker.host_of(key), key)));
        }
        let of = |host: u64| young.iter().filter(move |(other, _)| *other == host);
        let mut hosts: Vec<u64> = young.iter().map(|(host, _)| *host).collect();
        hosts.sort_unstable();
        let most = hosts.chunk_by(|one, other| one == other).max_by_key(|same| same.len());
        let Some(&[host, ..]) = most.filter(|same| same.len() > FEW) else { return false };
        // The newest tend to have the highest places, which were looked at first.
        let release: Vec<Key> =
            of(host).map(|(_, key)| *key).take((of(host).count() - FEW).min(SHED_MAX as usize)).collect();
        for key in release {
            self.shed(key, Shed::Head);
        }
        true
    }
}
