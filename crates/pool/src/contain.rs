//! Keeps panics of code that is not ours, as wakers are, from ending more than they concern.
#![forbid(unsafe_code)]

use core::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `call`; a panic in it ends here. The panic hook has reported it.
pub(crate) fn contained(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // A payload may panic in its turn when it is dropped; what it carries then cannot be dropped and is leaked.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            forget(second);
        }
    }
}
