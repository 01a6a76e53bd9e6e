//! Members that are streams of events, each a connection of HTTP/1 that has left its server's table for one of theirs.
//!
//! ```text
//!            join                   asked to leave, too slow, the server stops
//!  Open <-----------                +---------------------------------> Closing (the end is to be sent)
//!    |  silent for long: heartbeat  |                                      |
//!    +------------------------------+                                      v
//!                          the peer has ended, or time is up <-- Left (our half is shut down)
//! ```
//!
//! A send that finds no room for its operation is tried again; when it has found none for the time of a send, the
//! member is too slow, as one that does not take what is sent.

use ::core::future::{Future as _, poll_fn};
use ::core::num::NonZeroU32;
use ::core::pin::pin;
use ::core::task::Poll;
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_runtime::net::{Bytes, Event as Happened, Stream, Table};
use plimsoll_runtime::{OverBudget, SendBytes, SharedBytes, signal, spawn};
use plimsoll_slab::Key;

use super::members::{Joining, Members};
use super::queue::Pushed;
use super::{Hub, Post};
use crate::Error;
use crate::exchange::event::HEARTBEAT;
use crate::exchange::guard::ConnectionGuard;
use crate::memory::by_address::Columns;
use crate::websocket::{Handed, Number};

/// How events are framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    #[default]
    Chunks,
    /// They end with their connection, as in HTTP/1.0.
    Plain,
}

impl Framing {
    fn bytes(self, post: &Post) -> Option<SharedBytes> {
        match self {
            Self::Chunks => post.chunk(),
            Self::Plain => post.events(),
        }
    }
}

/// The task that steps streams of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runner {
    None,
    Runs,
    /// The server stops: when they are gone, it ends.
    Stops,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// To be ended, and closed.
    Closing,
    /// Ended; the peer is to close.
    Left,
}

/// A stream of events in the table.
#[derive(Default)]
pub(super) struct EventStream {
    guard: Option<ConnectionGuard>,
    /// `None` only until it has joined.
    member: Option<Number>,
    /// Since when what waits finds no room, in milliseconds.
    without_room_since: Option<NonZeroU32>,
    /// Received and dropped since the last heartbeat, in bytes.
    dropped_bytes: u32,
    framing: Framing,
    stage: Stage,
}

impl EventStream {
    /// Whether what waits has found no room for so long.
    fn has_waited_for(&self, time: Duration) -> bool {
        let for_ms = self.without_room_since.zip(now_ms()).map(|(since, now)| now.get().wrapping_sub(since.get()));
        for_ms.is_some_and(|for_ms| Duration::from_millis(for_ms.into()) >= time)
    }
}

/// Bytes of one that waits, beside its place. Its armed receive and its readiness come on top.
pub(crate) const EVENT_STREAM_BYTES: usize = Table::<EventStream>::ENTRY_BYTES;

impl Members {
    /// Starts the task, unless it runs.
    fn start_runner(self: &Rc<Self>) -> Result<(), Error> {
        if self.runner.get() == Runner::None {
            let members = Rc::clone(self);
            drop(spawn(async move { members.run().await })?);
            self.runner.set(Runner::Runs);
        }
        Ok(())
    }

    /// Steps streams of events, until the server has stopped and they are gone.
    async fn run(&self) {
        let mut stopped = pin!(signal::stopped());
        loop {
            let stops = poll_fn(|cx| {
                if self.runner.get() != Runner::Stops && stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                let ready = self.streams.borrow_mut().poll_ready(cx).map(|()| false);
                self.waker.set(ready.is_pending().then(|| cx.waker().clone()));
                ready
            })
            .await;
            if stops {
                self.runner.set(Runner::Stops);
                let keys: Vec<Key> = self.streams.borrow().keys().collect();
                keys.into_iter().for_each(|key| self.end_events(key));
            }
            loop {
                let event = self.streams.borrow_mut().next();
                let Some(event) = event else { break };
                self.step(event);
            }
            if self.runner.get() == Runner::Stops && self.streams.borrow().is_empty() {
                self.runner.set(Runner::None);
                return;
            }
        }
    }

    fn step(&self, event: Happened) {
        match event {
            Happened::Received(key, bytes) => self.received(key, bytes),
            Happened::Sent(key, rest) => self.sent_events(key, rest),
            Happened::Due(key) => self.due(key),
            Happened::Ended(key) | Happened::Failed(key, _) | Happened::Stalled(key) => self.close(key),
            Happened::Partial(key) => self.streams.borrow_mut().bound_partial(key, PARTIAL_WITHIN),
            Happened::PeerClosed(_) | Happened::Readable(_) | Happened::Accepted(_) | Happened::TurnedAway => {
                debug_assert!(false, "never asked for")
            }
        }
    }

    /// Takes a connection in, whose head has left.
    pub(crate) fn join_events(
        self: &Rc<Self>,
        hub: &Hub,
        stream: Stream,
        mut guard: ConnectionGuard,
        framing: Framing,
    ) -> Result<(), Error> {
        guard.becomes_member();
        self.start_runner()?;
        let mut table = self.streams.borrow_mut();
        table.reserve_entries(1)?;
        let adopted = table.adopt(stream, EventStream { guard: Some(guard), framing, ..EventStream::default() })?;
        drop(table);
        let key = adopted.key;
        let member = match self.join(hub, Joining::Events(key)) {
            Ok(member) => member,
            Err(error) => {
                drop(self.streams.borrow_mut().close(key));
                return Err(error);
            }
        };
        let mut table = self.streams.borrow_mut();
        table.get_mut(key).expect("adopted above").member = Some(member);
        self.rest(&mut table, key, hub);
        drop(table);
        let closes = self.call(member, |handler, member| handler.joined(member));
        if closes.is_some() || self.runner.get() == Runner::Stops {
            self.end_events(key);
        }
        match adopted.unread {
            Some(bytes) => self.received(key, Bytes::Owned(bytes)),
            None if adopted.ended => self.close(key),
            None => self.receive(key),
        }
        // Its time has begun, which nobody waits for yet.
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    /// Those that have not been asked to leave, from the last place on: the newest tend to be there.
    pub(crate) fn each_open(&self, mut act: impl FnMut(Key, Columns) -> bool) {
        let table = self.streams.borrow();
        for place in (0..table.places()).rev() {
            if let Some(key) = table.key_at(place)
                && let Some(stream) = table.get(key).filter(|stream| stream.stage == Stage::Open)
                && let Some(guard) = &stream.guard
                && !act(key, guard.columns())
            {
                return;
            }
        }
    }

    /// Sends a message if nothing is on its way.
    pub(super) fn hand_over_events(&self, hub: &Hub, key: Key, post: &Post) -> Handed {
        let mut table = self.streams.borrow_mut();
        let Some(stream) = table.get(key).filter(|stream| stream.stage == Stage::Open) else { return Handed::Closed };
        let Some(bytes) = stream.framing.bytes(post) else { return Handed::Closed };
        if table.is_sending(key) {
            return Handed::Waits;
        }
        if self.send(&mut table, key, hub, SendBytes::Shared(bytes)).is_ok() {
            return Handed::Sent;
        }
        // Nothing is in flight whose end would bring it on its way.
        table.schedule(key, RETRY);
        Handed::NoRoom
    }

    /// Sends; at the memory line the bytes are dropped.
    fn send(&self, table: &mut Table<EventStream>, key: Key, hub: &Hub, bytes: SendBytes) -> Result<(), OverBudget> {
        table.schedule(key, hub.0.config.websocket.send_timeout);
        table.send(key, bytes).map_err(|(over, _bytes)| over)
    }

    /// A socket has taken bytes.
    fn sent_events(&self, key: Key, rest: SendBytes) {
        let Some((hub, member)) = self.hub_of_stream(key) else { return };
        if !rest.is_empty() {
            let sent = self.send(&mut self.streams.borrow_mut(), key, &hub, rest);
            if sent.is_err() {
                self.close(key);
            }
            return;
        }
        self.sent_by(member);
        self.advance(key, &hub, member);
    }

    /// Nothing is in flight: sends what is next.
    fn advance(&self, key: Key, hub: &Hub, member: Number) {
        let Some(stage) = self.streams.borrow().get(key).map(|stream| stream.stage) else { return };
        match stage {
            Stage::Left => return self.end(key, hub),
            Stage::Closing => return self.send_end(key, hub),
            Stage::Open => {}
        }
        let mut table = self.streams.borrow_mut();
        let framing = table.get(key).expect("found above").framing;
        let Some(bytes) = self.first_of(member, |post| framing.bytes(post)) else {
            return self.rest(&mut table, key, hub);
        };
        let sent = self.send(&mut table, key, hub, SendBytes::Shared(bytes));
        if sent.is_err() {
            table.schedule(key, RETRY);
        }
        let stream = table.get_mut(key).expect("found above");
        match sent {
            // It leaves the queue when it is on its way: one that finds no room stays the first.
            Ok(()) => {
                stream.without_room_since = None;
                self.begin_send_of(member);
            }
            Err(_) => stream.without_room_since = stream.without_room_since.or_else(now_ms),
        }
    }

    /// Nothing is to be sent: looks again when it has been silent for a while.
    fn rest(&self, table: &mut Table<EventStream>, key: Key, hub: &Hub) {
        match hub.0.config.events.heartbeat {
            Some(after) => table.schedule(key, after),
            None => table.unschedule(key),
        }
    }

    /// What a listener says is dropped.
    fn received(&self, key: Key, bytes: Bytes) {
        let mut table = self.streams.borrow_mut();
        let Some(stream) = table.get_mut(key) else { return };
        stream.dropped_bytes = stream.dropped_bytes.saturating_add(bytes.len() as u32);
        let is_too_much = stream.dropped_bytes > DROPPED_BYTES_MAX;
        drop((table, bytes));
        if is_too_much { self.close(key) } else { self.receive(key) }
    }

    /// Asks one to leave: it ends behind what is on its way. What waits for it is dropped.
    pub(crate) fn end_events(&self, key: Key) {
        let Some((hub, member)) = self.hub_of_stream(key) else { return };
        let mut table = self.streams.borrow_mut();
        let is_sending = table.is_sending(key);
        let stream = table.get_mut(key).expect("found above");
        if stream.stage != Stage::Open {
            return;
        }
        (stream.stage, stream.dropped_bytes) = (Stage::Closing, 0);
        if is_sending {
            table.schedule(key, hub.0.config.websocket.close_timeout);
        }
        drop(table);
        self.drop_queue(member);
        if !is_sending {
            self.send_end(key, &hub);
        }
    }

    /// Sends the end: the last chunk, if there are chunks.
    fn send_end(&self, key: Key, hub: &Hub) {
        let mut table = self.streams.borrow_mut();
        let Some(stream) = table.get_mut(key) else { return };
        stream.stage = Stage::Left;
        let is_on_its_way = match stream.framing {
            Framing::Plain => Ok(false),
            // Without room for an operation: all of it at once, as nothing is on its way.
            Framing::Chunks => match self.send(&mut table, key, hub, SendBytes::Static(LAST_CHUNK)) {
                Ok(()) => Ok(true),
                Err(over) => {
                    let sent = table.send_now(key, LAST_CHUNK).ok().filter(|sent| *sent == LAST_CHUNK.len());
                    sent.map(|_| false).ok_or(over)
                }
            },
        };
        if is_on_its_way.is_ok() {
            table.schedule(key, hub.0.config.websocket.close_timeout);
        }
        drop(table);
        match is_on_its_way {
            Ok(true) => {}
            Ok(false) => self.end(key, hub),
            Err(_) => self.close(key),
        }
    }

    /// The end has left: shuts our half down and reads on until the peer has closed, or for a while. Bytes that nobody
    /// read would make the kernel answer with a reset, which can overtake what we sent.
    fn end(&self, key: Key, hub: &Hub) {
        let mut table = self.streams.borrow_mut();
        table.shutdown_write(key);
        table.schedule(key, hub.0.config.websocket.close_timeout);
        drop(table);
        self.receive(key);
    }

    /// One was silent for long, or does not take what is sent.
    fn due(&self, key: Key) {
        let Some((hub, member)) = self.hub_of_stream(key) else { return };
        let has_post = self.places.borrow().get(member).is_some_and(|place| place.queue.is_some());
        let mut table = self.streams.borrow_mut();
        let is_sending = table.is_sending(key);
        let stream = table.get_mut(key).expect("found above");
        stream.dropped_bytes = 0;
        let is_late = has_post && stream.has_waited_for(hub.0.config.websocket.send_timeout);
        match stream.stage {
            Stage::Closing | Stage::Left => {
                drop(table);
                self.close(key);
            }
            Stage::Open if is_sending => {
                drop(table);
                hub.0.count(Pushed::Overrun);
                self.close(key);
            }
            Stage::Open if is_late => {
                drop(table);
                hub.0.count(Pushed::Overrun);
                self.end_events(key);
            }
            Stage::Open if has_post => {
                drop(table);
                self.advance(key, &hub, member);
            }
            Stage::Open => {
                let beat = match stream.framing {
                    Framing::Chunks => HEARTBEAT_CHUNK,
                    Framing::Plain => HEARTBEAT,
                };
                // Without room for it, the next time.
                let _no_room = self.send(&mut table, key, &hub, SendBytes::Static(beat));
            }
        }
    }

    /// Arms the receive of one that waits.
    fn receive(&self, key: Key) {
        let mut table = self.streams.borrow_mut();
        let armed = if table.get(key).is_some() { table.receive(key) } else { Ok(()) };
        drop(table);
        if armed.is_err() {
            self.close(key);
        }
    }

    /// Takes one out, at once.
    fn close(&self, key: Key) {
        let mut table = self.streams.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let stream = table.close(key);
        drop(table);
        // Its connection is closed: it does not count any more.
        drop(stream.guard);
        stream.member.into_iter().for_each(|member| self.leave(member));
    }

    fn hub_of_stream(&self, key: Key) -> Option<(Hub, Number)> {
        let member = self.streams.borrow().get(key)?.member?;
        Some((self.hub_of(member)?, member))
    }
}

/// What is dropped of one that should say nothing, between two heartbeats.
const DROPPED_BYTES_MAX: u32 = 64 * 1_024;
/// A record that has begun to come from a client, which has nothing to say, is whole within this time.
const PARTIAL_WITHIN: Duration = Duration::from_secs(30);
/// When a send is tried again for which there was no room. That goes on for the time of a send.
const RETRY: Duration = Duration::from_millis(250);
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
const HEARTBEAT_CHUNK: &[u8] = b"3\r\n:\n\n\r\n";

/// Milliseconds of the clock, which come again after weeks.
fn now_ms() -> Option<NonZeroU32> {
    NonZeroU32::new(plimsoll_runtime::now().as_millis() as u32)
}

#[cfg(test)]
mod tests {
    use super::{HEARTBEAT, HEARTBEAT_CHUNK, LAST_CHUNK};
    use plimsoll_codec::h1::{BodyDecoder, BodyEvent, Framing, Limits};

    #[test]
    fn what_is_sent_from_static_bytes_is_what_the_codec_encodes() {
        let stream = [HEARTBEAT_CHUNK, LAST_CHUNK].concat();
        let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
        let decoded = decoder.decode(&stream).expect("a chunk");
        let BodyEvent::Data(range) = decoded.event else { panic!("{decoded:?}") };
        assert_eq!(&stream[range], HEARTBEAT);
        let end = decoder.decode(&stream[decoded.consumed..]).expect("the last chunk");
        assert!(matches!(end.event, BodyEvent::End | BodyEvent::Trailers(_)), "{end:?}");
    }
}
