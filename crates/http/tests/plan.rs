//! The plan of a server is what the ledger says: what is kept from the start, to the byte, and about what each
//! connection that stays is counted with.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "figures beside what is asserted")]

mod rig;

use core::net::SocketAddr;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use plimsoll_http::{Config, Error, EventsConfig, Hub, HubConfig, Request, Response, Server, WebSocketConfig};
use plimsoll_runtime::{Kind, MemoryLimit, Runtime, budget, sleep};

use rig::threads::{connect, serve_until, under_line};

const LINE: MemoryLimit = MemoryLimit::mib(64);

/// Bytes of the future of a handler here.
fn handler_bytes() -> usize {
    fn bytes_of<F>(_make: fn(Request, Hub) -> F) -> usize {
        size_of::<F>()
    }
    bytes_of(stay)
}

/// A row of the plan of a server on this runtime.
fn row(runtime: &Runtime, name: &str) -> u64 {
    let plan = plimsoll_http::plan(runtime, handler_bytes());
    let row = plan.rows().find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("{name} is in the plan:\n{plan}")).bytes
}

fn read(mut stream: &TcpStream, enough: &str) -> String {
    let mut got = String::new();
    while !got.contains(enough) {
        let mut bytes = [0; 1_024];
        let len = stream.read(&mut bytes).expect("an answer");
        assert!(len > 0, "it goes on: {got}");
        got.push_str(core::str::from_utf8(&bytes[..len]).expect("text"));
    }
    got
}

fn ask(mut stream: &TcpStream, path: &str, fields: &str, enough: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes()).expect("it is sent");
    read(stream, enough)
}

#[test]
fn what_a_server_keeps_is_in_its_plan() {
    for marked in [false, true] {
        under_line("kept", LINE, async |runtime| {
            let names = ["answer_reserve", "progress_reserve", "server_lists"];
            let planned: u64 = names.into_iter().map(|name| row(runtime, name)).sum();
            let planned = planned + if marked { row(runtime, "marked_routes") } else { 0 };
            let before = budget().charged_by(Kind::Fixed);
            let reserved_paths = if marked { vec!["/health".to_owned()] } else { Vec::new() };
            let server = Server::bind("127.0.0.1:0")?.config(Config { reserved_paths, ..Config::default() });
            let address = server.local_addr();
            let served = async |_| Response::text(budget().charged_by(Kind::Fixed).to_string());
            let answer = serve_until(server.serve(served), move || ask(&connect(address), "/", "", "\r\n\r\n")).await?;
            let charged: u64 = answer.rsplit("\r\n").next().and_then(|text| text.parse().ok()).expect("a number");
            // What the pool needs for sizes that were not used before, and a page of its queue each for tenants and
            // waiters, is theirs.
            let others = charged - before - planned;
            println!("{planned} bytes planned, and {others} for others");
            assert!(others < 14 * 1_024, "{others} bytes are kept and not in the plan, marked: {marked}");
            Ok(())
        });
    }
}

/// Of each sort, which are counted.
const STAYING: usize = 1_000;
/// Of each sort, before those that are counted: what the pool holds once, whatever the number, is theirs.
const FIRST: usize = 100;

async fn stay(req: Request, hub: Hub) -> Result<Response, Error> {
    match req.path() {
        "/task" | "/called" => rig::websocket::echo(&req, &WebSocketConfig::default()),
        "/hub" => hub.join_websocket(&req),
        "/upgrade" => req.upgrade("wait/1", |mut peer| async move { while let Ok(Some(_)) = peer.recv().await {} }),
        "/events" => {
            let mut req = req;
            let mut events = req.events(EventsConfig { heartbeat: None })?;
            events.comment("here").await?;
            while events.wait(sleep(Duration::from_secs(3_600))).await?.is_some() {}
            events.finish().await
        }
        _ => Ok(Response::text(format!("{}.", rig::memory::held_bytes()))),
    }
}

/// Bytes of the pool for each of those that stay, when they have come to rest: within these bounds, if it comes to
/// that.
fn held_for_each(address: SocketAddr, path: &str, fields: &str, enough: &str, bounds: &RangeInclusive<u64>) -> u64 {
    let asking = connect(address);
    let held = || {
        let answer = ask(&asking, "/held", "", ".");
        let text = answer.rsplit("\r\n").next().and_then(|text| text.strip_suffix('.'));
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or_else(|| panic!("a number: {answer}"))
    };
    let join = || {
        let stream = connect(address);
        ask(&stream, path, fields, enough);
        stream
    };
    let first: Vec<TcpStream> = (0..FIRST).map(|_| join()).collect();
    let before = held();
    let staying: Vec<TcpStream> = (0..STAYING).map(|_| join()).collect();
    let start = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(100));
        let each = held().saturating_sub(before) / STAYING as u64;
        if bounds.contains(&each) || start.elapsed() > Duration::from_secs(20) {
            drop((first, staying));
            return each;
        }
    }
}

fn counted(path: &'static str, fields: &'static str, enough: &'static str, name: &str) {
    under_line(path, LINE, async |runtime| {
        let hub = Hub::new(HubConfig::default()).expect("there is room");
        let server = Server::bind("127.0.0.1:0")?.config(Config { drain_timeout: Duration::ZERO, ..Config::default() });
        let address = server.local_addr();
        let serving = server.serve(move |req: Request| stay(req, hub.clone()));
        let counted = row(runtime, name);
        // Pages of tables that are not full are among it: on a busy machine more of them.
        let bounds = counted * 3 / 4..=counted * 3 / 2;
        let expected = bounds.clone();
        let held = serve_until(serving, move || held_for_each(address, path, fields, enough, &expected)).await?;
        println!("{path} on {}: {held} bytes of the pool, counted with {counted}", runtime.driver().kind);
        assert!(bounds.contains(&held), "{path}: {held}, and not {counted}");
        Ok(())
    });
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

#[test]
fn a_websocket_is_counted_with_what_it_holds() {
    counted("/called", UPGRADE, "\r\n\r\n", "counted_websocket");
    counted("/task", UPGRADE, "\r\n\r\n", "counted_websocket_task");
}

#[test]
fn a_member_of_a_hub_is_counted_with_what_it_holds() {
    counted("/hub", UPGRADE, "\r\n\r\n", "counted_member");
}

#[test]
fn what_left_http_is_counted_with_what_it_holds() {
    counted("/upgrade", "Connection: upgrade\r\nUpgrade: wait/1\r\n", "\r\n\r\n", "counted_released");
}

#[test]
fn a_stream_of_events_is_counted_with_what_it_holds() {
    counted("/events", "", ": here\n\n", "counted_events");
}
