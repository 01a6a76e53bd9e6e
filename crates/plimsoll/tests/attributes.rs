//! The attributes, as a user writes them.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use core::time::Duration;

use plimsoll::http::{Request, Response, Server};
use plimsoll::net::TcpStream;
use plimsoll::{Spawner, sleep, spawn, timeout};

/// Runs on io_uring, on epoll and in the simulation.
#[plimsoll::test(memory = "16MiB")]
async fn a_service_answers_on_every_driver() -> plimsoll::Result<()> {
    let server = Server::bind("127.0.0.1:0")?;
    let address = server.local_addr();
    let serving = spawn(server.serve(|req: Request| async move { Response::text(req.path().to_owned()) }))?;
    let mut client = TcpStream::connect(address).await?;
    client.send_bytes(b"GET /there HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await?;
    let mut answer = Vec::new();
    while let Some(bytes) = client.recv().await? {
        answer.extend_from_slice(&bytes);
    }
    assert!(answer.ends_with(b"\r\n\r\n/there"), "{}", String::from_utf8_lossy(&answer));
    drop(client);
    Spawner::current().stop();
    serving.await.expect("no panic")
}

#[plimsoll::test(drivers = "sim", seed = 3, workers = 2)]
async fn an_hour_passes_at_once_in_the_simulation() {
    let start = plimsoll::now();
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!(plimsoll::now() - start, Duration::from_secs(3_600));
    assert_eq!(plimsoll::workers(), 2);
}

/// Twenty worlds, in each of which a client hears all or nothing.
#[plimsoll::test(faults = "wild", worlds = 20)]
async fn an_answer_is_whole_or_none_in_every_world() {
    static WORLDS: AtomicU32 = AtomicU32::new(0);
    static ANSWERS: AtomicU32 = AtomicU32::new(0);
    let server = loop {
        match Server::bind("127.0.0.1:0") {
            Ok(server) => break server,
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    };
    let address = server.local_addr();
    let serving = spawn(server.serve(async |_: Request| "whole")).expect("there is room");
    let asked = async {
        let mut client = TcpStream::connect(address).await.ok()?;
        client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.ok()?;
        let mut answer = Vec::new();
        while let Some(bytes) = client.recv().await.ok()? {
            answer.extend_from_slice(&bytes);
        }
        Some(answer).filter(|answer| answer.starts_with(b"HTTP/1.1 200"))
    };
    if let Ok(Some(answer)) = timeout(Duration::from_secs(120), asked).await
        && answer.ends_with(b"whole")
    {
        ANSWERS.fetch_add(1, Relaxed);
    }
    Spawner::current().stop();
    serving.await.expect("no panic").expect("the server ends");
    if WORLDS.fetch_add(1, Relaxed) == 19 {
        let answers = ANSWERS.load(Relaxed);
        assert!((1..20).contains(&answers), "{answers} of 20: the worlds are too wild or too tame to show anything");
    }
}

#[plimsoll::test(drivers = "mio")]
#[should_panic(expected = "as the test wants")]
async fn a_panic_fails_the_test() {
    panic!("as the test wants");
}

#[plimsoll::main(memory = "16MiB", workers = 1, driver = "mio")]
async fn program() -> u8 {
    sleep(Duration::from_millis(1)).await;
    7
}

#[test]
fn a_program_returns_what_its_body_returns() {
    assert_eq!(program(), 7);
}

#[test]
fn sizes_mean_the_same_in_attributes_and_at_run_time() {
    // What the attribute accepts when it is compiled must be accepted when the program starts.
    #[plimsoll::main(memory = "8388608", workers = 1, driver = "mio")]
    async fn bytes() -> u64 {
        plimsoll::budget().limit().as_bytes()
    }
    #[plimsoll::main(memory = "8192KiB", workers = 1, driver = "mio")]
    async fn kib() -> u64 {
        plimsoll::budget().limit().as_bytes()
    }
    #[plimsoll::main(memory = "8MiB", workers = 1, driver = "mio")]
    async fn mib() -> u64 {
        plimsoll::budget().limit().as_bytes()
    }
    assert_eq!([bytes(), kib(), mib()], [8 << 20; 3]);
}
