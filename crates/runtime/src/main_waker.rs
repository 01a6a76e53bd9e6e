//! The waker of the future that `block_on` drives itself.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use plimsoll_reactor::Doorbell;

/// Remembers a wake, and rings only when the worker sleeps.
pub(crate) struct MainWaker {
    woken: AtomicBool,
    sleeping: AtomicBool,
    doorbell: Doorbell,
}

impl MainWaker {
    /// Woken once to begin with.
    pub(crate) fn new(doorbell: Doorbell) -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(true), sleeping: AtomicBool::new(false), doorbell })
    }

    /// Takes the wake, if there was one.
    pub(crate) fn take(&self) -> bool {
        self.woken.swap(false, Ordering::AcqRel)
    }

    /// Announces that the worker is about to sleep; `false` when it must not, because the future was woken.
    ///
    /// Both sides store first and load second, sequentially consistent: one of them sees the other.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        !self.woken.load(Ordering::SeqCst)
    }

    pub(crate) fn woke(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) {
            self.doorbell.ring();
        }
    }
}
