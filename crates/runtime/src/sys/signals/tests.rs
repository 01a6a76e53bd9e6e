//! Whose handler is installed when, and to whom a signal is news.
//!
//! Handlers belong to the process: these tests take turns, and no other test of this program has the signals. Signals
//! are raised only while something is installed that takes them.
//!
//! **I-ACTION** of the module, for handlers of the tests: functions that live as long as the program.

use std::sync::atomic::AtomicUsize;

use plimsoll_pool::{Budget, MemoryLimit, Pool, PoolConfig};
use plimsoll_reactor::{Blocking, BlockingConfig, Driver, DriverChoice, DriverConfig, select};

use super::*;

static SERIAL: Mutex<()> = Mutex::new(());

/// Starts a test: nobody else has the signals, and what is installed is `handler`.
fn begin(handler: libc::sighandler_t) -> MutexGuard<'static, ()> {
    let turn = SERIAL.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(PLACES.iter().all(|place| place.eventfd.load(Ordering::SeqCst) == NOBODY));
    assert!(lock().iter().all(Vec::is_empty));
    SIGNALS.into_iter().for_each(|signal| install(signal, handler));
    turn
}

fn install(signal: libc::c_int, handler: libc::sighandler_t) {
    let mut new = default_action();
    new.sa_sigaction = handler;
    action(signal, Some(&new)).expect("a valid action");
}

fn installed(signal: libc::c_int) -> libc::sighandler_t {
    action(signal, None).expect("a valid signal").sa_sigaction
}

fn both_are(handler: libc::sighandler_t) -> bool {
    SIGNALS.into_iter().all(|signal| installed(signal) == handler)
}

/// A bell with an eventfd.
fn bell() -> Doorbell {
    let budget = Budget::new(MemoryLimit::mib(8));
    let pool = Pool::new(&budget, PoolConfig::default()).expect("address space is plenty");
    let blocking = Blocking::new(BlockingConfig::default(), &budget);
    let selected = select(DriverChoice::Mio).expect("every Linux has epoll");
    let driver = Driver::new(&selected, &DriverConfig::default(), &pool, &blocking).expect("there is room");
    driver.doorbell().clone()
}

fn take() -> Signals {
    Signals::take(&bell()).expect("handlers can be installed").expect("there is a place")
}

fn raise(signal: libc::c_int) {
    // SAFETY: I-ACTION: a handler is installed, and it has returned when this does.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

static OTHERS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn of_others(_signal: libc::c_int) {
    OTHERS.fetch_add(1, Ordering::SeqCst);
}

/// As one that was installed over ours, and calls what was there before.
extern "C" fn chained(signal: libc::c_int) {
    OTHERS.fetch_add(1, Ordering::SeqCst);
    on_signal(signal);
}

fn handler(handler: extern "C" fn(libc::c_int)) -> libc::sighandler_t {
    handler as libc::sighandler_t
}

#[test]
fn what_was_there_before_is_put_back() {
    for before in [libc::SIG_DFL, libc::SIG_IGN, handler(of_others)] {
        let _turn = begin(before);
        for _ in 0..3 {
            let signals = take();
            assert!(both_are(our_handler()) && !signals.place().is_signalled());
            raise(libc::SIGTERM);
            assert!(signals.place().is_signalled());
            drop(signals);
            assert!(both_are(before));
        }
    }
}

#[test]
fn each_signal_has_a_layer_of_its_own() {
    let _turn = begin(libc::SIG_DFL);
    install(libc::SIGINT, libc::SIG_IGN);
    let signals = take();
    drop(signals);
    assert_eq!((installed(libc::SIGINT), installed(libc::SIGTERM)), (libc::SIG_IGN, libc::SIG_DFL));
}

#[test]
fn flags_and_mask_come_back() {
    let _turn = begin(libc::SIG_DFL);
    let mut before = default_action();
    before.sa_sigaction = handler(of_others);
    before.sa_flags = libc::SA_RESTART | libc::SA_NODEFER;
    // SAFETY: I-ACTION.
    unsafe { libc::sigaddset(&raw mut before.sa_mask, libc::SIGUSR1) };
    action(libc::SIGTERM, Some(&before)).expect("a valid action");
    drop(take());
    let after = action(libc::SIGTERM, None).expect("a valid signal");
    assert_eq!(after.sa_flags & before.sa_flags, before.sa_flags);
    // SAFETY: I-ACTION.
    let blocked =
        [libc::SIGUSR1, libc::SIGUSR2].map(|signal| unsafe { libc::sigismember(&raw const after.sa_mask, signal) });
    assert_eq!((after.sa_sigaction, blocked), (handler(of_others), [1, 0]));
}

#[test]
fn two_at_once_end_in_any_order() {
    for first_ends_first in [true, false] {
        let _turn = begin(handler(of_others));
        let (first, second) = (take(), take());
        raise(libc::SIGINT);
        assert!(first.place().is_signalled() && second.place().is_signalled());
        let (ends, stays) = if first_ends_first { (first, second) } else { (second, first) };
        drop(ends);
        assert!(both_are(our_handler()), "one runtime is left");
        drop(stays);
        assert!(both_are(handler(of_others)));
    }
}

#[test]
fn a_handler_that_was_installed_later_stays() {
    let _turn = begin(libc::SIG_DFL);
    let signals = take();
    install(libc::SIGTERM, handler(chained));
    OTHERS.store(0, Ordering::SeqCst);
    raise(libc::SIGTERM);
    assert!(signals.place().is_signalled() && OTHERS.load(Ordering::SeqCst) == 1);
    drop(signals);
    assert_eq!((installed(libc::SIGINT), installed(libc::SIGTERM)), (libc::SIG_DFL, handler(chained)));
    // Nobody is there to be told, however often.
    raise(libc::SIGTERM);
    raise(libc::SIGTERM);
    assert_eq!(OTHERS.load(Ordering::SeqCst), 3);
}

#[test]
fn a_handler_that_came_between_two_is_put_back() {
    for first_ends_first in [true, false] {
        let _turn = begin(libc::SIG_DFL);
        let first = take();
        SIGNALS.into_iter().for_each(|signal| install(signal, handler(chained)));
        let second = take();
        assert!(both_are(our_handler()));
        let ends = if first_ends_first { (first, second) } else { (second, first) };
        drop(ends.0);
        assert!(both_are(if first_ends_first { our_handler() } else { handler(chained) }));
        drop(ends.1);
        assert!(both_are(handler(chained)));
    }
}

#[test]
fn ours_put_back_by_somebody_else_is_not_taken_for_what_was_there() {
    let _turn = begin(our_handler());
    let signals = take();
    raise(libc::SIGTERM);
    assert!(signals.place().is_signalled());
    drop(signals);
    assert!(both_are(libc::SIG_DFL));
}

#[test]
fn a_signal_is_the_first_for_whoever_was_told_of_none() {
    let _turn = begin(handler(of_others));
    assert_eq!(tell_runtimes(), Told::Nobody);
    // As one that is leaked, or takes long to stop.
    let earlier = take();
    assert_eq!(tell_runtimes(), Told::First);
    let later = take();
    assert!(earlier.place().is_signalled() && !later.place().is_signalled());
    assert_eq!(tell_runtimes(), Told::First);
    assert_eq!(tell_runtimes(), Told::Again);
    drop(later);
    let again = take();
    assert!(!again.place().is_signalled(), "what its place was told before is forgotten");
    assert_eq!(tell_runtimes(), Told::First);
    drop((earlier, again));
    assert_eq!(tell_runtimes(), Told::Nobody);
}

#[test]
fn places_are_counted_and_come_back() {
    let _turn = begin(libc::SIG_DFL);
    for _ in 0..2 {
        let all: Vec<Signals> = (0..SIGNAL_RUNTIMES_MAX).map(|_| take()).collect();
        assert!(matches!(Signals::take(&bell()), Ok(None)), "one too many");
        assert_eq!(tell_runtimes(), Told::First);
        assert!(all.iter().all(|signals| signals.place().is_signalled()));
        drop(all);
        assert!(both_are(libc::SIG_DFL));
    }
}

#[test]
fn telling_leaves_errno_as_it_was() {
    let _turn = begin(libc::SIG_DFL);
    let signals = take();
    /// No descriptor has this number.
    const NOWHERE: i32 = 1 << 29;
    let eventfd = PLACES[signals.index].eventfd.swap(NOWHERE, Ordering::SeqCst);
    // SAFETY: I-SIGNAL: this thread's own.
    unsafe { *libc::__errno_location() = libc::EINTR };
    assert_eq!(tell_runtimes(), Told::First);
    // SAFETY: as above, I-SIGNAL.
    assert_eq!(unsafe { *libc::__errno_location() }, libc::EINTR, "and not that of the write that failed");
    PLACES[signals.index].eventfd.store(eventfd, Ordering::SeqCst);
}

/// Whatever it meets, a signal ends nothing and the next runtime knows nothing of it.
#[test]
fn a_signal_that_comes_while_runtimes_come_and_go() {
    let _turn = begin(handler(of_others));
    OTHERS.store(0, Ordering::SeqCst);
    let meet = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                meet.wait();
                raise(SIGNALS[round % 2]);
                meet.wait();
            }
        });
        for round in 0..ROUNDS {
            let bells = [bell(), bell()];
            let take = |at: usize| Signals::take(&bells[at]).expect("a valid action").expect("there is a place");
            let signals = (round % 3 > 0).then(|| take(0));
            meet.wait();
            drop(signals);
            drop(take(1));
            // One signal comes between two rounds, so nobody is told of a second.
            meet.wait();
        }
    });
    assert!(both_are(handler(of_others)));
    assert_eq!(tell_runtimes(), Told::Nobody);
}

/// Of the race above.
const ROUNDS: usize = 500;
