//! A push server: what is posted goes to everybody who listens, over WebSockets (`/ws`) and server-sent events
//! (`/events`).
//!
//! ```text
//! cargo run --release --example push -- --slow close
//! curl -N http://127.0.0.1:8080/events
//! curl -d 'all hands' http://127.0.0.1:8080/publish
//! ```

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use plimsoll::http::{Error, Event, Hub, HubConfig, Request, Response, Server, SlowConsumer, StatusCode};
use plimsoll_examples::{RuntimeFlags, address, print_ready};

#[derive(Debug, Parser)]
#[command(name = "push")]
struct Flags {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,
    /// What happens to a message for a listener whose queue is full
    #[arg(long, value_enum, default_value = "drop-oldest")]
    slow: Slow,
    /// Messages that may wait for a listener, 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    queue: u32,
    #[command(flatten)]
    runtime: RuntimeFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Slow {
    DropNewest,
    DropOldest,
    Close,
}

async fn answer(hub: Hub, mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/ws" => hub.join_websocket(&request),
        "/events" => hub.join_events(request).await,
        "/publish" => {
            let body = request.collect().await?;
            let number = match std::str::from_utf8(&body) {
                Ok(text) => hub.publish(&Event::data(text))?,
                Err(_) => hub.publish_binary(&body)?,
            };
            Ok(Response::text(format!("{number}\n")))
        }
        "/stats" => {
            let (stats, charged) = (hub.stats(), plimsoll::budget().charged());
            Ok(Response::text(format!(
                "members {}\npublished {}\nsent {}\ndropped {}\nclosed_slow {}\nheld_messages {}\nheld_bytes {}\ncharged_bytes {charged}\n",
                stats.members,
                stats.published_total,
                stats.sent_total,
                stats.dropped_total,
                stats.closed_slow_total,
                stats.held_messages,
                stats.held_bytes,
            )))
        }
        _ => Ok(Response::text("not here\n").with_status(StatusCode::NOT_FOUND)),
    }
}

fn main() -> ExitCode {
    plimsoll_examples::main(|flags: &Flags| {
        let slow = match flags.slow {
            Slow::DropNewest => SlowConsumer::DropNewest,
            Slow::DropOldest => SlowConsumer::DropOldest,
            Slow::Close => SlowConsumer::Close,
        };
        let config = HubConfig { slow, queue_messages_max: flags.queue, ..HubConfig::default() };
        flags.runtime.run(async |runtime| {
            let (server, hub) = (Server::bind(flags.listen)?, Hub::new(config)?);
            print_ready(server.local_addr(), runtime);
            Ok(server.serve(move |request| answer(hub.clone(), request)).await?)
        })
    })
}
