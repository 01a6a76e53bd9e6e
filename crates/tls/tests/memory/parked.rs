//! What a parked connection of a table costs, with sessions as they are and with compact ones.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::sync::Arc;

use plimsoll_runtime::net::transport::Handshake;
use plimsoll_runtime::net::{Event, Table, TableConfig, TcpListener};
use plimsoll_runtime::{DriverChoice, MemoryLimit, Result, Runtime, SendBytes, pool};
use plimsoll_tls::PARKED_BYTES_MAX;
use rustls::CipherSuite as Suite;

use super::support::{pair, server};
use super::{allow_files, alone, held};

/// Connections that are counted together, where as many files are allowed: so many that pages that are begun do not
/// matter.
const CONNECTIONS: usize = 1_920;
/// Fewer are a multiple of this: the pages of what each has are full.
const FEW_CONNECTIONS: usize = 960;
/// Files beside the connections.
const OTHER_FILES: u64 = 256;

/// As many connections as there may be: they are open twice over, both ends here.
fn connections() -> usize {
    let allowed = allow_files(4 * CONNECTIONS as u64 + OTHER_FILES);
    let fit = (allowed.saturating_sub(OTHER_FILES) / 4) as usize;
    let count = fit / FEW_CONNECTIONS * FEW_CONNECTIONS;
    assert!(count > 0, "of {allowed} files too few are left for {FEW_CONNECTIONS} connections: raise `ulimit -Hn`");
    if count < CONNECTIONS {
        println!("{count} connections in place of {CONNECTIONS}: no more than {allowed} files are allowed");
    }
    count
}

/// As large as the server's of a connection, with room for what carries it.
#[derive(Clone, Copy)]
enum State {
    #[allow(dead_code, reason = "only its size matters")]
    Parked { counted: [u32; 2], other: [u16; 2] },
    #[allow(dead_code, reason = "as a connection that is worked on")]
    Active(&'static u64),
}

impl Default for State {
    fn default() -> Self {
        Self::Parked { counted: [0; 2], other: [0; 2] }
    }
}

/// Answers whatever comes, until `count` connections are parked after an answer.
/// What it was told of comes back.
async fn answer(table: &mut Table<State>, count: usize) -> Result<Vec<&'static str>> {
    let (mut parked, mut told) = (0, Vec::with_capacity(16));
    while parked < count {
        table.ready().await;
        while let Some(event) = table.next() {
            if told.len() < told.capacity() {
                told.push(match event {
                    Event::Accepted(_) => "accepted",
                    Event::Readable(_) => "readable",
                    Event::Received(..) => "received",
                    Event::Sent(..) => "sent",
                    _ => "other",
                });
            }
            match event {
                Event::Accepted(key) => table.await_readable(key)?,
                Event::Readable(key) => {
                    if table.handshake(key) == Handshake::Awaited {
                        table.begin_handshake(key)?;
                    }
                    match table.step_handshake(key).expect("a good client") {
                        Handshake::Over => table.receive(key)?,
                        Handshake::Awaited | Handshake::Begun => table.await_readable(key)?,
                    }
                }
                Event::Received(key, _) => table.send(key, SendBytes::Static(b"hello")).map_err(|(over, _)| over)?,
                Event::Sent(key, _) => {
                    table.receive(key)?;
                    parked += 1;
                }
                event => panic!("{event:?}"),
            }
        }
    }
    Ok(told)
}

/// Clients of rustls, which forget all but their sockets once they were answered.
fn ask(address: core::net::SocketAddr, config: &Arc<rustls::ClientConfig>) -> std::net::TcpStream {
    let mut socket = std::net::TcpStream::connect(address).expect("it listens");
    let name = "localhost".try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::clone(config), name).expect("good settings");
    let mut stream = rustls::Stream::new(&mut client, &mut socket);
    stream.write_all(b"hello").expect("it takes it");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("it answers");
    socket
}

/// Bytes that are charged for a parked connection, and of the C heap.
fn parked(driver: DriverChoice, is_compact: bool, suite: Suite, connections: usize) -> Option<(f64, f64)> {
    let known = pair(&["localhost"]);
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(driver).build().ok()?;
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|one| one.suite() == suite);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(known.der.clone()).expect("a root");
    let client = rustls::ClientConfig::builder_with_provider(provider.into());
    let client = client.with_protocol_versions(&[&rustls::version::TLS13]).expect("good settings");
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let measured: Result<_> = runtime.block_on(async {
        let config = server(&known).compact(is_compact).build().expect("good settings");
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut table =
            Table::<State>::new(listener, TableConfig::default())?.carried_by(Some(config.make_transport()));
        let mut figures = Vec::new();
        let mut sockets = Vec::with_capacity(2 * connections);
        // What is made once comes with the first ones.
        for _ in 0..2 {
            let client = Arc::clone(&client);
            let asking =
                std::thread::spawn(move || (0..connections).map(|_| ask(address, &client)).collect::<Vec<_>>());
            answer(&mut table, connections).await?;
            sockets.extend(asking.join().expect("no panic"));
            pool().release_free(u64::MAX);
            figures.push((pool().budget().charged() as f64, held() as f64));
        }
        let each = |figure: fn(&(f64, f64)) -> f64| (figure(&figures[1]) - figure(&figures[0])) / connections as f64;
        Ok((each(|figures| figures.0), each(|figures| figures.1)))
    });
    Some(measured.expect("no call fails"))
}

#[test]
fn a_parked_connection_is_hundreds_of_bytes_when_its_session_is_compact() {
    let _alone = alone();
    assert_eq!(Table::<State>::ENTRY_BYTES, 60, "as http's");
    let connections = connections();
    for (driver, most) in [(DriverChoice::Uring, 384.0), (DriverChoice::Mio, 400.0)] {
        for suite in
            [Suite::TLS13_AES_128_GCM_SHA256, Suite::TLS13_AES_256_GCM_SHA384, Suite::TLS13_CHACHA20_POLY1305_SHA256]
        {
            // All suites of rustls hold the same, so one of them is enough to compare with.
            for is_compact in [true, false].into_iter().take(1 + usize::from(suite == Suite::TLS13_AES_128_GCM_SHA256))
            {
                let Some((charged, heap)) = parked(driver, is_compact, suite, connections) else {
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

/// A client of rustls that asks for other keys and says nothing else.
#[test]
fn an_idle_connection_answers_a_key_update_by_itself() {
    let _alone = alone();
    let known = pair(&["localhost"]);
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build().expect("it starts");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(known.der.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let client = Arc::new(client.expect("good settings").with_root_certificates(roots).with_no_client_auth());
    let told: Result<_> = runtime.block_on(async {
        let config = server(&known).compact(true).build().expect("good settings");
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut table =
            Table::<State>::new(listener, TableConfig::default())?.carried_by(Some(config.make_transport()));
        let asking = std::thread::spawn(move || {
            let mut socket = std::net::TcpStream::connect(address).expect("it listens");
            let name = "localhost".try_into().expect("a name");
            let mut client = rustls::ClientConnection::new(client, name).expect("good settings");
            rustls::Stream::new(&mut client, &mut socket).write_all(b"hello").expect("it takes it");
            rustls::Stream::new(&mut client, &mut socket).read_exact(&mut [0; 5]).expect("it answers");
            client.refresh_traffic_keys().expect("of TLS 1.3");
            while client.wants_write() {
                client.write_tls(&mut socket).expect("it takes it");
            }
            // What comes then is the answer: a record with five bytes in it, and no plaintext.
            let read = client.read_tls(&mut socket).expect("it answers");
            let state = client.process_new_packets().expect("a good answer");
            assert_eq!((read, state.plaintext_bytes_to_read()), (27, 0));
            rustls::Stream::new(&mut client, &mut socket).write_all(b"again").expect("it takes it");
            rustls::Stream::new(&mut client, &mut socket).read_exact(&mut [0; 5]).expect("it answers");
        });
        // Two answers, and no other event of the owner's.
        let mut events = answer(&mut table, 2).await?;
        // Steps of the handshake.
        events.retain(|event| *event != "readable");
        events.sort_unstable();
        asking.join().expect("no panic");
        Ok(events)
    });
    assert_eq!(told.expect("no call fails"), ["accepted", "received", "received", "sent", "sent"]);
}
