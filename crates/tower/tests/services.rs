//! Tower services and axum routers under our server, on io_uring (where it works), mio and in the simulation.

#![forbid(unsafe_code)]

#[path = "../../http/tests/rig/mod.rs"]
mod rig;

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use http_body_util::{BodyExt, Full, StreamBody};
use plimsoll_http::{Config, Server};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{JoinHandle, Result, Spawner, sleep, spawn};
use plimsoll_tower::{Body, Options, PeerAddress};
use rig::frames::{Client, DATA, END_STREAM, HEADERS, get as get_frame, is_ended, request as request_frames};
use rig::{in_simulation, on_each, talk, until};
use tower::ServiceBuilder;

/// A service that is served, to be stopped at the end of a scenario.
struct Serving {
    address: SocketAddr,
    task: JoinHandle<Result<()>>,
}

impl Serving {
    fn start<S, B>(service: S, options: Options) -> Result<Self>
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<plimsoll_tower::BoxError>,
        S::Future: 'static,
        B: axum::body::HttpBody + 'static,
        B::Error: Into<plimsoll_tower::BoxError>,
    {
        let server = Server::bind("127.0.0.1:0")?.config(Config::default());
        let address = server.local_addr();
        Ok(Self { address, task: spawn(plimsoll_tower::serve_with(server, service, options))? })
    }

    fn of<S, B>(service: S) -> Result<Self>
    where
        S: tower::Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<plimsoll_tower::BoxError>,
        S::Future: 'static,
        B: axum::body::HttpBody + 'static,
        B::Error: Into<plimsoll_tower::BoxError>,
    {
        Self::start(service, Options::default())
    }

    /// What the server says to a request until it closes.
    async fn ask(&self, request: &str) -> Result<String> {
        talk(self.address, &[request.as_bytes()], None).await
    }

    async fn get(&self, path: &str) -> Result<String> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")).await
    }

    async fn post(&self, path: &str, kind: &str, body: &str) -> Result<String> {
        let head = format!("POST {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Type: {kind}\r\n");
        self.ask(&format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())).await
    }

    async fn stop(self) -> Result<()> {
        Spawner::current().stop();
        self.task.await.expect("the server does not panic")
    }
}

fn assert_answer(answer: &str, status: u16, body: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
}

#[test]
fn a_router_of_axum_is_served() {
    async fn sum(Json(numbers): Json<Vec<u64>>) -> impl IntoResponse {
        Json(serde_json::json!({ "sum": numbers.iter().sum::<u64>() }))
    }

    async fn greet(
        State(greeting): State<Arc<str>>,
        Path(name): Path<String>,
        Query(query): Query<std::collections::BTreeMap<String, String>>,
        headers: HeaderMap,
    ) -> String {
        let agent = headers[header::USER_AGENT].to_str().expect("text").to_owned();
        format!("{greeting} {name}, {} of {agent}", query["mood"])
    }

    on_each("a router", async || {
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/greet/{name}", get(greet))
            .route("/sum", post(sum))
            .route("/where", get(async |uri: Uri| uri.to_string()))
            .route("/teapot", get(async || (StatusCode::IM_A_TEAPOT, [("x-pot", "round")], "short")))
            .nest("/inner", Router::new().route("/{*rest}", get(async |Path(rest): Path<String>| rest)))
            .layer(middleware::map_response(async |mut response: axum::response::Response| {
                response.headers_mut().insert("x-layer", "seen".parse().expect("a value"));
                response
            }))
            .with_state(Arc::from("hello"));
        let serving = Serving::of(router)?;
        assert_answer(&serving.get("/").await?, 200, "hello");
        let asked = "GET /greet/you?mood=fine HTTP/1.1\r\nHost: a\r\nUser-Agent: test\r\nConnection: close\r\n\r\n";
        assert_answer(&serving.ask(asked).await?, 200, "hello you, fine of test");
        assert_answer(&serving.post("/sum", "application/json", "[1,2,3]").await?, 200, r#"{"sum":6}"#);
        let refused = serving.post("/sum", "application/json", "[1,2").await?;
        assert!(refused.starts_with("HTTP/1.1 400 ") && refused.contains("EOF"), "{refused}");
        assert!(serving.post("/sum", "text/plain", "[]").await?.starts_with("HTTP/1.1 415 "));
        assert_answer(&serving.get("/where?a=%20b").await?, 200, "/where?a=%20b");
        let teapot = serving.get("/teapot").await?;
        assert_answer(&teapot, 418, "short");
        assert!(teapot.contains("\r\nx-pot: round\r\n") && teapot.contains("\r\nx-layer: seen\r\n"), "{teapot}");
        assert_answer(&serving.get("/inner/a/b").await?, 200, "a/b");
        assert_answer(&serving.get("/nowhere").await?, 404, "");
        let head = serving.ask("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
        assert_answer(&head, 200, "");
        assert!(head.to_ascii_lowercase().contains("\r\ncontent-length: 5\r\n"), "{head}");
        assert!(
            serving.ask("DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?.starts_with("HTTP/1.1 405")
        );
        serving.stop().await
    });
}

async fn echo(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(request.into_body()))
}

/// A body goes through frame by frame, whatever its length is said to be, on both protocols.
#[test]
fn bodies_are_streams_both_ways() {
    on_each("streams", async || {
        let serving = Serving::of(tower::service_fn(echo))?;
        let long = "0123456789abcdef".repeat(20_000);
        let answer = serving.post("/", "text/plain", &long).await?;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&long), "{} bytes", answer.len());
        assert!(answer.to_ascii_lowercase().contains(&format!("content-length: {}\r\n", long.len())));
        let chunked = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
            5\r\nhello\r\n0\r\nX-Total: 5\r\n\r\n";
        let answer = serving.ask(chunked).await?;
        assert!(answer.contains("5\r\nhello\r\n0\r\n") && answer.to_lowercase().contains("x-total: 5"), "{answer}");
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&request_frames(1, "POST", "/", &[("content-type", "text/plain")], 0)).await?;
        client.send(&rig::frames::frame(DATA, 0, 1, b"over ")).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(200), "the head does not wait for the end of the body");
        client.send(&rig::frames::frame(DATA, END_STREAM, 1, b"two")).await?;
        let mut body = Vec::new();
        loop {
            let frame = client.frame().await?.expect("an answer");
            if frame.kind == DATA {
                body.extend_from_slice(&frame.payload);
                if frame.ends_stream() {
                    break;
                }
            }
        }
        assert_eq!(body, b"over two");
        drop(client);
        serving.stop().await
    });
}

/// Reads a body to its end on a thread that has no runtime.
fn read_here(body: Body) -> Result<Vec<u8>, plimsoll_http::Error> {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut collected = core::pin::pin!(body.collect());
    loop {
        match collected.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(collected) => return collected.map(|body| body.to_bytes().to_vec()),
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_body_can_be_read_on_another_thread() {
    async fn elsewhere(request: Request<Body>) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
        let (done, is_done) = mpsc::channel();
        let (waker, wakers) = mpsc::channel::<Waker>();
        let body = request.into_body();
        std::thread::spawn(move || {
            let read = read_here(body);
            done.send(read).expect("the handler waits");
            wakers.recv().expect("the handler waits").wake();
        });
        let mut waker = Some(waker);
        let read = poll_fn(|cx| match is_done.try_recv() {
            Ok(read) => Poll::Ready(read),
            Err(_) => {
                if let Some(waker) = waker.take() {
                    waker.send(cx.waker().clone()).expect("the thread waits for it");
                }
                Poll::Pending
            }
        });
        Ok(Response::new(Full::new(read.await.expect("a whole body").into())))
    }

    for (_, runtime) in rig_runtimes("another thread") {
        runtime
            .block_on(async {
                let serving = Serving::of(tower::service_fn(elsewhere))?;
                let long = "0123456789abcdef".repeat(50_000);
                let answer = serving.post("/", "text/plain", &long).await?;
                assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&long), "{} bytes", answer.len());
                serving.stop().await
            })
            .expect("it serves");
        assert_eq!(runtime.shutdown().leaked_bytes, 0);
    }
}

fn rig_runtimes(name: &str) -> impl Iterator<Item = (plimsoll_runtime::DriverChoice, plimsoll_runtime::Runtime)> {
    rig::real_runtimes(name, plimsoll_runtime::MemoryLimit::mib(32))
}

/// Who reads a body when its exchange is over, or its client gone, is told so and does not wait for ever.
#[test]
fn a_body_whose_exchange_is_over_says_so() {
    in_simulation("over", async || {
        let (bodies, kept) = mpsc::channel();
        let serving = Serving::of(tower::service_fn(move |request: Request<Body>| {
            bodies.send(request.into_body()).expect("the test waits");
            async { Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::default())) }
        }))?;
        let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nonly";
        talk(serving.address, &[request], Some(b"200 OK")).await?;
        let mut body: Body = kept.try_recv().expect("it was called");
        match body.frame().await {
            Some(Err(plimsoll_http::Error::Disconnected)) => {}
            other => panic!("{other:?}"),
        }
        serving.stop().await
    });
}

#[test]
fn a_body_that_fails_cuts_the_answer_short() {
    type Frames = Pin<Box<dyn futures_core::Stream<Item = Result<http_body::Frame<bytes::Bytes>, std::io::Error>>>>;

    struct Failing(u8);
    impl futures_core::Stream for Failing {
        type Item = Result<http_body::Frame<bytes::Bytes>, std::io::Error>;

        fn poll_next(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0 -= 1;
            Poll::Ready(Some(match self.0 {
                0 => Err(std::io::Error::other("the disk is full")),
                _ => Ok(http_body::Frame::data(bytes::Bytes::from_static(b"some"))),
            }))
        }
    }

    on_each("a failing body", async || {
        let serving = Serving::of(tower::service_fn(|request: Request<Body>| async move {
            let frames = if request.uri().path() == "/at-once" { 1 } else { 3 };
            Ok::<_, Infallible>(Response::new(StreamBody::new(Box::pin(Failing(frames)) as Frames)))
        }))?;
        assert!(serving.get("/at-once").await?.starts_with("HTTP/1.1 500 "), "nothing was sent");
        let cut = serving.get("/").await?;
        assert!(cut.starts_with("HTTP/1.1 200 ") && cut.contains("some"), "{cut}");
        assert!(!cut.contains("\r\n0\r\n"), "without its end: {cut}");
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&get_frame(1, "/")).await?;
        let reset = client.next_of(rig::frames::RST_STREAM).await?;
        assert_eq!(reset.stream, 1);
        drop(client);
        serving.stop().await
    });
}

/// A service that is ready for one request at a time keeps that in the clone that was ready.
#[test]
fn layers_of_tower_count_right() {
    on_each("layers", async || {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&most);
        let service = ServiceBuilder::new().concurrency_limit(2).service_fn(move |_: Request<Body>| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(1 + running.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                sleep(Duration::from_millis(20)).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::default()))
            }
        });
        let serving = Serving::of(service)?;
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = TcpStream::connect(serving.address).await?;
            client.send_bytes(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await?;
            clients.push(client);
        }
        for mut client in clients {
            let lease = client.recv().await?.expect("an answer");
            assert!(lease.starts_with(b"HTTP/1.1 200 "));
        }
        assert_eq!(seen.load(Ordering::Relaxed), 2);
        serving.stop().await
    });
}

/// Middleware as it is: bodies are wrapped, heads are changed, large requests are refused.
#[test]
fn layers_of_tower_http_work_unchanged() {
    use tower_http::catch_panic::CatchPanicLayer;
    use tower_http::compression::CompressionLayer;
    use tower_http::cors::CorsLayer;
    use tower_http::limit::RequestBodyLimitLayer;
    use tower_http::set_header::SetResponseHeaderLayer;
    use tower_http::trace::TraceLayer;

    on_each("tower-http", async || {
        let long = "compress me ".repeat(1_000);
        let text = long.clone();
        let router = Router::new()
            .route("/", get(async move || text.clone()))
            .route("/length", post(async |body: bytes::Bytes| body.len().to_string()))
            .route("/panics", get(async || panic!("a panic that is meant") as &'static str))
            .layer(CompressionLayer::new())
            .layer(SetResponseHeaderLayer::overriding(header::SERVER, header::HeaderValue::from_static("layers")))
            .layer(CorsLayer::permissive())
            .layer(RequestBodyLimitLayer::new(1_000))
            .layer(CatchPanicLayer::new())
            .layer(TraceLayer::new_for_http());
        let serving = Serving::of(router)?;
        let plain = serving.get("/").await?;
        assert!(plain.starts_with("HTTP/1.1 200 ") && plain.ends_with(&long));
        assert!(
            plain.contains("\r\nserver: layers\r\n") && plain.contains("access-control-allow-origin: *"),
            "{plain}"
        );
        let packed =
            serving.ask("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n").await?;
        assert!(packed.contains("\r\ncontent-encoding: gzip\r\n") && packed.len() < 1_000, "{} bytes", packed.len());
        assert_answer(&serving.post("/length", "text/plain", &"x".repeat(1_000)).await?, 200, "1000");
        assert!(serving.post("/length", "text/plain", &"x".repeat(1_001)).await?.starts_with("HTTP/1.1 413 "));
        assert!(serving.get("/panics").await?.starts_with("HTTP/1.1 500 "), "caught by the layer");
        serving.stop().await
    });
}

#[test]
fn a_service_that_fails_or_panics_answers_500_and_others_go_on() {
    on_each("failing services", async || {
        let serving = Serving::of(tower::service_fn(|request: Request<Body>| async move {
            match request.uri().path() {
                "/panics" => panic!("a panic that is meant"),
                "/fails" => Err(std::io::Error::other("out of luck")),
                _ => Ok(Response::new(Full::<bytes::Bytes>::from("fine"))),
            }
        }))?;
        assert!(serving.get("/fails").await?.starts_with("HTTP/1.1 500 "));
        assert!(serving.get("/panics").await?.starts_with("HTTP/1.1 500 "));
        assert_answer(&serving.get("/").await?, 200, "fine");
        serving.stop().await
    });
}

#[test]
fn a_call_of_grpc_has_its_time() {
    on_each("grpc-timeout", async || {
        let serving = Serving::of(tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path() == "/late" {
                sleep(Duration::from_secs(60)).await;
            }
            // One frame, and then nothing for a long time.
            Ok::<_, Infallible>(Response::new(StreamBody::new(Late(Some(Box::pin(sleep(Duration::ZERO)))))))
        }))?;
        let fields = [("content-type", "application/grpc"), ("grpc-timeout", "50m"), ("te", "trailers")];
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&request_frames(1, "POST", "/late", &fields, END_STREAM)).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(200) && head.ends_stream(), "{head:?}");
        client.send(&request_frames(3, "POST", "/", &fields, END_STREAM)).await?;
        let frames = client.frames_until(|frames| is_ended(frames, 3)).await?;
        let kinds: Vec<u8> = frames.iter().filter(|frame| frame.stream == 3).map(|frame| frame.kind).collect();
        assert_eq!(kinds, [HEADERS, DATA, HEADERS], "a head, a frame and trailers");
        drop(client);
        serving.stop().await
    });

    struct Late(Option<Pin<Box<plimsoll_runtime::Sleep>>>);
    impl futures_core::Stream for Late {
        type Item = Result<http_body::Frame<bytes::Bytes>, Infallible>;

        fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            let Some(pause) = &mut self.0 else { return Poll::Pending };
            core::task::ready!(pause.as_mut().poll(cx));
            self.0 = None;
            Poll::Ready(Some(Ok(http_body::Frame::data(bytes::Bytes::from_static(b"some")))))
        }
    }
}

#[test]
fn a_request_is_charged_while_it_is_worked_on_and_refused_at_the_line() {
    on_each("a footprint", async || {
        let serving = Serving::start(
            tower::service_fn(|_: Request<Body>| async {
                let charged = plimsoll_runtime::budget().charged_by(plimsoll_runtime::Kind::Tasks);
                Ok::<_, Infallible>(Response::new(Full::<bytes::Bytes>::from(charged.to_string())))
            }),
            Options::default().footprint_bytes(1 << 20),
        )?;
        let answer = serving.get("/").await?;
        let charged: u64 = answer.rsplit("\r\n").next().and_then(|text| text.parse().ok()).expect("a number");
        assert!(charged >= 1 << 20, "{charged}");
        until("it is given back", || plimsoll_runtime::budget().charged_by(plimsoll_runtime::Kind::Tasks) < 1 << 20)
            .await;
        serving.stop().await?;
        Ok(())
    });
    on_each("no footprint", async || {
        let serving = Serving::start(tower::service_fn(echo), Options::default().footprint_bytes(1 << 40))?;
        assert!(serving.get("/").await?.starts_with("HTTP/1.1 503 "));
        serving.stop().await
    });
}

#[test]
fn the_peers_address_is_among_the_extensions_unless_it_shall_not() {
    async fn peer(request: Request<Body>) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
        let peer = request.extensions().get::<PeerAddress>().map(|peer| peer.0.ip().to_string());
        Ok(Response::new(Full::from(peer.unwrap_or_else(|| "nobody".to_owned()))))
    }

    on_each("addresses", async || {
        let serving = Serving::of(tower::service_fn(peer))?;
        assert_answer(&serving.get("/").await?, 200, "127.0.0.1");
        serving.stop().await
    });
    on_each("no addresses", async || {
        let serving = Serving::start(tower::service_fn(peer), Options::default().peer_address(false))?;
        assert_answer(&serving.get("/").await?, 200, "nobody");
        serving.stop().await
    });
}

#[cfg(feature = "axum")]
#[test]
fn a_handler_of_axum_answers_with_a_websocket() {
    use axum::routing::any;
    use plimsoll_tower::ws::WebSocketUpgrade;

    async fn echo(upgrade: WebSocketUpgrade) -> axum::response::Response {
        upgrade.on_upgrade(|mut socket| async move {
            while let Ok(Some(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        })
    }

    on_each("a WebSocket", async || {
        let serving = Serving::of(Router::new().route("/ws", any(echo)))?;
        let refused = serving.get("/ws").await?;
        assert!(refused.starts_with("HTTP/1.1 426 ") && refused.contains("must ask for an upgrade"), "{refused}");
        let mut client = TcpStream::connect(serving.address).await?;
        let handshake = b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
            Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        client.send_bytes(handshake).await?;
        // "hi", with a mask of zeros.
        client.send_bytes(&[0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await?;
        let mut got = Vec::new();
        while !got.ends_with(&[0x81, 2, b'h', b'i']) {
            got.extend_from_slice(&client.recv().await?.expect("an echo"));
        }
        assert!(got.starts_with(b"HTTP/1.1 101 "));
        client.send_bytes(&[0x88, 0x82, 0, 0, 0, 0, 3, 232]).await?;
        while client.recv().await?.is_some() {}
        serving.stop().await
    });
}

/// The methods of axum's own extractor, under the same names.
#[cfg(feature = "axum")]
#[test]
fn a_websocket_for_axum_is_set_up_as_one_of_axum() {
    use axum::http::HeaderValue;
    use axum::routing::any;
    use plimsoll_tower::ws::WebSocketUpgrade;

    async fn open(State(failed): State<Arc<AtomicUsize>>, upgrade: WebSocketUpgrade) -> axum::response::Response {
        let requested: Vec<HeaderValue> = upgrade.requested_protocols().cloned().collect();
        let upgrade = upgrade.protocols(["v2", "v1"]).max_message_size(1 << 10).max_frame_size(3).read_buffer_size(1);
        let mut upgrade = upgrade.write_buffer_size(1).max_write_buffer_size(1).on_failed_upgrade(move |error| {
            assert!(matches!(error, plimsoll_http::Error::Peer(_)), "{error}");
            failed.fetch_add(1, Ordering::Relaxed);
        });
        if requested.is_empty() {
            assert_eq!(upgrade.selected_protocol(), None);
            upgrade.set_selected_protocol(HeaderValue::from_static("own"));
        }
        upgrade.on_upgrade(|mut socket| async move { while let Ok(Some(_)) = socket.recv().await {} })
    }

    on_each("methods of axum", async || {
        let failed = Arc::<AtomicUsize>::default();
        let serving = Serving::of(Router::new().route("/ws", any(open)).with_state(Arc::clone(&failed)))?;
        let open = async |version: &str, fields: &str| {
            let mut client = TcpStream::connect(serving.address).await?;
            let head = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
            let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            client
                .send_bytes(format!("{head}{key}{fields}Sec-WebSocket-Version: {version}\r\n\r\n").as_bytes())
                .await?;
            let answer = rig::read(&mut client, Some(b"\r\n\r\n")).await?;
            Ok::<_, plimsoll_runtime::Error>((client, answer.to_ascii_lowercase()))
        };
        let (mut client, answer) =
            open("13", "Sec-WebSocket-Protocol: v0, v1\r\nSec-WebSocket-Protocol: v2\r\n").await?;
        assert!(
            answer.starts_with("http/1.1 101 ") && answer.contains("\r\nsec-websocket-protocol: v2\r\n"),
            "{answer}"
        );
        // Four bytes are too long: 1009.
        client.send_bytes(&[0x81, 0x84, 0, 0, 0, 0, b'l', b'o', b'n', b'g']).await?;
        let mut got = Vec::new();
        while let Some(bytes) = client.recv().await? {
            got.extend_from_slice(&bytes);
        }
        assert!(got.starts_with(&[0x88]) && got[2..].starts_with(&1_009_u16.to_be_bytes()), "{got:?}");
        let (_client, answer) = open("13", "").await?;
        assert!(answer.contains("\r\nsec-websocket-protocol: own\r\n"), "{answer}");
        assert_eq!(failed.load(Ordering::Relaxed), 0);
        let (_client, answer) = open("12", "").await?;
        assert!(answer.starts_with("http/1.1 426 "), "{answer}");
        assert_eq!(failed.load(Ordering::Relaxed), 1);
        serving.stop().await
    });
}

/// A server that tonic generates, asked in frames: unary and streaming calls, and errors.
#[test]
fn a_server_of_tonic_is_served() {
    /// A message with its prefix: a `HealthCheckRequest` for a service.
    fn check(service: &str) -> Vec<u8> {
        let mut message = vec![10, service.len() as u8];
        message.extend_from_slice(service.as_bytes());
        [&[0, 0, 0, 0, message.len() as u8], &message[..]].concat()
    }

    on_each("tonic", async || {
        let (reporter, health) = tonic_health::server::health_reporter();
        reporter.set_service_status("berths", tonic_health::ServingStatus::Serving).await;
        let serving = Serving::of(tonic::service::Routes::new(health).prepare().into_axum_router())?;
        let fields = [("content-type", "application/grpc"), ("te", "trailers")];
        let mut client = Client::connect(serving.address, &[]).await?;
        let call = |stream, method: &str, service| {
            let path = format!("/grpc.health.v1.Health/{method}");
            let head = request_frames(stream, "POST", &path, &fields, 0);
            [head, rig::frames::frame(DATA, END_STREAM, stream, &check(service))].concat()
        };
        // SERVING is 1.
        let serving_message = [0, 0, 0, 0, 2, 8, 1];
        client.send(&call(1, "Check", "berths")).await?;
        let frames = client.frames_until(|frames| is_ended(frames, 1)).await?;
        let data: Vec<_> = frames.iter().filter(|frame| frame.kind == DATA).map(|frame| &frame.payload[..]).collect();
        assert_eq!(data.concat(), serving_message);
        let trailers = frames.iter().rfind(|frame| frame.kind == HEADERS).expect("trailers");
        assert!(trailers.ends_stream() && contains(&trailers.payload, b"grpc-status"), "{trailers:?}");
        // A service that is not known, and a method that is not there: the status is in the head.
        for (stream, method, service) in [(3, "Check", "masts"), (5, "Cheque", "berths")] {
            client.send(&call(stream, method, service)).await?;
            let head = client.next_of(HEADERS).await?;
            assert!(head.has_status(200) && head.ends_stream() && contains(&head.payload, b"grpc-status"), "{head:?}");
        }
        // A stream of answers goes on until its client leaves.
        client.send(&call(7, "Watch", "berths")).await?;
        assert_eq!(client.next_of(DATA).await?.payload, serving_message);
        reporter.set_service_status("berths", tonic_health::ServingStatus::NotServing).await;
        assert_eq!(client.next_of(DATA).await?.payload, [0, 0, 0, 0, 2, 8, 2]);
        client.send(&rig::frames::cancel(7)).await?;
        drop(client);
        serving.stop().await
    });
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
