//! Streams that are worked on: their slots, and what the server keeps of each.

use ::core::net::SocketAddr;
use ::core::time::Duration;

use http::{Method, StatusCode};
use plimsoll_codec::h1::RequestHead;
use plimsoll_codec::h2::{Connection as Codec, ErrorCode, Stream, StreamKey};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::{Instant, JoinHandle, Kind, Lease, OverBudget, Pool};

use super::grown::Grown;
use super::waiting::Waiting;
use crate::base::exchange_end::Course;
use crate::exchange::collect::Collected;
use crate::exchange::min_rate::MinRateTimer;
use crate::exchange::response::Response;
use crate::exchange::user_code::{self, UserBody, UserWaker};
use crate::memory::by_address::PeerShare;
use crate::memory::desk::Desk;
use crate::memory::reserved_routes::Slot;

/// One request and its answer.
pub(crate) struct Exchange {
    pub(super) id: u32,
    pub(super) method: Method,
    pub(super) request: Incoming,
    pub(super) response: Outgoing,
    pub(super) stage: Stage,
    /// Whether it was begun and has not ended.
    pub(super) course: Course,
    /// What is still to be done to its stream when there is room to say so.
    pub(super) ending: Option<Ending>,
    /// Its handler has something to say for which there was no room, and is woken when there is.
    pub(super) needs_room: bool,
    /// The fields that came after the body, until the handler asks for them.
    pub(super) trailers: Option<Lease>,
    /// No bytes of the answer come after [`body`](Self::body).
    pub(super) finished: bool,
    pub(super) handler: Option<JoinHandle<()>>,
    /// The handler waits for a part of the body.
    pub(super) reader: Option<UserWaker>,
    /// The handler waits for its last piece to leave.
    pub(super) writer: Option<UserWaker>,
    /// Received parts of the body that the handler has not asked for.
    pub(super) received: Option<Lease>,
    /// An answer that waits for room in the output.
    pub(super) answer: Option<PoolBox<Response>>,
    /// What is to be sent next of the answer's body.
    pub(super) body: UserBody,
    /// How much of that was sent.
    pub(super) body_sent: usize,
    /// Bytes that were announced and not written yet; `None` where nothing was announced.
    pub(super) due: Option<u64>,
    /// Pieces of work that the handler said must be finished.
    pub(super) must_finish: u32,
    /// When the handler was begun that is pending.
    pub(super) begun_at: Option<Instant>,
    /// What its address is blamed for, while memory is short.
    pub(super) share: Option<PeerShare>,
    /// For whom it is, as a trusted proxy says.
    pub(super) client: Option<u64>,
    /// Room for the body that its handler collects.
    pub(super) collected: Option<PoolBox<Collected>>,
    /// Its route is marked.
    pub(super) slot: Option<Slot>,
    /// Since when the peer's windows let nothing of the body go; bytes that they let go move it on.
    pub(super) blocked_since: Option<Instant>,
    /// How long the handler still waits for the peer.
    pub(super) min_rate: MinRateTimer,
    /// Until when it waits though that is over, as the peer's windows are held; until bytes come.
    pub(super) held_until: Option<Instant>,
    /// What its window was grown by is reserved.
    pub(super) window: Option<Grown>,
    /// Bytes of the request's body that the handler has taken.
    pub(super) taken_bytes: u64,
    /// The answer is complete: so long the rest of the request is taken and dropped.
    pub(super) drain_until: Option<Instant>,
    /// What was dropped of it.
    pub(super) dropped_bytes: u32,
    /// The request line, while there is an access log.
    pub(super) line: Option<Lease>,
    /// The peer, while there is an access log.
    pub(super) peer: Option<SocketAddr>,
    /// The status of a streamed answer whose line in the access log is still to be written.
    pub(super) status: Option<StatusCode>,
    /// Body bytes of the answer.
    pub(super) sent_bytes: u64,
}

/// What is due on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The end of its answer.
    Finish,
    /// Its slot is not needed any more.
    Free,
    Reset(ErrorCode),
}

/// What is to come of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Body,
    /// The same, which the peer sends when it has got `100 Continue`.
    Withheld,
    Done,
    /// The peer went away or was too slow.
    Gone,
    /// A tunnel: there was no room for what came, for too long. What still comes is dropped.
    NoRoom,
}

/// How far the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Head,
    Body,
    Complete,
    /// Over before its time; the slot is kept for a handler that must finish, or until the peer can be told.
    Reset,
}

impl Incoming {
    fn of(head: &RequestHead, ends: bool) -> Self {
        match (ends, head.expect_continue) {
            (true, _) => Self::Done,
            (false, true) => Self::Withheld,
            (false, false) => Self::Body,
        }
    }

    pub(super) fn is_body(self) -> bool {
        matches!(self, Self::Body | Self::Withheld)
    }

    /// The peer need not be told that it may send any more: it was, or it sends.
    pub(super) fn let_come(&mut self) {
        if *self == Self::Withheld {
            *self = Self::Body;
        }
    }
}

/// Who works on an exchange.
///
/// ```text
///             begun           a tunnel is opened           the handler has answered, or is gone
///  Waiting ----------> Handler -----------------> HandlerAndTunnel ---------> Tunnel ---+
///                         |                                                             | dropped
///                         +--- answered, or gone -------------------------------------> Over
/// ```
pub(super) enum Stage {
    /// Nobody: it is not begun yet.
    Waiting(PoolBox<Waiting>),
    Handler,
    HandlerAndTunnel,
    Tunnel,
    Over,
}

impl Stage {
    pub(super) fn waiting(&self) -> Option<&Waiting> {
        match self {
            Self::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// Takes what it waits with: then nobody works on it.
    pub(super) fn take_waiting(&mut self) -> Option<PoolBox<Waiting>> {
        self.waiting()?;
        match ::core::mem::replace(self, Self::Over) {
            Self::Waiting(waiting) => Some(waiting),
            _ => None,
        }
    }

    /// From the begin until the handler has answered or gone.
    pub(super) fn is_running(&self) -> bool {
        matches!(self, Self::Handler | Self::HandlerAndTunnel)
    }

    /// Whether a tunnel is open on it.
    pub(super) fn is_tunnel(&self) -> bool {
        matches!(self, Self::HandlerAndTunnel | Self::Tunnel)
    }

    pub(super) fn leave_handler(&mut self) {
        match self {
            Self::Handler => *self = Self::Over,
            Self::HandlerAndTunnel => *self = Self::Tunnel,
            Self::Waiting(_) | Self::Tunnel | Self::Over => {}
        }
    }

    /// The handler has left, but found no room for its answer: it works on.
    pub(super) fn keep_handler(&mut self) {
        match self {
            Self::Over => *self = Self::Handler,
            Self::Tunnel => *self = Self::HandlerAndTunnel,
            Self::Waiting(_) | Self::Handler | Self::HandlerAndTunnel => {}
        }
    }

    pub(super) fn open_tunnel(&mut self) {
        match self {
            Self::Handler => *self = Self::HandlerAndTunnel,
            Self::Over => *self = Self::Tunnel,
            Self::Waiting(_) | Self::HandlerAndTunnel | Self::Tunnel => {}
        }
    }

    pub(super) fn leave_tunnel(&mut self) {
        match self {
            Self::HandlerAndTunnel => *self = Self::Handler,
            Self::Tunnel => *self = Self::Over,
            Self::Waiting(_) | Self::Handler | Self::Over => {}
        }
    }
}

impl Exchange {
    pub(super) fn new(stream: StreamKey, head: &RequestHead, ends: bool, body_timeout: Duration) -> Self {
        Self {
            id: stream.id,
            method: head.method.clone(),
            request: Incoming::of(head, ends),
            response: Outgoing::Head,
            stage: Stage::Handler,
            course: Course::Running,
            ending: None,
            needs_room: false,
            trailers: None,
            finished: false,
            handler: None,
            reader: None,
            writer: None,
            received: None,
            answer: None,
            body: UserBody::default(),
            body_sent: 0,
            due: None,
            must_finish: 0,
            begun_at: None,
            share: None,
            client: None,
            collected: None,
            slot: None,
            blocked_since: None,
            min_rate: MinRateTimer::full(body_timeout),
            held_until: None,
            window: None,
            taken_bytes: 0,
            drain_until: None,
            dropped_bytes: 0,
            line: None,
            peer: None,
            status: None,
            sent_bytes: 0,
        }
    }

    /// Makes a new one of one that is over. Field by field: as a value of its own it would be moved about.
    pub(super) fn renew(&mut self, stream: StreamKey, head: &RequestHead, ends: bool, body_timeout: Duration) {
        debug_assert!(self.handler.is_none() && self.answer.is_none() && self.received.is_none(), "it was cleared");
        (self.id, self.method) = (stream.id, head.method.clone());
        (self.request, self.response) = (Incoming::of(head, ends), Outgoing::Head);
        self.stage = Stage::Handler;
        debug_assert_eq!(self.course, Course::None, "the one before has ended");
        self.course = Course::Running;
        (self.finished, self.ending, self.needs_room) = (false, None, false);
        (self.body_sent, self.due, self.must_finish) = (0, None, 0);
        (self.begun_at, self.blocked_since, self.drain_until) = (None, None, None);
        (self.min_rate, self.held_until, self.taken_bytes) = (MinRateTimer::full(body_timeout), None, 0);
        (self.dropped_bytes, self.peer, self.status, self.sent_bytes) = (0, None, None, 0);
    }

    /// Gives back what it holds.
    pub(super) fn clear(&mut self) {
        debug_assert!(self.reader.is_none() && self.writer.is_none(), "who waited was woken");
        debug_assert!(self.stage.waiting().is_none(), "it waits no more");
        self.drop_answer();
        (self.handler, self.received, self.line) = (None, None, None);
        (self.body, self.window, self.trailers) = (UserBody::default(), None, None);
        (self.share, self.collected, self.slot) = (None, None, None);
    }

    /// Drops an answer that waits for room; how many there were.
    pub(super) fn drop_answer(&mut self) -> u16 {
        let Some(mut answer) = self.answer.take() else { return 0 };
        user_code::drop_later(::core::mem::take(answer.body_mut()));
        1
    }

    /// No more of its body comes, or what comes is not kept: what its window was grown by is given back.
    pub(super) fn shrink_window(&mut self, codec: &mut Codec) {
        if let Some(grown) = self.window.take() {
            codec.shrink_window(grown.bytes());
        }
    }

    /// It does not wait to be begun any more.
    #[inline]
    pub(super) fn wait_no_more(&mut self, desk: &Desk) {
        if let Some(waiting) = self.stage.take_waiting() {
            desk.leave(waiting.place);
        }
    }

    /// Whether somebody reads what comes of the request, or will.
    pub(super) fn is_wanted(&self) -> bool {
        self.stage.is_running() || self.stage.waiting().is_some()
    }

    /// Whether what comes of the request is kept for somebody.
    pub(super) fn takes_data(&self) -> bool {
        self.stage.is_running() || self.stage.is_tunnel() && self.request != Incoming::NoRoom
    }

    /// What is to be sent of the body.
    pub(super) fn rest(&self) -> &[u8] {
        &self.body.as_slice()[self.body_sent..]
    }

    /// Adds a part of the request's body behind what waits already.
    pub(super) fn receive(&mut self, desk: &Desk, bytes: &[u8]) -> Result<(), OverBudget> {
        self.request.let_come();
        let (pool, config) = (&desk.pool, &desk.config);
        match &mut self.received {
            Some(lease) => {
                pool.try_grow(lease, bytes.len())?;
                lease.extend(bytes);
            }
            None => self.received = Some(pool.try_copy(bytes, Kind::Buffers)?),
        }
        if self.min_rate.until().is_some() {
            self.min_rate.pause(plimsoll_runtime::now());
        }
        self.held_until = None;
        self.min_rate.earn(bytes.len(), config.body_bytes_per_second_min, config.body_timeout);
        self.wake_reader();
        Ok(())
    }

    /// Whoever waits on it is told that it has changed, or is over.
    pub(super) fn wake(&mut self) {
        self.wake_reader();
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    pub(super) fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The slots of a connection: none while it is parked, else as many as were needed at a time.
pub(super) enum Slots {
    None,
    Few(PoolBox<Group<8>>),
    Some(PoolBox<Group<32>>),
    Many(PoolBox<Group<128>>),
    Most(PoolBox<Group<1_024>>),
}

pub(super) struct Group<const N: usize> {
    streams: [Stream; N],
    exchanges: [Option<PoolBox<Exchange>>; N],
}

impl Slots {
    pub(super) fn parts(&mut self) -> (&mut [Stream], &mut [Option<PoolBox<Exchange>>]) {
        match self {
            Self::None => (&mut [], &mut []),
            Self::Few(group) => group.parts(),
            Self::Some(group) => group.parts(),
            Self::Many(group) => group.parts(),
            Self::Most(group) => group.parts(),
        }
    }

    pub(super) fn streams(&self) -> &[Stream] {
        match self {
            Self::None => &[],
            Self::Few(group) => &group.streams,
            Self::Some(group) => &group.streams,
            Self::Many(group) => &group.streams,
            Self::Most(group) => &group.streams,
        }
    }

    pub(super) fn exchanges(&self) -> &[Option<PoolBox<Exchange>>] {
        match self {
            Self::None => &[],
            Self::Few(group) => &group.exchanges,
            Self::Some(group) => &group.exchanges,
            Self::Many(group) => &group.exchanges,
            Self::Most(group) => &group.exchanges,
        }
    }

    /// The exchange of a stream, if it is still there.
    pub(super) fn exchange(&mut self, stream: StreamKey) -> Option<&mut Exchange> {
        find(self.parts().1, stream)
    }

    /// Makes more slots; those that there are keep their places. Not inlined: the largest group would be on the stack
    /// of each turn.
    #[inline(never)]
    pub(super) fn grow(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let grown = match self {
            Self::None => Self::Few(Group::of(self, pool)?),
            Self::Few(_) => Self::Some(Group::of(self, pool)?),
            Self::Some(_) => Self::Many(Group::of(self, pool)?),
            Self::Many(_) | Self::Most(_) => Self::Most(Group::of(self, pool)?),
        };
        *self = grown;
        Ok(())
    }
}

impl<const N: usize> Group<N> {
    /// With the streams of `before`, whose exchanges move when nothing can fail any more.
    fn of(before: &mut Slots, pool: &Pool) -> Result<PoolBox<Self>, OverBudget> {
        let empty = Self { streams: [Stream::FREE; N], exchanges: [const { None }; N] };
        let mut group = pool.try_boxed(empty, Kind::Codec).map_err(|(over, _)| over)?;
        let (streams, exchanges) = before.parts();
        group.streams[..streams.len()].copy_from_slice(streams);
        for (to, from) in group.exchanges.iter_mut().zip(exchanges) {
            *to = from.take();
        }
        Ok(group)
    }

    fn parts(&mut self) -> (&mut [Stream], &mut [Option<PoolBox<Exchange>>]) {
        (&mut self.streams, &mut self.exchanges)
    }
}

/// The exchange of a stream among those of a connection.
pub(super) fn find(exchanges: &mut [Option<PoolBox<Exchange>>], stream: StreamKey) -> Option<&mut Exchange> {
    exchanges.get_mut(usize::from(stream.slot))?.as_deref_mut().filter(|exchange| exchange.id == stream.id)
}

const _: () = assert!(size_of::<Exchange>() <= 512, "an exchange fits its class");
