//! axum 0.8 on one thread of tokio, under tower's load shed and concurrency limit, with the routes of `cargo xtask
//! bench --overload`.
//!
//! `overload-axum ADDR LIMIT`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

#[path = "../../../src/bin/overload/work.rs"]
#[allow(dead_code, reason = "axum has a router of its own")]
mod work;

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::error_handling::HandleErrorLayer;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http_body_util::BodyExt;
use tokio::time::sleep;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{BoxError, ServiceBuilder};

use work::{Begun, Bell, Kind, PIECE, PIECE_EVERY, PIECES, Work};

static BELL: Bell = Bell::new();

async fn sleeps(Path(ms): Path<u64>) -> &'static str {
    let begun = Begun::new(Kind::Sleep);
    sleep(Duration::from_millis(ms)).await;
    begun.finish();
    "ok"
}

async fn computes(Path(ms): Path<u64>, State(work): State<Work>) -> &'static str {
    let begun = Begun::new(Kind::Compute);
    work.run(ms);
    begun.finish();
    "ok"
}

async fn polls() -> &'static str {
    let begun = Begun::new(Kind::Poll);
    BELL.wait().await;
    begun.finish();
    "ok"
}

async fn wakes() -> &'static str {
    BELL.ring();
    "ok"
}

async fn tiny() -> &'static str {
    Begun::new(Kind::Tiny).finish();
    "ok"
}

/// The permit of the limit is free again before the first piece: tower holds it for the head.
async fn streams() -> Body {
    let first = (Begun::new(Kind::Stream), PIECES);
    Body::from_stream(futures_util::stream::unfold(Some(first), async |state| {
        let (begun, left) = state?;
        sleep(PIECE_EVERY).await;
        let piece = Ok::<_, Infallible>(Bytes::from_static(&PIECE));
        if left > 1 {
            return Some((piece, Some((begun, left - 1))));
        }
        begun.finish();
        Some((piece, None))
    }))
}

async fn uploads(mut body: Body) -> Result<String, StatusCode> {
    let begun = Begun::new(Kind::Upload);
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.map_err(|_| StatusCode::BAD_REQUEST)?.data_ref().map_or(0, Bytes::len);
    }
    begun.finish();
    Ok(bytes.to_string())
}

/// Sends back what comes. It ends by itself when its peer closes it.
async fn echoes(mut socket: WebSocket) {
    let begun = Begun::new(Kind::WebSocket);
    while let Some(Ok(message)) = socket.recv().await {
        match message {
            Message::Close(_) => begun.finish(),
            Message::Text(_) | Message::Binary(_) => {
                if socket.send(message).await.is_ok() {
                    continue;
                }
            }
            Message::Ping(_) | Message::Pong(_) => continue,
        }
        break;
    }
    // The answer to a close goes out with the next receive.
    let _closed = socket.recv().await;
}

/// What those hear for whom there is no permit.
async fn busy(_overloaded: BoxError) -> impl IntoResponse {
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], "busy\n")
}

async fn serve(address: &str, limit: usize) -> Result<(), Box<dyn Error>> {
    // One limit for all routes: that of `concurrency_limit` would be one for each.
    let limits = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(busy))
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(limit));
    let routes = Router::new()
        .route("/sleep/{ms}", get(sleeps))
        .route("/compute/{ms}", get(computes))
        .route("/stream", get(streams))
        .route("/upload", post(uploads))
        .route("/poll", get(polls))
        .route("/wake", get(wakes))
        .route("/ws", get(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(echoes) }))
        .route("/tiny", get(tiny))
        .layer(limits)
        // The counts are told whatever else there is.
        .route("/counts", get(|| async { work::counts() }))
        .with_state(Work::calibrate());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // A peer that goes away at once is no error of ours.
        let _gone = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, routes).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, address, limit] = &words[..] else { return Err("usage: overload-axum ADDR LIMIT".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(address, limit.parse()?))
}
