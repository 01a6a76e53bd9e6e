//! While connections that were told to end are still ending, nothing else is given up for those that wait for memory:
//! what they give back may be enough.

use core::time::Duration;

use plimsoll_http::{Config, Error, Request, Response, Shed};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{MemoryLimit, now, sleep};

use crate::rig::memory::fill;
use crate::rig::websocket::read_head;
use crate::rig::{in_simulation_under, read, serve};

const LINE: MemoryLimit = MemoryLimit::kib(1_536);
/// Both hold more than a sixteenth of the line.
const STAYING: usize = 300;
const SLEEPING: usize = 400;
/// How long who was told takes to end: less than the second that it has, and more than the next look.
const ENDING: Duration = Duration::from_millis(800);

async fn answer(req: Request) -> Result<Response, Error> {
    match req.path() {
        "/sleep" => {
            sleep(Duration::from_secs(3_600)).await;
            Ok(Response::text("slept"))
        }
        "/upgrade" => req.upgrade("wait/1", |peer| async move {
            peer.told_to_end().await;
            sleep(ENDING).await;
        }),
        _ => Ok(Response::text("fine")),
    }
}

#[test]
fn nobody_large_is_let_go_of_while_those_that_were_told_are_ending() {
    in_simulation_under("ending", LINE, async || {
        let config = Config {
            admission_timeout: Duration::from_secs(30),
            // The handlers that sleep may go at any time.
            begun_protection: Duration::ZERO,
            progress_reserve_bytes: 0,
            drain_timeout: Duration::ZERO,
            ..Config::default()
        };
        let running = serve(config, answer)?;
        let mut clients = Vec::new();
        for at in 0..SLEEPING + STAYING {
            let mut client = TcpStream::connect(running.address).await?;
            if at < SLEEPING {
                client.send_static(b"GET /sleep HTTP/1.1\r\nHost: h\r\n\r\n").await?;
            } else {
                let head = b"GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: wait/1\r\n\r\n";
                client.send_static(head).await?;
                read_head(&mut client, "101").await?;
            }
            clients.push(client);
        }
        let mut waiting = TcpStream::connect(running.address).await?;
        waiting.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        read(&mut waiting, Some(b"fine")).await?;
        let held = fill(1);
        waiting.send_static(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
        let shed = |reason: Shed| running.counters.totals().shed_total[reason as usize];
        while shed(Shed::Lasting) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let (told_at, told) = (now(), shed(Shed::Lasting));
        while now().since(told_at) < ENDING - Duration::from_millis(10) {
            assert_eq!(shed(Shed::Overstay), 0, "{:?} after they were told", now().since(told_at));
            assert_eq!(shed(Shed::Lasting), told, "and no more are told");
            sleep(Duration::from_millis(10)).await;
        }
        drop(held);
        assert!(read(&mut waiting, Some(b"fine")).await?.starts_with("HTTP/1.1 200 "), "it has waited, and is served");
        drop((waiting, clients));
        running.stop().await
    });
}
