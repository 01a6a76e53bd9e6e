//! A TCP echo server with owned leases: what was received is sent back from the same buffer, without a copy.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use clap::Parser;
use plimsoll::net::{TcpListener, TcpStream};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: String,
}

#[plimsoll::main(memory = "64MiB")]
async fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let listener = TcpListener::bind(&flags.listen)?;
    println!("listening on {}", listener.local_addr());
    listener.serve(echo).await
}

/// Sends back what comes until the peer ends its half; then ends ours.
async fn echo(mut stream: TcpStream) -> plimsoll::Result<()> {
    while let Some(lease) = stream.recv().await? {
        stream.send_all(lease).await?;
    }
    stream.shutdown_write().await
}
