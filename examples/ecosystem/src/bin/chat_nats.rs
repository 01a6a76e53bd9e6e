//! A chat over several processes: each has a hub for its own members, and NATS carries messages between the hubs.
//!
//! A message reaches each member at most once, as NATS promises no more: what a process misses of another, because the
//! server was away or it was too slow, it sees by the numbers that each process gives its messages, counts (`/stats`)
//! and shows (`{"lost": 3}`). `websocat ws://localhost:8080/ws` in several terminals, and on several ports.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::{Client, ConnectOptions, Message, Subscriber};
use clap::Parser;
use futures_util::StreamExt;
use plimsoll::http::{
    Error, Event, Hub, HubConfig, HubHandler, Incoming, Member, Request, Response, Router, Server, SlowConsumer,
    Subscription,
};
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

/// Processes whose last number is known.
const PROCESSES_MAX: usize = 1_000;

/// Carries what is published here to the others, each with this process's name and a number. While the server is away,
/// async-nats takes 64 messages and 64 KiB; then this waits, the queue of the hub fills, and what finds no place there
/// is a gap in the numbers.
async fn carry_out(nats: Client, mut tap: Subscription, counts: Arc<Counts>) -> Result<()> {
    let (name, mut number) = (nats.new_inbox(), 0);
    loop {
        let post = tap.recv().await?;
        let missed = tap.take_missed();
        counts.not_sent.fetch_add(missed, Ordering::Relaxed);
        number += 1 + missed;
        nats.publish("chat", format!("{name} {number} {}", post.as_text().unwrap_or_default()).into()).await?;
        counts.sent.fetch_add(1, Ordering::Relaxed);
    }
}

/// Brings in what others publish. What is not newer than the last of its process was here before.
async fn bring_in(mut messages: Subscriber, hub: Hub, counts: Arc<Counts>) {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    while let Some(Message { payload, .. }) = messages.next().await {
        let mut words = str::from_utf8(&payload).unwrap_or_default().splitn(3, ' ');
        let (Some(name), Some(Ok(number)), Some(text)) =
            (words.next(), words.next().map(str::parse::<u64>), words.next())
        else {
            continue;
        };
        let before = last.get(name).copied().unwrap_or(number.saturating_sub(1));
        if number <= before {
            continue;
        }
        if last.insert(name.to_owned(), number).is_none() && last.len() > PROCESSES_MAX {
            last.pop_first();
        }
        let lost = number - before - 1;
        if lost > 0 {
            counts.lost.fetch_add(lost, Ordering::Relaxed);
            let _shown = hub.post_from_elsewhere(&Event::data(&format!("{{\"lost\": {lost}}}")));
        }
        counts.received.fetch_add(1, Ordering::Relaxed);
        let _published = hub.post_from_elsewhere(&Event::data(text));
    }
}

#[derive(Clone)]
struct Chat {
    hub: Hub,
    counts: Arc<Counts>,
}

async fn join(request: Request, chat: Chat) -> Result<Response, Error> {
    chat.hub.join_websocket(&request)
}

async fn stats(_request: Request, chat: Chat) -> String {
    format!("{:?}\n", chat.counts)
}

async fn serve(flags: Flags) -> Result<()> {
    // Commands to the server, and messages of the subscription, that wait at most. We do not hear ourselves.
    let options = ConnectOptions::new().client_capacity(64).subscription_capacity(256).no_echo();
    let nats = options.connect(flags.nats.to_string()).await?;
    let messages = nats.subscribe("chat").await?;
    nats.flush().await?;
    let config = HubConfig { slow: SlowConsumer::DropOldest, message_bytes_max: 8_192, ..HubConfig::default() };
    let chat = Chat { hub: Hub::with_handler(config, Room)?, counts: Arc::default() };
    plimsoll::spawn(bring_in(messages, chat.hub.clone(), chat.counts.clone()))?;
    let carrying = carry_out(nats, chat.hub.tap()?, chat.counts.clone());
    plimsoll::spawn(async {
        if let Err(error) = carrying.await {
            tracing::error!(%error, "nothing is carried out any more");
        }
    })?;
    let server = Server::bind(flags.listen)?;
    plimsoll_ecosystem::print_ready(&server);
    Ok(server.serve(Router::with_state(chat).get("/ws", join).get("/stats", stats)).await?)
}

fn main() -> Result<()> {
    plimsoll_ecosystem::block_on(serve(Flags::parse()))
}
