//! One test for each class of attack on HTTP/2 and HPACK. Each asserts what the attacker is answered, that memory stays
//! under the line, and that an honest client is served all the while. What needs time alone is in the other suite, with
//! a virtual clock.

use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{Config, Error, Request, Response, Shed, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep, spawn};

use crate::rig::frames::{
    ACK, COMPRESSION_ERROR, CONTINUATION, Client, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR, Frame, GOAWAY, HEADERS, NO_ERROR, PING, PRIORITY, PROTOCOL_ERROR, PUSH_PROMISE, REFUSED_STREAM,
    RST_STREAM, SETTINGS, STREAM_CLOSED, WINDOW_UPDATE, block, cancel, frame, get, request, window_update,
};
use crate::rig::honest::Honest;
use crate::rig::{Running, on_each, serve};

/// The last thing that an attacker sends: when it is answered, all before it was read.
const MARK: [u8; 8] = *b"attacked";

static BIG: [u8; 1 << 20] = [b'b'; 1 << 20];

/// How an attacker's connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With GOAWAY and this code, which is not NO_ERROR.
    Goaway(u32),
    /// Closed without a word.
    Closed,
    /// It did not: everything was read.
    Open,
}

/// Sends an attack, and reads until it is over. What came, and the socket as far as it is still there.
struct Attacked {
    frames: Vec<Frame>,
    end: End,
}

impl Attacked {
    async fn with(address: SocketAddr, settings: &[u8], attack: Vec<u8>) -> Result<Self> {
        let Client { socket, mut bytes } = Client::connect(address, settings).await?;
        let (mut reader, mut writer) = socket.into_split();
        let sending = spawn(async move {
            let marked = [&attack[..], &frame(PING, 0, 0, &MARK)].concat();
            for piece in marked.chunks(8_192) {
                if writer.send_bytes(piece).await.is_err() {
                    break;
                }
            }
            writer
        })?;
        let mut frames = Vec::new();
        let end = loop {
            if let Some(frame) = Frame::take_from(&mut bytes) {
                match frame.kind {
                    GOAWAY if frame.error_code() != NO_ERROR => break End::Goaway(frame.error_code()),
                    PING if frame.flags == ACK && frame.payload == MARK => break End::Open,
                    _ => frames.push(frame),
                }
                continue;
            }
            match reader.recv().await {
                Ok(Some(lease)) => bytes.extend_from_slice(&lease),
                Ok(None) | Err(_) => break End::Closed,
            }
        };
        drop(reader);
        drop(sending.await);
        Ok(Self { frames, end })
    }

    /// The codes with which streams were reset.
    fn resets(&self) -> Vec<u32> {
        self.frames.iter().filter(|frame| frame.kind == RST_STREAM).map(Frame::error_code).collect()
    }

    /// Whether there is an answer with this status.
    fn has_answer(&self, status: u16) -> bool {
        self.frames.iter().any(|frame| frame.kind == HEADERS && frame.has_status(status))
    }
}

/// An honest client of HTTP/2 on one connection.
async fn honest(address: SocketAddr) -> Result<Honest> {
    let mut client = Client::connect(address, &[]).await?;
    let mut stream = 1;
    let ask = async move || {
        assert_eq!(client.fetch(stream, "/fine").await?, b"fine");
        stream += 2;
        Ok(())
    };
    Honest::begin(Duration::from_millis(2), ask).await
}

/// Handlers that were started for attackers.
#[derive(Clone, Default)]
struct Started(Arc<AtomicU64>);

fn attacked(started: &Started) -> Result<Running> {
    let started = started.clone();
    serve(Config::default(), move |req: Request| answer(req, started.clone()))
}

async fn answer(mut req: Request, started: Started) -> core::result::Result<Response, Error> {
    match req.path() {
        "/fine" => return Ok(Response::text("fine")),
        "/big" => return Ok(Response::new(StatusCode::OK).body(&BIG[..])),
        _ => {}
    }
    started.0.fetch_add(1, Ordering::Relaxed);
    match req.path() {
        "/body" => Ok(Response::text(req.collect().await?.len().to_string())),
        "/stuck" => {
            sleep(Duration::from_secs(60)).await;
            Ok(Response::text("never"))
        }
        _ => {
            sleep(Duration::from_millis(20)).await;
            Ok(Response::text("late"))
        }
    }
}

/// Runs attacks one after the other, each on a connection of its own, beside an honest client.
fn attacks(name: &str, of: impl Fn() -> Vec<(&'static str, Vec<u8>, End)>) {
    on_each(name, async || {
        let started = Started::default();
        let server = attacked(&started)?;
        let honest = honest(server.address).await?;
        let before = plimsoll_runtime::budget().charged();
        let attacks = of();
        let (mut cut_off, count) = (0, attacks.len());
        for (what, bytes, end) in attacks {
            let attacked = Attacked::with(server.address, &[], bytes).await?;
            assert_eq!(attacked.end, end, "{what}: {:?}", attacked.frames.last());
            cut_off += u64::from(end != End::Open);
            let grown = plimsoll_runtime::budget().charged().saturating_sub(before);
            assert!(grown < 2 << 20, "{what}: {grown} bytes are kept");
        }
        assert!(started.0.load(Ordering::Relaxed) <= 260 * count as u64, "few attacks reach a handler");
        // Some are told first, and closed when they go on.
        let shed = server.counters.totals().shed_total[Shed::Misbehaviour as usize];
        assert!((1..=cut_off).contains(&shed), "{shed} of {cut_off} were closed for what they did");
        honest.end().await?;
        server.stop().await
    });
}

/// So many times what `one` makes of the number of a stream.
fn many(count: u32, one: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    (0..count).flat_map(|at| one(2 * at + 1)).collect()
}

fn post(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    request(stream, "POST", "/body", more, 0)
}

#[test]
fn rapid_resets_are_cut_off() {
    attacks("rapid reset", || {
        let reset = |stream: u32| [get(stream, "/late"), cancel(stream)].concat();
        let begun = |stream: u32| [post(stream, &[]), cancel(stream)].concat();
        vec![
            ("100,000 requests that are reset at once", many(100_000, reset), End::Goaway(ENHANCE_YOUR_CALM)),
            ("1,000 bodies that are reset", many(1_000, begun), End::Goaway(ENHANCE_YOUR_CALM)),
            ("some resets are nothing to mind", many(60, reset), End::Open),
        ]
    });
}

#[test]
fn resets_that_an_attacker_makes_us_send_are_cut_off() {
    attacks("MadeYouReset", || {
        let pattern =
            |after: fn(u32) -> Vec<u8>| many(300, move |stream| [get(stream, "/late"), after(stream)].concat());
        let flood = End::Goaway(ENHANCE_YOUR_CALM);
        vec![
            ("WINDOW_UPDATE of 0", pattern(|stream| frame(WINDOW_UPDATE, 0, stream, &[0; 4])), flood),
            (
                "WINDOW_UPDATE beyond 2^31 - 1",
                pattern(|stream| frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])),
                flood,
            ),
            ("DATA on a half-closed stream", pattern(|stream| frame(DATA, 0, stream, b"x")), flood),
            ("HEADERS on a half-closed stream", pattern(|stream| get(stream, "/late")), flood),
            (
                "PRIORITY on itself",
                pattern(|stream| frame(PRIORITY, 0, stream, &[&stream.to_be_bytes()[..], &[0]].concat())),
                flood,
            ),
            ("PRIORITY of a wrong length", pattern(|stream| frame(PRIORITY, 0, stream, &[0; 4])), flood),
            (
                "a body longer than it says",
                many(300, |stream| [post(stream, &[("content-length", "1")]), frame(DATA, 0, stream, b"xx")].concat()),
                flood,
            ),
            (
                "a body shorter than it says",
                many(300, |stream| {
                    [post(stream, &[("content-length", "9")]), frame(DATA, END_STREAM, stream, b"xx")].concat()
                }),
                flood,
            ),
            ("fields that are not allowed", many(300, |stream| post(stream, &[("connection", "close")])), flood),
            (
                "trailers that do not end",
                many(300, |stream| {
                    [post(stream, &[]), frame(HEADERS, END_HEADERS, stream, &block(&[("a", "b")]))].concat()
                }),
                flood,
            ),
        ]
    });
}

#[test]
fn header_blocks_that_never_end_are_cut_off() {
    attacks("CONTINUATION flood", || {
        let begun = || frame(HEADERS, 0, 1, &block(&[(":method", "GET")]));
        let continued = |bytes: usize, count: usize| frame(CONTINUATION, 0, 1, &vec![0; bytes]).repeat(count);
        vec![
            ("small ones", [begun(), continued(1, 10_000)].concat(), End::Goaway(ENHANCE_YOUR_CALM)),
            ("empty ones", [begun(), continued(0, 10_000)].concat(), End::Goaway(ENHANCE_YOUR_CALM)),
            ("large ones", [begun(), continued(16_000, 9)].concat(), End::Goaway(ENHANCE_YOUR_CALM)),
            ("another frame within", [begun(), frame(PING, 0, 0, &[0; 8])].concat(), End::Goaway(PROTOCOL_ERROR)),
            ("one without a beginning", continued(1, 1), End::Goaway(PROTOCOL_ERROR)),
        ]
    });
}

/// A block that puts one large entry into the table.
fn insertion(bytes: usize) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x41, 1, b'h', 0x40, 1, b'x'];
    assert!((127..127 + 16_384).contains(&bytes));
    block.extend([0x7f, (bytes - 127) as u8 | 0x80, ((bytes - 127) >> 7) as u8]);
    block.extend(vec![b'v'; bytes]);
    block
}

#[test]
fn bombs_of_fields_cost_their_own_bytes() {
    on_each("bombs", async || {
        let started = Started::default();
        let server = attacked(&started)?;
        let honest = honest(server.address).await?;
        let base = [0x82, 0x86, 0x84, 0x41, 1, b'h'];
        let crumb = [0x00, 6, b'c', b'o', b'o', b'k', b'i', b'e', 1, b'c'];
        let bombs: [(&str, Vec<Vec<u8>>); 4] = [
            // CVE-2026-49975: thousands of fields of nearly nothing.
            ("15,000 references to a static field", vec![[&base[..], &[0x90; 15_000]].concat()]),
            ("150 crumbs of a cookie", vec![[&base[..], &crumb.repeat(150)].concat()]),
            // CVE-2016-6581.
            ("16,000 references to 3,900 bytes", vec![insertion(3_900), [&base[..], &[0xbe; 16_000]].concat()]),
            ("a table that is filled again and again", (0..200).map(|_| insertion(4_000)).collect()),
        ];
        for (what, blocks) in bombs {
            let before = plimsoll_runtime::budget().charged();
            let frames = blocks.iter().enumerate();
            let bytes =
                frames.flat_map(|(at, block)| frame(HEADERS, END_HEADERS | END_STREAM, 2 * at as u32 + 1, block));
            let attacked = Attacked::with(server.address, &[], bytes.collect()).await?;
            assert_eq!(attacked.end, End::Open, "{what}");
            let is_allowed = blocks.len() == 200;
            assert_eq!(attacked.has_answer(431), !is_allowed, "{what}: {:?}", attacked.frames);
            let grown = plimsoll_runtime::budget().charged().saturating_sub(before);
            assert!(grown < 1 << 20, "{what}: {grown} bytes");
        }
        // Who does it again and again is cut off.
        let bomb = [&base[..], &[0x90; 1_000]].concat();
        let bombs = many(300, |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &bomb));
        assert_eq!(Attacked::with(server.address, &[], bombs).await?.end, End::Goaway(ENHANCE_YOUR_CALM));
        honest.end().await?;
        server.stop().await
    });
}

#[test]
fn blocks_that_cannot_be_decoded_end_the_connection() {
    attacks("HPACK", || {
        let broken = |block: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 1, block);
        let compression = End::Goaway(COMPRESSION_ERROR);
        vec![
            ("an index that is not there", broken(&[0xff, 0x80, 0x01]), compression),
            ("index 0", broken(&[0x80]), compression),
            ("an integer without an end", broken(&[0xff; 40]), compression),
            ("a table beyond 4,096 bytes", broken(&[0x3f, 0xe2, 0x1f]), compression),
            ("three changes of the table's size", broken(&[0x20, 0x20, 0x20, 0x82]), compression),
            ("a size change behind a field", broken(&[0x82, 0x20]), compression),
            ("a string longer than its block", broken(&[0x00, 0x05, b'a']), compression),
            ("padding of a Huffman code that is too long", broken(&[0x00, 0x81, 0xff, 0x00]), compression),
        ]
    });
}

#[test]
fn floods_of_frames_are_cut_off() {
    attacks("floods", || {
        let flood = End::Goaway(ENHANCE_YOUR_CALM);
        let open = post(1, &[]);
        // A flood is no longer than it takes to be cut off, so that the GOAWAY is not lost among what nobody reads
        // any more.
        let tiny = many(6_000, |at| frame(DATA, 0, 1, &[at as u8]));
        vec![
            ("SETTINGS", frame(SETTINGS, 0, 0, &[]).repeat(30_000), flood),
            ("SETTINGS with many entries", frame(SETTINGS, 0, 0, &[0; 6 * 33]), flood),
            ("PING", frame(PING, 0, 0, &[0; 8]).repeat(16_500), flood),
            ("PRIORITY", frame(PRIORITY, 0, 7, &[0, 0, 0, 3, 9]).repeat(20_000), flood),
            ("WINDOW_UPDATE", window_update(0, 1).repeat(21_500), flood),
            ("empty DATA", [&open[..], &frame(DATA, 0, 1, &[]).repeat(1_000)].concat(), flood),
            ("padding alone", [&open[..], &frame(DATA, 8, 1, &[2, 0, 0]).repeat(1_000)].concat(), flood),
            ("empty frames of a kind that nobody knows", frame(0xbe, 0, 0, &[]).repeat(1_000), flood),
            ("long frames of a kind that nobody knows", frame(0xbe, 0, 0, &[0; 16_000]).repeat(40), flood),
            // As a body may come.
            ("DATA of a byte each", [&open[..], &tiny].concat(), End::Open),
        ]
    });
}

#[test]
fn games_with_windows_end_the_connection() {
    attacks("windows", || {
        let flow_control = End::Goaway(FLOW_CONTROL_ERROR);
        let largest = [0x7f, 0xff, 0xff, 0xff];
        vec![
            ("WINDOW_UPDATE beyond 2^31 - 1", frame(WINDOW_UPDATE, 0, 0, &largest), flow_control),
            ("WINDOW_UPDATE of 0", frame(WINDOW_UPDATE, 0, 0, &[0; 4]), End::Goaway(PROTOCOL_ERROR)),
            ("INITIAL_WINDOW_SIZE of 2^31", frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), flow_control),
            (
                "INITIAL_WINDOW_SIZE that makes a window too large",
                [
                    get(1, "/big"),
                    frame(WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0, 0]),
                    frame(SETTINGS, 0, 0, &[&[0, 4][..], &largest].concat()),
                ]
                .concat(),
                flow_control,
            ),
            (
                "more DATA than the connection's window",
                [post(1, &[]), post(3, &[]), post(5, &[]), post(7, &[]), post(9, &[])]
                    .into_iter()
                    .chain((0..5).map(|at| frame(DATA, 0, 2 * at + 1, &[0; 16_384])))
                    .collect::<Vec<_>>()
                    .concat(),
                // A handler that reads gives bytes back: then it is the stream's end that is awaited.
                End::Open,
            ),
            ("a frame that is longer than allowed", [post(1, &[]), frame(DATA, 0, 1, &[0; 16_385])].concat(), {
                End::Goaway(FRAME_SIZE_ERROR)
            }),
        ]
    });
}

#[test]
fn frames_out_of_place_end_the_connection() {
    attacks("out of place", || {
        let protocol = End::Goaway(PROTOCOL_ERROR);
        vec![
            ("PUSH_PROMISE", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]), protocol),
            ("DATA on a stream that was never opened", frame(DATA, 0, 1, b"x"), protocol),
            ("RST_STREAM of one", frame(RST_STREAM, 0, 1, &[0; 4]), protocol),
            ("a stream with an even number", request(2, "GET", "/", &[], END_STREAM), protocol),
            ("a number that goes back", [get(9, "/fine"), get(7, "/fine")].concat(), protocol),
            (
                "a stream that is over",
                [get(1, "/fine"), cancel(1), get(1, "/fine")].concat(),
                End::Goaway(STREAM_CLOSED),
            ),
        ]
    });
}

/// CVE-2023-26964, and 128 streams whose answers nobody takes.
#[test]
fn streams_that_pile_up_are_refused_and_hold_little() {
    on_each("stacked streams", async || {
        let started = Started::default();
        let server = attacked(&started)?;
        let honest = honest(server.address).await?;
        let before = plimsoll_runtime::budget().charged();
        let stacked = Attacked::with(server.address, &[], many(200, |stream| get(stream, "/stuck"))).await?;
        assert!(stacked.resets().iter().all(|code| *code == REFUSED_STREAM), "{:?}", stacked.resets());
        assert!(stacked.resets().len() == 72 && stacked.end == End::Open, "{:?}", stacked.resets().len());
        assert_eq!(started.0.load(Ordering::Relaxed), 128);
        let flood = Attacked::with(server.address, &[], many(2_000, |stream| get(stream, "/stuck"))).await?;
        assert_eq!(flood.end, End::Goaway(ENHANCE_YOUR_CALM));
        // Eight connections with 128 streams of 1 MiB each and windows of 0: heads alone leave.
        let mut blocked = Vec::new();
        for _ in 0..8 {
            let mut client = Client::connect(server.address, &[0, 4, 0, 0, 0, 0]).await?;
            client.send(&many(128, |stream| get(stream, "/big"))).await?;
            for _ in 0..128 {
                client.next_of(HEADERS).await?;
            }
            blocked.push(client);
        }
        let grown = plimsoll_runtime::budget().charged().saturating_sub(before);
        assert!(grown < 4 << 20, "{grown} bytes for 1,024 blocked streams");
        // Windows of a byte get a byte, and are no way to more.
        for client in &mut blocked {
            let updates = many(128, |stream| window_update(stream, 1));
            client.send(&updates).await?;
            for _ in 0..128 {
                assert_eq!(client.next_of(DATA).await?.payload, b"b");
            }
        }
        honest.end().await?;
        drop(blocked);
        server.stop().await
    });
}

/// Nobody is read faster than it reads.
#[test]
fn who_does_not_read_is_not_read() {
    on_each("pings without reading", async || {
        let server = attacked(&Started::default())?;
        let honest = honest(server.address).await?;
        let before = plimsoll_runtime::budget().charged();
        let mut deaf: Vec<TcpStream> = Vec::new();
        for _ in 0..4 {
            let Client { mut socket, .. } = Client::connect(server.address, &[]).await?;
            let pings = frame(PING, 0, 0, &[0; 8]).repeat(5_000);
            let gets = many(400, |stream| get(stream, "/big"));
            let attack = if deaf.len().is_multiple_of(2) { pings } else { gets };
            let sent = plimsoll_runtime::timeout(Duration::from_millis(200), socket.send_bytes(&attack)).await;
            drop(sent);
            deaf.push(socket);
        }
        let grown = plimsoll_runtime::budget().charged().saturating_sub(before);
        assert!(grown < 2 << 20, "{grown} bytes for four who do not read");
        honest.end().await?;
        drop(deaf);
        server.stop().await
    });
}
