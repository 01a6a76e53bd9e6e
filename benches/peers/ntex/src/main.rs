//! ntex 3 with one worker, on io_uring.
//!
//! `peer-ntex ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::error::Error;
use std::rc::Rc;
use std::task::{Context, Poll};

use ntex::http::body::{Body, BodySize, MessageBody};
use ntex::util::{Bytes, stream_recv};
use ntex::web::types::{Path, Payload, Query};
use ntex::web::{self, App, HttpResponse};
use peer_answers::{BINARY, BLOB, JSON, NOT_FOUND, OK, TEXT, json};
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

async fn upload(mut body: Payload) -> Result<HttpResponse, web::Error> {
    let mut bytes = 0;
    while let Some(piece) = stream_recv(&mut body).await {
        bytes += piece?.len();
    }
    Ok(HttpResponse::Ok().content_type(TEXT).body(bytes.to_string()))
}

async fn blob(bytes: Path<u64>) -> HttpResponse {
    HttpResponse::Ok().content_type(BINARY).body(Body::from_message(Blob(*bytes)))
}

async fn not_found() -> HttpResponse {
    HttpResponse::NotFound().content_type(TEXT).body(NOT_FOUND)
}

/// So many bytes are left.
struct Blob(u64);

impl MessageBody for Blob {
    fn size(&self) -> BodySize {
        BodySize::Sized(self.0)
    }

    fn poll_next_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Rc<dyn Error>>>> {
        let piece = self.0.min(BLOB.len() as u64);
        self.0 -= piece;
        Poll::Ready((piece > 0).then(|| Ok(Bytes::from_static(&BLOB[..piece as usize]))))
    }
}

#[ntex::main]
async fn main() -> std::io::Result<()> {
    peer_answers::load();
    let address = peer_answers::address();
    let routes = async || {
        let ok = async || HttpResponse::Ok().content_type(TEXT).body(OK);
        App::new()
            .route("/pipeline", web::get().to(ok))
            .route("/json/{count}", web::get().to(items))
            .route("/upload", web::post().to(upload))
            .route("/blob/{bytes}", web::get().to(blob))
            .default_service(web::to(not_found))
    };
    let server = web::HttpServer::new(routes).workers(1).backlog(4096).bind(&address)?;
    println!("listening on http://{address}");
    server.run().await
}
