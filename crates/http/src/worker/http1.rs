//! Connections of HTTP/1.1: what comes becomes steps, and what those say is done. Whether a request is begun now, and
//! with which service, is decided here.

use http::StatusCode;
use plimsoll_codec::h1::{FieldSlot, HeadSearch, RequestView};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::Kind;
use plimsoll_runtime::net::Bytes;
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::{Answered, ExchangeEnd};
use crate::exchange::handle::{ExchangeHandle, Responder};
use crate::exchange::line::TableLine;
use crate::exchange::response::Response;
use crate::exchange::source::Source;
use crate::h1::active::{Active, Deadline, EXCHANGE_BYTES, Look, Phase};
use crate::h1::head::Slots;
use crate::h1::step::{Progress, Step};
use crate::memory::lasting::ExchangeId;
use crate::memory::wait::MemoryWait;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{self, NoRoom, Service};
use crate::worker::state::WorkerState;

/// What became of a request whose head has come.
enum Begun {
    /// Its handler runs, or has answered.
    Started(PoolBox<Active>),
    /// It was answered without one.
    Refused(PoolBox<Active>),
    /// It will be looked at again.
    Waits(PoolBox<Active>),
    /// Its connection was closed meanwhile.
    Gone,
}

impl<S: Service> Engine<S> {
    /// The first bytes of a request, or of what comes before it, which has waited as it says.
    pub(crate) fn begin_head(&mut self, key: Key, parked: Connection, bytes: Bytes, memory: MemoryWait) {
        let (waited, requests, born, score, empty_lines, answered) = match parked {
            Connection::Parked { requests, born, score, empty_lines, answered } => {
                (false, requests, born, score, empty_lines, answered)
            }
            Connection::Unread { requests, born, score, empty_lines } => (true, requests, born, score, empty_lines, 0),
            _ => unreachable!("a request begins between requests"),
        };
        let awaits_proxy = self.worker.peers.borrow().awaits_proxy(key);
        // For whom it is, is not known yet.
        let memory = if awaits_proxy && memory == MemoryWait::Admitted { MemoryWait::None } else { memory };
        let class = PoolBox::<Active>::CLASS;
        // Nobody is shed for one that is refused.
        let is_refused = matches!(memory, MemoryWait::TimedOut | MemoryWait::Refused);
        let found =
            self.retried_if(!is_refused, key, |engine| engine.worker.pool.try_acquire_class(class, Kind::Codec));
        let worker = &self.worker;
        let place = found.ok().or_else(|| {
            let act = || worker.pool.try_acquire_class(class, Kind::Codec);
            if is_refused { worker.reserve.spare(act) } else { worker.spared(key, act) }
        });
        let Some(place) = place else {
            self.worker.put(key, Connection::leaving(answered));
            return self.shed(key, Shed::Head);
        };
        let mut active = PoolBox::from_lease(place, Active::new(requests, born, score, &worker.config));
        active.search = HeadSearch::after_empty_lines(empty_lines);
        (active.memory, active.answered) = (memory, Answered::sending(answered));
        if awaits_proxy {
            // The time that was set at the accept stands.
            (active.phase, active.deadline) =
                (Phase::AwaitsProxy, if waited { Deadline::None } else { Deadline::Proxy });
        }
        worker.counters().active(1);
        self.drive(key, active, Some(bytes));
    }

    /// Goes on with a connection as far as it can, with what has just come.
    pub(crate) fn drive(&mut self, key: Key, mut active: PoolBox<Active>, fresh: Option<Bytes>) {
        let is_fresh = fresh.is_some();
        let kept = active.input.take();
        let Ok(mut source) = Source::join(&self.worker, kept, fresh, || active.handler.is_some()) else {
            self.worker.put(key, Connection::Active(active));
            return self.shed(key, Shed::Head);
        };
        let mut slots = Slots::new();
        loop {
            let worker = &self.worker;
            let mut progress = active.go_on(worker, &TableLine::new(&worker.table, key), key, &mut source);
            if progress == Progress::Ahead {
                if !self.is_its_turn(key, &mut active, &source, is_fresh) {
                    break;
                }
                progress = active.choose_protocol(&self.worker, &source);
                if progress == Progress::Ahead && active.requests == 0 && self.worker.has_agreed_on_http2(key) {
                    self.worker.counters().shed(Shed::Misbehaviour);
                    progress = Progress::Close;
                }
            }
            match progress {
                Progress::Ahead => {}
                Progress::Http2 => return self.become_http2(key, active, source),
                Progress::Refuse => return self.refuse_active(key, active),
                Progress::Close => return self.execute(key, active, Step::End(ExchangeEnd::Peer)),
                Progress::Done => break,
            }
            let head = active.read_head(&self.worker, key, &mut source, &mut slots);
            let Some((len, parsed)) = &head else { break };
            let (head, behind) = source.rest().split_at(*len);
            let has_body = parsed.framing.has_body();
            if Active::awaits_place(&source, has_body, behind.len()) {
                match source.place(&self.worker) {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
            let slots = slots.of(parsed);
            let body = if has_body { Some(behind) } else { None };
            match self.begin_request(key, active, (&RequestView::new(head, slots, parsed), slots), body) {
                Begun::Started(back) => {
                    active = back;
                    if has_body {
                        // The handler read from what was kept; what it left is there.
                        source = active.input.take().map_or(Source::Empty, Source::Kept);
                    } else {
                        source.consume(*len);
                    }
                }
                Begun::Refused(back) => {
                    active = back;
                    source.consume(*len);
                }
                Begun::Waits(back) => active = back,
                Begun::Gone => return,
            }
        }
        let worker = &self.worker;
        let step = active.rest(worker, &mut TableLine::new(&worker.table, key), key, &mut source, is_fresh);
        self.execute(key, active, step);
    }

    /// Has an event change a connection, and does what that says.
    pub(crate) fn step_http1(&mut self, key: Key, step: impl FnOnce(&mut Active, &WorkerState) -> Step) {
        let Some(mut active) = self.worker.take(key) else { return };
        let step = step(&mut active, &self.worker);
        self.execute(key, active, step);
    }

    /// Goes on with a connection on which something changed.
    pub(crate) fn go_on_http1(&mut self, key: Key, mut active: PoolBox<Active>) {
        active.look = Look::Event;
        self.drive(key, active, None);
    }

    /// Does what a step says.
    pub(crate) fn execute(&mut self, key: Key, active: PoolBox<Active>, step: Step) {
        match step {
            Step::Rest => self.worker.put(key, Connection::Active(active)),
            Step::GoOn => self.go_on_http1(key, active),
            Step::GiveWay => {
                self.gives_way = true;
                self.drive(key, active, None);
            }
            Step::Abort(handler) => {
                self.worker.put(key, Connection::Active(active));
                handler.abort();
                self.look_after(key);
            }
            Step::Park => self.park(key, active),
            Step::Release(successor) => self.succeed(key, active, successor),
            Step::Shed(reason) => {
                self.worker.put(key, Connection::Active(active));
                self.shed(key, reason);
            }
            Step::CloseGently => {
                self.worker.put(key, Connection::Active(active));
                self.close_gently(key);
            }
            Step::End(why) => {
                self.worker.put(key, Connection::Active(active));
                self.close_for(key, why);
            }
        }
    }

    /// Sheds a connection whose client has too many.
    fn refuse_active(&mut self, key: Key, active: PoolBox<Active>) {
        self.worker.put(key, Connection::LINGERING);
        self.finish_active(active, ExchangeEnd::Peer);
        self.refuse(key);
    }

    /// Whether a request that came is looked at now; the source begins with it. If not, it has a place.
    fn is_its_turn(&self, key: Key, active: &mut Active, source: &Source, is_fresh: bool) -> bool {
        let worker = &self.worker;
        // It was read ahead, but has waited for this.
        let has_turn = worker.turns.is_serving(key) || active.memory == MemoryWait::Refused;
        if !worker.turns.is_free() && self.waits_for_turn(key, active, source.rest()) {
            active.look = Look::Listed;
            return false;
        }
        if !is_fresh && !has_turn && !worker.may_follow_up(key) {
            active.look = Look::Listed;
            worker.list_later(key);
            return false;
        }
        true
    }

    /// Whether the request that came waits for its turn. One that is refused does not, nor one for a marked route.
    #[cold]
    fn waits_for_turn(&self, key: Key, active: &Active, came: &[u8]) -> bool {
        active.memory != MemoryWait::Refused
            && !(self.worker.has_marked() && self.begins_marked(came))
            && self.worker.waits_for_turn(key)
    }

    /// Begins a request, or refuses it, or has it wait. `body` is what has come of its body, if it has one.
    fn begin_request(
        &mut self,
        key: Key,
        mut active: PoolBox<Active>,
        (view, slots): (&RequestView<'_>, &[FieldSlot]),
        body: Option<&[u8]>,
    ) -> Begun {
        let has_body = body.is_some();
        if self.is_kept_out(key, &mut active, view) {
            active.method = view.request().method.clone();
            if active.may_wait_to_begin(&self.worker, key, has_body) {
                return Begun::Waits(active);
            }
            self.refuse_request(key, &mut active, view, has_body);
            return Begun::Refused(active);
        }
        let before = active.exchange;
        self.worker.turns.begun();
        if active.begin(&self.worker, key, view, body).is_err() {
            active.put_off(&self.worker, key, before, has_body);
            return Begun::Waits(active);
        }
        let memory = ::core::mem::take(&mut active.memory);
        let (number, is_marked) = (active.requests, active.slot.is_some());
        // A handler that is polled at once finds its exchange there.
        self.worker.put(key, Connection::Active(active));
        let used_before = self.worker.used_before();
        let draws = is_marked && self.worker.draw_for_marked();
        let answered = self
            .retried(key, |engine| engine.start(view, slots, engine.worker.handle(ExchangeId::new(key, number, None))));
        self.worker.end_draw(draws);
        let Some(mut active) = self.worker.take(key) else { return Begun::Gone };
        match answered {
            Ok(service::Answered::Ready) => {}
            Ok(service::Answered::Pending(handler)) => {
                active.handler = Some(handler);
                active.begun_at = Some(plimsoll_runtime::now());
            }
            Err(NoRoom) => {
                // It goes on waiting, for more than it was granted.
                active.memory = memory;
                active.put_off(&self.worker, key, before, has_body);
                return Begun::Waits(active);
            }
        }
        // What it was answered is its address's until it has left.
        if (used_before > 0 || active.share.is_some()) && (active.handler.is_some() || !active.output.is_empty()) {
            active.share = self.worker.take_share(key, EXCHANGE_BYTES, used_before);
        }
        Begun::Started(active)
    }

    /// Whether a request may not be begun now: it is refused, or there is no room. One for a marked route may.
    fn is_kept_out(&mut self, key: Key, active: &mut Active, view: &RequestView<'_>) -> bool {
        let is_for_client = self.worker.note_client(key, view).is_some();
        let is_refused = active.memory == MemoryWait::Refused;
        if !is_refused && !self.worker.is_scarce() {
            return false;
        }
        if self.worker.has_marked() {
            active.slot = self.marked_slot(view.path());
        }
        // For whom it is was not known before its head was.
        let is_admitted = active.memory == MemoryWait::Admitted && !is_for_client;
        active.slot.is_none() && (is_refused || !is_admitted && !self.has_room(key))
    }

    /// Answers a request for which there is no room. Its connection ends if a body would have to be read, or the place
    /// is needed for the next connection.
    fn refuse_request(&self, key: Key, active: &mut Active, view: &RequestView<'_>, has_body: bool) {
        let worker = &self.worker;
        if active.memory == MemoryWait::Refused || worker.has_all_handlers() {
            worker.shed_for_cpu();
        } else {
            worker.shed_for_room(Shed::Queue);
        }
        let ends = has_body || worker.lacks_places();
        active.refuse(worker, &mut TableLine::new(&worker.table, key), key, view, ends);
    }

    /// Starts the handler of a request.
    pub(crate) fn start(
        &mut self,
        view: &RequestView<'_>,
        slots: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<service::Answered, NoRoom> {
        let is_misdirected = self.handshakes.is_some() && self.is_misdirected(handle.id.key(), view);
        let Self { worker, service, .. } = self;
        worker.as_current(handle.id.key(), || {
            if is_misdirected {
                Responder::new(handle).answer(Response::new(StatusCode::MISDIRECTED_REQUEST));
                return Ok(service::Answered::Ready);
            }
            service.start(worker, view, slots, handle)
        })
    }

    /// Whether a request is about a host that is not for the session that it came through (RFC 9110 15.5.20).
    fn is_misdirected(&self, key: Key, view: &RequestView<'_>) -> bool {
        let Some(host) = view.host() else { return false };
        let mut table = self.worker.table.borrow_mut();
        table.with_transport(key, |transport| !transport.serves(host)) == Some(true)
    }

    /// Nothing is left to do but to wait for the next request.
    fn park(&mut self, key: Key, active: PoolBox<Active>) {
        let worker = &self.worker;
        let mut table = worker.table.borrow_mut();
        let sending = table.is_sending(key);
        let Active { requests, born, score, answered, .. } = *active;
        let answered = answered.in_flight();
        let empty_lines = active.search.empty_lines();
        table.schedule(key, if sending { worker.config.send_timeout } else { worker.idle_timeout(born) });
        debug_assert!(!active.search.started(), "a head that began is kept");
        *table.get_mut(key).expect("a live connection") =
            Connection::Parked { requests, born, score, empty_lines, answered };
        if table.is_carried(key) {
            table.bound_partial(key, worker.config.head_timeout);
        }
        let receiving = worker.await_request(&mut table, key);
        drop(table);
        drop(active);
        worker.counters().active(-1);
        if receiving.is_err() && sending {
            // Closed when the answer has left.
            worker.shed_for_room(Shed::Parked);
            worker.put(key, Connection::leaving(answered));
        } else if receiving.is_err() {
            worker.shed_for_room(Shed::Parked);
            self.close(key);
        }
    }
}

impl WorkerState {
    /// Whether HTTP/2 was chosen beneath it (ALPN): who begins with something else is not spoken with (RFC 9113 3.4).
    fn has_agreed_on_http2(&self, key: Key) -> bool {
        let mut table = self.table.borrow_mut();
        table.with_transport(key, |transport| transport.protocol() == Some(b"h2")) == Some(true)
    }
}
