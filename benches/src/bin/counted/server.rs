//! The server in a simulated world, and its clients beside it.
//!
//! What clients do is not to be counted: [`client_turn`] is where they are polled, and callgrind is told to look away
//! there. What is left of them are the completions of their operations, which the worker hands on.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use plimsoll::http::{Error, Message, Request, Response, Serve, Server, StatusCode, WebSocketConfig, WebSocketRef};
use plimsoll::net::TcpStream;
use plimsoll::sim::{SimConfig, World};
use plimsoll::{MemoryLimit, Runtime, Spawner, sleep, spawn};

use crate::requests;

/// Connections that take turns in [`in_turns`].
const PARKED: u32 = 32;
/// Between two requests of [`in_turns`]: a connection is parked 32 times as long, and not so long that it is closed.
const PAUSE: Duration = Duration::from_secs(1);

/// One request after the other on one connection.
pub(crate) fn one_by_one(request: &[u8], count: u32, line: MemoryLimit) {
    simulate(line, async |address| {
        let mut client = Client::connect(address).await;
        let answer_bytes = client.first(request).await;
        for _ in 0..count {
            client.ask(request, answer_bytes).await;
        }
    });
}

/// One request after the other for the only route of a router.
#[cfg(feature = "layers")]
pub(crate) fn route(routes: plimsoll::http::Router, count: u32, line: MemoryLimit) {
    simulate_service(line, routes, async |address| {
        let mut client = Client::connect(address).await;
        let answer_bytes = client.first(requests::GET).await;
        for _ in 0..count {
            client.ask(requests::GET, answer_bytes).await;
        }
    });
}

/// Sixteen requests in one piece after each other.
pub(crate) fn pipelined(count: u32, line: MemoryLimit) {
    simulate(line, async |address| {
        let mut client = Client::connect(address).await;
        let answer_bytes = client.first(requests::GET).await;
        let batch = requests::pipelined();
        for _ in 0..count / requests::PIPELINED {
            client.ask(&batch, answer_bytes * requests::PIPELINED as usize).await;
        }
    });
}

/// So many requests of HTTP/2 in one piece, on streams of one connection, after each other.
pub(crate) fn http2(count: u32, at_once: u32, line: MemoryLimit) {
    simulate(line, async |address| {
        let mut client = Client::connect(address).await;
        client.0.send_bytes(requests::HTTP2_BEGIN).await.expect("the server reads");
        let mut next = 1;
        client.ask_http2(&mut next, 1).await;
        for _ in 0..count / at_once {
            client.ask_http2(&mut next, at_once).await;
        }
    });
}

/// One request on one of many connections after the other, with a pause in between.
pub(crate) fn in_turns(count: u32, line: MemoryLimit) {
    simulate(line, async |address| {
        let mut clients = Vec::new();
        let mut answer_bytes = 0;
        for _ in 0..PARKED {
            let mut client = Client::connect(address).await;
            answer_bytes = client.first(requests::GET).await;
            clients.push(client);
        }
        for turn in 0..count {
            sleep(PAUSE).await;
            clients[(turn % PARKED) as usize].ask(requests::GET, answer_bytes).await;
        }
    });
}

/// One message after the other on a WebSocket, each of which comes back.
pub(crate) fn messages(handshake: &[u8], count: u32, line: MemoryLimit) {
    simulate(line, async |address| {
        let mut client = Client::connect(address).await;
        client.0.send_bytes(handshake).await.expect("the server reads");
        sleep(Duration::from_millis(100)).await;
        let answer = client.0.recv().await.expect("the server answers").expect("and keeps the connection");
        assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(b"\r\n\r\n"), "{}", answer.escape_ascii());
        let message = requests::message();
        for _ in 0..count {
            // As long without its mask.
            client.ask(&message, message.len() - 4).await;
        }
    });
}

/// Runs the server, and the client until it is done.
fn simulate(line: MemoryLimit, client: impl AsyncFnOnce(std::net::SocketAddr)) {
    simulate_service(line, answer, client);
}

/// The same with another service.
fn simulate_service<A>(line: MemoryLimit, service: impl Serve<A>, client: impl AsyncFnOnce(std::net::SocketAddr)) {
    let world = World::new(SimConfig::new(1));
    // The stall detector reads a real clock after each poll.
    let runtime = Runtime::builder().memory(line).stall_limit(None).simulate(&world);
    let runtime = runtime.expect("the line is high enough");
    runtime.block_on(async {
        let server = Server::bind("127.0.0.1:80").expect("the world is empty");
        let address = server.local_addr();
        let serving = spawn(server.serve(service)).expect("there is room");
        let mut client = pin!(client(address));
        poll_fn(|cx| client_turn(&mut |cx| client.as_mut().poll(cx), cx)).await;
        Spawner::current().stop();
        serving.await.expect("the server does not panic").expect("the server does not fail");
    });
    let report = runtime.shutdown();
    assert!(report.is_clean(), "{report}");
}

/// Polls the client. A function of its own, whatever the compiler thinks: callgrind knows it by name.
#[inline(never)]
fn client_turn(poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>, cx: &mut Context<'_>) -> Poll<()> {
    poll(cx)
}

/// What a program's handler may look like.
async fn answer(mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/pipeline" => Ok(Response::text("ok")),
        "/echo" => echo(&mut request).await,
        "/ws" => request.serve_websocket(&WebSocketConfig::default(), send_back),
        "/ws-task" => request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
            while let Ok(Some(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }),
        _ => Ok(Response::new(StatusCode::NOT_FOUND)),
    }
}

fn send_back(socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
    socket.send(message)
}

async fn echo(request: &mut Request) -> Result<Response, Error> {
    let mut out = request.respond(Response::new(StatusCode::OK), request.content_length())?;
    while let Some(chunk) = request.chunk().await? {
        out.write(chunk).await?;
    }
    out.finish().await
}

/// A client that knows how long its answers are.
struct Client(TcpStream);

impl Client {
    async fn connect(address: std::net::SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.expect("the server listens"))
    }

    /// Asks for the first time, and finds out how long the answer is.
    async fn first(&mut self, request: &[u8]) -> usize {
        self.0.send_bytes(request).await.expect("the server reads");
        // Long enough for an answer in several pieces.
        sleep(Duration::from_millis(100)).await;
        let answer = self.0.recv().await.expect("the server answers").expect("and keeps the connection");
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", answer.escape_ascii());
        answer.len()
    }

    /// Sends so many requests at once, and reads frames until so many bodies have ended.
    async fn ask_http2(&mut self, next: &mut u32, at_once: u32) {
        let mut batch = Vec::new();
        for _ in 0..at_once {
            batch.extend(requests::http2_get(*next, *next == 1));
            *next += 2;
        }
        self.0.send_bytes(&batch).await.expect("the server reads");
        let (mut bytes, mut ended) = (Vec::new(), 0);
        while ended < at_once {
            bytes.extend_from_slice(
                &self.0.recv().await.expect("the server answers").expect("and keeps the connection"),
            );
            while let Some(&[a, b, c, kind, flags, ..]) = bytes.first_chunk::<9>() {
                let whole = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
                if bytes.len() < whole {
                    break;
                }
                assert!(matches!(kind, 0 | 1 | 4), "neither a reset nor a GOAWAY: {}", bytes.escape_ascii());
                if kind == 0 && flags == 1 {
                    assert_eq!(&bytes[9..whole], b"ok");
                    ended += 1;
                }
                bytes.drain(..whole);
            }
        }
        assert!(bytes.is_empty() && ended == at_once, "every request has one answer");
    }

    async fn ask(&mut self, request: &[u8], answer_bytes: usize) {
        self.0.send_bytes(request).await.expect("the server reads");
        let mut got = 0;
        while got < answer_bytes {
            got += self.0.recv().await.expect("the server answers").expect("and keeps the connection").len();
        }
        assert_eq!(got, answer_bytes, "every answer is alike");
    }
}
