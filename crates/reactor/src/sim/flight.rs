//! An operation as the simulated kernel holds it. It owns its bytes: what a driver's operation sends is copied in when
//! it starts, what it brings is copied out when its completion is taken.
//!
//! ```text
//!  submitted --enter--> waiting (socket operations: tried again whenever something changes) --\
//!      |          \---> working (file operations: on a kernel worker until an event) ----------+--> done -> taken
//!      \---------------------------------- cancelled before it began -------------------------/
//! ```
#![forbid(unsafe_code)]

use plimsoll_slab::Key;

use super::census::OpKind;
use super::config::NodeId;
use super::events::EventKey;
use super::files::OpenFile;
use crate::fd::Number;
use crate::op::{Interest, Op, Shutdown};
use crate::{Address, Errno, RECEIVE_BYTES_MAX, sys};

/// What is to be done. They are moved often: what is large is in a box.
#[derive(Debug)]
pub(crate) enum Verb {
    Accept,
    Receive { len_max: usize },
    Send { bytes: Vec<u8> },
    Connect { address: Option<Box<Address>>, dial: Dial },
    Shutdown(Shutdown),
    Close,
    Poll(Interest),
    Open { path: Vec<u8>, flags: i32, mode: u32 },
    File { file: Option<OpenFile>, call: FileCall },
}

/// How far a connect has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dial {
    /// Nothing was sent yet.
    Fresh,
    /// It waits for an answer.
    Started,
}

/// A call on an open file.
#[derive(Debug)]
pub(crate) enum FileCall {
    Stat,
    ReadAt { len_max: usize, offset: u64 },
    WriteAt { bytes: Vec<u8>, offset: u64 },
    Fsync,
}

/// Which of a socket's two streams an operation uses; such operations keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Inward,
    Outward,
}

impl Verb {
    /// What an operation of a driver asks for, and of which descriptor.
    pub(crate) fn of(op: &Op<'static>) -> (Self, Option<Number>) {
        let file = |call| Self::File { file: None, call };
        match op {
            Op::Accept { listener } => (Self::Accept, Some(*listener)),
            Op::Receive { fd } => (Self::Receive { len_max: RECEIVE_BYTES_MAX }, Some(*fd)),
            Op::ReceiveInto { fd, lease } => (Self::Receive { len_max: lease.spare_capacity() }, Some(*fd)),
            Op::Send { fd, bytes } => (Self::Send { bytes: bytes.as_slice().to_vec() }, Some(*fd)),
            Op::Connect { fd, address } => (
                Self::Connect { address: sys::sockaddr_from_bytes(address).map(Box::new), dial: Dial::Fresh },
                Some(*fd),
            ),
            Op::Shutdown { fd, how } => (Self::Shutdown(*how), Some(*fd)),
            Op::Close { fd } => (Self::Close, Some(fd.number())),
            Op::Poll { fd, interest } => (Self::Poll(*interest), Some(*fd)),
            Op::Open { path, flags, mode } => {
                let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
                (Self::Open { path: path[..end].to_vec(), flags: *flags, mode: *mode }, None)
            }
            Op::Stat { fd, .. } => (file(FileCall::Stat), Some(*fd)),
            Op::ReadAt { fd, lease, offset } => {
                (file(FileCall::ReadAt { len_max: lease.spare_capacity(), offset: *offset }), Some(*fd))
            }
            Op::WriteAt { fd, lease, offset } => {
                (file(FileCall::WriteAt { bytes: lease.to_vec(), offset: *offset }), Some(*fd))
            }
            Op::Fsync { fd, .. } => (file(FileCall::Fsync), Some(*fd)),
        }
    }

    /// The stream it uses, if any.
    pub(crate) const fn direction(&self) -> Option<Direction> {
        match self {
            Self::Accept | Self::Receive { .. } => Some(Direction::Inward),
            Self::Send { .. } | Self::Shutdown(Shutdown::Write | Shutdown::Both) => Some(Direction::Outward),
            _ => None,
        }
    }

    /// The bytes it came with.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Send { bytes } | Self::File { call: FileCall::WriteAt { bytes, .. }, .. } => bytes,
            Self::Open { path, .. } => path,
            _ => &[],
        }
    }
}

/// How an operation ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// For accept and open the descriptor, else a count.
    pub(crate) result: Result<u32, Errno>,
    /// What it brings.
    pub(crate) bytes: Vec<u8>,
}

impl Outcome {
    pub(crate) const fn new(result: Result<u32, Errno>) -> Self {
        Self { result, bytes: Vec::new() }
    }

    pub(crate) const fn error(errno: i32) -> Self {
        Self::new(Err(Errno(errno)))
    }

    pub(crate) fn brings(bytes: Vec<u8>) -> Self {
        Self { result: Ok(u32::try_from(bytes.len()).expect("operations bring less than 4 GiB")), bytes }
    }
}

/// Where an operation is on its way.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Not seen by the kernel yet: its driver has not entered.
    Submitted,
    /// In its descriptor's list of waiting operations.
    Waiting,
    /// On a kernel worker.
    Working(Worker),
    /// It has ended; the completion is on its way to the driver, or there.
    Done(Outcome),
}

/// A file operation on a kernel worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// Still in the worker's queue: it can be taken back.
    Queued(EventKey),
    /// The worker is at it: it cannot.
    Busy,
}

/// Whether a fault holds an operation up. Each is held up at most once, so that even a certain fault ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    Never,
    Until(u64),
    Over,
}

/// Whether its owner still wants it to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    GoOn,
    End,
}

/// An operation in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) node: NodeId,
    pub(crate) key: Key,
    pub(crate) kind: OpKind,
    pub(crate) fd: Option<Number>,
    pub(crate) verb: Verb,
    pub(crate) stage: Stage,
    pub(crate) pause: Pause,
    pub(crate) wish: Wish,
}
