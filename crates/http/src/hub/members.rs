//! The members of a server on one worker, and how messages get to them.
//!
//! ```text
//!                            a WebSocket of the table: handed over at once, or its queue
//!  port --> pump --> member: a stream of events that is a connection: the same
//!                            a WebSocket or a stream of events of HTTP/2: its queue, and its task is woken
//! ```
//!
//! What carries a member sends one message at a time, and takes the next from the queue when that has left. So a queue
//! exists only while something is on its way. What a member says comes from its WebSocket (`sockets.rs`).

use ::core::cell::{Cell, RefCell};
use ::core::fmt;
use ::core::future::poll_fn;
use ::core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use plimsoll_codec::ws::CloseCode;
use plimsoll_pool::{Charge, catch_panic};
use plimsoll_runtime::net::{Table, TableConfig};
use plimsoll_runtime::{Kind, Pool, SharedBytes, spawn, yield_now};
use plimsoll_slab::Key;

use super::event_streams::{EventStream, Runner};
use super::places::{Carrier, Place, Places, Sending};
use super::port::{Port, Taken, Wants};
use super::post::{Content, Draft, Formats};
use super::queue::{Pushed, Queue, SlowConsumer};
use super::roster::{Joined, Takes};
use super::{Hub, HubHandler, Post};
use crate::Error;
use crate::exchange::event::Event;
use crate::exchange::user_code::UserWaker;
use crate::websocket::{self, Handed, Link, Number};

/// A hub's members on this worker.
struct Room {
    hub: Hub,
    port: Arc<Port<Post>>,
    at: usize,
    first: Option<Number>,
    members: u32,
    /// Who gets the message of the running round next.
    round: Option<Number>,
}

/// The rooms of a worker. Their numbers are used again.
#[derive(Default)]
struct Rooms {
    list: Vec<Option<Room>>,
    by_hub: BTreeMap<u64, u32>,
}

impl Rooms {
    fn get(&self, room: u32) -> Option<&Room> {
        self.list.get(room as usize)?.as_ref()
    }

    fn get_mut(&mut self, room: u32) -> Option<&mut Room> {
        self.list.get_mut(room as usize)?.as_mut()
    }
}

/// A member on a stream of HTTP/2, which a task drives.
pub(super) struct Driven {
    by: Driver,
    _charge: Charge,
}

enum Driver {
    Socket(Link),
    /// The handler that writes events, while it waits.
    Events(Option<UserWaker>),
}

/// All members of a server on a worker.
pub(crate) struct Members {
    pub(super) places: RefCell<Places>,
    rooms: RefCell<Rooms>,
    /// The WebSockets of the server's table.
    sockets: RefCell<Weak<websocket::Port>>,
    driven: RefCell<BTreeMap<Number, Driven>>,
    /// Streams of events that are whole connections.
    pub(super) streams: RefCell<Table<EventStream>>,
    pub(super) pool: Pool,
    /// The task that looks after those, and its waker while it waits.
    pub(super) runner: Cell<Runner>,
    pub(super) waker: Cell<Option<Waker>>,
}

/// A member, while its handler is called.
pub struct Member<'a> {
    hub: &'a Hub,
    members: &'a Members,
    number: Number,
    id: MemberId,
    /// It is to be closed when the handler is done.
    closes: Cell<Option<CloseCode>>,
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
        let Some((takes, since)) = self.members.takes_since(self.number) else { return Ok(()) };
        let is_frame = takes == Takes::Frames;
        let formats = Formats { frame: is_frame, events: !is_frame };
        let draft = Draft::new(Content::Event(event), formats, &self.members.pool, &shared.budget)?;
        if self.members.give(self.hub, self.number, &draft.finish(since, &shared.gauge)) == Pushed::Overrun {
            self.close(CloseCode::TRY_LATER);
        }
        Ok(())
    }

    /// Closes it once the handler is done: a WebSocket with this code, a stream of events by its end. What waits for it
    /// is dropped. The first code counts.
    pub fn close(&self, code: CloseCode) {
        self.closes.set(self.closes.get().or(Some(code)));
    }
}

impl fmt::Debug for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What is to carry a new member.
pub(super) enum Joining {
    Socket(Link),
    Events(Key),
    EventTask,
}

impl Joining {
    fn takes(&self) -> Takes {
        match self {
            Self::Socket(_) => Takes::Frames,
            Self::Events(_) | Self::EventTask => Takes::Events,
        }
    }
}

impl Members {
    /// None yet.
    pub(crate) fn new() -> Result<Rc<Self>, Error> {
        Ok(Rc::new(Self {
            places: RefCell::new(Places::new()),
            rooms: RefCell::default(),
            sockets: RefCell::new(Weak::new()),
            driven: RefCell::default(),
            streams: RefCell::new(Table::detached(TableConfig::default())?),
            pool: plimsoll_runtime::pool(),
            runner: Cell::new(Runner::None),
            waker: Cell::default(),
        }))
    }

    /// A WebSocket that was opened joins.
    pub(crate) fn join_socket(self: &Rc<Self>, hub: &Hub, link: Link) -> Option<Number> {
        self.join(hub, Joining::Socket(link))
            .inspect_err(|error| tracing::warn!(%error, "no room for a member: its connection is closed"))
            .ok()
    }

    /// Takes a member in. Its handler is told next.
    pub(super) fn join(self: &Rc<Self>, hub: &Hub, joining: Joining) -> Result<Number, Error> {
        self.places.borrow_mut().reserve(&self.pool)?;
        let takes = joining.takes();
        let (carrier, driver) = match joining {
            Joining::Socket(Link::Table(port, key)) => {
                self.sockets.replace(port);
                (Carrier::Socket(key), None)
            }
            Joining::Socket(link) => (Carrier::Stream, Some(Driver::Socket(link))),
            Joining::Events(key) => (Carrier::Events(key), None),
            Joining::EventTask => (Carrier::Stream, Some(Driver::Events(None))),
        };
        let charge = driver.is_some().then(|| self.pool.charge(Kind::Codec, DRIVEN_BYTES)).transpose()?;
        let number = self.open_room(hub)?;
        let shared = &*hub.0;
        let joined = super::lock(&shared.state).join(takes, shared.config.members_max);
        let Some(Joined { id, since }) = joined else {
            self.close_room_if_empty(number);
            return Err(Error::HubFull);
        };
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(number).expect("opened above");
        let mut places = self.places.borrow_mut();
        let (previous, next) = (None, room.first);
        let (since, sending) = (since as u32, Sending::Nothing);
        let member = places.put(Place { id, queue: None, carrier, since, room: number, previous, next, sending });
        if let Some(next) = next {
            places.get_mut(next).expect("a neighbour").previous = Some(member);
        }
        room.first = Some(member);
        room.members += 1;
        if let Some((by, charge)) = driver.zip(charge) {
            self.driven.borrow_mut().insert(member, Driven { by, _charge: charge });
        }
        Ok(member)
    }

    fn open_room(self: &Rc<Self>, hub: &Hub) -> Result<u32, Error> {
        let id = hub.0.id;
        if let Some(number) = self.rooms.borrow().by_hub.get(&id) {
            return Ok(*number);
        }
        let free = self.rooms.borrow().list.iter().position(Option::is_none);
        let number = free.unwrap_or(self.rooms.borrow().list.len()) as u32;
        let (at, port) = super::lock(&hub.0.state).open(None, Wants::All);
        let (members, arrivals) = (Rc::clone(self), Arc::clone(&port));
        if let Err(error) = spawn(async move { members.pump(number, arrivals).await }) {
            hub.close_port(at, None);
            return Err(error.into());
        }
        let room = Room { hub: hub.clone(), port, at, first: None, members: 0, round: None };
        let mut rooms = self.rooms.borrow_mut();
        rooms.by_hub.insert(id, number);
        match rooms.list.get_mut(number as usize) {
            Some(place) => *place = Some(room),
            None => rooms.list.push(Some(room)),
        }
        Ok(number)
    }

    fn close_room_if_empty(&self, number: u32) {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.list.get_mut(number as usize).and_then(|place| place.take_if(|room| room.members == 0));
        let Some(room) = room else { return };
        rooms.by_hub.remove(&room.hub.0.id);
        drop(rooms);
        room.hub.close_port(room.at, None);
    }

    /// Gives what is published to the members of a room, some at a time, until the room is closed.
    async fn pump(&self, number: u32, mut port: Arc<Port<Post>>) {
        loop {
            let taken = poll_fn(|cx| port.poll(cx)).await;
            let Some(hub) = self.begin_round(number, &port) else { return };
            match taken {
                Taken::Item(post) => {
                    while self.round(number, |member| self.publish_to(&hub, member, &post)) {
                        yield_now().await;
                    }
                }
                Taken::Overrun => {
                    port = self.renew_port(number);
                    while self.round(number, |member| self.begin_close(member, CloseCode::TRY_LATER)) {
                        yield_now().await;
                    }
                }
                Taken::Closed => return,
            }
            // Times have begun, which nobody waits for yet.
            if let Some(waker) = self.waker.take() {
                waker.wake();
            }
            let sockets = self.sockets.borrow().upgrade();
            if let Some(sockets) = sockets {
                sockets.note_times();
            }
        }
    }

    /// From the first member on; `None` when the room of this port is closed.
    fn begin_round(&self, number: u32, port: &Arc<Port<Post>>) -> Option<Hub> {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(number).filter(|room| Arc::ptr_eq(&room.port, port))?;
        room.round = room.first;
        Some(room.hub.clone())
    }

    /// For those that join after a whole room was too slow.
    fn renew_port(&self, number: u32) -> Arc<Port<Post>> {
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(number).expect("the room of a running pump");
        let (at, port) = super::lock(&room.hub.0.state).open(None, Wants::All);
        let before = ::core::mem::replace(&mut room.at, at);
        room.port = Arc::clone(&port);
        room.hub.close_port(before, None);
        port
    }

    /// A few members of a round; whether there are more.
    fn round(&self, number: u32, act: impl Fn(Number)) -> bool {
        for _ in 0..MEMBERS_PER_POLL {
            let mut rooms = self.rooms.borrow_mut();
            let Some(room) = rooms.get_mut(number) else { return false };
            let Some(member) = room.round else { return false };
            room.round = self.places.borrow().get(member).and_then(|place| place.next);
            drop(rooms);
            act(member);
        }
        true
    }

    fn publish_to(&self, hub: &Hub, member: Number, post: &Post) {
        if self.give(hub, member, post) == Pushed::Overrun {
            self.begin_close(member, CloseCode::TRY_LATER);
        }
    }

    /// Sends a message to a member, or has it wait. Whoever hears that it overran closes it.
    fn give(&self, hub: &Hub, member: Number, post: &Post) -> Pushed {
        let places = self.places.borrow();
        let Some(place) = places.get(member).filter(|place| place.is_for(post.number())) else { return Pushed::Waits };
        let (carrier, is_idle) = (place.carrier, place.sending == Sending::Nothing && place.queue.is_none());
        drop(places);
        let handed = match carrier {
            _ if !is_idle => Handed::Waits,
            Carrier::Socket(key) => match post.frame() {
                Some(bytes) => self.link(key).hand_over(bytes),
                None => return Pushed::Waits,
            },
            Carrier::Events(key) => self.hand_over_events(hub, key, post),
            Carrier::Stream => Handed::Waits,
        };
        let mut places = self.places.borrow_mut();
        let Some(place) = places.get_mut(member) else { return Pushed::Waits };
        let pushed = match handed {
            Handed::Sent => {
                place.sending = Sending::Post;
                return Pushed::Waits;
            }
            Handed::Closed => return Pushed::Waits,
            Handed::Waits | Handed::NoRoom => self.enqueue(place, hub, post),
        };
        drop(places);
        hub.0.count(pushed);
        if carrier == Carrier::Stream {
            self.wake_driver(member);
        }
        pushed
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

    fn link(&self, key: Key) -> Link {
        Link::Table(self.sockets.borrow().clone(), key)
    }

    /// Has the task of a member on a stream of HTTP/2 look.
    fn wake_driver(&self, member: Number) {
        let mut driven = self.driven.borrow_mut();
        let waker = match driven.get_mut(&member).map(|driven| &mut driven.by) {
            Some(Driver::Socket(link)) => {
                link.look_again();
                None
            }
            Some(Driver::Events(waker)) => waker.take(),
            None => None,
        };
        drop(driven);
        waker.into_iter().for_each(UserWaker::wake);
    }

    /// Closes a member from elsewhere than its handler.
    pub(super) fn begin_close(&self, member: Number, code: CloseCode) {
        let Some(carrier) = self.places.borrow().get(member).map(|place| place.carrier) else { return };
        self.drop_queue(member);
        match carrier {
            Carrier::Socket(key) => self.link(key).close(code),
            Carrier::Events(key) => self.end_events(key),
            Carrier::Stream => {
                if let Some(Driver::Socket(link)) = self.driven.borrow().get(&member).map(|driven| &driven.by) {
                    link.close(code);
                }
                self.wake_driver(member);
            }
        }
    }

    /// It closes: what waits for it is dropped, and nothing more is given to it.
    pub(super) fn drop_queue(&self, member: Number) {
        if let Some(place) = self.places.borrow_mut().get_mut(member) {
            place.queue = None;
            place.sending = match place.sending {
                Sending::Post | Sending::LastPost => Sending::LastPost,
                Sending::Nothing | Sending::Closing => Sending::Closing,
            };
        }
    }

    /// What waits for a member that sends nothing of its hub, as it sends it.
    pub(super) fn first_of(
        &self,
        member: Number,
        bytes: impl FnOnce(&Post) -> Option<SharedBytes>,
    ) -> Option<SharedBytes> {
        let places = self.places.borrow();
        let place = places.get(member).filter(|place| place.sending == Sending::Nothing)?;
        place.queue.as_ref()?.first().and_then(bytes)
    }

    /// That is on its way.
    pub(super) fn begin_send_of(&self, member: Number) {
        if let Some(place) = self.places.borrow_mut().get_mut(member) {
            place.sending = Sending::Post;
            place.pop();
        }
    }

    /// What was on its way has left; if that was a message, it counts.
    pub(super) fn sent_by(&self, member: Number) {
        let mut places = self.places.borrow_mut();
        let Some(place) = places.get_mut(member) else { return };
        place.sending = match place.sending {
            Sending::Post => Sending::Nothing,
            Sending::LastPost => Sending::Closing,
            Sending::Nothing | Sending::Closing => return,
        };
        if let Some(room) = self.rooms.borrow().get(place.room) {
            room.hub.0.counts_sent();
        }
    }

    /// Calls the hub's handler about a member, with nothing borrowed. Gives a code to close it with.
    pub(super) fn call(&self, member: Number, act: impl FnOnce(&dyn HubHandler, &Member<'_>)) -> Option<CloseCode> {
        let hub = self.hub_of(member)?;
        let id = self.places.borrow().get(member).map(|place| MemberId(place.id))?;
        let member = Member { hub: &hub, members: self, number: member, id, closes: Cell::new(None) };
        if catch_panic(|| act(&*hub.0.handler, &member)).is_none() {
            tracing::error!(member = id.0, "the handler of a hub panicked: its member is closed");
            member.close(CloseCode::UNEXPECTED);
        }
        member.closes.get()
    }

    pub(super) fn hub_of(&self, member: Number) -> Option<Hub> {
        let room = self.places.borrow().get(member)?.room;
        self.rooms.borrow().get(room).map(|room| room.hub.clone())
    }

    /// The encoding that a member takes, and the number of the first message that is for it, as far as it is kept.
    fn takes_since(&self, member: Number) -> Option<(Takes, u64)> {
        let places = self.places.borrow();
        let place = places.get(member)?;
        let takes = match place.carrier {
            Carrier::Socket(_) => Takes::Frames,
            Carrier::Events(_) => Takes::Events,
            Carrier::Stream => match self.driven.borrow().get(&member)?.by {
                Driver::Socket(_) => Takes::Frames,
                Driver::Events(_) => Takes::Events,
            },
        };
        Some((takes, place.since.into()))
    }

    /// A member is gone: its handler is told.
    pub(super) fn leave(&self, member: Number) {
        let Some((takes, _)) = self.takes_since(member) else { return };
        let Some(place) = self.places.borrow_mut().take(member) else { return };
        let driven = self.driven.borrow_mut().remove(&member);
        drop(driven);
        let mut rooms = self.rooms.borrow_mut();
        let room = rooms.get_mut(place.room).expect("a room has members");
        if room.first == Some(member) {
            room.first = place.next;
        }
        if room.round == Some(member) {
            room.round = place.next;
        }
        room.members -= 1;
        let hub = room.hub.clone();
        drop(rooms);
        self.close_room_if_empty(place.room);
        super::lock(&hub.0.state).leave(takes);
        let id = MemberId(place.id);
        if catch_panic(|| hub.0.handler.left(&hub, id)).is_none() {
            tracing::error!(member = id.0, "the handler of a hub panicked");
        }
    }
}

/// A stream of events that its handler writes: a member for as long as this lives.
pub(crate) struct EventTask {
    members: Rc<Members>,
    member: Number,
}

impl EventTask {
    /// Joins a hub, whose handler is told.
    pub(crate) fn join(members: Rc<Members>, hub: &Hub) -> Result<Self, Error> {
        let member = members.join(hub, Joining::EventTask)?;
        let task = Self { members, member };
        if task.members.call(member, |handler, member| handler.joined(member)).is_some() {
            task.members.drop_queue(member);
        }
        Ok(task)
    }

    /// The next message; `None` when it is to end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<SharedBytes>> {
        if let Some(bytes) = self.members.first_of(self.member, Post::events) {
            self.members.begin_send_of(self.member);
            return Poll::Ready(Some(bytes));
        }
        let is_open = self.members.places.borrow().get(self.member).is_some_and(Place::is_open);
        if !is_open {
            return Poll::Ready(None);
        }
        let fresh = UserWaker::of(cx);
        let mut driven = self.members.driven.borrow_mut();
        if let Some(Driver::Events(waker)) = driven.get_mut(&self.member).map(|driven| &mut driven.by) {
            *waker = Some(fresh);
        }
        Poll::Pending
    }

    /// The message was written.
    pub(crate) fn sent(&self) {
        self.members.sent_by(self.member);
    }
}

impl Drop for EventTask {
    fn drop(&mut self) {
        self.members.leave(self.member);
    }
}

/// Members that get a message in one poll; a turn has 128 of those.
const MEMBERS_PER_POLL: usize = 32;
/// What a member on a stream of HTTP/2 takes beside its place.
const DRIVEN_BYTES: u64 = (size_of::<(Number, Driven)>() as u64).next_multiple_of(16);
