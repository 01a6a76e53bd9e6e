//! axum 0.8 on one thread of tokio.
//!
//! `peer-axum ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

#[path = "../../hyper/src/blob.rs"]
mod blob;

use std::error::Error;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use http_body_util::BodyExt;
use peer_answers::{BINARY, JSON, NOT_FOUND, OK, json};
use serde::Deserialize;

#[derive(Deserialize)]
struct Factor {
    #[serde(default = "one")]
    m: i64,
}

fn one() -> i64 {
    1
}

async fn items(Path(count): Path<usize>, Query(factor): Query<Factor>) -> Response {
    match json(count, factor.m) {
        Some(text) => ([(CONTENT_TYPE, JSON)], text).into_response(),
        None => not_found().await.into_response(),
    }
}

async fn upload(mut body: Body) -> Result<String, StatusCode> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.map_err(|_| StatusCode::BAD_REQUEST)?.data_ref().map_or(0, Bytes::len);
    }
    Ok(bytes.to_string())
}

async fn bytes(Path(bytes): Path<u64>) -> impl IntoResponse {
    ([(CONTENT_TYPE, BINARY)], Body::new(blob::Blob(bytes)))
}

/// Sends back what comes.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        if matches!(message, Message::Text(_) | Message::Binary(_)) && socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, NOT_FOUND)
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let routes = Router::new()
        .route("/pipeline", get(|| async { OK }))
        .route("/json/{count}", get(items))
        .route("/upload", post(upload))
        .route("/blob/{bytes}", get(bytes))
        .route("/ws", get(|upgrade: WebSocketUpgrade| async { upgrade.on_upgrade(echo) }))
        .fallback(not_found);
    let listener = tokio::net::TcpListener::bind(peer_answers::address()).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // A peer that goes away at once is no error of ours.
        let _gone = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, routes).await?)
}

fn main() -> Result<(), Box<dyn Error>> {
    peer_answers::load();
    // Its own server waits after a failed accept, for which it needs the time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve())
}
