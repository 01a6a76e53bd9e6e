//! The routes: which request gets which answer.

use std::time::Duration;

use plimsoll::http::{
    Error, Message, Method, OriginCheck, Request, Response, StatusCode, WebSocketCompression, WebSocketConfig,
    WebSocketLimits, WebSocketRef,
};
use plimsoll::sleep;
use plimsoll_codec::query;

use crate::{State, items, metrics};

/// The longest blob: 1 TiB.
const BLOB_BYTES_MAX: u64 = 1 << 40;
/// What every blob is made of.
static BLOB: [u8; 64 * 1024] = [b'p'; 64 * 1024];
const DELAY_MS_MAX: u64 = 60_000;
/// Large enough for the suites that test with messages of 16 MiB and in many fragments; any page may connect.
const WEBSOCKET_LIMITS: WebSocketLimits = WebSocketLimits { message_bytes_max: 16 << 20, fragments_max: 1 << 20 };
/// The body of a `POST /baseline11` holds one integer.
const INTEGER_BODY_BYTES_MAX: usize = 1_024;

/// A known path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Index,
    Pipeline,
    Baseline,
    Json { count: usize },
    Upload,
    Echo,
    Blob { bytes: u64 },
    Delay { ms: u64 },
    Headers,
    WebSocket,
    Metrics,
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/pipeline" => Self::Pipeline,
            "/baseline11" | "/baseline2" => Self::Baseline,
            "/" => Self::Index,
            "/upload" => Self::Upload,
            "/echo" => Self::Echo,
            "/headers" => Self::Headers,
            "/ws" => Self::WebSocket,
            "/metrics" => Self::Metrics,
            _ => return Self::with_number(path),
        })
    }

    /// `/name/number`, with a number that the route allows.
    fn with_number(path: &str) -> Option<Self> {
        let (name, number) = path.strip_prefix('/')?.split_once('/')?;
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number: u64 = number.parse().ok()?;
        match name {
            "json" if number <= items::len() as u64 => Some(Self::Json { count: number as usize }),
            "blob" if number <= BLOB_BYTES_MAX => Some(Self::Blob { bytes: number }),
            "delay" if number <= DELAY_MS_MAX => Some(Self::Delay { ms: number }),
            _ => None,
        }
    }

    /// The methods it knows, as an `Allow` field has them.
    const fn allow(self) -> &'static str {
        match self {
            Self::Index | Self::Baseline => "GET, HEAD, POST",
            Self::Upload | Self::Echo => "POST",
            _ => "GET, HEAD",
        }
    }

    fn allows(self, request: &Request) -> bool {
        match (self, request.method()) {
            (Self::Upload | Self::Echo, method) => *method == Method::POST,
            (_, &Method::GET | &Method::HEAD) => true,
            (Self::Index | Self::Baseline, &Method::POST) => true,
            // RFC 8441: how a WebSocket begins on a stream of HTTP/2.
            (Self::WebSocket, &Method::CONNECT) => is_websocket(request.connect_protocol()),
            _ => false,
        }
    }
}

/// Answers a request.
///
/// Not an `async fn`, and the streaming routes borrow the request: an argument that is moved into a future is there
/// twice, and the task cell of every waiting handler pays for it.
pub(crate) fn answer(mut request: Request, state: State) -> impl Future<Output = Result<Response, Error>> {
    let route = Route::of(request.path());
    async move {
        let Some(route) = route else { return Ok(unknown(&request)) };
        if !route.allows(&request) {
            return Ok(not_allowed(route.allow()));
        }
        match route {
            Route::Pipeline => Ok(Response::text("ok")),
            Route::Baseline => baseline(&mut request).await,
            Route::Index => Ok(Response::text(INDEX)),
            Route::Json { count } => Ok(json(&request, count)),
            Route::Upload => upload(&mut request).await,
            Route::Echo => echo(&mut request).await,
            Route::Blob { bytes } => blob(&mut request, bytes).await,
            Route::Delay { ms } => {
                sleep(Duration::from_millis(ms)).await;
                Ok(Response::text("ok"))
            }
            Route::Headers => Ok(Response::text(headers(&request))),
            Route::WebSocket => request.serve_websocket(&websocket_config(), echo_message),
            // Boxed, as it is rare and large.
            Route::Metrics => Ok(Box::pin(metrics::answer(&state)).await),
        }
    }
}

/// Bytes of an answer's future.
pub(crate) const ANSWER_BYTES: usize = output_bytes(answer);

const fn output_bytes<F>(_of: fn(Request, State) -> F) -> usize {
    size_of::<F>()
}

/// What no route is for.
fn unknown(request: &Request) -> Response {
    match (request.method(), request.path()) {
        (&Method::OPTIONS, "*") => Response::new(StatusCode::NO_CONTENT),
        (&Method::CONNECT, _) => not_allowed("GET, HEAD, POST, OPTIONS"),
        _ => Response::text("not found\n").with_status(StatusCode::NOT_FOUND),
    }
}

fn is_websocket(protocol: Option<&str>) -> bool {
    protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"))
}

fn not_allowed(allow: &str) -> Response {
    Response::text("method not allowed\n").with_status(StatusCode::METHOD_NOT_ALLOWED).header("Allow", allow)
}

fn websocket_config() -> WebSocketConfig {
    WebSocketConfig {
        limits: WEBSOCKET_LIMITS,
        origin: OriginCheck::Any,
        compression: Some(WebSocketCompression::WITH_TAKEOVER),
        ..WebSocketConfig::default()
    }
}

/// Sends a message back.
fn echo_message(socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
    socket.send(message)
}

/// The sum of the integers in the query and, for a `POST`, in the body. Other values count for nothing.
async fn baseline(request: &mut Request) -> Result<Response, Error> {
    let mut sum = request.query_string().map_or(0, sum_of);
    if request.method() == Method::POST {
        let body = request.collect_up_to(INTEGER_BODY_BYTES_MAX).await?;
        let number = std::str::from_utf8(&body).ok().and_then(|text| text.trim().parse::<i64>().ok());
        sum = sum.wrapping_add(number.unwrap_or(0));
    }
    Ok(Response::text(sum.to_string()))
}

fn sum_of(text: &str) -> i64 {
    query::pairs(text).filter_map(|(_, value)| query::integer::<i64>(value)).fold(0, i64::wrapping_add)
}

fn json(request: &Request, count: usize) -> Response {
    let factor = request.query_string().and_then(|text| query::value(text, "m")).and_then(query::integer).unwrap_or(1);
    match items::json(count, factor) {
        Some(text) => Response::json_text(text),
        None => Response::new(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// Counts the bytes of the body without keeping them.
async fn upload(request: &mut Request) -> Result<Response, Error> {
    let mut bytes = 0_u64;
    while let Some(chunk) = request.chunk().await? {
        bytes += chunk.len() as u64;
    }
    Ok(Response::text(bytes.to_string()))
}

/// Sends the body back as it comes, as what it came as. Its first part is read before the answer begins: a client that
/// waits for `100 Continue` would not get it afterwards.
async fn echo(request: &mut Request) -> Result<Response, Error> {
    let mut next = request.chunk().await?;
    let content_type = request.header("content-type").unwrap_or(b"application/octet-stream");
    let head = Response::new(StatusCode::OK).header("Content-Type", content_type);
    let mut out = request.respond(head, request.content_length())?;
    while let Some(chunk) = next {
        out.write(chunk).await?;
        next = request.chunk().await?;
    }
    out.finish().await
}

/// Streams `bytes` bytes from one buffer that all answers share.
async fn blob(request: &mut Request, bytes: u64) -> Result<Response, Error> {
    let head = Response::new(StatusCode::OK).header("Content-Type", "application/octet-stream");
    let mut left = if request.method() == Method::HEAD { 0 } else { bytes };
    let mut out = request.respond(head, Some(bytes))?;
    while left > 0 {
        let piece = left.min(BLOB.len() as u64);
        out.write_static(&BLOB[..piece as usize]).await?;
        left -= piece;
    }
    out.finish().await
}

/// The request's fields, a line each.
fn headers(request: &Request) -> Vec<u8> {
    let mut text = Vec::new();
    for (name, value) in request.headers() {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    text
}

const INDEX: &str = "\
Plimsoll: an async runtime with a load line.

The mark on a ship's hull says how much it may carry. This server has one, too: every buffer, connection, task and ring is charged to
a budget before its memory is touched. At the line it reads more slowly and accepts later; it does not grow.

GET  /                     this page (POST too)
GET  /pipeline             ok
GET  /baseline11?a=1&b=2   the sum of the integers (POST adds the one in the body); also /baseline2
GET  /json/{count}?m=M     the first of 50 items, with totals multiplied by M
POST /upload               how many bytes the body had; any size, never kept
POST /echo                 the body back, as it comes
GET  /blob/{bytes}         that many bytes, up to 1 TiB, from one shared buffer
GET  /delay/{ms}           ok, a while later (60000 at most)
GET  /headers              the request's fields
GET  /ws                   WebSocket echo; on HTTP/2 by extended CONNECT
GET  /metrics              what the server holds and has done, for Prometheus

HEAD answers as GET does, without the body. OPTIONS * answers 204.
";

const _: () = assert!(INDEX.len() >= 1024, "benchmarks expect a page of at least 1 KiB");
