//! Fan-out: one message for many connections, encoded once and in memory once.
//!
//! ```text
//!                          worker 0:  port --> pump --> members (WebSockets, streams of events), a connection table
//!  publish --> hub --+-->
//!                    |     worker 1:  port --> pump --> members
//!                    +--> subscriptions of tasks
//! ```
//!
//! A member is a WebSocket as any other, in its server's table or on a stream of HTTP/2, or a stream of events. One
//! that is a connection has no task, no future and, while nothing comes or goes, no buffer
//! ([`MEMBER_BYTES`](crate::MEMBER_BYTES)). A message is one lease that all sends read
//! ([`SharedBytes`](plimsoll_runtime::SharedBytes)). Only a member whose socket has not taken the last message yet has
//! a queue, of handles to messages.
//!
//! | part | file |
//! |---|---|
//! | a message and its encodings | `post.rs` |
//! | what waits, its bounds and policies | `queue.rs` |
//! | what workers share: who is there, and where messages arrive | `roster.rs`, `port.rs` |
//! | the members of a worker, and where each is | `members.rs`, `places.rs` |
//! | the numbers of other processes' messages | `sequences.rs` |
//! | what carries them: WebSockets, streams of events | `sockets.rs`, `event_streams.rs` |
//! | how a request becomes a member | `face/hub.rs` |

use ::core::fmt;
use ::core::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_codec::ws::Limits;
use plimsoll_pool::{Budget, Charge};
use plimsoll_runtime::{Kind, OutOfRange};

use crate::exchange::event::{Event, EventsConfig};
use crate::{Error, WebSocketConfig};

mod event_streams;
mod members;
mod places;
mod port;
mod post;
mod queue;
mod roster;
mod sequences;
mod sockets;
mod sync;

pub(crate) use event_streams::{EVENT_STREAM_BYTES, Framing};
pub(crate) use members::{EventTask, Members};
pub use members::{Incoming, Member, MemberId};
pub(crate) use places::PLACE_BYTES;
pub use post::Post;
pub use queue::SlowConsumer;
pub use sequences::Sequences;

use port::{Port, Taken, Wants};
use post::{Content, Draft, Gauge, MESSAGE_BYTES_CEILING};
use queue::{Bounds, Pushed};
use roster::{Origin, Roster, Takes};
use sync::{Mutex, lock};

/// How a hub behaves.
///
/// ```
/// use plimsoll_http::{HubConfig, SlowConsumer};
///
/// let config = HubConfig { slow: SlowConsumer::Close, queue_messages_max: 16, ..HubConfig::default() };
/// assert_eq!(config.queue_bytes_max, 256 << 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HubConfig {
    /// What happens to a message for a consumer whose queue is full.
    pub slow: SlowConsumer,
    /// Messages that wait for one consumer at most, beside the one on its way; 1 to 65,536. 64.
    pub queue_messages_max: u32,
    /// Bytes of those at most; from `message_bytes_max` + 16 on. 256 KiB.
    pub queue_bytes_max: u64,
    /// The longest message, as it is published or as a member sends it; 1 to 131,056. 64 KiB.
    pub message_bytes_max: usize,
    /// Members at most, on all workers. No limit but the memory line's.
    pub members_max: u32,
    /// Of members that are WebSockets. Its `send_timeout` and `close_timeout` hold for streams of events too; of its
    /// limits the smaller of `message_bytes_max` counts. Nothing is compressed: what `compression` says is not used.
    pub websocket: WebSocketConfig,
    /// Of members that are streams of events.
    pub events: EventsConfig,
}

impl Default for HubConfig {
    fn default() -> Self {
        Self {
            slow: SlowConsumer::default(),
            queue_messages_max: 64,
            queue_bytes_max: 256 << 10,
            message_bytes_max: 64 << 10,
            members_max: u32::MAX,
            websocket: WebSocketConfig::default(),
            events: EventsConfig::default(),
        }
    }
}

impl HubConfig {
    /// Whether all values are in their range.
    ///
    /// # Errors
    ///
    /// Which is not.
    pub fn validate(&self) -> Result<(), OutOfRange> {
        let wrong = if !(1..=65_536).contains(&self.queue_messages_max) {
            ("HubConfig::queue_messages_max", "between 1 and 65,536")
        } else if !(1..=MESSAGE_BYTES_CEILING).contains(&self.message_bytes_max) {
            ("HubConfig::message_bytes_max", "between 1 and 131,056 bytes")
        } else if self.queue_bytes_max < self.message_bytes_max as u64 + 16 {
            ("HubConfig::queue_bytes_max", "at least `message_bytes_max` and 16 bytes")
        } else if self.members_max == 0 {
            ("HubConfig::members_max", "at least 1")
        } else {
            return Ok(());
        };
        Err(OutOfRange::new(wrong.0, wrong.1))
    }

    fn bounds(&self) -> Bounds {
        Bounds { messages_max: self.queue_messages_max, bytes_max: self.queue_bytes_max, policy: self.slow }
    }
}

/// What a hub's program does about its members. All calls come on the worker of the member, one at a time for each
/// worker; they must not block. A panic in one closes its member.
pub trait HubHandler: Send + Sync + 'static {
    /// A connection has become a member. What is published from now on reaches it.
    fn joined(&self, member: &Member<'_>) {
        let _not_wanted = member;
    }

    /// A WebSocket has sent a message.
    fn message(&self, member: &Member<'_>, message: Incoming<'_>) {
        let _not_wanted = (member, message);
    }

    /// A member is gone.
    fn left(&self, hub: &Hub, member: MemberId) {
        let _not_wanted = (hub, member);
    }
}

/// The handler of a hub that has none.
struct Silent;

impl HubHandler for Silent {}

/// Gives messages to all its consumers: connections that are members of it ([`join_websocket`](Self::join_websocket),
/// [`join_events`](Self::join_events)) and tasks that [subscribe](Self::subscribe). A handle: clones are the same hub,
/// on any worker of its runtime.
///
/// Every consumer gets the messages in the order of their numbers. One that is slow has a bounded queue and then what
/// the [policy](SlowConsumer) says; it never makes others wait.
///
/// ```
/// use plimsoll_http::{Event, Hub, HubConfig, Request, Router, Server};
///
/// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
/// let hub = Hub::new(HubConfig::default()).expect("there is room");
/// let server = Server::bind("127.0.0.1:0")?;
/// let members = hub.clone();
/// let serving = server.serve(move |request: Request| {
///     let hub = members.clone();
///     async move {
///         match request.path() {
///             "/ws" => hub.join_websocket(&request),
///             _ => hub.join_events(request).await,
///         }
///     }
/// });
/// let mut here = hub.subscribe().expect("there is room");
/// hub.publish(&Event::data("to all of you")).expect("there is room");
/// assert_eq!(here.recv().await.expect("not slow").as_text(), Some("to all of you"));
/// # drop(serving);
/// # Ok::<(), plimsoll_runtime::Error>(()) })?; Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

struct Shared {
    id: u64,
    config: HubConfig,
    handler: Box<dyn HubHandler>,
    budget: Arc<Budget>,
    state: Mutex<Roster<Post>>,
    gauge: Arc<Gauge>,
    counts: Counts,
    _charge: Charge,
}

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    dropped: AtomicU64,
    closed_slow: AtomicU64,
}

/// What a hub has done and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HubStats {
    /// Connections that are members.
    pub members: u32,
    /// Messages published.
    pub published_total: u64,
    /// Messages that a socket has taken whole, counted for each member.
    pub sent_total: u64,
    /// Messages that a consumer did not get because it was slow, counted for each; those of a whole worker that was
    /// late once.
    pub dropped_total: u64,
    /// Consumers that were closed because they were slow.
    pub closed_slow_total: u64,
    /// Messages in memory.
    pub held_messages: u64,
    /// Their encoded bytes.
    pub held_bytes: u64,
}

impl Hub {
    /// A hub whose members only listen.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] as [`HubConfig::validate`], [`Error::OverBudget`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn new(config: HubConfig) -> Result<Self, Error> {
        Self::with_handler(config, Silent)
    }

    /// A hub that does something about its members.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn with_handler(config: HubConfig, handler: impl HubHandler) -> Result<Self, Error> {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        config.validate()?;
        let budget = plimsoll_runtime::budget();
        let charge = budget.charge(Kind::Fixed, SHARED_BYTES)?;
        Ok(Self(Arc::new(Shared {
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
            config,
            handler: Box::new(handler),
            budget,
            state: Mutex::new(Roster::new()),
            gauge: Arc::default(),
            counts: Counts::default(),
            _charge: charge,
        })))
    }

    /// Publishes an event: to WebSockets its data as a text, to streams of events all of it. Gives its number.
    ///
    /// It is encoded here, at most once for each of the two. It reaches the sockets in later turns of their workers.
    ///
    /// # Errors
    ///
    /// [`Error::BodyTooLarge`] beyond `message_bytes_max`, [`Error::Misuse`] as [`Event::check`],
    /// [`Error::OverBudget`]: then nobody gets it.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn publish(&self, event: &Event<'_>) -> Result<u64, Error> {
        event.check()?;
        self.post(Content::Event(event), Origin::Here)
    }

    /// Publishes bytes, to WebSockets and subscriptions alone.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub fn publish_binary(&self, bytes: &[u8]) -> Result<u64, Error> {
        self.post(Content::Binary(bytes), Origin::Here)
    }

    /// As [`publish`](Self::publish), for what was published in another process: all consumers here get it but
    /// [taps](Self::tap), which would carry it back.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    pub fn post_from_elsewhere(&self, event: &Event<'_>) -> Result<u64, Error> {
        event.check()?;
        self.post(Content::Event(event), Origin::Elsewhere)
    }

    /// As [`post_from_elsewhere`](Self::post_from_elsewhere), for bytes.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub fn post_binary_from_elsewhere(&self, bytes: &[u8]) -> Result<u64, Error> {
        self.post(Content::Binary(bytes), Origin::Elsewhere)
    }

    fn post(&self, content: Content<'_>, origin: Origin) -> Result<u64, Error> {
        let shared = &*self.0;
        post::check_size(content, shared.config.message_bytes_max)?;
        let pool = plimsoll_runtime::pool();
        let mut formats = lock(&shared.state).formats();
        let (number, places) = loop {
            let draft = Draft::new(content, formats, &pool, &shared.budget)?;
            let mut state = lock(&shared.state);
            if !draft.covers(state.formats()) {
                // Somebody came who takes the other encoding.
                formats = state.formats();
                continue;
            }
            // All under one lock: every consumer sees the same order.
            let number = state.post(
                origin,
                |number| draft.finish(number, &shared.gauge),
                |port, post| shared.count(port.push(post, &shared.config.bounds(), &shared.budget)),
            );
            break (number, state.places());
        };
        for at in 0..places {
            let port = lock(&shared.state).port(at);
            if let Some(port) = port {
                port.wake();
            }
        }
        Ok(number)
    }

    /// Has what is published from now on come to a task.
    ///
    /// # Errors
    ///
    /// [`Error::OverBudget`].
    pub fn subscribe(&self) -> Result<Subscription, Error> {
        self.open_port(Wants::All)
    }

    /// Has what is published here from now on come to a task, to be carried to hubs of other processes: all that
    /// [`publish`](Self::publish) brings, and nothing of what [`post_from_elsewhere`](Self::post_from_elsewhere) does.
    ///
    /// What is carried is a message's payload; the name and the id of an event are not part of it. One whose carrier is
    /// slow has the bounded queue of every consumer: [`take_missed`](Subscription::take_missed) says how many messages
    /// were not carried.
    ///
    /// ```
    /// use plimsoll_http::{Event, Hub, HubConfig};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let (one, other) = (Hub::new(HubConfig::default())?, Hub::new(HubConfig::default())?);
    /// let mut tap = one.tap()?;
    /// let mut there = other.subscribe()?;
    /// one.publish(&Event::data("to all of you"))?;
    /// let post = tap.recv().await?;
    /// other.post_from_elsewhere(&Event::data(post.as_text().unwrap_or_default()))?;
    /// assert_eq!(there.recv().await?.as_text(), Some("to all of you"));
    /// # Ok::<(), plimsoll_http::Error>(()) }).expect("there is room"); Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe).
    pub fn tap(&self) -> Result<Subscription, Error> {
        self.open_port(Wants::Local)
    }

    fn open_port(&self, wants: Wants) -> Result<Subscription, Error> {
        let charge = self.0.budget.charge(Kind::Tasks, PORT_BYTES)?;
        let (at, port) = lock(&self.0.state).open(Some(Takes::Frames), wants);
        Ok(Subscription { hub: self.clone(), port, at, _charge: charge })
    }

    /// Whether it has as many members as it may have.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.0.state).members() >= self.0.config.members_max
    }

    /// How its members that are WebSockets behave.
    pub(crate) fn websocket_config(&self) -> WebSocketConfig {
        let HubConfig { websocket, message_bytes_max, .. } = self.0.config;
        let bytes_max = websocket.limits.message_bytes_max.min(message_bytes_max as u32);
        let limits = Limits { message_bytes_max: bytes_max, ..websocket.limits };
        WebSocketConfig { limits, ..websocket }
    }

    pub(crate) fn events_config(&self) -> EventsConfig {
        self.0.config.events
    }

    fn close_port(&self, at: usize, takes: Option<Takes>) {
        let port = lock(&self.0.state).close(at, takes);
        if let Some(port) = port {
            port.close();
        }
    }

    /// What it has done and holds.
    pub fn stats(&self) -> HubStats {
        let shared = &*self.0;
        let state = lock(&shared.state);
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HubStats {
            members: state.members(),
            published_total: state.number(),
            sent_total: read(&shared.counts.sent),
            dropped_total: read(&shared.counts.dropped),
            closed_slow_total: read(&shared.counts.closed_slow),
            held_messages: read(&shared.gauge.messages),
            held_bytes: read(&shared.gauge.bytes),
        }
    }
}

impl Shared {
    fn count(&self, pushed: Pushed) {
        let (count, by) = match pushed {
            Pushed::Waits => return,
            Pushed::Replaced(dropped) => (&self.counts.dropped, u64::from(dropped)),
            Pushed::Refused => (&self.counts.dropped, 1),
            Pushed::Overrun => (&self.counts.closed_slow, 1),
        };
        count.fetch_add(by, Ordering::Relaxed);
    }

    fn counts_sent(&self) {
        self.counts.sent.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("id", &self.0.id).field("stats", &self.stats()).finish()
    }
}

/// A task's part of a hub; see [`Hub::subscribe`] and [`Hub::tap`]. Dropping it ends it.
pub struct Subscription {
    hub: Hub,
    port: Arc<Port<Post>>,
    at: usize,
    _charge: Charge,
}

impl Subscription {
    /// The next message.
    ///
    /// Cancel safe: a message that comes while nobody waits is kept.
    ///
    /// # Errors
    ///
    /// [`Error::TooSlow`] when this task was and the hub's policy is to close; what waited is read before.
    pub async fn recv(&mut self) -> Result<Post, Error> {
        match poll_fn(|cx| self.port.poll(cx)).await {
            Taken::Item(post) => Ok(post),
            Taken::Overrun | Taken::Closed => Err(Error::TooSlow),
        }
    }

    /// How many messages there were for this task up to the one that [`recv`](Self::recv) gave last: the first has 1,
    /// and each is one more than the one before it and those between that this task was too slow for. So who passes
    /// messages on has numbers for them in which a gap is what was lost here; [`Sequences`] sees it there.
    ///
    /// Where the hub drops the newest, what was dropped counts from when it was, and not from its place.
    ///
    /// ```
    /// use plimsoll_http::{Event, Hub, HubConfig};
    ///
    /// # plimsoll_runtime::Runtime::builder().workers(1).build()?.block_on(async {
    /// let hub = Hub::new(HubConfig { queue_messages_max: 1, ..HubConfig::default() })?;
    /// let mut subscription = hub.subscribe()?;
    /// hub.publish(&Event::data("one"))?;
    /// subscription.recv().await?;
    /// assert_eq!(subscription.position(), 1);
    /// hub.publish(&Event::data("two"))?;
    /// hub.publish(&Event::data("three"))?;
    /// assert_eq!((subscription.recv().await?.as_text(), subscription.position()), (Some("three"), 3));
    /// # Ok::<(), plimsoll_http::Error>(()) }).expect("there is room"); Ok::<(), plimsoll_runtime::Error>(())
    /// ```
    pub fn position(&self) -> u64 {
        self.port.position()
    }

    /// How many messages this task was too slow for since it last asked.
    pub fn take_missed(&mut self) -> u64 {
        self.port.take_missed()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.close_port(self.at, Some(Takes::Frames));
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("hub", &self.hub.0.id).finish()
    }
}

/// What is charged for a hub and for a place where messages arrive.
const SHARED_BYTES: u64 = (size_of::<Shared>() + 2 * size_of::<usize>()) as u64;
const PORT_BYTES: u64 = (size_of::<Port<Post>>() + 3 * size_of::<usize>()) as u64;
