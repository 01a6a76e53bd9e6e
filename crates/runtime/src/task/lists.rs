//! The two lists of a worker's tasks: those that are ready, and all that live. The links are in the tasks' headers.
//!
//! A list holds its tasks like any other handle does, so this file needs no pointers, and does not know what a task is.
#![forbid(unsafe_code)]

use crate::sync::Cell;

/// A handle of something that has its places in the lists.
pub(super) trait Linked: Clone {
    fn links(&self) -> &Links<Self>;

    /// Whether both are handles of the same thing.
    fn is(&self, other: &Self) -> bool;
}

/// A task's places in the lists of its worker.
pub(super) struct Links<T> {
    next_ready: Cell<Option<T>>,
    next_live: Cell<Option<T>>,
    prev_live: Cell<Option<T>>,
}

impl<T> Links<T> {
    /// In neither list.
    pub(super) fn new() -> Self {
        Self { next_ready: Cell::new(None), next_live: Cell::new(None), prev_live: Cell::new(None) }
    }

    /// Whether the task is in neither list, as far as its links tell.
    pub(super) fn are_clear(&self) -> bool {
        [&self.next_ready, &self.next_live, &self.prev_live].into_iter().all(is_none)
    }
}

/// Tasks to poll, first in first out. A task is in it at most once.
pub(super) struct Ready<T> {
    first: Cell<Option<T>>,
    last: Cell<Option<T>>,
}

impl<T: Linked> Ready<T> {
    pub(super) fn new() -> Self {
        Self { first: Cell::new(None), last: Cell::new(None) }
    }

    pub(super) fn push(&self, task: T) {
        match self.last.replace(Some(task.clone())) {
            Some(last) => last.links().next_ready.set(Some(task)),
            None => self.first.set(Some(task)),
        }
    }

    pub(super) fn pop(&self) -> Option<T> {
        let task = self.first.take()?;
        match task.links().next_ready.take() {
            Some(next) => self.first.set(Some(next)),
            None => self.last.set(None),
        }
        Some(task)
    }

    pub(super) fn is_empty(&self) -> bool {
        is_none(&self.first)
    }
}

/// Every task with a future, in the order of spawning.
pub(super) struct Live<T> {
    first: Cell<Option<T>>,
    last: Cell<Option<T>>,
    len: Cell<usize>,
}

impl<T: Linked> Live<T> {
    pub(super) fn new() -> Self {
        Self { first: Cell::new(None), last: Cell::new(None), len: Cell::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.len.get()
    }

    pub(super) fn push(&self, task: &T) {
        self.len.set(self.len.get() + 1);
        match self.last.replace(Some(task.clone())) {
            Some(last) => {
                last.links().next_live.set(Some(task.clone()));
                task.links().prev_live.set(Some(last));
            }
            None => self.first.set(Some(task.clone())),
        }
    }

    /// Takes a task out; nothing happens if it is not in the list.
    pub(super) fn remove(&self, task: &T) {
        let prev = task.links().prev_live.take();
        if prev.is_none() && !self.is_first(task) {
            return;
        }
        self.len.set(self.len.get() - 1);
        let next = task.links().next_live.take();
        let before = next.as_ref().map_or(&self.last, |next| &next.links().prev_live);
        let behind = prev.as_ref().map_or(&self.first, |prev| &prev.links().next_live);
        // What the two cells held was this task.
        let _ = (before.replace(prev.clone()), behind.replace(next.clone()));
    }

    pub(super) fn pop(&self) -> Option<T> {
        let task = self.first.take()?;
        self.first.set(Some(task.clone()));
        self.remove(&task);
        Some(task)
    }

    fn is_first(&self, task: &T) -> bool {
        let first = self.first.take();
        let same = first.as_ref().is_some_and(|first| first.is(task));
        self.first.set(first);
        same
    }
}

fn is_none<T>(link: &Cell<Option<T>>) -> bool {
    let task = link.take();
    let none = task.is_none();
    link.set(task);
    none
}

#[cfg(all(test, not(loom)))]
mod tests;
