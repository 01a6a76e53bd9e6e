//! The programs against what they are made for: each is a process of its own, and so are a Redis, a PostgreSQL and a
//! NATS server, where they are installed. Ports are free ones, and data is in a folder that goes at the end.

#![forbid(unsafe_code)]

mod axum;
mod chat_nats;
mod databases;
mod grpc;
mod nats;
mod process;
mod reqwest;

use std::future::Future;

/// Runs a client on tokio's own runtime.
fn client<F: Future>(talk: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("it starts");
    runtime.block_on(async { tokio::time::timeout(process::WAIT_MAX, talk).await.expect("it does not take for ever") })
}
