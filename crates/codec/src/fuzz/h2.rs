//! HTTP/2: any bytes as frames, and any bytes as a list of what both sides do.
//!
//! * However the input is split, the events and the output are the same.
//! * No byte of a window is lost, whatever is padded, dropped, reset or forgotten; what the peer may send is what it
//!   was told.
//! * The output is whole frames, none of them larger than the peer takes.

use std::collections::BTreeMap;

use http::{Method, StatusCode, Version};

use crate::Error;
use crate::h1::{BodyLength, FieldSlot, Fields, ResponseHead};
use crate::h2::{
    Connection, ErrorCode, Event, FRAME_HEADER_BYTES, FrameHeader, Limits, Repeat, Storage, Stream, StreamKey,
    StreamState,
};
use crate::hpack::TABLE_BYTES;

/// Any bytes as frames, behind the preface and SETTINGS.
pub fn h2_frames(data: &[u8]) {
    let input = [PREFACE_AND_SETTINGS, data].concat();
    let whole = serve_h2(&input, &[]);
    let single: Vec<usize> = (0..input.len()).collect();
    assert_eq!(whole, serve_h2(&input, &single), "one byte at a time");
    let cut = data.iter().fold(7, |sum: usize, &byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % input.len();
    assert_eq!(whole, serve_h2(&input, &[cut]), "in two parts, cut at {cut}");
    let mut rest = &whole.output[..];
    while let Some(header) = FrameHeader::parse(rest) {
        assert!(header.len <= 16_384);
        rest = rest.get(FRAME_HEADER_BYTES + header.len..).expect("whole frames");
    }
    assert!(rest.is_empty());
}

/// The preface, and SETTINGS without a setting.
pub(crate) const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { len: payload.len(), kind, flags, stream };
    [&header.encode(), payload].concat()
}

/// What a server saw and wrote.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Served {
    /// The events but those that say nothing, as text; data of one stream in a row is one event.
    pub(crate) events: Vec<String>,
    pub(crate) output: Vec<u8>,
    pub(crate) end: Result<(), Error>,
}

struct Memory {
    streams: Vec<Stream>,
    decoder_table: Vec<u8>,
    encoder_table: Vec<u8>,
    bytes: Vec<u8>,
    slots: Vec<FieldSlot>,
    repeat: Repeat,
}

impl Memory {
    fn new(limits: &Limits, streams: usize) -> Memory {
        Memory {
            streams: vec![Stream::FREE; streams],
            decoder_table: vec![0; TABLE_BYTES],
            encoder_table: vec![0; TABLE_BYTES],
            bytes: vec![0; limits.scratch_bytes()],
            slots: vec![FieldSlot::EMPTY; 100],
            repeat: Repeat::default(),
        }
    }

    fn storage(&mut self) -> Storage<'_> {
        Storage {
            streams: &mut self.streams,
            decoder_table: &mut self.decoder_table,
            encoder_table: &mut self.encoder_table,
            bytes: &mut self.bytes,
            slots: &mut self.slots,
            repeat: &mut self.repeat,
        }
    }
}

/// Serves an input that comes in parts, with a small response to each request; memory of a fixed size, no time passes.
pub(crate) fn serve_h2(input: &[u8], cuts: &[usize]) -> Served {
    let limits = Limits::DEFAULT;
    let mut memory = Memory::new(&limits, 16);
    let mut connection = Connection::new(&limits);
    let mut served = Served { events: Vec::new(), output: Vec::new(), end: Ok(()) };
    let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(input.len())).chain([input.len()]).collect();
    cuts.sort_unstable();
    let mut used = 0;
    for cut in cuts {
        loop {
            let mut storage = memory.storage();
            let step = match connection.step(&input[used..cut], &mut storage, &mut served.output, 0) {
                Ok(step) => step,
                Err(error) => {
                    assert_eq!(connection.step(&[], &mut storage, &mut Vec::new(), 0), Err(error), "for good");
                    served.end = Err(error);
                    return served;
                }
            };
            used += step.consumed;
            if let Event::NeedMore { bytes } = step.event {
                assert!(bytes > cut - used, "it asks for more than there is");
                break;
            }
            used += react(&mut connection, step.event, &mut storage, &mut served);
            connection.audit(&memory.streams, |_| 0);
        }
    }
    served
}

/// Answers an event at once. Returns how many bytes of data were taken.
fn react(connection: &mut Connection, event: Event, storage: &mut Storage<'_>, served: &mut Served) -> usize {
    let mut say = |text: String| {
        let is_same = text.starts_with("data") && served.events.last() == Some(&text);
        if !is_same {
            served.events.push(text);
        }
    };
    let out = &mut served.output;
    let mut over = None;
    match event {
        Event::Request { stream, ends } => {
            let view = storage.view();
            let fields: Vec<_> = view.fields().collect();
            say(format!("request {} {} {} {fields:?} {ends}", stream.id, view.method(), view.target()));
            over = ends.then_some(stream);
        }
        Event::Data { stream, bytes, frame_bytes } => {
            assert!(bytes > 0 && bytes <= frame_bytes);
            say(format!("data {}", stream.id));
            connection.take_data(bytes);
            if bytes == frame_bytes {
                // At a place that no split can move.
                connection.release(stream, usize::MAX >> 32, storage, out).expect("room");
            }
            return bytes;
        }
        Event::End { stream } => {
            say(format!("end {}", stream.id));
            over = Some(stream);
        }
        Event::Trailers { stream, fields } => {
            say(format!("trailers {} {:?}", stream.id, storage.trailers(fields).collect::<Vec<_>>()));
            over = Some(stream);
        }
        Event::Reset { stream, cause } => {
            say(format!("reset {} {cause:?}", stream.id));
            connection.forget(stream, storage, out).expect("room");
        }
        Event::NeedOutput => {
            say("need output".into());
            connection.output_sent();
        }
        Event::NeedStreams => {
            say("need streams".into());
            connection.refuse_next();
        }
        Event::PeerGoesAway { code } => say(format!("peer goes away {code}")),
        Event::Progress | Event::Writable | Event::NeedMore { .. } => {}
    }
    if let Some(stream) = over {
        let head =
            ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, BodyLength::Known(2)).expect("valid");
        connection.put_response(stream, &head, false, storage, out).expect("it is open");
        if connection.data_room(stream, 2, storage) == 2 {
            connection.put_data_header(stream, 2, true, storage, out).expect("room in the window");
            out.extend_from_slice(b"ok");
        }
        connection.forget(stream, storage, out).expect("room");
    }
    0
}

/// Any bytes as operations of a client and a server, four bytes each, on one connection with few streams.
pub fn h2_operations(data: &[u8]) {
    let mut world = World::new();
    for operation in data.as_chunks::<4>().0.iter().take(400) {
        if world.operate(*operation).is_err() {
            return;
        }
    }
    world.settle();
}

struct World {
    memory: Memory,
    connection: Connection,
    /// Streams that the server works on.
    working: Vec<StreamKey>,
    next_id: u32,
    output: Vec<u8>,
    /// How much of the output the client has read.
    read: usize,
    /// What the client may send, by what it was told: on the connection (0) and on each stream.
    told: BTreeMap<u32, i64>,
    granted: BTreeMap<u32, u32>,
    /// The window with which a stream begins, as the client was told.
    initial: u32,
    is_held: bool,
    now_ms: u64,
}

impl World {
    fn new() -> World {
        let limits = Limits::DEFAULT.streams_max(8).expect("valid");
        let mut world = World {
            memory: Memory::new(&limits, 8),
            connection: Connection::new(&limits),
            working: Vec::new(),
            next_id: 1,
            output: Vec::new(),
            read: 0,
            told: BTreeMap::from([(0, 65_535)]),
            granted: BTreeMap::new(),
            initial: 16_384,
            is_held: false,
            now_ms: 0,
        };
        world.connection.begin(&mut world.output).expect("room");
        // Our settings are acknowledged at once, so that both sides agree on where streams begin.
        let begin = [PREFACE_AND_SETTINGS, &frame(4, 1, 0, &[])].concat();
        world.client(&begin).expect("valid");
        world
    }

    /// The client sends bytes; the server takes and keeps the data.
    fn client(&mut self, mut input: &[u8]) -> Result<(), Error> {
        loop {
            let mut storage = self.memory.storage();
            let step = self.connection.step(input, &mut storage, &mut self.output, self.now_ms)?;
            input = &input[step.consumed..];
            match step.event {
                Event::Request { stream, .. } => {
                    self.working.push(stream);
                    self.told.insert(stream.id, self.initial.into());
                }
                Event::Data { bytes, .. } => {
                    self.connection.take_data(bytes);
                    input = &input[bytes..];
                }
                Event::NeedOutput => self.connection.output_sent(),
                Event::NeedMore { .. } => break,
                _ => {}
            }
            let granted = &self.granted;
            self.connection.audit(&self.memory.streams, |id| granted.get(&id).copied().unwrap_or(0));
        }
        assert!(input.is_empty(), "only whole frames are sent");
        self.listen();
        Ok(())
    }

    /// The client reads what the server wrote, and both must agree on every window.
    fn listen(&mut self) {
        while let Some(header) = FrameHeader::parse(&self.output[self.read..]) {
            let from = self.read + FRAME_HEADER_BYTES;
            self.read = from + header.len;
            if header.kind == 8 {
                let increment = self.output[from..self.read].first_chunk().map(|word| u32::from_be_bytes(*word));
                if let Some(told) = self.told.get_mut(&header.stream) {
                    *told += i64::from(increment.expect("four bytes"));
                }
            }
        }
        for (id, told) in &self.told {
            if let Some(window) = self.connection.receive_window(&self.memory.streams, *id) {
                assert_eq!(i64::from(window), *told, "the window of {id}");
            }
        }
    }

    fn key(&self, which: u8) -> Option<StreamKey> {
        let count = self.working.len();
        (count > 0).then(|| self.working[usize::from(which) % count])
    }

    fn operate(&mut self, [what, which, a, b]: [u8; 4]) -> Result<(), Error> {
        let amount = u32::from(a) * u32::from(b);
        let chosen = self.key(which);
        let id = chosen.map_or(1, |key| key.id);
        match what % 16 {
            0..=2 => {
                let id = self.next_id;
                self.next_id += 2;
                let flags = if a.is_multiple_of(2) { 5 } else { 4 };
                self.client(&frame(1, flags, id, &[0x82, 0x86, 0x84, 0x41, 1, b'a']))
            }
            3..=6 => {
                // DATA, perhaps padded, never more than the client was told it may send.
                let told = |id: u32| self.told.get(&id).copied().unwrap_or(0);
                let room = told(0).min(told(id)).clamp(0, 16_384) as usize;
                let len = (amount as usize).min(room);
                let is_padded = what.is_multiple_of(2) && len > 0;
                let mut payload = vec![0; len];
                if is_padded {
                    payload[0] = b.min((len - 1) as u8);
                }
                for id in [0, id] {
                    if let Some(told) = self.told.get_mut(&id) {
                        *told -= len as i64;
                    }
                }
                let flags = if is_padded { 8 } else { 0 } | u8::from(a.is_multiple_of(16));
                self.client(&frame(0, flags, id, &payload))
            }
            7 => self.client(&frame(3, 0, id, &u32::from(a).to_be_bytes())),
            8 => self.client(&frame(8, 0, if a.is_multiple_of(2) { 0 } else { id }, &(amount + 1).to_be_bytes())),
            9 => self.client(&frame(4, 0, 0, &[0, 4, 0, 0, a, b])),
            10 if a >= 128 => self.offer(b, 1_024 + amount % 15_361),
            10 => self.client(&frame(6, 0, 0, &[a; 8])),
            11 => {
                self.now_ms += u64::from(amount);
                self.connection.output_sent();
                Ok(())
            }
            _ => self.server(what % 16, chosen, a, amount),
        }
    }

    /// The server offers other windows, and the client takes them at once.
    fn offer(&mut self, streams: u8, window: u32) -> Result<(), Error> {
        let before = self.output.len();
        let is_told = self.connection.offer(1 + u16::from(streams % 8), window, &mut self.output)?;
        assert!(is_told, "the last one was acknowledged");
        self.read += self.output.len() - before;
        if self.output.len() > before {
            let change = i64::from(window) - i64::from(self.initial);
            self.initial = window;
            self.told.iter_mut().filter(|(id, _)| **id != 0).for_each(|(_, told)| *told += change);
            self.client(&frame(4, 1, 0, &[]))?;
        }
        let mut storage = self.memory.storage();
        self.connection.hold_windows(self.is_held, &mut storage, &mut self.output)?;
        self.listen();
        Ok(())
    }

    /// What the server does with a stream that it works on.
    fn server(&mut self, what: u8, chosen: Option<StreamKey>, a: u8, amount: u32) -> Result<(), Error> {
        let Some(key) = chosen else { return Ok(()) };
        let mut storage = self.memory.storage();
        let (connection, out) = (&mut self.connection, &mut self.output);
        match what {
            12 if a.is_multiple_of(8) => connection.release_deferred(key, amount as usize, &mut storage),
            12 => connection.release(key, amount as usize, &mut storage, out)?,
            13 if a.is_multiple_of(2) => {
                let is_there = storage.streams[usize::from(key.slot)].state().can_receive();
                if is_there {
                    connection.grow_window(key, amount, &mut storage, out)?;
                    *self.granted.entry(0).or_default() += amount;
                    *self.granted.entry(key.id).or_default() += amount;
                }
            }
            13 if a.is_multiple_of(7) => {
                let granted = self.granted.entry(0).or_default();
                let taken = amount.min(*granted);
                *granted -= taken;
                connection.shrink_window(taken);
            }
            13 => {
                self.is_held = a.is_multiple_of(4);
                connection.hold_windows(self.is_held, &mut storage, out)?;
            }
            14 if a.is_multiple_of(4) => connection.reset(key, ErrorCode::Cancel, &mut storage, out)?,
            14 => {
                let length = BodyLength::Known(amount.into());
                let head = ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, length)?;
                if storage.streams[usize::from(key.slot)].state().can_send() {
                    connection.put_response(key, &head.fields(Fields::NONE), false, &mut storage, out)?;
                    connection.set_waiting(key, true, &mut storage);
                }
                if let Some(next) = connection.next_to_send(&storage) {
                    let len = connection.data_room(next, amount as usize + 1, &storage);
                    assert!(len > 0, "whose turn it is has a window");
                    let is_last = a.is_multiple_of(3);
                    connection.put_data_header(next, len, is_last, &mut storage, out)?;
                    out.extend(std::iter::repeat_n(0, len));
                }
            }
            _ => {
                connection.forget(key, &mut storage, out)?;
                self.working.retain(|other| *other != key);
                assert_eq!(self.memory.streams[usize::from(key.slot)].state(), StreamState::Free);
            }
        }
        let granted = &self.granted;
        self.connection.audit(&self.memory.streams, |id| granted.get(&id).copied().unwrap_or(0));
        self.listen();
        Ok(())
    }

    /// When all streams are forgotten and windows are not held, the client has the whole window back, but for what is
    /// not worth a frame.
    fn settle(mut self) {
        let mut storage = self.memory.storage();
        self.connection.hold_windows(false, &mut storage, &mut self.output).expect("room");
        for key in std::mem::take(&mut self.working) {
            self.connection.forget(key, &mut storage, &mut self.output).expect("room");
        }
        self.listen();
        let whole = 65_535 + i64::from(self.granted.get(&0).copied().unwrap_or(0));
        assert!(whole - self.told[&0] < 32_768, "{} of {whole} bytes", self.told[&0]);
        assert_eq!(self.connection.live_streams(), 0);
    }
}
