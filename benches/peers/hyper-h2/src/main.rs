//! hyper 1 on one thread of tokio, HTTP/2 with prior knowledge alone.
//!
//! `peer-hyper-h2 ADDR`; prints `listening on http://ADDR` when it is ready. It answers `GET /pipeline`.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use peer_answers::{NOT_FOUND, OK, Route, TEXT};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Streams of a connection are tasks of this thread.
#[derive(Clone, Copy)]
struct Local;

impl<F: Future + 'static> Executor<F> for Local {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(async move {
            future.await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_known = Route::of(request.method().as_str(), request.uri().path()) == Some(Route::Pipeline);
    let mut response = Response::new(Full::new(Bytes::from_static(if is_known { OK } else { NOT_FOUND }.as_bytes())));
    if !is_known {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(TEXT));
    Ok(response)
}

async fn serve(address: String) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _gone = stream.set_nodelay(true);
        let connection = http2::Builder::new(Local).serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::task::spawn_local(async move {
            // A peer that goes away is no error of ours.
            let _ended = connection.await;
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    peer_answers::load();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, serve(peer_answers::address()))
}
