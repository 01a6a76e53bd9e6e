//! Streams in readiness style, on io_uring (where it works), mio and in the simulation: alone, and mixed with owned
//! receives and sends.

#![forbid(unsafe_code)]

mod support;

use core::future::{Future, poll_fn};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::IoSlice;

use plimsoll_runtime::net::{Event, Stream, Table, TableConfig};
use plimsoll_runtime::{Error, Kind, Result, metrics, now, sleep, spawn, timeout, yield_now};
use support::{on_each, on_each_family, wait_max};

async fn pair() -> Result<(Stream, Stream)> {
    let listener = support::listen()?;
    let client = Stream::connect(listener.local_addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

async fn read(stream: &mut Stream, buffer: &mut [u8]) -> Result<usize> {
    poll_fn(|cx| stream.poll_read(cx, buffer)).await
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| stream.poll_write(cx, bytes)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Polls a future once, and drops it if it is not ready.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = core::pin::pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// The byte at a place of the stream.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(2_654_435_761) >> 13) as u8
}

/// Random numbers of a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) % bound as u64) as usize
    }
}

#[test]
fn bytes_come_until_the_end_of_the_stream() {
    on_each_family("bytes come", async || {
        let (mut client, mut server) = pair().await?;
        assert_eq!(read(&mut client, &mut []).await?, 0, "an empty buffer");
        let mut buffer = [0; 64];
        assert!(once(read(&mut client, &mut buffer)).await.is_none(), "nothing has come");
        write_all(&mut server, b"hello").await?;
        let mut got = Vec::new();
        while got.len() < 5 {
            let count = read(&mut client, &mut buffer).await?;
            got.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(got, b"hello");
        let slices = [IoSlice::new(b""), IoSlice::new(b"in "), IoSlice::new(b"two parts")];
        let mut sent = poll_fn(|cx| server.poll_write_vectored(cx, &slices)).await?;
        write_all(&mut server, &b"in two parts"[sent..]).await?;
        sent = 0;
        assert_eq!(poll_fn(|cx| server.poll_write(cx, b"")).await?, sent, "nothing to send");
        poll_fn(|cx| server.poll_shutdown(cx)).await?;
        got.clear();
        loop {
            match read(&mut client, &mut buffer).await? {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
        }
        assert_eq!(got, b"in two parts");
        assert_eq!(read(&mut client, &mut buffer).await?, 0, "the end stays");
        assert!(client.recv().await?.is_none(), "for owned receives, too");
        match poll_fn(|cx| server.poll_write(cx, b"late")).await {
            Err(Error::System(_)) => Ok(()),
            other => panic!("a write behind the end: {other:?}"),
        }
    });
}

#[test]
fn a_wait_holds_no_buffer_and_a_dropped_one_leaves_nothing() {
    on_each_family("no buffer", async || {
        let (mut client, server) = pair().await?;
        let in_buffers = || plimsoll_runtime::budget().charged_by(Kind::Buffers);
        let held = in_buffers();
        let mut buffer = vec![0; 64 * 1024];
        for _ in 0..10 {
            assert!(once(read(&mut client, &mut buffer)).await.is_none());
            assert!(once(client.recv()).await.is_none());
        }
        assert!(in_buffers() <= held, "a wait costs an operation, no buffer");
        drop((client, server));
        let start = now();
        while metrics().ops_in_flight > 0 {
            assert!(now() - start < wait_max(), "what waited has ended");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    });
}

/// A peer that sends faster than its bytes are used, or reads faster than they come, must not keep the worker.
#[test]
fn a_busy_stream_lets_other_tasks_run() {
    on_each_family("busy", async || {
        let (mut client, mut server) = pair().await?;
        write_all(&mut server, &[7; 1_000]).await?;
        sleep(Duration::from_millis(20)).await;
        let mut in_a_row = poll_fn(|cx| {
            let mut calls = 0;
            while client.poll_read(cx, &mut [0]).is_ready() {
                calls += 1;
            }
            Poll::Ready(calls)
        })
        .await;
        assert!((1..=32).contains(&in_a_row), "{in_a_row} reads of a task without a pause");
        in_a_row = poll_fn(|cx| {
            let mut calls = 0;
            while server.poll_write(cx, b"x").is_ready() {
                calls += 1;
            }
            Poll::Ready(calls)
        })
        .await;
        assert!((1..=32).contains(&in_a_row), "{in_a_row} writes of a task without a pause");
        // Its pause is over by itself: it is woken.
        timeout(wait_max(), read(&mut client, &mut [0])).await??;
        timeout(wait_max(), poll_fn(|cx| server.poll_write(cx, b"x"))).await??;
        Ok(())
    });
}

#[test]
fn a_reader_is_told_of_a_reset() {
    on_each("a reset", async || {
        let (mut client, server) = pair().await?;
        server.set_option(plimsoll_runtime::net::SocketOption::Linger(Some(Duration::ZERO)))?;
        let task = spawn(async move {
            let mut buffer = [0; 8];
            read(&mut client, &mut buffer).await
        })?;
        yield_now().await;
        drop(server);
        match task.await.expect("it ends") {
            Err(Error::System(_)) => Ok(()),
            other => panic!("a reset connection reads {other:?}"),
        }
    });
}

/// A dropped receive stays in flight, and may bring bytes: a read that comes later must take those first.
#[test]
fn both_ways_of_reading_and_writing_keep_the_order() {
    for seed in 0..12 {
        on_each_family("mixed", async || {
            let (mut client, mut server) = pair().await?;
            let mut random = Random(seed);
            let bytes = 1_000 + random.below(60_000);
            let writer = spawn(async move {
                let mut random = Random(seed + 1_000);
                let mut at = 0;
                while at < bytes {
                    let len = (1 + random.below(5_000)).min(bytes - at);
                    let piece: Vec<u8> = (at..at + len).map(byte).collect();
                    match random.below(3) {
                        0 => server.send_bytes(&piece).await?,
                        1 => write_all(&mut server, &piece).await?,
                        _ => {
                            // One that is dropped has sent nothing.
                            let sent = once(poll_fn(|cx| server.poll_write(cx, &piece))).await;
                            at += sent.transpose()?.unwrap_or(0);
                            continue;
                        }
                    }
                    at += len;
                    if random.below(3) == 0 {
                        yield_now().await;
                    }
                }
                server.shutdown_write().await?;
                Ok::<_, Error>(server)
            })?;
            let mut got: Vec<u8> = Vec::new();
            let mut buffer = vec![0; 7_000];
            let check = |got: &[u8], at: usize| {
                let is_right = got[at..].iter().enumerate().all(|(index, found)| *found == byte(at + index));
                assert!(is_right, "seed {seed}: the bytes from {at} on are others");
            };
            loop {
                let before = got.len();
                let room = 1 + random.below(buffer.len());
                match random.below(6) {
                    0 => match once(client.recv()).await.transpose()? {
                        None => yield_now().await,
                        Some(None) => break,
                        Some(Some(lease)) => got.extend_from_slice(&lease),
                    },
                    1 => match once(read(&mut client, &mut buffer[..room])).await.transpose()? {
                        None => yield_now().await,
                        Some(0) => break,
                        Some(count) => got.extend_from_slice(&buffer[..count]),
                    },
                    2 => match client.recv().await? {
                        None => break,
                        Some(lease) => got.extend_from_slice(&lease),
                    },
                    3 => match client.read(&mut buffer[..room]).await? {
                        0 => break,
                        count => got.extend_from_slice(&buffer[..count]),
                    },
                    4 => {
                        once(client.recv())
                            .await
                            .transpose()?
                            .flatten()
                            .into_iter()
                            .for_each(|lease| got.extend_from_slice(&lease));
                        client.quiesce().await?;
                    }
                    _ => match read(&mut client, &mut buffer[..room]).await? {
                        0 => break,
                        count => got.extend_from_slice(&buffer[..count]),
                    },
                }
                check(&got, before);
            }
            assert_eq!(got.len(), bytes, "seed {seed}");
            drop(writer.await.expect("the writer ends")?);
            Ok(())
        });
    }
}

/// What a peer does not take is waited for, and told by readiness.
#[test]
fn a_full_socket_is_waited_for() {
    on_each_family("full", async || {
        let (mut client, mut server) = pair().await?;
        let bytes: Vec<u8> = (0..3_000_000).map(byte).collect();
        let expected = bytes.len();
        let writer = spawn(async move {
            write_all(&mut server, &bytes).await?;
            poll_fn(|cx| server.poll_shutdown(cx)).await?;
            Ok::<_, Error>(server)
        })?;
        sleep(Duration::from_millis(20)).await;
        let mut buffer = vec![0; 50_000];
        let mut at = 0;
        loop {
            let count = read(&mut client, &mut buffer).await?;
            if count == 0 {
                break;
            }
            assert!(buffer[..count].iter().enumerate().all(|(index, found)| *found == byte(at + index)));
            at += count;
        }
        assert_eq!(at, expected);
        drop(writer.await.expect("the writer ends")?);
        Ok(())
    });
}

/// The halves of a stream wait by themselves.
#[test]
fn halves_wait_both() {
    on_each_family("halves", async || {
        let (client, mut server) = pair().await?;
        let (mut reader, mut writer) = client.into_split();
        let reading = spawn(async move {
            let mut buffer = [0; 16];
            let count = poll_fn(|cx| reader.poll_read(cx, &mut buffer)).await?;
            Ok::<_, Error>(buffer[..count].to_vec())
        })?;
        let writing = spawn(async move {
            let piece = vec![1; 100_000];
            let mut sent = 0;
            while sent < 2_000_000 {
                sent += poll_fn(|cx| writer.poll_write(cx, &piece)).await?;
            }
            poll_fn(|cx| writer.poll_shutdown(cx)).await?;
            Ok::<_, Error>(sent)
        })?;
        sleep(Duration::from_millis(10)).await;
        let mut buffer = vec![0; 50_000];
        let mut got = 0;
        loop {
            match read(&mut server, &mut buffer).await? {
                0 => break,
                count => got += count,
            }
        }
        assert_eq!(writing.await.expect("it ends")?, got);
        write_all(&mut server, b"x").await?;
        assert_eq!(reading.await.expect("it ends")?, b"x");
        Ok(())
    });
}

/// Waits of both ways are under way when a table takes the connection: what has come, and comes later, is the table's.
#[test]
fn a_table_takes_a_stream_that_was_polled() {
    on_each_family("a table", async || {
        for is_there in [false, true] {
            let (mut client, mut server) = pair().await?;
            fill(&mut client);
            assert!(once(read(&mut client, &mut [0; 8])).await.is_none());
            if is_there {
                // An owned receive that was dropped holds the first bytes, and a small read takes some of them.
                assert!(once(client.recv()).await.is_none());
                write_all(&mut server, b"<hello").await?;
                sleep(Duration::from_millis(5)).await;
                assert_eq!(read(&mut client, &mut [0; 1]).await?, 1);
            }
            assert!(is_there || once(read(&mut client, &mut [0; 8])).await.is_none());
            client.quiesce().await?;
            let mut table = Table::detached(TableConfig::default())?;
            table.reserve_entries(1)?;
            let adopted = table.adopt(client, ())?;
            let mut got = adopted.unread.map(|lease| lease.to_vec()).unwrap_or_default();
            assert_eq!(got.is_empty(), !is_there);
            if !is_there {
                write_all(&mut server, b"hello").await?;
            }
            while got.len() < 5 {
                table.receive(adopted.key)?;
                table.ready().await;
                while let Some(event) = table.next() {
                    let Event::Received(_, bytes) = event else { panic!("bytes, not {event:?}") };
                    got.extend_from_slice(&bytes);
                }
            }
            assert_eq!(got, b"hello");
            table.close(adopted.key);
        }
        Ok(())
    });
}

/// A task that asked is not the one that reads in the end: who asked last is woken, in either way.
#[test]
fn who_asked_last_is_woken() {
    on_each_family("who asked last", async || {
        let (mut client, mut server) = pair().await?;
        assert!(poll_once_by(Waker::noop(), |cx| client.poll_read(cx, &mut [0; 8])).is_none());
        assert!(once(client.recv()).await.is_none());
        assert!(poll_once_by(Waker::noop(), |cx| client.poll_read(cx, &mut [0; 8])).is_none());
        let reading = spawn(async move {
            let mut buffer = [0; 8];
            let count = read(&mut client, &mut buffer).await?;
            Ok::<_, Error>((client, buffer[..count].to_vec()))
        })?;
        yield_now().await;
        write_all(&mut server, b"one").await?;
        let (mut client, got) = timeout(wait_max(), reading).await?.expect("no panic")?;
        assert_eq!(got, b"one");
        fill(&mut client);
        let writing = spawn(async move { poll_fn(|cx| client.poll_write(cx, b"x")).await })?;
        yield_now().await;
        let draining = spawn(async move {
            let mut buffer = vec![0; 64 * 1_024];
            while read(&mut server, &mut buffer).await? > 0 {}
            Ok::<_, Error>(())
        })?;
        assert_eq!(timeout(wait_max(), writing).await?.expect("no panic")?, 1);
        timeout(wait_max(), draining).await?.expect("no panic")
    });
}

fn poll_once_by<T>(waker: &Waker, mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    match poll(&mut Context::from_waker(waker)) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Writes until the socket takes no more. One wait may be a pause of the task.
fn fill(stream: &mut Stream) {
    let mut waits = 0;
    while waits < 2 {
        let written = poll_once_by(Waker::noop(), |cx| stream.poll_write(cx, &[1; 64 * 1_024]));
        waits = if written.is_some() { 0 } else { waits + 1 };
    }
}
