//! Everything this crate asks of the operating system, apart from what the io-uring crate does.
//!
//! | file | items every backend on the real system rests on |
//! |---|---|
//! | `address.rs` | [`with_sockaddr`], [`sockaddr_from_bytes`]: addresses in the system's form and back |
//! | `net.rs` | sockets are made by [`socket`], [`listen`] and [`accept`], and end with [`close`] |
//! | | they talk by [`connect`], [`socket_error`], [`receive`], [`receive_into`], [`receive_scattered`], [`discard`], [`peek`], [`send`], [`send_vectored`], [`shutdown`] |
//! | | they tell by [`poll_now`], [`local_address`], [`peer_address`], and are told by [`set_option`] |
//! | `file.rs` | [`open`], [`stat`], [`read_at`], [`write_at`], [`fsync`], and the constants of `statx` |
//! | `event.rs` | [`EventFd`]: a wake-up that a driver can wait for |
//! | `clock.rs` | [`now`]: `CLOCK_MONOTONIC` |
//! | `ring.rs` | [`ring_enter`], [`ring_register`], [`kernel_release`]: what io_uring needs beside the io-uring crate |
//! | `thread.rs` | [`spawn_thread`]: a named thread with a stack of a stated size |
//!
//! No call here waits, except those of `file.rs`, which only the threads of the blocking pool make. Calls that a signal
//! interrupted are made again.
#![deny(unsafe_code)]

mod address;
mod clock;
mod event;
mod file;
mod net;
mod ring;
#[cfg(test)]
mod tests;
mod thread;

use crate::Errno;

pub(crate) use address::{sockaddr_from_bytes, with_sockaddr};
pub(crate) use clock::now;
pub(crate) use event::EventFd;
pub(crate) use file::{STATX_BYTES, STATX_MASK, end_opening, fsync, open, read_at, stat, write_at};
pub(crate) use net::{
    SCATTERED_MAX, accept, check_listens, close, connect, discard, duplicate, inherit, inheritable, listen,
    local_address, peek, peer_address, poll_now, receive, receive_into, receive_scattered, refuse_connects, send,
    send_vectored, set_option, shutdown, socket, socket_error,
};
pub(crate) use ring::{RingUpdate, kernel_release, ring_enter, ring_register};
pub(crate) use thread::{pause, run_on_threads, spawn_thread};

/// Makes a call that answers -1 on failure, again while a signal interrupts it.
fn retry(mut call: impl FnMut() -> isize) -> Result<usize, Errno> {
    loop {
        let result = call();
        debug_assert!(result >= -1, "system calls answer -1 or a count");
        if result >= 0 {
            return Ok(result as usize);
        }
        let errno = Errno::last();
        if errno.0 != libc::EINTR {
            return Err(errno);
        }
    }
}
