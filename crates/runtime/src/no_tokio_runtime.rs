//! What stands for tokio's context where the feature `tokio-context` is off: nobody can ask for one.
#![forbid(unsafe_code)]

use core::convert::Infallible;
use core::marker::PhantomData;
use std::sync::Arc;

use plimsoll_pool::Budget;

use crate::Result;
use crate::sys::TimeLimit;

pub(crate) struct TokioRuntime(Infallible);

pub(crate) struct TokioGuard<'c>(PhantomData<&'c TokioRuntime>);

impl TokioRuntime {
    pub(crate) fn bytes(_stack_bytes: usize) -> u64 {
        0
    }

    pub(crate) fn start(_stack_bytes: usize, _budget: &Arc<Budget>) -> Result<Self> {
        unreachable!("without the feature the builder cannot be asked for it")
    }

    pub(crate) fn enter(&self) -> TokioGuard<'_> {
        match self.0 {}
    }

    pub(crate) fn tasks(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn end(&self, _limit: &TimeLimit) {
        match self.0 {}
    }
}
