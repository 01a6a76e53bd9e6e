//! HTTP/2 (RFC 9113) over the codec of [`plimsoll_codec::h2`].
//!
//! ```text
//!            the preface           streams, or a frame that began            nothing of these
//!  HTTP/1.1 -------------> busy <------------------------------------> parked
//!                            |  the peer broke a rule, the server stops, time is up
//!                            +--------> closing: GOAWAY leaves, then as every connection
//! ```
//!
//! A connection is one box with the codec's state and one with both tables of HPACK. Each stream that is worked on has
//! a slot of the codec's and an [`Exchange`](streams::Exchange); slots are made as they are needed and given back when
//! there is no stream. Scratch for lists of fields is one set for each worker. A connection without streams gives its
//! slots back after a second (at once when memory is short), and its tables of HPACK, which it cannot do without, are
//! packed: only what the peers put into them stays. So a parked connection holds [`HTTP2_PARKED_BYTES`] beside its
//! entry in the table, and what is in its tables, none of it a buffer.
//!
//! A step works on its own connection alone: it gets that, an [`Env`], the [`Line`](crate::exchange::line::Line) to its
//! socket, and what happened. It says what becomes of the connection, a [`Step`], which the worker does. A request is a
//! [`NewRequest`] for the worker, which puts the connection back before it starts the handler.
//!
//! | file | what it is |
//! |---|---|
//! | [`connection`] | what came is taken in, frame by frame; what there is to send is sent, what is waited for is armed |
//! | `connection/requests` | heads, bodies and trailers of requests |
//! | `connection/waiting` | how streams come to wait to be begun; [`waiting`] is what one waits with |
//! | [`admission`] | whether a request may wait, and as what it counts when it may not |
//! | `connection/deadlines` | what has a limited time, and what becomes of it |
//! | `connection/half` | the peer ends its half |
//! | [`step`] | what a step says, and what it asks of the worker |
//! | [`calls`] | where handlers find their streams; their calls are in [`handlers`], [`interim`] and [`tunnel`] |
//! | [`streams`] | an exchange, and the slots of a connection |
//! | [`output`], [`ends`], [`window`] | heads and bodies of answers, ends of streams, larger windows |
//! | [`receive`] | where what comes is received to |
//! | [`room`], [`no_room`] | what is done without room, and how that is waited for |
//! | [`pending`] | frames that wait for room, and how far a connection is |
//! | [`offer`] | what SETTINGS say at each memory level |
//! | [`asked`], [`weight`] | what others may ask of a connection: to be fast enough, to let go |
//! | [`shared`] | what the connections of a worker share |
//!
//! Who waits for whom:
//!
//! * A response's body stays with its stream until windows allow it and less than
//!   [`output_bytes_max`](crate::Config::output_bytes_max) bytes wait for the socket; a handler that streams waits for
//!   that, too.
//! * A request's body is taken from the input when there is a lease for it. Without one nothing more is read from that
//!   connection. Bytes are given back to the peer's windows when the handler takes them.
//! * While output waits beyond the bound, and while 64 control frames do, nothing is read.
//! * What finds no room in memory waits for it, and the connection with it; [`room`] says how.
//!
//! # Streams of bytes: CONNECT
//!
//! SETTINGS offer extended CONNECT (RFC 8441). A CONNECT, plain or extended, comes to the handler as every request,
//! with [`Request::connect_protocol`](crate::Request::connect_protocol) for its `:protocol`.
//! [`Request::accept_tunnel`](crate::Request::accept_tunnel) answers it and hands a [`Tunnel`](crate::Tunnel) to a
//! task. In this crate, `Request::open_tunnel` lets another protocol wrap the tunnel before the task begins: its
//! closure gets the tunnel, and the answer leaves when that succeeds. The body's time limits do not hold for a tunnel:
//! its peer may be silent for as long as the protocol over it allows.

mod admission;
mod asked;
mod calls;
mod connection;
mod ends;
mod grown;
mod handlers;
mod interim;
mod no_room;
mod offer;
mod output;
mod peer_half;
mod pending;
mod receive;
mod room;
mod shared;
mod step;
mod streams;
#[cfg(test)]
mod tests;
mod tunnel;
mod waiting;
mod weight;
mod window;

pub(crate) use calls::{Calls, Http2s};

use plimsoll_codec::h1::FieldSlot;
use plimsoll_codec::h2::{Connection as Codec, Repeat, Storage};
use plimsoll_codec::hpack::TABLE_BYTES;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, Pool};

use crate::base::exchange_end::Answered;
use crate::exchange::misbehaviour::Score;
use crate::exchange::output::Output;
use crate::memory::by_address::PeerShare;
pub(crate) use connection::Turn;
use no_room::MemoryNeed;
pub(crate) use no_room::{NextStream, TurnWait};
use peer_half::PeerHalf;
use pending::{Pending, Phase, Windows};
pub(crate) use room::REFUSAL;
use shared::zeros;
pub(crate) use shared::{Env, Shared};
pub(crate) use step::{NewRequest, Step, Turned, Worker};
pub(crate) use streams::Exchange;
use streams::Slots;

/// Bytes of a parked HTTP/2 connection, beside those of every parked connection and what is in its tables of HPACK: the
/// codec's state, with its size class.
pub const HTTP2_PARKED_BYTES: usize = PoolBox::<Http2>::CLASS.bytes();
/// Bytes of the tables of HPACK of a connection that is worked on. Packed they take what is in them.
pub(crate) const TABLES_BYTES: usize = PoolBox::<OpenTables>::CLASS.bytes();
/// Slots of the first streams, and what each stream that is worked on has besides.
pub(crate) const FEW_STREAMS_BYTES: usize = PoolBox::<streams::Group<8>>::CLASS.bytes();
pub(crate) const STREAM_BYTES: usize = PoolBox::<Exchange>::CLASS.bytes();

const _: () = assert!(HTTP2_PARKED_BYTES <= 1_024, "a parked HTTP/2 connection is a kilobyte and its tables");

/// An HTTP/2 connection.
pub(crate) struct Http2 {
    codec: Codec,
    tables: Tables,
    slots: Slots,
    /// Received, not used yet: a part of a frame, or frames that wait for memory or output.
    input: Option<Lease>,
    output: Output,
    /// Exchanges whose answer or end waits for room in it.
    answers: u16,
    /// Exchanges whose answers are written and have not left.
    answered: Answered,
    /// What it holds beside its streams counts for its address, where it began while memory was short.
    share: Option<PeerShare>,
    need: MemoryNeed,
    /// How its next request waits for a turn.
    pub(crate) turn: TurnWait,
    /// What is to be sent as soon as there is room.
    pending: Pending,
    /// The level that our SETTINGS are made for.
    offered: Level,
    peer: PeerHalf,
    phase: Phase,
    /// In the list of connections to be looked after this turn.
    pub(crate) listed: bool,
    /// Counted as active.
    counted: bool,
    score: Score,
    /// Since when something is waited for.
    since: Since,
    requests: u32,
    born: u32,
}

/// Since when something is waited for; `None` while it is not.
#[derive(Clone, Copy, Default)]
struct Since {
    /// The rest of a frame: moved on by the time in which it could not come.
    frame: Option<Instant>,
    /// While that is waited for: the connection is not read.
    unread: Option<Instant>,
    /// The socket, to take some output.
    sending: Option<Instant>,
    /// Any stream.
    idle: Option<Instant>,
    /// When it was last tried to give back what a connection without streams can do without.
    rested: Option<Instant>,
    /// The acknowledgement of our first SETTINGS. Later ones wait behind output that the peer takes as slowly as it
    /// likes.
    settings: Option<Instant>,
    /// The peer's windows, to let any body go on. What they let go moves it on.
    windows: Option<Instant>,
    /// A larger window for the connection, while a little of it is open.
    larger_window: Option<Instant>,
}

/// The tables of HPACK.
enum Tables {
    Open(PoolBox<OpenTables>),
    /// Only what is in them, if anything is.
    Packed(Option<Lease>),
}

struct OpenTables {
    decoder: [u8; TABLE_BYTES],
    encoder: [u8; TABLE_BYTES],
}

/// The codec with its storage, and what belongs to it.
struct Parts<'a> {
    env: Env<'a>,
    codec: &'a mut Codec,
    storage: Storage<'a>,
    exchanges: &'a mut [Option<PoolBox<Exchange>>],
    output: &'a mut Output,
    answers: &'a mut u16,
    answered: &'a mut Answered,
    need: &'a mut MemoryNeed,
    pending: &'a mut Pending,
    phase: &'a mut Phase,
    score: &'a mut Score,
    /// [`Since::windows`].
    stalled: &'a mut Option<Instant>,
}

impl Http2 {
    /// A connection that has lived since `born`.
    pub(crate) fn new(env: Env<'_>, born: u32) -> Result<PoolBox<Self>, OverBudget> {
        let (now, limits, level) = (plimsoll_runtime::now(), &env.config.http2_limits, offer::offered(env.level()));
        env.shared.scratch.borrow_mut().prepare(&env.pool, limits)?;
        let this = Self {
            codec: offer::offering(limits, level),
            tables: Tables::Packed(None),
            slots: Slots::None,
            input: None,
            output: Output::default(),
            answers: 0,
            answered: Answered::default(),
            share: None,
            need: MemoryNeed::default(),
            turn: TurnWait::default(),
            pending: Pending { windows: Windows::AfterSettings, ..Pending::default() },
            offered: level,
            peer: PeerHalf::Open,
            phase: Phase::Open,
            listed: false,
            counted: true,
            score: Score::default(),
            since: Since { settings: Some(now), ..Since::default() },
            requests: 0,
            born,
        };
        env.pool.try_boxed(this, Kind::Codec).map_err(|(over, _)| over)
    }

    fn split<'a>(
        &'a mut self,
        env: Env<'a>,
        bytes: &'a mut [u8],
        slots: &'a mut [FieldSlot],
        repeat: &'a mut Repeat,
    ) -> Parts<'a> {
        let (streams, exchanges) = self.slots.parts();
        let (decoder, encoder): (&mut [u8], &mut [u8]) = match &mut self.tables {
            Tables::Open(open) => {
                let OpenTables { decoder, encoder } = &mut **open;
                (decoder, encoder)
            }
            // Whoever encodes or decodes has a stream, or opened them before.
            Tables::Packed(_) => (&mut [], &mut []),
        };
        Parts {
            env,
            codec: &mut self.codec,
            storage: Storage { streams, decoder_table: decoder, encoder_table: encoder, bytes, slots, repeat },
            exchanges,
            output: &mut self.output,
            answers: &mut self.answers,
            answered: &mut self.answered,
            need: &mut self.need,
            pending: &mut self.pending,
            phase: &mut self.phase,
            score: &mut self.score,
            stalled: &mut self.since.windows,
        }
    }

    /// Whether its tables have to be made ready, for this input or for the streams that there are.
    fn needs_tables(&self, input: &[u8]) -> bool {
        let has_work = || !input.is_empty() || self.codec.live_streams() > 0;
        matches!(self.tables, Tables::Packed(_)) && has_work() && self.phase.is_open()
    }

    /// Makes the tables ready for use.
    fn open_tables(&mut self, pool: &Pool) -> Result<(), OverBudget> {
        let Tables::Packed(packed) = &self.tables else { return Ok(()) };
        let empty = OpenTables { decoder: [0; TABLE_BYTES], encoder: [0; TABLE_BYTES] };
        let mut open = pool.try_boxed(empty, Kind::Codec).map_err(|(over, _)| over)?;
        if let Some(packed) = packed {
            let OpenTables { decoder, encoder } = &mut *open;
            self.codec.unpack(packed, decoder, encoder);
        }
        self.tables = Tables::Open(open);
        Ok(())
    }

    /// Gives back what a connection without streams can do without. Without room for what is in the tables they stay as
    /// they are.
    fn rest(&mut self, pool: &Pool) {
        debug_assert!(self.is_parkable(), "nobody works on it");
        self.slots = Slots::None;
        let Tables::Open(open) = &mut self.tables else { return };
        let bytes = self.codec.packed_bytes();
        let mut packed = None;
        if bytes > 0 {
            let Ok(mut lease) = zeros(pool, bytes) else { return };
            let OpenTables { decoder, encoder } = &mut **open;
            self.codec.pack(decoder, encoder, lease.as_mut_slice());
            packed = Some(lease);
        }
        self.tables = Tables::Packed(packed);
    }

    /// Whether it holds what it could [give back](Self::rest).
    fn is_restless(&self) -> bool {
        let holds = matches!(self.tables, Tables::Open(_)) || !matches!(self.slots, Slots::None);
        holds && self.is_parkable()
    }

    /// Whether nothing is left but, perhaps, a send in flight.
    fn is_parkable(&self) -> bool {
        self.codec.is_idle() && self.input.is_none() && self.output.is_empty() && self.phase.is_open()
    }
}
