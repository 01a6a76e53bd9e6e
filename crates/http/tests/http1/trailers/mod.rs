//! Fields after bodies, both ways: on io_uring (where it works), on mio and in the simulation.

mod http1;
mod http2;

use plimsoll_http::{Error, Misuse, Request, Response, StatusCode};
use plimsoll_runtime::{Kind, Result, pool};

/// What a handler sees of its trailers: before the end of the body, after it, and when it asks again.
async fn tell(mut req: Request) -> Result<Response, Error> {
    let before = req.trailers().is_some();
    let body = req.collect().await?;
    let trailers = req.trailers();
    let fields: Vec<String> = trailers
        .iter()
        .flat_map(|trailers| trailers.iter())
        .map(|(name, value)| format!("{name}={}", value.escape_ascii()))
        .collect();
    let sum = trailers.as_ref().and_then(|trailers| trailers.get("SUM")).map(|sum| sum.escape_ascii().to_string());
    let again = req.trailers().is_some();
    Ok(Response::text(format!("[{before} {} {} {sum:?} {again}]", body.len(), fields.join(","))))
}

/// Answers with a body of `/LENGTH` bytes, of an announced length where there is a query, and with trailers; with one
/// that is not allowed where the request has `x-trailer`.
async fn summed(mut req: Request) -> Result<Response, Error> {
    let bytes: usize = req.path()[1..].parse().unwrap_or(3);
    let announced = req.query_string().map(|_| bytes as u64);
    let is_forbidden = req.header("x-trailer").is_some();
    let mut out = req.respond(Response::new(StatusCode::OK).header("trailer", "sum"), announced)?;
    let mut left = bytes;
    while left > 0 {
        let piece = left.min(PIECE.len());
        let mut lease = pool().try_acquire(piece, Kind::Buffers)?;
        left -= lease.extend(&PIECE[..piece]);
        out.write(lease).await?;
    }
    if is_forbidden {
        let finished = out.finish_with_trailers(&[("set-cookie", b"a=b")]).await;
        assert!(
            matches!(finished, Err(Error::Misuse(Misuse::Protocol(_)) | Error::Disconnected)),
            "the program's fault: {finished:?}"
        );
        return finished;
    }
    out.finish_with_trailers(&[("server-timing", b"db;dur=53"), ("sum", bytes.to_string().as_bytes())]).await
}

static PIECE: [u8; 20_000] = [b'x'; 20_000];
