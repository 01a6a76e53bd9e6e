//! hyper 1 on one thread of tokio, under tower's load shed and concurrency limit, with the routes of `cargo xtask bench
//! --overload`.
//!
//! `overload-hyper ADDR LIMIT`; prints `listening on http://ADDR` when it is ready.
#![forbid(unsafe_code)]

#[path = "../../../src/bin/overload/work.rs"]
mod work;

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::time::sleep;
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::{ServiceBuilder, ServiceExt};

use work::{Begun, Bell, Kind, PIECE, PIECE_EVERY, PIECES, Route, Work};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

static BELL: Bell = Bell::new();

async fn answer(request: Request<Incoming>, work: Work) -> Result<Answer, Infallible> {
    Ok(match Route::of(request.uri().path()) {
        Some(Route::Sleep(time)) => {
            let begun = Begun::new(Kind::Sleep);
            sleep(time).await;
            begun.finish();
            text("ok")
        }
        Some(Route::Compute(ms)) => {
            let begun = Begun::new(Kind::Compute);
            work.run(ms);
            begun.finish();
            text("ok")
        }
        Some(Route::Poll) => {
            let begun = Begun::new(Kind::Poll);
            BELL.wait().await;
            begun.finish();
            text("ok")
        }
        Some(Route::Wake) => {
            BELL.ring();
            text("ok")
        }
        Some(Route::Tiny) => {
            Begun::new(Kind::Tiny).finish();
            text("ok")
        }
        Some(Route::Stream) => Response::new(stream().boxed_unsync()),
        Some(Route::Upload) => upload(request.into_body()).await,
        Some(Route::Counts) => text(work::counts()),
        Some(Route::WebSocket) | None => with_status(StatusCode::NOT_FOUND, "not found\n"),
    })
}

/// The permit of the limit is free again before the first piece: tower holds it for the head.
fn stream() -> StreamBody<impl futures_util::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    let first = (Begun::new(Kind::Stream), PIECES);
    StreamBody::new(futures_util::stream::unfold(Some(first), async |state| {
        let (begun, left) = state?;
        sleep(PIECE_EVERY).await;
        let frame = Ok(Frame::data(Bytes::from_static(&PIECE)));
        if left > 1 {
            return Some((frame, Some((begun, left - 1))));
        }
        begun.finish();
        Some((frame, None))
    }))
}

async fn upload(mut body: Incoming) -> Answer {
    let begun = Begun::new(Kind::Upload);
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        // A peer that goes away gets no answer that counts.
        let Ok(frame) = frame else { return text("gone") };
        bytes += frame.data_ref().map_or(0, Bytes::len);
    }
    begun.finish();
    text(bytes.to_string())
}

fn text(text: impl Into<Bytes>) -> Answer {
    Response::new(Full::new(text.into()).boxed_unsync())
}

fn with_status(status: StatusCode, said: &'static str) -> Answer {
    let mut response = text(said);
    *response.status_mut() = status;
    response
}

/// What those hear for whom there is no permit.
fn busy() -> Answer {
    let mut response = with_status(StatusCode::SERVICE_UNAVAILABLE, "busy\n");
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

async fn serve(address: &str, limit: usize) -> Result<(), Box<dyn Error>> {
    let work = Work::calibrate();
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let limited = ServiceBuilder::new()
        .load_shed()
        .layer(GlobalConcurrencyLimitLayer::new(limit))
        .service(tower::service_fn(move |request| answer(request, work)));
    loop {
        // Too many open files is over when some connections are.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _gone = stream.set_nodelay(true);
        let limited = limited.clone();
        let service = service_fn(move |request: Request<Incoming>| {
            let limited = limited.clone();
            async move {
                // The counts are told whatever else there is.
                match Route::of(request.uri().path()) {
                    Some(Route::Counts) => Ok::<_, Infallible>(text(work::counts())),
                    _ => Ok(limited.oneshot(request).await.unwrap_or_else(|_overloaded| busy())),
                }
            }
        });
        tokio::spawn(async move {
            // A peer that goes away is no error of ours.
            let _ended = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, address, limit] = &words[..] else { return Err("usage: overload-hyper ADDR LIMIT".into()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(address, limit.parse()?))
}
