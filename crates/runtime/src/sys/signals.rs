//! SIGINT and SIGTERM for the runtimes of a process that want them.
//!
//! ```text
//!  a runtime begins:  it takes a place; unless ours is the handler already, ours is installed and a layer
//!                     keeps what was there
//!  a signal comes:    every place is marked and woken; if all were marked before, the process ends with code 130
//!  a runtime ends:    it leaves its layer; the last one puts back what the layer kept, if nobody has installed
//!                     another handler since
//! ```
//!
//! So a signal is the first for every runtime that was not told of one before, whatever others of the process were
//! told: one that comes after another, beside one that is stopping, or beside one that was leaked, is stopped in an
//! orderly way by its own first signal.
//!
//! Layers matter when somebody else installs a handler between two runtimes: the second finds it, keeps it in a layer
//! of its own, and puts it back, whichever of the two ends first. A handler that was installed after ours stays. It may
//! call ours, even when no runtime is left: then ours does nothing.
//!
//! A signal that comes while a runtime ends is either told to it, which changes nothing any more, or meets what was put
//! back.
//!
//! SIGHUP asks for no stop: it is counted from the first time that somebody wants to know, for all runtimes together,
//! and until the process ends.
//!
//! **I-SIGNAL**: the signal handler touches only atomics of this file and `errno`, which it leaves as it found it, and
//! calls only functions that signal-safety(7) lists (`write`, `_exit`).
//!
//! **I-ACTION**: `sigaction` reads and writes nothing but the two structures, which are valid local values; what it
//! installs is either our handler, which lives as long as the program, or what the kernel gave as the action before.
//!
//! **I-BELL**: the eventfd in a place is open. It is put there by the owner of its doorbell, and the doorbell goes only
//! when the place is empty again and no handler may have read it before.

use core::mem::MaybeUninit;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_reactor::Doorbell;

/// Runtimes of one process that have the signals at a time.
const SIGNAL_RUNTIMES_MAX: usize = 16;

/// What a shell reports for a process that Ctrl-C ended.
const EXIT_INTERRUPTED: libc::c_int = 130;

/// The signals that ask for a stop.
const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// Where the handler finds a runtime. Taken and emptied with `LAYERS` locked.
#[derive(Debug)]
pub(crate) struct Place {
    /// Where it is woken, or [`NOBODY`].
    eventfd: AtomicI32,
    /// A signal came since the place was taken.
    signalled: AtomicBool,
}

impl Place {
    /// Whether the runtime was sent a signal.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }
}

/// No runtime.
const NOBODY: i32 = -1;

static PLACES: [Place; SIGNAL_RUNTIMES_MAX] =
    [const { Place { eventfd: AtomicI32::new(NOBODY), signalled: AtomicBool::new(false) } }; SIGNAL_RUNTIMES_MAX];

/// Handlers that may have an eventfd of `PLACES` in hand.
static WAKING: AtomicU32 = AtomicU32::new(0);

/// For each of [`SIGNALS`]: when ours was installed, the earliest first. No layer is without users.
static LAYERS: Mutex<[Vec<Layer>; SIGNALS.len()]> = Mutex::new([const { Vec::new() }; SIGNALS.len()]);

/// Ours was installed over something else.
struct Layer {
    kept: libc::sigaction,
    /// A bit for each place whose runtime relies on it.
    users: u16,
}

const _: () = assert!(SIGNAL_RUNTIMES_MAX <= u16::BITS as usize);

/// To whom a signal was news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// There is no runtime.
    Nobody,
    /// Every runtime had been told of one before.
    Again,
    /// A runtime that is to stop now.
    First,
}

extern "C" fn on_signal(_signal: libc::c_int) {
    if tell_runtimes() == Told::Again {
        // SAFETY: I-SIGNAL.
        unsafe { libc::_exit(EXIT_INTERRUPTED) };
    }
}

/// Marks and wakes every runtime that has the signals. Called by the handler.
fn tell_runtimes() -> Told {
    WAKING.fetch_add(1, Ordering::SeqCst);
    // SAFETY: I-SIGNAL: the interrupted code may be between a call and its look at what went wrong.
    let errno = unsafe { *libc::__errno_location() };
    let mut told = Told::Nobody;
    for place in &PLACES {
        let eventfd = place.eventfd.load(Ordering::SeqCst);
        if eventfd == NOBODY {
            continue;
        }
        if place.signalled.swap(true, Ordering::SeqCst) {
            told = if told == Told::First { Told::First } else { Told::Again };
            continue;
        }
        told = Told::First;
        let one = 1_u64;
        // SAFETY: I-SIGNAL, I-BELL: eight bytes of a local, to a descriptor that is open.
        unsafe { libc::write(eventfd, (&raw const one).cast(), 8) };
    }
    // SAFETY: I-SIGNAL.
    unsafe { *libc::__errno_location() = errno };
    WAKING.fetch_sub(1, Ordering::SeqCst);
    told
}

/// A runtime's share of SIGINT and SIGTERM. Dropped, it gives its place back, and the last one the handlers that were
/// there before.
#[derive(Debug)]
pub(crate) struct Signals {
    index: usize,
    /// Keeps the eventfd that the handler writes to.
    _bell: Doorbell,
}

impl Signals {
    /// From now on SIGINT and SIGTERM mark the place and ring the bell. `None` when [`SIGNAL_RUNTIMES_MAX`] runtimes
    /// have the signals, and for a bell without a descriptor.
    ///
    /// # Errors
    ///
    /// What the system says of the handler; then nothing is changed.
    pub(crate) fn take(bell: &Doorbell) -> io::Result<Option<Self>> {
        let Some(eventfd) = bell.as_raw() else { return Ok(None) };
        let mut layers = lock();
        let free = PLACES.iter().position(|place| place.eventfd.load(Ordering::SeqCst) == NOBODY);
        let Some(index) = free else { return Ok(None) };
        debug_assert!(!PLACES[index].is_signalled(), "it is forgotten with its runtime");
        // Before the handler is installed: a signal that it gets is told to this runtime.
        PLACES[index].eventfd.store(eventfd, Ordering::SeqCst);
        let signals = Self { index, _bell: bell.clone() };
        let joined = join(&mut layers, index);
        // Were it an error, the drop would want the lock.
        drop(layers);
        joined.map(|()| Some(signals))
    }

    /// Where this runtime is told of signals.
    pub(crate) fn place(&self) -> &'static Place {
        &PLACES[self.index]
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut layers = lock();
        // Before the place is given back: no signal finds our handler without the runtime that it belongs to.
        leave(&mut layers, self.index);
        let place = self.place();
        place.eventfd.store(NOBODY, Ordering::SeqCst);
        // A handler on another thread may have read the number before: it is a few instructions from its end (I-BELL).
        while WAKING.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        place.signalled.store(false, Ordering::SeqCst);
    }
}

fn lock() -> MutexGuard<'static, [Vec<Layer>; SIGNALS.len()]> {
    LAYERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the runtime of a place a user of our handlers, which are installed where they are not.
fn join(layers: &mut [Vec<Layer>; SIGNALS.len()], index: usize) -> io::Result<()> {
    for (signal, layers) in SIGNALS.into_iter().zip(layers) {
        let current = action(signal, None)?;
        match layers.last_mut() {
            Some(top) if is_ours(&current) => top.users |= 1 << index,
            // Without a layer ours is there only if somebody else has put it back: what was before it is not known any
            // more.
            _ => {
                let kept = if is_ours(&current) { default_action() } else { current };
                layers.push(Layer { kept, users: 1 << index });
                action(signal, Some(&our_action()))?;
            }
        }
    }
    Ok(())
}

/// Takes the runtime of a place out of its layers; a layer without users goes, and what it kept is put back if ours is
/// still on top.
fn leave(layers: &mut [Vec<Layer>; SIGNALS.len()], index: usize) {
    for (signal, layers) in SIGNALS.into_iter().zip(layers) {
        let Some(at) = layers.iter().position(|layer| layer.users & 1 << index != 0) else { continue };
        layers[at].users &= !(1 << index);
        if layers[at].users != 0 {
            continue;
        }
        let was_top = at + 1 == layers.len();
        let Layer { kept, .. } = layers.remove(at);
        if was_top && action(signal, None).is_ok_and(|current| is_ours(&current)) {
            let restored = action(signal, Some(&kept));
            debug_assert!(restored.is_ok(), "the kernel takes back what it gave");
        }
    }
}

/// Installs an action, or none; the one before.
fn action(signal: libc::c_int, new: Option<&libc::sigaction>) -> io::Result<libc::sigaction> {
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: I-ACTION.
    if unsafe { libc::sigaction(signal, new, before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: I-ACTION: the call has filled it.
    Ok(unsafe { before.assume_init() })
}

fn our_action() -> libc::sigaction {
    let mut action = default_action();
    action.sa_sigaction = our_handler();
    action.sa_flags = libc::SA_RESTART;
    action
}

fn default_action() -> libc::sigaction {
    // SAFETY: I-ACTION: all zeros are a valid action: the default one, without flags and with an empty mask.
    unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == our_handler()
}

fn our_handler() -> libc::sighandler_t {
    on_signal as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// How often SIGHUP came.
static HANGUPS: AtomicU32 = AtomicU32::new(0);

/// Counts SIGHUP from now on, in the place of whatever was done before.
///
/// # Errors
///
/// What the system says of the handler.
pub(crate) fn count_hangups() -> io::Result<()> {
    let counts = libc::sigaction { sa_sigaction: on_hangup as extern "C" fn(libc::c_int) as _, ..our_action() };
    action(libc::SIGHUP, Some(&counts)).map(drop)
}

/// How often it came since it is counted, and wrapping.
pub(crate) fn hangups() -> u32 {
    HANGUPS.load(Ordering::Relaxed)
}

extern "C" fn on_hangup(_signal: libc::c_int) {
    HANGUPS.fetch_add(1, Ordering::Relaxed);
}

const _: () = assert!(libc::SIG_DFL == 0);

#[cfg(test)]
mod tests;
