//! WebSockets of the server: echoes, refusals, closes, attacks, and what a parked one holds. On each driver.
#![forbid(unsafe_code)]

mod rig;

use core::cell::RefCell;
use core::time::Duration;

use plimsoll_http::codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_http::{Config, Error, Message, OriginCheck, Request, Response, WebSocketConfig};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, pool_stats, sleep, timeout};
use rig::{in_simulation, on_each, serve, talk};

const HANDSHAKE: &str = "GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const KEY: [u8; 4] = [9, 8, 7, 6];

/// The client's end.
struct Client {
    stream: TcpStream,
    decoder: Decoder,
    input: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Message(bool, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<CloseCode>),
    /// The end of the stream.
    End,
}

fn frame(is_final: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { is_final, ..FrameHead::message(opcode, payload.len() as u64) }.masked(KEY);
    let mut payload = payload.to_vec();
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}

impl Client {
    /// Opens, with `early` behind the head in the same bytes.
    async fn open(address: core::net::SocketAddr, early: &[u8]) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.send_bytes(&[HANDSHAKE.as_bytes(), b"\r\n", early].concat()).await?;
        let mut input = Vec::new();
        let end = loop {
            if let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            input.extend_from_slice(&stream.recv().await?.expect("an answer"));
        };
        let head = String::from_utf8(input.drain(..end).collect()).expect("a head is ASCII");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        let head = head.to_ascii_lowercase();
        for line in ["upgrade: websocket", "connection: upgrade", "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="]
        {
            assert_eq!(head.lines().filter(|found| *found == line).count(), 1, "{head}");
        }
        let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
        Ok(Self { stream, decoder: Decoder::new(Role::Client, limits), input })
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.send_bytes(bytes).await
    }

    async fn next(&mut self) -> Result<Got> {
        let mut message = None;
        loop {
            let decoded = self.decoder.decode(&mut self.input, 0).expect("a server keeps to the protocol");
            let taken: Vec<u8> = self.input.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore => match timeout(Duration::from_secs(300), self.stream.recv()).await?? {
                    Some(lease) => self.input.extend_from_slice(&lease),
                    None => return Ok(Got::End),
                },
                Event::Begin { is_text, .. } => message = Some((is_text, Vec::new())),
                Event::Data(range) => message.as_mut().expect("begun").1.extend_from_slice(&taken[range]),
                Event::End => {
                    let (is_text, payload) = message.take().expect("begun");
                    return Ok(Got::Message(is_text, payload));
                }
                Event::Ping(range) => return Ok(Got::Ping(taken[range].to_vec())),
                Event::Pong(range) => return Ok(Got::Pong(taken[range].to_vec())),
                Event::Close { code, .. } => return Ok(Got::Close(code)),
            }
        }
    }
}

fn echo_with(
    config: WebSocketConfig,
) -> impl Fn(Request) -> core::future::Ready<Result<Response, Error>> + Clone + Send {
    move |request| {
        core::future::ready(request.upgrade_websocket(&config, |mut socket| async move {
            while let Ok(Some(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }))
    }
}

#[test]
fn messages_of_all_sizes_come_back() {
    on_each("echo", || {
        Box::pin(async {
            let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
            let mut client = Client::open(running.address, &frame(true, Opcode::Text, "früh".as_bytes())).await?;
            assert_eq!(client.next().await?, Got::Message(true, "früh".as_bytes().to_vec()));
            for bytes in [0, 1, 125, 126, 4_000, 65_535, 65_536, 300_000, 1 << 20] {
                let payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                client.send(&frame(true, Opcode::Binary, &payload)).await?;
                assert_eq!(client.next().await?, Got::Message(false, payload), "{bytes} bytes");
            }
            // A text in fragments, with a ping between them, a byte at a time.
            let parts = [
                frame(false, Opcode::Text, b"h\xC3"),
                frame(true, Opcode::Ping, b"there?"),
                frame(true, Opcode::Continuation, b"\xA9"),
            ];
            for byte in parts.concat() {
                client.send(&[byte]).await?;
            }
            assert_eq!(client.next().await?, Got::Pong(b"there?".to_vec()));
            assert_eq!(client.next().await?, Got::Message(true, "hé".as_bytes().to_vec()));
            client.send(&frame(true, Opcode::Close, &CloseCode(4_321).0.to_be_bytes())).await?;
            assert_eq!(client.next().await?, Got::Close(Some(CloseCode(4_321))));
            assert_eq!(client.next().await?, Got::End);
            drop(client);
            assert_eq!(running.counters.totals().websockets_total, 1);
            running.stop().await
        })
    });
}

#[test]
fn what_is_no_handshake_is_told_so() {
    on_each("refusals", || {
        Box::pin(async {
            let config = WebSocketConfig { origin: OriginCheck::SameHost, ..WebSocketConfig::default() };
            let running = serve(Config::default(), echo_with(config))?;
            let plain = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
            let answer = talk(running.address, &[plain.as_bytes()], None).await?.to_ascii_lowercase();
            assert!(answer.starts_with("http/1.1 426 "), "{answer}");
            assert!(answer.contains("\r\nsec-websocket-version: 13\r\n"), "{answer}");
            assert!(answer.contains("\r\nupgrade: websocket\r\n"), "{answer}");
            let bad_key = format!("{}Origin: http://here\r\n\r\n", HANDSHAKE.replace("==", ""));
            let answer = talk(running.address, &[bad_key.as_bytes()], Some(b"\r\n\r\n")).await?;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
            for (origin, status) in [("http://evil.example", "403"), ("null", "403"), ("https://HERE", "101")] {
                let request = format!("{HANDSHAKE}Origin: {origin}\r\n\r\n");
                let answer = talk(running.address, &[request.as_bytes()], Some(b"\r\n\r\n")).await?;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{origin}: {answer}");
            }
            running.stop().await
        })
    });
}

#[test]
fn attacks_are_cut_off_with_their_codes() {
    on_each("attacks", || {
        Box::pin(async {
            let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
            let mut honest = Client::open(running.address, b"").await?;
            let length_first = FrameHead::message(Opcode::Binary, 1 << 40).masked(KEY).encode();
            let fragments = [frame(false, Opcode::Binary, b"a"), frame(false, Opcode::Continuation, b"").repeat(200)];
            let cases = [
                ("length first", length_first.as_bytes().to_vec(), CloseCode::TOO_LARGE),
                ("unmasked", vec![0x81, 1, b'x'], CloseCode::PROTOCOL),
                ("text", frame(true, Opcode::Text, b"\xED\xA0\x80"), CloseCode::INVALID),
                ("fragments", fragments.concat(), CloseCode::POLICY),
                ("pings", frame(true, Opcode::Ping, b"").repeat(5_000), CloseCode::POLICY),
            ];
            for (what, bytes, code) in cases {
                let before = plimsoll_runtime::budget().charged();
                let mut client = Client::open(running.address, b"").await?;
                client.send(&bytes).await?;
                let mut got = client.next().await?;
                while matches!(got, Got::Pong(_)) {
                    got = client.next().await?;
                }
                assert_eq!(got, Got::Close(Some(code)), "{what}");
                assert_eq!(client.next().await?, Got::End, "{what}");
                assert!(plimsoll_runtime::budget().charged() < before + (1 << 20), "{what}");
                honest.send(&frame(true, Opcode::Text, what.as_bytes())).await?;
                assert_eq!(honest.next().await?, Got::Message(true, what.as_bytes().to_vec()));
            }
            drop(honest);
            running.stop().await
        })
    });
}

#[test]
fn the_server_closes_and_says_why() {
    on_each("closes", || {
        Box::pin(async {
            let running = serve(Config::default(), |request: Request| async move {
                request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
                    let sent = socket.send(Message::text("bye")).await;
                    assert!(sent.is_ok() && socket.close(CloseCode(4_000), "enough").await.is_ok());
                })
            })?;
            let mut client = Client::open(running.address, b"").await?;
            assert_eq!(client.next().await?, Got::Message(true, b"bye".to_vec()));
            assert_eq!(client.next().await?, Got::Close(Some(CloseCode(4_000))));
            client.send(&frame(true, Opcode::Close, &4_000_u16.to_be_bytes())).await?;
            assert_eq!(client.next().await?, Got::End);
            drop(client);
            running.stop().await
        })
    });
}

#[test]
fn a_server_that_stops_goes_away_politely() {
    on_each("stop", || {
        Box::pin(async {
            let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
            let mut client = Client::open(running.address, &frame(true, Opcode::Text, b"x")).await?;
            assert_eq!(client.next().await?, Got::Message(true, b"x".to_vec()));
            let counters = running.counters.clone();
            let client = plimsoll_runtime::spawn(async move {
                let told = client.next().await;
                client.send(&frame(true, Opcode::Close, &1_001_u16.to_be_bytes())).await?;
                assert_eq!(client.next().await?, Got::End);
                told
            })?;
            running.stop().await?;
            assert_eq!(client.await.expect("no panic")?, Got::Close(Some(CloseCode::GOING_AWAY)));
            let totals = counters.totals();
            assert_eq!((totals.parked, totals.active), (0, 0));
            Ok(())
        })
    });
}

/// A minute of silence: asked, and let go of.
#[test]
fn a_peer_that_is_silent_is_asked_and_then_gone() {
    in_simulation("keep-alive", || {
        Box::pin(async {
            thread_local!(static ENDS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });
            let running = serve(Config::default(), |request: Request| async move {
                request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
                    let end = socket.recv().await;
                    ENDS.with_borrow_mut(|ends| ends.push(format!("{end:?}")));
                })
            })?;
            let mut answers = Client::open(running.address, b"").await?;
            for _ in 0..5 {
                assert_eq!(answers.next().await?, Got::Ping(Vec::new()));
                answers.send(&frame(true, Opcode::Pong, b"")).await?;
            }
            let mut silent = Client::open(running.address, b"").await?;
            assert_eq!(silent.next().await?, Got::Ping(Vec::new()));
            assert_eq!(silent.next().await?, Got::Close(Some(CloseCode::POLICY)));
            // A message that never ends.
            let mut slow = Client::open(running.address, &frame(false, Opcode::Text, b"a")).await?;
            let mut got = slow.next().await?;
            while matches!(got, Got::Ping(_)) {
                got = slow.next().await?;
            }
            assert_eq!(got, Got::Close(Some(CloseCode::POLICY)));
            drop((answers, silent, slow));
            sleep(Duration::from_secs(120)).await;
            ENDS.with_borrow(|ends| {
                assert_eq!(ends.len(), 3);
                assert!(ends.iter().all(|end| end.contains("Gone")), "{ends:?}");
            });
            running.stop().await
        })
    });
}

/// Bytes of the pool that somebody holds: buffers, and the entries and tasks that are in it too.
fn held_bytes() -> u64 {
    let stats = pool_stats();
    stats.iter().flat_map(|stats| &stats.classes).map(|class| class.live * class.class.bytes() as u64).sum()
}

#[test]
fn a_parked_websocket_holds_no_buffer() {
    on_each("parked", || {
        Box::pin(async {
            const SOCKETS: u64 = 256;
            let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
            let mut clients = vec![Client::open(running.address, b"").await?];
            let none = held_bytes();
            for _ in 0..SOCKETS {
                clients.push(Client::open(running.address, b"").await?);
            }
            sleep(Duration::from_millis(20)).await;
            let fresh = held_bytes();
            for client in &mut clients {
                client.send(&frame(true, Opcode::Text, &[b'x'; 3_000])).await?;
                assert_eq!(client.next().await?, Got::Message(true, vec![b'x'; 3_000]));
            }
            sleep(Duration::from_millis(20)).await;
            // What was received and sent has left nothing behind.
            assert_eq!(held_bytes(), fresh);
            let each = (fresh - none) / SOCKETS;
            assert!(each < 2_048, "{each} bytes for the task of a WebSocket and for both ends' streams");
            drop(clients);
            running.stop().await
        })
    });
}
