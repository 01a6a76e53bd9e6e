//! Lists of those that stay: charged, and grown a little at a time.

use plimsoll_pool::{Charge, Kind, Pool};

/// What is added to a list at a time, in bytes.
const GROWTH_BYTES: usize = 2_048;

/// Places with numbers, which may be empty.
pub(crate) struct Listed<T> {
    places: Vec<Option<T>>,
    charge: Option<Charge>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { places: Vec::new(), charge: None }
    }
}

impl<T> Listed<T> {
    /// Puts something into an empty place; `false` without room for a longer list.
    pub(crate) fn put(&mut self, pool: &Pool, at: usize, value: T) -> bool {
        if at >= self.places.len() {
            let step = (GROWTH_BYTES / size_of::<Option<T>>()).max(1);
            let len = (at + 1).next_multiple_of(step).max(self.places.len() / 4 * 5);
            let Ok(larger) = pool.charge(Kind::Slots, (len * size_of::<Option<T>>()) as u64) else { return false };
            self.places.reserve_exact(len - self.places.len());
            self.places.resize_with(len, || None);
            self.charge = Some(larger);
        }
        let before = self.places[at].replace(value);
        debug_assert!(before.is_none(), "a place is taken once");
        true
    }

    pub(crate) fn take(&mut self, at: usize) -> Option<T> {
        self.places.get_mut(at)?.take()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        self.places.get(at)?.as_ref()
    }
}
