//! Heads that have not come whole, while memory is short: a slow client has a second, and a flood of them from one
//! address takes no room from others.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::ProxyProtocol;
use plimsoll_http::{Config, Response, Shed};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, Result, now, sleep};

use crate::rig::{Running, on_each_under, serve, until};

const LINE: MemoryLimit = MemoryLimit::mib(3);
/// Heads of one address.
const FLOOD: usize = 200;

fn start() -> Result<Running> {
    let config = Config {
        proxy_protocol: ProxyProtocol::Required,
        admission_timeout: Duration::from_secs(5),
        ..Config::default()
    };
    serve(config, |_request| async { Response::text("whole") })
}

/// A connection of an address on which a head has begun.
async fn begin(address: SocketAddr, from: u8) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let start = format!(
        "PROXY TCP4 10.0.0.{from} 127.0.0.1 9 80\r\nGET / HTTP/1.1\r\nHost: h\r\nX-Filler: {}",
        "f".repeat(300)
    );
    stream.send_bytes(start.as_bytes()).await?;
    Ok(stream)
}

const END: &[u8] = b"\r\nConnection: close\r\n\r\n";
const PROXY: &[u8] = b"PROXY TCP4 10.0.0.3 127.0.0.1 9 80\r\n";
const WHOLE: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// Begins a flood of heads and then some of a slow client, which are the newest; others want room at once, or when all
/// are old.
async fn besieged(wait: Duration) -> Result<Option<(String, u64, String)>> {
    let running = start()?;
    let mut flood = Vec::new();
    for _ in 0..FLOOD {
        flood.push(begin(running.address, 1).await?);
    }
    let mut other = TcpStream::connect(running.address).await?;
    let begun = now();
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(begin(running.address, 2).await?);
    }
    sleep(Duration::from_millis(20) + wait).await;
    // Its operation has a place from then on.
    other.send_static(PROXY).await?;
    sleep(Duration::from_millis(5)).await;
    let mut held = crate::rig::memory::fill(1);
    while other.send_static(WHOLE).await.is_err() {
        // Another has it: what it needs is free again.
        held.pop().expect("it needs little");
    }
    let shed = || running.counters.totals().shed_total[Shed::Head as usize];
    until("heads give way", || shed() > 0).await;
    let count = shed();
    let is_in_time = now().since(begun) < Duration::from_millis(900);
    drop(held);
    let whole = crate::rig::read(&mut other, None).await?;
    let mut ends = String::new();
    for client in &mut slow {
        // One that was told does not go on.
        let _told_and_closed = client.send_static(END).await;
        ends += crate::rig::read(client, None).await.unwrap_or_default().lines().next().unwrap_or("lost");
        ends += ";";
    }
    drop((slow, flood));
    running.stop().await?;
    Ok((is_in_time || !wait.is_zero()).then_some((whole, count, ends)))
}

#[test]
fn a_slow_client_has_a_second_beside_a_flood() {
    on_each_under("young heads", LINE, async || {
        // On a slow machine its second is over before others want its room.
        let Some((whole, shed, slow)) = besieged(Duration::ZERO).await? else { return Ok(()) };
        assert!(whole.starts_with("HTTP/1.1 200 "), "a whole request finds room: {whole}");
        assert!((1..=FLOOD as u64 - 4).contains(&shed), "the flood gives way, but for a few: {shed}");
        assert_eq!(slow, "HTTP/1.1 200 OK;".repeat(3));
        Ok(())
    });
}

#[test]
fn old_heads_give_way_whoever_they_are_of() {
    on_each_under("old heads", LINE, async || {
        let Some((whole, shed, slow)) = besieged(Duration::from_millis(1_200)).await? else { unreachable!("it waits") };
        assert!(whole.starts_with("HTTP/1.1 200 "), "a whole request finds room: {whole}");
        assert!(shed > 3, "{shed}");
        // Where the look at places begins is not known: some of them are among the first, all the same.
        assert!(slow.contains("HTTP/1.1 503 Service Unavailable;"), "they are as old as the others: {slow}");
        Ok(())
    });
}
