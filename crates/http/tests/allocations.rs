//! No heap allocation per request in steady state, on both drivers: client and server run in one process under a
//! counting allocator.
//!
//! **I-COUNT**: the allocator hands every call on to the system's with the arguments it was given, and besides only
//! counts.

#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{IntoResponse, Message, Request, Response, Server, StatusCode, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{DriverChoice, MemoryLimit, Runtime, Spawner, spawn};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: I-COUNT.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: I-COUNT.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: I-COUNT.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: I-COUNT.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const REQUEST: &[u8] = b"GET /static?a=1 HTTP/1.1\r\nHost: h\r\nUser-Agent: t\r\nAccept: */*\r\n\r\n";

/// The same in HTTP/2: fields of which the client's table keeps none, so that each request is as the one before, but
/// for its stream.
fn request_http2(stream: u32) -> [u8; 56] {
    let block = b"\x82\x86\x00\x05:path\x0b/static?a=1\x00\x0a:authority\x01h\x00\x06accept\x03*/*";
    let mut frame = [0; 56];
    frame[..9].copy_from_slice(&[0, 0, 47, 1, 5, 0, 0, 0, 0]);
    frame[5..9].copy_from_slice(&stream.to_be_bytes());
    frame[9..].copy_from_slice(block);
    frame
}

async fn rounds_http2(client: &mut TcpStream, streams: core::ops::Range<u32>) -> plimsoll_runtime::Result<()> {
    for at in streams {
        client.send_bytes(&request_http2(2 * at + 1)).await?;
        let mut last = 0;
        while last != b'!' {
            let answer = client.recv().await?.expect("the server keeps the connection");
            last = *answer.last().expect("a receive brings bytes");
        }
    }
    Ok(())
}

async fn rounds(client: &mut TcpStream, rounds: usize) -> plimsoll_runtime::Result<()> {
    for _ in 0..rounds {
        client.send_static(REQUEST).await?;
        let mut last = 0;
        while last != b'!' {
            let answer = client.recv().await?.expect("the server keeps the connection");
            last = *answer.last().expect("a receive brings bytes");
        }
    }
    Ok(())
}

/// A message of 40 bytes as a client sends it, under a mask of zeros, and the frame that comes back.
const MESSAGE: &[u8] = b"\x82\xA8\0\0\0\0a message of forty bytes that come back!";

async fn rounds_websocket(client: &mut TcpStream, rounds: usize) -> plimsoll_runtime::Result<()> {
    for _ in 0..rounds {
        client.send_static(MESSAGE).await?;
        let mut last = 0;
        while last != b'!' {
            let answer = client.recv().await?.expect("the server keeps the connection");
            last = *answer.last().expect("a receive brings bytes");
        }
    }
    Ok(())
}

/// Allocations of 1,000 requests after a warm-up: of HTTP/1.1, of HTTP/2, and messages of a WebSocket that is called
/// and of one in a task.
fn allocations_on(choice: DriverChoice) -> Option<[u64; 4]> {
    let runtime = match Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(choice).build() {
        Ok(runtime) => runtime,
        Err(error) => {
            println!("skipped: {choice:?}: {error}");
            return None;
        }
    };
    let counted = runtime.block_on(async {
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let serving = spawn(server.serve(|req: Request| async move {
            let config = WebSocketConfig::default();
            match req.path() {
                "/called" => {
                    let echo = |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message);
                    return req.serve_websocket(&config, echo).into_response();
                }
                "/task" => {
                    let echo = req.upgrade_websocket(&config, |mut socket| async move {
                        while let Ok(Some(message)) = socket.recv().await {
                            assert!(socket.send(message).await.is_ok());
                        }
                    });
                    return echo.into_response();
                }
                _ => {}
            }
            let known = req.header("accept").is_some() && req.query_string() == Some("a=1");
            let status = if known { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Response::new(status).header("content-type", "text/plain").body("hello!")
        }))?;
        let mut client = TcpStream::connect(address).await?;
        rounds(&mut client, 200).await?;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        rounds(&mut client, 1_000).await?;
        let after = ALLOCATIONS.load(Ordering::Relaxed);
        let http1 = after - before;
        drop(client);
        let mut client = TcpStream::connect(address).await?;
        client.send_static(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0").await?;
        rounds_http2(&mut client, 0..200).await?;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        rounds_http2(&mut client, 200..1_200).await?;
        let http2 = ALLOCATIONS.load(Ordering::Relaxed) - before;
        drop(client);
        let mut counted = [http1, http2, 0, 0];
        for (path, count) in ["/called", "/task"].into_iter().zip(&mut counted[2..]) {
            let mut client = TcpStream::connect(address).await?;
            let fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n";
            let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
            client.send_bytes(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}{key}\r\n").as_bytes()).await?;
            let answer = client.recv().await?.expect("an answer");
            assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(b"\r\n\r\n"), "{path}");
            rounds_websocket(&mut client, 200).await?;
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            rounds_websocket(&mut client, 1_000).await?;
            *count = ALLOCATIONS.load(Ordering::Relaxed) - before;
        }
        Spawner::current().stop();
        serving.await.expect("no panic")?;
        Ok::<_, plimsoll_runtime::Error>(counted)
    });
    Some(counted.expect("the scenario runs"))
}

#[test]
fn a_request_allocates_nothing_on_the_heap() {
    // One test, so that no other thread of this process allocates meanwhile.
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        if let Some(counted) = allocations_on(choice) {
            let what = "1,000 requests of HTTP/1.1, of HTTP/2, and messages of WebSockets";
            assert_eq!(counted, [0; 4], "allocations for {what} on {choice:?}");
            println!("{choice:?}: 0 allocations for 1,000 requests of each");
        }
    }
}
