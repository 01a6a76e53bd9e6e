//! actix-web 4 over rustls with one worker; HTTP/1.1 and HTTP/2 by ALPN.
//!
//! `peer-actix-tls ADDR CERT KEY`; prints `listening on https://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use actix_web::body::{BodySize, MessageBody};
use actix_web::http::header::ContentType;
use actix_web::web::{self, Bytes, Path};
use actix_web::{App, HttpResponse, HttpServer};
use peer_answers::{BINARY, BLOB, NOT_FOUND, OK};

async fn blob(bytes: Path<u64>) -> HttpResponse {
    HttpResponse::Ok().content_type(BINARY).body(Blob(*bytes))
}

async fn not_found() -> HttpResponse {
    HttpResponse::NotFound().content_type(ContentType::plaintext()).body(NOT_FOUND)
}

/// As the others: a connection that waits is not closed while it is looked at.
const IDLE_MAX: Duration = Duration::from_secs(600);

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
async fn main() -> Result<(), Box<dyn Error>> {
    let [address, certificate, key] = peer_secured::arguments()?;
    // It puts the protocols of ALPN there itself.
    let config = peer_secured::config(&certificate, &key, &[])?;
    let routes = || {
        let ok = || async { HttpResponse::Ok().content_type(ContentType::plaintext()).body(OK) };
        App::new()
            .route("/pipeline", web::get().to(ok))
            .route("/blob/{bytes}", web::get().to(blob))
            .default_service(web::to(not_found))
    };
    let server = HttpServer::new(routes).workers(1).backlog(4096).keep_alive(IDLE_MAX).bind_rustls_0_23(address, config)?;
    for address in server.addrs() {
        println!("listening on https://{address}");
    }
    Ok(server.run().await?)
}
