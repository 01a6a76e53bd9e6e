//! The windows that we give the peer: what is released, grown, taken back and told (RFC 9113 6.9).

use super::connection::{Replenishing, WINDOW_BYTES};
use super::frame::{FrameHeader, STREAM_ID_MAX, kind};
use super::stream::get;
use super::{Connection, Storage, Stream, StreamKey};
use crate::Error;
use crate::h1::{Full, Sink};

impl Connection {
    /// Bytes of a body are not in memory any more. The peer may send as many, and is told when it is worth a frame,
    /// unless windows are [held](Connection::hold_windows).
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`]; there has to be room for [`STEP_OUTPUT_BYTES_MAX`](super::STEP_OUTPUT_BYTES_MAX).
    pub fn release<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        bytes: usize,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        if let Some(slot) = get(storage.streams, stream) {
            let released = slot.receiving.release(bytes as u32);
            self.receiving.release(released);
            self.replenish_stream(slot_of(storage, stream), out)?;
        }
        Ok(self.replenish_connection(out)?)
    }

    /// As [`release`](Connection::release), without room to tell the peer: it is told with the next that is released,
    /// or that [is not held](Connection::hold_windows).
    pub fn release_deferred(&mut self, stream: StreamKey, bytes: usize, storage: &mut Storage<'_>) {
        if let Some(slot) = get(storage.streams, stream) {
            let released = slot.receiving.release(bytes as u32);
            self.receiving.release(released);
        }
    }

    /// Lets a stream's window, and the connection's with it, grow by so many bytes, which the caller has reserved: for
    /// a body that comes in bulk.
    ///
    /// # Errors
    ///
    /// [`Error::WindowOverflow`] if a window would be more than 2^31 - 1: nothing was changed. [`Error::OutputFull`].
    pub fn grow_window<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        bytes: u32,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let Some(slot) = get(storage.streams, stream) else { return Ok(()) };
        let fits = |total: i64| total + i64::from(bytes) <= i64::from(i32::MAX);
        if !fits(slot.receiving.total()) || !fits(self.receiving.total()) {
            return Err(Error::WindowOverflow);
        }
        slot.receiving.owed += bytes;
        // What was taken back and is still open at the peer is given anew: so the window is never larger than all that
        // was granted at a time.
        let still_open = self.receiving.debt.min(bytes);
        self.receiving.debt -= still_open;
        self.receiving.owed += bytes - still_open;
        self.replenish_stream(slot_of(storage, stream), out)?;
        Ok(self.replenish_connection(out)?)
    }

    /// Takes back so many bytes by which the connection's window was grown: as many that are released are not told. For
    /// when a body that came in bulk is over.
    pub fn shrink_window(&mut self, bytes: u32) {
        self.receiving.debt += bytes;
    }

    /// Stops telling the peer that it may send more, or goes on: what was held back is told then. For times without
    /// memory. Meanwhile a window is told when nearly nothing of it is left and nothing of it is in use, so that a body
    /// that was begun comes to its end, bit by bit.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`]; going on needs room for 13 bytes for each stream and the connection.
    pub fn hold_windows<S: Sink + ?Sized>(
        &mut self,
        is_held: bool,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        self.replenishing = if is_held { Replenishing::Held } else { Replenishing::On };
        for slot in storage.streams.iter_mut().filter(|slot| slot.state.can_receive()) {
            self.replenish_stream(slot, out)?;
        }
        Ok(self.replenish_connection(out)?)
    }

    /// The window that streams have, or soon will.
    fn stream_window(&self) -> u32 {
        self.offer.window_bytes.min(self.own_window.max(0) as u32)
    }

    fn replenish_stream<S: Sink + ?Sized>(&mut self, slot: &mut Stream, out: &mut S) -> Result<(), Full> {
        let is_held = self.replenishing == Replenishing::Held && !slot.receiving.is_used_up(self.stream_window());
        if is_held || !slot.state.can_receive() {
            return Ok(());
        }
        match slot.receiving.update(self.stream_window() / 2) {
            Some(increment) => self.put_update(slot.id, increment, out),
            None => Ok(()),
        }
    }

    pub(super) fn replenish_connection<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Full> {
        if self.holds_window() {
            return Ok(());
        }
        match self.receiving.update(CONNECTION_UPDATE_BYTES) {
            Some(increment) => self.put_update(0, increment, out),
            None => Ok(()),
        }
    }

    /// Whether the next step would tell the peer of the connection's window.
    pub(super) fn owes_update(&self) -> bool {
        let owed = self.receiving.owed.saturating_sub(self.receiving.debt);
        owed >= CONNECTION_UPDATE_BYTES && !self.holds_window()
    }

    fn holds_window(&self) -> bool {
        self.replenishing == Replenishing::Held && !self.receiving.is_used_up(WINDOW_BYTES as u32)
    }

    /// Window updates follow from what we use, not from what the peer asks for: they do not count as its control
    /// frames.
    fn put_update<S: Sink + ?Sized>(&mut self, id: u32, increment: u32, out: &mut S) -> Result<(), Full> {
        debug_assert!(increment > 0 && increment <= STREAM_ID_MAX);
        out.put(&FrameHeader { len: 4, kind: kind::WINDOW_UPDATE, flags: 0, stream: id }.encode())?;
        out.put(&increment.to_be_bytes())
    }
}

fn slot_of<'s>(storage: &'s mut Storage<'_>, key: StreamKey) -> &'s mut Stream {
    &mut storage.streams[usize::from(key.slot)]
}

/// Half of the window that the protocol gives every connection.
const CONNECTION_UPDATE_BYTES: u32 = 32_768;
