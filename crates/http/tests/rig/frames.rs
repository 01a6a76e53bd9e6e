//! A small client that speaks in frames of HTTP/2.

use core::time::Duration;

use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, timeout};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// Error codes (RFC 9113 7).
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const STREAM_CLOSED: u32 = 5;
pub(crate) const FRAME_SIZE_ERROR: u32 = 6;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const COMPRESSION_ERROR: u32 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

/// Settings (RFC 9113 6.5.2).
pub(crate) const MAX_CONCURRENT_STREAMS: u8 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u8 = 4;

#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The first frame of some bytes, if it is there whole: it is taken out of them.
    pub(crate) fn take_from(bytes: &mut Vec<u8>) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<9>()?;
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes.get(9..end)?.to_vec();
        bytes.drain(..end);
        Some(Self { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload })
    }

    pub(crate) fn ends_stream(&self) -> bool {
        self.kind <= HEADERS && self.flags & END_STREAM != 0
    }

    /// The code of a RST_STREAM or a GOAWAY.
    pub(crate) fn error_code(&self) -> u32 {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            kind => panic!("a frame of kind {kind} has no error code"),
        };
        u32::from_be_bytes(*self.payload[at..].first_chunk().expect("four bytes"))
    }

    /// How many bytes more a WINDOW_UPDATE allows.
    pub(crate) fn increment(&self) -> u32 {
        assert_eq!(self.kind, WINDOW_UPDATE, "{self:?}");
        u32::from_be_bytes(*self.payload.first_chunk().expect("four bytes"))
    }

    /// The value of a setting, if the frame has it.
    pub(crate) fn setting(&self, name: u8) -> Option<u32> {
        let entry = self.payload.chunks(6).find(|entry| entry[..2] == [0, name])?;
        Some(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
    }

    /// Whether it begins an answer with this status, from the static table (RFC 7541 A) or spelled out.
    pub(crate) fn has_status(&self, status: u16) -> bool {
        const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
        assert_eq!(self.kind, HEADERS, "{self:?}");
        match STATIC.iter().position(|known| *known == status) {
            Some(at) => self.payload[0] == 0x88 + at as u8,
            None => self.payload.windows(3).any(|window| window == status.to_string().as_bytes()),
        }
    }
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

/// Resets a stream, because its answer is not wanted any more.
pub(crate) fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Allows so many bytes more on a stream, or on the connection with stream 0.
pub(crate) fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// Whether the last frame of a stream is among these.
pub(crate) fn is_ended(frames: &[Frame], stream: u32) -> bool {
    frames.iter().any(|frame| frame.stream == stream && frame.ends_stream())
}

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
