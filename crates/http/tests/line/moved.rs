//! A line that is moved while a server runs under it: who waits is served by a higher one, and what is above a lower
//! one comes back while requests go on.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use plimsoll_http::{Error, Request, Response, Server};
use plimsoll_runtime::memory::{self, Priority};
use plimsoll_runtime::{Budget, Kind, MemoryLimit, pool, sleep};

use super::waiting::{ask, lends_nothing, request};
use crate::rig::memory::fill;
use crate::rig::threads::{connect, serve_until, under_line_for_all, until};

const LOW: MemoryLimit = MemoryLimit::mib(4);
const HIGH: MemoryLimit = MemoryLimit::mib(16);

async fn answer(mut req: Request) -> Result<Response, Error> {
    match req.path() {
        "/keep" => {
            let held = fill(1);
            sleep(Duration::from_secs(60)).await;
            drop(held);
            Ok(Response::text("kept"))
        }
        "/work" => {
            let lease = memory::acquire(128 << 10, Priority::Output, 1).await.map_err(Error::from)?;
            sleep(Duration::from_millis(50)).await;
            Ok(Response::text(vec![b'w'; lease.capacity() / 128]))
        }
        _ => Ok(Response::text(req.collect().await?.len().to_string())),
    }
}

#[test]
fn a_higher_line_serves_requests_that_wait_for_memory() {
    under_line_for_all("a higher line", HIGH, async |runtime| {
        runtime.budget().set_limit(LOW).expect("above the floor");
        let server = Server::bind("127.0.0.1:0")?.config(lends_nothing());
        let (address, budget) = (server.local_addr(), Arc::clone(runtime.budget()));
        let clients = move || {
            let mut keeper = connect(address);
            std::io::Write::write_all(&mut keeper, &request("/keep", 0)).expect("it is sent");
            until("all is held", || budget.charged() - budget.free() > LOW.as_bytes() / 10 * 9);
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| ask(&mut connect(address), &request("/body", 9_000), "9000")))
                    .collect();
                until("somebody waits", || budget.waiting() > 0);
                assert!(!waiting.iter().any(std::thread::ScopedJoinHandle::is_finished), "no room for them");
                let began = Instant::now();
                assert_eq!(budget.set_limit(HIGH), Ok(LOW));
                for client in waiting {
                    let answer = client.join().expect("no panic");
                    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("9000"), "{answer}");
                }
                assert!(began.elapsed() < Duration::from_secs(1), "at once: {:?}", began.elapsed());
            });
            until("nobody waits", || budget.waiting() == 0);
        };
        serve_until(server.serve(answer), clients).await
    });
}

/// Ends what others do, also when a test panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Until the process is under its line; how long that took.
fn sinks(budget: &Budget) -> Duration {
    let began = Instant::now();
    until("what is above the line comes back", || budget.credited() <= budget.limit().as_bytes());
    began.elapsed()
}

#[test]
fn a_lower_line_is_kept_soon_and_what_was_begun_is_answered() {
    under_line_for_all("a lower line", HIGH, async |runtime| {
        let server = Server::bind("127.0.0.1:0")?;
        let (address, budget) = (server.local_addr(), Arc::clone(runtime.budget()));
        let clients = move || {
            let ends = AtomicBool::new(false);
            let work = || {
                let mut answered = [0; 2];
                while !ends.load(Ordering::Acquire) {
                    let answer = ask(&mut connect(address), &request("/work", 0), &"w".repeat(1_024));
                    let is_whole = answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&"w".repeat(1_024));
                    assert!(is_whole || answer.starts_with("HTTP/1.1 503 "), "whole, or refused: {answer:.200}");
                    answered[usize::from(!is_whole)] += 1;
                }
                answered
            };
            std::thread::scope(|scope| {
                let clients: Vec<_> = (0..80).map(|_| scope.spawn(work)).collect();
                let ending = Ends(&ends);
                for round in 0..3 {
                    until("more is in use than fits the lower line", || budget.in_use() > LOW.as_bytes());
                    budget.set_limit(LOW).expect("above the floor");
                    let sank = sinks(&budget);
                    assert!(sank < Duration::from_secs(2), "{round}: {sank:?}");
                    for _ in 0..20 {
                        std::thread::sleep(Duration::from_millis(5));
                        assert!(budget.credited() <= LOW.as_bytes(), "{round}: and stays there");
                        assert!(budget.in_use() <= LOW.as_bytes(), "{round}");
                    }
                    budget.set_limit(HIGH).expect("it is higher");
                }
                drop(ending);
                let answered: Vec<_> = clients.into_iter().map(|client| client.join().expect("no panic")).collect();
                assert!(answered.iter().all(|[whole, _]| *whole > 0), "{answered:?}");
            });
            assert!(budget.set_limit(MemoryLimit::kib(64)).is_err(), "too low for what is fixed");
            assert_eq!(budget.limit(), HIGH);
        };
        serve_until(server.serve(answer), clients).await
    });
    // Outside of a server, too: what is free goes back though nothing happens.
    under_line_for_all("an idle process", HIGH, async |runtime| {
        let held: Vec<_> = core::iter::from_fn(|| pool().try_acquire(128 << 10, Kind::Buffers).ok()).collect();
        drop(held);
        runtime.budget().set_limit(LOW).expect("above the floor");
        sleep(Duration::from_millis(400)).await;
        assert!(runtime.budget().credited() <= LOW.as_bytes(), "{}", runtime.budget().credited());
        Ok(())
    });
}
