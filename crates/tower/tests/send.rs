//! Handlers whose futures stay on their worker, as axum takes them: `#[plimsoll::send]`.

#![forbid(unsafe_code)]

#[path = "../../http/tests/rig/mod.rs"]
mod rig;

use core::time::Duration;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use plimsoll_http::Server;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Spawner, sleep, spawn, worker_index};
use rig::{on_each, talk};

/// Counts where it is dropped: on the worker of its request, or elsewhere.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

struct Noted(Dropped, usize);

impl Drop for Noted {
    fn drop(&mut self) {
        assert_eq!(worker_index(), self.1, "a handler ends on its worker");
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// It awaits a timer of its worker, beside what is not to be shared.
#[plimsoll::send]
async fn slow(State(dropped): State<Dropped>, Path((name, millis)): Path<(String, u64)>) -> Result<String, StatusCode> {
    let _noted = Noted(dropped, worker_index());
    let turns = Rc::new(Cell::new(0));
    for _ in 0..3 {
        sleep(Duration::from_millis(millis)).await;
        turns.set(turns.get() + 1);
    }
    let other = spawn(async { 1 }).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let more = other.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(format!("hello {name} after {}", turns.get() + more))
}

#[test]
fn a_handler_that_is_not_send_answers_and_ends_on_its_worker() {
    on_each("send", async || {
        let dropped = Dropped::default();
        let router = Router::new().route("/{name}/{millis}", get(slow)).with_state(dropped.clone());
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = spawn(plimsoll_tower::serve(server, router))?;
        let request = b"GET /you/2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = talk(address, &[request], None).await?;
        assert!(answer.ends_with("\r\n\r\nhello you after 4"), "{answer}");
        assert_eq!(dropped.0.load(Ordering::Relaxed), 1);
        // A client that leaves ends it.
        let mut client = TcpStream::connect(address).await?;
        client.send_bytes(b"GET /nobody/600000 HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        sleep(Duration::from_millis(20)).await;
        drop(client);
        while dropped.0.load(Ordering::Relaxed) < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        Spawner::current().stop();
        serving.await.expect("no panic")
    });
}
