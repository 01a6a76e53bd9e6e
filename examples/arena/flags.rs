//! The command line, parsed once into validated values.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use plimsoll_examples::{RuntimeFlags, address};

/// The benchmark server of Plimsoll.
#[derive(Debug, Parser)]
#[command(name = "arena")]
pub(crate) struct Flags {
    /// Where to listen for HTTP/1.1 and, with clients that begin so, HTTP/2; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Where to listen for HTTP/2 alone; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) h2c: Option<SocketAddr>,
    #[command(flatten)]
    pub(crate) runtime: RuntimeFlags,
    /// Print what the memory goes to, and exit
    #[arg(long)]
    pub(crate) plan: bool,
    /// Write a line for each request, in common log format
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
}
