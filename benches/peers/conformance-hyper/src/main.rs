//! hyper 1 as the server of the conformance cases: reads the body of every request but `/early`, then answers 200; 405
//! to CONNECT.
//!
//! `conformance-hyper ADDR`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// An error of the body is hyper's to answer.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    if request.method() == Method::CONNECT {
        let mut response = Response::new(Full::new(Bytes::new()));
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        return Ok(response);
    }
    let path = request.uri().path().to_owned();
    if path != "/early" {
        request.into_body().collect().await?;
    }
    let mut response = Response::new(Full::new(Bytes::from_static(b"ok\n")));
    if path == "/probe" {
        response.headers_mut().insert("seen", HeaderValue::from_static("GET /probe host=probe"));
    }
    Ok(response)
}

async fn serve(address: String) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            // What a client does wrong is no error of ours.
            let _ended = connection.await;
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(serve(address))
}
