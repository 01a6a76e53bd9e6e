//! Peers that are too slow give way to those who wait for memory: who sends a body of HTTP/1.1 or HTTP/2, and who reads
//! one. On each driver.

use core::iter;
use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::{Config, Error, ExchangeEnd, Request, Response, Shed, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, MemoryLimit, Result, Runtime, pool, sleep, spawn};

use crate::rig::frames::{self, DATA};
use crate::rig::{Running, on_each_under, serve};

const LINE: MemoryLimit = MemoryLimit::mib(3);
const SLEEPING: usize = 500;
const SLOW: usize = 4;
/// Of an upload that is slow as its handler is: the peer has sent all of it.
const PROMPT_BYTES: usize = 6_000;
/// A slow peer sends so much at a time,
const PIECE: [u8; 64] = [b's'; 64];
/// so often: about 1 KiB a second.
const EVERY: Duration = Duration::from_millis(60);

fn config() -> Config {
    Config {
        slow_span: Duration::from_millis(600),
        admission_timeout: Duration::from_secs(60),
        begun_protection: Duration::from_secs(600),
        memory_timeout: Duration::from_secs(600),
        body_bytes_per_second_min: None,
        drain_timeout: Duration::from_secs(1),
        ..Config::default()
    }
}

async fn answer(mut request: Request) -> core::result::Result<Response, Error> {
    match request.path() {
        "/upload" => {
            let mut bytes = 0;
            while let Some(part) = request.chunk().await? {
                bytes += part.len();
            }
            Ok(Response::text(bytes.to_string()))
        }
        "/prompt" => {
            // It asks when it comes to that.
            sleep(Duration::from_secs(3)).await;
            let mut bytes = 0;
            while let Some(part) = request.chunk().await? {
                bytes += part.len();
            }
            Ok(Response::text(bytes.to_string()))
        }
        "/long" => {
            let mut out = request.respond(Response::new(StatusCode::OK), None)?;
            loop {
                out.write_bytes(vec![b'x'; 16 * 1_024].into()).await?;
            }
        }
        _ => {
            sleep(Duration::from_secs(1_000)).await;
            Ok(Response::text("slept"))
        }
    }
}

async fn post(address: SocketAddr, path: &str, length: usize) -> Result<TcpStream> {
    let mut client = TcpStream::connect(address).await?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    client.send_bytes(head.as_bytes()).await?;
    Ok(client)
}

/// A slow sender of HTTP/1.1.
async fn send_slowly(address: SocketAddr) -> Result<()> {
    let mut client = post(address, "/upload", 1 << 20).await?;
    while client.send_static(&PIECE).await.is_ok() {
        sleep(EVERY).await;
    }
    Ok(())
}

/// The same of HTTP/2.
async fn send_frames_slowly(address: SocketAddr) -> Result<()> {
    let mut client = frames::Client::connect(address, &[]).await?;
    client.send(&frames::request(1, "POST", "/upload", &[], 0)).await?;
    let piece: &'static [u8] = Vec::leak(frames::frame(DATA, 0, 1, &PIECE));
    while client.socket.send_static(piece).await.is_ok() {
        sleep(EVERY).await;
    }
    Ok(())
}

/// Asks for what has no end, with a window that lets all of it come, and takes a little of it at a time.
async fn read_slowly(address: SocketAddr) -> Result<()> {
    let window = [0, 4, 0x7F, 0xFF, 0xFF, 0xFF];
    let mut client = frames::Client::connect(address, &window).await?;
    client.send(&frames::window_update(0, 0x7000_0000)).await?;
    client.send(&frames::get(1, "/long")).await?;
    loop {
        sleep(Duration::from_millis(500)).await;
        if let Ok(None) = client.socket.recv().await {
            return Ok(());
        }
    }
}

/// Slow peers and a prompt one, beside others that fill the line and one that waits, until some were let go of.
async fn crowded<F: Future<Output = Result<()>> + 'static>(slow: impl Fn(SocketAddr) -> F) -> Result<()> {
    let running: Running = serve(config(), answer)?;
    let address = running.address;
    let mut peers = Vec::new();
    for _ in 0..SLOW {
        peers.push(spawn(slow(address))?);
    }
    let mut sleeping = Vec::new();
    for _ in 0..SLEEPING {
        let mut client = TcpStream::connect(address).await?;
        client.send_static(b"GET /sleep HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        sleeping.push(client);
    }
    let mut waiting = TcpStream::connect(address).await?;
    let mut prompt = post(address, "/prompt", PROMPT_BYTES).await?;
    prompt.send_static(&[b'p'; PROMPT_BYTES]).await?;
    while running.counters.totals().exchanges_begun_total < (SLEEPING + SLOW + 1) as u64 {
        sleep(Duration::from_millis(5)).await;
    }
    // All but what the clients need. What the address holds is more than four times that: it begins nothing more, and
    // waits.
    let spare: Vec<_> = iter::repeat_with(|| pool().try_acquire(4_096, Kind::Buffers)).take(22).collect();
    let held = crate::rig::memory::fill(1);
    drop(spare);
    waiting.send_static(b"GET /sleep HTTP/1.1\r\nHost: h\r\n\r\n").await?;
    let let_go = || running.counters.totals().shed_total[Shed::Slow as usize];
    for _ in 0..3_000 {
        if let_go() > 0 {
            break;
        }
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_secs(1)).await;
    let (slow, totals) = (let_go(), running.counters.totals());
    assert!((1..=SLOW as u64).contains(&slow), "{slow}: {totals:?}");
    assert!(totals.exchanges_ended_total[ExchangeEnd::Timeout as usize] >= slow, "{totals:?}");
    drop((held, waiting));
    let answer = crate::rig::read(&mut prompt, None).await?;
    assert!(answer.ends_with(&format!("\r\n\r\n{PROMPT_BYTES}")), "nothing was asked of it: {answer}");
    peers.iter().for_each(|peer| peer.abort());
    drop((peers, sleeping, prompt));
    running.stop().await
}

#[test]
fn slow_senders_of_http1_give_way() {
    on_each_under("senders of HTTP/1.1", LINE, async || crowded(send_slowly).await);
}

#[test]
fn slow_senders_of_http2_give_way() {
    on_each_under("senders of HTTP/2", LINE, async || crowded(send_frames_slowly).await);
}

/// Where a socket takes so little that a slow reader is not one that reads nothing for a while.
#[test]
fn slow_readers_of_http2_give_way() {
    let world = World::new(SimConfig { socket_buffer_bytes: 2_048, ..SimConfig::new(5) });
    let builder = Runtime::builder().workers(1).memory(LINE).newcomer_reserve_bytes(0);
    let simulation = builder.simulate(&world).expect("a simulation starts");
    simulation.block_on(crowded(read_slowly)).expect("nothing fails");
    let report = simulation.shutdown();
    assert!(report.is_clean(), "{report}");
}
