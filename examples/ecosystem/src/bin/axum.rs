//! A service of axum: JSON, server-sent events with keep-alives, a WebSocket, an upload and static files.
//!
//! Everything but `serve` is as axum's own documentation has it. Try `curl localhost:8080/`,
//! `curl -N localhost:8080/events`, `curl -F file=@Cargo.toml localhost:8080/upload`,
//! `curl localhost:8080/files/README.md`.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{ConnectInfo, Multipart, Path, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router, http::StatusCode};
use clap::Parser;
use futures_util::{Stream, stream};
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
    /// Milliseconds between two events, and between two keep-alives.
    #[arg(long, default_value = "1000")]
    tick_ms: u64,
}

type Counter = Arc<AtomicU64>;

async fn hello(ConnectInfo(peer): ConnectInfo<SocketAddr>, State(counter): State<Counter>) -> impl IntoResponse {
    let visits = 1 + counter.fetch_add(1, Ordering::Relaxed);
    Json(serde_json::json!({ "hello": peer.ip(), "visits": visits }))
}

async fn double(Path(number): Path<u32>) -> Result<String, (StatusCode, &'static str)> {
    number.checked_mul(2).map(|twice| twice.to_string()).ok_or((StatusCode::BAD_REQUEST, "at most 2147483647\n"))
}

fn events(tick: Duration) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let ticks = stream::unfold(0, move |count| async move {
        // Each event is later than the one before, so that keep-alives come between them.
        tokio::time::sleep(tick * count).await;
        Some((Ok(Event::default().data(count.to_string())), count + 1))
    });
    Sse::new(ticks).keep_alive(KeepAlive::new().interval(tick))
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

fn main() -> plimsoll_ecosystem::Result<()> {
    let Flags { listen, files, tick_ms } = Flags::parse();
    let routes = Router::new().route("/", get(hello)).route("/double/{number}", get(double));
    let routes = routes.route("/events", get(async move || events(Duration::from_millis(tick_ms))));
    let routes = routes.route("/echo", any(echo)).route("/upload", post(upload));
    let router = routes.nest_service("/files", ServeDir::new(files)).with_state(Counter::default());
    plimsoll_ecosystem::run(listen, async || Ok(router))
}
