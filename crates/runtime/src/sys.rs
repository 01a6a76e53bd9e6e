//! Everything this crate asks of the operating system: threads, signals (in `sys/signals.rs`), processor affinity, the
//! heap and clocks.
//!
//! **I-PLAIN**: the call reads and writes nothing but the arguments, which are valid local values.

use core::mem::MaybeUninit;
use core::num::NonZero;
use core::time::Duration;
use std::io;
use std::thread::JoinHandle;

mod signals;

pub(crate) use self::signals::{Place as SignalPlace, Signals, count_hangups, hangups};

/// Nanoseconds of the coarse monotonic clock: a few of them to read, as fine as the kernel's tick.
pub(crate) fn coarse_now_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC_COARSE)
}

/// Nanoseconds of the monotonic clock: some tens of them to read.
pub(crate) fn clock_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: I-PLAIN.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "both clocks are always there on Linux");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Seconds since 1970, for HTTP dates.
pub(crate) fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The system's monotonic clock, in the form that other crates take.
#[cfg(feature = "hyper")]
pub(crate) fn system_now() -> std::time::Instant {
    std::time::Instant::now()
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

/// How long a wait for a thread may take.
#[derive(Debug)]
pub(crate) struct TimeLimit(Option<std::time::Instant>);

impl TimeLimit {
    /// So long from now; what is longer than the clock counts is for ever.
    pub(crate) fn after(duration: Duration) -> Self {
        Self(std::time::Instant::now().checked_add(duration))
    }

    /// What is left of it; nothing once it has passed.
    pub(crate) fn left(&self) -> Duration {
        self.0.map_or(Duration::MAX, |end| end.saturating_duration_since(std::time::Instant::now()))
    }
}

/// Runs `act` on a thread of its own and waits for its end. Where the system refuses a thread, it is not run.
#[cfg(feature = "tokio-context")]
pub(crate) fn run_on_thread(name: &str, act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, act);
        if let Err(error) = thread {
            tracing::warn!(%error, name, "a thread was refused");
        }
    });
}

/// Has the allocator of the C heap give back the pages that it keeps of what was freed. That takes some milliseconds
/// for 100 MiB. Other C libraries than glibc do not keep as much, and are not asked.
pub(crate) fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: I-PLAIN.
    let _has_given_some = unsafe { libc::malloc_trim(0) };
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
