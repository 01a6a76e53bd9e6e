//! Counts handlers whose futures are gone: each holds a [`Guard`].

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_runtime::sleep;

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

    /// Waits, a second at most, until there are so many; how many there are then.
    pub(crate) async fn reach(&self, count: usize) -> usize {
        for _ in 0..200 {
            if self.count() >= count {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        self.count()
    }

    /// As [`reach`](Self::reach), for what takes some seconds at most on an idle machine.
    pub(crate) async fn reach_late(&self, count: usize) -> usize {
        for _ in 0..20 {
            if self.reach(count).await >= count {
                break;
            }
        }
        self.count()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}
