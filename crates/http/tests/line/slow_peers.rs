//! Peers that are too slow give way to those who wait for memory, on HTTP/1.1 and HTTP/2: who sends a body, on each
//! driver, and who reads one, where sockets take little. Others do not, nor anybody where it is switched off.

use core::cell::Cell;
use core::iter;
use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;

use plimsoll_http::{Config, Error, ExchangeEnd, Request, Response, Shed, StatusCode};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, MemoryLimit, Result, Runtime, now, pool, sleep, spawn};

use crate::rig::frames::{self, DATA};
use crate::rig::{Running, count_body, on_each_under, serve, until};

const LINE: MemoryLimit = MemoryLimit::mib(3);
const SLEEPING: usize = 500;
const SLOW: usize = 4;
/// Of an upload that is slow as its handler is: the peer has sent all of it.
const PROMPT_BYTES: usize = 6_000;
/// Of an answer that comes slowly, as its handler does: its peer takes it at once.
const DRIP_BYTES: usize = 32 * 1_024;
/// A slow peer sends so much at a time,
const PIECE: [u8; 64] = [b's'; 64];
/// so often: about 1 KiB a second.
const EVERY: Duration = Duration::from_millis(60);
/// What a slow reader waits between two receives.
const SLOW_PAUSE: Duration = Duration::from_millis(500);

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
        "/upload" => Ok(Response::text(count_body(&mut request).await?.to_string())),
        "/prompt" => {
            // It asks when it comes to that.
            sleep(Duration::from_secs(3)).await;
            Ok(Response::text(count_body(&mut request).await?.to_string()))
        }
        "/long" => {
            let mut out = request.respond(Response::new(StatusCode::OK), None)?;
            loop {
                out.write_bytes(vec![b'x'; 16 * 1_024].into()).await?;
            }
        }
        "/mebibyte" => Ok(Response::text(vec![b'x'; 1 << 20])),
        "/drip" => {
            let mut out = request.respond(Response::new(StatusCode::OK), Some(DRIP_BYTES as u64))?;
            for _ in 0..DRIP_BYTES / 512 {
                sleep(Duration::from_millis(100)).await;
                out.write_static(&[b'd'; 512]).await?;
            }
            out.finish().await
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

/// Asks for a path, and takes a little of it at a time, until it has come to an end or nothing comes for long; counts
/// what came. Clients live under the same line: where there is no room they try again.
async fn take(address: SocketAddr, path: &'static str, pause: Duration, bytes: Rc<Cell<usize>>) -> Result<()> {
    let mut client = TcpStream::connect(address).await?;
    client.send_bytes(format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes()).await?;
    let mut failed = 0;
    while failed < 100 {
        match client.recv().await {
            Ok(Some(lease)) => bytes.set(bytes.get() + lease.len()),
            Ok(None) => return Ok(()),
            Err(_no_room_or_reset) => failed += 1,
        }
        sleep(pause).await;
    }
    Ok(())
}

/// A slow reader of HTTP/1.1.
async fn read_slowly(address: SocketAddr) -> Result<()> {
    take(address, "/long", SLOW_PAUSE, Rc::default()).await
}

/// The same of HTTP/2: asks for what has no end, with a window that lets all of it come, and takes a little of it at a
/// time.
async fn read_frames_slowly(address: SocketAddr) -> Result<()> {
    let window = [0, 4, 0x7F, 0xFF, 0xFF, 0xFF];
    let mut client = frames::Client::connect(address, &window).await?;
    client.send(&frames::window_update(0, 0x7000_0000)).await?;
    client.send(&frames::get(1, "/long")).await?;
    loop {
        sleep(SLOW_PAUSE).await;
        if let Ok(None) = client.socket.recv().await {
            return Ok(());
        }
    }
}

/// Slow peers and two prompt ones, who send and take at once what their handlers are slow with, beside others that fill
/// the line and one that waits, until some of the slow were let go of, if that is due.
async fn crowded<F: Future<Output = Result<()>> + 'static>(
    config: Config,
    slow: impl Fn(SocketAddr) -> F,
) -> Result<()> {
    let is_due = config.slow_bytes_per_second > 0;
    let running: Running = serve(config, answer)?;
    let address = running.address;
    let dripped = Rc::new(Cell::new(0));
    let drip = spawn(take(address, "/drip", Duration::ZERO, Rc::clone(&dripped)))?;
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
    let begun = (SLEEPING + SLOW + 2) as u64;
    while running.counters.totals().exchanges_begun_total < begun {
        sleep(Duration::from_millis(5)).await;
    }
    // All but what the clients need. What the address holds is more than four times that: it begins nothing more, and
    // waits.
    let spare: Vec<_> = iter::repeat_with(|| pool().try_acquire(4_096, Kind::Buffers)).take(22).collect();
    let held = crate::rig::memory::fill(1);
    drop(spare);
    waiting.send_static(b"GET /sleep HTTP/1.1\r\nHost: h\r\n\r\n").await?;
    let let_go = || running.counters.totals().shed_total[Shed::Slow as usize];
    if is_due {
        until("a slow peer gives way", || let_go() > 0).await;
        sleep(Duration::from_secs(1)).await;
    } else {
        sleep(Duration::from_secs(8)).await;
    }
    let (slow, totals) = (let_go(), running.counters.totals());
    let expected = if is_due { 1..=SLOW as u64 } else { 0..=0 };
    assert!(expected.contains(&slow), "{slow}: {totals:?}");
    assert!(totals.exchanges_ended_total[ExchangeEnd::Timeout as usize] >= slow, "{totals:?}");
    drop((held, waiting));
    let answer = crate::rig::read(&mut prompt, None).await?;
    assert!(answer.ends_with(&format!("\r\n\r\n{PROMPT_BYTES}")), "nothing was asked of it: {answer}");
    drip.await.expect("no panic")?;
    assert!(dripped.get() > DRIP_BYTES, "who takes all at once gets all, not {}", dripped.get());
    peers.iter().for_each(|peer| peer.abort());
    drop((peers, sleeping, prompt));
    running.stop().await
}

/// Runs a scenario where a socket takes so little that a slow reader is not one that reads nothing for a while.
fn where_sockets_take_little(scenario: impl Future<Output = Result<()>>) {
    let world = World::new(SimConfig { socket_buffer_bytes: 2_048, ..SimConfig::new(5) });
    let builder = Runtime::builder().workers(1).memory(LINE).newcomer_reserve_bytes(0);
    let simulation = builder.simulate(&world).expect("a simulation starts");
    simulation.block_on(scenario).expect("nothing fails");
    let report = simulation.shutdown();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn slow_senders_of_http1_give_way() {
    on_each_under("senders of HTTP/1.1", LINE, async || crowded(config(), send_slowly).await);
}

#[test]
fn slow_senders_of_http2_give_way() {
    on_each_under("senders of HTTP/2", LINE, async || crowded(config(), send_frames_slowly).await);
}

#[test]
fn slow_readers_of_http1_give_way() {
    let config = Config { slow_bytes_per_second: 16 * 1_024, output_bytes_max: 16 * 1_024, ..config() };
    where_sockets_take_little(crowded(config, read_slowly));
}

#[test]
fn slow_readers_of_http2_give_way() {
    where_sockets_take_little(crowded(config(), read_frames_slowly));
}

#[test]
fn nobody_gives_way_where_it_is_switched_off() {
    let config = Config { slow_bytes_per_second: 0, ..config() };
    where_sockets_take_little(crowded(config.clone(), read_slowly));
    where_sockets_take_little(crowded(config, send_slowly));
}

/// It may be as slow as it likes.
#[test]
fn a_slow_reader_stays_while_nobody_waits() {
    where_sockets_take_little(async {
        let running = serve(config(), answer)?;
        let (begun, bytes) = (now(), Rc::new(Cell::new(0)));
        take(running.address, "/mebibyte", Duration::from_millis(200), Rc::clone(&bytes)).await?;
        assert!(bytes.get() > 1 << 20 && now().since(begun) > Duration::from_secs(60), "{}", bytes.get());
        assert_eq!(running.shed(), 0);
        running.stop().await
    });
}
