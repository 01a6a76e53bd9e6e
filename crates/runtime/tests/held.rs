//! At the memory line streams that cannot copy what they received, or do not look at it, do not stop the worker's other
//! receives.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use plimsoll_pool::{Class, Lease};
use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{Error, Kind, Result, pool, sleep, timeout};

static LONG: [u8; 30_000] = [7; 30_000];
/// More than there are buffers.
const STREAMS: usize = 6;

/// More than fill all buffers: four, of which each has room for 4 receives, or for 16 where each has a page.
const UNSEEN: usize = 72;

/// A connection over which something has gone, so that everything that it keeps is there.
async fn pair(listener: &TcpListener) -> Result<(TcpStream, TcpStream)> {
    let mut client = TcpStream::connect(listener.local_addr()).await?;
    let (mut server, _) = listener.accept().await?;
    client.send_static(b"first").await?;
    assert_eq!(server.recv().await?.as_deref(), Some(&b"first"[..]));
    Ok((client, server))
}

/// Everything that there is under the line.
fn all_memory() -> Vec<Lease> {
    let mut memory = Vec::new();
    for class in Class::ALL.into_iter().rev() {
        while let Ok(lease) = pool().try_acquire_class(class, Kind::Buffers) {
            memory.push(lease);
        }
    }
    memory
}

#[test]
fn refused_copies_do_not_keep_the_buffers() {
    support::on_each("held", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut pairs = Vec::new();
        for _ in 0..=STREAMS {
            pairs.push(pair(&listener).await?);
        }
        let memory = all_memory();
        let mut last = pairs.pop().expect("there are some");
        for (client, server) in &mut pairs {
            client.send_static(&LONG).await?;
            let refused = server.recv().await;
            assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
        }
        drop(memory);
        // Nobody has come back for what they could not have; the others go on.
        for _ in 0..10 {
            last.0.send_static(&LONG).await?;
            let mut left = LONG.len();
            while left > 0 {
                let got = last.1.recv().await?.expect("the client is there");
                left -= got.len();
            }
        }
        let mut kept = 0;
        for (_, server) in &mut pairs {
            match server.recv().await {
                Ok(bytes) => {
                    assert!(bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 7)));
                    kept += 1;
                }
                Err(error) => assert!(matches!(error, Error::OverBudget(_)), "{error}"),
            }
        }
        assert!(kept <= 2, "{kept} streams kept buffers");
        Ok(())
    });
}

/// As after a timeout around a receive: it stays armed, its bytes come, and nobody looks.
#[test]
fn answers_that_nobody_looks_at_do_not_keep_the_buffers() {
    support::on_each("answers that nobody looks at", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut pairs = Vec::new();
        for _ in 0..=UNSEEN {
            pairs.push(pair(&listener).await?);
        }
        let mut last = pairs.pop().expect("there are some");
        for (_, server) in &mut pairs {
            let mut given_up = pin!(server.recv());
            let is_pending = poll_fn(|cx| Poll::Ready(given_up.as_mut().poll(cx).is_pending())).await;
            assert!(is_pending, "nothing was sent");
        }
        let small: Vec<Lease> = (0..32).map_while(|_| pool().try_acquire(64, Kind::Buffers).ok()).collect();
        let memory = all_memory();
        for (client, _) in &mut pairs {
            client.send_static(&LONG[..16 << 10]).await?;
        }
        sleep(Duration::from_millis(20)).await;
        // Small places are free: for what somebody waits for, not for what nobody looks at.
        drop(small);
        for _ in 0..10 {
            last.0.send_static(b"a few bytes").await?;
            let got = timeout(Duration::from_secs(20), last.1.recv()).await??;
            assert_eq!(got.as_deref(), Some(&b"a few bytes"[..]));
        }
        drop(memory);
        let mut lost = 0;
        for (_, server) in &mut pairs {
            match server.recv().await {
                Ok(bytes) => assert!(bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 7))),
                Err(Error::OverBudget(_)) => {
                    lost += 1;
                    assert!(matches!(server.recv().await, Err(Error::OverBudget(_))), "there is a hole in it");
                }
                Err(error) => return Err(error),
            }
        }
        assert!(lost > 0, "all {UNSEEN} answers had room");
        Ok(())
    });
}
