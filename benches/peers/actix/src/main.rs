//! actix-web 4 with one worker.
//!
//! `peer-actix ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::header::ContentType;
use actix_web::web::{self, Bytes, Path, Payload, Query};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use actix_ws::Message;
use futures_util::StreamExt;
use peer_answers::{BINARY, BLOB, JSON, NOT_FOUND, OK, json};
use serde::Deserialize;

#[derive(Deserialize)]
struct Factor {
    #[serde(default = "one")]
    m: i64,
}

fn one() -> i64 {
    1
}

async fn items(count: Path<usize>, factor: Query<Factor>) -> HttpResponse {
    match json(*count, factor.m) {
        Some(text) => HttpResponse::Ok().content_type(JSON).body(text),
        None => not_found().await,
    }
}

async fn upload(mut body: Payload) -> actix_web::Result<HttpResponse> {
    let mut bytes = 0;
    while let Some(piece) = body.next().await {
        bytes += piece?.len();
    }
    Ok(HttpResponse::Ok().content_type(ContentType::plaintext()).body(bytes.to_string()))
}

async fn blob(bytes: Path<u64>) -> HttpResponse {
    HttpResponse::Ok().content_type(BINARY).body(Blob(*bytes))
}

/// Sends back what comes.
async fn websocket(request: HttpRequest, body: Payload) -> actix_web::Result<HttpResponse> {
    let (response, mut session, mut messages) = actix_ws::handle(&request, body)?;
    actix_web::rt::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            let sent = match message {
                Message::Binary(bytes) => session.binary(bytes).await,
                Message::Text(text) => session.text(text).await,
                Message::Ping(bytes) => session.pong(&bytes).await,
                Message::Close(_) => return,
                _ => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(response)
}

async fn not_found() -> HttpResponse {
    HttpResponse::NotFound().content_type(ContentType::plaintext()).body(NOT_FOUND)
}

/// So many bytes are left.
struct Blob(u64);

impl MessageBody for Blob {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.0)
    }

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let piece = self.0.min(BLOB.len() as u64);
        self.0 -= piece;
        Poll::Ready((piece > 0).then(|| Ok(Bytes::from_static(&BLOB[..piece as usize]))))
    }
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    peer_answers::load();
    let routes = || {
        let ok = || async { HttpResponse::Ok().content_type(ContentType::plaintext()).body(OK) };
        App::new()
            .route("/pipeline", web::get().to(ok))
            .route("/json/{count}", web::get().to(items))
            .route("/upload", web::post().to(upload))
            .route("/blob/{bytes}", web::get().to(blob))
            .route("/ws", web::get().to(websocket))
            .default_service(web::to(not_found))
    };
    let server = HttpServer::new(routes).workers(1).backlog(4096).bind(peer_answers::address())?;
    for address in server.addrs() {
        println!("listening on http://{address}");
    }
    server.run().await
}
