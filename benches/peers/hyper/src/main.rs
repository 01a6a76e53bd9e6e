//! hyper 1 on one thread of tokio.
//!
//! `peer-hyper ADDR [--pipeline-flush]`; prints `listening on http://ADDR` when it is ready. With the flag, hyper gathers the answers to pipelined
//! requests into one write (its experimental `pipeline_flush`); without it, it is as hyper comes.
#![forbid(unsafe_code)]

mod blob;
mod body;

use std::convert::Infallible;
use std::error::Error;

use blob::Blob;
use body::Answer;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use peer_answers::{BINARY, JSON, NOT_FOUND, OK, Route, TEXT, factor, json};
use tokio::net::TcpListener;

async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    Ok(match Route::of(request.method().as_str(), request.uri().path()) {
        Some(Route::Pipeline) => whole(TEXT, OK),
        Some(Route::Json { count }) => match json(count, factor(request.uri().query())) {
            Some(text) => whole(JSON, text),
            None => not_found(),
        },
        Some(Route::Upload) => upload(request.into_body()).await,
        Some(Route::Blob { bytes }) => typed(BINARY, Answer::Blob(Blob(bytes))),
        None => not_found(),
    })
}

async fn upload(mut body: Incoming) -> Response<Answer> {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        // A peer that goes away gets no answer that counts.
        let Ok(frame) = frame else { break };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    whole(TEXT, bytes.to_string())
}

fn not_found() -> Response<Answer> {
    let mut response = whole(TEXT, NOT_FOUND);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn whole(content_type: &'static str, body: impl Into<Bytes>) -> Response<Answer> {
    typed(content_type, Answer::Whole(Full::new(body.into())))
}

fn typed(content_type: &'static str, body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

async fn serve(address: String, pipeline_flush: bool) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _gone = stream.set_nodelay(true);
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
    peer_answers::load();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let pipeline_flush = std::env::args().any(|argument| argument == "--pipeline-flush");
    runtime.block_on(serve(peer_answers::address(), pipeline_flush))
}
