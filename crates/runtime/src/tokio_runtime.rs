//! A runtime of tokio beside this one, for crates that need its context.
//!
//! Some crates call `tokio::time`, `tokio::net` or `tokio::spawn` by name. Called on a worker they find this runtime,
//! which has one thread of its own for its timers, sockets and tasks, and two for calls that block.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pool::{Budget, Charge, Kind};
pub(crate) use tokio::runtime::EnterGuard as TokioGuard;
use tokio::runtime::Handle;

use crate::sys::TimeLimit;
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
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((runtime, stacks)) = runtime {
            runtime.shutdown_timeout(limit.left());
            drop(stacks);
        }
    }
}
