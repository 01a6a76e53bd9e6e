//! WebSockets of the server: echoes, refusals, closes, attacks, and what a parked one holds. On each driver.

use core::cell::RefCell;
use core::time::Duration;

use crate::rig::memory::held_bytes;
use crate::rig::websocket::{Client, Got, HANDSHAKE, close, echo, frame, text};
use crate::rig::{in_simulation, on_each, serve, talk};
use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{
    Config, Error, Message, Misuse, OriginCheck, Request, Response, WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES,
    WebSocketConfig, WebSocketEnd, WebSocketHandler, WebSocketRef,
};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep};

/// A server's end that echoes, see [`echo`].
fn echo_with(
    config: WebSocketConfig,
) -> impl Fn(Request) -> core::future::Ready<Result<Response, Error>> + Clone + Send {
    move |request| core::future::ready(echo(&request, &config))
}

/// Both forms of a server's end.
const FORMS: [&str; 2] = ["/", "/called"];

#[test]
fn messages_of_all_sizes_come_back() {
    on_each("echo", async || {
        let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
        for form in FORMS {
            let early = text("früh");
            let mut client = Client::open_and_say(running.address, form, &early).await?;
            assert_eq!(client.next().await?, Got::Text("früh".into()));
            for bytes in [0, 1, 125, 126, 4_000, 65_535, 65_536, 300_000, 1 << 20] {
                let payload: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                client.send(&frame(true, Opcode::Binary, &payload)).await?;
                assert_eq!(client.next().await?, Got::Binary(payload), "{bytes} bytes");
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
            assert_eq!(client.next().await?, Got::Text("hé".into()));
            client.send(&close(4_321)).await?;
            assert_eq!(client.next().await?, Got::Close(Some(CloseCode(4_321))));
            assert_eq!(client.next().await?, Got::End);
        }
        assert_eq!(running.counters.totals().websockets_total, 2);
        running.stop().await
    });
}

#[test]
fn a_handshake_that_says_it_has_no_body_is_taken() {
    on_each("length 0", async || {
        let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
        for path in ["/", "/called"] {
            // What java.net.http sends, with its first message right behind it.
            let head = HANDSHAKE.replacen("GET / ", &format!("GET {path} "), 1);
            let head = head.replacen("\r\n", "\r\nContent-Length: 0\r\n", 1);
            let opening = [head.as_bytes(), b"\r\n", &text("ahoy")].concat();
            let answer = talk(running.address, &[&opening], Some(b"\x81\x04ahoy")).await?;
            assert!(answer.starts_with("HTTP/1.1 101 "), "{path}: {answer}");
            let with_body = format!("{}\r\n0123", head.replacen("Length: 0", "Length: 4", 1));
            let answer = talk(running.address, &[with_body.as_bytes()], Some(b"\r\n\r\n")).await?;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{path}: {answer}");
        }
        running.stop().await
    });
}

#[test]
fn what_is_no_handshake_is_told_so() {
    on_each("refusals", async || {
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
    });
}

#[test]
fn the_server_closes_and_says_why() {
    on_each("closes", async || {
        let running = serve(Config::default(), |request: Request| async move {
            request.upgrade_websocket(&WebSocketConfig::default(), |mut socket| async move {
                let sent = socket.send(Message::text("bye")).await;
                assert!(sent.is_ok() && socket.close(CloseCode(4_000), "enough").await.is_ok());
            })
        })?;
        let mut client = Client::open(running.address, "/").await?;
        assert_eq!(client.next().await?, Got::Text("bye".into()));
        assert_eq!(client.next().await?, Got::Close(Some(CloseCode(4_000))));
        client.send(&close(4_000)).await?;
        assert_eq!(client.next().await?, Got::End);
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_parked_websocket_holds_no_buffer() {
    on_each("parked", async || {
        const SOCKETS: u64 = 256;
        let running = serve(Config::default(), echo_with(WebSocketConfig::default()))?;
        // What a client's end in this process holds: as much as one of an HTTP connection.
        let mut plain = Vec::new();
        let none = held_bytes();
        for _ in 0..SOCKETS {
            let mut stream = TcpStream::connect(running.address).await?;
            stream.send_static(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").await?;
            stream.recv().await?.expect("an answer");
            plain.push(stream);
        }
        sleep(Duration::from_millis(20)).await;
        let of_http = held_bytes() - none;
        for (form, own_bytes) in [("/called", WEBSOCKET_PARKED_BYTES), ("/", WEBSOCKET_TASK_BYTES + 256)] {
            let none = held_bytes();
            let mut clients = Vec::new();
            for _ in 0..SOCKETS {
                clients.push(Client::open(running.address, form).await?);
            }
            sleep(Duration::from_millis(20)).await;
            let fresh = held_bytes();
            for client in &mut clients {
                client.send(&text(&"x".repeat(3_000))).await?;
                assert_eq!(client.next().await?, Got::Text("x".repeat(3_000)));
            }
            sleep(Duration::from_millis(20)).await;
            // What was received and sent has left nothing behind.
            // But for a page of operations, perhaps, and one that is kept for sends.
            assert!(held_bytes() <= fresh + 2 * 4_096, "{} of {fresh}", held_bytes());
            let each = (fresh - none).saturating_sub(of_http) / SOCKETS;
            // A page of the table or of operations may be begun.
            let page = 4_096 / SOCKETS;
            assert!(each <= own_bytes as u64 + 2 * page, "{form}: {each} bytes beside an HTTP connection");
        }
        drop(plain);
        running.stop().await
    });
}

/// What a handler that keeps a state is told.
struct Telling(Vec<String>);

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl WebSocketHandler for Telling {
    fn opened(&mut self, socket: &mut WebSocketRef<'_>) -> Result<(), Error> {
        self.0.push("opened".to_owned());
        socket.send(Message::text("welcome"))
    }

    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> Result<(), Error> {
        let text = message.as_text().unwrap_or("bytes").to_owned();
        self.0.push(text.clone());
        match text.as_str() {
            "panic" => panic!("as it was asked to"),
            "error" => Err(Misuse::AnsweredAlready.into()),
            "close" => {
                socket.close(CloseCode(4_001), "enough")?;
                assert!(matches!(socket.send(Message::text("late")), Err(Error::Disconnected)));
                socket.close(CloseCode(4_002), "again")
            }
            "later" => {
                let sender = socket.sender();
                let _detached = plimsoll_runtime::spawn(async move {
                    sleep(Duration::from_millis(5)).await;
                    assert!(sender.send(Message::text("now")).is_ok());
                    sleep(Duration::from_secs(100)).await;
                    assert!(matches!(sender.send(Message::text("too late")), Err(Error::Disconnected)));
                })?;
                Ok(())
            }
            _ => socket.send(message),
        }
    }

    fn closed(&mut self, end: WebSocketEnd) {
        self.0.push(format!("{end:?}"));
        TOLD.with_borrow_mut(|told| told.push(self.0.join(" ")));
    }
}

#[test]
fn a_handler_is_called_from_the_beginning_to_the_end() {
    in_simulation("called", async || {
        let running = serve(Config::default(), |request: Request| async move {
            request.serve_websocket(&WebSocketConfig::default(), Telling(Vec::new()))
        })?;
        let cases: [(&str, Option<&str>, Option<u16>, &str); 6] = [
            ("x", Some("x"), None, "opened x Disconnected"),
            ("panic", None, Some(1_011), "opened panic ByUs(CloseCode(1011))"),
            ("error", None, Some(1_011), "opened error ByUs(CloseCode(1011))"),
            ("close", None, Some(4_001), "opened close ByUs(CloseCode(4001))"),
            ("later", Some("now"), None, "opened later Disconnected"),
            ("\u{fffd}", Some("\u{fffd}"), None, "opened \u{fffd} Disconnected"),
        ];
        for (said, answer, code, _) in cases {
            let mut client = Client::open_and_say(running.address, "/", &text(said)).await?;
            assert_eq!(client.next().await?, Got::Text("welcome".into()));
            if let Some(answer) = answer {
                assert_eq!(client.next().await?, Got::Text(answer.into()));
            }
            if let Some(code) = code {
                assert_eq!(client.next().await?, Got::Close(Some(CloseCode(code))), "{said}");
                client.send(&close(code)).await?;
                assert_eq!(client.next().await?, Got::End, "{said}");
            }
            drop(client);
            sleep(Duration::from_secs(1)).await;
        }
        sleep(Duration::from_secs(200)).await;
        TOLD.with_borrow_mut(|told| {
            assert_eq!(*told, cases.map(|(.., expected)| expected));
            told.clear();
        });
        running.stop().await
    });
}

/// A peer that does not answer our close frame, and one that takes nothing: neither keeps its place.
#[test]
fn peers_that_do_nothing_are_let_go_of() {
    in_simulation("timeouts", async || {
        let running = serve(Config::default(), |request: Request| async move {
            let config = WebSocketConfig::default();
            if request.path() == "/pour" {
                return request.upgrade_websocket(&config, |mut socket| async move {
                    while socket.send(Message::binary(&[0_u8; 60_000][..])).await.is_ok() {}
                });
            }
            request.upgrade_websocket(&config, |socket| async move {
                assert!(socket.close(CloseCode(4_000), "").await.is_ok());
            })
        })?;
        let mute = Client::open(running.address, "/").await?;
        let deaf = Client::open(running.address, "/pour").await?;
        sleep(Duration::from_secs(60)).await;
        let totals = running.counters.totals();
        assert_eq!((totals.parked, totals.active), (0, 0), "{totals:?}");
        drop((mute, deaf));
        running.stop().await
    });
}

/// Without room for a message for too long, its connection is closed with 1013; others go on when there is room again.
#[test]
fn at_the_line_the_peer_is_told_to_try_again_later() {
    if crate::rig::is_skipped(crate::rig::AT_THE_LINE) {
        return;
    }
    on_each("line", async || {
        let config = Config { memory_timeout: Duration::from_millis(300), ..Config::default() };
        let running = serve(config, echo_with(WebSocketConfig::default()))?;
        for form in FORMS {
            let mut large = Client::open(running.address, form).await?;
            let mut honest = Client::open(running.address, form).await?;
            // A megabyte is begun, and there is no room for all of it.
            let message = frame(true, Opcode::Binary, &[7; 1 << 20]);
            let (budget, pool) = (plimsoll_runtime::budget(), plimsoll_runtime::pool());
            let mut filler = Vec::new();
            while let Ok(lease) = pool.try_acquire(64 * 1_024, plimsoll_runtime::Kind::Buffers) {
                filler.push(lease);
            }
            filler.truncate(filler.len() - 6);
            let sent = large.send(&message[..30_000]).await;
            let told = large.next().await;
            drop(filler);
            let is_told = matches!(told, Ok(Got::Close(Some(CloseCode::TRY_LATER))));
            assert!(is_told, "{form}: {sent:?}");
            assert!(budget.peak() <= budget.limit().as_bytes(), "the line holds");
            honest.send(&text("still here")).await?;
            assert_eq!(honest.next().await?, Got::Text("still here".into()));
        }
        running.stop().await
    });
}

/// A handler that is faster than its peer is told so, and nothing piles up.
#[test]
fn output_is_bounded() {
    in_simulation("bounded", async || {
        let running = serve(Config::default(), |request: Request| async move {
            request.serve_websocket(&WebSocketConfig::default(), |socket: &mut WebSocketRef<'_>, _message: Message| {
                let mut sent = 0_u32;
                while sent < 100_000 {
                    match socket.send(Message::binary(&[1_u8; 1_000][..])) {
                        Ok(()) => sent += 1,
                        Err(Error::OutputFull) => break,
                        Err(error) => return Err(error),
                    }
                }
                assert!((1..=66).contains(&sent), "{sent}");
                Ok(())
            })
        })?;
        let mut client = Client::open_and_say(running.address, "/", &text("go")).await?;
        assert_eq!(client.next().await?, Got::Binary(vec![1; 1_000]));
        drop(client);
        running.stop().await
    });
}

#[cfg(feature = "deflate")]
mod compressed {
    //! permessage-deflate between the server and a client.

    use plimsoll_codec::ws::{Compression, Deflater, Event, FrameHead, Inflater};
    use plimsoll_runtime::timeout;

    use super::*;
    use crate::rig::websocket::KEY;

    fn packed(deflater: &mut Deflater, opcode: Opcode, message: &[u8], parts: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let done = deflater.message(message, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        assert!(done.is_ok());
        let (mut frames, size) = (Vec::new(), bytes.len().div_ceil(parts).max(1));
        let count = bytes.len().div_ceil(size);
        for (at, part) in bytes.chunks(size).enumerate() {
            let opcode = if at == 0 { opcode } else { Opcode::Continuation };
            let head = FrameHead::message(opcode, part.len() as u64).masked(KEY);
            let head = FrameHead { is_final: at + 1 == count, is_compressed: at == 0, ..head };
            let mut part = part.to_vec();
            head.mask(&mut part);
            frames.extend_from_slice(head.encode().as_bytes());
            frames.extend_from_slice(&part);
        }
        frames
    }

    impl Client {
        /// The next message, inflated; whether it was compressed.
        async fn inflated(&mut self, inflater: &mut Inflater) -> Result<(bool, Vec<u8>)> {
            let (mut message, mut compressed) = (Vec::new(), false);
            loop {
                let (event, taken) = self.inbox.event();
                let mut put = |piece: &[u8]| {
                    message.extend_from_slice(piece);
                    Ok(())
                };
                match event {
                    Event::NeedMore => {
                        let lease = timeout(Duration::from_secs(300), self.stream.recv()).await??.expect("an answer");
                        self.inbox.receive(&lease);
                    }
                    Event::Begin { is_compressed, .. } => compressed = is_compressed,
                    Event::Data(range) if compressed => {
                        assert!(inflater.inflate(&taken[range], 1 << 24, &mut put).is_ok());
                    }
                    Event::Data(range) => message.extend_from_slice(&taken[range]),
                    Event::End => {
                        assert!(!compressed || inflater.finish(1 << 24, &mut put).is_ok());
                        return Ok((compressed, message));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn config(compression: Compression) -> WebSocketConfig {
        WebSocketConfig { compression: Some(compression), ..WebSocketConfig::default() }
    }

    #[test]
    fn messages_are_compressed_as_was_agreed_on() {
        on_each("deflate", async || {
            let offers = [
                ("permessage-deflate", "permessage-deflate", true, true, 15),
                ("permessage-deflate; server_max_window_bits=10", "server_max_window_bits=10", true, true, 10),
                ("permessage-deflate; server_no_context_takeover", "server_no_context_takeover", false, true, 15),
                (
                    "permessage-deflate; fast, permessage-deflate; client_no_context_takeover",
                    "permessage-deflate",
                    true,
                    false,
                    15,
                ),
            ];
            let running = serve(Config::default(), echo_with(config(Compression::WITH_TAKEOVER)))?;
            let text = "the same words in every message, which nobody should have to send twice; ".repeat(40);
            for ((offer, agreed, server_keeps, client_keeps, _), form) in
                offers.iter().flat_map(|offer| FORMS.map(|form| (offer, form)))
            {
                let fields = format!("Sec-WebSocket-Extensions: {offer}\r\n");
                let (mut client, head) = Client::open_with(running.address, form, &fields, b"").await?;
                let answer = head.lines().find(|line| line.starts_with("sec-websocket-extensions:"));
                assert!(answer.is_some_and(|line| line.contains(agreed)), "{head}");
                let mut deflater = Deflater::new(15, *client_keeps).expect("a window");
                let mut inflater = Inflater::new(*server_keeps);
                for round in 0..4 {
                    let text = &text[..text.len() - round];
                    client.send(&packed(&mut deflater, Opcode::Text, text.as_bytes(), 1 + 2 * round)).await?;
                    let (compressed, echoed) = client.inflated(&mut inflater).await?;
                    assert!(compressed && echoed == text.as_bytes(), "{offer}");
                }
                // What is short, or does not shrink, may come as it is.
                client.send(&packed(&mut deflater, Opcode::Binary, b"short", 1)).await?;
                assert_eq!(client.inflated(&mut inflater).await?, (false, b"short".to_vec()));
                let large: Vec<u8> = (0..900_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
                client.send(&packed(&mut deflater, Opcode::Binary, &large, 5)).await?;
                assert_eq!(client.inflated(&mut inflater).await?.1, large);
            }
            running.stop().await
        });
    }

    /// A bomb, bytes that are no deflate, and a text that is no UTF-8 inside: told, and little memory was held.
    #[test]
    fn attacks_inside_are_cut_off() {
        on_each("bombs", async || {
            let running = serve(Config::default(), echo_with(config(Compression::WITHOUT_TAKEOVER)))?;
            let fields = "Sec-WebSocket-Extensions: permessage-deflate\r\n";
            let mut honest = Client::open(running.address, "/").await?;
            let mut deflater = Deflater::new(15, false).expect("a window");
            let mut garbage = packed(&mut deflater, Opcode::Binary, &[0xFF; 100], 1);
            // The mask of the first byte: a block type that there is not.
            garbage[6] = 0x07 ^ KEY[0];
            let cases = [
                ("bomb", packed(&mut deflater, Opcode::Binary, &vec![0; 8 << 20], 3), CloseCode::TOO_LARGE),
                ("garbage", garbage, CloseCode::INVALID),
                ("text", packed(&mut deflater, Opcode::Text, &[0xFF; 100], 1), CloseCode::INVALID),
            ];
            for (what, bytes, code) in cases {
                let before = plimsoll_runtime::budget().peak();
                let (mut client, _) = Client::open_with(running.address, "/called", fields, b"").await?;
                // Cut off before all of it was taken, perhaps.
                let _gone = client.send(&bytes).await;
                assert_eq!(client.next().await?, Got::Close(Some(code)), "{what}");
                assert!(plimsoll_runtime::budget().peak() < before + (4 << 20), "{what}");
                honest.send(&text(what)).await?;
                assert_eq!(honest.next().await?, Got::Text(what.into()));
            }
            drop(honest);
            running.stop().await
        });
    }
}
