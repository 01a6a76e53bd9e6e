//! User code that calls its exchange again from where it is called itself: wakers, when they wake and when they are
//! dropped; owners of bodies and closures, when they are dropped; handlers, when they are let go of. Whatever calls
//! them has nothing borrowed, on every protocol and driver.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Wake;

use bytes::Bytes;
use plimsoll_http::{
    BodyWriter, Config, Error, Message, Request, Response, StatusCode, WebSocket, WebSocketConfig, WebSocketEnd,
    WebSocketHandler, WebSocketRef, WebSocketSender,
};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep, spawn};

use super::http2::End;
use crate::rig::frames::{self, DATA, END_STREAM, HEADERS, get, request, window_update};
use crate::rig::websocket::{Client, Got, HANDSHAKE, close, text};
use crate::rig::{Running, on_each, read, serve, until};

/// A request, and the answer that was begun to it, as several may hold them.
type Exchange = (Rc<RefCell<Request>>, Rc<RefCell<BodyWriter>>);

/// What user code of this thread reaches.
#[derive(Default)]
struct Reached {
    /// Exchanges whose handlers wait: their requests, and the answers that they have begun.
    exchanges: Vec<Exchange>,
    sockets: Vec<WebSocketSender>,
}

thread_local! {
    static REACHED: RefCell<Reached> = RefCell::default();
    /// How often which user code was called.
    static CALLED: Cell<[u32; CALLS]> = const { Cell::new([0; CALLS]) };
    /// How often somebody has begun to wait with a waker that calls again.
    static WAITS: Cell<u32> = const { Cell::new(0) };
}

/// Which user code it is.
#[derive(Clone, Copy, Debug)]
enum Call {
    Wake,
    WakerDropped,
    OwnerDropped,
    HandlerDropped,
    ClosureDropped,
}

const CALLS: usize = 5;

fn called(call: Call) -> u32 {
    CALLED.get()[call as usize]
}

/// Calls all that is reached: asks for a part of a body, writes one, sends a message, starts a task.
fn call_again(call: Call) {
    let mut called = CALLED.get();
    called[call as usize] += 1;
    CALLED.set(called);
    // What is called may call again.
    let Ok(reached) = REACHED.with(|reached| {
        let reached = reached.try_borrow().map_err(|_writing| ())?;
        Ok::<_, ()>((reached.exchanges.clone(), reached.sockets.clone()))
    }) else {
        return;
    };
    let mut cx = Context::from_waker(Waker::noop());
    for (request, out) in reached.0 {
        if let Ok(mut request) = request.try_borrow_mut() {
            let _any_answer = pin!(request.chunk()).poll(&mut cx).map(drop);
        }
        if let Ok(mut out) = out.try_borrow_mut() {
            let _any_answer = pin!(out.write_static(b".")).poll(&mut cx).map(drop);
        }
    }
    for socket in reached.1 {
        let _may_be_full = socket.send(Message::text("."));
    }
    let _no_room = spawn(async {});
}

/// Forgets what is reached, when nobody looks.
fn let_go() {
    let reached = REACHED.with(|reached| core::mem::take(&mut *reached.borrow_mut()));
    drop(reached);
}

/// A waker that calls again when it wakes, beside the one whose task it wakes, and when it is dropped.
struct Calling(Waker);

impl Wake for Calling {
    fn wake(self: Arc<Self>) {
        call_again(Call::Wake);
        self.0.wake_by_ref();
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        call_again(Call::WakerDropped);
    }
}

/// Polls a future with a waker of its own each time, so that one is dropped for the next.
async fn calling<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    core::future::poll_fn(|cx| {
        let mut polled = Poll::Pending;
        for _ in 0..3 {
            let waker = Waker::from(Arc::new(Calling(cx.waker().clone())));
            polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            drop(waker);
            if polled.is_ready() {
                return polled;
            }
        }
        WAITS.set(WAITS.get() + 1);
        polled
    })
    .await
}

/// Calls again when it is dropped: owns bytes, or is what a handler or a closure holds.
struct Owner(Vec<u8>, Call);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        call_again(self.1);
    }
}

fn owned(bytes: usize) -> Bytes {
    Bytes::from_owner(Owner(vec![b'o'; bytes], Call::OwnerDropped))
}

/// Copied behind the head; a piece of its own; in several pieces.
const SIZES: [usize; 3] = [100, 20_000, 200_000];

async fn answer(mut request: Request) -> core::result::Result<Response, Error> {
    match request.path() {
        // Is called while it waits, until it is let go of.
        "/reached" => {
            let out = request.respond(Response::new(StatusCode::OK), None)?;
            let (request, out) = (Rc::new(RefCell::new(request)), Rc::new(RefCell::new(out)));
            REACHED.with(|reached| reached.borrow_mut().exchanges.push((Rc::clone(&request), Rc::clone(&out))));
            while Rc::strong_count(&out) > 1 {
                sleep(Duration::from_millis(2)).await;
            }
            let out = Rc::into_inner(out).expect("nobody else has it").into_inner();
            out.finish().await
        }
        "/chunks" => {
            let mut bytes = 0;
            while let Some(chunk) = calling(request.chunk()).await? {
                bytes += chunk.len();
            }
            Ok(Response::text(bytes.to_string()))
        }
        "/writes" => {
            let mut out = request.respond(Response::new(StatusCode::OK), None)?;
            for bytes in SIZES.into_iter().cycle().take(30) {
                calling(out.write_bytes(owned(bytes))).await?;
            }
            out.finish().await
        }
        "/informs" => {
            for _ in 0..16 {
                calling(request.inform(Response::new(StatusCode::EARLY_HINTS).header("x", "x".repeat(8_000)))).await?;
            }
            Ok(Response::text("informed"))
        }
        "/pending" => {
            let _held = Owner(Vec::new(), Call::HandlerDropped);
            calling(core::future::pending::<()>()).await;
            unreachable!("its peer goes away")
        }
        // Their closures and handlers are not called: others take their places, and then another answer.
        "/replaced" => {
            for _ in 0..2 {
                let held = Owner(Vec::new(), Call::ClosureDropped);
                drop(request.upgrade("echo/1", move |_peer| async move { drop(held) })?);
            }
            request.respond(Response::new(StatusCode::OK), None)?.finish().await
        }
        "/replaced-websocket" => {
            for _ in 0..2 {
                let held = Echo(Owner(Vec::new(), Call::HandlerDropped));
                drop(request.serve_websocket(&WebSocketConfig::default(), held)?);
            }
            request.respond(Response::new(StatusCode::OK), None)?.finish().await
        }
        // Its body was not read.
        "/unread" => {
            let held = Owner(Vec::new(), Call::ClosureDropped);
            let refused = request.upgrade("echo/1", move |_peer| async move { drop(held) });
            Ok(Response::text(if refused.is_err() { "refused" } else { "taken" }))
        }
        // Its closure is not called.
        "/refused" => {
            let held = Owner(Vec::new(), Call::ClosureDropped);
            let upgrade = request.upgrade("echo/1", move |_peer| async move { drop(held) });
            drop(upgrade);
            Ok(Response::new(StatusCode::OK).body(owned(SIZES[0])))
        }
        "/task" => request.upgrade_websocket(&WebSocketConfig::default(), echo),
        "/called" => {
            request.serve_websocket(&WebSocketConfig::default(), Echo(Owner(Vec::new(), Call::HandlerDropped)))
        }
        path => {
            let bytes = path[1..].parse().expect("a number of bytes");
            Ok(Response::new(StatusCode::OK).body(owned(bytes)))
        }
    }
}

async fn echo(mut socket: WebSocket) {
    let _held = Owner(Vec::new(), Call::HandlerDropped);
    REACHED.with(|reached| reached.borrow_mut().sockets.push(socket.sender()));
    while let Ok(Some(message)) = calling(socket.recv()).await {
        let bytes = owned(message.as_bytes().len());
        if calling(socket.send(Message::binary(bytes))).await.is_err() {
            return;
        }
    }
}

/// Its owner calls again when it is dropped.
struct Echo(Owner);

impl WebSocketHandler for Echo {
    fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> core::result::Result<(), Error> {
        REACHED.with(|reached| reached.borrow_mut().sockets.push(socket.sender()));
        Ok(())
    }

    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> core::result::Result<(), Error> {
        call_again(self.0.1);
        socket.send(Message::binary(owned(message.as_bytes().len())))
    }

    fn closed(&mut self, _end: WebSocketEnd) {
        call_again(self.0.1);
    }
}

/// Starts the server, and has an exchange of each protocol reached.
async fn start() -> Result<(Running, TcpStream, frames::Client)> {
    CALLED.set([0; CALLS]);
    let running = serve(Config { output_bytes_max: 8_192, ..Config::default() }, answer)?;
    let mut first = TcpStream::connect(running.address).await?;
    first.send_bytes(b"POST /reached HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n").await?;
    let mut second = frames::Client::connect(running.address, &[]).await?;
    second.send(&request(1, "POST", "/reached", &[], 0)).await?;
    until("both are reached", || REACHED.with(|reached| reached.borrow().exchanges.len() == 2)).await;
    Ok((running, first, second))
}

/// Ends the exchanges that were reached: their answers are whole, with a point for each call that found room.
async fn end(running: Running, mut first: TcpStream, mut second: frames::Client) -> Result<()> {
    let_go();
    let answer = read(&mut first, Some(b"\r\n0\r\n\r\n")).await?;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\r\n1\r\n.\r\n"), "{answer}");
    let body = second.body(1).await?;
    assert!(!body.is_empty() && body.iter().all(|byte| *byte == b'.'), "{body:?}");
    drop((first, second));
    running.stop().await
}

async fn ask(running: &Running, bytes: &[u8]) -> Result<TcpStream> {
    let mut client = TcpStream::connect(running.address).await?;
    client.send_bytes(bytes).await?;
    Ok(client)
}

#[test]
fn wakers_and_owners_of_bodies_call_exchanges_of_http1_again() {
    on_each("again on HTTP/1.1", async || {
        let (running, first, second) = start().await?;
        let mut waits = WAITS.get();
        let mut upload = ask(&running, b"POST /chunks HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nab").await?;
        for part in [b"cd", b"ef"] {
            until("the handler waits", || WAITS.get() > waits).await;
            waits = WAITS.get();
            upload.send_bytes(part).await?;
        }
        let answer = read(&mut upload, Some(b"\r\n\r\n6")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        until("its wakers were called", || called(Call::Wake) > 0).await;
        let before = called(Call::OwnerDropped);
        for method in ["GET", "HEAD"] {
            for path in ["/writes", "/informs", "/refused", "/100", "/20000", "/200000"] {
                let head = format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                let mut client = ask(&running, head.as_bytes()).await?;
                sleep(Duration::from_millis(5)).await;
                let answer = read(&mut client, None).await?;
                assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{method} {path}: {answer:.300}");
                let is_whole = path == "/informs" || answer.contains("oooo") == (method == "GET");
                assert!(is_whole, "{method} {path}: {answer:.300}");
            }
        }
        until("each body is dropped", || called(Call::OwnerDropped) - before == 2 * (30 + 4)).await;
        // Bodies of which much is there when their peer goes away.
        let mut client =
            ask(&running, b"GET /200000 HTTP/1.1\r\nHost: h\r\n\r\nGET /writes HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        read(&mut client, Some(b"oooo")).await?;
        drop(client);
        end(running, first, second).await
    });
}

#[test]
fn wakers_and_owners_of_bodies_call_streams_again() {
    on_each("again on HTTP/2", async || {
        let (running, first, second) = start().await?;
        let mut client = frames::Client::connect(running.address, &[]).await?;
        client.send(&window_update(0, 1 << 30)).await?;
        let mut waits = WAITS.get();
        client.send(&request(1, "POST", "/chunks", &[], 0)).await?;
        for (part, flags) in [(b"ab", 0), (b"cd", 0), (b"ef", END_STREAM)] {
            until("the handler waits", || WAITS.get() > waits).await;
            waits = WAITS.get();
            client.send(&frames::frame(DATA, flags, 1, part)).await?;
        }
        assert_eq!(client.body(1).await?, b"6");
        until("its wakers were called", || called(Call::Wake) > 0).await;
        let before = called(Call::OwnerDropped);
        let mut stream = 1;
        for method in ["GET", "HEAD"] {
            for path in ["/writes", "/100", "/20000", "/200000"] {
                stream += 2;
                client.send(&request(stream, method, path, &[], END_STREAM)).await?;
                sleep(Duration::from_millis(5)).await;
                client.send(&window_update(stream, 1 << 30)).await?;
                let body = client.body(stream).await?;
                assert_eq!(body.is_empty(), method == "HEAD", "{method} {path}");
            }
        }
        until("each body is dropped", || called(Call::OwnerDropped) - before == 2 * (30 + 3)).await;
        stream += 2;
        client.send(&get(stream, "/informs")).await?;
        while !client.next_of(HEADERS).await?.has_status(200) {}
        // Streams that are reset, and whose connection ends, before they were sent.
        for reset in [true, false] {
            for path in ["/200000", "/writes"] {
                stream += 2;
                client.send(&get(stream, path)).await?;
                client.next_of(HEADERS).await?;
                if reset {
                    client.send(&frames::cancel(stream)).await?;
                }
            }
        }
        drop(client);
        end(running, first, second).await
    });
}

#[test]
fn handlers_that_are_let_go_of_call_again() {
    on_each("again from a handler's drop", async || {
        let (running, first, second) = start().await?;
        let waits = WAITS.get();
        let client = ask(&running, b"GET /pending HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        until("it is begun", || WAITS.get() > waits).await;
        drop(client);
        until("a handler of HTTP/1.1 is let go of", || called(Call::HandlerDropped) == 1).await;
        let mut client = frames::Client::connect(running.address, &[]).await?;
        let waits = WAITS.get();
        client.send(&[get(1, "/pending"), get(3, "/pending")].concat()).await?;
        until("both are begun", || WAITS.get() == waits + 2).await;
        client.send(&frames::cancel(1)).await?;
        until("a handler of a stream is let go of", || called(Call::HandlerDropped) == 2).await;
        drop(client);
        until("a handler of a connection is let go of", || called(Call::HandlerDropped) == 3).await;
        // And at the stop, with its closures.
        let client =
            ask(&running, b"GET /refused HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n");
        let mut client = client.await?;
        read(&mut client, Some(b"oooo")).await?;
        assert_eq!(called(Call::ClosureDropped), 1);
        let upgrade = "Host: h\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n";
        let mut client = ask(&running, format!("GET /replaced HTTP/1.1\r\n{upgrade}\r\n").as_bytes()).await?;
        let answer = read(&mut client, Some(b"0\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let unread = format!("POST /unread HTTP/1.1\r\n{upgrade}Content-Length: 1\r\n\r\n");
        let answer = read(&mut ask(&running, unread.as_bytes()).await?, Some(b"refused")).await?;
        assert!(answer.ends_with("refused"), "{answer}");
        until("the closures are dropped", || called(Call::ClosureDropped) == 4).await;
        let handshake = HANDSHAKE.replacen("GET /", "GET /replaced-websocket", 1) + "\r\n";
        let mut client = ask(&running, handshake.as_bytes()).await?;
        let answer = read(&mut client, Some(b"0\r\n\r\n")).await?;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        until("the handlers are dropped", || called(Call::HandlerDropped) == 5).await;
        end(running, first, second).await
    });
}

/// A client's end.
enum Peer {
    Connection(Client),
    Stream(End),
}

impl Peer {
    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Connection(client) => client.send(bytes).await,
            Self::Stream(end) => end.send(bytes, 5_000).await,
        }
    }

    /// The next that was not sent by who was called again.
    async fn next(&mut self) -> Result<Got> {
        loop {
            let got = match self {
                Self::Connection(client) => client.next().await?,
                Self::Stream(end) => end.next().await?,
            };
            if got != Got::Text(".".to_owned()) {
                return Ok(got);
            }
        }
    }
}

#[test]
fn wakers_owners_and_handlers_call_websockets_again() {
    on_each("again on WebSockets", async || {
        let (running, first, second) = start().await?;
        for path in ["/task", "/called"] {
            for on_stream in [false, true] {
                let dropped = called(Call::HandlerDropped);
                let mut peer = match on_stream {
                    false => Peer::Connection(Client::open(running.address, path).await?),
                    true => Peer::Stream(End::open(running.address, path).await?),
                };
                for bytes in SIZES {
                    sleep(Duration::from_millis(5)).await;
                    peer.send(&text(&"m".repeat(bytes))).await?;
                    assert_eq!(peer.next().await?, Got::Binary(vec![b'o'; bytes]), "{path}, {on_stream}");
                }
                peer.send(&close(1_000)).await?;
                assert!(matches!(peer.next().await?, Got::Close(_)), "{path}, {on_stream}");
                until("it is let go of", || called(Call::HandlerDropped) > dropped).await;
                REACHED.with(|reached| reached.borrow_mut().sockets.clear());
            }
        }
        end(running, first, second).await
    });
}
