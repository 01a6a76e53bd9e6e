//! A request's body, from what was received to what its handler gets.

use ::core::ops::Range;

use plimsoll_codec::h1::{BodyEvent, RequestState};
use plimsoll_runtime::{Kind, Lease};
use plimsoll_slab::Key;

use crate::base::error::Error;
use crate::h1::active::Active;
use crate::memory::desk::Desk;

/// What a look at the received part of a body gave.
pub(crate) enum Decoded {
    Data(Lease),
    End,
    NeedMore,
}

impl Active {
    /// The next part of a body from what was received.
    pub(crate) fn decode(&mut self, desk: &Desk) -> Result<Decoded, Error> {
        if self.exchange.request() == RequestState::Done {
            return Ok(Decoded::End);
        }
        if self.exchange.request() != RequestState::Body {
            // What broke the body is told again; a peer that was too slow broke nothing.
            return Err(self.decoder.failure().map_or_else(|| self.course.error(), Error::Peer));
        }
        let Some(mut input) = self.take_input() else { return Ok(Decoded::NeedMore) };
        self.exchange.body_started();
        let before = self.decoder.clone();
        let Gathered { data, used, is_over, is_moved } = match self.gather_data(desk, &mut input) {
            Ok(gathered) => gathered,
            Err(error @ Error::OverBudget(_)) => {
                // As if it had not been looked at: there may be room later.
                self.decoder = before;
                self.input = Some(input);
                return Err(error);
            }
            Err(error) => {
                let _failed_before = self.exchange.request_failed();
                return Err(error);
            }
        };
        let (piece, rest) = if data.is_empty() {
            input.consume(used);
            (None, Some(input))
        } else if used == input.len() {
            input.truncate(data.end);
            input.consume(data.start);
            (Some(input), None)
        } else {
            // The shorter of the two is copied: the data, or what was received behind it.
            let data_is_shorter = data.len() < input.len() - used;
            let copied = if data_is_shorter { &input[data.clone()] } else { &input[used..] };
            match desk.pool.try_copy(copied, Kind::Buffers) {
                Ok(copied) if data_is_shorter => {
                    input.consume(used);
                    (Some(copied), Some(input))
                }
                Ok(copied) => {
                    input.truncate(data.end);
                    input.consume(data.start);
                    (Some(input), Some(copied))
                }
                Err(over) => {
                    if is_moved {
                        // What is decoded cannot be put back: it is kept in front of what is not.
                        let bytes = data.len();
                        input.as_mut_slice().copy_within(data, used - bytes);
                        input.consume(used - bytes);
                        self.decoded_bytes = bytes as u32;
                    } else {
                        self.decoder = before;
                    }
                    self.input = Some(input);
                    return Err(over.into());
                }
            }
        };
        self.input = rest.filter(|rest| !rest.is_empty());
        self.decoded_bytes = 0;
        if is_over {
            self.exchange.body_received()?;
        }
        Ok(match piece {
            Some(piece) => Decoded::Data(piece),
            None if is_over => Decoded::End,
            None => Decoded::NeedMore,
        })
    }

    /// Whether an answer that was begun may go on: one to a request whose body turned out to be malformed is never
    /// completed.
    ///
    /// # Errors
    ///
    /// Why the connection is being closed; [`Error::Peer`] with what is wrong with the body.
    pub(crate) fn may_go_on(&mut self, desk: &Desk, key: Key) -> Result<(), Error> {
        if self.is_closing() {
            return Err(self.course.error());
        }
        let Some(error) = self.status.and_then(|status| self.malformed_for(status)) else { return Ok(()) };
        self.fail(desk, error.status());
        self.list(desk, key);
        Err(Error::Peer(error))
    }

    /// Whether what nobody has read of a body, as its answer begins, will be read and dropped, so that the connection
    /// goes on behind it. The answer's head says which it is: a client sends its next request only where it finds a
    /// server.
    pub(crate) fn will_drain(&self, desk: &Desk, is_whole: bool) -> bool {
        // A handler that streams its answer most likely goes on to read.
        let unread = match self.decoder.remaining() {
            None if is_whole => least_unread(self),
            left => Ok(left.unwrap_or_else(|| self.decoder.contiguous())),
        };
        unread.is_ok_and(|bytes| bytes <= u64::from(desk.config.drain_bytes_max))
    }

    /// Decodes what was received as far as it goes. The data of all chunks is moved together, unless memory is short:
    /// what was moved cannot be put back.
    ///
    /// # Errors
    ///
    /// Of what was received, if there is no data before it; [`Error::OverBudget`] for trailers, after nothing was done.
    fn gather_data(&mut self, desk: &Desk, input: &mut Lease) -> Result<Gathered, Error> {
        let decoded_before = self.decoded_bytes as usize;
        let mut found = Gathered { data: 0..decoded_before, used: decoded_before, is_over: false, is_moved: false };
        loop {
            if !found.data.is_empty() && desk.is_filling() {
                return Ok(found);
            }
            let before = self.decoder.clone();
            let used = found.used;
            let decoded = match self.decoder.decode(&input[used..]) {
                Ok(decoded) => decoded,
                Err(error) if found.data.is_empty() => return Err(error.into()),
                // What came before it is told first, and this when more is asked for.
                Err(_) => {
                    let _failed_before = self.exchange.request_failed();
                    return Ok(Gathered { used: input.len(), ..found });
                }
            };
            found.used += decoded.consumed;
            match decoded.event {
                BodyEvent::Data(range) if found.data.is_empty() => found.data = used + range.start..used + range.end,
                BodyEvent::Data(range) => {
                    input.as_mut_slice().copy_within(used + range.start..used + range.end, found.data.end);
                    found.data.end += range.len();
                    found.is_moved = true;
                }
                BodyEvent::Trailers(range) => {
                    let section = &input[used + range.start..used + range.end];
                    match desk.pool.try_copy(section, Kind::Buffers) {
                        Ok(section) => self.trailers = Some(section),
                        Err(over) if found.data.is_empty() => return Err(over.into()),
                        // The data first, and the trailers when more is asked for.
                        Err(_) => {
                            self.decoder = before;
                            return Ok(Gathered { used, ..found });
                        }
                    }
                }
                BodyEvent::End => return Ok(Gathered { is_over: true, ..found }),
                BodyEvent::NeedMore => return Ok(found),
            }
            // After the last data of a body with a length nothing more comes.
            if self.decoder.is_done() {
                return Ok(Gathered { is_over: true, ..found });
            }
        }
    }
}

/// So many bytes at least are still to be read of a body in chunks: those that have come or were announced.
///
/// # Errors
///
/// What is wrong with the part that has come.
fn least_unread(active: &Active) -> Result<u64, plimsoll_codec::Error> {
    let mut decoder = active.decoder.clone();
    let mut input = &active.input.as_deref().unwrap_or_default()[active.decoded_bytes as usize..];
    let mut unread = u64::from(active.decoded_bytes);
    loop {
        let decoded = decoder.decode(input)?;
        match decoded.event {
            BodyEvent::Data(range) => unread += range.len() as u64,
            BodyEvent::Trailers(_) => {}
            BodyEvent::NeedMore | BodyEvent::End => return Ok(decoder.contiguous().saturating_add(unread)),
        }
        input = &input[decoded.consumed..];
    }
}

/// What was decoded of an input.
struct Gathered {
    /// Where the data is.
    data: Range<usize>,
    /// How much of the input is decoded.
    used: usize,
    /// The body ends here.
    is_over: bool,
    /// Data of several chunks was moved together.
    is_moved: bool,
}
