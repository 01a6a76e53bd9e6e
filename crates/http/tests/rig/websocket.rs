//! WebSockets: a client's end, with frames of its own out and messages of the server in; and a server's end that
//! echoes.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_http::{Error, Message, Request, Response, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

/// The handshake, but for the empty line: there may be more fields.
pub(crate) const HANDSHAKE: &str = "GET / HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
pub(crate) const KEY: [u8; 4] = [9, 8, 7, 6];

/// The server's end: echoes in a task; for a path that begins with `/called`, in a handler without one.
pub(crate) fn echo(request: &Request, config: &WebSocketConfig) -> Result<Response, Error> {
    if request.path().starts_with("/called") {
        return request.serve_websocket(config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message));
    }
    request.upgrade_websocket(config, |mut socket| async move {
        while let Ok(Some(message)) = socket.recv().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    })
}

/// A frame as a client sends it: masked.
pub(crate) fn frame(is_final: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { is_final, ..FrameHead::message(opcode, payload.len() as u64) }.masked(KEY);
    let mut payload = payload.to_vec();
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}

/// A text in one frame.
pub(crate) fn text(payload: &str) -> Vec<u8> {
    frame(true, Opcode::Text, payload.as_bytes())
}

/// A close frame with a code.
pub(crate) fn close(code: u16) -> Vec<u8> {
    frame(true, Opcode::Close, &code.to_be_bytes())
}

/// A decoder that takes whatever a server sends.
pub(crate) fn decoder() -> Decoder {
    Decoder::new(Role::Client, Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX })
}

/// What a client gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<CloseCode>),
    /// The end of the stream.
    End,
    /// Its end without a good-bye: perhaps we had sent what was not read any more.
    Reset,
}

impl Got {
    /// Whether the stream is over, in one way or the other.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::End | Self::Reset)
    }
}

/// Makes messages of bytes.
pub(crate) struct Inbox {
    pub(crate) decoder: Decoder,
    pub(crate) input: Vec<u8>,
    message: Option<(bool, Vec<u8>)>,
    /// What the last close frame said.
    pub(crate) reason: Vec<u8>,
}

impl Inbox {
    pub(crate) fn new(decoder: Decoder, input: Vec<u8>) -> Self {
        Self { decoder, input, message: None, reason: Vec::new() }
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next event, and the bytes that it took. Ranges are within them.
    pub(crate) fn event(&mut self) -> (Event, Vec<u8>) {
        let decoded = self.decoder.decode(&mut self.input, 0).expect("a server keeps to the protocol");
        (decoded.event, self.input.drain(..decoded.consumed).collect())
    }

    /// What is there whole; `None` when more has to come.
    pub(crate) fn next(&mut self) -> Option<Got> {
        loop {
            let (event, taken) = self.event();
            match event {
                Event::NeedMore => return None,
                Event::Begin { is_text, .. } => self.message = Some((is_text, Vec::new())),
                Event::Data(range) => self.message.as_mut().expect("begun").1.extend_from_slice(&taken[range]),
                Event::End => {
                    return Some(match self.message.take().expect("begun") {
                        (true, text) => Got::Text(String::from_utf8(text).expect("UTF-8")),
                        (false, bytes) => Got::Binary(bytes),
                    });
                }
                Event::Ping(range) => return Some(Got::Ping(taken[range].to_vec())),
                Event::Pong(range) => return Some(Got::Pong(taken[range].to_vec())),
                Event::Close { code, reason } => {
                    self.reason = taken[reason].to_vec();
                    return Some(Got::Close(code));
                }
            }
        }
    }
}

/// Reads a head that has this status: it, and what came behind it.
pub(crate) async fn read_head(stream: &mut TcpStream, status: &str) -> Result<(String, Vec<u8>)> {
    let mut input = Vec::new();
    let end = loop {
        if let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        input.extend_from_slice(&stream.recv().await?.expect("an answer"));
    };
    let head = String::from_utf8(input.drain(..end).collect()).expect("a head is ASCII");
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    Ok((head, input))
}

/// A client on a connection of its own.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) inbox: Inbox,
}

impl Client {
    pub(crate) async fn open(address: SocketAddr, path: &str) -> Result<Self> {
        Self::open_with(address, path, "", b"").await.map(|(client, _)| client)
    }

    /// With `early` behind the head in the same bytes.
    pub(crate) async fn open_and_say(address: SocketAddr, path: &str, early: &[u8]) -> Result<Self> {
        Self::open_with(address, path, "", early).await.map(|(client, _)| client)
    }

    /// With more fields; and the head of the answer in small letters.
    pub(crate) async fn open_with(
        address: SocketAddr,
        path: &str,
        fields: &str,
        early: &[u8],
    ) -> Result<(Self, String)> {
        let mut stream = TcpStream::connect(address).await?;
        let head = HANDSHAKE.replacen("GET /", &format!("GET {path}"), 1);
        stream.send_bytes(&[head.as_bytes(), fields.as_bytes(), b"\r\n", early].concat()).await?;
        let (head, input) = read_head(&mut stream, "101").await?;
        let head = head.to_ascii_lowercase();
        for line in ["upgrade: websocket", "connection: upgrade", "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo="]
        {
            assert_eq!(head.lines().filter(|found| *found == line).count(), 1, "{head}");
        }
        let decoder = if head.contains("permessage-deflate") { decoder().compressed() } else { decoder() };
        Ok((Self { stream, inbox: Inbox::new(decoder, input) }, head))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.send_bytes(bytes).await
    }

    pub(crate) async fn next(&mut self) -> Result<Got> {
        loop {
            if let Some(got) = self.inbox.next() {
                return Ok(got);
            }
            match timeout(Duration::from_secs(300), self.stream.recv()).await? {
                Ok(Some(lease)) => self.inbox.receive(&lease),
                Ok(None) => return Ok(Got::End),
                Err(_) => return Ok(Got::Reset),
            }
        }
    }

    /// The next message, which is a text.
    pub(crate) async fn text(&mut self) -> Result<String> {
        match self.next().await? {
            Got::Text(text) => Ok(text),
            other => panic!("a text, not {other:?}"),
        }
    }
}
