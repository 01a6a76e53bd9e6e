//! Bytes that come on a connection with begun exchanges when all memory has just been taken: they find a place, and
//! what was begun is finished.

use core::time::Duration;

use plimsoll_http::{Error, ExchangeEnd, Request, Response, Shed};
use plimsoll_runtime::sleep;

use crate::rig::frames::{self, DATA, END_STREAM};
use crate::rig::memory::fill;
use crate::rig::{on_each, serve};

const FIRST: &[u8] = &[b'u'; 10];
const REST: [u8; 8_000] = [b'u'; 8_000];

async fn answer(mut request: Request) -> Result<Response, Error> {
    match request.path() {
        "/slow" => {
            sleep(Duration::from_millis(300)).await;
            return Ok(Response::text("slept"));
        }
        "/take" => {
            let held = fill(1);
            sleep(Duration::from_secs(1)).await;
            drop(held);
            return Ok(Response::text("taken"));
        }
        _ => {}
    }
    let mut bytes = 0;
    while let Some(part) = request.chunk().await? {
        bytes += part.len();
    }
    Ok(Response::text(bytes.to_string()))
}

#[test]
fn what_was_begun_on_http2_outlives_bytes_that_find_no_room() {
    on_each("bytes at the line on HTTP/2", async || {
        let running = serve(plimsoll_http::Config::default(), answer)?;
        let mut client = frames::Client::connect(running.address, &[]).await?;
        client.send(&frames::get(1, "/slow")).await?;
        client.send(&frames::request(3, "POST", "/upload", &[], 0)).await?;
        client.send(&frames::frame(DATA, 0, 3, FIRST)).await?;
        while running.counters.totals().exchanges_begun_total < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
        // In one receive: a handler takes all memory, and then there is what has no room.
        let rest = [frames::get(5, "/take"), frames::frame(DATA, END_STREAM, 3, &REST)].concat();
        client.send(&rest).await?;
        // The client's memory is the same, and there is none.
        while running.counters.totals().exchanges_ended_total[ExchangeEnd::Finished as usize] == 0
            && running.shed() == 0
        {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_millis(1_200)).await;
        let mut frames = Vec::new();
        while ![1, 3, 5].iter().all(|stream| frames::is_ended(&frames, *stream)) {
            frames.extend(client.frame().await?.map(Some).unwrap_or_else(|| panic!("both are answered: {frames:?}")));
        }
        let bodies: Vec<&[u8]> =
            frames.iter().filter(|frame| frame.kind == DATA).map(|frame| &frame.payload[..]).collect();
        let expected: [&[u8]; 3] = [b"slept", b"8010", b"taken"];
        assert!(expected.iter().all(|body| bodies.contains(body)), "{frames:?}");
        let totals = running.counters.totals();
        assert_eq!(totals.exchanges_ended_total[ExchangeEnd::Overstay as usize], 0, "{totals:?}");
        assert_eq!(totals.shed_total[Shed::Head as usize], 0, "{totals:?}");
        drop(client);
        running.stop().await
    });
}
