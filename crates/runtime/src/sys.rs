//! Everything this crate asks of the operating system: threads, signals, processor affinity and a coarse clock.
//!
//! **I-SIGNAL**: the signal handler touches only the two atomics of this file and calls only functions that signal-safety(7) lists (`write`,
//! `_exit`).
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
/// The eventfd that the handler writes to, or -1.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// What a shell reports for a process that Ctrl-C ended.
const EXIT_INTERRUPTED: libc::c_int = 130;

extern "C" fn on_signal(_signal: libc::c_int) {
    if RECEIVED.fetch_add(1, Ordering::SeqCst) > 0 {
        // SAFETY: I-SIGNAL.
        unsafe { libc::_exit(EXIT_INTERRUPTED) };
    }
    let wake = WAKE.load(Ordering::SeqCst);
    if wake >= 0 {
        let one = 1_u64;
        // SAFETY: I-SIGNAL and I-PLAIN: eight bytes of a local.
        unsafe { libc::write(wake, (&raw const one).cast(), 8) };
    }
}

/// From now on SIGINT and SIGTERM are counted and wake whoever waits on `wake`; the second one ends the process with code 130.
pub(crate) fn install_signals(wake: Option<i32>) -> io::Result<()> {
    WAKE.store(wake.unwrap_or(-1), Ordering::SeqCst);
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
    Ok(())
}

/// The eventfd that signals wake is about to be closed.
pub(crate) fn forget_signal_wake() {
    WAKE.store(-1, Ordering::SeqCst);
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
