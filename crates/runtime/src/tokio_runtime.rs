//! A runtime of tokio beside this one, for crates that need its context.
//!
//! Some crates call `tokio::time`, `tokio::net` or `tokio::spawn` by name. Called on a worker they find this runtime,
//! which has one thread of its own for its timers, sockets and tasks, and two for calls that block.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pool::{Budget, Charge, Kind};
pub(crate) use tokio::runtime::EnterGuard as TokioGuard;
use tokio::runtime::Handle;

use crate::sys::{self, TimeLimit};
use crate::{Error, Result};

/// Threads for `tokio::task::spawn_blocking`, which tokio's files use, too.
const BLOCKING_THREADS: u64 = 2;

pub(crate) struct TokioRuntime {
    handle: Handle,
    /// With the charge for its stacks. `None` once it has ended.
    runtime: Mutex<Option<(tokio::runtime::Runtime, Charge)>>,
}

impl TokioRuntime {
    /// What its stacks of so many bytes are charged.
    pub(crate) fn bytes(stack_bytes: usize) -> u64 {
        (1 + BLOCKING_THREADS) * stack_bytes as u64
    }

    /// Starts it, with stacks of so many bytes.
    pub(crate) fn start(stack_bytes: usize, budget: &Arc<Budget>) -> Result<Self> {
        let stacks = Budget::charge(budget, Kind::Stacks, Self::bytes(stack_bytes))?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(BLOCKING_THREADS as usize).thread_stack_size(stack_bytes);
        builder.thread_name("plimsoll-tokio").enable_all();
        let runtime = builder.build().map_err(|error| Error::System(error.into()))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Mutex::new(Some((runtime, stacks))) })
    }

    /// Makes it the context of this thread, until the guard is dropped.
    pub(crate) fn enter(&self) -> TokioGuard<'_> {
        self.handle.enter()
    }

    /// Its tasks that have not ended.
    pub(crate) fn tasks(&self) -> u64 {
        self.handle.metrics().num_alive_tasks() as u64
    }

    /// Drops its tasks, and waits for its threads.
    pub(crate) fn end(&self, limit: &TimeLimit) {
        let ended = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((runtime, stacks)) = ended else { return };
        if Handle::try_current().is_ok() {
            end_elsewhere(runtime, limit);
        } else {
            runtime.shutdown_timeout(limit.left());
        }
        drop(stacks);
    }
}

/// Where a runtime could not be built to its end: nothing was given to it.
impl Drop for TokioRuntime {
    fn drop(&mut self) {
        self.end(&TimeLimit::after(Duration::ZERO));
    }
}

/// Waits on a thread that is none of tokio's: on its own, which may be those of another runtime, it panics instead.
fn end_elsewhere(runtime: tokio::runtime::Runtime, limit: &TimeLimit) {
    let mut runtime = Some(runtime);
    sys::run_on_thread("plimsoll-ending", || {
        if let Some(runtime) = runtime.take() {
            runtime.shutdown_timeout(limit.left());
        }
    });
    // Without a thread nobody waits.
    if let Some(runtime) = runtime {
        runtime.shutdown_background();
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_pool::MemoryLimit;

    use super::*;

    #[test]
    fn one_that_was_never_used_is_dropped_within_a_task_of_another_runtime() {
        let outer = tokio::runtime::Builder::new_current_thread().build().expect("it starts");
        let budget = Budget::new(MemoryLimit::mib(64));
        outer.block_on(async { drop(TokioRuntime::start(1 << 20, &budget).expect("there is room")) });
        assert_eq!(budget.charged_by(Kind::Stacks), 0);
    }
}
