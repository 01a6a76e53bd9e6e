//! Clients of a hub: WebSockets, and streams of events as text.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

const KEY: [u8; 4] = [9, 8, 7, 6];

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    decoder: Decoder,
    input: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Got {
    Text(String),
    Binary(Vec<u8>),
    Ping,
    Pong(Vec<u8>),
    Close(Option<CloseCode>),
    /// The end of the stream, or a reset.
    End,
}

pub(crate) fn frame(is_final: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { is_final, ..FrameHead::message(opcode, payload.len() as u64) }.masked(KEY);
    let mut payload = payload.to_vec();
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}

/// Reads a head; what came behind it.
async fn head(stream: &mut TcpStream, status: &str) -> Result<Vec<u8>> {
    let mut input = Vec::new();
    let end = loop {
        if let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        input.extend_from_slice(&stream.recv().await?.expect("an answer"));
    };
    let head = String::from_utf8_lossy(&input[..end]).into_owned();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    Ok(input.split_off(end))
}

impl Client {
    /// With `early` behind the handshake in the same bytes.
    pub(crate) async fn open(address: SocketAddr, early: &[u8]) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        let handshake = "GET /ws HTTP/1.1\r\nHost: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
        stream.send_bytes(&[handshake.as_bytes(), early].concat()).await?;
        let input = head(&mut stream, "101").await?;
        let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
        Ok(Self { stream, decoder: Decoder::new(Role::Client, limits), input })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.send_bytes(bytes).await
    }

    pub(crate) async fn next(&mut self) -> Result<Got> {
        let mut message = None;
        loop {
            let decoded = self.decoder.decode(&mut self.input, 0).expect("a server keeps to the protocol");
            let taken: Vec<u8> = self.input.drain(..decoded.consumed).collect();
            match decoded.event {
                Event::NeedMore => match timeout(Duration::from_secs(300), self.stream.recv()).await? {
                    Ok(Some(lease)) => self.input.extend_from_slice(&lease),
                    Ok(None) | Err(_) => return Ok(Got::End),
                },
                Event::Begin { is_text, .. } => message = Some((is_text, Vec::new())),
                Event::Data(range) => message.as_mut().expect("begun").1.extend_from_slice(&taken[range]),
                Event::End => {
                    return Ok(match message.take().expect("begun") {
                        (true, text) => Got::Text(String::from_utf8(text).expect("UTF-8")),
                        (false, bytes) => Got::Binary(bytes),
                    });
                }
                Event::Ping(_) => return Ok(Got::Ping),
                Event::Pong(range) => return Ok(Got::Pong(taken[range].to_vec())),
                Event::Close { code, .. } => return Ok(Got::Close(code)),
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

    /// All texts to the end, without what they are padded with.
    pub(crate) async fn numbers(&mut self) -> Result<(Vec<u64>, Got)> {
        let mut numbers = Vec::new();
        loop {
            match self.next().await? {
                Got::Text(text) => numbers.push(text.trim_end_matches('.').parse().expect("a number")),
                Got::Ping => {}
                end => return Ok((numbers, end)),
            }
        }
    }
}

/// A stream of events.
pub(crate) struct Listener {
    stream: TcpStream,
    input: Vec<u8>,
    body: String,
    pub(crate) ended: bool,
}

impl Listener {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.send_static(b"GET /events HTTP/1.1\r\nHost: here\r\n\r\n").await?;
        let input = head(&mut stream, "200").await?;
        Ok(Self { stream, input, body: String::new(), ended: false })
    }

    /// The next event, comments left out; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<String>> {
        loop {
            while let Some(at) = self.body.find("\n\n") {
                let event: String = self.body.drain(..at + 2).collect();
                if !event.starts_with(':') {
                    return Ok(Some(event));
                }
            }
            if self.ended {
                return Ok(None);
            }
            let Some(line) = self.input.windows(2).position(|window| window == b"\r\n") else {
                match timeout(Duration::from_secs(300), self.stream.recv()).await? {
                    Ok(Some(lease)) => self.input.extend_from_slice(&lease),
                    Ok(None) | Err(_) => return Ok(None),
                }
                continue;
            };
            let size = std::str::from_utf8(&self.input[..line]).expect("a size");
            let size = usize::from_str_radix(size, 16).expect("a size");
            let end = line + 2 + size + 2;
            if self.input.len() < end {
                match self.stream.recv().await {
                    Ok(Some(lease)) => self.input.extend_from_slice(&lease),
                    Ok(None) | Err(_) => return Ok(None),
                }
                continue;
            }
            self.body.push_str(std::str::from_utf8(&self.input[line + 2..end - 2]).expect("UTF-8"));
            self.input.drain(..end);
            self.ended = size == 0;
        }
    }
}
