//! Everything this crate asks of the operating system: threads, signals, processor affinity and a coarse clock.
//!
//! **I-SIGNAL**: the signal handler touches only atomics of this file and `errno`, which it leaves as it found it, and calls only functions
//! that signal-safety(7) lists (`write`, `_exit`).
//!
//! **I-PLAIN**: the call reads and writes nothing but the arguments, which are valid local values.

use core::hash::{BuildHasher, Hasher};
use core::mem::MaybeUninit;
use core::num::NonZero;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Signals counted since the handler was installed.
static RECEIVED: AtomicU32 = AtomicU32::new(0);
/// The eventfds that the handler writes to, one for each runtime that wants the signals; -1 where there is none.
static WAKES: [AtomicI32; SIGNAL_RUNTIMES_MAX] = [const { AtomicI32::new(-1) }; SIGNAL_RUNTIMES_MAX];

/// Handlers that may have an eventfd of `WAKES` in hand.
static WAKING: AtomicU32 = AtomicU32::new(0);

/// Runtimes of one process that have the signals at a time.
pub(crate) const SIGNAL_RUNTIMES_MAX: usize = 16;

/// What a shell reports for a process that Ctrl-C ended.
const EXIT_INTERRUPTED: libc::c_int = 130;

extern "C" fn on_signal(_signal: libc::c_int) {
    if RECEIVED.fetch_add(1, Ordering::SeqCst) > 0 {
        // SAFETY: I-SIGNAL.
        unsafe { libc::_exit(EXIT_INTERRUPTED) };
    }
    wake_runtimes();
}

/// Wakes every runtime that has the signals. Called by the handler.
fn wake_runtimes() {
    WAKING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: I-SIGNAL: the interrupted code may be between a call and its look at what went wrong.
    let errno = unsafe { *libc::__errno_location() };
    for wake in &WAKES {
        let wake = wake.load(Ordering::SeqCst);
        if wake >= 0 {
            let one = 1_u64;
            // SAFETY: I-SIGNAL and I-PLAIN: eight bytes of a local.
            unsafe { libc::write(wake, (&raw const one).cast(), 8) };
        }
    }
    // SAFETY: I-SIGNAL.
    unsafe { *libc::__errno_location() = errno };
    WAKING.fetch_sub(1, Ordering::SeqCst);
}

/// A place among the eventfds that signals wake. Dropped, it is free again, and no handler writes to the eventfd any more: it may be closed.
#[derive(Debug)]
pub(crate) struct SignalWake {
    place: &'static AtomicI32,
}

impl SignalWake {
    /// `None` when all [`SIGNAL_RUNTIMES_MAX`] places are taken.
    fn take(eventfd: i32) -> Option<Self> {
        let take = |place: &&AtomicI32| place.compare_exchange(-1, eventfd, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        WAKES.iter().find(take).map(|place| Self { place })
    }
}

impl Drop for SignalWake {
    fn drop(&mut self) {
        self.place.store(-1, Ordering::SeqCst);
        // A handler on another thread may have read the number before: it is a few instructions from its end.
        while WAKING.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

/// From now on SIGINT and SIGTERM are counted and wake whoever waits on `eventfd`, until the place is dropped; the second one ends the process
/// with code 130. `None` when too many runtimes have the signals.
pub(crate) fn install_signals(eventfd: i32) -> io::Result<Option<SignalWake>> {
    let Some(wake) = SignalWake::take(eventfd) else { return Ok(None) };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: I-PLAIN: an all-zero sigaction is a valid one, and it is filled before it is used.
        let result = unsafe {
            let action = action.assume_init_mut();
            action.sa_sigaction = on_signal as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(signal, action, core::ptr::null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(Some(wake))
}

/// SIGINT and SIGTERM received so far.
pub(crate) fn signals_received() -> u32 {
    RECEIVED.load(Ordering::Relaxed)
}

/// Milliseconds of the coarse monotonic clock: a few nanoseconds to read, as fine as the kernel's tick.
pub(crate) fn coarse_now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: I-PLAIN.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    debug_assert_eq!(result, 0, "the coarse clock is always there on Linux");
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Seconds since 1970, for HTTP dates.
pub(crate) fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A number that peers cannot guess.
pub(crate) fn random_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Processors this process may use; a cgroup's quota counts.
pub(crate) fn available_workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Starts a thread.
pub(crate) fn spawn_thread(
    name: String,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).stack_size(stack_bytes).spawn(body)
}

/// Keeps the calling thread on one processor; `false` if the system refuses.
pub(crate) fn pin_to(processor: usize) -> bool {
    // SAFETY: I-PLAIN: an all-zero set is empty, and the index is checked by CPU_SET itself.
    unsafe {
        let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
        if processor >= libc::CPU_SETSIZE as usize {
            return false;
        }
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waking_leaves_errno_as_it_was() {
        /// No descriptor has this number.
        const NOWHERE: i32 = 1 << 29;
        let wake = SignalWake::take(NOWHERE).expect("nobody else has the signals");
        // SAFETY: I-SIGNAL: this thread's own.
        unsafe { *libc::__errno_location() = libc::EINTR };
        wake_runtimes();
        // SAFETY: as above, I-SIGNAL.
        assert_eq!(unsafe { *libc::__errno_location() }, libc::EINTR, "and not that of the write that failed");
        drop(wake);
    }

    #[test]
    fn places_are_counted_and_come_back() {
        let places = || WAKES.iter().filter(|place| place.load(Ordering::SeqCst) == 1 << 28).count();
        let two = [SignalWake::take(1 << 28), SignalWake::take(1 << 28)];
        assert!(two.iter().all(Option::is_some), "two runtimes have a place each");
        assert_eq!(places(), 2);
        drop(two);
        assert_eq!(places(), 0);
    }
}
