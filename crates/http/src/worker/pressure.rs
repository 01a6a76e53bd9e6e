//! What the memory level means for the connections of a server, and how those that find no room get some.
//!
//! | level | what is done |
//! |---|---|
//! | calm | nothing |
//! | yellow | a connection that is parked now waits a quarter of its time; one that has output waiting begins no further request |
//! | orange, red | room is made; accepting goes on, and who finds no room is told so |
//!
//! **Room is made** a little in each turn, and at once when a whole request finds none: [incomplete heads](heads) go
//! first, with a 503 from static bytes; when none was found, connections whose peer has taken nothing of its output for
//! a second, and then those that have asked for nothing for a second. The places of the table are looked at from the
//! highest to the lowest: low ones are filled first, so the newest tend to be high.
//!
//! **Who finds no room waits**, in a fair order over addresses ([`Queue`](plimsoll_pool::Queue)): a request that cannot
//! be begun, an answer or a piece of it, a part of a body. The one whose turn it is has a waiter among those of the
//! pool, so that memory which comes free anywhere in the process is kept for it. Its connection is looked after when
//! that is granted, before anything else can take it.
//!
//! ```text
//!           no room                       granted                     found it
//!   at work --------> queued, its deadline -------> looked after again ---------> at work
//!                        |                                |
//!                        | admission_timeout until it     | no room all the same, several times
//!                        | is begun, then memory_timeout  |
//!                        v                                v
//!                   503 if nothing was answered yet, else a close
//! ```
//!
//! **What was begun is finished**: a handler that runs is not given up for
//! [`begun_protection`](crate::Config::begun_protection). While memory is short, [`share`](crate::memory::share)
//! decides who may begin: an address that has nothing that runs draws on what the pool keeps for newcomers, others
//! begin more while they hold at most four times what is free. What waits and was begun is lent the progress reserve.
//!
//! **After 250 ms** in which somebody waited, the newest of the [connections that stay](crate::memory::lasting) are
//! told to end, of the address that holds most; and if these hold little, the address that holds the most of what is
//! not protected loses the newest of it until the level would fall: WebSockets, tunnels, handlers that have run for too
//! long, and streams of HTTP/2 whose peer takes nothing.
//!
//! Here is what is done in a turn; the [`queue`](crate::memory::queue) has the places in line, [`end_lasting`] who is
//! told to end, [`shed_order`] who is shed.

mod end_lasting;
mod heads;
mod pace;
mod shed_order;

use ::core::future::Future;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_pool::{Admission, Footprint, Permit, Place, Priority, Reserve};
use plimsoll_runtime::{Instant, Sleep, sleep_until};
use plimsoll_slab::Key;

use crate::h2::Http2s;
use crate::memory::desk::Connections;
use crate::memory::wait::REQUEST_ROOM_BYTES;
use crate::memory::waits::Grant;
use crate::memory::waits::WAIT_BYTES_MAX;
use crate::memory::waits::Waits;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

pub(crate) use pace::Pace;
use shed_order::LOOKS_MAX;

/// Somebody who has waited so long is a reason to shed others,
const WAIT_MAX: Duration = Duration::from_millis(250);
/// and if it was not enough within this time,
const AGAIN_WITHIN: Duration = Duration::from_secs(1);
/// one who has waited so long.
const WAIT_AGAIN: Duration = Duration::from_millis(50);
/// How often it is looked whether a handler of another worker has ended.
const HANDLERS_STEP: Duration = Duration::from_millis(10);
/// When nobody was found that may be shed, or is slow, it is looked again after so long for each place that was
/// looked at, so that looking takes a small part of the time: what makes somebody one to shed takes seconds.
const REST_FOR_EACH: Duration = Duration::from_micros(64);
/// At least so long,
const REST_FOR_MIN: Duration = Duration::from_millis(10);
/// and at most.
const REST_FOR_MAX: Duration = Duration::from_millis(200);
/// How long memory is kept for a handler that was woken for it.
const KEPT_FOR: Duration = Duration::from_millis(10);
/// How soon something is lent again: one that finds no room all the same is not tried again and again in one moment.
const LEND_STEP: Duration = Duration::from_millis(1);
/// As whom connections wait in the pool, beside the tasks of the program.
const NAME: u64 = u64::MAX;

/// How long a look at so many places is rested for.
fn rest(places: u32) -> Duration {
    (REST_FOR_EACH * places).clamp(REST_FOR_MIN, REST_FOR_MAX)
}

/// Whether connections are looked at for some to shed: when there were none among all of them, not for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Looks {
    /// So many were looked at since one was shed.
    Go {
        in_vain: u32,
    },
    Rest {
        until: Instant,
    },
}

/// The engine's part in it.
pub(crate) struct Overload {
    admission: Admission,
    /// The waiter of the connection whose turn it is.
    reserve: Option<(Place<Waits>, Reserve)>,
    /// What it was granted.
    granted: Option<(Place<Waits>, Permit)>,
    /// Since when somebody waits.
    since: Option<Instant>,
    /// When somebody large was shed last.
    shed_at: Option<Instant>,
    /// When connections that stay were told to end last, and what they should hold together when those have.
    told: Option<(Instant, u64)>,
    /// When what is kept for a handler has been kept for long enough.
    kept_until: Option<Instant>,
    looks: Looks,
    check: Option<Sleep>,
    /// Who is timed, while memory is short,
    pub(crate) pace: Pace,
    /// and when it is looked next who is slow.
    paced_until: Option<Instant>,
}

impl Overload {
    pub(crate) fn new(worker: &WorkerState) -> Self {
        Self {
            admission: plimsoll_runtime::memory::admission(),
            reserve: None,
            granted: None,
            since: None,
            shed_at: None,
            told: None,
            kept_until: None,
            looks: Looks::Go { in_vain: 0 },
            check: None,
            pace: Pace::new(&worker.pool, worker.line_share()),
            paced_until: None,
        }
    }

    /// Ready when there is room for the connection whose turn it is, or it is time to look.
    pub(crate) fn poll(&mut self, worker: &WorkerState, cx: &mut Context<'_>) -> Poll<()> {
        if self.granted.is_some() || self.poll_reserve(worker, cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(check) = &mut self.check else { return Poll::Pending };
        let is_due = Pin::new(check).poll(cx);
        if is_due.is_ready() {
            self.check = None;
        }
        is_due
    }

    fn poll_reserve(&mut self, worker: &WorkerState, cx: &mut Context<'_>) -> Poll<()> {
        if worker.kept_for.get().is_some() {
            // One after the other.
            return Poll::Pending;
        }
        let may_wait = |(place, _): &(Place<Waits>, Reserve)| worker.waits(place.item()) && worker.may_be_served(place);
        if !self.reserve.as_ref().is_some_and(may_wait) {
            // The one that waited is gone, or leaves what is free to others: its waiter goes first, so that the next is
            // the only one.
            self.reserve = None;
            self.reserve = worker.next_in_turn().map(|place| self.reserve(place));
        }
        let Some((place, reserve)) = &mut self.reserve else { return Poll::Pending };
        let Poll::Ready(answer) = Pin::new(reserve).poll(cx) else { return Poll::Pending };
        self.granted = answer.ok().map(|permit| (*place, permit));
        self.reserve = None;
        if self.granted.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn reserve(&self, place: Place<Waits>) -> (Place<Waits>, Reserve) {
        let footprint = Footprint::one((place.item().bytes as usize).min(WAIT_BYTES_MAX));
        (place, self.admission.reserve(footprint, place.priority(), NAME))
    }

    /// Whether a look is due at connections that may be shed.
    fn is_look_due(&mut self, now: Instant) -> bool {
        if matches!(self.looks, Looks::Rest { until } if until <= now) {
            self.looks = Looks::Go { in_vain: 0 };
        }
        matches!(self.looks, Looks::Go { .. })
    }

    /// Some were looked at, of so many: whether one was shed.
    fn looked(&mut self, found: bool, places: u32, now: Instant) {
        self.looks = match self.looks {
            Looks::Go { in_vain } if !found && in_vain + LOOKS_MAX >= places => {
                Looks::Rest { until: now + rest(places) }
            }
            Looks::Go { in_vain } if !found => Looks::Go { in_vain: in_vain + LOOKS_MAX },
            _ => Looks::Go { in_vain: 0 },
        };
    }

    /// Looks again at this time at the latest.
    fn check_at(&mut self, at: Instant) {
        match &mut self.check {
            Some(check) if check.deadline() <= at => {}
            Some(check) => check.reset(at),
            None => self.check = Some(sleep_until(at)),
        }
    }

    /// Whether there is anything to do beside what the level asks for.
    fn is_at_work(&self) -> bool {
        self.since.is_some() || self.granted.is_some() || self.kept_until.is_some() || self.told.is_some()
    }

    /// Whether [`poll`](Self::poll) has anything to wait for.
    pub(crate) fn is_awaited(&self) -> bool {
        self.check.is_some() || self.granted.is_some() || self.reserve.is_some()
    }
}

impl<S: Service> Engine<S> {
    /// Makes some room, if memory is short, and looks after who has got some.
    pub(crate) fn relieve(&mut self) {
        if let Some(slots) = self.worker.marked.get() {
            slots.restock(&self.worker.pool);
        }
        if !self.worker.reserve.is_full() {
            self.worker.reserve.restock();
        }
        if self.worker.is_weighed() {
            self.keep_places();
        }
        let waits = self.worker.has_waiting() || self.worker.do_bodies_wait();
        if self.worker.is_weighed() || waits || self.overload.is_at_work() {
            self.relieve_now();
        }
    }

    fn relieve_now(&mut self) {
        let worker = Rc::clone(&self.worker);
        let now = plimsoll_runtime::now();
        // A request that would be begun now waits for the next turn with what it was granted.
        let may_begin = !worker.turns.is_over();
        let may_go_on = |(place, _): &mut (Place<Waits>, Permit)| may_begin || place.priority() != Priority::Head;
        if let Some((place, permit)) = self.overload.granted.take_if(may_go_on) {
            self.feed(*place.item(), Grant::Queued(permit), now);
        }
        self.lend(now);
        if self.overload.kept_until.is_some_and(|until| until <= now) || worker.kept_for.get().is_none() {
            self.overload.kept_until = None;
            worker.release_kept();
        }
        // Who waits for another handler to end does not wait for memory.
        let awaits_handlers = worker.has_waiting() && worker.has_all_handlers();
        let waits = worker.has_waiting() && !awaits_handlers || worker.do_bodies_wait();
        let is_short = worker.is_short() || waits;
        if is_short && self.overload.is_look_due(now) {
            let found = self.make_room(None);
            self.overload.looked(found, worker.table.borrow().places(), now);
            if found {
                // There may be more to shed.
                worker.look_again();
            }
        }
        if waits {
            self.wait_on(now);
            self.shed_slowest(now);
        } else {
            self.overload.since = None;
            self.overload.pace.clear();
        }
        self.look_at_told(now);
        if awaits_handlers {
            // Nobody tells when one of another worker has ended.
            self.overload.check_at(now + HANDLERS_STEP);
        }
        if let Some(until) = self.overload.kept_until {
            self.overload.check_at(until);
        }
    }

    /// Sheds somebody large when others have waited for long, and sees to it that this is looked at in time.
    fn wait_on(&mut self, now: Instant) {
        let is_again = self.overload.shed_at.is_some_and(|at| now.since(at) < AGAIN_WITHIN);
        let wait_max = if is_again { WAIT_AGAIN } else { WAIT_MAX };
        let since = self.overload.since.get_or_insert(now);
        if now.since(*since) >= wait_max {
            *since = now;
            if !self.tell_the_lasting(now) {
                self.shed_heaviest(now);
            }
        }
        self.overload.check_at(self.overload.since.unwrap_or(now) + wait_max);
    }

    /// Keeps room for the next connections: those that find none are told so and closed.
    pub(crate) fn keep_places(&mut self) {
        if !self.worker.lacks_places() {
            return;
        }
        let _no_room = self.worker.reserve_places();
        if self.worker.lacks_places() && self.make_room(None) {
            self.worker.look_again();
        }
    }

    /// What was begun goes on, though nobody gives anything back; and an address that has nothing yet may begin
    /// something.
    fn lend(&mut self, now: Instant) {
        let worker = Rc::clone(&self.worker);
        if worker.kept_for.get().is_none()
            && let Some(lease) = worker.reserve.lend_progress()
        {
            match worker.first_begun(lease.class().bytes()) {
                Some(place) => {
                    self.feed(*place.item(), Grant::Lent(Some(lease)), now);
                    self.overload.check_at(now + LEND_STEP);
                }
                None => worker.reserve.repay_progress(lease),
            }
        }
        if worker.kept_for.get().is_none()
            && !worker.turns.is_over()
            && worker.pool.kept_for_newcomers() >= REQUEST_ROOM_BYTES as u64
            && let Some(place) = worker.first_newcomer()
        {
            worker.pool.for_newcomer(|| self.feed(*place.item(), Grant::Lent(None), now));
            self.overload.check_at(now + LEND_STEP);
        }
    }

    /// There is room for who waited.
    fn feed(&mut self, who: Waits, mut grant: Grant, now: Instant) {
        let worker = Rc::clone(&self.worker);
        worker.served(&who);
        let key = who.key;
        if let Some(stream) = who.stream {
            if worker.with_http2(key, |http2| http2.wake_held(stream.get())) == Some(true) {
                worker.keep_for(key, grant);
                self.overload.kept_until = Some(now + KEPT_FOR);
                return;
            }
            return self.feed_stream(key, stream.get(), grant);
        }
        let Some(mut active) = worker.take(key) else {
            if let Some(grant) = self.feed_other(key, grant) {
                worker.keep_for(key, grant);
                self.overload.kept_until = Some(now + KEPT_FOR);
            }
            return;
        };
        active.memory.grant();
        if active.reader.is_some() && active.wants_body() {
            // Received now, into what was granted.
            worker.put(key, Connection::Active(active));
            grant.release();
            worker.fed.set(Some(key));
            self.readable(key);
            worker.fed.set(None);
            return;
        }
        let wakers = [active.writer.take(), active.reader.take()];
        let waits_in_handler = wakers.iter().any(Option::is_some);
        if waits_in_handler {
            active.list(&self.worker, key);
        }
        worker.put(key, Connection::Active(active));
        if waits_in_handler {
            worker.keep_for(key, grant);
            self.overload.kept_until = Some(now + KEPT_FOR);
            wakers.into_iter().flatten().for_each(|waker| waker.wake());
        } else {
            // Free for this one, and granted to the next only when it has taken its part.
            grant.release();
            worker.fed.set(Some(key));
            self.look_after(key);
            worker.fed.set(None);
        }
    }

    /// There is room for a connection that is not of HTTP/1.
    fn feed_other(&mut self, key: Key, mut grant: Grant) -> Option<Grant> {
        let worker = Rc::clone(&self.worker);
        if worker.wake_fed(key) {
            return Some(grant);
        }
        grant.release();
        worker.fed.set(Some(key));
        self.look_after(key);
        worker.fed.set(None);
        None
    }
}

#[cfg(test)]
mod tests;
