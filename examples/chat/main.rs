//! A chat with its page: one hub for everybody, over WebSockets, and over server-sent events (`curl -N .../events`) for
//! those who only listen.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser;
use plimsoll::http::{
    CloseCode, Error, Event, Hub, HubConfig, HubHandler, Incoming, Member, MemberId, Request, Response, Server,
    StatusCode,
};
use plimsoll_examples::{RuntimeFlags, address, print_ready};
use serde_json::{Value, json};

const NAME_CHARS_MAX: usize = 40;

#[derive(Debug, Parser)]
#[command(name = "chat")]
struct Flags {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: SocketAddr,
    #[command(flatten)]
    runtime: RuntimeFlags,
}

/// Who is there. A page sends `{"name":"Ann"}` first, then `{"say":"hello"}`; all get `{"who":["Ann"]}` and
/// `{"name":"Ann","said":"hello"}`.
#[derive(Default)]
struct Room(Mutex<BTreeMap<MemberId, String>>);

impl Room {
    /// Changes who is there, and tells all if that was a change.
    fn change(&self, hub: &Hub, change: impl FnOnce(&mut BTreeMap<MemberId, String>) -> bool) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut names) {
            tell(hub, &json!({ "who": names.values().collect::<Vec<_>>() }));
        }
    }
}

fn tell(hub: &Hub, news: &Value) {
    // At the memory line nobody is told.
    let _published = hub.publish(&Event::data(&news.to_string()));
}

impl HubHandler for Room {
    fn message(&self, member: &Member<'_>, message: Incoming<'_>) {
        let Incoming::Text(text) = message else { return member.close(CloseCode::UNSUPPORTED) };
        let word: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(name) = word["name"].as_str() {
            let name = name.trim().chars().take(NAME_CHARS_MAX).collect();
            return self.change(member.hub(), |names| names.insert(member.id(), name).is_none());
        }
        let name = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&member.id()).cloned();
        match (name, word["say"].as_str()) {
            (Some(name), Some(text)) => tell(member.hub(), &json!({ "name": name, "said": text.trim() })),
            _ => member.close(CloseCode::POLICY),
        }
    }

    fn left(&self, hub: &Hub, member: MemberId) {
        self.change(hub, |names| names.remove(&member).is_some());
    }
}

async fn answer(hub: Hub, request: Request) -> Result<Response, Error> {
    match request.path() {
        "/" => Response::new(StatusCode::OK)
            .body(include_str!("page.html"))
            .try_header("Content-Type", "text/html; charset=utf-8"),
        "/ws" => hub.join_websocket(&request),
        "/events" => hub.join_events(request).await,
        _ => Ok(Response::text("not here\n").with_status(StatusCode::NOT_FOUND)),
    }
}

fn main() -> ExitCode {
    plimsoll_examples::main(|flags: &Flags| {
        flags.runtime.run(async |runtime| {
            let server = Server::bind(flags.listen)?;
            let hub =
                Hub::with_handler(HubConfig { message_bytes_max: 8_192, ..HubConfig::default() }, Room::default())?;
            print_ready(server.local_addr(), runtime);
            Ok(server.serve(move |request| answer(hub.clone(), request)).await?)
        })
    })
}
