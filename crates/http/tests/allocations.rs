//! No heap allocation per request in steady state, on both drivers: client and server run in one process under a counting allocator.
//!
//! **I-COUNT**: the allocator hands every call on to the system's with the arguments it was given, and besides only counts.

#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{Request, Response, Server, StatusCode};
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

/// Allocations of 1,000 requests after a warm-up.
fn allocations_on(choice: DriverChoice) -> Option<u64> {
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
            let known = req.header("accept").is_some() && req.query() == Some("a=1");
            let status = if known { StatusCode::OK } else { StatusCode::NOT_FOUND };
            Response::new(status).header("content-type", "text/plain").body("hello!")
        }))?;
        let mut client = TcpStream::connect(address).await?;
        rounds(&mut client, 200).await?;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        rounds(&mut client, 1_000).await?;
        let after = ALLOCATIONS.load(Ordering::Relaxed);
        drop(client);
        Spawner::current().stop();
        serving.await.expect("no panic")?;
        Ok::<_, plimsoll_runtime::Error>(after - before)
    });
    Some(counted.expect("the scenario runs"))
}

#[test]
fn a_request_allocates_nothing_on_the_heap() {
    // One test, so that no other thread of this process allocates meanwhile.
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        if let Some(counted) = allocations_on(choice) {
            assert_eq!(counted, 0, "allocations for 1,000 requests on {choice:?}");
            println!("{choice:?}: 0 allocations for 1,000 requests");
        }
    }
}
