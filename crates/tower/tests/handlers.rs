//! Handlers and routers of ours as tower services: called alone, nested in axum, and under layers.

#![forbid(unsafe_code)]

#[path = "../../http/tests/rig/mod.rs"]
mod rig;

use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router as Axum;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full};
use plimsoll::MemoryLimit;
use plimsoll_http::layer::{BodyLimit, Layer};
use plimsoll_http::{Config, Error, Event, EventsConfig, Misuse, Request, Response, Router, Server, WebSocketConfig};
use plimsoll_runtime::{JoinHandle, Result, Runtime, Spawner, sleep, spawn};
use plimsoll_tower::{AnswerBody, BoxError, HandlerService, PeerAddress};
use rig::frames::{Client, DATA, END_STREAM, HEADERS, frame, request as request_frames};
use rig::{on_each, talk};
use tower::{Service, ServiceBuilder, ServiceExt};

fn get(path: &str) -> http::Request<Empty<Bytes>> {
    http::Request::get(path).body(Empty::new()).expect("a request")
}

fn post(path: &str, body: impl Into<Bytes>) -> http::Request<Full<Bytes>> {
    http::Request::post(path).body(Full::new(body.into())).expect("a request")
}

async fn ask<B>(service: &HandlerService, request: http::Request<B>) -> http::Response<AnswerBody>
where
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    service.clone().oneshot(request).await.expect("it cannot fail")
}

async fn text(answer: http::Response<AnswerBody>) -> String {
    let body = answer.into_body().collect().await.expect("a whole body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

/// A body of frames, with a turn before each; without a length.
struct Frames {
    frames: VecDeque<std::result::Result<Frame<Bytes>, BoxError>>,
    has_paused: bool,
}

impl Frames {
    fn of<const N: usize>(parts: [&'static str; N]) -> Self {
        let frames = parts.map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))).into();
        Self { frames, has_paused: false }
    }

    fn then(mut self, frame: std::result::Result<Frame<Bytes>, BoxError>) -> Self {
        self.frames.push_back(frame);
        self
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, BoxError>>> {
        self.has_paused = !self.has_paused;
        if self.has_paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.frames.pop_front())
    }
}

async fn collect(mut req: Request) -> std::result::Result<String, Error> {
    let body = req.collect().await?;
    let trailer = req.trailers().and_then(|trailers| trailers.get("sum").map(<[u8]>::to_vec)).unwrap_or_default();
    let (body, trailer) = (String::from_utf8_lossy(&body), String::from_utf8_lossy(&trailer));
    Ok(format!("{:?} {body} {trailer}", req.content_length()))
}

/// Writes what it reads, a piece after the other, and the number of them behind.
async fn echo(mut req: Request) -> std::result::Result<Response, Error> {
    let mut out = req.respond(Response::new(StatusCode::OK).header("x-kind", "echo"), req.content_length())?;
    let mut pieces = 0;
    while let Some(chunk) = req.chunk().await? {
        pieces += 1;
        out.write(chunk).await?;
    }
    out.finish_with_trailers(&[("pieces", pieces.to_string().as_bytes())]).await
}

fn routes() -> Router<&'static str> {
    Router::with_state("state")
        .get("/users/{id}", async |req: Request, state: &'static str| {
            let query = req.query_string().unwrap_or_default();
            format!("{state} {} {query} {:?}", req.param("id").unwrap_or("nobody"), req.peer_addr().ok())
        })
        .get("/wait", async |_: Request| {
            sleep(Duration::from_millis(2)).await;
            (StatusCode::ACCEPTED, [("x-two", "2")], "waited")
        })
        .get("/extension", async |req: Request| req.extensions().get::<u32>().copied().unwrap_or(0).to_string())
        .post("/collect", collect)
        .post("/echo", echo)
}

#[test]
fn a_router_is_called_alone() {
    on_each("alone", async || {
        let service = HandlerService::new(routes().fallback(async |_: Request| (StatusCode::NOT_FOUND, "nothing")))?;
        let answer = ask(&service, get("/users/7?a=b")).await;
        assert_eq!(answer.headers()["content-type"], "text/plain; charset=utf-8");
        assert_eq!(http_body::Body::size_hint(answer.body()).exact(), Some("state 7 a=b None".len() as u64));
        assert_eq!(text(answer).await, "state 7 a=b None");
        let mut told = get("/users/you");
        told.extensions_mut().insert(PeerAddress(([10, 0, 0, 7], 80).into()));
        assert_eq!(text(ask(&service, told).await).await, "state you  Some(10.0.0.7:80)");
        let waited = ask(&service, get("/wait")).await;
        assert_eq!((waited.status(), &waited.headers()["x-two"]), (StatusCode::ACCEPTED, &"2".parse().expect("one")));
        assert_eq!(text(waited).await, "waited");
        let mut extended = get("/extension");
        extended.extensions_mut().insert(7u32);
        assert_eq!(text(ask(&service, extended).await).await, "7");
        assert_eq!(ask(&service, get("/nowhere")).await.status(), StatusCode::NOT_FOUND);
        let not_allowed = ask(&service, post("/wait", "")).await;
        assert_eq!(not_allowed.status(), StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(not_allowed.headers()["allow"], "GET, HEAD, OPTIONS");
        let mut head = get("/users/7");
        *head.method_mut() = Method::HEAD;
        let head = ask(&service, head).await;
        assert_eq!(head.headers()["content-length"], "state 7  None".len().to_string());
        assert!(http_body::Body::is_end_stream(head.body()));
        // A head that the server would refuse.
        let long = http::Request::get("/").header("x", "y".repeat(100_000)).body(Empty::<Bytes>::new());
        let long = ask(&service, long.expect("a request")).await;
        assert_eq!(long.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        Ok(())
    });
}

#[test]
fn routes_that_cannot_be_there_together_are_an_error_before() {
    let twice = Router::new().get("/a", async |_: Request| "1").get("/a", async |_: Request| "2");
    assert!(matches!(HandlerService::new(twice), Err(plimsoll_runtime::Error::Service(_))));
}

#[test]
fn bodies_and_trailers_go_both_ways() {
    on_each("bodies", async || {
        let service = HandlerService::new(routes())?;
        assert_eq!(text(ask(&service, post("/collect", "hello")).await).await, "Some(5) hello ");
        let sum = HeaderMap::from_iter([("sum".parse().expect("a name"), "7".parse().expect("a value"))]);
        let frames = Frames::of(["one ", "two"]).then(Ok(Frame::trailers(sum)));
        let chunked = http::Request::post("/collect").body(frames).expect("a request");
        assert_eq!(text(ask(&service, chunked).await).await, "None one two 7");
        let echoed = http::Request::post("/echo").body(Frames::of(["one ", "two"])).expect("a request");
        let echoed = ask(&service, echoed).await;
        assert_eq!((echoed.status(), &echoed.headers()["x-kind"]), (StatusCode::OK, &"echo".parse().expect("one")));
        let body = echoed.into_body().collect().await.expect("a whole body");
        assert_eq!(body.trailers().expect("trailers")["pieces"], "2");
        assert_eq!(body.to_bytes(), "one two");
        // What is longer than a chunk comes in several.
        let long = "x".repeat(100_000);
        let echoed = ask(&service, post("/echo", long.clone())).await;
        assert_eq!(http_body::Body::size_hint(echoed.body()).exact(), Some(100_000));
        assert_eq!(text(echoed).await, long);
        Ok(())
    });
}

/// A handler writes the next piece when the one before it was taken, and not sooner.
#[test]
fn whoever_takes_the_answer_sets_the_pace() {
    on_each("pace", async || {
        let written = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&written);
        let service = HandlerService::new(move |mut req: Request| {
            let written = Arc::clone(&counted);
            async move {
                let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                for _ in 0..10 {
                    out.write_static(b"piece").await?;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                out.finish().await
            }
        })?;
        let mut body = ask(&service, get("/")).await.into_body();
        sleep(Duration::from_millis(5)).await;
        for taken in 1..=10 {
            let before = written.load(Ordering::Relaxed);
            assert!(before <= taken, "{before} pieces were written when {} were taken", taken - 1);
            let piece = body.frame().await.expect("ten of them").expect("no error");
            assert_eq!(piece.data_ref().expect("data"), "piece");
            sleep(Duration::from_millis(1)).await;
        }
        assert!(body.frame().await.is_none());
        assert_eq!(written.load(Ordering::Relaxed), 10);
        Ok(())
    });
}

/// A writer that another task has.
#[test]
fn another_task_may_write_the_answer() {
    on_each("a task", async || {
        let service = HandlerService::new(async |mut req: Request| {
            let mut out = req.respond(Response::new(StatusCode::OK), Some(6))?;
            let writing = spawn(async move {
                for piece in [&b"one"[..], b"two"] {
                    sleep(Duration::from_millis(1)).await;
                    out.write_bytes(Bytes::copy_from_slice(piece)).await?;
                }
                out.finish().await
            })?;
            writing.await.map_err(|_| Error::Disconnected)?
        })?;
        assert_eq!(text(ask(&service, get("/")).await).await, "onetwo");
        Ok(())
    });
}

#[test]
fn events_come_one_by_one() {
    on_each("events", async || {
        let service = HandlerService::new(async |mut req: Request| {
            let mut events = req.events(EventsConfig::default())?;
            events.send(&Event::data("one")).await?;
            events.wait(sleep(Duration::from_millis(2))).await?;
            events.send(&Event::data("two")).await?;
            events.finish().await
        })?;
        let answer = ask(&service, get("/")).await;
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let mut body = answer.into_body();
        for expected in ["data:one\n\n", "data:two\n\n"] {
            let event = body.frame().await.expect("an event").expect("no error").into_data().expect("data");
            assert_eq!(String::from_utf8_lossy(&event).replace(": ", ":"), expected);
        }
        assert!(body.frame().await.is_none());
        Ok(())
    });
}

#[test]
fn an_answer_that_is_cut_short_says_so() {
    on_each("cut short", async || {
        async fn abort(mut req: Request) -> std::result::Result<Response, Error> {
            let mut out = req.respond(Response::new(StatusCode::OK), Some(10))?;
            out.write_static(b"half").await?;
            Ok(out.abort())
        }
        async fn too_short(mut req: Request) -> std::result::Result<Response, Error> {
            let mut out = req.respond(Response::new(StatusCode::OK), Some(10))?;
            out.write_static(b"half").await?;
            out.finish().await
        }
        for service in [HandlerService::new(abort)?, HandlerService::new(too_short)?] {
            let mut body = ask(&service, get("/")).await.into_body();
            assert_eq!(body.frame().await.expect("a piece").expect("data").into_data().expect("data"), "half");
            let error = body.frame().await.expect("an error").expect_err("it is cut short");
            assert!(matches!(error, Error::Misuse(Misuse::AnswerCutShort)), "{error}");
            assert!(body.frame().await.is_none());
        }
        // Nothing was begun: an error is an answer.
        let service = HandlerService::new(async |_: Request| Err::<(), _>(Error::TimedOut))?;
        assert_eq!(ask(&service, get("/")).await.status(), StatusCode::REQUEST_TIMEOUT);
        Ok(())
    });
}

/// Counts where it is dropped.
struct Noted(Arc<AtomicUsize>);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_goes_away_ends_the_handler() {
    on_each("going away", async || {
        let (drops, finished) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let noted = Arc::clone(&drops);
        let waits = HandlerService::new(move |_: Request| {
            let noted = Noted(Arc::clone(&noted));
            async move {
                let _noted = noted;
                sleep(Duration::from_secs(600)).await;
            }
        })?;
        let mut answer = Box::pin(waits.clone().oneshot(get("/")));
        assert!(poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await.is_pending());
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(answer);
        assert_eq!(drops.load(Ordering::Relaxed), 1);

        let noted = Arc::clone(&drops);
        let streams = HandlerService::new(move |mut req: Request| {
            let noted = Noted(Arc::clone(&noted));
            async move {
                let _noted = noted;
                let mut out = req.respond(Response::new(StatusCode::OK), None)?;
                loop {
                    out.write_static(b"more").await?;
                }
                #[allow(unreachable_code, reason = "it has a type")]
                out.finish().await
            }
        })?;
        let mut body = ask(&streams, get("/")).await.into_body();
        body.frame().await.expect("a piece").expect("no error");
        drop(body);
        assert_eq!(drops.load(Ordering::Relaxed), 2);

        // What must be finished is, and then the rest is dropped.
        let done = Arc::clone(&finished);
        let noted = Arc::clone(&drops);
        let pays = HandlerService::new(move |req: Request| {
            let (done, noted) = (Arc::clone(&done), Noted(Arc::clone(&noted)));
            async move {
                let _noted = noted;
                let finish = req.must_finish();
                sleep(Duration::from_millis(2)).await;
                done.fetch_add(1, Ordering::Relaxed);
                drop(finish);
                sleep(Duration::from_secs(600)).await;
            }
        })?;
        let mut answer = Box::pin(pays.clone().oneshot(get("/")));
        assert!(poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await.is_pending());
        drop(answer);
        assert_eq!((drops.load(Ordering::Relaxed), finished.load(Ordering::Relaxed)), (2, 0));
        while drops.load(Ordering::Relaxed) < 3 {
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(finished.load(Ordering::Relaxed), 1);
        Ok(())
    });
}

struct Serving {
    address: core::net::SocketAddr,
    task: JoinHandle<Result<()>>,
}

impl Serving {
    fn of(router: Axum) -> Result<Self> {
        let server = Server::bind("127.0.0.1:0")?.config(Config::default());
        let address = server.local_addr();
        Ok(Self { address, task: spawn(plimsoll_tower::serve(server, router))? })
    }

    async fn ask(&self, request: &str) -> Result<String> {
        talk(self.address, &[request.as_bytes()], None).await
    }

    async fn stop(self) -> Result<()> {
        Spawner::current().stop();
        self.task.await.expect("the server does not panic")
    }
}

#[test]
fn a_router_nested_in_axum_is_served() {
    on_each("nested", async || {
        let outer = Axum::new()
            .route("/", axum::routing::get(async || "axum"))
            .nest_service("/inner", HandlerService::new(routes())?)
            .layer(axum::middleware::map_response(async |mut response: axum::response::Response| {
                response.headers_mut().insert("x-layer", "seen".parse().expect("a value"));
                response
            }));
        let serving = Serving::of(outer)?;
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
        assert!(serving.ask(&get("/")).await?.ends_with("\r\n\r\naxum"));
        let inner = serving.ask(&get("/inner/users/7?q")).await?;
        assert!(inner.contains("\r\nx-layer: seen\r\n"), "{inner}");
        assert!(inner.contains("\r\n\r\nstate 7 q Some(127.0.0.1:"), "{inner}");
        let not_found = serving.ask(&get("/inner/nowhere")).await?;
        assert!(not_found.starts_with("HTTP/1.1 404 "), "{not_found}");
        let long = "0123456789abcdef".repeat(20_000);
        let head = "POST /inner/echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        let answer = serving.ask(&format!("{head}Content-Length: {}\r\n\r\n{long}", long.len())).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&long), "{} bytes", answer.len());
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        let answer = serving.ask(&chunked).await?;
        assert!(answer.contains("5\r\nhello\r\n0\r\npieces: 1\r\n"), "{answer}");

        // The head does not wait for the end of the body.
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&request_frames(1, "POST", "/inner/echo", &[], 0)).await?;
        client.send(&frame(DATA, 0, 1, b"over ")).await?;
        assert!(client.next_of(HEADERS).await?.has_status(200));
        assert_eq!(client.next_of(DATA).await?.payload, b"over ");
        client.send(&frame(DATA, END_STREAM, 1, b"two")).await?;
        assert_eq!(client.next_of(DATA).await?.payload, b"two");
        drop(client);
        serving.stop().await
    });
}

#[test]
fn limits_of_bodies_are_413() {
    on_each("limits", async || {
        let chunked = || http::Request::post("/").body(Frames::of(["12345678", "12345678"])).expect("a request");
        let limited = HandlerService::new(Router::new().post("/", BodyLimit::new(10).around(collect)))?;
        assert_eq!(ask(&limited, post("/", "12345678901")).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(ask(&limited, chunked()).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(text(ask(&limited, post("/", "1234567890")).await).await, "Some(10) 1234567890 ");
        // One of tower-http, whose error the handler is told.
        let under = ServiceBuilder::new()
            .layer(tower_http::limit::RequestBodyLimitLayer::new(10))
            .service(HandlerService::new(collect)?);
        let answer = under.clone().oneshot(chunked()).await.expect("it cannot fail");
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
        // And the server's own.
        let config = Config { collect_bytes_max: 10, ..Config::default() };
        let configured = HandlerService::new(collect)?.config(config);
        assert_eq!(ask(&configured, chunked()).await.status(), StatusCode::PAYLOAD_TOO_LARGE);
        Ok(())
    });
}

#[test]
fn errors_of_a_body_are_told_to_the_handler() {
    on_each("errors", async || {
        let told = |error: BoxError| http::Request::post("/").body(Frames::of(["a"]).then(Err(error))).expect("one");
        let service = HandlerService::new(collect)?;
        let ours = ask(&service, told(Box::new(Error::TimedOut))).await;
        assert_eq!(ours.status(), StatusCode::REQUEST_TIMEOUT);
        let wrapped = ask(&service, told(Box::new(axum::Error::new(Error::Disconnected)))).await;
        assert_eq!(wrapped.status(), StatusCode::BAD_REQUEST);
        let other = ask(&service, told("something else".into())).await;
        assert_eq!(other.status(), StatusCode::INTERNAL_SERVER_ERROR);
        Ok(())
    });
}

#[test]
fn layers_of_tower_hold_it_back() {
    on_each("a limit", async || {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let handler = HandlerService::new(move |_: Request| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(1 + running.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                sleep(Duration::from_millis(5)).await;
                running.fetch_sub(1, Ordering::Relaxed);
            }
        })?;
        let service = ServiceBuilder::new().concurrency_limit(2).service(handler);
        let asking: Vec<_> = (0..6).map(|_| spawn(service.clone().oneshot(get("/")))).collect::<Result<_>>()?;
        for asked in asking {
            let answer = asked.await.expect("no panic").expect("it cannot fail");
            assert_eq!(answer.status(), StatusCode::OK);
        }
        assert_eq!(seen.load(Ordering::Relaxed), 2);
        Ok(())
    });
}

/// tower's timeout has tokio's clock.
#[test]
fn a_timeout_of_tower_ends_the_handler() {
    let drops = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&drops);
    let builder = Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).tokio_context();
    let runtime = builder.build().expect("it starts");
    runtime.block_on(async {
        let waits = HandlerService::new(move |_: Request| {
            let noted = Noted(Arc::clone(&noted));
            async move {
                let _noted = noted;
                sleep(Duration::from_secs(600)).await;
            }
        });
        let waits = waits.expect("one handler");
        let service = ServiceBuilder::new().timeout(Duration::from_millis(5)).service(waits);
        let error = service.oneshot(get("/")).await.expect_err("it takes too long");
        assert!(error.is::<tower::timeout::error::Elapsed>(), "{error}");
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
    let report = runtime.shutdown();
    assert_eq!((report.leaked_bytes, report.is_clean()), (0, true));
}

#[test]
fn a_handler_that_panics_is_caught_by_whoever_catches() {
    on_each("panics", async || {
        async fn broken(_req: Request) {
            panic!("a bug, on purpose");
        }
        let caught = ServiceBuilder::new()
            .layer(tower_http::catch_panic::CatchPanicLayer::new())
            .service(HandlerService::new(broken)?);
        let answer = caught.oneshot(get("/")).await.expect("it is caught");
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let serving = Serving::of(Axum::new().fallback_service(HandlerService::new(broken)?))?;
        let answer = serving.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await?;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        serving.stop().await
    });
}

#[test]
fn what_only_a_connection_has_is_501() {
    on_each("upgrades", async || {
        let upgrade = HandlerService::new(async |req: Request| req.upgrade("echo/1", async |_| {}))?;
        let request = http::Request::get("/").header("upgrade", "echo/1").header("connection", "upgrade");
        let answer = ask(&upgrade, request.body(Empty::<Bytes>::new()).expect("a request")).await;
        assert_eq!(answer.status(), StatusCode::NOT_IMPLEMENTED);
        let body = text(answer).await;
        assert!(body.contains("have the server answer this route itself"), "{body}");
        let websocket =
            HandlerService::new(async |req: Request| req.upgrade_websocket(&WebSocketConfig::default(), async |_| {}))?;
        assert_eq!(ask(&websocket, get("/")).await.status(), StatusCode::NOT_IMPLEMENTED);
        let mut connect = get("/");
        *connect.method_mut() = Method::CONNECT;
        assert_eq!(ask(&upgrade, connect).await.status(), StatusCode::NOT_IMPLEMENTED);
        Ok(())
    });
}

/// Polls once, where there may be no runtime.
fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn off_a_worker_it_says_what_to_do() {
    let service = HandlerService::new(routes()).expect("routes");
    let Poll::Ready(Ok(answer)) = poll_once(service.clone().call(get("/users/7"))) else { panic!("it is answered") };
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let Poll::Ready(Ok(body)) = poll_once(answer.into_body().collect()) else { panic!("it is there") };
    let body = String::from_utf8(body.to_bytes().to_vec()).expect("text");
    assert!(body.contains("within `block_on` or a task of Plimsoll's runtime"), "{body}");

    on_each("moved away", async || {
        let service = HandlerService::new(routes())?;
        // A body that was begun, and an answer that is waited for.
        let echoed = http::Request::post("/echo").body(Frames::of(["one", "two"])).expect("a request");
        let mut body = ask(&service, echoed).await.into_body();
        let mut answer = Box::pin(service.clone().call(get("/wait")));
        assert!(poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await.is_pending());
        let elsewhere = std::thread::spawn(move || {
            let Poll::Ready(Some(Err(error))) = poll_once(body.frame()) else { panic!("it fails") };
            assert!(matches!(error, Error::Misuse(Misuse::OffWorker)), "{error}");
            let Poll::Ready(Ok(refused)) = poll_once(answer) else { panic!("it is answered") };
            assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
        });
        elsewhere.join().expect("it says so, and does not panic");
        Ok(())
    });
}
