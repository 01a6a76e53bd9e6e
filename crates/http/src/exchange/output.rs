//! Bytes on their way to the socket: gathered into one lease, sent as one operation.

use ::core::time::Duration;

use plimsoll_codec::h1::{Full, Sink};
use plimsoll_pool::Class;
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool, SendBytes};
use plimsoll_slab::Key;

use crate::exchange::response::Body;
use crate::exchange::user_code::{self, UserBody};

/// What a first answer gets.
const FIRST_BYTES: usize = 1_024;
/// Bodies up to this size are copied behind their head; what is longer follows in a send of its own.
pub(crate) const COPY_BYTES_MAX: usize = 16 * 1_024;
/// What a socket is handed at once, without an operation.
const SHORT_BYTES: usize = 4 * 1_024;
/// Output of which the peer has taken nothing for so long is stalled.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(1);
/// The end of a chunk, and with the last chunk.
const CHUNK_END: &[u8] = b"\r\n";
const CHUNK_END_AND_LAST: &[u8] = b"\r\n0\r\n\r\n";
/// Bytes of one send of a body that has to be copied.
const PIECE_BYTES: usize = 64 * 1_024;

/// Output of one connection. First `gathered`, then `tail`, then `end`.
#[derive(Debug, Default)]
pub(crate) struct Output {
    gathered: Option<Lease>,
    /// The rest of a body that is too long to be gathered.
    tail: UserBody,
    /// The few bytes that close a chunk after a long body.
    end: &'static [u8],
    /// A part of a long body, or what goes before it, has been handed over, and not all of it.
    midway: bool,
    /// Where the answer that was begun last begins in what is gathered, while nothing of it has been handed over.
    answer_at: Option<u32>,
}

impl Output {
    /// An answer begins behind what is gathered.
    pub(crate) fn begin_answer(&mut self) {
        debug_assert!(!self.has_tail(), "nothing is gathered behind a tail");
        self.answer_at = Some(self.gathered_bytes() as u32);
    }

    /// Drops the answer that was begun last, if nothing of it has been handed over; whether it is gone.
    pub(crate) fn take_back(&mut self) -> bool {
        let Some(at) = self.answer_at.take() else { return false };
        let Some(lease) = &mut self.gathered else { return false };
        lease.truncate(at as usize);
        (self.tail, self.end) = (UserBody::default(), &[]);
        true
    }

    /// Whether the answer that was begun last may still be [taken back](Self::take_back).
    pub(crate) fn may_take_back(&self) -> bool {
        self.answer_at.is_some()
    }

    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.as_ref().is_none_or(|lease| lease.is_empty()) && !self.has_tail()
    }

    /// Whether a long body waits; nothing can be gathered behind it.
    pub(crate) fn has_tail(&self) -> bool {
        !self.tail.as_slice().is_empty() || !self.end.is_empty()
    }

    /// Whether all there is was gathered, and is not much: it can be sent at once.
    pub(crate) fn is_short(&self) -> bool {
        !self.has_tail() && (1..=SHORT_BYTES).contains(&self.gathered_bytes())
    }

    /// Bytes of the pool that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.gathered.as_ref().map_or(0, |lease| lease.class().bytes()) + self.tail.held_bytes()
    }

    /// Bytes gathered.
    pub(crate) fn gathered_bytes(&self) -> usize {
        self.gathered.as_ref().map_or(0, |lease| lease.len())
    }

    /// Bytes for which there is room already.
    #[inline]
    pub(crate) fn spare_bytes(&self) -> usize {
        self.gathered.as_ref().map_or(0, |lease| lease.spare_capacity())
    }

    /// Whether a piece of so many bytes may be gathered. One that is larger than all the room may be, when nothing else
    /// is there.
    pub(crate) fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        let gathered = self.gathered_bytes();
        !self.has_tail() && (gathered == 0 || gathered + bytes <= bytes_max)
    }

    /// Makes room for `bytes` more.
    pub(crate) fn reserve(&mut self, pool: &Pool, bytes: usize) -> Result<(), OverBudget> {
        debug_assert!(!self.has_tail(), "nothing is gathered behind a tail");
        match &mut self.gathered {
            None => self.gathered = Some(pool.try_acquire(bytes.max(FIRST_BYTES), Kind::Buffers)?),
            Some(lease) if lease.spare_capacity() >= bytes => {}
            // Twice as much, up to a piece.
            Some(lease) => {
                let more = lease.len().min(PIECE_BYTES.saturating_sub(lease.len()));
                pool.try_grow(lease, more.max(bytes))?;
            }
        }
        Ok(())
    }

    /// Has what is gathered next go to this lease.
    pub(crate) fn lend(&mut self, lease: Lease) {
        debug_assert!(self.is_empty() && lease.is_empty(), "nothing is gathered yet");
        self.gathered = Some(lease);
    }

    /// Hands what is gathered to the socket. Gives the lease back when it has taken all of that. No send may be in
    /// flight.
    pub(crate) fn send_now<T: Default>(&mut self, table: &mut Table<T>, key: Key) -> Option<Lease> {
        let mut lease = self.gathered.take()?;
        self.answer_at = None;
        while !lease.is_empty() {
            match table.send_now(key, &lease) {
                Ok(sent @ 1..) => {
                    self.answer_at = self.answer_at.and_then(|at| at.checked_sub(sent as u32));
                    lease.consume(sent);
                }
                // One that failed is told by the next operation on it.
                Ok(_) | Err(_) => {
                    self.gathered = Some(lease);
                    return None;
                }
            }
        }
        Some(lease)
    }

    /// Appends bytes for which room was made.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let lease = self.gathered.as_mut().expect("room was made");
        let taken = lease.extend(bytes);
        assert_eq!(taken, bytes.len(), "room was made");
    }

    /// Appends a copy of bytes.
    pub(crate) fn append(&mut self, pool: &Pool, bytes: &[u8]) -> Result<(), OverBudget> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.reserve(pool, bytes.len())?;
        self.push(bytes);
        Ok(())
    }

    /// Appends the last chunk, behind a long body if there is one. It needs no memory: what was begun can always be
    /// ended.
    pub(crate) fn append_last(&mut self, last: &'static [u8]) {
        if self.end == CHUNK_END {
            debug_assert_eq!(last, &CHUNK_END_AND_LAST[CHUNK_END.len()..], "there is one last chunk");
            self.end = CHUNK_END_AND_LAST;
            return;
        }
        debug_assert!(self.end.is_empty(), "a body ends once");
        match &mut self.gathered {
            Some(lease) if self.tail.as_slice().is_empty() && lease.spare_capacity() >= last.len() => {
                lease.extend(last);
            }
            _ => self.end = last,
        }
    }

    /// Appends a piece of a body between what goes before and behind it: all of it or, when there is no room, nothing.
    /// What was appended is taken.
    pub(crate) fn append_piece(
        &mut self,
        pool: &Pool,
        before: &[u8],
        body: &mut Body,
        end: &'static [u8],
    ) -> Result<(), OverBudget> {
        debug_assert!(!self.has_tail(), "one long body at a time");
        let copied = if body.as_slice().len() <= COPY_BYTES_MAX { body.as_slice() } else { &[] };
        let gathered = before.len() + copied.len() + if copied.is_empty() { 0 } else { end.len() };
        if gathered > 0 {
            self.reserve(pool, gathered)?;
        }
        if !copied.is_empty() {
            for part in [before, copied, end] {
                self.push(part);
            }
            user_code::drop_later(::core::mem::take(body));
            return Ok(());
        }
        if !before.is_empty() {
            self.push(before);
        }
        self.end = end;
        self.tail = ::core::mem::take(body).into();
        Ok(())
    }

    /// Lets a long body follow what was gathered.
    pub(crate) fn follow(&mut self, body: Body) {
        debug_assert!(!self.has_tail(), "one body at a time");
        self.tail = body.into();
    }

    /// Hands the next piece to the socket, unless one is on its way.
    pub(crate) fn flush<T: Default>(&mut self, pool: &Pool, table: &mut Table<T>, key: Key) -> Result<(), OverBudget> {
        if table.is_sending(key) {
            return Ok(());
        }
        let was_midway = self.midway;
        let Some(piece) = self.next_piece(pool)? else { return Ok(()) };
        let is_midway = ::core::mem::replace(&mut self.midway, was_midway);
        match table.send(key, piece) {
            Ok(()) => {
                self.midway = is_midway;
                Ok(())
            }
            Err((over, SendBytes::Lease(lease))) => {
                self.gathered = Some(lease);
                Err(over)
            }
            Err((over, SendBytes::Static(bytes))) => {
                // What comes next is behind it.
                self.tail = Body::Static(bytes).into();
                Err(over)
            }
            Err((over, SendBytes::Shared(_))) => Err(over),
        }
    }

    /// Hands as much to the socket as it takes at once, which needs no memory; whether nothing is left. No send may be
    /// in flight.
    pub(crate) fn flush_now<T: Default>(&mut self, table: &mut Table<T>, key: Key) -> bool {
        loop {
            let gathered = self.gathered.as_deref().unwrap_or_default();
            let parts = [gathered, self.tail.as_slice(), self.end];
            let Some(front) = parts.into_iter().find(|part| !part.is_empty()) else {
                self.midway = false;
                return true;
            };
            match table.send_now(key, front) {
                Ok(sent @ 1..) => {
                    self.midway = true;
                    self.consume(sent);
                }
                // One that failed is told by the next operation on it.
                Ok(_) | Err(_) => return false,
            }
        }
    }

    /// Drops bytes that the socket has taken, of what is first.
    fn consume(&mut self, sent: usize) {
        if let Some(lease) = &mut self.gathered {
            self.answer_at = self.answer_at.and_then(|at| at.checked_sub(sent as u32));
            lease.consume(sent);
            if lease.is_empty() {
                self.gathered = None;
            }
            return;
        }
        match &mut *self.tail {
            tail if tail.as_slice().is_empty() => self.end = &self.end[sent..],
            Body::Empty => {}
            Body::Static(bytes) => *bytes = &bytes[sent..],
            Body::Bytes(bytes) => bytes::Buf::advance(bytes, sent),
            Body::Lease(lease) => lease.consume(sent),
        }
    }

    /// Takes what is to be sent next.
    pub(crate) fn next_piece(&mut self, pool: &Pool) -> Result<Option<SendBytes>, OverBudget> {
        self.answer_at = None;
        let piece = match self.gathered.take() {
            Some(lease) if !lease.is_empty() => Some(SendBytes::Lease(lease)),
            // Room may have been made for what was not written then.
            Some(_) | None => self.next_of_tail(pool)?,
        };
        self.midway = self.has_tail();
        Ok(piece)
    }

    /// Whether the next byte belongs to something of which the peer has got a part already.
    pub(crate) fn is_midway(&self) -> bool {
        self.midway
    }

    fn next_of_tail(&mut self, pool: &Pool) -> Result<Option<SendBytes>, OverBudget> {
        if self.tail.as_slice().is_empty() {
            self.tail = UserBody::default();
        }
        match ::core::mem::take(&mut self.tail).into_body() {
            body if body.as_slice().is_empty() => {
                let end = ::core::mem::take(&mut self.end);
                Ok((!end.is_empty()).then_some(SendBytes::Static(end)))
            }
            Body::Empty => Ok(None),
            Body::Static(bytes) => Ok(Some(SendBytes::Static(bytes))),
            Body::Lease(lease) => Ok(Some(SendBytes::Lease(lease))),
            Body::Bytes(mut bytes) => {
                let piece = bytes.len().min(PIECE_BYTES);
                let copied = pool.try_copy(&bytes[..piece], Kind::Buffers);
                if copied.is_ok() {
                    bytes::Buf::advance(&mut bytes, piece);
                }
                self.tail = Body::Bytes(bytes).into();
                copied.map(|lease| Some(SendBytes::Lease(lease)))
            }
        }
    }
}

/// What a short send has left, in a smaller lease if that is half as large at most: the peer takes nothing more for
/// now, perhaps for long.
pub(crate) fn compacted(pool: &Pool, rest: SendBytes) -> SendBytes {
    match rest {
        SendBytes::Lease(lease) => SendBytes::Lease(smaller(pool, lease)),
        rest => rest,
    }
}

/// The same bytes in a smaller lease, if that is half as large at most and there is room for it.
pub(crate) fn smaller(pool: &Pool, lease: Lease) -> Lease {
    let is_worth = Class::for_len(lease.len()).is_some_and(|class| 2 * class.bytes() <= lease.class().bytes());
    let smaller = if is_worth { pool.try_copy(&lease, lease.kind()).ok() } else { None };
    smaller.unwrap_or(lease)
}

impl Sink for Output {
    /// Into room that was made before.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let lease = self.gathered.as_mut().ok_or(Full)?;
        if lease.extend(bytes) == bytes.len() { Ok(()) } else { Err(Full) }
    }
}

#[cfg(test)]
mod tests;
