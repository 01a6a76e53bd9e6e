//! Keeps panics of code that is not ours, as wakers, jobs and handlers are, from ending more than they concern.
#![forbid(unsafe_code)]

use core::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; a panic in it, and one in dropping what that carries, ends here: `None`. The panic hook has reported
/// it. For the crates above.
#[doc(hidden)]
pub fn catch_panic<T>(call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // A payload may panic in its turn when it is dropped; what it carries then cannot be dropped and is leaked.
            if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                forget(second);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests;
