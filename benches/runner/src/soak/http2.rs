//! A client of HTTP/2 with prior knowledge: many streams at once, within both sides' windows. Only the header blocks
//! are read by our codec.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use plimsoll_codec::h1::FieldSlot;
use plimsoll_codec::hpack::{Decoder, FieldBuf, TABLE_BYTES};
pub(crate) use plimsoll_conformance::frames::{
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, PREFACE,
    REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, block, frame,
};

use super::http1::{Broken, WAIT_MAX, connect};

const FIRST_WINDOW: i64 = 65_535;
const FRAME_BYTES_MAX: usize = 16_384;

/// The block of a request of this server.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    block(&[(":method", method), (":scheme", "http"), (":authority", "soak"), (":path", path)])
}

/// A stream as the client sees it.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) status: Option<u16>,
    pub(super) body: Vec<u8>,
    pub(super) has_ended: bool,
    /// The server's code.
    pub(super) reset: Option<u32>,
    window: i64,
}

impl Stream {
    /// Nothing more will come.
    pub(super) const fn is_over(&self) -> bool {
        self.has_ended || self.reset.is_some()
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    socket: TcpStream,
    received: Vec<u8>,
    /// Those that are looked at; what comes for others is counted into the connection's window and dropped.
    pub(super) streams: BTreeMap<u32, Stream>,
    /// The last stream that the server takes, and its code.
    pub(super) goaway: Option<(u32, u32)>,
    /// The server's SETTINGS have come, and say so of extended CONNECT and of streams at a time.
    pub(super) offers_connect: bool,
    pub(super) streams_max: usize,
    has_settings: bool,
    first_window: i64,
    window: i64,
    next: u32,
    decoder: Decoder,
    table: Vec<u8>,
}

impl Session {
    /// Connects, offers windows of so many bytes, and waits for the server's SETTINGS.
    pub(super) fn open(to: SocketAddr, window: u32) -> std::io::Result<Session> {
        let mut socket = connect(to)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(WAIT_MAX))?;
        socket.set_write_timeout(Some(WAIT_MAX))?;
        // A server that has no room may have closed it by now; reading says so.
        let _taken = socket.write_all(
            &[PREFACE, &frame(SETTINGS, 0, 0, &[&[0, 2, 0, 0, 0, 0, 0, 4][..], &window.to_be_bytes()].concat())]
                .concat(),
        );
        Ok(Session {
            socket,
            received: Vec::new(),
            streams: BTreeMap::new(),
            goaway: None,
            offers_connect: false,
            streams_max: usize::MAX,
            has_settings: false,
            first_window: FIRST_WINDOW,
            window: FIRST_WINDOW,
            next: 1,
            decoder: Decoder::new(TABLE_BYTES as u16),
            table: vec![0; TABLE_BYTES],
        })
    }

    /// Until the server has said what it offers.
    pub(super) fn settle(&mut self) -> Result<(), Broken> {
        while !self.has_settings {
            self.turn()?;
        }
        Ok(())
    }

    /// Begins a stream with this header block.
    pub(super) fn begin(&mut self, block: &[u8], ends: bool) -> u32 {
        let id = self.next;
        self.next += 2;
        self.streams.insert(id, Stream { window: self.first_window, ..Stream::default() });
        self.put(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, id, block);
        id
    }

    /// Sends of this what the windows allow; how many bytes. The last byte ends the stream, if `ends`.
    pub(super) fn send(&mut self, id: u32, bytes: &[u8], ends: bool) -> usize {
        let Some(stream) = self.streams.get_mut(&id) else { return 0 };
        let room = stream.window.min(self.window).max(0) as usize;
        let count = bytes.len().min(room).min(FRAME_BYTES_MAX);
        if count == 0 && !(bytes.is_empty() && ends) {
            return 0;
        }
        stream.window -= count as i64;
        self.window -= count as i64;
        self.put(DATA, if ends && count == bytes.len() { END_STREAM } else { 0 }, id, &bytes[..count]);
        count
    }

    /// Gives a stream up.
    pub(super) fn reset(&mut self, id: u32) {
        self.streams.remove(&id);
        self.put(RST_STREAM, 0, id, &CANCEL.to_be_bytes());
    }

    /// Takes the next frame.
    pub(super) fn turn(&mut self) -> Result<(), Broken> {
        let head = loop {
            if let Some(head) = self.received.first_chunk::<9>().copied() {
                let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
                if self.received.len() >= 9 + len {
                    break head;
                }
            }
            self.read()?;
        };
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload: Vec<u8> = self.received.drain(..9 + len).skip(9).collect();
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        self.frame(head[3], head[4], id, &payload)
    }

    fn frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> Result<(), Broken> {
        let word = |at: usize| {
            payload.get(at..at + 4).map_or(0, |four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
        };
        match kind {
            SETTINGS if flags & ACK == 0 => {
                self.settings(payload);
                self.put(SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => self.put(PING, ACK, 0, payload),
            GOAWAY => self.goaway = Some((word(0), word(4))),
            WINDOW_UPDATE if id == 0 => self.window += i64::from(word(0)),
            WINDOW_UPDATE => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.window += i64::from(word(0));
                }
            }
            RST_STREAM => {
                if let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.has_ended) {
                    stream.reset = Some(word(0));
                }
            }
            HEADERS => self.head(flags, id, payload)?,
            DATA => self.data(flags, id, payload)?,
            _ => {}
        }
        Ok(())
    }

    fn settings(&mut self, payload: &[u8]) {
        self.has_settings = true;
        for entry in payload.chunks_exact(6) {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                3 => self.streams_max = value as usize,
                4 => {
                    let change = i64::from(value) - self.first_window;
                    self.first_window = i64::from(value);
                    self.streams.values_mut().for_each(|stream| stream.window += change);
                }
                8 => self.offers_connect = value == 1,
                _ => {}
            }
        }
    }

    fn head(&mut self, flags: u8, id: u32, payload: &[u8]) -> Result<(), Broken> {
        let (mut bytes, mut slots) = ([0; 4_096], [FieldSlot::EMPTY; 32]);
        let mut fields = FieldBuf::new(&mut bytes, &mut slots, 4_096);
        let decoded = self.decoder.decode(&mut self.table, payload, &mut fields);
        decoded.map_err(|error| Broken::Wrong(format!("a header block that is none: {error}")))?;
        let status = fields.fields().find(|(name, _)| *name == b":status").map(|(_, value)| value);
        let status = status.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if flags & END_HEADERS == 0 || stream.status.is_some() || status.is_none() {
            return Err(Broken::Wrong(format!("a head of stream {id} that is none: flags {flags}, {status:?}")));
        }
        stream.status = status;
        stream.has_ended = flags & END_STREAM != 0;
        Ok(())
    }

    fn data(&mut self, flags: u8, id: u32, payload: &[u8]) -> Result<(), Broken> {
        let used = (payload.len() as u32).to_be_bytes();
        if !payload.is_empty() {
            self.put(WINDOW_UPDATE, 0, 0, &used);
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        if stream.status.is_none() || stream.is_over() {
            return Err(Broken::Wrong(format!("bytes of stream {id} before its head or behind its end")));
        }
        stream.body.extend_from_slice(payload);
        stream.has_ended = flags & END_STREAM != 0;
        if !stream.has_ended && !payload.is_empty() {
            self.put(WINDOW_UPDATE, 0, id, &used);
        }
        Ok(())
    }

    /// A server that does not take it has closed: reading says so.
    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let _taken = self.socket.write_all(&frame(kind, flags, stream, payload));
    }

    fn read(&mut self) -> Result<(), Broken> {
        let mut room = [0; 16 * 1024];
        loop {
            return match self.socket.read(&mut room) {
                Ok(0) => Err(Broken::Closed),
                Ok(len) => {
                    self.received.extend_from_slice(&room[..len]);
                    Ok(())
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    Err(Broken::Wrong(format!("nothing came for {} s", WAIT_MAX.as_secs())))
                }
                Err(_) => Err(Broken::Closed),
            };
        }
    }
}
