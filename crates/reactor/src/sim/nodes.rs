//! Nodes: what the kernel knows of each driver.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, VecDeque};

use super::config::NodeId;
use crate::Doorbell;

/// What the kernel knows of a driver.
#[derive(Debug)]
pub(crate) struct Node {
    pub(super) doorbell: Doorbell,
    pub(super) state: NodeState,
    /// Operations started since it last entered.
    pub(crate) submitted: Vec<u64>,
    /// Operations whose completion it can take.
    pub(crate) done: VecDeque<u64>,
    /// How many of those it sees in this turn.
    pub(crate) visible: usize,
    /// Received bytes that fitted into its scratch buffer when it last entered.
    pub(super) room: usize,
    /// Times a receive found no buffer.
    pub(crate) enobufs: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    /// It has something to do besides what the kernel knows.
    Busy,
    /// It waits, until a deadline in nanoseconds or for ever.
    Idle(Option<u64>),
}

/// All nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    nodes: BTreeMap<NodeId, Node>,
    registered: u32,
    /// The node that waited last, if nobody else has done anything since.
    pub(super) waiting: Option<NodeId>,
    /// Turns since the clock moved.
    pub(super) turns: u64,
}

impl Nodes {
    pub(crate) fn register(&mut self, doorbell: Doorbell) -> NodeId {
        let id = NodeId(self.registered);
        self.registered += 1;
        let node = Node {
            doorbell,
            state: NodeState::Busy,
            submitted: Vec::new(),
            done: VecDeque::new(),
            visible: 0,
            room: 0,
            enobufs: 0,
        };
        self.nodes.insert(id, node);
        id
    }

    pub(crate) fn get(&self, id: NodeId) -> &Node {
        self.nodes.get(&id).expect("a node is known until it retires")
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes.get_mut(&id).expect("a node is known until it retires")
    }

    pub(crate) fn remove(&mut self, id: NodeId) {
        self.nodes.remove(&id);
        self.waiting = None;
    }

    pub(crate) fn all(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// When the first of those that wait has waited enough.
    pub(crate) fn first_deadline(&self) -> Option<u64> {
        let deadlines = self.nodes.values().filter_map(|node| match node.state {
            NodeState::Idle(deadline) => deadline,
            NodeState::Busy => None,
        });
        deadlines.min()
    }

    /// Whether some driver has completions to take.
    pub(crate) fn any_done(&self) -> bool {
        self.nodes.values().any(|node| !node.done.is_empty() || !node.submitted.is_empty())
    }
}
