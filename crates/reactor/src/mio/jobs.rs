//! File operations on the threads of the blocking pool.
//!
//! **I-FLIGHT** (of the slot table): from the start of an operation until its last completion is reported its slot
//! exists, and its lease's memory neither moves nor is used by anybody but the backend. A job reports its operation
//! exactly once, as the last thing it does with the memory, also when it is dropped without having run. A driver that
//! ends before its jobs leaks their leases.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::mem::MaybeUninit;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pool::Lease;
use plimsoll_slab::Key;

use crate::fd::Number;
use crate::op::{Errno, Op};
use crate::{Doorbell, sys};

/// The end of a file operation.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) key: Key,
    /// For an open the descriptor, else a count.
    pub(super) result: Result<u32, Errno>,
}

/// Where jobs report, from their threads to the driver.
#[derive(Debug)]
pub(super) struct Board {
    /// Not longer than the jobs that the blocking pool takes.
    done: Mutex<VecDeque<Done>>,
    doorbell: Doorbell,
}

impl Board {
    pub(super) fn new(doorbell: &Doorbell) -> Arc<Self> {
        Arc::new(Self { done: Mutex::new(VecDeque::new()), doorbell: doorbell.clone() })
    }

    /// Moves what was reported behind `to`.
    pub(super) fn take(&self, to: &mut VecDeque<Done>) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if to.is_empty() {
            core::mem::swap(&mut *done, to);
        } else {
            to.append(&mut done);
        }
        debug_assert!(done.is_empty());
    }

    fn report(&self, report: Done) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        let first = done.is_empty();
        done.push_back(report);
        drop(done);
        // Whoever put in what was there before has rung for all of it.
        if first {
            self.doorbell.ring();
        }
    }
}

/// A file operation on its way through the blocking pool.
pub(super) struct Job {
    key: Key,
    call: Call,
    board: Arc<Board>,
    state: JobState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    Waiting,
    Reported,
}

/// The call to make.
enum Call {
    Open { path: Memory, flags: i32, mode: u32 },
    Stat { fd: Number, room: Memory },
    ReadAt { fd: Number, room: Memory, offset: u64 },
    WriteAt { fd: Number, bytes: Memory, offset: u64 },
    Fsync { fd: Number, data_only: bool },
}

/// Memory of a lease that an operation in flight holds.
struct Memory {
    start: *mut MaybeUninit<u8>,
    len: usize,
}

// SAFETY: I-FLIGHT: until the job reports, the memory is the job's alone, on whichever thread it is.
unsafe impl Send for Memory {}

impl Memory {
    fn of_spare(lease: &mut Lease) -> Self {
        let spare = lease.spare_mut();
        Self { start: spare.as_mut_ptr(), len: spare.len() }
    }

    /// For [`bytes`](Self::bytes) only.
    fn of_visible(lease: &Lease) -> Self {
        let bytes: &[u8] = lease;
        Self { start: bytes.as_ptr().cast_mut().cast(), len: bytes.len() }
    }

    fn room(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: I-FLIGHT: the spare room of the operation's lease, exclusive; made by `of_spare`.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.len) }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: I-FLIGHT: the visible and so initialised bytes of the operation's lease; made by `of_visible`.
        unsafe { core::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Job {
    /// The job of a file operation in flight, whose slot must stay until the job has reported.
    pub(super) fn new(key: Key, op: &mut Op<'static>, board: &Arc<Board>) -> Self {
        let call = match op {
            Op::Open { path, flags, mode } => Call::Open { path: Memory::of_visible(path), flags: *flags, mode: *mode },
            Op::Stat { fd, lease } => Call::Stat { fd: *fd, room: Memory::of_spare(lease) },
            Op::ReadAt { fd, lease, offset } => {
                Call::ReadAt { fd: *fd, room: Memory::of_spare(lease), offset: *offset }
            }
            Op::WriteAt { fd, lease, offset } => {
                Call::WriteAt { fd: *fd, bytes: Memory::of_visible(lease), offset: *offset }
            }
            Op::Fsync { fd, data_only } => Call::Fsync { fd: *fd, data_only: *data_only },
            other => unreachable!("{} is not a file operation", other.name()),
        };
        Self { key, call, board: Arc::clone(board), state: JobState::Waiting }
    }

    /// Makes the call and reports; on a thread of the blocking pool.
    pub(super) fn run(mut self) {
        debug_assert_eq!(self.state, JobState::Waiting);
        let result = match &mut self.call {
            Call::Open { path, flags, mode } => match CStr::from_bytes_with_nul(path.bytes()) {
                Ok(path) => sys::open(path, *flags, *mode).map(|fd| fd.raw() as u32),
                Err(_) => Err(Errno(libc::EINVAL)),
            },
            Call::Stat { fd, room } => sys::stat(*fd, room.room()).map(|bytes| bytes as u32),
            Call::ReadAt { fd, room, offset } => sys::read_at(*fd, room.room(), *offset).map(|bytes| bytes as u32),
            Call::WriteAt { fd, bytes, offset } => sys::write_at(*fd, bytes.bytes(), *offset).map(|bytes| bytes as u32),
            Call::Fsync { fd, data_only } => sys::fsync(*fd, *data_only).map(|()| 0),
        };
        self.report(result);
    }

    /// Ends it without a report: the blocking pool did not take it.
    pub(super) fn withdraw(mut self) {
        self.state = JobState::Reported;
    }

    fn report(&mut self, result: Result<u32, Errno>) {
        if core::mem::replace(&mut self.state, JobState::Reported) == JobState::Waiting {
            self.board.report(Done { key: self.key, result });
        }
    }
}

impl Drop for Job {
    /// A job that the blocking pool dropped when it was shut down.
    fn drop(&mut self) {
        self.report(Err(Errno::CANCELED));
    }
}

const _: () = assert!(size_of::<Job>() <= 56, "boxed per file operation");
