//! A small client that speaks in frames of HTTP/2.

use core::time::Duration;

use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block of literals that no table keeps.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend([0, name.len() as u8]);
        bytes.extend(name.as_bytes());
        bytes.push(value.len() as u8);
        bytes.extend(value.as_bytes());
    }
    bytes
}

pub(crate) fn request(stream: u32, method: &str, path: &str, more: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "h"), (":path", path)];
    fields.extend(more);
    frame(HEADERS, END_HEADERS | flags, stream, &block(&fields))
}

pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    request(stream, "GET", path, &[], END_STREAM)
}

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    pub(crate) bytes: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(server: core::net::SocketAddr, settings: &[u8]) -> Result<Self> {
        let mut client = Self { socket: TcpStream::connect(server).await?, bytes: Vec::new() };
        let mut hello = PREFACE.to_vec();
        hello.extend(frame(SETTINGS, 0, 0, settings));
        hello.extend(frame(SETTINGS, ACK, 0, &[]));
        client.send(&hello).await?;
        Ok(client)
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.socket.send_bytes(bytes).await
    }

    /// The next frame; `None` at the end of the connection.
    pub(crate) async fn frame(&mut self) -> Result<Option<Frame>> {
        loop {
            if let Some(&[a, b, c, kind, flags, d, e, f, g]) = self.bytes.first_chunk::<9>() {
                let len = u32::from_be_bytes([0, a, b, c]) as usize;
                if self.bytes.len() >= 9 + len {
                    let payload = self.bytes[9..9 + len].to_vec();
                    self.bytes.drain(..9 + len);
                    return Ok(Some(Frame { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload }));
                }
            }
            match timeout(Duration::from_secs(200), self.socket.recv()).await? {
                Ok(Some(lease)) => self.bytes.extend_from_slice(&lease),
                Ok(None) => return Ok(None),
                Err(_reset) => return Ok(None),
            }
        }
    }

    /// The next frame of a kind.
    pub(crate) async fn next_of(&mut self, kind: u8) -> Result<Frame> {
        while let Some(frame) = self.frame().await? {
            if frame.kind == kind {
                return Ok(frame);
            }
        }
        panic!("the connection ended before a frame of kind {kind}");
    }

    /// The body of one answer with status 200, as it came, when no other stream answers.
    pub(crate) async fn body(&mut self, stream: u32) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(frame) = self.frame().await? {
            assert_ne!((frame.kind, frame.stream), (RST_STREAM, stream), "{frame:?}");
            if frame.stream != stream || frame.kind > HEADERS {
                continue;
            }
            if frame.kind == HEADERS {
                assert_eq!(frame.payload[0], 0x88, ":status 200");
            } else {
                body.extend(frame.payload);
            }
            if frame.flags & END_STREAM != 0 {
                return Ok(body);
            }
        }
        panic!("the connection ended within an answer");
    }
}
