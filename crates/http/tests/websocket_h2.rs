//! WebSockets on streams of HTTP/2 (RFC 8441), with a client of our own, on every driver.

#![forbid(unsafe_code)]

mod rig;

use plimsoll_http::codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_http::{Config, Error, Message, OriginCheck, Request, Response, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::Result;

use rig::frames::{Client, DATA, END_HEADERS, END_STREAM, HEADERS, WINDOW_UPDATE, block, frame};
use rig::{in_simulation, on_each, serve};

const KEY: [u8; 4] = [4, 3, 2, 1];

/// Echoes in a task; for a path that begins with `/called`, in a handler without one.
async fn echo(request: Request) -> core::result::Result<Response, Error> {
    let config = WebSocketConfig { origin: OriginCheck::SameHost, ..WebSocketConfig::default() };
    if request.path().starts_with("/called") {
        return request
            .serve_websocket(&config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message));
    }
    request.upgrade_websocket(&config, |mut socket| async move {
        while let Ok(Some(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

fn connect(stream: u32, path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut fields = vec![
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "h"),
        (":path", path),
    ];
    fields.extend(more);
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

const VERSION: (&str, &str) = ("sec-websocket-version", "13");

fn message(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead::message(opcode, payload.len() as u64).masked(KEY);
    let mut payload = payload.to_vec();
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}

/// The client's end of one stream.
struct End {
    client: Client,
    stream: u32,
    decoder: Decoder,
    input: Vec<u8>,
    ended: bool,
    /// Bytes that the server allows: on the stream and on the connection.
    windows: [usize; 2],
}

#[derive(Debug, PartialEq, Eq)]
enum Got {
    Message(Vec<u8>),
    Ping,
    Pong(Vec<u8>),
    Close(Option<CloseCode>),
    End,
}

impl End {
    async fn open(address: core::net::SocketAddr, path: &str) -> Result<Self> {
        let mut client = Client::connect(address, &[]).await?;
        client.send(&connect(1, path, &[VERSION])).await?;
        let head = client.next_of(HEADERS).await?;
        assert_eq!((head.stream, head.payload[0], head.flags & END_STREAM), (1, 0x88, 0), "{head:?}");
        let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
        let decoder = Decoder::new(Role::Client, limits);
        Ok(Self { client, stream: 1, decoder, input: Vec::new(), ended: false, windows: [16_384, 65_535] })
    }

    /// In frames of HTTP/2 of so many bytes.
    async fn send(&mut self, bytes: &[u8], piece: usize) -> Result<()> {
        for part in bytes.chunks(piece) {
            while self.windows.into_iter().any(|window| window < part.len()) {
                self.read().await?;
            }
            self.windows = self.windows.map(|window| window - part.len());
            self.client.send(&frame(DATA, 0, self.stream, part)).await?;
        }
        Ok(())
    }

    /// Takes one frame of HTTP/2.
    async fn read(&mut self) -> Result<()> {
        let frame = self.client.frame().await?.expect("the connection stays open");
        match frame.kind {
            DATA => {
                assert_eq!(frame.stream, self.stream);
                self.input.extend_from_slice(&frame.payload);
                self.ended = frame.flags & END_STREAM != 0;
                if !frame.payload.is_empty() {
                    let by = (frame.payload.len() as u32).to_be_bytes();
                    self.client.send(&rig::frames::frame(WINDOW_UPDATE, 0, 0, &by)).await?;
                    if !self.ended {
                        self.client.send(&rig::frames::frame(WINDOW_UPDATE, 0, self.stream, &by)).await?;
                    }
                }
            }
            WINDOW_UPDATE => {
                let by = u32::from_be_bytes(*frame.payload.first_chunk().expect("four bytes"));
                self.windows[usize::from(frame.stream == 0)] += by as usize;
            }
            _ => {}
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Got> {
        let mut content = Vec::new();
        loop {
            let decoded = self.decoder.decode(&mut self.input, 0).expect("a server keeps to the protocol");
            let taken: Vec<u8> = self.input.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore if self.ended => return Ok(Got::End),
                Event::NeedMore => self.read().await?,
                Event::Begin { .. } => content.clear(),
                Event::Data(range) => content.extend_from_slice(&taken[range]),
                Event::End => return Ok(Got::Message(content)),
                Event::Ping(_) => return Ok(Got::Ping),
                Event::Pong(range) => return Ok(Got::Pong(taken[range].to_vec())),
                Event::Close { code, .. } => return Ok(Got::Close(code)),
            }
        }
    }
}

#[test]
fn messages_come_back_on_a_stream() {
    on_each("echo on a stream", async || {
        let running = serve(Config::default(), echo)?;
        for path in ["/", "/called"] {
            let mut end = End::open(running.address, path).await?;
            for bytes in [0, 1, 125, 126, 4_000, 20_000, 66_000, 300_000] {
                let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
                let frames = message(Opcode::Binary, &content);
                end.send(&frames, 5_000).await?;
                assert_eq!(end.next().await?, Got::Message(content), "{path}: {bytes} bytes");
            }
            // A byte at a time, with a ping, beside another request on the same connection.
            let frames = [message(Opcode::Ping, b"there?"), message(Opcode::Text, "hé".as_bytes())].concat();
            end.send(&frames, 1).await?;
            assert_eq!(end.next().await?, Got::Pong(b"there?".to_vec()));
            assert_eq!(end.next().await?, Got::Message("hé".as_bytes().to_vec()));
            end.send(&message(Opcode::Close, &4_000_u16.to_be_bytes()), 100).await?;
            assert_eq!(end.next().await?, Got::Close(Some(CloseCode(4_000))));
            assert_eq!(end.next().await?, Got::End);
            end.client.send(&frame(DATA, END_STREAM, 1, b"")).await?;
        }
        assert_eq!(running.counters.totals().websockets_total, 2);
        running.stop().await
    });
}

#[test]
fn what_breaks_the_protocol_is_told_its_code_and_the_rest_is_refused() {
    on_each("refusals on a stream", async || {
        let running = serve(Config::default(), echo)?;
        for path in ["/", "/called"] {
            for (bytes, code) in [
                (vec![0x82, 1, b'x'], CloseCode::PROTOCOL),
                (message(Opcode::Text, b"\xED\xA0\x80"), CloseCode::INVALID),
                (
                    FrameHead::message(Opcode::Binary, 1 << 40).masked(KEY).encode().as_bytes().to_vec(),
                    CloseCode::TOO_LARGE,
                ),
            ] {
                let mut end = End::open(running.address, path).await?;
                end.send(&bytes, 100).await?;
                assert_eq!(end.next().await?, Got::Close(Some(code)), "{path}");
                assert_eq!(end.next().await?, Got::End, "{path}");
            }
        }
        let mut client = Client::connect(running.address, &[]).await?;
        let evil = ("origin", "http://evil.example");
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [u8]);
        let cases: [Case<'_>; 3] =
            [(&[], b"400"), (&[("sec-websocket-version", "8")], b"400"), (&[VERSION, evil], b"403")];
        for (at, (fields, status)) in cases.into_iter().enumerate() {
            client.send(&connect(2 * at as u32 + 1, "/", fields)).await?;
            let head = client.next_of(HEADERS).await?;
            // 400 is in the static table; what is not is spelled out.
            let is_400 = head.payload[0] == 0x8C;
            let spelled = head.payload.windows(3).any(|window| window == status);
            assert!(spelled || (status == b"400" && is_400), "{head:?}");
        }
        drop(client);
        running.stop().await
    });
}

/// A silent peer is asked, and let go of; a server that stops says so.
#[test]
fn keep_alive_and_stop() {
    in_simulation("keep-alive on a stream", async || {
        let running = serve(Config::default(), echo)?;
        for path in ["/", "/called"] {
            let mut silent = End::open(running.address, path).await?;
            assert_eq!(silent.next().await?, Got::Ping);
            silent.send(&message(Opcode::Pong, b""), 100).await?;
            assert_eq!(silent.next().await?, Got::Ping);
            assert_eq!(silent.next().await?, Got::Close(Some(CloseCode::POLICY)));
            assert_eq!(silent.next().await?, Got::End);
        }
        let mut end = End::open(running.address, "/").await?;
        let told = plimsoll_runtime::spawn(async move {
            let told = end.next().await?;
            end.send(&message(Opcode::Close, &1_001_u16.to_be_bytes()), 100).await?;
            Ok::<_, plimsoll_runtime::Error>((told, end.next().await?))
        })?;
        running.stop().await?;
        let told = told.await.expect("no panic")?;
        assert_eq!(told, (Got::Close(Some(CloseCode::GOING_AWAY)), Got::End));
        Ok(())
    });
}
