//! HTTP/2 connections at the line, many at a time: what they receive waits in their sockets, and whoever waits is
//! served in the end.

use core::future::poll_fn;
use core::net::SocketAddr;
use core::pin::Pin;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_http::{Config, Error, ProxyProtocol, Request, Response};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, Lease, Result, pool, sleep, yield_now};

use crate::rig::frames::{
    ACK, Client, DATA, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame, get, request,
};
use crate::rig::memory::fill;
use crate::rig::{Running, count_body, in_simulation, on_each, serve};

/// Takes all memory, in so many steps that the server sees it coming.
async fn fill_slowly() -> Vec<Lease> {
    let mut held = Vec::new();
    while pool().budget().level() < Level::Yellow {
        held.push(pool().try_acquire(131_072, Kind::Buffers).expect("the level changes before the line"));
        sleep(Duration::from_millis(2)).await;
    }
    // What is given back meanwhile is taken, too.
    for _ in 0..20 {
        sleep(Duration::from_millis(2)).await;
        held.extend(fill(1));
    }
    held
}

type Answer = Pin<Box<dyn Future<Output = core::result::Result<Response, Error>>>>;

/// `/quick` answers at once. All others wait for the gate; `/wait/N` answers with N bytes of fields, `/body` counts its
/// body.
fn gated(gate: &Arc<AtomicBool>) -> impl Fn(Request) -> Answer + Clone + Send + 'static {
    let gate = Arc::clone(gate);
    move |mut req: Request| {
        let gate = Arc::clone(&gate);
        Box::pin(async move {
            let path = req.path().to_owned();
            if path == "/quick" {
                return Ok(Response::text("quick"));
            }
            let mut response = Response::text("waited");
            if let Some(bytes) = path.strip_prefix("/wait/") {
                let bytes: usize = bytes.parse().unwrap_or(0);
                for part in 0..bytes.div_ceil(1_000) {
                    response = response.header(&format!("x-{part}"), vec![b'v'; 1_000.min(bytes)]);
                }
            }
            while !gate.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(1)).await;
            }
            if path != "/body" {
                return Ok(response);
            }
            Ok(Response::text(count_body(&mut req).await?.to_string()))
        })
    }
}

fn shed(server: &Running) -> u64 {
    server.counters.totals().shed_total.iter().sum()
}

/// More connections of one address than may wait with what is spared for those who wait, and more bytes than are spared
/// for one.
const CLIENTS: usize = 8;

/// Sends so much on each connection that it has to wait, where the clients are given the memory for it: for the bytes
/// and for the operation.
async fn send_at_the_line(clients: &mut [Client], bytes: &[u8]) -> Result<Vec<Lease>> {
    let page = || pool().try_acquire(4_096, Kind::Buffers).expect("room");
    let mut spare: Vec<_> = clients.iter().map(|_| [page(), page()]).collect();
    let mut held = fill_slowly().await;
    for client in clients {
        drop(spare.pop());
        client.send(bytes).await?;
        held.extend(fill(1));
    }
    sleep(Duration::from_millis(100)).await;
    Ok(held)
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn what_comes_for_streams_at_the_line_waits_in_the_socket() {
    on_each("bodies at the line", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(lends_nothing(), gated(&gate))?;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = Client::connect(server.address, &[]).await?;
            // A receive is armed when the second is answered.
            client.send(&[request(1, "POST", "/body", &[], 0), get(3, "/quick")].concat()).await?;
            assert_eq!(client.body(3).await?, b"quick");
            clients.push(client);
        }
        let held = send_at_the_line(&mut clients, &frame(DATA, 0, 1, &[b'b'; 900]).repeat(3)).await?;
        assert_eq!(shed(&server), 0, "nobody is let go of");
        drop(held);
        gate.store(true, Ordering::Relaxed);
        for client in &mut clients {
            client.send(&frame(DATA, END_STREAM, 1, &[b'b'; 100])).await?;
            assert_eq!(client.body(1).await?, b"2800");
        }
        drop(clients);
        server.stop().await
    });
}

#[test]
fn what_comes_for_a_parked_connection_at_the_line_waits_in_the_socket() {
    on_each("requests at the line", async || {
        let gate = Arc::new(AtomicBool::new(true));
        let server = serve(lends_nothing(), gated(&gate))?;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = Client::connect(server.address, &[]).await?;
            client.send(&get(1, "/quick")).await?;
            assert_eq!(client.body(1).await?, b"quick");
            clients.push(client);
        }
        let upload = [request(3, "POST", "/body", &[], 0), frame(DATA, END_STREAM, 3, &[b'b'; 2_500])].concat();
        let held = send_at_the_line(&mut clients, &upload).await?;
        assert_eq!(shed(&server), 0, "nobody is let go of");
        drop(held);
        for client in &mut clients {
            assert_eq!(client.body(3).await?, b"2500");
            // Memory is plenty again, and a receive brings what it finds.
            client.send(&get(5, "/quick")).await?;
            assert_eq!(client.body(5).await?, b"quick");
        }
        drop(clients);
        server.stop().await
    });
}

#[test]
fn a_client_that_goes_away_at_the_line_is_forgotten() {
    on_each("gone at the line", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let server = serve(lends_nothing(), gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[request(1, "POST", "/body", &[], 0), get(3, "/quick")].concat()).await?;
        assert_eq!(client.body(3).await?, b"quick");
        let mut clients = vec![client];
        let held = send_at_the_line(&mut clients, &frame(DATA, 0, 1, &[b'b'; 900])).await?;
        drop((clients, held));
        while server.counters.totals().active > 0 {
            sleep(Duration::from_millis(1)).await;
        }
        server.stop().await
    });
}

/// A client of another address, which a proxy tells.
async fn proxied(server: SocketAddr, address: &str) -> Result<Client> {
    let mut client = Client { socket: TcpStream::connect(server).await?, bytes: Vec::new() };
    let proxy = format!("PROXY TCP4 {address} 10.0.0.9 4000 80\r\n");
    let hello = [proxy.as_bytes(), PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat();
    client.send(&hello).await?;
    Ok(client)
}

/// A gate for many handlers, which go on together.
#[derive(Default)]
struct Crowd {
    is_open: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl Crowd {
    async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_open.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            self.wakers.lock().expect("nobody panics").push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lets all of them go on, and gives them their turns; what is given back meanwhile is taken.
    async fn open(&self, held: &mut Vec<Lease>) {
        self.is_open.store(true, Ordering::Relaxed);
        let wakers = core::mem::take(&mut *self.wakers.lock().expect("nobody panics"));
        wakers.into_iter().for_each(Waker::wake);
        for _ in 0..20 {
            held.extend(fill(1));
            yield_now().await;
        }
    }
}

/// Connections of a worker that wait for memory at most.
const PLACES: usize = 512;

/// Clients of these addresses, so many of each, whose answers find no room, those of one address after those of
/// another: all are served in the end.
fn all_are_served(name: &str, addresses: &'static [(&'static str, usize)]) {
    in_simulation(name, async || {
        let crowds: Arc<Vec<Crowd>> = Arc::new(addresses.iter().map(|_| Crowd::default()).collect());
        let theirs = Arc::clone(&crowds);
        let config = Config { proxy_protocol: ProxyProtocol::Required, ..lends_nothing() };
        let server = serve(config, move |req: Request| {
            let crowds = Arc::clone(&theirs);
            async move {
                let Some(crowd) = req.path()[1..].parse::<usize>().ok().and_then(|at| crowds.get(at)) else {
                    return Response::text("done");
                };
                // It has a buffer of 8 KiB, and needs one of 16 to be sent: what others give back is not enough.
                let response = Response::text("done").header("x-long", vec![b'v'; 8_100]);
                crowd.wait().await;
                response
            }
        })?;
        let mut clients = Vec::new();
        for (at, (address, count)) in addresses.iter().enumerate() {
            for _ in 0..*count {
                let mut client = proxied(server.address, address).await?;
                client.send(&[get(1, &format!("/{at}")), get(3, "/quick")].concat()).await?;
                assert_eq!(client.body(3).await?, b"done");
                clients.push(client);
            }
        }
        let mut held = fill_slowly().await;
        for crowd in crowds.iter() {
            crowd.open(&mut held).await;
        }
        let answered = server.counters.totals().responses_total[0].1 as usize - clients.len();
        assert!(answered + PLACES < clients.len(), "more than have places wait: {answered} were answered");
        // For less than the time after which the address that holds the most loses its newest.
        sleep(Duration::from_millis(100)).await;
        drop(held);
        for client in &mut clients {
            assert_eq!(client.body(1).await?, b"done");
        }
        assert_eq!(shed(&server), 0);
        drop(clients);
        server.stop().await
    });
}

#[test]
fn whoever_is_one_too_many_in_line_is_served_in_the_end() {
    all_are_served("one of too many", &[("10.0.0.1", PLACES + 300)]);
}

#[test]
fn whoever_lost_a_place_in_line_to_another_address_is_served_in_the_end() {
    all_are_served("displaced", &[("10.0.0.1", PLACES + 10), ("10.0.0.2", 4)]);
}

/// The queue is full of requests of its address: the newest makes way for another address, and need not wait for that.
#[test]
fn a_stream_that_loses_its_place_to_another_address_hears_503_at_once() {
    in_simulation("a displaced stream", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let config = Config {
            proxy_protocol: ProxyProtocol::Required,
            handlers_in_progress_max: Some(1),
            admission_timeout: Duration::from_secs(60),
            ..lends_nothing()
        };
        let server = serve(config, gated(&gate))?;
        let mut busy = proxied(server.address, "10.0.0.3").await?;
        busy.send(&get(1, "/wait/1")).await?;
        sleep(Duration::from_millis(10)).await;
        let asks = async |of: &str| {
            let mut client = TcpStream::connect(server.address).await?;
            let asks = format!("PROXY TCP4 {of} 10.0.0.9 4000 80\r\nGET /quick HTTP/1.1\r\nHost: h\r\n\r\n");
            client.send_bytes(asks.as_bytes()).await.map(|()| client)
        };
        let mut crowd = Vec::new();
        for _ in 1..PLACES {
            crowd.push(asks("10.0.0.1").await?);
        }
        sleep(Duration::from_millis(10)).await;
        let mut client = proxied(server.address, "10.0.0.1").await?;
        client.send(&get(1, "/quick")).await?;
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().responses_total, [], "all wait");
        crowd.push(asks("10.0.0.2").await?);
        sleep(Duration::from_millis(500)).await;
        assert_eq!(server.counters.totals().responses_total, [(503, 1)]);
        assert!(client.next_of(HEADERS).await?.has_status(503));
        gate.store(true, Ordering::Relaxed);
        // All the others have their turn.
        sleep(Duration::from_secs(1)).await;
        assert_eq!(client.fetch(3, "/quick").await?, b"quick", "its connection lives");
        assert_eq!(server.counters.totals().responses_total, [(200, PLACES as u64 + 2), (503, 1)]);
        drop((busy, client, crowd));
        server.stop().await
    });
}

#[test]
fn a_body_that_has_found_room_is_not_told_that_there_was_none() {
    in_simulation("only one is told", async || {
        let gate = Arc::new(AtomicBool::new(false));
        let config = Config { memory_timeout: Duration::from_secs(2), ..lends_nothing() };
        let server = serve(config, gated(&gate))?;
        let mut client = Client::connect(server.address, &[]).await?;
        client.send(&[get(1, "/wait/6000"), request(3, "POST", "/body", &[], 0)].concat()).await?;
        sleep(Duration::from_millis(10)).await;
        let spare = [4_096, 1_024, 1_024, 1_024].map(|len| pool().try_acquire(len, Kind::Buffers).expect("room"));
        let operation = pool().try_acquire(4_096, Kind::Buffers).expect("room");
        let mut held = fill_slowly().await;
        // Its bytes are received, and find no place beside those of before.
        let [sends, place, more, last] = spare;
        drop((sends, operation));
        client.send(&frame(DATA, 0, 3, &[b'b'; 900])).await?;
        held.extend(fill(1));
        drop(place);
        sleep(Duration::from_millis(5)).await;
        gate.store(true, Ordering::Relaxed);
        sleep(Duration::from_millis(300)).await;
        assert_eq!(server.counters.totals().responses_total, [], "both wait");
        drop((more, last));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(server.counters.totals().responses_total, [(503, 1)], "one has waited in vain");
        drop(held);
        client.send(&frame(DATA, END_STREAM, 3, &[b'b'; 100])).await?;
        let mut ends = Vec::new();
        while ends.len() < 2 {
            let frame = client.frame().await?.expect("the connection lives");
            assert!(![RST_STREAM, GOAWAY].contains(&frame.kind), "{frame:?}");
            if frame.kind <= HEADERS && frame.flags & END_STREAM != 0 {
                ends.push((frame.stream, String::from_utf8_lossy(&frame.payload).into_owned()));
            }
        }
        assert!(ends.contains(&(3, "1000".to_owned())), "{ends:?}");
        drop(client);
        server.stop().await
    });
}
