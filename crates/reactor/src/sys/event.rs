//! An eventfd: a counter in the kernel that a driver can wait for.
//!
//! **I-FRESH**: a descriptor that a call of ours has just been given has no other owner.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::Errno;

/// A wake-up that any thread can send and a driver can wait for. Close-on-exec and non-blocking; closed when dropped.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    pub(crate) fn new() -> Result<Self, Errno> {
        // SAFETY: I-FRESH: nothing of ours is handed over.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: I-FRESH: the call above succeeded, so `fd` is ours alone.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Its number, to wait for.
    pub(crate) fn raw(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Makes it readable.
    pub(crate) fn signal(&self) {
        // Adding one fails only when the counter is full, and then it is readable already.
        let _full = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Takes all signals back; whether there were any.
    pub(crate) fn clear(&self) -> bool {
        let mut count = [0_u8; 8];
        (&self.0).read(&mut count).is_ok()
    }
}
