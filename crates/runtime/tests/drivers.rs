//! The runtime's own suite: every test runs on io_uring (where it works), on mio and in the simulation, and ends with a
//! census: no descriptor, operation, task or byte is left.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use support::{on_each, on_each_with_files, wait_max};

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{
    Error, Result, Spawner, fs, interval, metrics, now, sleep, spawn, spawn_blocking, timeout, yield_now,
};

/// Waits until the worker holds nothing but what the caller says: closes and cancels take a turn or two.
async fn settled(fds: u64, tasks: u64) {
    let start = now();
    loop {
        let seen = metrics();
        if (seen.fds, seen.tasks, seen.ops_in_flight) == (fds, tasks, 0) {
            return;
        }
        assert!(now() - start < wait_max(), "not settled: {seen:?}");
        sleep(Duration::from_millis(1)).await;
    }
}

/// A future that is dropped after so many polls.
struct Cut<F> {
    future: Option<Pin<Box<F>>>,
    polls: usize,
}

fn cut<F: Future>(future: F, polls: usize) -> Cut<F> {
    Cut { future: Some(Box::pin(future)), polls }
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.future = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let last = self.polls == 0;
        let future = self.future.as_mut().expect("polled until it is ready");
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if last => {
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

async fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
}

/// More than are accepted in a row.
const QUEUED: usize = 300;

/// A stop closes listeners, which resets what waits in their queues: not before it was served.
#[test]
fn connections_that_wait_for_an_accept_are_served_at_the_stop() {
    on_each("stop with a queue", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut clients = Vec::new();
        for at in 0..QUEUED {
            let mut client = TcpStream::connect(address).await?;
            client.send_bytes(format!("client {at}").as_bytes()).await?;
            clients.push(client);
        }
        Spawner::current().stop();
        let serving = spawn(listener.serve_here(|mut stream: TcpStream| async move {
            while let Some(lease) = stream.recv().await? {
                stream.send_all(lease).await?;
            }
            Ok::<_, Error>(())
        }))?;
        for (at, client) in clients.iter_mut().enumerate() {
            let echoed = client.recv().await?.expect("what was sent");
            assert_eq!(&echoed[..], format!("client {at}").as_bytes());
        }
        drop(clients);
        serving.await.expect("no panic")
    });
}

#[test]
fn bytes_go_both_ways_unchanged() {
    on_each("echo", async || {
        let (client, server) = pair().await?;
        let sent = pattern(1 << 20);
        let expected = sent.clone();
        let (mut server_in, mut server_out) = server.into_split();
        let echo = spawn(async move {
            while let Some(lease) = server_in.recv().await? {
                server_out.send_all(lease).await?;
            }
            server_out.shutdown_write().await
        })?;
        let (mut read, mut write) = {
            client.set_nodelay(true)?;
            client.into_split()
        };
        let writer = spawn(async move {
            write.send_bytes(&sent).await?;
            write.shutdown_write().await
        })?;
        let mut echoed = Vec::new();
        while let Some(lease) = read.recv().await? {
            echoed.extend_from_slice(&lease);
        }
        writer.await.expect("no panic")?;
        echo.await.expect("no panic")?;
        assert!(echoed == expected, "a mebibyte there and back");
        Ok(())
    });
}

#[test]
fn a_small_buffer_reads_everything() {
    on_each("read", async || {
        let (mut client, mut server) = pair().await?;
        let sent = pattern(10_000);
        client.send_bytes(&sent).await?;
        client.shutdown_write().await?;
        let mut buffer = [0; 7];
        let mut read = Vec::new();
        loop {
            let count = server.read(&mut buffer).await?;
            if count == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..count]);
        }
        assert!(read == sent);
        assert_eq!(server.read(&mut buffer).await?, 0, "the end stays the end");
        Ok(())
    });
}

#[test]
fn dropping_a_receive_loses_no_byte() {
    on_each("dropped receives", async || {
        let (mut client, mut server) = pair().await?;
        let sent = pattern(60_000);
        let expected = sent.clone();
        let writer = spawn(async move {
            for piece in sent.chunks(997) {
                client.send_bytes(piece).await?;
                yield_now().await;
            }
            client.shutdown_write().await
        })?;
        let mut received = Vec::new();
        let mut dropped = 0;
        loop {
            match cut(server.recv(), 1).await {
                None => {
                    dropped += 1;
                    sleep(Duration::from_millis(u64::from(dropped % 3 == 0))).await;
                }
                Some(Ok(Some(lease))) => received.extend_from_slice(&lease),
                Some(Ok(None)) => break,
                Some(Err(error)) => return Err(error),
            }
        }
        writer.await.expect("no panic")?;
        assert!(dropped > 0, "receives were dropped");
        assert!(received == expected, "{} of {} bytes", received.len(), expected.len());
        Ok(())
    });
}

#[test]
fn dropping_an_accept_loses_no_connection() {
    on_each("dropped accepts", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let clients = spawn(async move {
            let mut clients = Vec::new();
            for id in 0..40_u8 {
                let mut client = TcpStream::connect(address).await?;
                client.send_bytes(&[id]).await?;
                clients.push(client);
                sleep(Duration::from_millis(1)).await;
            }
            Ok::<_, Error>(clients)
        })?;
        let mut seen = [false; 40];
        let mut dropped = 0;
        while seen.contains(&false) {
            match cut(listener.accept(), 1).await {
                None => {
                    dropped += 1;
                    sleep(Duration::from_millis(1)).await;
                }
                Some(accepted) => {
                    let (mut stream, _) = accepted?;
                    let lease = stream.recv().await?.expect("each client says who it is");
                    assert!(!core::mem::replace(&mut seen[usize::from(lease[0])], true), "accepted once");
                }
            }
            assert!(dropped < 5_000, "connections were lost: {seen:?}");
        }
        assert!(dropped > 0, "accepts were dropped");
        clients.await.expect("no panic")?;
        Ok(())
    });
}

/// One conversation over everything that awaits.
async fn conversation(path: std::path::PathBuf) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let server = spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        while let Some(lease) = stream.recv().await? {
            sleep(Duration::from_millis(1)).await;
            stream.send_all(lease).await?;
        }
        Ok::<(), Error>(())
    })?;
    let mut client = TcpStream::connect(address).await?;
    client.send_bytes(&pattern(3_000)).await?;
    let mut got = 0;
    while got < 3_000 {
        got += timeout(Duration::from_secs(20), client.recv()).await??.map_or(0, |lease| lease.len());
    }
    client.shutdown_write().await?;
    let file = fs::File::create(&path).await?;
    let lease = plimsoll_runtime::pool().try_copy(&pattern(5_000), plimsoll_runtime::Kind::Buffers)?;
    let (written, lease) = file.write_at(lease, 0).await?;
    assert_eq!(written, 5_000);
    drop(lease);
    file.sync_data().await?;
    assert_eq!(file.metadata().await?.len, 5_000);
    let mut ticks = interval(Duration::from_millis(1));
    ticks.tick().await;
    ticks.tick().await;
    assert_eq!(spawn_blocking(|| 7).await?, 7);
    server.await.expect("no panic")
}

#[test]
fn dropping_a_future_at_any_await_leaves_nothing_behind() {
    on_each_with_files("cut conversations", async || {
        let path = std::env::temp_dir().join(format!("plimsoll-cut-{}", std::process::id()));
        let mut polls = 0;
        loop {
            let conversation = conversation(path.clone());
            let task = spawn(cut(conversation, polls))?;
            let done = task.await.expect("no panic");
            // What the conversation spawned sees the end of its connection, or waits for one that never comes.
            if let Some(result) = done {
                result?;
                break;
            }
            polls += 1;
            assert!(polls < 500, "the conversation ends");
            for _ in 0..3 {
                sleep(Duration::from_millis(1)).await;
            }
        }
        assert!(polls > 8, "only {polls} awaits were cut");
        Ok(())
    });
}

#[test]
fn aborted_tasks_leave_nothing_behind() {
    on_each("aborts", async || {
        let (client, server) = pair().await?;
        let (mut read, _write) = server.into_split();
        let waits = spawn(async move { read.recv().await.map(|_| ()) })?;
        let sleeps = spawn(async { sleep(Duration::from_secs(3_600)).await })?;
        let listens = spawn(async {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            listener.accept().await.map(|_| ())
        })?;
        yield_now().await;
        sleep(Duration::from_millis(2)).await;
        for handle in [&waits, &listens] {
            handle.abort();
        }
        sleeps.abort();
        assert!(waits.await.expect_err("aborted").is_cancelled());
        assert!(listens.await.expect_err("aborted").is_cancelled());
        assert!(sleeps.await.expect_err("aborted").is_cancelled());
        drop((client, _write));
        settled(0, 0).await;
        Ok(())
    });
}

#[test]
fn a_dropped_send_is_told() {
    on_each("dropped send", async || {
        let (mut client, server) = pair().await?;
        let big = pattern(16 << 20);
        // The peer does not read: the socket takes a part at most.
        assert!(cut(client.send_bytes(&big), 3).await.is_none(), "16 MiB do not fit a socket");
        let again = client.send_bytes(b"more").await;
        assert!(matches!(again, Err(Error::SendInterrupted)), "{again:?}");
        drop((client, server));
        settled(0, 0).await;
        Ok(())
    });
}

#[test]
fn a_panic_ends_its_task_alone() {
    on_each("panics", async || {
        let bad = spawn(async { panic!("on purpose") })?;
        let good = spawn(async { 1 })?;
        assert!(bad.await.expect_err("it panicked").is_panic());
        assert_eq!(good.await.expect("untouched"), 1);
        let blocking = spawn_blocking(|| panic!("on purpose")).await;
        assert!(matches!(blocking, Err(Error::Panicked)));
        Ok(())
    });
}

#[test]
fn time_passes_as_asked() {
    on_each("time", async || {
        let start = now();
        let sleeps: Vec<_> = [30_u64, 10, 20]
            .map(|ms| {
                spawn(async move {
                    sleep(Duration::from_millis(ms)).await;
                    now()
                })
            })
            .into_iter()
            .collect::<Result<_>>()?;
        let mut woken = Vec::new();
        for handle in sleeps {
            woken.push((handle.await.expect("no panic") - start).as_millis());
        }
        assert!(woken[0] >= 30 && woken[1] >= 10 && woken[2] >= 20, "never early: {woken:?}");
        let late = timeout(Duration::from_millis(5), core::future::pending::<()>()).await;
        assert!(matches!(late, Err(Error::TimedOut)));
        let soon = timeout(Duration::from_secs(5), async { 3 }).await?;
        assert_eq!(soon, 3);
        Ok(())
    });
}

#[test]
fn refused_connections_and_missing_files_are_errors() {
    on_each_with_files("errors", async || {
        let address = {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            listener.local_addr()
        };
        sleep(Duration::from_millis(5)).await;
        let refused = TcpStream::connect(address).await;
        assert!(matches!(&refused, Err(Error::System(errno)) if errno.0 == libc::ECONNREFUSED), "{refused:?}");
        let missing = fs::File::open("/nowhere/at/all").await;
        assert!(matches!(&missing, Err(Error::System(errno)) if errno.0 == libc::ENOENT), "{missing:?}");
        settled(0, 0).await;
        Ok(())
    });
}

#[test]
fn at_the_line_spawning_is_refused_and_nothing_else_happens() {
    on_each("line", async || {
        let mut held = Vec::new();
        let refused = loop {
            let payload = [held.len() as u8; 4_000];
            match spawn(async move {
                core::future::pending::<()>().await;
                std::hint::black_box(payload);
            }) {
                Ok(handle) => held.push(handle),
                Err(error) => break error,
            }
            assert!(held.len() < 100_000, "the line is 32 MiB");
        };
        assert!(matches!(refused, Error::OverBudget(_)), "{refused}");
        let budget = plimsoll_runtime::budget();
        assert!(budget.charged() <= budget.limit().as_bytes(), "{} of {}", budget.charged(), budget.limit());
        // Where not even a timer has room, time passes all the same.
        let start = now();
        let naps: Vec<_> = (0..200).map(|_| sleep(Duration::from_millis(5))).collect();
        for nap in naps {
            nap.await;
        }
        assert!(now() - start >= Duration::from_millis(5));
        for handle in &held {
            handle.abort();
        }
        for handle in held {
            assert!(handle.await.expect_err("aborted").is_cancelled());
        }
        // Aborted tasks leave the ready queue first, 128 a turn.
        let mut turns = 0;
        let again = loop {
            match spawn(async {}) {
                Ok(handle) => break handle,
                Err(error) => assert!(matches!(error, Error::OverBudget(_)), "{error}"),
            }
            turns += 1;
            assert!(turns < 1_000, "there is room again");
            yield_now().await;
        };
        again.await.expect("no panic");
        Ok(())
    });
}

#[test]
fn exit_with_operations_in_flight_leaks_nothing() {
    on_each("exit", async || {
        let (client, mut server) = pair().await?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let _detached = [
            spawn(async move {
                let _client = client;
                core::future::pending::<()>().await;
            })?,
            spawn(async move { drop(server.recv().await) })?,
            spawn(async move { drop(listener.accept().await) })?,
            spawn(async { sleep(Duration::from_secs(3_600)).await })?,
        ];
        sleep(Duration::from_millis(2)).await;
        assert!(metrics().ops_in_flight >= 2, "{:?}", metrics());
        Ok(())
    });
}

/// Two ends of a connection.
async fn two_ends(listener: &TcpListener) -> Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect(listener.local_addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

#[test]
fn bytes_that_nobody_asks_for_hold_up_nobody() {
    on_each("bytes that nobody asks for", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut waiting = Vec::new();
        for _ in 0..6 {
            let (mut client, mut server) = two_ends(&listener).await?;
            // As in a select whose other branch goes on for long: the receive stays armed, and nobody looks.
            assert!(cut(server.recv(), 1).await.is_none());
            client.send_bytes(b"unasked").await?;
            waiting.push((client, server));
            // More than all receive buffers of the worker, on another connection.
            let (mut client, mut server) = two_ends(&listener).await?;
            let others = async {
                for _ in 0..40 {
                    client.send_bytes(&[7; 8_192]).await?;
                    let mut left = 8_192;
                    while left > 0 {
                        left -= server.recv().await?.ok_or(Error::ConnectionClosed)?.len();
                    }
                }
                Ok::<(), Error>(())
            };
            timeout(Duration::from_secs(20), others).await??;
        }
        for (_client, server) in &mut waiting {
            let bytes = server.recv().await?.ok_or(Error::ConnectionClosed)?;
            assert_eq!(&bytes[..], b"unasked");
        }
        drop((waiting, listener));
        settled(0, 0).await;
        Ok(())
    });
}
