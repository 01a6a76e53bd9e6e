//! What the engine of a worker and the handlers it started share: the connection table and everything written to it.

use ::core::cell::{Cell, RefCell};
use ::core::net::SocketAddr;
use ::core::ops::Deref;
use std::rc::{Rc, Weak};

use http::{Method, StatusCode, Version};
use plimsoll_codec::h1::{
    self, BodyEncoder, BodyLength, BodyOut, Fields, Persistence, RequestState, ResponseHead, ResponseState,
};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::OverBudget;
use plimsoll_runtime::net::Table;
use plimsoll_slab::Key;

use crate::base::config::{Config, HalfClose};
use crate::base::counters::{Counters, Shed};
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::peers::Addresses;
use crate::exchange::access_record::{AccessRecord, LogHook};
use crate::exchange::failure::Failure;
use crate::exchange::output::COPY_BYTES_MAX;
use crate::exchange::response::{Body, IntoResponse, Kind as ResponseKind, Response};
use crate::h1::active::Active;
use crate::h1::body_receive;
use crate::h2::{self, Scratch};
use crate::hub::Members;
use crate::memory::desk::{Connections, Desk};
use crate::memory::lasting::ExchangeId;
use crate::websocket::KnownSettings;
use crate::worker::connection::Connection;
use crate::worker::request_queue::Turns;
use crate::worker::stay::stay_bytes;

/// The most that a head takes beside the program's own fields: status line, Date, Content-Length or Transfer-Encoding,
/// Connection.
const HEAD_BYTES_MAX: usize = 224;

/// What an answer of the server's own says besides, and a 503.
const TEXT: &[u8] = b"Content-Type: text/plain; charset=utf-8\r\n";
/// Not the same to all, so that they do not come again together.
const TEXT_AND_RETRY: [&[u8]; 3] = [
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 1\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 2\r\n",
    b"Content-Type: text/plain; charset=utf-8\r\nRetry-After: 3\r\n",
];

/// The shared part of one worker's server.
pub(crate) struct Core {
    desk: Desk,
    pub(crate) table: RefCell<Table<Connection>>,
    pub(crate) turns: Turns,
    pub(crate) log: Option<LogHook>,
    /// Members of hubs, while there are some.
    pub(crate) members: RefCell<Weak<Members>>,
    pub(crate) h2_scratch: RefCell<Scratch>,
    pub(crate) websockets: RefCell<KnownSettings>,
    pub(crate) h2_spare: h2::Spare,
    pub(crate) h2_waiting: h2::HeldByWaiting,
    /// The paths of the routes, for handlers that ask for a parameter.
    #[cfg(feature = "router")]
    pub(crate) routes: ::core::cell::OnceCell<Rc<crate::face::router::Table>>,
}

/// Drops a connection in whose place another was put: nearly always there is none.
#[cold]
fn drop_before(connection: Connection) {
    drop(connection);
}

impl Deref for Core {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Core {
    pub(crate) fn new(
        table: Table<Connection>,
        config: Config,
        counters: Counters,
        addresses: Addresses,
        log: Option<LogHook>,
    ) -> Rc<Self> {
        let pool = plimsoll_runtime::pool();
        let line_share = pool.budget().limit().as_bytes() / counters.0.len() as u64;
        let config = Config { body_receive_leases_max: body_receive::leases_max(&config, line_share), ..config };
        let turns = Turns::new(&pool);
        let core = Rc::new(Self {
            desk: Desk::new(config, line_share, pool, (counters, addresses), stay_bytes()),
            table: RefCell::new(table),
            turns,
            log,
            members: RefCell::default(),
            h2_scratch: RefCell::default(),
            websockets: RefCell::default(),
            h2_spare: Cell::new(None),
            h2_waiting: h2::HeldByWaiting::default(),
            #[cfg(feature = "router")]
            routes: ::core::cell::OnceCell::new(),
        });
        let connections: Rc<dyn Connections> = core.clone();
        core.desk.serve(Rc::downgrade(&connections));
        core
    }

    /// Begins a turn of the engine.
    pub(crate) fn begin_turn(&self) {
        self.turns.begin();
        if self.desk.begin_turn() {
            self.weigh_what_runs();
        }
    }

    /// Has the engine look after a connection, unless it does so anyway.
    pub(crate) fn list(&self, key: Key, active: &mut Active) {
        active.listed = active.listed || self.enlist(key);
    }

    /// Whether a peer that has ended its half gets the answer that is worked on: one that was begun it always gets.
    pub(crate) fn outlasts_half_close(&self, active: &Active) -> bool {
        self.config.half_close == HalfClose::Answered || active.has_begun_answer()
    }

    /// Whether a connection of HTTP/1 is between requests.
    pub(crate) fn is_parked(&self, key: Key) -> bool {
        matches!(self.table.borrow().get(key), Some(Connection::Parked { .. }))
    }

    /// Whether nothing was received of the next request of a connection of HTTP/1.
    pub(crate) fn is_between_requests(&self, key: Key) -> bool {
        self.is_parked(key) || self.is_unread(key)
    }

    /// Takes an active connection out of the table.
    pub(crate) fn take(&self, key: Key) -> Option<PoolBox<Active>> {
        let mut table = self.table.borrow_mut();
        let connection = table.get_mut(key)?;
        match ::core::mem::replace(connection, Connection::Taken) {
            Connection::Active(active) => Some(active),
            other => {
                *connection = other;
                None
            }
        }
    }

    /// Puts a connection back.
    pub(crate) fn put(&self, key: Key, connection: Connection) {
        let mut table = self.table.borrow_mut();
        let Some(place) = table.get_mut(key) else { return };
        let before = ::core::mem::replace(place, connection);
        match before {
            // There is nothing in it to be dropped.
            Connection::Taken => ::core::mem::forget(before),
            before => drop_before(before),
        }
    }

    /// Runs `act` on the exchange of HTTP/1 with this id, if it is still the one that is worked on.
    pub(crate) fn with<R>(&self, id: ExchangeId, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        let mut table = self.table.borrow_mut();
        match table.get_mut(id.key())? {
            Connection::Active(active) if active.requests == id.number() => Some(act(active)),
            _ => None,
        }
    }

    /// Answers 503 to a request that was not begun, from the answer reserve if there is no other room.
    pub(crate) fn refuse(&self, key: Key, active: &mut Active) -> Result<(), Error> {
        let date = self.date();
        let Failure { status, line } = Failure::NO_ROOM;
        let text_and_retry = TEXT_AND_RETRY[key.index() as usize % TEXT_AND_RETRY.len()];
        let head = ResponseHead::new(&active.method, active.version, status, BodyLength::Known(line.len() as u64))?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(Fields::assume_checked(text_and_retry));
        let is_lent = match active.output.reserve(&self.pool, HEAD_BYTES_MAX + text_and_retry.len() + line.len()) {
            Ok(()) => false,
            Err(over) => {
                let lease = self.reserve_for(key, active).ok_or(over)?;
                active.output.lend(lease);
                true
            }
        };
        active.exchange.head_sent(&head)?;
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        self.counters().response(status.as_u16());
        let body = if head.body() == BodyOut::None { &[] } else { line.as_bytes() };
        self.log(active, status, body.len() as u64);
        if !body.is_empty() {
            active.output.push(body);
            active.exchange.body_sent()?;
        }
        if is_lent && let Some(lease) = active.output.send_now(&mut self.table.borrow_mut(), key) {
            self.reserve.put_back(lease);
        }
        Ok(())
    }

    /// Writes a response, whole or only its head. One that finds no room is left as it is.
    pub(crate) fn write(&self, active: &mut Active, response: &mut Response, length: BodyLength) -> Result<(), Error> {
        let date = self.date();
        if active.exchange.request() == RequestState::Body && !self.will_drain(active, response.length() == length) {
            active.exchange.close_after();
        }
        let head = ResponseHead::new(&active.method, active.version, response.status(), length)?
            .persistence(active.exchange.persistence())
            .date(&date)
            .fields(response.fields());
        let body_bytes = if head.body() == BodyOut::None { 0 } else { response.body_bytes() };
        let copied = if body_bytes <= COPY_BYTES_MAX { body_bytes } else { 0 };
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + response.fields().as_bytes().len() + copied)?;
        active.exchange.head_sent(&head)?;
        active.output.begin_answer();
        head.encode(&mut active.output)?;
        active.body = BodyEncoder::new(head.body());
        if body_bytes == 0 && active.exchange.response() == ResponseState::Body {
            // Streamed: how long it is is known at its end.
            (active.status, active.uncounted) = (Some(response.status()), Some(response.status()));
            return Ok(());
        }
        self.counters().response(response.status().as_u16());
        self.log(active, response.status(), body_bytes as u64);
        if body_bytes == 0 {
            return Ok(());
        }
        active.sent_bytes = body_bytes as u64;
        match copied {
            0 => active.output.follow(::core::mem::take(response.body_mut())),
            _ => active.output.push(response.body_slice()),
        }
        active.exchange.body_sent()?;
        Ok(())
    }

    fn log(&self, active: &mut Active, status: StatusCode, body_bytes: u64) {
        if let (Some(log), Some(line)) = (&self.log, active.line.take()) {
            write_line(log, &line, status, body_bytes, active.peer);
        }
    }

    /// Writes a line of the access log.
    pub(crate) fn log_line(&self, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
        if let Some(log) = &self.log {
            write_line(log, line, status, body_bytes, peer);
        }
    }

    /// Writes the line of a streamed answer that is over, complete or not.
    pub(crate) fn log_streamed(&self, active: &mut Active) {
        self.count_begun(active);
        if let Some(status) = active.status.take() {
            self.log(active, status, active.sent_bytes);
        }
    }

    /// The answer of a handler, or the lack of it.
    ///
    /// # Errors
    ///
    /// [`OverBudget`] when there is no room for it: nothing has been done, and it may be given once more.
    pub(crate) fn answer(&self, active: &mut Active, response: &mut Response) -> Result<(), OverBudget> {
        let is_due = matches!(active.exchange.response(), ResponseState::Head | ResponseState::SentContinue);
        if !active.closing && response.kind() == ResponseKind::Whole && is_due {
            if let Some(error) = active.malformed_for(response.status()) {
                active.handler = None;
                self.fail(active, error.status());
                return Ok(());
            }
            let length = response.length();
            match self.write(active, response, length) {
                Ok(()) => {}
                Err(Error::OverBudget(over)) => return Err(over),
                Err(error) => {
                    tracing::error!(%error, "a response could not be written");
                    self.fail(active, error.into_response().status());
                }
            }
            active.handler = None;
            return Ok(());
        }
        active.handler = None;
        let is_whole = response.kind() == ResponseKind::Whole;
        // What another goes on with is not cut short.
        let is_cut_short = active.exchange.response() == ResponseState::Body && active.upgrade.is_none();
        if !active.closing
            && is_cut_short
            && let Some(error) = active.decoder.failure()
        {
            self.fail(active, error.status());
        }
        self.log_streamed(active);
        if !active.closing && (is_whole || is_cut_short) {
            // A second answer, or one that is cut short: the peer can only be told by closing.
            if response.kind() == ResponseKind::Whole {
                self.warn_of_second(response.status().as_u16());
            }
            self.abandon(active);
        }
        Ok(())
    }

    /// The answer of a handler found no room, and cannot wait for it.
    pub(crate) fn answer_no_room(&self, active: &mut Active, over: OverBudget) {
        active.handler = None;
        active.course.note(ExchangeEnd::Overstay);
        self.shed_for_room(Shed::Output);
        tracing::debug!(%over, "a response found no room");
        self.fail(active, Failure::NO_ROOM);
    }

    /// Answers with an error in static bytes, if nothing of an answer has left, and closes afterwards.
    pub(crate) fn fail(&self, active: &mut Active, failure: impl Into<Failure>) {
        let has_left = match active.exchange.response() {
            ResponseState::Idle | ResponseState::Head | ResponseState::SentContinue => false,
            ResponseState::Body => active.closing || !self.take_back(active),
            ResponseState::Done | ResponseState::Upgraded => true,
        };
        if has_left || active.closing || active.output.has_tail() {
            return self.abandon(active);
        }
        let failure = failure.into();
        self.counters().response(failure.status.as_u16());
        let sent_bytes = match self.write_failure(active, failure) {
            Ok(bytes) => bytes,
            Err(_) => {
                active.output.follow(Body::Static(h1::error_response(&active.method, failure.status)));
                if active.method == Method::HEAD { 0 } else { h1::error_line(failure.status).len() as u64 }
            }
        };
        self.log(active, failure.status, sent_bytes);
        active.closing = true;
    }

    /// Takes a streamed answer back that was begun, and of which nothing has left; whether it could be.
    fn take_back(&self, active: &mut Active) -> bool {
        let is_back = active.output.take_back();
        if is_back {
            (active.status, active.uncounted) = (None, None);
        }
        is_back
    }

    /// Counts a streamed answer that was begun, as it is not taken back any more: a counter never falls.
    pub(crate) fn count_begun(&self, active: &mut Active) {
        if let Some(status) = active.uncounted.take() {
            self.counters().response(status.as_u16());
        }
    }

    /// An answer that closes the connection, and how many bytes its body has.
    fn write_failure(&self, active: &mut Active, Failure { status, line }: Failure) -> Result<u64, Error> {
        let date = self.date();
        let length = BodyLength::Known(line.len() as u64);
        let head = ResponseHead::new(&active.method, Version::HTTP_11, status, length)?;
        active.output.reserve(&self.pool, HEAD_BYTES_MAX + TEXT_AND_RETRY[0].len() + line.len())?;
        let fields = if status == StatusCode::SERVICE_UNAVAILABLE { TEXT_AND_RETRY[0] } else { TEXT };
        let fields = Fields::assume_checked(fields);
        head.persistence(Persistence::Close).date(&date).fields(fields).encode(&mut active.output)?;
        if head.body() == BodyOut::None {
            return Ok(0);
        }
        active.output.push(line.as_bytes());
        Ok(line.len() as u64)
    }

    /// The answer cannot be completed: what was gathered may still leave, then the connection is closed.
    pub(crate) fn abandon(&self, active: &mut Active) {
        active.closing = true;
    }
}

fn write_line(log: &LogHook, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
    let unix_seconds = plimsoll_runtime::unix_seconds();
    log.write(&AccessRecord { request_line: line, status, body_bytes, unix_seconds, peer });
}

impl Core {
    /// Appends a piece of an answer's body, and takes it: all of it or nothing.
    pub(crate) fn put_piece(&self, active: &mut Active, body: &mut Body) -> Result<(), Error> {
        let bytes = body.as_slice().len() as u64;
        let mut encoder = active.body;
        let frame = encoder.piece(bytes).map_err(|error| match error {
            plimsoll_codec::Error::BodyTooLong => Error::Misuse("more bytes than were announced"),
            _ => Error::Misuse("this answer has no body"),
        })?;
        active.output.append_piece(&self.pool, frame.before(), body, frame.after())?;
        // A piece that found no room was not sent.
        active.body = encoder;
        active.sent_bytes += bytes;
        Ok(())
    }
}
