//! One message, encoded once for all who get it.
//!
//! ```text
//!  frame:   head of a WebSocket frame | payload
//!  events:  chunk size CRLF | "event: ..." ... empty line | CRLF
//! ```
//!
//! Both are made only where somebody takes them. A stream of events without chunks (HTTP/1.0, HTTP/2) takes the middle
//! of `events`.

use ::core::fmt;
use ::core::fmt::Write as _;
use ::core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_codec::ws::{FrameHead, Opcode};
use plimsoll_pool::{Budget, Charge, Class};
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool, SharedBytes};

use super::queue::Weigh;
use crate::Error;
use crate::exchange::event::{Event, LeaseText};

/// What is published.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content<'a> {
    Event(&'a Event<'a>),
    /// For WebSockets alone.
    Binary(&'a [u8]),
}

/// The encodings that somebody takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Formats {
    pub(super) frame: bool,
    pub(super) events: bool,
}

/// A message of a [`Hub`](crate::Hub): its bytes are in memory once, however many hold it.
#[derive(Clone)]
pub struct Post(Arc<Parts>);

struct Parts {
    number: u64,
    frame: Option<SharedBytes>,
    events: Option<SharedBytes>,
    /// Where the payload begins in the frame.
    payload_at: u8,
    /// Where the events are between the ends of their chunk.
    plain: Range<u32>,
    is_text: bool,
    held: Held,
    _charge: Charge,
}

/// Counts in a gauge for as long as it lives.
struct Held {
    gauge: Arc<Gauge>,
    bytes: u64,
}

/// Messages and bytes that are held.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    pub(super) messages: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Held {
    fn new(gauge: &Arc<Gauge>, bytes: u64) -> Self {
        gauge.messages.fetch_add(1, Ordering::Relaxed);
        gauge.bytes.fetch_add(bytes, Ordering::Relaxed);
        Self { gauge: Arc::clone(gauge), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.gauge.messages.fetch_sub(1, Ordering::Relaxed);
        self.gauge.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Encoded, not numbered yet.
pub(super) struct Draft {
    frame: Option<SharedBytes>,
    events: Option<SharedBytes>,
    payload_at: u8,
    plain: Range<u32>,
    is_text: bool,
    charge: Charge,
}

impl Draft {
    /// Encodes a message in memory of the pool of this worker.
    pub(super) fn new(
        content: Content<'_>,
        formats: Formats,
        pool: &Pool,
        budget: &Arc<Budget>,
    ) -> Result<Self, OverBudget> {
        let charge = budget.charge(Kind::Buffers, PARTS_BYTES)?;
        let is_text = matches!(content, Content::Event(_));
        let mut draft = Self { frame: None, events: None, payload_at: 0, plain: 0..0, is_text, charge };
        if formats.frame {
            let (opcode, payload) = match content {
                Content::Event(event) => (Opcode::Text, event.data_text().as_bytes()),
                Content::Binary(payload) => (Opcode::Binary, payload),
            };
            let head = FrameHead::message(opcode, payload.len() as u64).encode();
            let mut lease = pool.try_acquire(head.as_bytes().len() + payload.len(), Kind::Buffers)?;
            lease.extend(head.as_bytes());
            lease.extend(payload);
            draft.payload_at = head.as_bytes().len() as u8;
            draft.frame = Some(shared(lease, budget)?);
        }
        if let (true, Content::Event(event)) = (formats.events, content) {
            let bytes = event.encoded_bytes();
            let mut lease = pool.try_acquire(bytes + CHUNK_ENDS_BYTES_MAX, Kind::Buffers)?;
            let written = write!(LeaseText(&mut lease), "{bytes:x}\r\n");
            debug_assert!(written.is_ok(), "room was made");
            let start = lease.len();
            event.write(&mut LeaseText(&mut lease));
            draft.plain = start as u32..lease.len() as u32;
            lease.extend(b"\r\n");
            draft.events = Some(shared(lease, budget)?);
        }
        Ok(draft)
    }

    /// Whether it is encoded in all of these.
    pub(super) fn covers(&self, formats: Formats) -> bool {
        (self.frame.is_some() || !formats.frame) && (self.events.is_some() || !formats.events || !self.is_text)
    }

    pub(super) fn finish(self, number: u64, gauge: &Arc<Gauge>) -> Post {
        let Self { frame, events, payload_at, plain, is_text, charge } = self;
        let bytes = |shared: &Option<SharedBytes>| shared.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let held = Held::new(gauge, bytes(&frame) + bytes(&events));
        Post(Arc::new(Parts { number, frame, events, payload_at, plain, is_text, held, _charge: charge }))
    }
}

fn shared(lease: Lease, budget: &Arc<Budget>) -> Result<SharedBytes, OverBudget> {
    SharedBytes::new(lease, budget).map_err(|(over, _lease)| over)
}

/// Whether a message is short enough to be shared.
///
/// # Errors
///
/// [`Error::BodyTooLarge`].
pub(super) fn check_size(content: Content<'_>, bytes_max: usize) -> Result<(), Error> {
    let bytes = match content {
        Content::Event(event) => event.encoded_bytes(),
        Content::Binary(payload) => payload.len(),
    };
    if bytes > bytes_max { Err(Error::BodyTooLarge { bytes_max }) } else { Ok(()) }
}

impl Post {
    /// Its number: each is one more than the one published before.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// The payload: an event's data, or the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.frame.as_ref().map_or(&[], |frame| &frame[usize::from(self.0.payload_at)..])
    }

    /// An event's data; `None` for bytes.
    pub fn as_text(&self) -> Option<&str> {
        if self.0.is_text { ::core::str::from_utf8(self.as_bytes()).ok() } else { None }
    }

    /// As a WebSocket sends it.
    pub(super) fn frame(&self) -> Option<SharedBytes> {
        self.0.frame.clone()
    }

    /// As a stream of events in chunks sends it.
    pub(super) fn chunk(&self) -> Option<SharedBytes> {
        self.0.events.clone()
    }

    /// As a stream of events sends it.
    pub(super) fn events(&self) -> Option<SharedBytes> {
        let Range { start, end } = self.0.plain;
        self.0.events.as_ref().map(|events| events.slice(start as usize..end as usize))
    }
}

impl Weigh for Post {
    fn weight_bytes(&self) -> u64 {
        let bytes = |shared: &Option<SharedBytes>| shared.as_ref().map_or(0, |bytes| bytes.len() as u64);
        bytes(&self.0.frame).max(bytes(&self.0.events))
    }
}

impl fmt::Debug for Post {
    /// Not the bytes: they may be secret, and many.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post").field("number", &self.0.number).field("bytes", &self.0.held.bytes).finish()
    }
}

/// What surrounds an event in its chunk at most: the size in hexadecimal digits, two line ends.
const CHUNK_ENDS_BYTES_MAX: usize = 8 + 4;
/// The longest message, encoded: a lease with room for what surrounds it.
pub(super) const MESSAGE_BYTES_CEILING: usize = Class::K128.bytes() - 16;
/// What is charged for the parts themselves.
const PARTS_BYTES: u64 = (size_of::<Parts>() + 2 * size_of::<usize>()) as u64;
