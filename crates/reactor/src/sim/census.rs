//! What happened in a simulated world, counted, so that a sweep over seeds can fail when something never did.
#![forbid(unsafe_code)]

use core::fmt;

use super::faults::Fault;
use crate::Op;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum OpKind {
    /// [`Op::Accept`].
    Accept,
    /// [`Op::Receive`].
    Receive,
    /// [`Op::ReceiveInto`].
    ReceiveInto,
    /// [`Op::Send`].
    Send,
    /// [`Op::Connect`].
    Connect,
    /// [`Op::Shutdown`].
    Shutdown,
    /// [`Op::Close`].
    Close,
    /// [`Op::Poll`].
    Poll,
    /// [`Op::Open`].
    Open,
    /// [`Op::Stat`].
    Stat,
    /// [`Op::ReadAt`].
    ReadAt,
    /// [`Op::WriteAt`].
    WriteAt,
    /// [`Op::Fsync`].
    Fsync,
}

impl OpKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::Accept,
        Self::Receive,
        Self::ReceiveInto,
        Self::Send,
        Self::Connect,
        Self::Shutdown,
        Self::Close,
        Self::Poll,
        Self::Open,
        Self::Stat,
        Self::ReadAt,
        Self::WriteAt,
        Self::Fsync,
    ];

    /// The kind of an operation.
    pub const fn of(op: &Op) -> Self {
        match op {
            Op::Accept { .. } => Self::Accept,
            Op::Receive { .. } => Self::Receive,
            Op::ReceiveInto { .. } => Self::ReceiveInto,
            Op::Send { .. } => Self::Send,
            Op::Connect { .. } => Self::Connect,
            Op::Shutdown { .. } => Self::Shutdown,
            Op::Close { .. } => Self::Close,
            Op::Poll { .. } => Self::Poll,
            Op::Open { .. } => Self::Open,
            Op::Stat { .. } => Self::Stat,
            Op::ReadAt { .. } => Self::ReadAt,
            Op::WriteAt { .. } => Self::WriteAt,
            Op::Fsync { .. } => Self::Fsync,
        }
    }

    /// Its name, as [`Op::name`] has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Receive => "receive",
            Self::ReceiveInto => "receive_into",
            Self::Send => "send",
            Self::Connect => "connect",
            Self::Shutdown => "shutdown",
            Self::Close => "close",
            Self::Poll => "poll",
            Self::Open => "open",
            Self::Stat => "stat",
            Self::ReadAt => "read_at",
            Self::WriteAt => "write_at",
            Self::Fsync => "fsync",
        }
    }
}

impl fmt::Display for OpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts of what happened.
///
/// ```
/// use plimsoll_reactor::sim::{Census, OpKind, SimConfig, World};
///
/// let mut total = Census::default();
/// for seed in 0..3 {
///     let world = World::new(SimConfig::new(seed));
///     // ... run a service in it ...
///     total.add(&world.census());
/// }
/// assert!(total.ops_missing().any(|kind| kind == OpKind::Send), "nobody sent anything");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    ops: [u64; OpKind::ALL.len()],
    faults: [u64; Fault::ALL.len()],
    /// Operations whose completion was taken.
    pub completed: u64,
    /// Of those, the ones that ended with `ECANCELED`.
    pub canceled: u64,
    /// Operations that succeeded although they had been cancelled.
    pub cancels_lost: u64,
    /// Completions that nobody waited for any more.
    pub orphaned: u64,
}

impl Census {
    /// How many operations of a kind were started.
    pub const fn op(&self, kind: OpKind) -> u64 {
        self.ops[kind as usize]
    }

    /// How often a fault happened.
    pub const fn fault(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// Kinds of operations that never happened.
    pub fn ops_missing(&self) -> impl Iterator<Item = OpKind> {
        OpKind::ALL.into_iter().filter(|&kind| self.op(kind) == 0)
    }

    /// Faults that never happened.
    pub fn faults_missing(&self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(|&fault| self.fault(fault) == 0)
    }

    /// Adds the counts of another world.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.ops.iter_mut().zip(other.ops) {
            *count += more;
        }
        for (count, more) in self.faults.iter_mut().zip(other.faults) {
            *count += more;
        }
        self.completed += other.completed;
        self.canceled += other.canceled;
        self.cancels_lost += other.cancels_lost;
        self.orphaned += other.orphaned;
    }

    pub(crate) const fn count_op(&mut self, kind: OpKind) {
        self.ops[kind as usize] += 1;
    }

    pub(crate) const fn count_fault(&mut self, fault: Fault) {
        self.faults[fault as usize] += 1;
    }
}

impl fmt::Display for Census {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kind in OpKind::ALL {
            writeln!(f, "{:>10} {kind}", self.op(kind))?;
        }
        for fault in Fault::ALL {
            writeln!(f, "{:>10} fault: {fault}", self.fault(fault))?;
        }
        writeln!(f, "{:>10} completed", self.completed)?;
        writeln!(f, "{:>10} canceled", self.canceled)?;
        writeln!(f, "{:>10} cancels lost", self.cancels_lost)?;
        write!(f, "{:>10} orphaned", self.orphaned)
    }
}
