//! Several listeners of one server, and servers that are stopped while their runtime goes on: on io_uring (where it
//! works), on mio and in the simulation.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Request, Server};
use plimsoll_runtime::net::{TcpStream, UnixStream};
use plimsoll_runtime::{Runtime, sleep, spawn, spawn_on, workers};

use crate::rig::{fresh_unix_address, on_each, read, talk, until};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

async fn hello(_: Request) -> &'static str {
    "hello"
}

#[test]
fn all_listeners_of_a_server_have_the_same_requests_counts_and_drain() {
    on_each("several listeners", async || {
        let at = fresh_unix_address();
        let server = Server::bind("127.0.0.1:0")?.also_bind("127.0.0.1:0")?.also_bind(at)?;
        let addresses: Vec<_> = server.local_addresses().collect();
        assert_eq!(addresses.len(), 3);
        let (counters, handle) = (server.counters(), server.handle());
        let serving = spawn(server.serve(hello))?;
        for address in addresses.iter().filter_map(|address| address.ip()) {
            assert!(talk(address, &[LAST], None).await?.ends_with("hello"));
        }
        let mut idle = UnixStream::connect(at).await?;
        idle.send_static(REQUEST).await?;
        assert!(read(&mut idle, Some(b"hello")).await?.starts_with("HTTP/1.1 200 "));
        assert_eq!(counters.totals().requests_total, 3);
        handle.stop();
        serving.await.expect("no panic")?;
        assert_eq!(read(&mut idle, None).await?, "", "it was closed");
        for address in addresses.iter().filter_map(|address| address.ip()) {
            assert!(TcpStream::connect(address).await.is_err(), "nobody listens at {address}");
        }
        Ok(())
    });
}

#[test]
fn a_server_that_is_stopped_answers_what_it_has_begun_and_leaves_others_alone() {
    on_each("one of two", async || {
        let (first, second) = (Server::bind("127.0.0.1:0")?, Server::bind("127.0.0.1:0")?);
        let (first_at, second_at) = (first.local_addr(), second.local_addr());
        let (first_handle, second_handle) = (first.handle(), second.handle());
        let asked = first.handle();
        let slow = move |_: Request| {
            let asked = asked.clone();
            async move {
                while !asked.is_stopping() {
                    sleep(Duration::from_millis(1)).await;
                }
                // The worker hears of it, too.
                sleep(Duration::from_millis(2)).await;
                "slow"
            }
        };
        let (counters, others) = (first.counters(), second.counters());
        let (first, second) = (spawn(first.serve(slow))?, spawn(second.serve(hello))?);
        let mut begun = TcpStream::connect(first_at).await?;
        begun.send_static(REQUEST).await?;
        until("it is begun", || counters.totals().requests_total == 1).await;
        first_handle.stop();
        assert!(first_handle.is_stopping() && !second_handle.is_stopping());
        let answer = read(&mut begun, None).await?;
        assert!(answer.to_lowercase().contains("connection: close") && answer.ends_with("slow"), "{answer}");
        first.await.expect("no panic")?;
        assert!(talk(second_at, &[LAST], None).await?.ends_with("hello"));
        assert_eq!(others.totals().requests_total, 1);
        // A second time means nothing.
        first_handle.stop();
        second_handle.stop();
        second.await.expect("no panic")
    });
}

#[test]
fn of_two_that_count_together_one_may_end_while_the_other_is_at_work() {
    on_each("two that count together", async || {
        let first = Server::bind("127.0.0.1:0")?;
        let second = Server::bind("127.0.0.1:0")?.count_with(first.counters());
        let (first_handle, second_handle, address) = (first.handle(), second.handle(), second.local_addr());
        let has_ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&has_ended);
        let stops = move |_: Request| {
            let (first, seen) = (first_handle.clone(), Arc::clone(&seen));
            async move {
                first.stop();
                until("the first has ended", || seen.load(Ordering::Relaxed)).await;
                "hello"
            }
        };
        let (first, second) = (spawn(first.serve(hello))?, spawn(second.serve(stops))?);
        let asking = spawn(async move { talk(address, &[LAST], None).await })?;
        first.await.expect("no panic")?;
        has_ended.store(true, Ordering::Relaxed);
        assert!(asking.await.expect("no panic")?.ends_with("hello"));
        second_handle.stop();
        second.await.expect("no panic")
    });
}

#[test]
fn a_serving_future_that_is_dropped_ends_its_server_at_every_listener() {
    on_each("a dropped future", async || {
        let server = Server::bind("127.0.0.1:0")?.also_bind("127.0.0.1:0")?;
        let addresses: Vec<_> = server.local_addresses().filter_map(|address| address.ip()).collect();
        let serving = spawn(server.serve(hello))?;
        let mut idle = TcpStream::connect(addresses[1]).await?;
        idle.send_static(REQUEST).await?;
        assert!(read(&mut idle, Some(b"hello")).await?.starts_with("HTTP/1.1 200 "));
        drop(serving.abort_on_drop());
        assert_eq!(read(&mut idle, None).await?, "", "it was closed");
        for address in addresses {
            assert!(TcpStream::connect(address).await.is_err(), "nobody listens at {address}");
        }
        Ok(())
    });
}

#[test]
fn a_future_stops_its_server() {
    on_each("a future", async || {
        let waker = Rc::new(RefCell::new(None));
        let is_ready = Rc::new(core::cell::Cell::new(false));
        let (asked, ready) = (Rc::clone(&waker), Rc::clone(&is_ready));
        let stop = poll_fn(move |cx| {
            *asked.borrow_mut() = Some(cx.waker().clone());
            if ready.get() { Poll::Ready(()) } else { Poll::Pending }
        });
        let server = Server::bind("127.0.0.1:0")?.with_graceful_shutdown(stop);
        let address = server.local_addr();
        let serving = spawn(server.serve(hello))?;
        assert!(talk(address, &[LAST], None).await?.ends_with("hello"));
        is_ready.set(true);
        waker.borrow_mut().take().map(core::task::Waker::wake).expect("it was asked");
        serving.await.expect("no panic")
    });
}

#[test]
fn every_worker_of_a_server_stops() {
    let runtime = Runtime::builder().workers(3).build().expect("a runtime starts");
    runtime
        .block_on(async {
            let server = Server::bind("127.0.0.1:0")?;
            let (address, handle) = (server.local_addr(), server.handle());
            let serving = spawn(server.serve(hello))?;
            assert!(talk(address, &[LAST], None).await?.ends_with("hello"));
            // From another worker than the one that serves here.
            let stops = spawn_on(workers() - 1, move || async move { handle.stop() })?;
            stops.await?;
            serving.await.expect("no panic")
        })
        .expect("it stops");
    assert!(runtime.shutdown().is_clean());
}
