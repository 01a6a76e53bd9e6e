//! What the server of `cargo xtask bench --overload` and its peers have in common: the routes, and how many handlers of
//! each kind were begun, ended by themselves, and were dropped half way. Only the standard library is needed: the peers
//! include this file by its path.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A kind of handler that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `GET /sleep/MS`
    Sleep,
    /// `GET /compute/MS`
    Compute,
    /// `GET /stream`
    Stream,
    /// `POST /upload`
    Upload,
    /// `GET /poll`
    Poll,
    /// `GET /ws`, from the opened WebSocket to its end.
    WebSocket,
    /// `GET /tiny`
    Tiny,
}

impl Kind {
    /// All of them, in the order of their names in [`counts`].
    const ALL: [(Kind, &'static str); 7] = [
        (Kind::Sleep, "sleep"),
        (Kind::Compute, "compute"),
        (Kind::Stream, "stream"),
        (Kind::Upload, "upload"),
        (Kind::Poll, "poll"),
        (Kind::WebSocket, "ws"),
        (Kind::Tiny, "tiny"),
    ];
}

/// A known path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Sleeps, then `ok`.
    Sleep(Duration),
    /// So many milliseconds of work on a core, then `ok`.
    Compute(u64),
    /// [`PIECES`] times [`PIECE`], one every [`PIECE_EVERY`].
    Stream,
    /// How many bytes the body had.
    Upload,
    /// `ok` when somebody asks for `/wake`.
    Poll,
    /// Ends all that poll.
    Wake,
    /// Echoes messages.
    WebSocket,
    /// `ok`.
    Tiny,
    /// [`counts`].
    Counts,
}

impl Route {
    /// The route of a path; the method does not matter.
    pub(crate) fn of(path: &str) -> Option<Route> {
        Some(match path {
            "/stream" => Route::Stream,
            "/upload" => Route::Upload,
            "/poll" => Route::Poll,
            "/wake" => Route::Wake,
            "/ws" => Route::WebSocket,
            "/tiny" => Route::Tiny,
            "/counts" => Route::Counts,
            _ => {
                let (name, ms) = path.strip_prefix('/')?.split_once('/')?;
                let ms: u64 = ms.parse().ok().filter(|ms| *ms <= MS_MAX)?;
                match name {
                    "sleep" => Route::Sleep(Duration::from_millis(ms)),
                    "compute" => Route::Compute(ms),
                    _ => return None,
                }
            }
        })
    }
}

/// The counters of a kind.
struct Counters {
    begun: AtomicU64,
    finished: AtomicU64,
    dropped: AtomicU64,
}

static COUNTERS: [Counters; Kind::ALL.len()] =
    [const { Counters { begun: AtomicU64::new(0), finished: AtomicU64::new(0), dropped: AtomicU64::new(0) } };
        Kind::ALL.len()];

/// A handler that runs. Dropped before [`Begun::finish`], it was dropped half way.
#[derive(Debug)]
pub(crate) struct Begun(Kind);

impl Begun {
    /// It begins.
    pub(crate) fn new(kind: Kind) -> Begun {
        COUNTERS[kind as usize].begun.fetch_add(1, Ordering::Relaxed);
        Begun(kind)
    }

    /// It ended by itself.
    pub(crate) fn finish(self) {
        COUNTERS[self.0 as usize].finished.fetch_add(1, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        COUNTERS[self.0 as usize].dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A line for each kind: its name, then how many were begun, ended by themselves, and were dropped half way.
pub(crate) fn counts() -> String {
    let line = |(kind, name): (Kind, &str)| {
        let Counters { begun, finished, dropped } = &COUNTERS[kind as usize];
        let [begun, finished, dropped] = [begun, finished, dropped].map(|counter| counter.load(Ordering::Relaxed));
        format!("{name} begun {begun} finished {finished} dropped {dropped}\n")
    };
    Kind::ALL.into_iter().map(line).collect()
}

/// Those that poll wait here.
#[derive(Debug)]
pub(crate) struct Bell(Mutex<Rung>);

#[derive(Debug)]
struct Rung {
    times: u64,
    waiting: Vec<Waker>,
}

impl Bell {
    /// Nobody waits.
    pub(crate) const fn new() -> Bell {
        Bell(Mutex::new(Rung { times: 0, waiting: Vec::new() }))
    }

    /// Until the bell is rung the next time.
    pub(crate) fn wait(&'static self) -> impl Future<Output = ()> {
        Wait { bell: self, since: None }
    }

    /// All that wait go on.
    pub(crate) fn ring(&self) {
        let mut rung = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rung.times += 1;
        let waiting = std::mem::take(&mut rung.waiting);
        drop(rung);
        waiting.into_iter().for_each(Waker::wake);
    }
}

struct Wait {
    bell: &'static Bell,
    /// How often it had been rung when the waiting began.
    since: Option<u64>,
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut rung = self.bell.0.lock().unwrap_or_else(PoisonError::into_inner);
        let times = rung.times;
        if times > *self.since.get_or_insert(times) {
            return Poll::Ready(());
        }
        // A handler that is polled again is in the list twice; a ring empties it.
        rung.waiting.push(cx.waker().clone());
        Poll::Pending
    }
}

/// Work for a core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    rounds_per_ms: u64,
}

impl Work {
    /// Finds out how fast this core is, which takes some milliseconds: the best of several tries, as others may
    /// disturb.
    pub(crate) fn calibrate() -> Work {
        let try_once = || {
            let began = Instant::now();
            rounds(CALIBRATION_ROUNDS);
            began.elapsed()
        };
        let best = (0..CALIBRATIONS).map(|_| try_once()).min().unwrap_or_default();
        Work { rounds_per_ms: CALIBRATION_ROUNDS * 1_000_000 / (best.as_nanos() as u64).max(1) }
    }

    /// So many milliseconds of it.
    pub(crate) fn run(self, ms: u64) {
        rounds(self.rounds_per_ms * ms);
    }
}

fn rounds(count: u64) {
    let mut value = count | 1;
    for _ in 0..count {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
    }
    black_box(value);
}

/// A piece of a streamed answer, how many there are, and the time before each.
pub(crate) static PIECE: [u8; 4096] = [b'p'; 4096];
pub(crate) const PIECES: u32 = 8;
pub(crate) const PIECE_EVERY: Duration = Duration::from_millis(100);
/// The longest sleep or computation.
const MS_MAX: u64 = 60_000;
const CALIBRATION_ROUNDS: u64 = 2_000_000;
const CALIBRATIONS: u32 = 8;

#[cfg(test)]
mod tests {
    //! Routes are known, ends are counted, and a bell wakes those that wait.

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Wake;

    use super::*;

    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn routes_have_bounds() {
        assert_eq!(Route::of("/sleep/250"), Some(Route::Sleep(Duration::from_millis(250))));
        assert_eq!(Route::of("/compute/10"), Some(Route::Compute(10)));
        for unknown in ["/", "/sleep", "/sleep/", "/sleep/-1", "/sleep/60001", "/nap/1"] {
            assert_eq!(Route::of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn ends_are_counted() {
        Begun::new(Kind::Stream).finish();
        drop(Begun::new(Kind::Stream));
        let running = Begun::new(Kind::Stream);
        let line = counts().lines().find(|line| line.starts_with("stream ")).map(str::to_owned);
        assert_eq!(line.as_deref(), Some("stream begun 3 finished 1 dropped 1"));
        drop(running);
    }

    #[test]
    fn a_bell_wakes_those_that_wait_and_nobody_twice() {
        static BELL: Bell = Bell::new();
        let woken = Arc::new(Woken(AtomicU64::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut cx = Context::from_waker(&waker);
        let mut before = Box::pin(BELL.wait());
        assert!(before.as_mut().poll(&mut cx).is_pending());
        BELL.ring();
        let mut after = Box::pin(BELL.wait());
        assert!(before.as_mut().poll(&mut cx).is_ready() && after.as_mut().poll(&mut cx).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        BELL.ring();
        assert!(after.as_mut().poll(&mut cx).is_ready() && woken.0.load(Ordering::SeqCst) == 2);
    }
}
