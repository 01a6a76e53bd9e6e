//! Relays, on every driver: what goes in on one side comes out on the other, and nothing is left.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use core::time::Duration;

use plimsoll_runtime::io::{self, Relay, RelayEnd, Relayed};
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{JoinHandle, Kind, Result, budget, now, pool, sleep, spawn, timeout};
use support::{in_simulation, on_each, until, wait_max};

/// A client and a server with a relay between them: `(client, left, right, server)`.
async fn chain() -> Result<(TcpStream, TcpStream, TcpStream, TcpStream)> {
    let front = TcpListener::bind("127.0.0.1:0")?;
    let back = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(front.local_addr()).await?;
    let (left, _) = front.accept().await?;
    let right = TcpStream::connect(back.local_addr()).await?;
    let (server, _) = back.accept().await?;
    Ok((client, left, right, server))
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + seed) as u8).collect()
}

/// What is in somebody's hands: how much of a page is free beside it depends on the size of pages.
fn buffers() -> u64 {
    budget().charged_by(Kind::Buffers).saturating_sub(pool().stats().cached_bytes())
}

async fn read_all(mut stream: TcpStream) -> Result<(Vec<u8>, TcpStream)> {
    let mut all = Vec::new();
    while let Some(lease) = stream.recv().await? {
        all.extend_from_slice(&lease);
    }
    Ok((all, stream))
}

fn start(relay: Relay) -> JoinHandle<Result<Relayed>> {
    spawn(relay.run()).expect("there is room")
}

#[test]
fn both_directions_at_once_unchanged_and_counted() {
    on_each("relay", async || {
        let (client, left, right, server) = chain().await?;
        let relay = start(Relay::new(left, right));
        let (up, down) = (pattern(3 << 20, 1), pattern((2 << 20) + 17, 2));
        let talk = |stream: TcpStream, bytes: Vec<u8>| async move {
            let (mut read, mut write) = stream.into_split();
            let writer = spawn(async move {
                write.send_bytes(&bytes).await?;
                write.shutdown_write().await
            })?;
            let mut got = Vec::new();
            while let Some(lease) = read.recv().await? {
                got.extend_from_slice(&lease);
            }
            writer.await.expect("no panic")?;
            Ok::<_, plimsoll_runtime::Error>(got)
        };
        let client = spawn(talk(client, up.clone()))?;
        let server = spawn(talk(server, down.clone()))?;
        assert!(client.await.expect("no panic")? == down, "what the server sent");
        assert!(server.await.expect("no panic")? == up, "what the client sent");
        let relayed = relay.await.expect("no panic")?;
        let expected = Relayed { first_bytes: up.len() as u64, second_bytes: down.len() as u64, end: RelayEnd::Closed };
        assert_eq!(relayed, expected);
        assert_eq!(io::open_relays(), 0);
        Ok(())
    });
}

#[test]
fn an_end_ends_one_half_only() {
    on_each("half-close", async || {
        let (mut client, left, right, server) = chain().await?;
        let relay = start(Relay::new(left, right));
        client.send_static(b"the question").await?;
        client.shutdown_write().await?;
        let (question, mut server) = read_all(server).await?;
        assert_eq!(question, b"the question");
        sleep(Duration::from_millis(20)).await;
        assert_eq!(io::open_relays(), 1, "the other half is open");
        server.send_static(b"the answer").await?;
        drop(server);
        let (answer, _) = read_all(client).await?;
        assert_eq!(answer, b"the answer");
        assert_eq!(relay.await.expect("no panic")?.end, RelayEnd::Closed);
        Ok(())
    });
}

#[test]
fn a_waiting_relay_holds_no_buffer_and_a_blocked_one_holds_one() {
    on_each("parked", async || {
        let (mut client, left, right, mut server) = chain().await?;
        let before = buffers();
        Relay::new(left, right).detach().await?;
        client.send_static(b"hello").await?;
        assert_eq!(&server.recv().await?.expect("five bytes")[..], b"hello");
        until("it is parked, and holds nothing", || {
            pool().release_free(u64::MAX);
            buffers() <= before + 4_096
        })
        .await;

        // Nobody reads: what the relay holds is bounded by one buffer in each direction.
        let flood = spawn(async move {
            let piece = pattern(64 * 1024, 3);
            loop {
                if timeout(Duration::from_millis(300), client.send_bytes(&piece)).await.is_err() {
                    return client;
                }
            }
        })?;
        let client = flood.await.expect("no panic");
        pool().release_free(u64::MAX);
        // The flood itself may have one piece in flight.
        let held = buffers() - before;
        assert!(held <= 2 * 128 * 1024 + 64 * 1024, "blocked: {held} bytes of buffers");
        drop(client);
        drop(server);
        assert!(io::drain_relays(wait_max()).await, "closed with its peers");
        Ok(())
    });
}

#[test]
fn a_busy_side_gives_its_large_buffer_back_when_it_pauses() {
    on_each("pause", async || {
        let (client, left, right, server) = chain().await?;
        pool().release_free(u64::MAX);
        let before = buffers();
        Relay::new(left, right).detach().await?;
        let reader = spawn(async move {
            let mut server = server;
            let mut got = 0;
            while got < 4 << 20 {
                got += server.recv().await?.expect("four mebibytes").len();
            }
            Ok::<_, plimsoll_runtime::Error>(server)
        })?;
        let mut client = client;
        client.send_bytes(&pattern(4 << 20, 5)).await?;
        let server = reader.await.expect("no panic")?;
        until("it has paused, and given its buffer back", || {
            pool().release_free(u64::MAX);
            buffers() <= before + 4_096
        })
        .await;
        let mut server = server;
        client.send_static(b"again").await?;
        assert_eq!(&server.recv().await?.expect("five bytes")[..], b"again");
        drop((client, server));
        assert!(io::drain_relays(wait_max()).await);
        Ok(())
    });
}

#[test]
fn an_idle_relay_ends_and_a_busy_one_does_not() {
    // Elsewhere a pause of the machine could be longer than the timeout.
    in_simulation("idle", async || {
        let (mut client, left, right, mut server) = chain().await?;
        let relay = start(Relay::new(left, right).idle_timeout(Duration::from_millis(600)));
        let began = now();
        for _ in 0..6 {
            sleep(Duration::from_millis(200)).await;
            server.send_static(b"tick").await?;
            assert_eq!(&client.recv().await?.expect("four bytes")[..], b"tick");
        }
        let last = now();
        assert!(last.since(began) >= Duration::from_millis(1_200), "open beyond its idle timeout");
        assert!(client.recv().await?.is_none(), "then it ends");
        assert!(now().since(last) >= Duration::from_millis(590), "never early");
        assert!(server.recv().await?.is_none(), "on both sides");
        let relayed = relay.await.expect("no panic")?;
        assert_eq!(relayed, Relayed { first_bytes: 0, second_bytes: 24, end: RelayEnd::Idle });
        Ok(())
    });
}

#[test]
fn an_idle_relay_never_ends_early() {
    on_each("idle from the start", async || {
        let (mut client, left, right, mut server) = chain().await?;
        let began = now();
        let relay = start(Relay::new(left, right).idle_timeout(Duration::from_millis(300)));
        assert!(client.recv().await?.is_none() && server.recv().await?.is_none(), "both sides end");
        assert!(now().since(began) >= Duration::from_millis(290), "never early");
        let relayed = relay.await.expect("no panic")?;
        assert_eq!(relayed, Relayed { first_bytes: 0, second_bytes: 0, end: RelayEnd::Idle });
        Ok(())
    });
}

#[test]
fn an_idle_relay_ends_no_later_after_bytes_in_bulk() {
    in_simulation("idle after bulk", async || {
        for idle_ms in [100, 1_500] {
            let (mut client, left, right, server) = chain().await?;
            let relay = start(Relay::new(left, right).idle_timeout(Duration::from_millis(idle_ms)));
            let reader = spawn(read_all(server))?;
            client.send_bytes(&pattern(1 << 20, 4)).await?;
            let sent = now();
            assert_eq!(relay.await.expect("no panic")?.end, RelayEnd::Idle);
            let late = now().since(sent + Duration::from_millis(idle_ms));
            assert!(late <= Duration::from_millis(600), "{idle_ms} ms: {late:?} late");
            assert_eq!(reader.await.expect("no panic")?.0.len(), 1 << 20);
        }
        Ok(())
    });
}

#[test]
fn all_who_wait_for_the_last_relay_are_told() {
    in_simulation("drained", async || {
        let (client, left, right, server) = chain().await?;
        Relay::new(left, right).detach().await?;
        let began = now();
        let waiting = [(); 3].map(|()| spawn(io::drain_relays(Duration::from_secs(60))).expect("there is room"));
        sleep(Duration::from_secs(1)).await;
        drop((client, server));
        for one in waiting {
            assert!(one.await.expect("no panic"), "none is open");
        }
        assert!(now().since(began) < Duration::from_secs(2));
        Ok(())
    });
}

#[test]
fn bytes_received_before_come_first() {
    on_each("unread", async || {
        let (mut client, mut left, right, mut server) = chain().await?;
        client.send_static(b"head and more").await?;
        let mut head = [0; 4];
        assert_eq!(left.read(&mut head).await?, 4);
        // A receive that was begun and given up stays armed: it belongs to the stream.
        let mut left = left;
        assert_eq!(left.read(&mut [0; 1]).await?, 1);
        let mut right = right;
        assert!(timeout(Duration::from_millis(5), right.recv()).await.is_err());
        let relay = start(Relay::new(left, right));
        let mut got = Vec::new();
        while got.len() < 8 {
            got.extend_from_slice(&server.recv().await?.expect("the rest"));
        }
        assert_eq!(got, b"and more");
        server.send_static(b"back").await?;
        assert_eq!(&client.recv().await?.expect("four bytes")[..], b"back");
        drop((client, server));
        let relayed = relay.await.expect("no panic")?;
        assert_eq!((relayed.first_bytes, relayed.second_bytes), (8, 4));
        Ok(())
    });
}

#[test]
fn a_dropped_relay_closes_both_connections() {
    on_each("dropped", async || {
        let (mut client, left, right, mut server) = chain().await?;
        let relay = start(Relay::new(left, right));
        client.send_static(b"one").await?;
        assert!(server.recv().await?.is_some());
        relay.abort();
        assert!(client.recv().await?.is_none());
        assert!(server.recv().await?.is_none());
        assert_eq!(io::open_relays(), 0);
        Ok(())
    });
}

#[test]
fn many_relays_come_and_go() {
    on_each("churn", async || {
        let mut clients = Vec::new();
        for at in 0..40_usize {
            let (client, left, right, server) = chain().await?;
            Relay::new(left, right).detach().await?;
            clients.push(spawn(async move {
                let (mut client, mut server) = (client, server);
                let sent = pattern(1 + at * 997, at);
                client.send_bytes(&sent).await?;
                client.shutdown_write().await?;
                let mut got = Vec::new();
                while let Some(lease) = server.recv().await? {
                    got.extend_from_slice(&lease);
                }
                assert!(got == sent, "relay {at}");
                server.shutdown_write().await?;
                assert!(client.recv().await?.is_none());
                Ok::<_, plimsoll_runtime::Error>(())
            })?);
        }
        for client in clients {
            client.await.expect("no panic")?;
        }
        assert!(io::drain_relays(wait_max()).await, "all have ended");
        Ok(())
    });
}
