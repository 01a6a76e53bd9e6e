//! One direction of a byte stream: from a send buffer over the wire to a receive buffer, all in one queue.
//!
//! ```text
//!   take <- [ arrived | flying | unsent ] <- push
//!             \______________/               arrived + flying <= receive_max (the window)
//!                       \_______________/    flying + unsent  <= send_max
//! ```
//!
//! The end of the stream follows the last byte: open -> finishing (queued behind unsent bytes) -> flying -> arrived. A
//! cut pipe has lost everything that had not arrived, its end included.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// How far the end of the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// More bytes may be pushed.
    Open,
    /// The end waits behind unsent bytes.
    Finishing,
    /// The end is on the wire.
    Flying,
    /// The receiver has the end behind the arrived bytes.
    Arrived,
    /// Nothing more will arrive.
    Cut,
}

/// What leaves the send buffer in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// So many bytes (not zero).
    Segment(usize),
    /// The end of the stream.
    Finish,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    bytes: VecDeque<u8>,
    arrived: usize,
    flying: usize,
    tail: Tail,
    pub(crate) send_max: usize,
    pub(crate) receive_max: usize,
}

impl Pipe {
    pub(crate) fn new(send_max: usize, receive_max: usize) -> Self {
        assert!(send_max > 0 && receive_max > 0, "buffers have room");
        Self { bytes: VecDeque::new(), arrived: 0, flying: 0, tail: Tail::Open, send_max, receive_max }
    }

    pub(crate) const fn tail(&self) -> Tail {
        self.tail
    }

    /// Bytes the receiver can take now.
    pub(crate) const fn arrived(&self) -> usize {
        self.arrived
    }

    /// Bytes that have not left yet.
    pub(crate) fn unsent(&self) -> usize {
        self.bytes.len() - self.arrived - self.flying
    }

    /// Room in the send buffer.
    pub(crate) fn room(&self) -> usize {
        self.send_max.saturating_sub(self.flying + self.unsent())
    }

    /// Takes up to `room` bytes from the front of `bytes`; how many.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        assert_eq!(self.tail, Tail::Open, "nothing is pushed behind the end");
        let taken = bytes.len().min(self.room());
        self.bytes.extend(&bytes[..taken]);
        self.check();
        taken
    }

    /// The end comes behind what was pushed so far.
    pub(crate) fn finish(&mut self) {
        if self.tail == Tail::Open {
            self.tail = Tail::Finishing;
        }
    }

    /// The longest segment that the window lets leave.
    pub(crate) fn departure(&self, segment_max: usize) -> Option<Departure> {
        let window = self.receive_max.saturating_sub(self.arrived + self.flying);
        match self.unsent().min(window).min(segment_max) {
            0 if self.unsent() == 0 && self.tail == Tail::Finishing => Some(Departure::Finish),
            0 => None,
            len => Some(Departure::Segment(len)),
        }
    }

    /// It leaves; a segment may be shorter than was offered.
    pub(crate) fn depart(&mut self, departure: Departure) {
        match departure {
            Departure::Segment(len) => {
                assert!(len > 0 && len <= self.unsent(), "only what is there can leave");
                self.flying += len;
            }
            Departure::Finish => {
                assert!(self.tail == Tail::Finishing && self.unsent() == 0, "the end leaves last");
                self.tail = Tail::Flying;
            }
        }
        self.check();
    }

    /// The oldest `len` flying bytes arrive.
    pub(crate) fn arrive(&mut self, len: usize) {
        assert!(len <= self.flying, "only what has left arrives");
        self.flying -= len;
        self.arrived += len;
        self.check();
    }

    /// The end arrives.
    pub(crate) fn arrive_finish(&mut self) {
        assert!(self.tail == Tail::Flying && self.flying == 0, "the end arrives last");
        self.tail = Tail::Arrived;
    }

    /// Takes up to `len_max` arrived bytes.
    pub(crate) fn take(&mut self, len_max: usize) -> Vec<u8> {
        let taken = len_max.min(self.arrived);
        self.arrived -= taken;
        // As two copies: byte by byte this was a tenth of a sweep's time.
        let (front, back) = self.bytes.as_slices();
        let of_front = taken.min(front.len());
        let bytes = [&front[..of_front], &back[..taken - of_front]].concat();
        self.bytes.drain(..taken);
        self.check();
        bytes
    }

    /// Copies the first of the arrived bytes; how many.
    pub(crate) fn peek(&self, room: &mut [u8]) -> usize {
        let seen = room.len().min(self.arrived);
        room.iter_mut().zip(self.bytes.range(..seen)).for_each(|(place, byte)| *place = *byte);
        seen
    }

    /// Everything that has not arrived is lost.
    pub(crate) fn cut(&mut self) {
        self.bytes.truncate(self.arrived);
        self.flying = 0;
        self.tail = Tail::Cut;
        self.check();
    }

    /// Everything that has not left is lost.
    pub(crate) fn drop_unsent(&mut self) {
        self.bytes.truncate(self.arrived + self.flying);
        self.check();
    }

    fn check(&self) {
        debug_assert!(self.arrived + self.flying <= self.bytes.len());
        debug_assert!(self.tail != Tail::Cut || self.bytes.len() == self.arrived);
        debug_assert!(!matches!(self.tail, Tail::Flying | Tail::Arrived) || self.unsent() == 0);
    }
}
