//! Peers that are too slow give way to those who wait for memory, the slowest first; others do not.

use core::iter;
use core::net::SocketAddr;
use core::time::Duration;
use std::cell::Cell;
use std::rc::Rc;

use plimsoll_http::{Config, Error, ExchangeEnd, Request, Response, Server, Shed, StatusCode, Totals};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, MemoryLimit, Runtime, Spawner, now, sleep, spawn, timeout};

use crate::rig::memory::fill;

const LINE: MemoryLimit = MemoryLimit::mib(3);
/// What the pool holds of each while it is sent.
const PIECE_BYTES: usize = 16 * 1_024;
const SLOW: usize = 6;
const SLEEPING: usize = 500;
const ANSWER_BYTES: usize = 1 << 20;
/// Of an answer that comes slowly, as its handler does; its peer takes it at once.
const DRIP_BYTES: usize = 64 * 1_024;

async fn answer(mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/long" => {
            let mut out = request.respond(Response::new(StatusCode::OK), Some(ANSWER_BYTES as u64))?;
            for _ in 0..ANSWER_BYTES / PIECE_BYTES {
                out.write_bytes(vec![b'x'; PIECE_BYTES].into()).await?;
            }
            out.finish().await
        }
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

/// Takes what comes, with a pause after each piece, until it has come to an end or there was nothing to take for long;
/// how much came. Clients live under the same line: where there is no room they try again.
async fn take(mut client: TcpStream, pause: Duration, bytes: Rc<Cell<usize>>) {
    let mut failed = 0;
    while failed < 100 {
        match client.recv().await {
            Ok(Some(lease)) => bytes.set(bytes.get() + lease.len()),
            Ok(None) => return,
            Err(_no_room_or_reset) => failed += 1,
        }
        sleep(pause).await;
    }
}

async fn ask(address: SocketAddr, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("it is accepted");
    let head = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    client.send_bytes(head.as_bytes()).await.expect("it is sent");
    client
}

/// Runs a server in a small world with this configuration.
fn run(config: Config, scenario: impl AsyncFnOnce(SocketAddr, &dyn Fn() -> Totals)) {
    let world = World::new(SimConfig { socket_buffer_bytes: 2_048, ..SimConfig::new(5) });
    let simulation = Runtime::builder()
        .workers(1)
        .memory(LINE)
        .newcomer_reserve_bytes(0)
        .simulate(&world)
        .expect("a simulation starts");
    simulation.block_on(async {
        let server = Server::bind("127.0.0.1:0").expect("a free port").config(config);
        let (address, counters) = (server.local_addr(), server.counters());
        let serving = spawn(server.serve(answer)).expect("there is room");
        scenario(address, &|| counters.totals()).await;
        Spawner::current().stop();
        serving.await.expect("no panic").expect("the server ends");
    });
    let report = simulation.shutdown();
    assert!(report.is_clean(), "{report}");
}

fn config(slow_bytes_per_second: u32) -> Config {
    Config {
        slow_bytes_per_second,
        output_bytes_max: 16 * 1_024,
        admission_timeout: Duration::from_secs(8),
        begun_protection: Duration::from_secs(600),
        memory_timeout: Duration::from_secs(600),
        drain_timeout: Duration::from_secs(1),
        ..Config::default()
    }
}

/// One reader of what comes slowly, and slow readers; then nothing is free, and others ask. How much the first got.
async fn crowded(address: SocketAddr) -> usize {
    let prompt_bytes = Rc::new(Cell::new(0));
    let prompt = ask(address, "/drip").await;
    let prompt = spawn(take(prompt, Duration::ZERO, Rc::clone(&prompt_bytes))).expect("there is room");
    let mut slow = Vec::new();
    for _ in 0..SLOW {
        let client = ask(address, "/long").await;
        slow.push(spawn(take(client, Duration::from_millis(500), Rc::default())).expect("there is room"));
    }
    let mut sleeping = Vec::new();
    for _ in 0..SLEEPING {
        sleeping.push(ask(address, "/sleep").await);
    }
    sleep(Duration::from_secs(1)).await;
    // All but what the clients need. What the address holds is more than four times that: it begins nothing more, and
    // waits.
    let spare: Vec<_> =
        iter::repeat_with(|| plimsoll_runtime::pool().try_acquire(4_096, Kind::Buffers)).take(22).collect();
    let held = fill(1);
    drop(spare);
    let waiting = ask(address, "/sleep").await;
    sleep(Duration::from_secs(7)).await;
    drop((held, sleeping, waiting));
    let _all_of_it = timeout(Duration::from_secs(60), prompt).await;
    slow.iter().for_each(|client| client.abort());
    drop(slow);
    prompt_bytes.get()
}

#[test]
fn slow_readers_give_way() {
    run(config(16 * 1_024), async |address, totals| {
        let prompt_bytes = crowded(address).await;
        let totals = totals();
        let slow = totals.shed_total[Shed::Slow as usize];
        assert!(slow > 0, "{totals:?}");
        assert!(totals.exchanges_ended_total[ExchangeEnd::Timeout as usize] >= slow, "{totals:?}");
        assert!(prompt_bytes > DRIP_BYTES, "who takes all at once gets all, not {prompt_bytes}: {totals:?}");
    });
}

#[test]
fn nobody_gives_way_when_it_is_switched_off() {
    run(config(0), async |address, totals| {
        let prompt_bytes = crowded(address).await;
        assert!(prompt_bytes > DRIP_BYTES, "{prompt_bytes}");
        assert_eq!(totals().shed_total[Shed::Slow as usize], 0);
    });
}

/// Nobody waits: it may be as slow as it likes.
#[test]
fn slow_readers_stay_while_nobody_waits() {
    run(config(16 * 1_024), async |address, totals| {
        let begun = now();
        let client = ask(address, "/long").await;
        let bytes = Rc::new(Cell::new(0));
        take(client, Duration::from_millis(200), Rc::clone(&bytes)).await;
        assert!(bytes.get() > ANSWER_BYTES && now().since(begun) > Duration::from_secs(60), "{}", bytes.get());
        assert_eq!(totals().shed_total[Shed::Slow as usize], 0);
    });
}
