//! Wakers that panic when they are woken, wherever others may leave theirs: nothing ends but what they were to wake.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use plimsoll_runtime::memory::{self, Footprint, Permit, Priority};
use plimsoll_runtime::net::{Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{Error, Result, io, sleep, spawn, spawn_blocking, spawn_on, timeout};

struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics when it is woken");
    }
}

fn poll_with_a_bomb<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::new(Bomb))))
}

async fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()).await?;
    let (server, _) = listener.accept().await?;
    Ok((client, server))
}

#[test]
fn a_relay_goes_on_though_another_ones_owner_panics() {
    support::on_each("relays", async || {
        let [(mut a, left_a), (right_a, b)] = [pair().await?, pair().await?];
        let [(mut c, left_c), (right_c, mut d)] = [pair().await?, pair().await?];
        let mut first = Box::pin(io::relay(left_a, right_a));
        assert!(poll_with_a_bomb(first.as_mut()).is_pending());
        let second = spawn(io::relay(left_c, right_c))?;
        a.send_static(b"to nobody").await?;
        drop((a, b));
        c.send_static(b"before").await?;
        assert_eq!(d.recv().await?.as_deref(), Some(&b"before"[..]));
        first.await?;
        c.send_static(b"after").await?;
        let after = timeout(Duration::from_secs(20), d.recv()).await??;
        assert_eq!(after.as_deref(), Some(&b"after"[..]));
        drop((c, d));
        let relayed = timeout(Duration::from_secs(20), second).await?.expect("no panic")?;
        assert_eq!(relayed.first_bytes, 11);
        Ok(())
    });
}

/// It takes as long as free memory stays.
#[test]
fn a_table_is_asked_for_its_pages_though_its_owner_panics() {
    support::in_simulation("pages of a table", async || {
        let (client, server) = pair().await?;
        let mut table = Table::<u64>::detached(TableConfig::default())?;
        table.reserve_entries(1)?;
        let adopted = table.adopt(server, 0)?;
        table.close(adopted.key);
        drop(client);
        assert!(poll_with_a_bomb(pin!(table.ready())).is_pending());
        sleep(Duration::from_secs(10)).await;
        assert!(poll_with_a_bomb(pin!(table.ready())).is_pending(), "it gives them back");
        Ok(())
    });
}

#[test]
fn work_elsewhere_ends_though_who_waits_for_it_panics() {
    support::on_each("work elsewhere", async || {
        let mut panics = spawn_on(0, || async { panic!("a task panics") })?;
        assert!(poll_with_a_bomb(Pin::new(&mut panics)).is_pending());
        sleep(Duration::from_millis(5)).await;
        assert!(matches!(panics.await, Err(Error::Panicked)));
        let mut blocks = Box::pin(spawn_blocking(|| 7));
        // In a simulation it is done at once.
        if poll_with_a_bomb(blocks.as_mut()).is_pending() {
            assert_eq!(blocks.await?, 7);
        }
        assert_eq!(spawn_blocking(|| 8).await?, 8);
        Ok(())
    });
}

#[test]
fn memory_is_granted_though_who_waits_for_it_panics() {
    const LARGE: Footprint = Footprint::new().body(128 * 1024);
    support::on_each("memory", async || {
        let all = || core::iter::from_fn(|| memory::admission().try_reserve(LARGE).ok());
        let mut held: Vec<Permit> = all().collect();
        let mut waits = Box::pin(memory::reserve(LARGE, Priority::Head, 1));
        assert!(poll_with_a_bomb(waits.as_mut()).is_pending());
        drop(held.pop());
        held.push(timeout(Duration::from_secs(20), waits).await??);
        drop(held);
        Ok(())
    });
}
