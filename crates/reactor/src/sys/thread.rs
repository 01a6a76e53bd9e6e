//! Threads.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::thread::{Builder, JoinHandle};

use crate::Errno;

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
