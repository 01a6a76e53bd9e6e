//! The handlers of the simulated server.

use core::time::Duration;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use plimsoll::fs::OpenOptions;
use plimsoll::http::{Error, Request, Response, StatusCode};
use plimsoll::sleep;

/// What handlers count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) started: AtomicU64,
    /// Handlers that returned.
    pub(crate) answered: AtomicU64,
    /// Handlers that returned what nobody could be sent any more, perhaps.
    pub(crate) unheard: AtomicU64,
    /// Handlers that were dropped before they returned.
    pub(crate) dropped: AtomicU64,
    /// Handlers that saw a body that was not what their path announced.
    pub(crate) wrong: AtomicU64,
    /// Requests of HTTP/2 clients that go away at a time of their own.
    pub(crate) deserted: AtomicU64,
    /// Of these, handlers that had run for less than what is begun is protected for.
    pub(crate) early: AtomicU64,
    pub(crate) protection: Duration,
    /// Files that were made.
    pub(crate) files: AtomicU64,
    /// Clients that may end their exchanges before the server does.
    pub(crate) at_fault: AtomicU64,
    /// What clients saw that do not.
    pub(crate) whole: AtomicU64,
    pub(crate) midway: AtomicU64,
}

/// One handler's run.
struct Pass {
    tally: Arc<Tally>,
    begun: plimsoll::Instant,
    returned: bool,
}

impl Drop for Pass {
    fn drop(&mut self) {
        let count = if self.returned { &self.tally.answered } else { &self.tally.dropped };
        count.fetch_add(1, Ordering::Relaxed);
        let is_early = !self.returned && plimsoll::now().since(self.begun) < self.tally.protection;
        self.tally.early.fetch_add(is_early.into(), Ordering::Relaxed);
    }
}

/// Byte `at` of every body.
fn pattern(at: usize) -> u8 {
    b'a' + (at % 251 % 26) as u8
}

/// A body of so many bytes.
pub(crate) fn body(bytes: usize) -> Vec<u8> {
    LONGEST[..bytes].to_vec()
}

/// Whether `bytes` are what a body has at `at`.
fn is_body(bytes: &[u8], at: usize) -> bool {
    LONGEST.get(at..at + bytes.len()) == Some(bytes)
}

const BODY_BYTES_MAX: usize = 100_000;

/// Made once: a sweep needs millions of them.
static LONGEST: LazyLock<Vec<u8>> = LazyLock::new(|| (0..BODY_BYTES_MAX).map(pattern).collect());

/// Answers `/KIND/NUMBER/NUMBER`.
pub(crate) async fn answer(mut request: Request, tally: Arc<Tally>) -> Result<Response, Error> {
    tally.started.fetch_add(1, Ordering::Relaxed);
    let mut pass = Pass { tally, begun: plimsoll::now(), returned: false };
    let answered = dispatch(&mut request, &pass.tally).await;
    if answered.is_err() {
        pass.tally.unheard.fetch_add(1, Ordering::Relaxed);
    }
    pass.returned = true;
    answered
}

async fn dispatch(request: &mut Request, tally: &Tally) -> Result<Response, Error> {
    let path = request.path().to_owned();
    let mut parts = path.split('/').skip(1);
    let kind = parts.next().unwrap_or_default();
    let mut number = || parts.next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    let (one, two) = (number(), number());
    match kind {
        "text" => {
            sleep_ms(one).await;
            Ok(Response::text(body(two)))
        }
        "pieces" => pieces(request, one, two, None).await,
        "length" => pieces(request, one, two, Some(two as u64)).await,
        "file" => {
            sleep_ms(two % 3).await;
            Ok(Response::text(through_a_file(one, tally).await.unwrap_or_else(|_| body(one))))
        }
        "echo" => echo(request).await,
        "count" => {
            let length = request.collect().await?.len();
            Ok(Response::text(length.to_string()))
        }
        "ignore" => Ok(Response::text("ignored")),
        "late" => late(request, one, tally).await,
        "ws" => crate::websocket::echo(request, one),
        _ => Ok(Response::new(StatusCode::NOT_FOUND)),
    }
}

async fn sleep_ms(milliseconds: usize) {
    if milliseconds > 0 {
        sleep(Duration::from_millis(milliseconds as u64)).await;
    }
}

/// A body that went through a file of its own and back. Fails where the world's files do.
async fn through_a_file(bytes: usize, tally: &Tally) -> plimsoll::Result<Vec<u8>> {
    let path = format!("/file-{}", tally.files.fetch_add(1, Ordering::Relaxed));
    let content = body(bytes);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).await?;
    let mut at = 0;
    while at < bytes {
        let lease = plimsoll::pool().try_copy(&content[at..], plimsoll::Kind::Buffers)?;
        at += file.write_at(lease, at as u64).await?.0;
    }
    file.sync_all().await?;
    let length = file.metadata().await?.len;
    let mut read = Vec::new();
    while read.len() < bytes {
        let lease = plimsoll::pool().try_acquire(4_096, plimsoll::Kind::Buffers)?;
        let (count, lease) = file.read_at(lease, read.len() as u64).await?;
        if count == 0 {
            break;
        }
        read.extend_from_slice(&lease);
    }
    if length != bytes as u64 || read != content {
        tally.wrong.fetch_add(1, Ordering::Relaxed);
    }
    Ok(read)
}

async fn pieces(request: &mut Request, piece: usize, bytes: usize, length: Option<u64>) -> Result<Response, Error> {
    let mut out = request.respond(Response::new(StatusCode::OK), length)?;
    for (at, part) in body(bytes).chunks(piece.max(1)).enumerate() {
        if at % 8 == 3 {
            sleep_ms(1).await;
        }
        out.write_bytes(part.to_vec().into()).await?;
    }
    out.finish().await
}

async fn echo(request: &mut Request) -> Result<Response, Error> {
    let mut out = request.respond(Response::new(StatusCode::OK), request.content_length())?;
    while let Some(chunk) = request.chunk().await? {
        out.write(chunk).await?;
    }
    out.finish().await
}

/// Answers first, and reads the body then.
async fn late(request: &mut Request, bytes: usize, tally: &Tally) -> Result<Response, Error> {
    let mut out = request.respond(Response::new(StatusCode::OK), Some(4))?;
    out.write_static(b"late").await?;
    let finished = out.finish().await;
    sleep_ms(2).await;
    let mut at = 0;
    while let Some(chunk) = request.chunk().await? {
        if !is_body(&chunk, at) {
            tally.wrong.fetch_add(1, Ordering::Relaxed);
        }
        at += chunk.len();
    }
    if at != bytes {
        tally.wrong.fetch_add(1, Ordering::Relaxed);
    }
    finished
}
