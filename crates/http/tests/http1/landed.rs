//! Bytes that came together with a request whose handler takes all memory: it is not let go of for them.

use core::time::Duration;

use plimsoll_http::{Config, ExchangeEnd, Request, Response, Shed};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{pool, sleep};

use crate::rig::memory::fill;
use crate::rig::{on_each, read, serve};

async fn answer(request: Request) -> Response {
    if request.path() == "/take" {
        // Also what is kept for others.
        let held = pool().for_newcomer(|| fill(1));
        sleep(Duration::from_secs(1)).await;
        drop(held);
        return Response::text("taken");
    }
    Response::text("after")
}

#[test]
fn what_comes_behind_a_request_has_a_place_before_that_is_begun() {
    if crate::rig::is_skipped_over_tls("opening takes memory, and the bridge is under the same line") {
        return;
    }
    on_each("requests behind one that takes all", async || {
        let config = Config { progress_reserve_bytes: 0, ..Config::default() };
        let running = serve(config, answer)?;
        // The first bytes of a connection, in one receive: more than there is a place for without memory.
        let padding = "x".repeat(2_000);
        let behind = format!("GET /after HTTP/1.1\r\nHost: a\r\nX-Padding: {padding}\r\n\r\n").repeat(3);
        let last = "GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let burst = format!("GET /take HTTP/1.1\r\nHost: a\r\n\r\n{behind}{last}");
        let mut client = TcpStream::connect(running.address).await?;
        client.send_bytes(burst.as_bytes()).await?;
        // The client's memory is the same, and there is none.
        sleep(Duration::from_millis(2_000)).await;
        let got = read(&mut client, None).await?;
        assert!(got.starts_with("HTTP/1.1 200 ") && got.contains("\r\n\r\ntaken"), "{got}");
        let totals = running.counters.totals();
        assert_eq!(totals.exchanges_ended_total[ExchangeEnd::Overstay as usize], 0, "{totals:?}");
        assert_eq!(totals.shed_total[Shed::Head as usize], 0, "{totals:?}");
        running.stop().await
    });
}
