//! The clock that all nodes share, and whose turn it is.
//!
//! The clock moves only when every node waits. A node that enters with a wait and finds nothing is **idle** until
//! something is there for it: a completion, its doorbell, its deadline, or an advance of the clock that brings one of
//! them. With one node, entering is waiting, and the clock jumps inside. With several on one thread, entering only says
//! what the node waits for; whoever steps the nodes calls [`step`](Kernel::step), which names a node that has something
//! to do, or moves the clock when none has. A node that waits twice with nobody else doing anything in between would
//! wait for ever: the clock moves for it as if it were alone. A node that never waits keeps the clock where it is:
//! after so many turns that nothing but a livelock needs them, entering is an error.
#![forbid(unsafe_code)]

use super::census::OpKind;
use super::config::{NodeId, Step};
use super::faults::Fault;
use super::kernel::Kernel;
use super::nodes::NodeState;
use super::trace::Entry;
use crate::{Errno, Instant, Wait};

/// Turns at one instant after which a program is held to do nothing but wake itself.
pub(crate) const TURNS_AT_ONE_INSTANT: u64 = 1_000_000;

impl Kernel {
    /// The first completion that a node can take, if received bytes fit into `room`.
    pub(crate) fn deliverable(&self, node: NodeId, room: usize) -> Option<usize> {
        self.nodes.get(node).done.iter().position(|&id| {
            let (flight, outcome) = self.ended(id);
            flight.kind != OpKind::Receive || outcome.bytes.len() <= room
        })
    }

    /// Whether received bytes of a node do not fit into `room`.
    pub(crate) fn is_held_up(&self, node: NodeId, room: usize) -> bool {
        self.nodes.get(node).done.iter().any(|&id| {
            let (flight, outcome) = self.ended(id);
            flight.kind == OpKind::Receive && outcome.bytes.len() > room
        })
    }

    fn has_something(&self, node: NodeId) -> bool {
        self.deliverable(node, self.nodes.get(node).room).is_some()
    }

    fn is_runnable(&self, id: NodeId) -> bool {
        let node = self.nodes.get(id);
        let waits = match node.state {
            NodeState::Busy => false,
            NodeState::Idle(deadline) => deadline.is_none_or(|deadline| deadline > self.now),
        };
        !waits || !node.submitted.is_empty() || node.doorbell.is_rung() || self.has_something(id)
    }

    /// One turn of a node with so much room for received bytes: what it started begins, and it waits as said above.
    pub(crate) fn enter(&mut self, node: NodeId, wait: Wait, room: usize) -> Result<(), Errno> {
        if self.nodes.waiting != Some(node) {
            self.nodes.waiting = None;
        }
        self.nodes.turns += 1;
        if self.nodes.turns > TURNS_AT_ONE_INSTANT {
            return Err(Errno(libc::ELOOP));
        }
        self.nodes.get_mut(node).room = room;
        self.begin_submitted(node);
        let rung = self.nodes.get(node).doorbell.silence();
        let deadline = match wait {
            Wait::No => None,
            Wait::Until(deadline) => Some(Some(deadline.as_nanos())),
            Wait::Forever => Some(None),
        };
        self.nodes.get_mut(node).state = NodeState::Busy;
        if let Some(deadline) = deadline
            && !rung
        {
            self.wait(node, deadline)?;
        }
        let done = self.nodes.get(node).done.len();
        let overflows = done > 1 && self.fault(Fault::Overflow);
        let visible = if overflows { self.rng.between(1, done as u64 - 1) as usize } else { done };
        self.nodes.get_mut(node).visible = visible;
        Ok(())
    }

    fn wait(&mut self, node: NodeId, deadline: Option<u64>) -> Result<(), Errno> {
        let alone = self.nodes.len() == 1 || self.nodes.waiting == Some(node);
        while !self.has_something(node) && deadline.is_none_or(|deadline| deadline > self.now) {
            if !alone {
                self.nodes.get_mut(node).state = NodeState::Idle(deadline);
                self.nodes.waiting = Some(node);
                return Ok(());
            }
            let Some(at) = earlier(self.events.next_at(), deadline) else { return Err(Errno(libc::EDEADLK)) };
            self.move_clock(at);
        }
        Ok(())
    }

    /// What whoever steps several nodes does next.
    pub(crate) fn step(&mut self) -> Step {
        self.nodes.waiting = None;
        self.run_due();
        let runnable: Vec<NodeId> = self.nodes.all().into_iter().filter(|&id| self.is_runnable(id)).collect();
        if !runnable.is_empty() {
            let id = runnable[self.rng.below(runnable.len() as u64) as usize];
            self.record(Entry::Ran { node: id.0 });
            return Step::Run(id);
        }
        match self.next_at() {
            Some(at) => {
                self.move_clock(at);
                Step::Advanced(Instant::from_nanos(self.now))
            }
            None => Step::Stuck,
        }
    }

    /// When something happens by itself, or the first node's wait ends.
    pub(crate) fn next_at(&self) -> Option<u64> {
        earlier(self.events.next_at(), self.nodes.first_deadline())
    }

    /// Moves the clock to `until`, and everything happens in order on the way.
    pub(crate) fn advance_to(&mut self, until: u64) {
        self.nodes.waiting = None;
        self.run_due();
        while let Some(at) = self.events.next_at().filter(|&at| at <= until) {
            self.move_clock(at);
        }
        if until > self.now {
            self.move_clock(until);
        }
    }

    fn move_clock(&mut self, at: u64) {
        debug_assert!(at >= self.now, "time does not run backwards");
        if at > self.now {
            self.now = at;
            self.nodes.turns = 0;
            self.record(Entry::Clock);
        }
        self.run_due();
    }
}

fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
