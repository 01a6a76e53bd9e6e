//! hyper 1 with tokio-rustls on one thread of tokio; HTTP/1.1 and HTTP/2 by ALPN.
//!
//! `peer-hyper-tls ADDR CERT KEY [--pipeline-flush]`; prints `listening on https://ADDR` when it is ready. With the flag, hyper gathers the answers to
//! pipelined requests into one write (its experimental `pipeline_flush`); without it, it is as hyper comes.
#![forbid(unsafe_code)]

#[path = "../../hyper/src/blob.rs"]
mod blob;
#[path = "../../hyper/src/body.rs"]
mod body;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use blob::Blob;
use body::Answer;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use peer_answers::{BINARY, NOT_FOUND, OK, Route, TEXT};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let whole = |text: &'static str| Answer::Whole(Full::new(Bytes::from_static(text.as_bytes())));
    let (status, kind, body) = match Route::of(request.method().as_str(), request.uri().path()) {
        Some(Route::Pipeline) => (StatusCode::OK, TEXT, whole(OK)),
        Some(Route::Blob { bytes }) => (StatusCode::OK, BINARY, Answer::Blob(Blob(bytes))),
        _ => (StatusCode::NOT_FOUND, TEXT, whole(NOT_FOUND)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, pipeline_flush: bool) -> Result<(), Box<dyn Error>> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (stream, service) = (TokioIo::new(stream), service_fn(answer));
    if is_http2 {
        http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await?;
    } else {
        http1::Builder::new().pipeline_flush(pipeline_flush).serve_connection(stream, service).await?;
    }
    Ok(())
}

async fn listen() -> Result<(), Box<dyn Error>> {
    let [address, certificate, key] = peer_secured::arguments()?;
    let pipeline_flush = std::env::args().any(|argument| argument == "--pipeline-flush");
    let acceptor = TlsAcceptor::from(Arc::new(peer_secured::config(&certificate, &key, &["h2", "http/1.1"])?));
    let listener = TcpListener::bind(&address).await?;
    println!("listening on https://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // A peer that goes away is no error of ours.
            let _ended = serve(stream, acceptor, pipeline_flush).await.map_err(drop);
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(listen())
}
