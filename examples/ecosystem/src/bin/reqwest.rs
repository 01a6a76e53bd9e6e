//! A service that asks another one over HTTP, with reqwest and the context of tokio.
//!
//! Its bodies go through frame by frame: what the client does not read is not read from upstream. Try
//! `curl localhost:8080/any/path` beside another server on port 9000.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, header};
use clap::Parser;
use plimsoll_ecosystem::Result;
use reqwest::Client;

#[derive(Parser)]
struct Flags {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The server that is asked.
    #[arg(long, default_value = "127.0.0.1:9000")]
    upstream: SocketAddr,
}

#[derive(Clone)]
struct Upstream {
    client: Client,
    address: SocketAddr,
}

async fn forward(
    State(upstream): State<Upstream>,
    asked: Request<Body>,
) -> Result<Response<Body>, (StatusCode, String)> {
    let target = asked.uri().path_and_query().map_or("/", |target| target.as_str());
    let url = format!("http://{}{target}", upstream.address);
    let mut request = upstream.client.request(asked.method().clone(), url);
    if let Some(kind) = asked.headers().get(header::CONTENT_TYPE) {
        request = request.header(header::CONTENT_TYPE, kind);
    }
    let request = request.body(reqwest::Body::wrap_stream(asked.into_body().into_data_stream()));
    let failed = |error: reqwest::Error| {
        let status = if error.is_timeout() { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY };
        (status, format!("upstream: {error}\n"))
    };
    let answer = request.send().await.map_err(failed)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    *response.body_mut() = Body::from_stream(answer.bytes_stream());
    Ok(response)
}

fn main() -> Result<()> {
    let flags = Flags::parse();
    plimsoll_ecosystem::run(flags.listen, async || {
        let client = Client::builder().pool_max_idle_per_host(16).connect_timeout(Duration::from_secs(2)).build()?;
        Ok(Router::new().fallback(forward).with_state(Upstream { client, address: flags.upstream }))
    })
}
