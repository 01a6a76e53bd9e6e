//! Counts handlers whose futures are gone: each holds a [`Guard`].

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_runtime::{now, sleep};

use super::wait_max;

/// How many guards were dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

/// Counts when it is dropped.
pub(crate) struct Guard(Drops);

impl Drops {
    pub(crate) fn guard(&self) -> Guard {
        Guard(self.clone())
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until there are so many, no longer than [`wait_max`]; how many there are then.
    pub(crate) async fn reach(&self, count: usize) -> usize {
        let start = now();
        while self.count() < count && now().since(start) < wait_max() {
            sleep(Duration::from_millis(5)).await;
        }
        self.count()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
