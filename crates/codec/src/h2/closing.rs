//! How streams and the connection end: resets (RFC 9113 6.4) and GOAWAY (6.8).

use super::connection::{Going, Input};
use super::control::SHUTDOWN_PING;
use super::frame::{STREAM_ID_MAX, kind};
use super::stream::get;
use super::{Connection, ErrorCode, Storage, Stream, StreamKey, StreamState};
use crate::Error;
use crate::h1::{Full, Sink};
use crate::misbehaviour::Verdict;

impl Connection {
    /// Ends a stream from our side. Its slot stays until it is [forgotten](Connection::forget).
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn reset<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        code: ErrorCode,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        if self.close(storage, stream) {
            self.given_up.note(stream.id);
            self.put_reset(stream.id, code, out)?;
        }
        Ok(())
    }

    /// Gives the slot of a stream free, when nobody works on it any more. A stream that is not over is reset: with
    /// NO_ERROR if its response is complete, so that the client stops sending the rest of its request (RFC 9113 8.1),
    /// else with INTERNAL_ERROR.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn forget<S: Sink + ?Sized>(
        &mut self,
        stream: StreamKey,
        storage: &mut Storage<'_>,
        out: &mut S,
    ) -> Result<(), Error> {
        let Some(slot) = get(storage.streams, stream) else { return Ok(()) };
        match slot.state {
            StreamState::Closed | StreamState::Reset | StreamState::Free => {
                if slot.state == StreamState::Closed {
                    self.guard.completed(&self.limits);
                }
                let held = slot.receiving.held;
                slot.receiving.release(held);
                self.receiving.release(held);
                if !self.reset_by_us.has(stream.id) {
                    self.ended.note(stream.id);
                }
            }
            StreamState::HalfClosedLocal => self.reset(stream, ErrorCode::NoError, storage, out)?,
            StreamState::Open | StreamState::HalfClosedRemote => {
                self.reset(stream, ErrorCode::InternalError, storage, out)?;
            }
        }
        storage.streams[usize::from(stream.slot)] = Stream::FREE;
        debug_assert!(self.live > 0, "every stream in a slot is counted");
        self.live -= 1;
        Ok(self.replenish_connection(out)?)
    }

    /// Begins a shutdown (RFC 9113 6.8): asks the peer to open no more streams, and with a ping when that has reached
    /// it. When the ping is answered, [`shutdown_finish`](Connection::shutdown_finish) follows by itself; call it after
    /// a while if the peer does not answer.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn shutdown<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        if self.going != Going::Serving {
            return Ok(());
        }
        self.going = Going::Announced;
        self.put_goaway(STREAM_ID_MAX, ErrorCode::NoError, out)?;
        Ok(self.put_control(kind::PING, 0, 0, &SHUTDOWN_PING, out)?)
    }

    /// Tells the peer which stream was the last, and serves no new ones from now on. When all have ended, the
    /// connection can be closed.
    ///
    /// # Errors
    ///
    /// [`Error::OutputFull`].
    pub fn shutdown_finish<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Error> {
        if self.going == Going::Final {
            return Ok(());
        }
        self.going = Going::Final;
        Ok(self.put_goaway(self.processed_id, ErrorCode::NoError, out)?)
    }

    /// A peer that misbehaves may finish what it has begun.
    pub(super) fn warn<S: Sink + ?Sized>(&mut self, out: &mut S) -> Result<(), Full> {
        if self.going == Going::Final || self.guard.misbehaviour.verdict() == Verdict::Tolerated {
            return Ok(());
        }
        self.going = Going::Final;
        self.put_goaway(self.processed_id, ErrorCode::EnhanceYourCalm, out)
    }

    /// Ends the connection: GOAWAY, and nothing after it.
    pub(super) fn fail<S: Sink + ?Sized>(&mut self, error: Error, out: &mut S) -> Error {
        self.input = Input::Failed(error);
        match self.put_goaway(self.processed_id, ErrorCode::of(error), out) {
            Ok(()) => error,
            Err(Full) => Error::OutputFull,
        }
    }

    /// Whether nothing that comes on a stream that is over is an error: it may have been on its way when we gave the
    /// stream up, or behind our last GOAWAY.
    pub(super) const fn is_passed_over(&self, id: u32) -> bool {
        self.given_up.has(id) || id > self.processed_id
    }

    pub(super) fn put_reset<S: Sink + ?Sized>(&mut self, id: u32, code: ErrorCode, out: &mut S) -> Result<(), Full> {
        self.put_control(kind::RST_STREAM, 0, id, &(code as u32).to_be_bytes(), out)
    }

    fn put_goaway<S: Sink + ?Sized>(&mut self, last_id: u32, code: ErrorCode, out: &mut S) -> Result<(), Full> {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last_id.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        self.put_control(kind::GOAWAY, 0, 0, &payload, out)
    }
}
