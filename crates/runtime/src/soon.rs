//! What a worker calls between tasks, because somebody asked for it within one.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::ptr;

use plimsoll_pool::catch_panic;

/// See [`worker_tasks::run_soon`](crate::worker_tasks::run_soon).
#[derive(Debug, Default)]
pub(crate) struct Soon {
    /// A few functions, each once.
    asked: RefCell<Vec<fn()>>,
    /// Looked at in every turn.
    is_any: Cell<bool>,
}

impl Soon {
    /// Has a function called, once.
    pub(crate) fn ask(&self, run: fn()) {
        let mut asked = self.asked.borrow_mut();
        if !asked.iter().any(|&other| ptr::fn_addr_eq(other, run)) {
            asked.push(run);
            self.is_any.set(true);
        }
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.get()
    }

    /// Calls what was asked for until now. What that asks for has its turn later.
    #[inline]
    pub(crate) fn run(&self) {
        if self.is_any() {
            self.run_all();
        }
    }

    #[cold]
    fn run_all(&self) {
        self.is_any.set(false);
        let asked = self.asked.borrow().len();
        for _ in 0..asked {
            let run = self.asked.borrow_mut().remove(0);
            catch_panic(run);
        }
    }
}
