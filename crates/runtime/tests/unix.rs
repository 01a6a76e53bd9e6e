//! Unix sockets, and listeners that share a queue, on io_uring (where it works), mio and in the simulation.

#![forbid(unsafe_code)]

mod support;

use core::cell::Cell;
use core::time::Duration;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::{
    Address, Event, Listener, Stream, Table, TableConfig, TcpListener, TcpStream, UnixAddress, UnixListener, UnixStream,
};
use plimsoll_runtime::{DriverChoice, Error, MemoryLimit, Result, Runtime, Spawner, io, sleep, spawn, worker_index};
use support::{fresh_unix_address, on_each, until};

#[test]
fn bytes_go_both_ways_and_each_end_knows_its_address() {
    on_each("both ways", async || {
        let at = fresh_unix_address();
        let listener = UnixListener::bind(at)?;
        assert_eq!(listener.local_addr(), at);
        let mut client = UnixStream::connect(at).await?;
        let (mut server, peer) = listener.accept().await?;
        assert_eq!(peer, UnixAddress::UNNAMED);
        assert_eq!((client.peer_addr()?, server.local_addr()?), (at, at));
        client.send_static(b"ping").await?;
        assert_eq!(&server.recv().await?.expect("four bytes")[..], b"ping");
        let large = vec![7; 200_000];
        let sent = spawn(async move { server.send_bytes(&large).await })?;
        let mut count = 0;
        while let Some(bytes) = client.recv().await? {
            assert!(bytes.iter().all(|&byte| byte == 7));
            count += bytes.len();
        }
        assert_eq!(count, 200_000);
        sent.await.expect("no panic")?;
        Ok(())
    });
}

#[test]
fn a_stream_of_either_family_is_told_apart() {
    on_each("either", async || {
        for address in [Address::Unix(fresh_unix_address()), "127.0.0.1:0".parse().expect("an address")] {
            let listener = Listener::bind(address)?;
            let client = Stream::connect(listener.local_addr()).await?;
            let (server, _peer) = listener.accept().await?;
            assert_eq!(client.peer_addr()?, listener.local_addr());
            match (address, server.into_tcp()) {
                (Address::Unix(_), Err(stream)) => assert_eq!(stream.local_addr()?, address),
                (Address::Ip(_), Ok(stream)) => stream.set_nodelay(true)?,
                (address, is_tcp) => panic!("{address}: {is_tcp:?}"),
            }
        }
        Ok(())
    });
}

#[test]
fn a_path_is_taken_over_when_nobody_listens_there() {
    let path = std::env::temp_dir().join(format!("plimsoll-unix-{}.sock", std::process::id()));
    for (_, runtime) in support::real_runtimes("a path", MemoryLimit::mib(64)) {
        runtime
            .block_on(async {
                let first = UnixListener::bind(path.as_path())?;
                let told = UnixListener::bind(path.as_path()).expect_err("it listens").to_string();
                assert!(told.contains("another server listens there"), "{told}");
                drop(first);
                // Its close is on its way.
                let second = loop {
                    match UnixListener::bind(path.as_path()) {
                        Ok(listener) => break listener,
                        Err(_) => sleep(Duration::from_millis(1)).await,
                    }
                };
                let mut client = StdStream::connect(&path).expect("it listens");
                let (mut server, _) = second.accept().await?;
                client.write_all(b"hello").expect("a socket");
                assert_eq!(&server.recv().await?.expect("five bytes")[..], b"hello");
                server.send_static(b"bye").await?;
                drop(server);
                // The close is done in a turn of the worker.
                let reading = std::thread::spawn(move || {
                    let mut told = String::new();
                    client.read_to_string(&mut told).map(|_| told)
                });
                until("the client has read", || reading.is_finished()).await;
                assert_eq!(reading.join().expect("no panic").expect("text"), "bye");
                Ok::<(), Error>(())
            })
            .expect("a listener");
        assert!(runtime.shutdown().is_clean());
    }
    std::fs::remove_file(&path).expect("it stays");
}

#[test]
fn text_that_is_no_address_is_refused_with_the_form_it_should_have() {
    on_each("text", async || {
        let told = |refused: Error| refused.to_string();
        assert!(told(UnixListener::bind("").expect_err("empty")).contains("path"));
        assert!(told(Listener::bind("localhost:1").expect_err("a name")).contains("unix:PATH"));
        assert!(told(TcpListener::bind("unix:/x").expect_err("not TCP")).contains("IP:PORT"));
        Ok(())
    });
}

#[test]
fn a_table_serves_connections_of_a_unix_socket() {
    on_each("a table", async || {
        let at = fresh_unix_address();
        let mut table: Table<&str> = Table::new(UnixListener::bind(at)?, TableConfig::default())?;
        let mut client = UnixStream::connect(at).await?;
        client.send_static(b"hello").await?;
        let key = loop {
            table.ready().await;
            match table.next() {
                Some(Event::Accepted(key)) => break key,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        };
        assert_eq!(table.peer_address(key), Ok(Address::Unix(UnixAddress::UNNAMED)));
        let (_, mut stream) = table.release(key, None)?;
        assert_eq!(&stream.recv().await?.expect("five bytes")[..], b"hello");
        Ok(())
    });
}

#[test]
fn a_relay_joins_the_families() {
    on_each("a relay", async || {
        let (front, back) = (TcpListener::bind("127.0.0.1:0")?, UnixListener::bind(fresh_unix_address())?);
        let mut client = TcpStream::connect(front.local_addr()).await?;
        let (left, _) = front.accept().await?;
        let right = UnixStream::connect(back.local_addr()).await?;
        let (mut server, _) = back.accept().await?;
        let relay = spawn(async move { io::relay(left, right).await })?;
        client.send_static(b"ping").await?;
        assert_eq!(&server.recv().await?.expect("four bytes")[..], b"ping");
        drop((client, server));
        assert_eq!(relay.await.expect("no panic")?.first_bytes, 4);
        Ok(())
    });
}

/// Serves on every worker until so many clients were answered; how many each worker has served.
async fn served_by_each(clients: usize) -> Result<Vec<usize>> {
    let counts: Arc<Vec<AtomicUsize>> = Arc::new((0..3).map(|_| AtomicUsize::new(0)).collect());
    let seen = Arc::clone(&counts);
    let at = fresh_unix_address();
    let listener = UnixListener::bind(at)?;
    let serving = spawn(listener.serve(move |mut stream| {
        let counts = Arc::clone(&counts);
        async move {
            counts[worker_index()].fetch_add(1, Ordering::Relaxed);
            // It is busy, so that others accept.
            sleep(Duration::from_millis(2)).await;
            stream.send_static(b"served").await
        }
    }))?;
    let left = Rc::new(Cell::new(clients));
    for _ in 0..clients {
        let left = Rc::clone(&left);
        let _detached = spawn(async move {
            let mut stream = UnixStream::connect(at).await.expect("it listens");
            assert_eq!(&stream.recv().await.expect("an answer").expect("bytes")[..], b"served");
            left.set(left.get() - 1);
        })?;
    }
    until("all were served", || left.get() == 0).await;
    Spawner::current().stop();
    serving.await.expect("no panic")?;
    Ok(seen.iter().map(|count| count.load(Ordering::Relaxed)).collect())
}

#[test]
fn every_worker_accepts_from_one_queue() {
    for driver in [DriverChoice::Uring, DriverChoice::Mio] {
        let built = Runtime::builder().workers(3).memory(MemoryLimit::mib(128)).driver(driver).build();
        let Ok(runtime) = built else { continue };
        let served = runtime.block_on(served_by_each(600)).expect("every worker has a listener");
        assert_eq!(served.iter().sum::<usize>(), 600, "{served:?}");
        assert!(runtime.shutdown().is_clean());
    }
    for seed in 0..10 {
        let world = World::new(SimConfig::new(seed));
        let simulation = Runtime::builder().workers(3).simulate(&world).expect("a simulation starts");
        let served = simulation.block_on(served_by_each(100)).expect("every worker has a listener");
        assert_eq!(served.iter().sum::<usize>(), 100, "{served:?}");
        assert!(served.iter().all(|&count| count > 0), "{served:?}");
        assert!(simulation.shutdown().is_clean());
    }
}

/// A socket of another process, or of what has started this one.
#[test]
fn a_listener_that_was_handed_over_serves_on_every_worker() {
    for driver in [DriverChoice::Uring, DriverChoice::Mio] {
        let Ok(runtime) = Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).driver(driver).build() else {
            continue;
        };
        runtime
            .block_on(async {
                let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
                let at = socket.local_addr().expect("bound");
                let kept = socket.try_clone().expect("a descriptor");
                assert!(UnixListener::join(OwnedFd::from(kept.try_clone().expect("another")).into()).is_err());
                let listener = TcpListener::join(OwnedFd::from(socket).into())?;
                let serving = spawn(listener.serve(|mut stream| async move { stream.send_static(b"served").await }))?;
                for _ in 0..20 {
                    let mut stream = TcpStream::connect(at).await?;
                    assert_eq!(&stream.recv().await?.expect("bytes")[..], b"served");
                }
                Spawner::current().stop();
                serving.await.expect("no panic")?;
                // It goes on listening for whom it belongs to.
                drop(std::net::TcpStream::connect(at).expect("its queue is there"));
                kept.accept().expect("it is in the queue");
                Ok::<(), Error>(())
            })
            .expect("it listens");
        assert!(runtime.shutdown().is_clean());
    }
}
