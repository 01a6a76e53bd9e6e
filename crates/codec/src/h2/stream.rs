//! A stream: its state machine, its windows, and the table of slots.
//!
//! ```text
//!            HEADERS                 HEADERS with END_STREAM
//!          +---------- Free (idle) --------------------------+
//!          v                                                 v
//!        Open -------- END_STREAM received -----------> HalfClosedRemote
//!          |                                                 |
//!          | END_STREAM sent                                 | END_STREAM sent
//!          v                                                 v
//!   HalfClosedLocal -- END_STREAM received ---------------> Closed -- forget --> Free
//!
//!   RST_STREAM, sent or received: from each of the three to Reset -- forget --> Free
//! ```
//!
//! A stream that is over keeps its slot until the caller forgets it: whoever works on it can hold memory for as long as
//! that takes, and a peer that opens and resets streams must not start more work than there are slots (CVE-2023-44487).

use super::Priority;
use crate::Error;

/// Where a stream is (RFC 9113 5.1, for the server).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum StreamState {
    /// The slot is not used.
    #[default]
    Free,
    /// Both sides send.
    Open,
    /// The request is complete.
    HalfClosedRemote,
    /// The response is complete, the request is not.
    HalfClosedLocal,
    /// Both are complete.
    Closed,
    /// Ended by a reset, ours or the peer's.
    Reset,
}

/// What happens to a stream.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    /// END_STREAM received.
    Received,
    /// END_STREAM sent.
    Sent,
    /// RST_STREAM, either way.
    Reset,
}

impl StreamState {
    /// All transitions; `None` where there is none.
    pub(super) const fn after(self, transition: Transition) -> Option<StreamState> {
        match (self, transition) {
            (StreamState::Open, Transition::Received) => Some(StreamState::HalfClosedRemote),
            (StreamState::Open, Transition::Sent) => Some(StreamState::HalfClosedLocal),
            (StreamState::HalfClosedRemote, Transition::Sent) => Some(StreamState::Closed),
            (StreamState::HalfClosedLocal, Transition::Received) => Some(StreamState::Closed),
            (StreamState::Open | StreamState::HalfClosedRemote | StreamState::HalfClosedLocal, Transition::Reset) => {
                Some(StreamState::Reset)
            }
            _ => None,
        }
    }

    /// Whether the peer may send more of the request.
    #[must_use]
    pub const fn can_receive(self) -> bool {
        matches!(self, StreamState::Open | StreamState::HalfClosedLocal)
    }

    /// Whether nothing can be sent or received any more.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, StreamState::Closed | StreamState::Reset)
    }

    /// Whether more of the response may be sent.
    #[must_use]
    pub const fn can_send(self) -> bool {
        matches!(self, StreamState::Open | StreamState::HalfClosedRemote)
    }
}

/// A stream, by its slot. The identifier tells it from others that used the slot before or after.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    /// Index into the caller's slots.
    pub slot: u16,
    /// The stream's identifier, odd.
    pub id: u32,
}

/// The slot of a stream: plain data that the caller keeps in a slice, next to what it keeps of the stream itself.
///
/// Longer slices are made by copying the slots and filling up with [`Stream::FREE`]; a stream's index must stay the
/// same.
#[derive(Copy, Clone, Debug)]
pub struct Stream {
    pub(super) id: u32,
    pub(super) state: StreamState,
    pub(super) priority: Priority,
    /// Whether the caller has output for it.
    pub(super) output: Output,
    /// When it was its turn to send last.
    pub(super) turn: u32,
    /// What the peer lets us send. Can be negative (RFC 9113 6.9.2).
    pub(super) send_window: i32,
    pub(super) receiving: Receiving,
    /// What Content-Length leaves of the body; `None` if there was none.
    pub(super) length_left: Option<u64>,
}

/// Whether a stream has something to send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Nothing,
    Waiting,
}

impl Stream {
    /// A slot without a stream.
    pub const FREE: Stream = Stream {
        id: 0,
        state: StreamState::Free,
        priority: Priority::DEFAULT,
        output: Output::Nothing,
        turn: 0,
        send_window: 0,
        receiving: Receiving::new(0),
        length_left: None,
    };

    /// Whether the peer's window for it lets nothing of its body go.
    #[must_use]
    pub const fn is_window_shut(&self) -> bool {
        self.send_window <= 0
    }

    /// Whether the window that the peer has for it lets nothing of the request's body come.
    #[must_use]
    pub const fn is_receive_window_shut(&self) -> bool {
        self.receiving.window <= 0
    }

    /// Where it is.
    #[must_use]
    pub const fn state(&self) -> StreamState {
        self.state
    }

    /// Its priority.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// Says whether there is output for it; `waiting` counts the streams for which there is.
    pub(super) fn wait(&mut self, output: Output, waiting: &mut u16) {
        match (self.output, output) {
            (Output::Nothing, Output::Waiting) => *waiting += 1,
            (Output::Waiting, Output::Nothing) => {
                debug_assert!(*waiting > 0, "each stream that waits is counted");
                *waiting -= 1;
            }
            _ => {}
        }
        self.output = output;
    }

    pub(super) fn step(&mut self, transition: Transition) -> Result<(), Error> {
        self.state = self.state.after(transition).ok_or(Error::StreamClosed)?;
        Ok(())
    }
}

impl Default for Stream {
    fn default() -> Self {
        Stream::FREE
    }
}

/// What a peer may send us, of a stream or of the connection.
///
/// `window + held + owed - debt` never changes but by what was granted or taken back, or by SETTINGS: no byte of a
/// window is lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Receiving {
    /// What the peer may send. Can be negative after SETTINGS.
    pub(super) window: i32,
    /// What came and is in use.
    pub(super) held: u32,
    /// What was used, and is to be told to the peer.
    pub(super) owed: u32,
    /// What is to be taken from that before anything is told.
    pub(super) debt: u32,
}

impl Receiving {
    pub(super) const fn new(window: i32) -> Receiving {
        Receiving { window, held: 0, owed: 0, debt: 0 }
    }

    /// A frame came: so much of it is data, the rest is padding.
    pub(super) fn receive(&mut self, data: u32, padding: u32) -> Result<(), Error> {
        let len = (data + padding) as i32;
        if len > self.window {
            return Err(Error::WindowExceeded);
        }
        self.window -= len;
        self.held += data;
        self.owed += padding;
        Ok(())
    }

    /// Data is not in use any more. Returns how much it was.
    pub(super) fn release(&mut self, bytes: u32) -> u32 {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.owed += bytes;
        bytes
    }

    /// What is to be told now, if it is worth a frame.
    pub(super) fn update(&mut self, at_least: u32) -> Option<u32> {
        let paid = self.owed.min(self.debt);
        (self.owed, self.debt) = (self.owed - paid, self.debt - paid);
        if self.owed < at_least.max(1) {
            return None;
        }
        let increment = std::mem::take(&mut self.owed);
        self.window += increment as i32;
        Some(increment)
    }

    /// Whether the peer can hardly send anything, and nothing that it sent is in use.
    pub(super) fn is_used_up(&self, window_bytes: u32) -> bool {
        self.held == 0 && self.window <= (window_bytes / 8) as i32
    }

    /// The sum that is conserved.
    pub(super) fn total(&self) -> i64 {
        i64::from(self.window) + i64::from(self.held) + i64::from(self.owed) - i64::from(self.debt)
    }
}

/// Where the search for a stream begins. Clients count their streams, so that most are found at the first look.
fn start(streams: &[Stream], id: u32) -> usize {
    let (number, slots) = ((id >> 1) as usize, streams.len());
    // A division takes longer than all the rest.
    if slots.is_power_of_two() { number & (slots - 1) } else { number % slots.max(1) }
}

#[inline]
fn search(streams: &[Stream], id: u32, wanted: impl Fn(&Stream) -> bool) -> Option<StreamKey> {
    let from = start(streams, id);
    if streams.get(from).is_some_and(&wanted) {
        return Some(StreamKey { slot: from as u16, id });
    }
    let found = streams[from..].iter().position(&wanted).map(|at| from + at);
    let slot = found.or_else(|| streams[..from].iter().position(wanted))?;
    Some(StreamKey { slot: slot as u16, id })
}

/// The slot of a stream.
pub(super) fn find(streams: &[Stream], id: u32) -> Option<StreamKey> {
    debug_assert!(id != 0);
    search(streams, id, |stream| stream.id == id)
}

/// A slot for a new stream.
pub(super) fn find_free(streams: &[Stream], id: u32) -> Option<StreamKey> {
    search(streams, id, |stream| stream.id == 0)
}

/// The stream of a key, if it is still there.
pub(super) fn get(streams: &mut [Stream], key: StreamKey) -> Option<&mut Stream> {
    streams.get_mut(usize::from(key.slot)).filter(|stream| stream.id == key.id)
}

const _: () = assert!(size_of::<Stream>() <= 64);
