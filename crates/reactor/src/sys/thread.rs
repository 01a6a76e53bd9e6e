//! Threads.
#![forbid(unsafe_code)]

use core::time::Duration;
#[cfg(not(loom))]
use std::thread::Builder;

#[cfg(loom)]
use loom::thread::Builder;

use crate::Errno;
use crate::sync::JoinHandle;

/// Starts a thread with a stack of `stack_bytes` (rounded up to pages by the system).
pub(crate) fn spawn_thread(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, Errno> {
    debug_assert!(name.len() < 16, "the kernel keeps 15 bytes of a name");
    debug_assert!(stack_bytes > 0);
    Ok(Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(run)?)
}

/// Lets the thread rest. Only while a driver is being made: a worker never rests outside its driver's wait.
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Runs the same on several threads at once, and waits for all of them.
pub(crate) fn run_on_threads(threads: usize, run: impl Fn() + Sync) {
    debug_assert!(threads > 0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(&run);
        }
    });
}
