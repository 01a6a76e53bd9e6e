//! hyper 1 on one thread of tokio: `GET /pipeline` is answered with `ok`, anything else with 404.
//!
//! `peer-hyper ADDR [--pipeline-flush]`; prints `listening on http://ADDR` when it is ready. With the flag, hyper gathers the answers to pipelined
//! requests into one write (its experimental `pipeline_flush`); without it, it is as hyper comes.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut response = match request.uri().path() {
        "/pipeline" => Response::new(Full::new(Bytes::from_static(b"ok"))),
        _ => {
            let mut response = Response::new(Full::new(Bytes::from_static(b"not found")));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

async fn serve(address: String, pipeline_flush: bool) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let connection = http1::Builder::new()
            .pipeline_flush(pipeline_flush)
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(async move {
            // A peer that goes away is no error of ours.
            let _ended = connection.await;
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".into());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let pipeline_flush = std::env::args().any(|argument| argument == "--pipeline-flush");
    runtime.block_on(serve(address, pipeline_flush))
}
