//! What a session holds of the heap, counted for each provider, version and kind of handshake: never more than is
//! charged for it.
//!
//! **I-SYSTEM**: the allocator hands every call on to the system's with the arguments it was given, and besides only
//! counts; what the C library tells of its heap it tells by value.

#![allow(clippy::print_stdout, reason = "figures for the documentation")]

mod support;

use core::alloc::Layout;
use core::sync::atomic::{AtomicIsize, Ordering};
use std::alloc::{GlobalAlloc, System};

use plimsoll_runtime::net::{Event, Stream, Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{DriverChoice, Error, MemoryLimit, Result, Runtime, SendBytes, pool, spawn};
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

/// Connections that are counted together: so many that pages that are begun do not matter.
#[cfg(feature = "aws-lc")]
const CONNECTIONS: usize = 1_920;

/// Files that this process may open: both ends of the connections.
#[cfg(feature = "aws-lc")]
fn allow_files() {
    let wanted = libc::rlimit { rlim_cur: 4 * CONNECTIONS as u64 + 256, rlim_max: 4 * CONNECTIONS as u64 + 256 };
    // SAFETY: I-SYSTEM.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) };
    assert_eq!(set, 0, "{CONNECTIONS} connections are allowed here");
}

/// As large as the server's of a connection, with room for what carries it.
#[cfg(feature = "aws-lc")]
#[derive(Clone, Copy)]
enum State {
    #[allow(dead_code, reason = "only its size matters")]
    Parked { counted: [u32; 2], other: [u16; 2] },
    #[allow(dead_code, reason = "as a connection that is worked on")]
    Active(&'static u64),
}

#[cfg(feature = "aws-lc")]
impl Default for State {
    fn default() -> Self {
        Self::Parked { counted: [0; 2], other: [0; 2] }
    }
}

/// Answers whatever comes, until `count` connections are parked after an answer.
#[cfg(feature = "aws-lc")]
async fn answer(table: &mut Table<State>, count: usize) -> Result<()> {
    let mut parked = 0;
    while parked < count {
        table.ready().await;
        while let Some(event) = table.next() {
            match event {
                Event::Accepted(key) | Event::Secured(key) => table.receive(key)?,
                Event::Received(key, _) => table.send(key, SendBytes::Static(b"hello")).map_err(|(over, _)| over)?,
                Event::Sent(key, _) => {
                    table.receive(key)?;
                    parked += 1;
                }
                event => panic!("{event:?}"),
            }
        }
    }
    Ok(())
}

/// Clients of rustls, which forget all but their sockets once they were answered.
#[cfg(feature = "aws-lc")]
fn ask(address: core::net::SocketAddr, config: &std::sync::Arc<rustls::ClientConfig>) -> std::net::TcpStream {
    use std::io::{Read, Write};
    let mut socket = std::net::TcpStream::connect(address).expect("it listens");
    let name = "localhost".try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(std::sync::Arc::clone(config), name).expect("good settings");
    let mut stream = rustls::Stream::new(&mut client, &mut socket);
    stream.write_all(b"hello").expect("it takes it");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("it answers");
    socket
}

/// Bytes that are charged for a parked connection, and of the C heap.
#[cfg(feature = "aws-lc")]
fn parked(driver: DriverChoice, is_compact: bool, suite: rustls::CipherSuite) -> Option<(f64, f64)> {
    let known = pair(&["localhost"]);
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(driver).build().ok()?;
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|one| one.suite() == suite);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(known.der.clone()).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider.into());
    let client = client.with_protocol_versions(&[&rustls::version::TLS13]).expect("good settings");
    let client = std::sync::Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let measured: Result<_> = runtime.block_on(async {
        let config = server(&known).compact(is_compact).build().expect("good settings");
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut table =
            Table::<State>::new(listener, TableConfig::default())?.carried_by(Some(config.make_transport()));
        let mut figures = Vec::new();
        let mut sockets = Vec::with_capacity(2 * CONNECTIONS);
        // What is made once comes with the first ones.
        for _ in 0..2 {
            let client = std::sync::Arc::clone(&client);
            let asking =
                std::thread::spawn(move || (0..CONNECTIONS).map(|_| ask(address, &client)).collect::<Vec<_>>());
            answer(&mut table, CONNECTIONS).await?;
            sockets.extend(asking.join().expect("no panic"));
            pool().release_free(u64::MAX);
            figures.push((pool().budget().charged() as f64, held() as f64));
        }
        let each = |figure: fn(&(f64, f64)) -> f64| (figure(&figures[1]) - figure(&figures[0])) / CONNECTIONS as f64;
        Ok((each(|figures| figures.0), each(|figures| figures.1)))
    });
    Some(measured.expect("no call fails"))
}

#[cfg(feature = "aws-lc")]
#[test]
fn a_parked_connection_is_hundreds_of_bytes_when_its_session_is_compact() {
    use rustls::CipherSuite as Suite;
    assert_eq!(Table::<State>::ENTRY_BYTES, 60, "as http's");
    allow_files();
    for (driver, most) in [(DriverChoice::Uring, 384.0), (DriverChoice::Mio, 400.0)] {
        for suite in
            [Suite::TLS13_AES_128_GCM_SHA256, Suite::TLS13_AES_256_GCM_SHA384, Suite::TLS13_CHACHA20_POLY1305_SHA256]
        {
            for is_compact in [true, false] {
                let Some((charged, heap)) = parked(driver, is_compact, suite) else {
                    println!("{driver:?} does not work here");
                    continue;
                };
                println!(
                    "{driver:?} {suite:?} compact: {is_compact}: {charged:.0} bytes charged, {heap:.0} of the heap"
                );
                if is_compact {
                    assert!(charged + heap <= most, "{charged} and {heap}");
                    assert!(heap <= 8.0, "no session is on the heap: {heap}");
                } else {
                    assert!(heap <= PARKED_BYTES_MAX as f64 && charged >= heap, "{charged} and {heap}");
                }
            }
        }
    }
}
