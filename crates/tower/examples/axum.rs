//! A service of axum on Plimsoll: JSON, server-sent events with keep-alives, a WebSocket, an upload and static files.
//!
//! Everything but `serve` is as axum's own documentation has it. Try `curl localhost:8080/`,
//! `curl -N localhost:8080/events`, `curl -F file=@Cargo.toml localhost:8080/upload`,
//! `curl localhost:8080/files/README.md`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{ConnectInfo, Multipart, Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router, http::StatusCode};
use clap::Parser;
use plimsoll::http::Server;
use plimsoll::{MemoryLimit, Runtime};
use plimsoll_tower::ws::WebSocketUpgrade;
use tower_http::services::ServeDir;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The folder behind /files.
    #[arg(long, default_value = ".")]
    files: std::path::PathBuf,
}

type Counter = Arc<AtomicU64>;

async fn hello(ConnectInfo(peer): ConnectInfo<SocketAddr>, State(counter): State<Counter>) -> impl IntoResponse {
    let visits = 1 + counter.fetch_add(1, Ordering::Relaxed);
    Json(serde_json::json!({ "hello": peer.ip(), "visits": visits }))
}

async fn double(Path(number): Path<u32>) -> Result<String, (StatusCode, &'static str)> {
    number.checked_mul(2).map(|twice| twice.to_string()).ok_or((StatusCode::BAD_REQUEST, "at most 2147483647\n"))
}

async fn events() -> Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>> {
    let ticks = futures_util::stream::unfold(0, async |tick| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some((Ok(Event::default().data(tick.to_string())), tick + 1))
    });
    Sse::new(ticks).keep_alive(KeepAlive::default())
}

async fn echo(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|mut socket| async move {
        while let Ok(Some(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                break;
            }
        }
    })
}

async fn upload(mut parts: Multipart) -> Result<String, axum::extract::multipart::MultipartError> {
    let mut sizes = String::new();
    while let Some(part) = parts.next_field().await? {
        let name = part.file_name().unwrap_or("-").to_owned();
        sizes += &format!("{name} {}\n", part.bytes().await?.len());
    }
    Ok(sizes)
}

fn main() -> plimsoll::Result<()> {
    let flags = Flags::parse();
    let routes =
        Router::new().route("/", get(hello)).route("/double/{number}", get(double)).route("/events", get(events));
    let routes = routes.route("/echo", any(echo)).route("/upload", post(upload));
    let router = routes.nest_service("/files", ServeDir::new(flags.files)).with_state(Counter::default());
    // Keep-alives of events, and files, ask for tokio's timers and threads.
    let runtime = Runtime::builder().memory(MemoryLimit::mib(64)).signals(true).tokio_context().build()?;
    runtime.block_on(async {
        let server = Server::bind(flags.listen)?;
        println!("listening on {}", server.local_addr());
        plimsoll_tower::serve(server, router).await
    })
}
