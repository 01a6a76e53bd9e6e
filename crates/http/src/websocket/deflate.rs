//! permessage-deflate (RFC 7692): the windows of a connection, and those that the connections of a worker share.
//!
//! Where no window is taken over from message to message, one set for each worker is enough, and a connection borrows
//! the inflater for the time of a message. A window that is taken over belongs to its connection. All are charged
//! before they are made. Without room for a deflater a message is sent as it is; a deflater that waits is dropped as
//! memory gets short, since nobody but we need know what it remembers.

use plimsoll_codec::Error as CodecError;
use plimsoll_codec::ws::{Compression, Deflater, FrameHead, Handshake, Inflater, Utf8};
use plimsoll_pool::{Charge, PoolBox};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Kind, OverBudget, Pool};

use super::assembly::Assembly;
use super::config::WebSocketConfig;
use super::message::Message;
use super::settings::Settings;
use crate::exchange::output::Output;
use crate::memory::desk::Desk;
use crate::{Body, Error};

/// The windows of one connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    inflater: Option<Charged<Inflater>>,
    deflater: Option<Charged<Deflater>>,
    /// Of the text that is being inflated.
    text: Utf8,
    /// What was inflated found no room, and the inflater has moved on.
    are_lost: bool,
}

/// The windows that a worker's connections share.
#[derive(Debug, Default)]
pub(super) struct SharedStreams {
    inflater: Option<Charged<Inflater>>,
    /// By the size of the window.
    deflaters: [Option<Charged<Deflater>>; WINDOWS],
}

#[derive(Debug)]
struct Charged<T> {
    stream: T,
    charge: Charge,
}

impl<T> Charged<T> {
    fn new(pool: &Pool, bytes: usize, make: impl FnOnce() -> Result<T, CodecError>) -> Result<Self, Error> {
        let charge = pool.budget().charge(Kind::Codec, bytes as u64)?;
        Ok(Self { stream: make()?, charge })
    }
}

/// What both sides want, as far as it fits the memory that there is.
pub(super) fn agree(worker: &Desk, handshake: &Handshake<'_>, config: &WebSocketConfig) -> Option<Compression> {
    let mut ours = config.compression?;
    if worker.pool.budget().level() > Level::Calm {
        (ours.server_context_takeover, ours.client_context_takeover) = (false, false);
    }
    handshake.compression_offers().find_map(|offer| offer.accept(ours))
}

impl Streams {
    /// Those of a connection, made if they are not there.
    pub(super) fn of<'a>(place: &'a mut Option<PoolBox<Self>>, worker: &Desk) -> Result<&'a mut Self, OverBudget> {
        let streams = match place.take() {
            Some(streams) => streams,
            None => worker.pool.try_boxed(Self::default(), Kind::Codec).map_err(|(over, _)| over)?,
        };
        Ok(place.insert(streams))
    }

    /// Bytes of the heap that are charged for it.
    pub(super) fn charged_bytes(&self) -> usize {
        let inflater = self.inflater.as_ref().map_or(0, |inflater| inflater.charge.bytes());
        let deflater = self.deflater.as_ref().map_or(0, |deflater| deflater.charge.bytes());
        usize::try_from(inflater + deflater).unwrap_or(usize::MAX)
    }

    /// Whether something is remembered for the next message. What nobody but we need is given up when memory gets
    /// short.
    pub(super) fn are_kept(&mut self, worker: &Desk) -> bool {
        if worker.level() >= Level::Yellow {
            self.deflater = None;
        }
        self.inflater.is_some() || self.deflater.is_some()
    }

    /// Whether what was inflated found no room: it cannot be inflated once more.
    pub(super) fn are_lost(&self) -> bool {
        self.are_lost
    }

    /// Inflates a part of a message.
    pub(super) fn inflate(
        &mut self,
        worker: &Desk,
        (settings, is_text): (&Settings, bool),
        part: &[u8],
        assembly: &mut Assembly,
    ) -> Result<(), Error> {
        let values = &settings.values;
        let bytes_max = u64::from(values.limits.message_bytes_max);
        let takes_over = values.compression.is_some_and(|compression| compression.client_context_takeover);
        let mut inflater = match self.inflater.take() {
            Some(inflater) => inflater,
            None => self.fresh_inflater(worker, settings, takes_over)?,
        };
        let mut sink = Sink { worker, assembly, text: is_text.then_some(&mut self.text), over: None };
        let inflated = inflater.stream.inflate(part, bytes_max, |piece| sink.put(piece));
        self.are_lost |= sink.over.is_some();
        sink.judge(inflated)?;
        self.inflater = Some(inflater);
        Ok(())
    }

    /// Inflates the end of a message.
    pub(super) fn finish(
        &mut self,
        worker: &Desk,
        (settings, is_text): (&Settings, bool),
        assembly: &mut Assembly,
    ) -> Result<(), Error> {
        self.inflate(worker, (settings, is_text), &[], assembly)?;
        let Some(mut inflater) = self.inflater.take() else { return Ok(()) };
        let values = &settings.values;
        let bytes_max = u64::from(values.limits.message_bytes_max);
        let mut sink = Sink { worker, assembly, text: is_text.then_some(&mut self.text), over: None };
        let inflated = inflater.stream.finish(bytes_max, |piece| sink.put(piece));
        self.are_lost |= sink.over.is_some();
        sink.judge(inflated)?;
        self.text.finish()?;
        if values.compression.is_some_and(|compression| compression.client_context_takeover) {
            self.inflater = Some(inflater);
        } else {
            settings.streams.borrow_mut().inflater = Some(inflater);
        }
        Ok(())
    }

    fn fresh_inflater(
        &mut self,
        worker: &Desk,
        settings: &Settings,
        takes_over: bool,
    ) -> Result<Charged<Inflater>, Error> {
        let spare = if takes_over { None } else { settings.streams.borrow_mut().inflater.take() };
        match spare {
            Some(inflater) => Ok(inflater),
            None => Charged::new(&worker.pool, Inflater::HEAP_BYTES, || Ok(Inflater::new(takes_over))),
        }
    }
}

/// Where inflated pieces go.
struct Sink<'a> {
    worker: &'a Desk,
    assembly: &'a mut Assembly,
    text: Option<&'a mut Utf8>,
    over: Option<OverBudget>,
}

impl Sink<'_> {
    fn put(&mut self, piece: &[u8]) -> Result<(), CodecError> {
        if let Some(text) = &mut self.text {
            text.check(piece)?;
        }
        self.assembly.push(&self.worker.pool, piece).map_err(|over| {
            self.over = Some(over);
            CodecError::OutputFull
        })
    }

    fn judge(self, done: Result<(), CodecError>) -> Result<(), Error> {
        match self.over {
            Some(over) => Err(over.into()),
            None => Ok(done?),
        }
    }
}

/// Puts a message into the output, deflated; or gives it back, to be sent as it is.
pub(super) fn put(
    (streams, output): (&mut Option<PoolBox<Streams>>, &mut Output),
    worker: &Desk,
    settings: &Settings,
    message: Message,
) -> Result<Option<Message>, Error> {
    let (bytes, Some(compression)) = (message.as_bytes(), settings.values.compression) else {
        return Ok(Some(message));
    };
    if bytes.len() < DEFLATED_BYTES_MIN {
        return Ok(Some(message));
    }
    let takes_over = compression.server_context_takeover;
    let window_bits = compression.server_window_bits;
    let mut shared = settings.streams.borrow_mut();
    let place = if takes_over {
        let Ok(streams) = Streams::of(streams, worker) else { return Ok(Some(message)) };
        &mut streams.deflater
    } else {
        &mut shared.deflaters[usize::from(window_bits - WINDOW_BITS_MIN)]
    };
    let mut deflater = match place.take() {
        Some(deflater) => deflater,
        None => {
            let make = || Deflater::new(window_bits, takes_over);
            match Charged::new(&worker.pool, Deflater::heap_bytes(window_bits), make) {
                Ok(deflater) => deflater,
                Err(Error::OverBudget(_)) => return Ok(Some(message)),
                Err(error) => return Err(error),
            }
        }
    };
    let mut deflated = Assembly::default();
    let mut sink = Sink { worker, assembly: &mut deflated, text: None, over: None };
    let done = deflater.stream.message(bytes, |piece| sink.put(piece));
    // A deflater that could not finish is of no use; its peer has not seen any of it.
    if let Err(error) = sink.judge(done) {
        return if matches!(error, Error::OverBudget(_)) { Ok(Some(message)) } else { Err(error) };
    }
    let body = deflated.finish();
    let is_smaller = body.as_slice().len() < bytes.len();
    if !takes_over && !is_smaller {
        *place = Some(deflater);
        return Ok(Some(message));
    }
    let plain = FrameHead::message(message.opcode(), body.as_slice().len() as u64);
    let head = FrameHead { is_compressed: true, ..plain }.encode();
    let put = match body {
        Body::Empty => output.append(&worker.pool, head.as_bytes()),
        mut body => output.append_piece(&worker.pool, head.as_bytes(), &mut body, &[]),
    };
    if put.is_err() {
        return Ok(Some(message));
    }
    // A deflater remembers nothing but what was sent.
    *place = Some(deflater);
    Ok(None)
}

/// What is shorter is sent as it is.
const DEFLATED_BYTES_MIN: usize = 32;
const WINDOW_BITS_MIN: u8 = 9;
const WINDOWS: usize = 7;
