//! The record of a run: a running hash of everything that happened, and the last events as text.
//!
//! Two runs of one seed and one program have the same hash, or something outside the seed has decided something.
#![forbid(unsafe_code)]

use core::fmt;
use std::collections::VecDeque;

use super::census::OpKind;
use super::faults::Fault;
use super::rng::mix;
use crate::fd::Number;
use crate::{Errno, Instant};

/// One event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// An operation was handed to the kernel, with the hash of the bytes it came with.
    Started { op: u64, node: u32, kind: OpKind, fd: Option<Number>, bytes: u64 },
    /// A completion was taken, with the hash of the bytes it brought.
    Completed { op: u64, node: u32, kind: OpKind, result: Result<u32, Errno>, bytes: u64 },
    /// A cancellation was asked for.
    Cancelled { op: u64 },
    /// A fault was injected.
    Fault(Fault),
    /// The clock moved.
    Clock,
    /// A node was chosen to run.
    Ran { node: u32 },
    /// Bytes of a connection have arrived.
    Arrived { conn: u64, side: usize, len: usize },
    /// A connection's end was killed.
    Killed { conn: u64, side: usize, errno: Errno },
    /// A socket took bytes at once, without an operation: their hash.
    SentNow { fd: Number, bytes: u64 },
    /// A socket gave bytes at once, without an operation: their hash.
    ReceivedNow { fd: Number, bytes: u64 },
    /// A descriptor was opened.
    Opened(Number),
    /// A descriptor was closed.
    Closed(Number),
}

impl Entry {
    /// What goes into the hash.
    fn words(&self) -> [u64; 6] {
        let fd_word = |fd: &Option<Number>| fd.map_or(u64::MAX, |fd| fd.raw() as u64);
        let result_word = |result: &Result<u32, Errno>| match *result {
            Ok(count) => u64::from(count),
            Err(errno) => (1 << 32) | errno.0 as u64,
        };
        match self {
            Self::Started { op, node, kind, fd, bytes } => {
                [1, *op, u64::from(*node), *kind as u64, fd_word(fd), *bytes]
            }
            Self::Completed { op, node, kind, result, bytes } => {
                [2, *op, u64::from(*node), *kind as u64, result_word(result), *bytes]
            }
            Self::Cancelled { op } => [3, *op, 0, 0, 0, 0],
            Self::Fault(fault) => [4, *fault as u64, 0, 0, 0, 0],
            Self::Clock => [5, 0, 0, 0, 0, 0],
            Self::Ran { node } => [6, u64::from(*node), 0, 0, 0, 0],
            Self::Arrived { conn, side, len } => [7, *conn, *side as u64, *len as u64, 0, 0],
            Self::Killed { conn, side, errno } => [8, *conn, *side as u64, errno.0 as u64, 0, 0],
            Self::Opened(fd) => [9, fd.raw() as u64, 0, 0, 0, 0],
            Self::Closed(fd) => [10, fd.raw() as u64, 0, 0, 0, 0],
            Self::SentNow { fd, bytes } => [11, fd.raw() as u64, *bytes, 0, 0, 0],
            Self::ReceivedNow { fd, bytes } => [12, fd.raw() as u64, *bytes, 0, 0, 0],
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { op, node, kind, fd: Some(fd), .. } => {
                write!(f, "node {node} starts #{op} {kind} on {fd:?}")
            }
            Self::Started { op, node, kind, fd: None, .. } => write!(f, "node {node} starts #{op} {kind}"),
            Self::Completed { op, node, kind, result, .. } => write!(f, "node {node} reaps  #{op} {kind}: {result:?}"),
            Self::Cancelled { op } => write!(f, "cancel of #{op}"),
            Self::Fault(fault) => write!(f, "fault: {fault}"),
            Self::Clock => write!(f, "clock moved"),
            Self::Ran { node } => write!(f, "node {node} runs"),
            Self::Arrived { conn, side, len } => write!(f, "connection {conn}: {len} bytes of side {side} arrive"),
            Self::Killed { conn, side, errno } => write!(f, "connection {conn}: side {side} ends: {errno}"),
            Self::SentNow { fd, .. } => write!(f, "{fd:?} takes bytes at once"),
            Self::ReceivedNow { fd, .. } => write!(f, "{fd:?} gives bytes at once"),
            Self::Opened(fd) => write!(f, "{fd:?} opened"),
            Self::Closed(fd) => write!(f, "{fd:?} closed"),
        }
    }
}

/// The record.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    last: VecDeque<(Instant, Entry)>,
    last_max: usize,
}

impl Trace {
    pub(crate) fn new(seed: u64, last_max: usize) -> Self {
        Self { hash: mix(seed), last: VecDeque::new(), last_max }
    }

    pub(crate) fn record(&mut self, now: u64, entry: Entry) {
        for word in entry.words() {
            self.hash = mix(self.hash ^ word);
        }
        self.hash = mix(self.hash ^ now);
        if self.last_max == 0 {
            return;
        }
        if self.last.len() == self.last_max {
            self.last.pop_front();
        }
        self.last.push_back((Instant::from_nanos(now), entry));
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// The last events as text, oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.last.iter().map(|(now, entry)| format!("{now:?} {entry}")).collect()
    }
}

/// A hash of bytes, eight at a time; 0 for none. Four lanes, so that one multiplication need not wait for another:
/// every byte that a long sweep moves goes through here.
pub(crate) fn bytes_hash(bytes: &[u8]) -> u64 {
    if bytes.is_empty() {
        return 0;
    }
    let mut lanes = [bytes.len() as u64 ^ SEED, SEED, SEED.rotate_left(17), SEED.rotate_left(31)];
    let (blocks, tail) = bytes.as_chunks::<32>();
    for block in blocks {
        let (words, _) = block.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(23);
        }
    }
    let [one, two, three, four] = lanes;
    let whole = mix(one) ^ mix(two).rotate_left(7) ^ mix(three).rotate_left(19) ^ mix(four).rotate_left(41);
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    mix(tail.iter().fold(whole, step))
}

const SEED: u64 = 0xCBF2_9CE4_8422_2325;
/// Odd, and with bits far apart.
const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
