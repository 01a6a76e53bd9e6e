//! Frames of HTTP/2 as clients send and read them, without a codec of ours: right ones and wrong ones.

#![allow(missing_docs, reason = "numbers have the names of RFC 9113")]

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PUSH_PROMISE: u8 = 5;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// Error codes (RFC 9113 7).
pub const NO_ERROR: u32 = 0;
pub const PROTOCOL_ERROR: u32 = 1;
pub const FLOW_CONTROL_ERROR: u32 = 3;
pub const STREAM_CLOSED: u32 = 5;
pub const FRAME_SIZE_ERROR: u32 = 6;
pub const REFUSED_STREAM: u32 = 7;
pub const CANCEL: u32 = 8;
pub const COMPRESSION_ERROR: u32 = 9;
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// Settings (RFC 9113 6.5.2).
pub const MAX_CONCURRENT_STREAMS: u8 = 3;
pub const INITIAL_WINDOW_SIZE: u8 = 4;

/// A frame.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// The first frame of some bytes, if it is there whole: it is taken out of them.
    #[must_use]
    pub fn take_from(bytes: &mut Vec<u8>) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<9>()?;
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes.get(9..end)?.to_vec();
        bytes.drain(..end);
        Some(Self { kind, flags, stream: u32::from_be_bytes([d, e, f, g]), payload })
    }

    /// Whether it is the last of its stream.
    #[must_use]
    pub fn ends_stream(&self) -> bool {
        self.kind <= HEADERS && self.flags & END_STREAM != 0
    }

    /// The code of a RST_STREAM or a GOAWAY.
    ///
    /// # Panics
    ///
    /// For another frame.
    #[must_use]
    pub fn error_code(&self) -> u32 {
        let at = match self.kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            kind => panic!("a frame of kind {kind} has no error code"),
        };
        u32::from_be_bytes(*self.payload[at..].first_chunk().expect("four bytes"))
    }

    /// How many bytes more a WINDOW_UPDATE allows.
    ///
    /// # Panics
    ///
    /// For another frame.
    #[must_use]
    pub fn increment(&self) -> u32 {
        assert_eq!(self.kind, WINDOW_UPDATE, "{self:?}");
        u32::from_be_bytes(*self.payload.first_chunk().expect("four bytes"))
    }

    /// The value of a setting, if the frame has it.
    #[must_use]
    pub fn setting(&self, name: u8) -> Option<u32> {
        let entry = self.payload.chunks(6).find(|entry| entry[..2] == [0, name])?;
        Some(u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]))
    }

    /// Whether it begins an answer with this status, from the static table (RFC 7541 A) or spelled out.
    ///
    /// # Panics
    ///
    /// For a frame that is no HEADERS.
    #[must_use]
    pub fn has_status(&self, status: u16) -> bool {
        const STATIC: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
        assert_eq!(self.kind, HEADERS, "{self:?}");
        match STATIC.iter().position(|known| *known == status) {
            Some(at) => self.payload[0] == 0x88 + at as u8,
            None => self.payload.windows(3).any(|window| window == status.to_string().as_bytes()),
        }
    }
}

/// A frame as it is sent.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header block of literals that no table keeps; names and values below 127 bytes.
#[must_use]
pub fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.extend([0, name.len() as u8]);
        bytes.extend(name.as_bytes());
        bytes.push(value.len() as u8);
        bytes.extend(value.as_bytes());
    }
    bytes
}

/// The head of a request, with more fields and flags.
#[must_use]
pub fn request(stream: u32, method: &str, path: &str, more: &[(&str, &str)], flags: u8) -> Vec<u8> {
    let mut fields = vec![(":method", method), (":scheme", "http"), (":authority", "h"), (":path", path)];
    fields.extend(more);
    frame(HEADERS, END_HEADERS | flags, stream, &block(&fields))
}

/// A request without a body.
#[must_use]
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    request(stream, "GET", path, &[], END_STREAM)
}

/// Resets a stream, because its answer is not wanted any more.
#[must_use]
pub fn cancel(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Allows so many bytes more on a stream, or on the connection with stream 0.
#[must_use]
pub fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// Whether the last frame of a stream is among these.
#[must_use]
pub fn is_ended(frames: &[Frame], stream: u32) -> bool {
    frames.iter().any(|frame| frame.stream == stream && frame.ends_stream())
}
