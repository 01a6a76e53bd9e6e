//! What a worker and a table of its own tell each other: completions, and pages that can be spared.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::task::Waker;
use std::collections::VecDeque;
use std::rc::Rc;

use plimsoll_reactor::Completion;

use crate::task::contained;
use crate::token::Purpose;

/// Completions that wait for the table at most; when they are as many, the worker reaps no further until they are taken.
pub(super) const EVENTS_MAX: usize = 256;

/// Completions on their way to a table.
pub(crate) struct Events {
    pub(super) queue: RefCell<VecDeque<RawEvent>>,
    pub(super) waker: RefCell<Option<Waker>>,
    /// Pages of the table that no connection uses and that may go back to the pool.
    pub(super) spare_pages: Cell<u32>,
    /// The worker wants them back.
    pub(super) recalled: Cell<bool>,
}

pub(super) struct RawEvent {
    pub(super) purpose: Purpose,
    pub(super) index: u32,
    pub(super) completion: Completion,
}

impl Events {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            queue: RefCell::new(VecDeque::with_capacity(EVENTS_MAX)),
            waker: RefCell::default(),
            spare_pages: Cell::new(0),
            recalled: Cell::new(false),
        })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queue.borrow().len() >= EVENTS_MAX
    }

    pub(crate) fn has_spare_pages(&self) -> bool {
        self.spare_pages.get() > 0
    }

    /// Has the table give back the pages that it can spare, when its owner looks at it next: at once if it waits.
    pub(crate) fn recall_pages(&self) {
        self.recalled.set(true);
        self.look();
    }

    /// Has the table's owner look at it again, if it waits.
    pub(super) fn look(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    pub(crate) fn push(&self, purpose: Purpose, index: u32, completion: Completion) {
        let mut queue = self.queue.borrow_mut();
        debug_assert!(queue.len() < EVENTS_MAX, "the worker looks before it reaps");
        queue.push_back(RawEvent { purpose, index, completion });
        drop(queue);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            contained(|| waker.wake());
        }
    }
}
