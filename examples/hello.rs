//! The smallest HTTP server: one async function, 64 MiB and not a byte more.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use clap::Parser;
use plimsoll::http::{Request, Response, Server};

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

#[plimsoll::main(memory = "64MiB")]
async fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let server = Server::bind(&flags.listen)?;
    println!("listening on http://{}", server.local_addr());
    server.serve(|req: Request| async move { Response::text(format!("hello {}\n", req.path())) }).await
}
