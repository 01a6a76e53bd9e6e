//! The waker of the future that `block_on` drives itself.
//!
//! ```text
//!            prepare_sleep              wake: rings
//!   AWAKE <-----------------> SLEEPING ------------+
//!     |  ^        woke                             v
//!     |  +------------------- take ------------- WOKEN  (begins here)
//!     +---------------------- wake ---------------^
//! ```
//!
//! One word holds the wake and the sleep, as in `task/inject.rs`: a wake either comes before the sleep is announced,
//! which then fails, or finds the announcement and rings. The announcement is published to whoever finds it: what the
//! worker did to the bell after its last sleep comes before the ring.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::task::Wake;

use plimsoll_reactor::Doorbell;

use crate::sync::{AtomicU8, Ordering};

/// Remembers a wake, and rings only when the worker sleeps.
pub(crate) struct MainWaker {
    /// One of the three states.
    state: AtomicU8,
    doorbell: Doorbell,
}

/// The worker is awake, and there was no wake.
const AWAKE: u8 = 0;
/// The worker sleeps, or is about to, and there was no wake.
const SLEEPING: u8 = 1;
/// There was a wake.
const WOKEN: u8 = 2;

impl MainWaker {
    /// Woken once to begin with.
    pub(crate) fn new(doorbell: Doorbell) -> Arc<Self> {
        Arc::new(Self { state: AtomicU8::new(WOKEN), doorbell })
    }

    /// Takes the wake, if there was one. What came before it is visible from here on. The worker is awake.
    pub(crate) fn take(&self) -> bool {
        self.state.swap(AWAKE, Ordering::AcqRel) == WOKEN
    }

    /// Announces that the worker is about to sleep; `false` when it must not, because the future was woken.
    pub(crate) fn prepare_sleep(&self) -> bool {
        let announced = self.state.compare_exchange(AWAKE, SLEEPING, Ordering::AcqRel, Ordering::Acquire);
        announced.map_or_else(|state| state == SLEEPING, |_| true)
    }

    /// The worker is awake, whether it slept or not.
    pub(crate) fn woke(&self) {
        if self.state.load(Ordering::Relaxed) == SLEEPING {
            // A wake may have come in between; the next take finds it.
            let _ = self.state.compare_exchange(SLEEPING, AWAKE, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == SLEEPING {
            self.doorbell.ring();
        }
    }
}

#[cfg(all(test, loom))]
mod models;
