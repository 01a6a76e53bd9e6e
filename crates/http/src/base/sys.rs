//! Threads.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread with a stack of `stack_bytes` (rounded up to pages by the system).
pub(crate) fn spawn_thread(
    name: &str,
    stack_bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(run)
}
