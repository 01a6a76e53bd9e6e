//! The members of a server on one worker: a table of connections without tasks, and what moves messages to them.
//!
//! ```text
//!            join                      asked to leave, too slow, the server stops
//!  Open <-----------                  +-------------------------------------------> Closing (the end is to be sent)
//!   |  silent for long: pinged        |                                                |
//!  Asked ---------------- silent still+                                                v
//!   \--- bytes come: Open                     the peer has ended, or time is up <-- Left (our half is shut down)
//! ```
//!
//! One send is in flight for each member at most. What is published meanwhile waits in the member's queue, which exists
//! only then. A send that finds no room for its operation is tried again; when it has found none for the time of a
//! send, the member is too slow, as one that does not take what is sent.

use ::core::cell::{Cell, RefCell};
use ::core::fmt;
use ::core::future::poll_fn;
use ::core::num::NonZeroU32;
use ::core::pin::pin;
use ::core::task::{Poll, Waker};
use ::core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::catch_panic;
use plimsoll_runtime::net::{Event as Happened, Stream, Table, TableConfig};
use plimsoll_runtime::{Kind, OverBudget, Pool, PoolBox, SendBytes, SharedBytes, signal, spawn, yield_now};
use plimsoll_slab::Key;

use super::frames::Talk;
use super::port::{Port, Taken};
use super::post::{Content, Draft, Formats};
use super::queue::{Pushed, Queue, SlowConsumer};
use super::roster::{Joined, Takes};
use super::{Hub, HubHandler, Post};
use crate::Error;
use crate::exchange::event::Event;
use crate::memory::by_address::Columns;
use crate::worker::released::Seat;

/// How a member takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    #[default]
    WebSocket,
    /// A stream of events in chunks.
    Chunks,
    /// A stream of events that ends with its connection.
    Plain,
}

impl Shape {
    fn takes(self) -> Takes {
        match self {
            Self::WebSocket => Takes::Frames,
            Self::Chunks | Self::Plain => Takes::Events,
        }
    }

    fn bytes(self, post: &Post) -> Option<SharedBytes> {
        match self {
            Self::WebSocket => post.frame(),
            Self::Chunks => post.chunk(),
            Self::Plain => post.events(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Open,
    /// Silent for a while, and asked whether it is there.
    Asked,
    /// To be told why, and closed.
    Closing(Option<CloseCode>),
    /// Told; the peer is to close.
    Left,
}

/// A member's state in the table.
#[derive(Default)]
pub(super) struct Place {
    /// Of the hub.
    room: u64,
    id: u64,
    /// Messages from this number on are for it.
    since: u64,
    /// Neighbours among the members of the room here.
    previous: Option<Key>,
    next: Option<Key>,
    /// Messages that wait.
    pub(super) queue: Option<PoolBox<Queue<Post>>>,
    /// What is incomplete of what it says, or not answered.
    pub(super) talk: Option<PoolBox<Talk>>,
    /// Received and dropped, or asked for too often, since the last heartbeat.
    pub(super) strain: u32,
    /// Since when what waits finds no room, in milliseconds.
    starved_since: Option<NonZeroU32>,
    pub(super) shape: Shape,
    pub(super) stage: Stage,
    /// The send in flight is a message.
    is_post: bool,
    seat: Option<Seat>,
}

impl Place {
    /// What has waited longest is on its way, or of no use.
    fn drop_first(&mut self) {
        let _first = self.queue.as_mut().and_then(|queue| queue.pop());
        self.queue.take_if(|queue| queue.is_empty());
    }

    /// Where it counts for its address.
    pub(super) fn columns(&self) -> Option<Columns> {
        self.seat.as_ref().map(Seat::columns)
    }

    /// Whether what waits has found no room for so long.
    pub(super) fn has_starved_for(&self, time: Duration) -> bool {
        let for_ms = self.starved_since.zip(now_ms()).map(|(since, now)| now.get().wrapping_sub(since.get()));
        for_ms.is_some_and(|for_ms| Duration::from_millis(for_ms.into()) >= time)
    }

    /// Whether something waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        self.queue.is_some() || self.talk.as_ref().is_some_and(|talk| talk.pongs.is_some())
    }
}

/// Bytes of a member that waits, in the table. Its armed receive and its readiness come on top.
pub const MEMBER_BYTES: usize = Table::<Place>::ENTRY_BYTES;

const _: () = assert!(MEMBER_BYTES <= 192, "a member that waits is small");

/// A hub's members on this worker.
struct Room {
    hub: Hub,
    port: Arc<Port<Post>>,
    at: usize,
    first: Option<Key>,
    members: u32,
    /// Who gets the message of the running round next.
    round: Option<Key>,
}

/// All members of a server on a worker.
pub(crate) struct Members {
    pub(super) table: RefCell<Table<Place>>,
    rooms: RefCell<BTreeMap<u64, Room>>,
    pub(super) pool: Pool,
    stopping: Cell<bool>,
    /// The task that looks after the table, while it waits.
    waker: Cell<Option<Waker>>,
}

/// A member, while its handler is called.
pub struct Member<'a> {
    hub: &'a Hub,
    members: &'a Members,
    key: Key,
    id: MemberId,
}

/// The number of a member among all that a hub ever had; from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u64);

/// A message of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A text.
    Text(&'a str),
    /// Any bytes.
    Binary(&'a [u8]),
}

impl Member<'_> {
    /// Its hub.
    pub fn hub(&self) -> &Hub {
        self.hub
    }

    /// Its number.
    pub fn id(&self) -> MemberId {
        self.id
    }

    /// Sends an event to this member alone, behind what waits for it. It counts as a message of its queue.
    ///
    /// # Errors
    ///
    /// As [`Hub::publish`].
    pub fn send(&self, event: &Event<'_>) -> Result<(), Error> {
        event.check()?;
        let shared = &*self.hub.0;
        super::post::check_size(Content::Event(event), shared.config.message_bytes_max)?;
        let Some((shape, since)) = self.members.table.borrow().get(self.key).map(|place| (place.shape, place.since))
        else {
            return Ok(());
        };
        let is_frame = shape.takes() == Takes::Frames;
        let formats = Formats { frame: is_frame, events: !is_frame };
        let draft = Draft::new(Content::Event(event), formats, &self.members.pool, &shared.budget)?;
        self.members.give(self.hub, self.key, &draft.finish(since, &shared.gauge));
        Ok(())
    }

    /// Closes it: a WebSocket with this code, a stream of events by its end. What waits for it is dropped.
    pub fn close(&self, code: CloseCode) {
        self.members.begin_close(self.key, Some(code));
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Members {
    /// With the task that looks after them, which ends with the runtime, or when the server has stopped and they are
    /// gone.
    pub(super) fn start() -> Result<Rc<Self>, Error> {
        let members = Rc::new(Self {
            table: RefCell::new(Table::detached(TableConfig::default())?),
            rooms: RefCell::default(),
            pool: plimsoll_runtime::pool(),
            stopping: Cell::new(false),
            waker: Cell::default(),
        });
        let task = Rc::clone(&members);
        let _detached = spawn(async move { task.run().await })?;
        Ok(members)
    }

    async fn run(&self) {
        let mut stopped = pin!(signal::stopped());
        loop {
            let stops = poll_fn(|cx| {
                if !self.stopping.get() && stopped.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(true);
                }
                let ready = self.table.borrow_mut().poll_ready(cx).map(|()| false);
                self.waker.set(ready.is_pending().then(|| cx.waker().clone()));
                ready
            })
            .await;
            if stops {
                self.stopping.set(true);
                let keys: Vec<Key> = self.table.borrow().keys().collect();
                for key in keys {
                    self.begin_close(key, Some(CloseCode::GOING_AWAY));
                }
            }
            loop {
                let event = self.table.borrow_mut().next();
                let Some(event) = event else { break };
                self.step(event);
            }
            if self.stopping.get() && self.table.borrow().is_empty() {
                return;
            }
        }
    }

    fn step(&self, event: Happened) {
        match event {
            Happened::Received(key, bytes) => self.received(key, bytes),
            Happened::Sent(key, rest) => self.sent(key, rest),
            Happened::Due(key) => self.due(key),
            Happened::Ended(key) | Happened::Failed(key, _) => self.close(key),
            Happened::PeerClosed(_) | Happened::Readable(_) | Happened::Accepted(_) | Happened::TurnedAway => {
                debug_assert!(false, "never asked for")
            }
        }
    }

    /// Takes a connection in.
    pub(super) fn join(self: &Rc<Self>, hub: &Hub, stream: Stream, mut seat: Seat, shape: Shape) -> Result<(), Error> {
        seat.becomes_member();
        self.table.borrow_mut().reserve_entries(1)?;
        self.open_room(hub)?;
        let shared = &*hub.0;
        let joined = super::lock(&shared.state).join(shape.takes(), shared.config.members_max);
        let Some(Joined { id, since }) = joined else {
            self.close_room_if_empty(shared.id);
            return Err(Error::Misuse("the hub has as many members as it may have"));
        };
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(&shared.id).expect("opened above");
        let next = room.first;
        let place = Place { room: shared.id, id, since, next, shape, seat: Some(seat), ..Place::default() };
        let mut table = self.table.borrow_mut();
        let adopted = table.adopt(stream, place);
        let key = adopted.key;
        room.first = Some(key);
        room.members += 1;
        if let Some(next) = next {
            table.get_mut(next).expect("a neighbour").previous = Some(key);
        }
        self.rest(&mut table, key, hub);
        drop((table, rooms));
        self.call(hub, key, |handler, member| handler.joined(member));
        if self.stopping.get() {
            self.begin_close(key, Some(CloseCode::GOING_AWAY));
        }
        match adopted.unread {
            Some(bytes) => self.received(key, plimsoll_runtime::net::Bytes::Owned(bytes)),
            None if adopted.ended => self.close(key),
            None => self.receive(key),
        }
        Ok(())
    }

    fn open_room(self: &Rc<Self>, hub: &Hub) -> Result<(), Error> {
        let id = hub.0.id;
        if self.rooms.borrow().contains_key(&id) {
            return Ok(());
        }
        let (at, port) = super::lock(&hub.0.state).open(None);
        let (members, arrivals) = (Rc::clone(self), Arc::clone(&port));
        if let Err(error) = spawn(async move { members.pump(id, arrivals).await }) {
            hub.close_port(at, None);
            return Err(error.into());
        }
        let room = Room { hub: hub.clone(), port, at, first: None, members: 0, round: None };
        self.rooms.borrow_mut().insert(id, room);
        Ok(())
    }

    fn close_room_if_empty(&self, id: u64) {
        let mut rooms = self.rooms.borrow_mut();
        if rooms.get(&id).is_some_and(|room| room.members == 0)
            && let Some(room) = rooms.remove(&id)
        {
            drop(rooms);
            room.hub.close_port(room.at, None);
        }
    }

    /// Gives what is published to the members of a room, some at a time, until the room is closed.
    async fn pump(&self, id: u64, mut port: Arc<Port<Post>>) {
        loop {
            let taken = poll_fn(|cx| port.poll(cx)).await;
            let Some(hub) = self.begin_round(id, &port) else { return };
            match taken {
                Taken::Item(post) => {
                    while self.round(id, |key| self.give(&hub, key, &post)) {
                        yield_now().await;
                    }
                }
                Taken::Overrun => {
                    port = self.renew_port(id);
                    while self.round(id, |key| self.begin_close(key, Some(CloseCode::TRY_LATER))) {
                        yield_now().await;
                    }
                }
                Taken::Closed => return,
            }
            // Times have begun, which nobody waits for yet.
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
        }
    }

    /// From the first member on; `None` when the room of this port is closed.
    fn begin_round(&self, id: u64, port: &Arc<Port<Post>>) -> Option<Hub> {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(&id).filter(|room| Arc::ptr_eq(&room.port, port))?;
        room.round = room.first;
        Some(room.hub.clone())
    }

    /// For those that join after a whole room was too slow.
    fn renew_port(&self, id: u64) -> Arc<Port<Post>> {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(&id).expect("the room of a running pump");
        let (at, port) = super::lock(&room.hub.0.state).open(None);
        let before = ::core::mem::replace(&mut room.at, at);
        room.port = Arc::clone(&port);
        room.hub.close_port(before, None);
        port
    }

    /// A few members of a round; whether there are more.
    fn round(&self, id: u64, act: impl Fn(Key)) -> bool {
        for _ in 0..MEMBERS_PER_POLL {
            let mut rooms = self.rooms.borrow_mut();
            let Some(room) = rooms.get_mut(&id) else { return false };
            let Some(key) = room.round else { return false };
            room.round = self.table.borrow().get(key).and_then(|place| place.next);
            drop(rooms);
            act(key);
        }
        true
    }

    /// Sends a message to a member, or has it wait.
    pub(super) fn give(&self, hub: &Hub, key: Key, post: &Post) {
        let mut table = self.table.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let is_sending = table.is_sending(key);
        let place = table.get_mut(key).expect("found above");
        if post.number() < place.since || !matches!(place.stage, Stage::Open | Stage::Asked) {
            return;
        }
        let Some(bytes) = place.shape.bytes(post) else { return };
        if !is_sending && place.queue.is_none() && self.send_post(&mut table, key, hub, bytes) {
            return;
        }
        let Some(place) = table.get_mut(key) else { return };
        let pushed = self.enqueue(place, hub, post);
        drop(table);
        hub.0.count(pushed);
        if pushed == Pushed::Overrun {
            self.begin_close(key, Some(CloseCode::TRY_LATER));
        }
    }

    fn enqueue(&self, place: &mut Place, hub: &Hub, post: &Post) -> Pushed {
        let shared = &*hub.0;
        if place.queue.is_none() {
            place.queue = self.pool.try_boxed(Queue::default(), Kind::Buffers).ok();
        }
        match &mut place.queue {
            Some(queue) => queue.push(post.clone(), &shared.config.bounds(), &shared.budget),
            None if shared.config.slow == SlowConsumer::Close => Pushed::Overrun,
            None => Pushed::Refused,
        }
    }

    /// Sends a post; whether there was room for that. If not, it is tried again soon.
    fn send_post(&self, table: &mut Table<Place>, key: Key, hub: &Hub, bytes: SharedBytes) -> bool {
        let is_sent = self.send(table, key, hub, SendBytes::Shared(bytes)).is_ok();
        if is_sent {
            let place = table.get_mut(key).expect("it sends");
            (place.is_post, place.starved_since) = (true, None);
        } else {
            // Nothing is in flight whose end would bring it on its way.
            table.schedule(key, RETRY);
        }
        is_sent
    }

    /// Sends; at the memory line the bytes are dropped.
    pub(super) fn send(
        &self,
        table: &mut Table<Place>,
        key: Key,
        hub: &Hub,
        bytes: SendBytes,
    ) -> Result<(), OverBudget> {
        table.schedule(key, hub.0.config.websocket.send_timeout);
        table.send(key, bytes).map_err(|(over, _bytes)| over)
    }

    /// A socket has taken bytes.
    fn sent(&self, key: Key, rest: SendBytes) {
        let Some(hub) = self.hub_of(key) else { return };
        let mut table = self.table.borrow_mut();
        if !rest.is_empty() {
            let sent = self.send(&mut table, key, &hub, rest);
            drop(table);
            if sent.is_err() {
                self.close(key);
            }
            return;
        }
        let place = table.get_mut(key).expect("found above");
        if ::core::mem::take(&mut place.is_post) {
            hub.0.counts_sent();
        }
        drop(table);
        self.advance(key, &hub);
    }

    /// Nothing is in flight: sends what is next.
    pub(super) fn advance(&self, key: Key, hub: &Hub) {
        let mut table = self.table.borrow_mut();
        let Some(place) = table.get_mut(key) else { return };
        match place.stage {
            Stage::Left => {
                drop(table);
                return self.end(key, hub);
            }
            Stage::Closing(code) => {
                drop(table);
                return self.say_close(key, hub, code);
            }
            Stage::Open | Stage::Asked => {}
        }
        if let Some(pongs) = place.talk.as_mut().and_then(|talk| talk.pongs.take()) {
            place.talk.take_if(|talk| talk.is_idle());
            // Without room the peer is not answered; it may ask again.
            if self.send(&mut table, key, hub, SendBytes::Lease(pongs)).is_err() {
                table.schedule(key, RETRY);
            }
            return;
        }
        let shape = place.shape;
        let next = place.queue.as_ref().and_then(|queue| queue.first()).and_then(|post| shape.bytes(post));
        if let Some(bytes) = next {
            // It leaves the queue when it is on its way: one that finds no room stays the first.
            let is_sent = self.send_post(&mut table, key, hub, bytes);
            match table.get_mut(key) {
                Some(place) if is_sent => place.drop_first(),
                Some(place) => place.starved_since = place.starved_since.or_else(now_ms),
                None => {}
            }
            return;
        }
        place.drop_first();
        self.rest(&mut table, key, hub);
        let late = table.get(key).and_then(|place| place.talk.as_ref()).is_some_and(|talk| talk.is_late());
        drop(table);
        if late {
            self.begin_close(key, Some(CloseCode::POLICY));
        }
    }

    /// Nothing is to be sent: looks again when it has been silent for a while.
    fn rest(&self, table: &mut Table<Place>, key: Key, hub: &Hub) {
        let config = &hub.0.config;
        let Some(place) = table.get(key) else { return };
        let heartbeat = match place.shape {
            Shape::WebSocket => config.websocket.ping_interval,
            Shape::Chunks | Shape::Plain => config.events.heartbeat,
        };
        let message = place.talk.as_ref().and_then(|talk| talk.patience());
        match heartbeat.into_iter().chain(message).min() {
            Some(after) => table.schedule(key, after),
            None => table.unschedule(key),
        }
    }

    /// Calls the hub's handler about a member. Nothing is borrowed meanwhile.
    pub(super) fn call(&self, hub: &Hub, key: Key, act: impl FnOnce(&dyn HubHandler, &Member<'_>)) {
        let Some(id) = self.table.borrow().get(key).map(|place| MemberId(place.id)) else { return };
        let member = Member { hub, members: self, key, id };
        if catch_panic(|| act(&*hub.0.handler, &member)).is_none() {
            tracing::error!(member = id.0, "the handler of a hub panicked: its member is closed");
            self.begin_close(key, Some(CloseCode::UNEXPECTED));
        }
    }

    pub(super) fn hub_of(&self, key: Key) -> Option<Hub> {
        let room = self.table.borrow().get(key)?.room;
        self.rooms.borrow().get(&room).map(|room| room.hub.clone())
    }

    /// Arms the receive of a member that waits.
    pub(super) fn receive(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        let armed = if table.get(key).is_some() { table.receive(key) } else { Ok(()) };
        drop(table);
        if armed.is_err() {
            self.close(key);
        }
    }

    /// Takes a member out, at once.
    pub(super) fn close(&self, key: Key) {
        let mut table = self.table.borrow_mut();
        if table.get(key).is_none() {
            return;
        }
        let mut place = table.close(key);
        let (previous, next) = (place.previous, place.next);
        if let Some(next) = next {
            table.get_mut(next).expect("a neighbour").previous = previous;
        }
        if let Some(previous) = previous {
            table.get_mut(previous).expect("a neighbour").next = next;
        }
        drop(table);
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(&place.room).expect("a room has members");
        if room.first == Some(key) {
            room.first = next;
        }
        if room.round == Some(key) {
            room.round = next;
        }
        room.members -= 1;
        let hub = room.hub.clone();
        drop(rooms);
        self.close_room_if_empty(place.room);
        super::lock(&hub.0.state).leave(place.shape.takes());
        let id = MemberId(place.id);
        // Its connection is closed: it does not count any more.
        drop(place.seat.take());
        if catch_panic(|| hub.0.handler.left(&hub, id)).is_none() {
            tracing::error!(member = id.0, "the handler of a hub panicked");
        }
    }
}

/// Members that get a message in one poll; a turn has 128 of those.
const MEMBERS_PER_POLL: usize = 32;
/// When a send is tried again for which there was no room. That goes on for the time of a send.
const RETRY: Duration = Duration::from_millis(250);

/// Milliseconds of the clock, which come again after weeks.
fn now_ms() -> Option<NonZeroU32> {
    NonZeroU32::new(plimsoll_runtime::now().as_millis() as u32)
}
