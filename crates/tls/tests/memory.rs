//! What a session holds of the heap, counted for each provider, version and kind of handshake: never more than is
//! charged for it.
//!
//! **I-SYSTEM**: the allocator hands every call on to the system's with the arguments it was given, and besides only
//! counts; what the C library tells of its heap it tells by value, and limits are read and written where they live.

#![allow(clippy::print_stdout, reason = "figures for the documentation")]

#[cfg(feature = "aws-lc")]
#[path = "memory/parked.rs"]
mod parked;
mod support;

use core::alloc::Layout;
use core::sync::atomic::{AtomicIsize, Ordering};
use std::alloc::{GlobalAlloc, System};
use std::sync::{Mutex, MutexGuard, PoisonError};

use plimsoll_runtime::net::{Stream, TcpListener, TcpStream};
use plimsoll_runtime::{Error, MemoryLimit, Result, Runtime, spawn};
use plimsoll_tls::{Acceptor, Connector, HANDSHAKE_BYTES_MAX, PARKED_BYTES_MAX, Provider, Version, info};
use support::{pair, server};

struct Counting;

static HELD: AtomicIsize = AtomicIsize::new(0);
static PEAK: AtomicIsize = AtomicIsize::new(0);

// SAFETY: I-SYSTEM: every call is the system allocator's, with what it was given.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size() as isize, Ordering::Relaxed) + layout.size() as isize;
        PEAK.fetch_max(held, Ordering::Relaxed);
        // SAFETY: I-SYSTEM: the caller's layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: I-SYSTEM: the caller's pointer and layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Held by each test: what is counted is the process's.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of the C heap, which AWS-LC takes its own from.
fn held() -> isize {
    // SAFETY: I-SYSTEM.
    let known = unsafe { libc::mallinfo2() };
    (known.uordblks + known.hblkhd) as isize
}

/// Sessions that are counted together, both ends of each.
const SESSIONS: isize = 32;

fn settings() -> Vec<(Provider, Version, bool)> {
    let mut settings = Vec::new();
    for provider in [
        #[cfg(feature = "aws-lc")]
        Provider::AwsLc,
        #[cfg(feature = "ring")]
        Provider::Ring,
    ] {
        for version in [Version::Tls12, Version::Tls13] {
            settings.extend([(provider, version, false), (provider, version, true)]);
        }
    }
    settings
}

#[test]
fn a_session_holds_no_more_than_is_charged_for_it() {
    let _alone = alone();
    let (known, user) = (pair(&["localhost"]), pair(&["user"]));
    for (provider, version, is_mutual) in settings() {
        let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).build().expect("it starts");
        let measured: Result<()> = runtime.block_on(async {
            let config = server(&known).provider(provider).max_version(version);
            let config = if is_mutual { config.client_roots_pem(&user.certificate) } else { config };
            let acceptor = Acceptor::new(config.build().expect("good settings"));
            let client = Connector::builder().provider(provider).roots_pem(&known.certificate);
            let client = client.certificate_pem(&user.certificate, &user.key).build().expect("good settings");
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let connect = async || {
                let stream = TcpStream::connect(listener.local_addr()).await?;
                let (acceptor, near) = (acceptor.clone(), listener.accept().await?.0);
                let accepting = spawn(async move { acceptor.accept(near).await })?;
                let far: Stream = client.connect("localhost", stream).await?;
                Ok::<_, Error>((accepting.await.expect("no panic")?, far))
            };
            // What is made once: tables of rustls, the task's cell, the tickets that the client keeps.
            let mut warm = Vec::new();
            for _ in 0..12 {
                let (mut near, mut far) = connect().await?;
                near.send_static(b"a ticket came before this").await?;
                assert!(far.recv().await?.is_some());
                warm.push((near, far));
            }
            let agreed = info(&warm[0].0).expect("it is TLS");
            drop(warm);
            let mut open = Vec::with_capacity(SESSIONS as usize);
            let before = held();
            let mut peak = 0;
            for _ in 0..SESSIONS {
                let at = HELD.load(Ordering::Relaxed);
                PEAK.store(at, Ordering::Relaxed);
                let (mut near, mut far) = connect().await?;
                near.send_static(b"hello").await?;
                assert!(far.recv().await?.is_some());
                far.send_static(b"hello").await?;
                assert!(near.recv().await?.is_some());
                peak = peak.max(PEAK.load(Ordering::Relaxed) - at);
                open.push((near, far));
            }
            let both = (held() - before) / SESSIONS;
            println!(
                "{provider:?} {version:?} {:?} mutual: {is_mutual}: {both} bytes for both ends, peak {peak}",
                agreed.suite
            );
            let chain = agreed.peer_certificates.iter().map(|one| one.len() as isize + 24).sum::<isize>();
            let server_chain = 700;
            assert!(both <= 2 * PARKED_BYTES_MAX as isize + chain + server_chain, "{both}");
            assert!(peak <= 2 * HANDSHAKE_BYTES_MAX as isize, "{peak}");
            Ok(())
        });
        measured.expect("no call fails");
    }
}

/// Allows this process so many files, or as many as it may have; how many that is.
#[cfg(feature = "aws-lc")]
fn allow_files(count: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: I-SYSTEM.
    let told = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(told, 0, "the system tells its limits");
    limit.rlim_cur = limit.rlim_max.min(count);
    // SAFETY: I-SYSTEM.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0, "up to the hard limit any is allowed");
    limit.rlim_cur
}
