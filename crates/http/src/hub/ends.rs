//! The ends of members, and what time brings.

use plimsoll_codec::ws::{CloseCode, FrameHead, Opcode};
use plimsoll_runtime::{Kind, Lease, OverBudget, Pool, SendBytes};
use plimsoll_slab::Key;

use super::Hub;
use super::members::{Members, Shape, Stage};
use super::queue::Pushed;
use crate::exchange::event::HEARTBEAT;
use crate::memory::by_address::Columns;
use crate::websocket::static_close;

impl Members {
    /// Members that have not been asked to leave, from the last place on: the newest tend to be there.
    pub(crate) fn each_open(&self, mut act: impl FnMut(Key, Columns) -> bool) {
        let table = self.table.borrow();
        for place in (0..table.places()).rev() {
            let Some((key, place)) = table.key_at(place).and_then(|key| Some((key, table.get(key)?))) else { continue };
            if matches!(place.stage, Stage::Open | Stage::Asked)
                && let Some(columns) = place.columns()
                && !act(key, columns)
            {
                return;
            }
        }
    }

    /// Asks a member to leave, as others wait for memory: a WebSocket with 1013, a stream of events with its end.
    pub(crate) fn give_way(&self, key: Key) {
        self.begin_close(key, Some(CloseCode::TRY_LATER));
    }

    /// Asks a member to leave: it is told once what is on its way has left. What waits for it is dropped.
    pub(super) fn begin_close(&self, key: Key, code: Option<CloseCode>) {
        let Some(hub) = self.hub_of(key) else { return };
        let mut table = self.table.borrow_mut();
        let is_sending = table.is_sending(key);
        let place = table.get_mut(key).expect("found above");
        if matches!(place.stage, Stage::Closing(_) | Stage::Left) {
            return;
        }
        place.stage = Stage::Closing(code);
        (place.queue, place.talk, place.strain) = (None, None, 0);
        if is_sending {
            return table.schedule(key, hub.0.config.websocket.close_timeout);
        }
        drop(table);
        self.say_close(key, &hub, code);
    }

    /// Sends the end: a close frame, or the last chunk.
    pub(super) fn say_close(&self, key: Key, hub: &Hub, code: Option<CloseCode>) {
        let mut table = self.table.borrow_mut();
        let Some(place) = table.get_mut(key) else { return };
        place.stage = Stage::Left;
        let end = match place.shape {
            Shape::WebSocket => match static_close(code) {
                Some(bytes) => Ok(Some(SendBytes::Static(bytes))),
                None => close_frame(&self.pool, code).map(|lease| Some(SendBytes::Lease(lease))),
            },
            Shape::Chunks => Ok(Some(SendBytes::Static(LAST_CHUNK))),
            Shape::Plain => Ok(None),
        };
        let said = match end {
            // Without room for an operation: all of it at once, as nothing is on its way.
            Ok(Some(SendBytes::Static(bytes))) => match self.send(&mut table, key, hub, SendBytes::Static(bytes)) {
                Err(over) => {
                    table.send_now(key, bytes).ok().filter(|sent| *sent == bytes.len()).map(|_| false).ok_or(over)
                }
                Ok(()) => Ok(true),
            },
            Ok(Some(bytes)) => self.send(&mut table, key, hub, bytes).map(|()| true),
            Ok(None) => Ok(false),
            Err(over) => Err(over),
        };
        if said.is_ok() {
            table.schedule(key, hub.0.config.websocket.close_timeout);
        }
        drop(table);
        match said {
            Ok(true) => {}
            Ok(false) => self.end(key, hub),
            Err(_) => self.close(key),
        }
    }

    /// The end has left: shuts our half down and reads on until the peer has closed, or for a while. Bytes that nobody
    /// read would make the kernel answer with a reset, which can overtake what we sent.
    pub(super) fn end(&self, key: Key, hub: &Hub) {
        let mut table = self.table.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, hub.0.config.websocket.close_timeout);
        drop(table);
        self.receive(key);
    }

    /// A member was silent for long, or does not take what is sent.
    pub(super) fn due(&self, key: Key) {
        let Some(hub) = self.hub_of(key) else { return };
        let mut table = self.table.borrow_mut();
        let is_sending = table.is_sending(key);
        let place = table.get_mut(key).expect("found above");
        let is_late = place.talk.as_ref().is_some_and(|talk| talk.is_late());
        place.strain = 0;
        match (place.stage, place.shape) {
            (Stage::Closing(_) | Stage::Left, _) => {
                drop(table);
                self.close(key);
            }
            _ if is_sending => {
                drop(table);
                hub.0.count(Pushed::Overrun);
                self.close(key);
            }
            _ if is_late => {
                drop(table);
                self.begin_close(key, Some(CloseCode::POLICY));
            }
            _ if place.has_output() && place.has_starved_for(hub.0.config.websocket.send_timeout) => {
                drop(table);
                hub.0.count(Pushed::Overrun);
                self.begin_close(key, Some(CloseCode::TRY_LATER));
            }
            _ if place.has_output() => {
                drop(table);
                self.advance(key, &hub);
            }
            (Stage::Asked, _) => {
                drop(table);
                self.begin_close(key, Some(CloseCode::POLICY));
            }
            (Stage::Open, shape) => {
                let beat = match shape {
                    Shape::WebSocket => PING,
                    Shape::Chunks => HEARTBEAT_CHUNK,
                    Shape::Plain => HEARTBEAT,
                };
                if shape == Shape::WebSocket {
                    place.stage = Stage::Asked;
                }
                // Without room for a send it is asked again the next time.
                let _asked = self.send(&mut table, key, &hub, SendBytes::Static(beat));
            }
        }
    }
}

fn close_frame(pool: &Pool, code: Option<CloseCode>) -> Result<Lease, OverBudget> {
    let code = code.map(|code| code.0.to_be_bytes());
    let payload = code.as_ref().map_or(&[][..], |code| &code[..]);
    let head = FrameHead::message(Opcode::Close, payload.len() as u64).encode();
    let mut lease = pool.try_acquire(head.as_bytes().len() + payload.len(), Kind::Buffers)?;
    lease.extend(head.as_bytes());
    lease.extend(payload);
    Ok(lease)
}

const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const PING: &[u8] = &[0x89, 0];
const HEARTBEAT_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";

#[cfg(test)]
mod tests {
    use super::{HEARTBEAT, HEARTBEAT_CHUNK, LAST_CHUNK, PING};
    use plimsoll_codec::h1::{BodyDecoder, BodyEvent, Framing, Limits};
    use plimsoll_codec::ws::{FrameHead, Opcode};

    #[test]
    fn what_is_sent_from_static_bytes_is_what_the_codec_encodes() {
        assert_eq!(FrameHead::message(Opcode::Ping, 0).encode().as_bytes(), PING);
        let stream = [HEARTBEAT_CHUNK, LAST_CHUNK].concat();
        let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
        let decoded = decoder.decode(&stream).expect("a chunk");
        let BodyEvent::Data(range) = decoded.event else { panic!("{decoded:?}") };
        assert_eq!(&stream[range], HEARTBEAT);
        let end = decoder.decode(&stream[decoded.consumed..]).expect("the last chunk");
        assert!(matches!(end.event, BodyEvent::End | BodyEvent::Trailers(_)), "{end:?}");
    }
}
