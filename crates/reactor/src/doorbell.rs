//! Ends a driver's wait from any thread.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::sync::{AtomicBool, Ordering};
use crate::{Error, sys};

/// A bell that ends the wait of one driver, from any thread, as often as wanted; several rings may be heard as one.
///
/// Ring it only when the driver's owner sleeps: a ring is a system call.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<Bell>);

#[derive(Debug)]
enum Bell {
    /// An eventfd that the driver waits on.
    Event(sys::EventFd),
    /// A flag that the simulated kernel looks at.
    Flag(AtomicBool),
}

impl Doorbell {
    pub(crate) fn new() -> Result<Self, Error> {
        let event = sys::EventFd::new().map_err(|errno| Error::system("eventfd", errno))?;
        Ok(Self(Arc::new(Bell::Event(event))))
    }

    pub(crate) fn simulated() -> Self {
        Self(Arc::new(Bell::Flag(AtomicBool::new(false))))
    }

    /// Ends the driver's current wait, or its next one.
    pub fn ring(&self) {
        match &*self.0 {
            Bell::Event(event) => event.signal(),
            // A swap, as what silences it: so there is one order of both, in which no ring comes before a silence that
            // it has not seen.
            Bell::Flag(flag) => _ = flag.swap(true, Ordering::AcqRel),
        }
    }

    /// Whether the two are the same bell.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The number of the eventfd behind it, for writers that may only use system calls, such as signal handlers; `None`
    /// in a simulation.
    pub fn as_raw(&self) -> Option<i32> {
        match &*self.0 {
            Bell::Event(event) => Some(event.raw()),
            Bell::Flag(_) => None,
        }
    }

    /// Takes back what was rung so far; whether it was rung.
    pub(crate) fn silence(&self) -> bool {
        match &*self.0 {
            Bell::Event(event) => event.clear(),
            Bell::Flag(flag) => flag.swap(false, Ordering::Acquire),
        }
    }

    /// Whether it was rung and not silenced; only for simulated bells.
    pub(crate) fn is_rung(&self) -> bool {
        match &*self.0 {
            Bell::Event(_) => false,
            Bell::Flag(flag) => flag.load(Ordering::Acquire),
        }
    }
}

/// For models of those who ring a bell and those who sleep until it rings, instead of a driver.
#[cfg(loom)]
#[doc(hidden)]
impl Doorbell {
    /// A bell without a driver.
    pub fn of_model() -> Self {
        Self::simulated()
    }

    /// Sleeps until it is rung, as a driver's wait does.
    pub fn wait(&self) {
        // Loom sees to it that a load after a yield makes progress, but not to the same for a swap.
        while !self.is_rung() {
            loom::thread::yield_now();
        }
        self.silence();
    }

    /// Whether a wait would have ended at once.
    pub fn was_rung(&self) -> bool {
        self.silence()
    }
}
