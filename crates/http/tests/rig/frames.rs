//! A small client that speaks in frames of HTTP/2.

use core::time::Duration;

use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

pub(crate) use plimsoll_conformance::frames::*;

/// A client's end of a connection.
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
            if let Some(frame) = Frame::take_from(&mut self.bytes) {
                return Ok(Some(frame));
            }
            match timeout(Duration::from_secs(200), self.socket.recv()).await? {
                Ok(Some(lease)) => self.bytes.extend_from_slice(&lease),
                Ok(None) => return Ok(None),
                Err(_reset) => return Ok(None),
            }
        }
    }

    /// What comes until nothing has come for so long, or the connection has ended.
    pub(crate) async fn frames(&mut self, within: Duration) -> Result<Vec<Frame>> {
        let mut all = Vec::new();
        while let Ok(frame) = timeout(within, self.frame()).await {
            match frame? {
                Some(frame) => all.push(frame),
                None => break,
            }
        }
        Ok(all)
    }

    /// What comes until it is enough, and what is there then.
    pub(crate) async fn frames_until(&mut self, is_enough: impl Fn(&[Frame]) -> bool) -> Result<Vec<Frame>> {
        let mut all = Vec::new();
        while !is_enough(&all) {
            all.push(self.frame().await?.unwrap_or_else(|| panic!("the connection ended: {all:?}")));
        }
        all.extend(self.frames(Duration::from_millis(100)).await?);
        Ok(all)
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

    /// Asks on a stream; the body of the answer.
    pub(crate) async fn fetch(&mut self, stream: u32, path: &str) -> Result<Vec<u8>> {
        self.send(&get(stream, path)).await?;
        self.body(stream).await
    }

    /// The body of one answer with status 200, as it came, when no other stream answers.
    pub(crate) async fn body(&mut self, stream: u32) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(frame) = self.frame().await? {
            assert_ne!((frame.kind, frame.stream), (RST_STREAM, stream), "{frame:?}");
            if frame.stream != stream || frame.kind > HEADERS {
                continue;
            }
            let is_last = frame.ends_stream();
            if frame.kind == HEADERS {
                assert!(frame.has_status(200), "{frame:?}");
            } else {
                body.extend(frame.payload);
            }
            if is_last {
                return Ok(body);
            }
        }
        panic!("the connection ended within an answer");
    }
}
