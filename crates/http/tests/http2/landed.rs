//! Bytes that come on a connection with begun exchanges when all memory has just been taken: they find a place, and
//! what was begun is finished.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;

use plimsoll_http::{Config, Error, ExchangeEnd, Request, Response, Shed};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{pool, sleep};

use crate::rig::frames::{self, Client, DATA, END_STREAM};
use crate::rig::memory::fill;
use crate::rig::{Running, count_body, on_each, serve};

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
        "/take/all" => {
            // Also what is kept for others: it is lent, or drawn on.
            let held = pool().for_newcomer(|| fill(1));
            sleep(Duration::from_secs(1)).await;
            drop(held);
            return Ok(Response::text("taken"));
        }
        _ => {}
    }
    Ok(Response::text(count_body(&mut request).await?.to_string()))
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

/// The progress reserve is with another.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

/// Waits until the memory is back, which the clients need, too: when so many have finished.
async fn until_given_back(running: &Running, finished: u64) {
    let has_finished = || running.counters.totals().exchanges_ended_total[ExchangeEnd::Finished as usize] >= finished;
    while !has_finished() && running.shed() == 0 {
        sleep(Duration::from_millis(10)).await;
    }
    sleep(Duration::from_millis(1_200)).await;
}

fn check_nothing_was_given_up(running: &Running) {
    let totals = running.counters.totals();
    assert_eq!(totals.exchanges_ended_total[ExchangeEnd::Overstay as usize], 0, "{totals:?}");
    assert_eq!(totals.shed_total[Shed::Head as usize], 0, "{totals:?}");
}

#[test]
fn what_comes_behind_a_request_has_a_place_before_that_is_begun() {
    on_each("a burst that ends at the line", async || {
        let running = serve(lends_nothing(), answer)?;
        // The first bytes of a connection, which a parked one receives.
        let burst = [
            frames::PREFACE,
            &frames::frame(frames::SETTINGS, 0, 0, &[]),
            &frames::request(1, "POST", "/upload", &[], 0),
            &frames::get(3, "/take/all"),
            &frames::frame(DATA, END_STREAM, 1, &REST),
        ];
        let mut client = Client { socket: TcpStream::connect(running.address).await?, bytes: Vec::new() };
        client.send(&burst.concat()).await?;
        until_given_back(&running, 1).await;
        assert_eq!(client.body(1).await?, b"8000");
        check_nothing_was_given_up(&running);
        drop(client);
        running.stop().await
    });
}

#[test]
fn what_comes_for_streams_stays_in_the_socket_when_others_have_just_taken_all() {
    on_each("bodies that come when there is no room", async || {
        let running = serve(lends_nothing(), answer)?;
        let mut taker = Client::connect(running.address, &[]).await?;
        assert_eq!(taker.fetch(1, "/upload").await?, b"0");
        let mut clients = Vec::new();
        for _ in 0..6 {
            let mut client = Client::connect(running.address, &[]).await?;
            client.send(&frames::request(1, "POST", "/upload", &[], 0)).await?;
            client.send(&frames::frame(DATA, 0, 1, FIRST)).await?;
            clients.push(client);
        }
        while running.counters.totals().exchanges_begun_total < 7 {
            sleep(Duration::from_millis(1)).await;
        }
        sleep(Duration::from_millis(20)).await;
        let rest = frames::frame(DATA, END_STREAM, 1, &REST);
        let take = frames::get(3, "/take/all");
        // All at once: what they need for that is there.
        let mut sends: Vec<Pin<Box<dyn Future<Output = plimsoll_runtime::Result<()>>>>> = Vec::new();
        sends.push(Box::pin(taker.send(&take)));
        sends.extend(clients.iter_mut().map(|client| Box::pin(client.send(&rest)) as Pin<Box<dyn Future<Output = _>>>));
        poll_fn(|cx| {
            sends.retain_mut(|send| send.as_mut().poll(cx).map(|sent| sent.expect("it is sent")).is_pending());
            if sends.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        drop(sends);
        until_given_back(&running, 2).await;
        for client in &mut clients {
            assert_eq!(client.body(1).await?, b"8010");
        }
        check_nothing_was_given_up(&running);
        drop((clients, taker));
        running.stop().await
    });
}
