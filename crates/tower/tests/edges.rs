//! What a service may say and a client may ask beside the usual: each has one clear outcome.

#![forbid(unsafe_code)]

#[path = "../../http/tests/rig/mod.rs"]
mod rig;

use core::convert::Infallible;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use plimsoll_http::{Config, Server};
use plimsoll_runtime::{JoinHandle, Result, Spawner, spawn};
use plimsoll_tower::Body;
use rig::frames::{Client, DATA, END_STREAM, HEADERS, frame, is_ended, request as request_frames};
use rig::{on_each, talk};

struct Serving {
    address: SocketAddr,
    task: JoinHandle<Result<()>>,
}

impl Serving {
    fn of<F, R, B>(answer: F) -> Result<Self>
    where
        F: FnMut(http::Request<Body>) -> R + Clone + Send + 'static,
        R: Future<Output = http::Response<B>> + 'static,
        B: http_body::Body + 'static,
        B::Error: Into<plimsoll_tower::BoxError>,
    {
        let server = Server::bind("127.0.0.1:0")?.config(Config::default());
        let address = server.local_addr();
        let service = tower::service_fn(move |request| {
            let answered = answer.clone()(request);
            async { Ok::<_, Infallible>(answered.await) }
        });
        Ok(Self { address, task: spawn(plimsoll_tower::serve(server, service))? })
    }

    async fn ask(&self, request: &str) -> Result<String> {
        talk(self.address, &[request.as_bytes()], None).await
    }

    async fn get(&self, method: &str, path: &str) -> Result<String> {
        self.ask(&format!("{method} {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")).await
    }

    async fn stop(self) -> Result<()> {
        Spawner::current().stop();
        self.task.await.expect("the server does not panic")
    }
}

/// A body of these frames, with whatever it says about itself, and a turn before each frame.
struct Frames {
    frames: VecDeque<Frame<Bytes>>,
    hint: SizeHint,
    has_paused: bool,
}

impl Frames {
    fn of<const N: usize>(frames: [&'static str; N]) -> Self {
        let frames = frames.map(|text| Frame::data(Bytes::from_static(text.as_bytes()))).into();
        Self { frames, hint: SizeHint::default(), has_paused: false }
    }

    fn exact(mut self, bytes: u64) -> Self {
        self.hint = SizeHint::with_exact(bytes);
        self
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.has_paused = !self.has_paused;
        if self.has_paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or(answer)
}

/// HEAD tells of a resource what GET would: not that it is empty, where a service does not say how long it is.
#[test]
fn an_answer_to_head_does_not_make_up_a_length() {
    on_each("HEAD", async || {
        let serving = Serving::of(async |request: http::Request<Body>| match request.uri().path() {
            "/known" => http::Response::builder().header("content-length", 7).body(Body::empty()).expect("a response"),
            _ => http::Response::new(Body::empty()),
        })?;
        let known = serving.get("HEAD", "/known").await?;
        assert!(known.to_lowercase().contains("\r\ncontent-length: 7\r\n"), "{known}");
        let unknown = serving.get("HEAD", "/").await?;
        assert_eq!(status(&unknown), "200");
        let fields = unknown.to_lowercase();
        assert!(!fields.contains("\r\ncontent-length:") && !fields.contains("\r\ntransfer-encoding:"), "{unknown}");
        let get = serving.get("GET", "/").await?;
        assert!(get.to_lowercase().contains("\r\ncontent-length: 0\r\n"), "{get}");
        serving.stop().await
    });
}

/// A body that cannot be there is left out, as hyper does.
#[test]
fn a_status_without_a_body_has_none_whatever_the_service_says() {
    on_each("no body", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let code: u16 = request.uri().path()[1..4].parse().expect("a status");
            let body = if request.uri().path().ends_with("late") { Frames::of(["some"]) } else { Frames::of([]) };
            let body = if request.uri().path().ends_with("now") {
                Full::<Bytes>::from("some").map_err(|never| match never {}).boxed_unsync()
            } else {
                body.boxed_unsync()
            };
            http::Response::builder().status(code).body(body).expect("a response")
        })?;
        for path in ["/204/now", "/204/late", "/205/now", "/304/now", "/304/late", "/204/", "/304/"] {
            let answer = serving.get("GET", path).await?;
            assert_eq!(status(&answer), &path[1..4], "{path}: {answer}");
            assert!(answer.ends_with("\r\n\r\n") && answer.matches("\r\n\r\n").count() == 1, "{path}: {answer}");
        }
        for path in ["/100/", "/101/", "/103/", "/199/now"] {
            let answer = serving.get("GET", path).await?;
            assert_eq!(status(&answer), "500", "{path}: {answer}");
        }
        serving.stop().await
    });
}

/// A body that is not as long as it says is cut short: nobody takes it for the whole.
#[test]
fn a_length_that_lies_ends_the_connection() {
    on_each("lies", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            http::Response::new(match request.uri().path() {
                "/short" => Frames::of(["some"]).exact(9),
                "/long" => Frames::of(["some", "more"]).exact(5),
                "/empty" => Frames::of(["", "some", ""]),
                _ => Frames::of(["some", "more"]).exact(8),
            })
        })?;
        assert!(serving.get("GET", "/true").await?.ends_with("\r\n\r\nsomemore"));
        for path in ["/short", "/long"] {
            let answer = serving.get("GET", path).await?;
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let announced = head.to_lowercase();
            let announced = announced.split("content-length: ").nth(1).expect("a length");
            let announced: usize = announced.lines().next().and_then(|text| text.parse().ok()).expect("a number");
            assert_eq!(status(&answer), "200");
            assert!(body.len() < announced && "somemore".starts_with(body), "{path}: {answer}");
            let mut client = Client::connect(serving.address, &[]).await?;
            client.send(&request_frames(1, "GET", path, &[], END_STREAM)).await?;
            assert_eq!(client.next_of(rig::frames::RST_STREAM).await?.stream, 1, "{path}");
        }
        let empty = serving.get("GET", "/empty").await?;
        assert!(empty.ends_with("\r\n\r\n4\r\nsome\r\n0\r\n\r\n"), "{empty}");
        serving.stop().await
    });
}

/// What follows the last byte of a body whose length is known is its end, whether the exchange is over or not.
#[test]
fn a_body_that_was_read_has_ended() {
    use std::sync::mpsc;

    on_each("the end", async || {
        let (bodies, kept) = mpsc::channel();
        let serving = Serving::of(move |request: http::Request<Body>| {
            let bodies = bodies.clone();
            async move {
                let mut body = request.into_body();
                let frame = body.frame().await.expect("a frame").expect("no error");
                assert_eq!(frame.into_data().expect("data"), "some");
                bodies.send(body).expect("the test waits");
                http::Response::new(Full::<Bytes>::default())
            }
        })?;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 4\r\n\r\nsome";
        assert_eq!(status(&serving.ask(head).await?), "200");
        let mut body: Body = kept.try_recv().expect("it was called");
        assert!(body.frame().await.is_none(), "all was read");
        serving.stop().await
    });
}

/// A body of HTTP/2 may have a length and trailers.
#[test]
fn trailers_behind_a_known_length_are_read() {
    on_each("trailers", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let mut body = request.into_body();
            let mut seen = String::new();
            while !http_body::Body::is_end_stream(&body) {
                let Some(frame) = body.frame().await else { break };
                match frame.expect("no error").into_data() {
                    Ok(data) => seen.push_str(core::str::from_utf8(&data).expect("text")),
                    Err(frame) => {
                        let trailers = frame.into_trailers().expect("trailers");
                        seen.push_str(trailers["x-sum"].to_str().expect("text"));
                    }
                }
            }
            http::Response::new(Full::<Bytes>::from(seen))
        })?;
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&request_frames(1, "POST", "/", &[("content-length", "4")], 0)).await?;
        client.send(&frame(DATA, 0, 1, b"some")).await?;
        let block = rig::frames::block(&[("x-sum", "!")]);
        client.send(&frame(HEADERS, END_STREAM | 4, 1, &block)).await?;
        assert_eq!(client.next_of(DATA).await?.payload, b"some!");
        drop(client);
        serving.stop().await
    });
}

/// HTTP/2 cuts cookies into fields; whoever is not HTTP/2 gets them as one (RFC 9113 8.2.3).
#[test]
fn cookies_of_http2_are_one_field() {
    on_each("cookies", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let cookies: Vec<_> = request.headers().get_all("cookie").iter().map(|value| value.as_bytes()).collect();
            http::Response::new(Full::<Bytes>::from(cookies.join(&b"|"[..])))
        })?;
        let mut client = Client::connect(serving.address, &[]).await?;
        let fields = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")];
        client.send(&request_frames(1, "GET", "/", &fields, END_STREAM)).await?;
        assert_eq!(client.next_of(DATA).await?.payload, b"a=1; b=2; c=3");
        drop(client);
        serving.stop().await
    });
}

#[test]
fn targets_and_values_are_as_they_were_sent() {
    on_each("targets", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let values: Vec<_> = request.headers().get_all("x").iter().map(|value| value.as_bytes()).collect();
            let mut text = request.uri().to_string().into_bytes();
            text.push(b' ');
            text.extend(values.join(&b","[..]));
            http::Response::new(Full::<Bytes>::from(text))
        })?;
        let ask = async |target: &str| serving.get("OPTIONS", target).await;
        for target in ["*", "/", "/?", "/a?b=c&d", "http://there:80/x?y", "/%ff", "/{a}|"] {
            let answer = ask(target).await?;
            assert!(status(&answer) == "400" || answer.ends_with(&format!("\r\n\r\n{target} ")), "{target}: {answer}");
        }
        let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nX: tea\xe9\r\nx:\r\nX: 2\r\nConnection: close\r\n\r\n";
        let answer = talk(serving.address, &[bytes], None).await?;
        assert!(answer.ends_with("\r\n\r\n/ tea\u{fffd},,2"), "{answer}");
        serving.stop().await
    });
}

/// The largest time that a client may ask for is one.
#[test]
fn a_call_may_have_a_very_long_time() {
    on_each("long", async || {
        let serving = Serving::of(async |_request: http::Request<Body>| http::Response::new(Frames::of(["some"])))?;
        let fields = [("content-type", "application/grpc"), ("grpc-timeout", "99999999H")];
        let mut client = Client::connect(serving.address, &[]).await?;
        client.send(&request_frames(1, "POST", "/", &fields, END_STREAM)).await?;
        let frames = client.frames_until(|frames| is_ended(frames, 1)).await?;
        assert!(frames.iter().any(|frame| frame.kind == DATA && frame.payload == b"some"));
        drop(client);
        serving.stop().await
    });
}

/// A stream's status is behind its body: who could not see it there hears so at once.
#[test]
fn a_call_by_http_1_0_is_refused_in_one_line() {
    on_each("HTTP/1.0", async || {
        let serving = Serving::of(async |_request: http::Request<Body>| http::Response::new(Frames::of(["some"])))?;
        let call = |version: &str, kind: &str| {
            format!(
                "POST / {version}\r\nHost: a\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n\r\n"
            )
        };
        let refused = serving.ask(&call("HTTP/1.0", "application/grpc+proto")).await?;
        assert!(status(&refused) == "505" && refused.ends_with("use HTTP/2\n"), "{refused}");
        for other in [call("HTTP/1.0", "application/grpc-web"), call("HTTP/1.1", "application/grpc")] {
            assert_eq!(status(&serving.ask(&other).await?), "200");
        }
        serving.stop().await
    });
}

/// Without tokio's context a timer of tokio panics, with its own text: its request hears 500, others go on.
#[test]
fn what_needs_tokio_and_has_none_is_a_500() {
    on_each("no context", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            if request.uri().path() == "/tokio" {
                let made = std::panic::catch_unwind(|| drop(tokio::time::sleep(core::time::Duration::ZERO)));
                let panic = made.expect_err("there is no context");
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                assert!(text.contains("there is no reactor running"), "{text}");
                std::panic::resume_unwind(panic);
            }
            http::Response::new(Full::<Bytes>::default())
        })?;
        assert_eq!(status(&serving.get("GET", "/tokio").await?), "500");
        assert_eq!(status(&serving.get("GET", "/").await?), "200");
        serving.stop().await
    });
}

/// A body over a limit of axum's is a 413 of axum's, whether its length is known or not.
#[test]
fn a_body_over_the_limit_of_its_route_is_a_413() {
    use axum::{Router, extract::DefaultBodyLimit, routing::post};

    on_each("limits", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let router = Router::new().route("/", post(async |body: String| body)).layer(DefaultBodyLimit::max(8));
        let task = spawn(plimsoll_tower::serve(server, router))?;
        let head = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        for (body, wanted) in [
            ("Content-Length: 8\r\n\r\n01234567", "200"),
            ("Content-Length: 9\r\n\r\n012345678", "413"),
            ("Transfer-Encoding: chunked\r\n\r\n9\r\n012345678\r\n0\r\n\r\n", "413"),
        ] {
            let answer = talk(address, &[head.as_bytes(), body.as_bytes()], None).await?;
            assert_eq!(status(&answer), wanted, "{answer}");
            assert!(wanted == "200" || answer.contains("length limit exceeded"), "{answer}");
        }
        Spawner::current().stop();
        task.await.expect("the server does not panic")
    });
}

/// Trailers that HTTP does not allow behind a body are left out; the others and the end of the body arrive.
#[test]
fn trailers_that_are_not_allowed_do_not_cut_the_answer_short() {
    on_each("forbidden trailers", async || {
        let serving = Serving::of(async |_request: http::Request<Body>| {
            let mut trailers = http::HeaderMap::new();
            for name in ["content-length", "transfer-encoding", "set-cookie", "x-sum"] {
                trailers.insert(name, "7".parse().expect("a value"));
            }
            let mut body = Frames::of(["some"]);
            body.frames.push_back(Frame::trailers(trailers));
            http::Response::new(body)
        })?;
        let answer = serving.get("GET", "/").await?;
        assert!(answer.ends_with("\r\n\r\n4\r\nsome\r\n0\r\nx-sum: 7\r\n\r\n"), "{answer}");
        serving.stop().await
    });
}

#[test]
fn a_client_that_waits_for_100_gets_it_when_the_body_is_read() {
    on_each("100", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let read = request.uri().path() == "/read";
            let body = request.into_body();
            let bytes = if read { body.collect().await.expect("a body").to_bytes() } else { Bytes::new() };
            http::Response::new(Full::new(bytes))
        })?;
        let head =
            "POST /read HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
        let answer = talk(serving.address, &[head.as_bytes(), b"some"], None).await?;
        assert!(
            answer.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200") && answer.ends_with("some"),
            "{answer}"
        );
        let answer = talk(serving.address, &[head.replace("/read", "/").as_bytes()], None).await?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        serving.stop().await
    });
}

/// Layers see the answer of a WebSocket's handler, too: one that says no is obeyed, and what another adds arrives.
#[cfg(feature = "axum")]
#[test]
fn layers_have_their_say_about_a_websocket() {
    use axum::{Router, middleware, response::IntoResponse, routing::any};
    use plimsoll_runtime::net::TcpStream;
    use plimsoll_tower::ws::WebSocketUpgrade;

    async fn open(upgrade: WebSocketUpgrade) -> axum::response::Response {
        upgrade.on_upgrade(|_socket| async {})
    }

    on_each("layers and WebSockets", async || {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let refused = Router::new().route("/no", any(open)).layer(middleware::map_response(
            async |response: axum::response::Response| (http::StatusCode::FORBIDDEN, response).into_response(),
        ));
        let marked = Router::new().route("/yes", any(open)).layer(middleware::map_response(
            async |response: axum::response::Response| ([("x-layer", "seen")], response).into_response(),
        ));
        let task = spawn(plimsoll_tower::serve(server, refused.merge(marked)))?;
        let ask = async |path: &str| {
            let mut client = TcpStream::connect(address).await?;
            let handshake = format!(
                "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            client.send_bytes(handshake.as_bytes()).await?;
            rig::read(&mut client, Some(b"\r\n\r\n")).await
        };
        let no = ask("/no").await?;
        assert_eq!(status(&no), "403", "{no}");
        let yes = ask("/yes").await?;
        assert!(status(&yes) == "101" && yes.to_lowercase().contains("\r\nx-layer: seen\r\n"), "{yes}");
        Spawner::current().stop();
        task.await.expect("the server does not panic")
    });
}

/// Says when it is dropped.
struct Told(std::sync::mpsc::Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _nobody_waits = self.0.send(());
    }
}

/// Whatever a service waits for, or its body: when the client goes away, it is dropped.
#[test]
fn a_client_that_leaves_ends_the_service_and_its_body() {
    use std::sync::mpsc;

    /// One frame, and then nothing.
    struct Endless {
        _told: Told,
        has_begun: bool,
    }
    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if core::mem::replace(&mut self.has_begun, true) {
                return Poll::Pending;
            }
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"some")))))
        }
    }

    on_each("a client leaves", async || {
        let (sender, dropped) = mpsc::channel();
        let serving = Serving::of(move |request: http::Request<Body>| {
            let told = Told(sender.clone());
            async move {
                if request.uri().path() == "/waits" {
                    core::future::pending::<()>().await;
                }
                http::Response::new(Endless { _told: told, has_begun: false })
            }
        })?;
        for path in ["/waits", "/streams"] {
            let mut client = plimsoll_runtime::net::TcpStream::connect(serving.address).await?;
            // It resets the connection: one that only closes its half still gets what was begun.
            client.set_option(plimsoll_runtime::net::SocketOption::Linger(Some(core::time::Duration::ZERO)))?;
            client.send_bytes(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await?;
            if path == "/streams" {
                rig::read(&mut client, Some(b"some")).await?;
            } else {
                plimsoll_runtime::sleep(core::time::Duration::from_millis(5)).await;
            }
            assert!(dropped.try_recv().is_err(), "{path}: it goes on");
            drop(client);
            rig::until("it is dropped", || dropped.try_recv().is_ok()).await;
            let mut client = Client::connect(serving.address, &[]).await?;
            client.send(&request_frames(1, "GET", path, &[], END_STREAM)).await?;
            if path == "/streams" {
                client.next_of(DATA).await?;
            } else {
                plimsoll_runtime::sleep(core::time::Duration::from_millis(5)).await;
            }
            client.send(&rig::frames::cancel(1)).await?;
            rig::until("it is dropped", || dropped.try_recv().is_ok()).await;
        }
        let head = serving.get("HEAD", "/streams").await?;
        assert_eq!(status(&head), "200", "its body is nobody's");
        rig::until("it is dropped", || dropped.try_recv().is_ok()).await;
        serving.stop().await
    });
}

/// A body that nobody reads is not received beyond what its client may send unasked, and the connection goes on.
#[test]
fn a_body_that_is_not_read_is_not_received() {
    on_each("unread", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            if request.uri().path() == "/keeps" {
                plimsoll_runtime::sleep(core::time::Duration::from_millis(50)).await;
                let held = plimsoll_runtime::budget().charged_by(plimsoll_runtime::Kind::Buffers);
                drop(request);
                return http::Response::new(Full::<Bytes>::from(held.to_string()));
            }
            drop(request.into_body());
            http::Response::new(Full::<Bytes>::from("dropped"))
        })?;
        // As much as the first window of a stream allows.
        let piece = frame(DATA, 0, 1, &[7; 16_000]);
        for path in ["/keeps", "/drops"] {
            let mut client = Client::connect(serving.address, &[]).await?;
            client.send(&request_frames(1, "POST", path, &[], 0)).await?;
            client.send(&piece).await?;
            let answer = client.next_of(DATA).await?.payload;
            let answer = String::from_utf8(answer).expect("text");
            if let Ok(held) = answer.parse::<u64>() {
                assert!(held < 1 << 20, "{held}");
            }
            client.send(&request_frames(3, "GET", "/", &[], END_STREAM)).await?;
            let frames = client.frames_until(|frames| is_ended(frames, 3)).await?;
            assert!(frames.iter().any(|frame| frame.stream == 3 && frame.payload == b"dropped"), "{path}");
        }
        serving.stop().await
    });
}

/// CONNECT is a request as others are: what the service says about it arrives.
#[test]
fn connect_has_an_authority_alone() {
    on_each("CONNECT", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let uri = request.uri();
            let seen =
                format!("{} {:?} {:?}", request.method(), uri.authority().map(|at| at.as_str()), uri.scheme_str());
            http::Response::builder().status(405).header("x-seen", seen).body(Body::empty()).expect("a response")
        })?;
        let answer = serving.ask("CONNECT there:443 HTTP/1.1\r\nHost: there:443\r\nConnection: close\r\n\r\n").await?;
        assert!(answer.contains("x-seen: CONNECT Some(\"there:443\") None\r\n"), "{answer}");
        let mut client = Client::connect(serving.address, &[]).await?;
        let block = rig::frames::block(&[(":method", "CONNECT"), (":authority", "there:443")]);
        client.send(&frame(HEADERS, 4, 1, &block)).await?;
        let head = client.next_of(HEADERS).await?;
        assert!(head.has_status(405), "{head:?}");
        drop(client);
        serving.stop().await
    });
}

/// A body that panics while it is sent ends its own answer, and nobody else's.
#[test]
fn a_body_that_panics_cuts_its_answer_short() {
    struct Panics(u8);
    impl http_body::Body for Panics {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0 += 1;
            assert!(self.0 < 2, "a panic that is meant");
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"some")))))
        }
    }

    on_each("a body panics", async || {
        let serving = Serving::of(async |_request: http::Request<Body>| http::Response::new(Panics(0)))?;
        let answer = serving.get("GET", "/").await?;
        assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
        let mut client = Client::connect(serving.address, &[]).await?;
        for stream in [1, 3] {
            client.send(&request_frames(stream, "GET", "/", &[], END_STREAM)).await?;
            assert_eq!(client.next_of(rig::frames::RST_STREAM).await?.stream, stream);
        }
        drop(client);
        serving.stop().await
    });
}

/// Who reads as many bytes as a body has need not ask for its end: the connection goes on.
#[test]
fn a_body_that_was_read_by_its_length_keeps_the_connection() {
    on_each("by its length", async || {
        let serving = Serving::of(async |request: http::Request<Body>| {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            http::Response::new(Full::new(body))
        })?;
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
        let get = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        for pieces in [
            &[format!("{post}some{post}more{get}").as_bytes()][..],
            &[post.as_bytes(), b"so", b"me", format!("{post}mo").as_bytes(), format!("re{get}").as_bytes()],
        ] {
            let answers = talk(serving.address, pieces, None).await?;
            assert_eq!(answers.matches("HTTP/1.1 200").count(), 3, "{answers}");
            assert_eq!(answers.to_lowercase().matches("connection: close").count(), 1, "{answers}");
            assert!(answers.contains("\r\n\r\nsome") && answers.contains("\r\n\r\nmore"), "{answers}");
        }
        serving.stop().await
    });
}
