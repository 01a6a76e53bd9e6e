//! Services on Plimsoll with crates that others wrote: each program of `src/bin` shows one.
//!
//! `cargo run --bin axum -- --help` says what a program takes. What they share is how they are started.
#![forbid(unsafe_code)]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use plimsoll::http::Server;
use plimsoll::{MemoryLimit, Runtime};

/// Code that was generated from `proto/hello.proto`.
pub mod hello {
    #![allow(missing_docs, clippy::pedantic)]
    tonic::include_proto!("hello");

    /// What `proto/hello.proto` says, encoded.
    pub const DESCRIPTORS: &[u8] = tonic::include_file_descriptor_set!("hello");
}

/// Any error: the program ends with it.
pub type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// Runs a program until its end, or until SIGTERM or SIGINT. Crates that ask for a runtime of tokio find one.
///
/// # Errors
///
/// What the program or the runtime fails with.
pub fn block_on(program: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(64)).signals(true).tokio_context().build()?;
    runtime.block_on(program)
}

/// A line on stdout says where a server listens. From then on errors are lines on stderr.
pub fn print_ready(server: &Server) {
    plimsoll_examples::print(&format!("listening on {}\n", server.local_addr()));
    plimsoll_examples::log_to_stderr();
}

/// Serves the router that `make` gives.
///
/// # Errors
///
/// What `make` or the server fails with.
pub fn run(listen: SocketAddr, make: impl AsyncFnOnce() -> Result<Router>) -> Result<()> {
    block_on(async {
        let router = make().await?;
        let server = Server::bind(listen)?;
        print_ready(&server);
        Ok(plimsoll_tower::serve(server, router).await?)
    })
}
