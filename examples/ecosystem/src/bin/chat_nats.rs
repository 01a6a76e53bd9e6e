//! A chat over several processes: each has a hub for its own members, and NATS carries messages between the hubs.
//!
//! A message reaches each member at most once, as NATS promises no more: what a process misses of another, because the
//! server was away or it was too slow, it sees by the numbers that each process gives its messages, counts (`/stats`)
//! and shows (`{"lost": 3}`). `websocat ws://localhost:8080/ws` in several terminals, and on several ports.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_nats::{Client, ConnectOptions, Subscriber};
use clap::Parser;
use futures_util::StreamExt;
use plimsoll::http::{Event, Hub, HubConfig, HubHandler, Incoming, Member, Request, Router, Server};
use plimsoll::http::{Sequences, SlowConsumer, Subscription};
use plimsoll_ecosystem::Result;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where the NATS server listens.
    #[arg(long, default_value = "127.0.0.1:4222")]
    nats: SocketAddr,
}

/// What a member says goes to all.
struct Room;

impl HubHandler for Room {
    fn message(&self, member: &Member<'_>, message: Incoming<'_>) {
        if let Incoming::Text(text) = message {
            // At the memory line nobody is told.
            let _published = member.hub().publish(&Event::data(text));
        }
    }
}

/// What went out and came in, and what did not.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    not_sent: AtomicU64,
    received: AtomicU64,
    lost: AtomicU64,
}

/// Carries what is published here to the others, each with this process's name and a number. While the server is away,
/// async-nats takes 64 messages and 64 KiB; then this waits, the queue of the hub fills, and what finds no place there
/// is a gap in the numbers.
async fn carry_out(nats: Client, mut tap: Subscription, counts: Arc<Counts>) -> Result<()> {
    let name = nats.new_inbox();
    loop {
        let post = tap.recv().await?;
        let message = format!("{name} {} {}", tap.position(), post.as_text().unwrap_or_default());
        nats.publish("chat", message.into()).await?;
        counts.sent.fetch_add(1, Relaxed);
        counts.not_sent.fetch_add(tap.take_missed(), Relaxed);
    }
}

/// A message: of which process, its number, and what was said.
fn parsed(payload: &[u8]) -> Option<(&str, u64, &str)> {
    let (name, rest) = str::from_utf8(payload).ok()?.split_once(' ')?;
    let (number, text) = rest.split_once(' ')?;
    Some((name, number.parse().ok()?, text))
}

/// Brings in what others publish. What is not newer than the last of its process was here before.
async fn bring_in(mut messages: Subscriber, hub: Hub, counts: Arc<Counts>) {
    let mut sequences = Sequences::new(1_000);
    while let Some(message) = messages.next().await {
        let Some((name, number, text)) = parsed(&message.payload) else { continue };
        let Some(lost) = sequences.note(name, number) else { continue };
        if lost > 0 {
            counts.lost.fetch_add(lost, Relaxed);
            let _shown = hub.post_from_elsewhere(&Event::data(&format!("{{\"lost\": {lost}}}")));
        }
        counts.received.fetch_add(1, Relaxed);
        let _published = hub.post_from_elsewhere(&Event::data(text));
    }
}

async fn serve(flags: Flags) -> Result<()> {
    // Commands to the server, and messages of the subscription, that wait at most. We do not hear ourselves.
    let options = ConnectOptions::new().client_capacity(64).subscription_capacity(256).no_echo();
    let nats = options.connect(flags.nats.to_string()).await?;
    let messages = nats.subscribe("chat").await?;
    nats.flush().await?;
    let config = HubConfig { slow: SlowConsumer::DropOldest, message_bytes_max: 8_192, ..HubConfig::default() };
    let (hub, counts) = (Hub::with_handler(config, Room)?, Arc::<Counts>::default());
    plimsoll::spawn(bring_in(messages, hub.clone(), counts.clone()))?;
    let carried = carry_out(nats, hub.tap()?, counts.clone());
    plimsoll::spawn(async { tracing::error!(ended = ?carried.await, "nothing is carried out any more") })?;
    let server = Server::bind(flags.listen)?;
    plimsoll_ecosystem::print_ready(&server);
    let routes = Router::with_state((hub, counts))
        .get("/ws", async |request: Request, (hub, _): (Hub, Arc<Counts>)| hub.join_websocket(&request))
        .get("/stats", async |_: Request, (_, counts): (Hub, Arc<Counts>)| format!("{counts:?}\n"));
    Ok(server.serve(routes).await?)
}

fn main() -> Result<()> {
    plimsoll_ecosystem::block_on(serve(Flags::parse()))
}
