//! The kernel's monotonic clock.
//!
//! **I-OUT**: the kernel fills an out-parameter that lives on this stack frame, and only within the call.
#![allow(unsafe_code)]

use crate::Instant;

/// Now, by `CLOCK_MONOTONIC`.
pub(crate) fn now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: I-OUT: `time` is ours and outlives the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(result, 0, "every Linux has a monotonic clock");
    debug_assert!(time.tv_sec >= 0 && (0..1_000_000_000).contains(&time.tv_nsec));
    Instant::from_nanos((time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64))
}
