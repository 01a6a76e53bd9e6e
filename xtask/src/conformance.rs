//! `cargo xtask conformance`: what the protocols ask for, against our server and others.

mod arena;
mod autobahn;
mod axum;
pub(crate) mod clients;
mod grpc;
mod h1;
mod h2spec;

use clap::ValueEnum;

use crate::cli::ConformanceFlags;

/// A suite of cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Suite {
    /// Our cases of HTTP/1.1 on nginx, hyper and h2o (our own server runs them in `cargo test`)
    H1,
    /// h2spec, the public suite of HTTP/2, on our server with each driver, and through a router of axum (needs Go to
    /// build it)
    H2spec,
    /// The Autobahn test suite for WebSocket on the arena, with each driver (needs Python 2.7 to build it)
    Autobahn,
    /// connectrpc's suite and grpc-go's interop client, on tonic's services carried by tonic's transport and by ours
    /// (needs Go to build them)
    Grpc,
    /// The tests inside the axum crate, served by us
    Axum,
    /// curl and the clients of Go, Python, node and Java, direct and through nginx and haproxy, on the arena with each
    /// driver
    Clients,
}

/// Runs the suite, or all of them.
pub(crate) fn run(flags: &ConformanceFlags) -> u8 {
    let suites = flags.suite.as_ref().map_or(Suite::value_variants(), std::slice::from_ref);
    suites
        .iter()
        .map(|suite| match suite {
            Suite::H1 => h1::run(flags),
            Suite::H2spec => h2spec::run(),
            Suite::Autobahn => autobahn::run(),
            Suite::Grpc => grpc::run(),
            Suite::Axum => axum::run(),
            Suite::Clients => clients::run(flags),
        })
        .max()
        .unwrap_or(crate::cli::EXIT_OK)
}
