//! A request's body, from what was received to what its handler gets.

use ::core::ops::Range;

use plimsoll_codec::h1::{BodyEvent, RequestState};
use plimsoll_runtime::{Kind, Lease};

use crate::connection::Active;
use crate::core::Core;
use crate::error::Error;

/// What a look at the received part of a body gave.
pub(crate) enum Decoded {
    Data(Lease),
    End,
    NeedMore,
}

impl Core {
    /// The next part of a body from what was received.
    pub(crate) fn decode(&self, active: &mut Active) -> Result<Decoded, Error> {
        if active.exchange.request() == RequestState::Done {
            return Ok(Decoded::End);
        }
        if active.exchange.request() != RequestState::Body {
            // What broke the body is told again; a peer that was too slow broke nothing.
            return Err(active.decoder.failure().map_or(Error::Gone, Error::Peer));
        }
        let Some(mut input) = active.input.take() else { return Ok(Decoded::NeedMore) };
        active.exchange.body_started();
        let found = self.gather_data(active, &mut input);
        let (data, used) = match found {
            Ok(found) => found,
            Err(error) => {
                let _failed_before = active.exchange.request_failed();
                return Err(error);
            }
        };
        if data.is_empty() {
            input.consume(used);
            active.input = (!input.is_empty()).then_some(input);
            let is_over = active.exchange.request() == RequestState::Done;
            return Ok(if is_over { Decoded::End } else { Decoded::NeedMore });
        }
        if used == input.len() {
            input.truncate(data.end);
            input.consume(data.start);
            return Ok(Decoded::Data(input));
        }
        // The shorter of the two is copied: the data, or what was received behind it.
        let data_is_shorter = data.len() < input.len() - used;
        let copied = if data_is_shorter { &input[data.clone()] } else { &input[used..] };
        let copied = self.pool.try_copy(copied, Kind::Buffers).inspect_err(|_| {
            let _over_before = active.exchange.request_failed();
        })?;
        if data_is_shorter {
            input.consume(used);
            active.input = Some(input);
            return Ok(Decoded::Data(copied));
        }
        active.input = Some(copied);
        input.truncate(data.end);
        input.consume(data.start);
        Ok(Decoded::Data(input))
    }

    /// Decodes what was received as far as it goes. The data of all chunks is moved together; where it is then, and how much of the input was used.
    fn gather_data(&self, active: &mut Active, input: &mut Lease) -> Result<(Range<usize>, usize), Error> {
        let (mut data, mut used) = (0..0, 0);
        loop {
            let decoded = match active.decoder.decode(&input[used..]) {
                Ok(decoded) => decoded,
                Err(error) if data.is_empty() => return Err(error.into()),
                // What came before it is told first, and this when more is asked for.
                Err(_) => {
                    let _failed_before = active.exchange.request_failed();
                    return Ok((data, input.len()));
                }
            };
            match decoded.event {
                BodyEvent::Data(range) if data.is_empty() => data = used + range.start..used + range.end,
                BodyEvent::Data(range) => {
                    input.as_mut_slice().copy_within(used + range.start..used + range.end, data.end);
                    data.end += range.len();
                }
                BodyEvent::Trailers(range) => {
                    let section = &input[used + range.start..used + range.end];
                    active.trailers = Some(self.pool.try_copy(section, Kind::Buffers)?);
                }
                BodyEvent::End => {
                    active.exchange.body_received()?;
                    return Ok((data, used + decoded.consumed));
                }
                BodyEvent::NeedMore => return Ok((data, used + decoded.consumed)),
            }
            used += decoded.consumed;
            // After the last data of a body with a length nothing more comes.
            if active.decoder.is_done() {
                active.exchange.body_received()?;
                return Ok((data, used));
            }
        }
    }
}
