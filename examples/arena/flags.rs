//! The command line, parsed once into validated values.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use clap::error::ErrorKind;
use plimsoll::{Builder, DriverChoice, MemoryLimit, Runtime};

/// The benchmark server of Plimsoll.
#[derive(Debug, Parser)]
#[command(name = "arena")]
pub(crate) struct Flags {
    /// Where to listen for HTTP/1.1; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Workers, 1 to 1024 [default: the processors this process may use]
    #[arg(long, value_name = "N", value_parser = workers)]
    pub(crate) workers: Option<usize>,
    /// The memory line, with the unit B, KiB, MiB or GiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) memory: MemoryLimit,
    /// The driver: auto, uring or mio
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub(crate) driver: DriverChoice,
    /// Print what the memory goes to, and exit
    #[arg(long)]
    pub(crate) plan: bool,
    /// Write a line for each request, in common log format
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// To serve, or to print the plan.
    Run(Flags),
    /// The text of `--help`.
    Help(String),
    /// Nothing that is understood: why, in one line.
    Wrong(String),
}

pub(crate) fn parse() -> Parsed {
    match Flags::try_parse() {
        Ok(flags) => Parsed::Run(flags),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Parsed::Help(error.to_string()),
        Err(error) => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default();
            Parsed::Wrong(line.strip_prefix("error: ").unwrap_or(line).to_owned())
        }
    }
}

impl Flags {
    /// The runtime that was asked for.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Runtime::builder().memory(self.memory).driver(self.driver).signals(true);
        match self.workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "an address is IP:PORT, such as 127.0.0.1:8080 or [::1]:8080")
}

fn workers(text: &str) -> Result<usize, &'static str> {
    let workers = text.parse().ok().filter(|workers| (1..=1_024).contains(workers));
    workers.ok_or("the number of workers is between 1 and 1024")
}
