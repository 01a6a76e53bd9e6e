//! What the memory level means for the connections of a server, and how those that find no room get some.
//!
//! | level | what is done |
//! |---|---|
//! | calm | nothing |
//! | yellow | a connection that is parked now waits a quarter of its time; one that has output waiting begins no further request |
//! | orange, red | answers close their connections, accepting is held back, and room is made |
//!
//! **Room is made** a little in each turn, and at once when a whole request finds none: incomplete heads go first, with a 503 from static bytes;
//! when none was found, connections whose peer has taken nothing of its output for a second. The places of the table are looked at from the
//! highest to the lowest: low ones are filled first, so the newest tend to be high.
//!
//! **Who finds no room waits**, in a fair order over addresses ([`Hungry`](crate::hungry::Hungry)): a request that cannot be begun, an answer or a
//! piece of it, a part of a body. The one whose turn it is has a waiter among those of the pool, so that memory which comes free anywhere in the process
//! is kept for it. Its connection is looked after when that is granted, before anything else can take it.
//!
//! ```text
//!           no room                       granted                     found it
//!   at work --------> hungry, its deadline -------> looked after again ---------> at work
//!                        |                                |
//!                        | memory_timeout                 | no room all the same, several times
//!                        v                                v
//!                   503 if nothing was answered yet, else a close
//! ```
//!
//! **After 250 ms** in which somebody waited, for memory or to be accepted, the address that holds the most loses the newest of what it has
//! until the level would fall. If somebody waits again within a second, because that address began more, it is told 503 when it asks for
//! more during the next second, and all others are let in meanwhile.

use ::core::future::Future;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use ::core::time::Duration;
use std::rc::Rc;

use http::StatusCode;
use plimsoll_pool::{AccountKey, AccountLimits, Admission, Footprint, Permit, Priority, Reserve};
use plimsoll_runtime::net::Table;
use plimsoll_runtime::{Instant, Lease, Sleep, sleep_until};
use plimsoll_slab::Key;

use crate::closing::take_handler;
use crate::config::Config;
use crate::connection::{Active, Connection, Deadline, EXCHANGE_BYTES};
use crate::core::Core;
use crate::counters::Shed;
use crate::engine::Engine;
use crate::hungry::{Place, TooMany, Want};
use crate::larder;
use crate::peers;
use crate::server::Service;

/// Connections looked at in one turn at most.
const LOOKS_MAX: u32 = 512;
/// Connections let go of in one turn at most.
const SHED_MAX: u32 = 32;
/// How often a request that finds no room is tried again after room was made.
const TRIES_MAX: u32 = 4;
/// Output of which the peer has taken nothing for so long is stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);
/// Somebody who has waited so long is a reason to let go of others,
const WAIT_MAX: Duration = Duration::from_millis(250);
/// and after that, if it was not enough, so long.
const WAIT_AGAIN: Duration = Duration::from_millis(50);
/// How long accepting goes on after that, so that nobody waits outside for memory that is not a connection's to give back.
const OPEN_FOR: Duration = Duration::from_millis(50);
/// How often it is looked whether accepting may go on.
const HELD_STEP: Duration = Duration::from_millis(10);
/// How long the address that held the most gets nothing more.
const HEAVY_FOR: Duration = Duration::from_secs(1);
/// Addresses that are weighed at a time: one that holds more than this part of all is certainly among them.
const WEIGHED_MAX: usize = 32;
/// An address that holds more than this part of a worker's share of the line is large.
const LARGE_PART: u64 = 16;
/// The level falls from orange when less than this part of the line is in use.
const RELIEVED_PERCENT: u64 = 80;
/// A connection that was granted room, found none all the same, and would next need more than this, is refused.
const HUNGER_BYTES_MAX: usize = 128 * 1024;

/// Why a connection may be let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    IncompleteHead,
    StalledOutput,
}

/// The engine's part in it.
pub(crate) struct Relief {
    admission: Admission,
    /// Whom the pool blames for what waits here; without a page for that, nobody waits in the pool.
    account: Option<AccountKey>,
    /// The waiter of the connection whose turn it is.
    reserve: Option<(Key, Reserve)>,
    /// What it was granted.
    granted: Option<(Key, Permit)>,
    /// Since when somebody waits.
    since: Option<Instant>,
    /// Until when accepting goes on though memory is short.
    open_until: Option<Instant>,
    /// When somebody large was let go of last.
    let_go_at: Option<Instant>,
    /// Until when the address that held the most gets nothing more.
    heavy_until: Option<Instant>,
    /// When what is kept for a handler has been kept for long enough.
    kept_until: Option<Instant>,
    check: Option<Sleep>,
}

impl Relief {
    pub(crate) fn new() -> Self {
        let admission = plimsoll_runtime::memory::admission();
        // A name that no address has: those have bits set below or are a network's.
        let account = admission.tenant(u128::MAX, AccountLimits::default()).ok();
        Self {
            admission,
            account,
            reserve: None,
            granted: None,
            since: None,
            open_until: None,
            let_go_at: None,
            heavy_until: None,
            kept_until: None,
            check: None,
        }
    }

    /// Ready when there is room for the connection whose turn it is, or it is time to look.
    pub(crate) fn poll(&mut self, core: &Core, cx: &mut Context<'_>) -> Poll<()> {
        if self.granted.is_some() || self.poll_reserve(core, cx).is_ready() {
            return Poll::Ready(());
        }
        let Some(check) = &mut self.check else { return Poll::Pending };
        let is_due = Pin::new(check).poll(cx);
        if is_due.is_ready() {
            self.check = None;
        }
        is_due
    }

    fn poll_reserve(&mut self, core: &Core, cx: &mut Context<'_>) -> Poll<()> {
        if core.kept_for.get().is_some() {
            // One after the other.
            return Poll::Pending;
        }
        if self.reserve.as_ref().is_none_or(|(key, _)| !core.is_hungry(*key)) {
            // The one that waited is gone: its waiter goes first, so that the next is the only one.
            self.reserve = None;
            self.reserve = core.first_hungry().and_then(|place| self.reserve(place));
        }
        let Some((key, reserve)) = &mut self.reserve else { return Poll::Pending };
        let Poll::Ready(answer) = Pin::new(reserve).poll(cx) else { return Poll::Pending };
        self.granted = answer.ok().map(|permit| (*key, permit));
        self.reserve = None;
        if self.granted.is_some() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn reserve(&self, place: Place) -> Option<(Key, Reserve)> {
        let priority = match place.want {
            Want::Output => Priority::Output,
            Want::Body => Priority::Body,
            Want::Request => Priority::Head,
        };
        let footprint = Footprint::one((place.bytes as usize).min(HUNGER_BYTES_MAX));
        Some((place.key, self.admission.reserve(footprint, priority, self.account?)))
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
        self.since.is_some() || self.granted.is_some() || self.heavy_until.is_some() || self.kept_until.is_some()
    }

    /// Whether [`poll`](Self::poll) has anything to wait for.
    pub(crate) fn is_awaited(&self) -> bool {
        self.check.is_some() || self.granted.is_some() || self.reserve.is_some()
    }
}

impl Drop for Relief {
    fn drop(&mut self) {
        (self.reserve, self.granted) = (None, None);
        if let Some(account) = self.account {
            self.admission.close_account(account);
        }
    }
}

impl Core {
    /// Whether anybody waits for room.
    pub(crate) fn is_starving(&self) -> bool {
        self.starving.get()
    }

    fn is_hungry(&self, key: Key) -> bool {
        match self.table.borrow().get(key) {
            Some(Connection::Active(active)) => active.hungry,
            Some(Connection::Http2(http2)) => http2.hunger.waits,
            Some(Connection::WebSocket(socket)) => socket.is_hungry(),
            _ => false,
        }
    }

    /// Whose turn it is. Those that are gone meanwhile are forgotten.
    fn first_hungry(&self) -> Option<Place> {
        loop {
            let first = self.hungry.borrow().first()?;
            if self.is_hungry(first.key) {
                return Some(first);
            }
            self.sate(first.key);
        }
    }

    /// A connection does not wait for room any more.
    pub(crate) fn sate(&self, key: Key) {
        let mut hungry = self.hungry.borrow_mut();
        hungry.remove(key);
        self.starving.set(!hungry.is_empty());
    }

    /// Whether a connection has a place among those that wait; another may have taken it.
    pub(crate) fn has_place(&self, key: Key) -> bool {
        self.hungry.borrow().has(key)
    }

    /// A connection gets what it waited for.
    fn served(&self, key: Key) {
        let mut hungry = self.hungry.borrow_mut();
        hungry.serve(key);
        self.starving.set(!hungry.is_empty());
    }

    /// The host that a connection is from, as memory is shared: of IPv6 its /64.
    fn host_of(&self, key: Key) -> u64 {
        // One without an address was reset: it does not wait for long.
        self.peer_address(key).map_or(0, |peer| peers::host_number(peer.ip()))
    }

    /// Has a connection wait for room; for more of it each time it found none where there should have been some.
    ///
    /// # Errors
    ///
    /// [`TooMany`] wait, or it would be too much.
    pub(crate) fn starve(&self, key: Key, active: &mut Active, want: Want, bytes: usize) -> Result<(), TooMany> {
        self.starve_as(key, &mut active.hungry, active.grants, want, bytes)
    }

    /// The same for a connection of any sort: whether it waits, and how often it was granted room already.
    pub(crate) fn starve_as(
        &self,
        key: Key,
        waits: &mut bool,
        grants: u8,
        want: Want,
        bytes: usize,
    ) -> Result<(), TooMany> {
        if *waits {
            return Ok(());
        }
        let bytes = bytes.min(HUNGER_BYTES_MAX) << grants.min(8);
        if bytes > HUNGER_BYTES_MAX {
            return Err(TooMany);
        }
        let host = self.host_of(key);
        let mut hungry = self.hungry.borrow_mut();
        if hungry.add(key, host, want, bytes).is_err() {
            // Some may be gone.
            hungry.retain(|key| self.is_hungry(key));
            if hungry.is_full() {
                let displaced = hungry.displace_for(host).ok_or(TooMany)?;
                // Its time is over.
                self.table.borrow_mut().schedule(displaced, Duration::ZERO);
            }
            hungry.add(key, host, want, bytes)?;
        }
        *waits = true;
        self.starving.set(true);
        Ok(())
    }

    /// The same for one that is in the table, and that the engine does not look after right now. Whether it waits.
    pub(crate) fn starve_in_table(&self, key: Key, want: Want, bytes: usize) -> bool {
        let Some(mut active) = self.take(key) else { return false };
        let waits = self.starve(key, &mut active, want, bytes).is_ok();
        self.list(key, &mut active);
        self.put(key, Connection::Active(active));
        waits
    }

    /// The handler of a connection takes its turn: what was kept for it is free now.
    pub(crate) fn redeem(&self, key: Key) {
        if self.kept_for.get() == Some(key) {
            self.unkeep();
        }
    }

    pub(crate) fn unkeep(&self) {
        self.kept_for.set(None);
        let kept = self.kept.borrow_mut().take();
        drop(kept);
    }

    /// Keeps memory for the handler of a connection, until its next turn.
    fn keep_for(&self, key: Key, permit: Permit) {
        self.kept_for.set(Some(key));
        let before = self.kept.borrow_mut().replace(permit);
        drop(before);
    }

    /// Room for the exchange of a connection that was parked and for which there is no memory.
    pub(crate) fn spare_exchange(&self, key: Key) -> Option<Lease> {
        if self.may_spare(key, larder::PER_HOST_MAX) { self.larder.exchange() } else { None }
    }

    /// Room for the head of one that waits for memory.
    pub(crate) fn spare_head(&self, key: Key, active: &Active, head: &[u8]) -> Option<Lease> {
        let may = active.hungry && active.handler.is_none() && self.may_spare(key, larder::PER_HOST_MAX + 1);
        if may { self.larder.head(head) } else { None }
    }

    /// Room for what came on a connection of HTTP/2, which waits for memory with it.
    pub(crate) fn spare_frames(&self, key: Key, frames: &[u8]) -> Option<Lease> {
        if self.may_spare(key, larder::PER_HOST_MAX) { self.larder.head(frames) } else { None }
    }

    /// Whether fewer than so many connections of the address wait.
    fn may_spare(&self, key: Key, count: usize) -> bool {
        let host = self.host_of(key);
        self.heavy.get() != Some(host) && self.hungry.borrow().count_of(host) < count
    }

    /// Whether a connection is from the address that holds the most, and gets nothing more for now.
    pub(crate) fn is_heavy(&self, key: Key) -> bool {
        self.heavy.get().is_some_and(|heavy| self.host_of(key) == heavy)
    }
}

impl<S: Service> Engine<S> {
    /// Makes some room, if memory is short, and looks after who has got some.
    pub(crate) fn relieve(&mut self) {
        if !self.core.larder.is_full() {
            self.core.larder.restock();
        }
        if self.core.is_short() || self.core.is_starving() || self.relief.is_at_work() {
            self.relieve_now();
        }
    }

    fn relieve_now(&mut self) {
        let core = Rc::clone(&self.core);
        let now = plimsoll_runtime::now();
        if let Some((key, permit)) = self.relief.granted.take() {
            self.feed(key, permit, now);
        }
        if self.relief.kept_until.is_some_and(|until| until <= now) || core.kept_for.get().is_none() {
            self.relief.kept_until = None;
            core.unkeep();
        }
        if self.relief.heavy_until.is_some_and(|until| until <= now) {
            self.relief.heavy_until = None;
            core.heavy.set(None);
        }
        let is_short = core.is_short() || core.is_starving();
        if is_short && self.make_room(None) {
            // There may be more to let go of.
            core.look_again();
        }
        let is_open = self.relief.open_until.is_some_and(|until| now < until);
        self.hold_accepting(is_short && !is_open && self.relief.heavy_until.is_none());
        if is_short {
            self.wait_on(now);
        } else {
            self.relief.since = None;
        }
        if let Some(until) = self.relief.kept_until {
            self.relief.check_at(until);
        }
    }

    /// Lets go of somebody large when others have waited for long, and sees to it that this is looked at in time.
    fn wait_on(&mut self, now: Instant) {
        let core = Rc::clone(&self.core);
        let is_again = self.relief.let_go_at.is_some_and(|at| now.since(at) < HEAVY_FOR);
        let wait_max = if is_again { WAIT_AGAIN } else { WAIT_MAX };
        let since = self.relief.since.get_or_insert(now);
        if now.since(*since) >= wait_max {
            *since = now;
            let is_awaited = core.is_starving() || core.table.borrow().is_awaited();
            if is_awaited {
                self.let_go_of_the_largest(now, is_again);
                // Whoever holds the memory, nobody waits outside for longer: those who find no room are told so.
                self.relief.open_until = Some(now + OPEN_FOR);
            }
        }
        let next = self.relief.since.unwrap_or(now) + wait_max;
        let is_held = core.table.borrow().is_accepting_held();
        self.relief.check_at(if is_held { next.min(now + HELD_STEP) } else { next });
    }

    /// Holds accepting back or lets it go on.
    fn hold_accepting(&mut self, holds: bool) {
        let mut table = self.core.table.borrow_mut();
        if table.is_accepting_held() == holds {
            return;
        }
        table.hold_accepting(holds);
        self.core.counters().accepting_held(holds);
        let connections = table.len();
        tracing::info!(holds, connections, "the memory level holds accepting back, or lets it go on");
    }

    /// There is room for a connection that waited.
    fn feed(&mut self, key: Key, mut permit: Permit, now: Instant) {
        let core = Rc::clone(&self.core);
        let Some(mut active) = core.take(key) else {
            core.served(key);
            if let Some(permit) = self.feed_other(key, permit) {
                core.keep_for(key, permit);
                self.relief.kept_until = Some(now + HELD_STEP);
            }
            return;
        };
        core.served(key);
        active.hungry = false;
        active.grants = active.grants.saturating_add(1);
        let wakers = [active.writer.take(), active.reader.take()];
        let waits_in_handler = wakers.iter().any(Option::is_some);
        if waits_in_handler {
            self.core.list(key, &mut active);
        }
        core.put(key, Connection::Active(active));
        if waits_in_handler {
            core.keep_for(key, permit);
            self.relief.kept_until = Some(now + HELD_STEP);
            wakers.into_iter().flatten().for_each(|waker| waker.wake());
        } else {
            // Free for this one, and granted to the next only when it has taken its part.
            while permit.take(0).is_some() {}
            core.fed.set(Some(key));
            self.look_after(key);
            core.fed.set(None);
        }
    }

    /// The time of a connection that waits for room is over: 503 if nothing of an answer was begun, else a close.
    pub(crate) fn starved(&mut self, key: Key) {
        let core = Rc::clone(&self.core);
        let Some(mut active) = core.take(key) else { return };
        core.sate(key);
        active.hungry = false;
        core.counters().shed(if active.handler.is_some() { Shed::Output } else { Shed::Body });
        if active.handler.is_none() && !active.output.is_empty() {
            // It has its answers, but for the end of them.
            core.put(key, Connection::Active(active));
            return self.close(key);
        }
        let _failed_before = active.exchange.request_failed();
        core.fail(&mut active, StatusCode::SERVICE_UNAVAILABLE);
        (active.deadline, active.handler_until) = (Deadline::None, None);
        [active.writer.take(), active.reader.take()].into_iter().flatten().for_each(|waker| waker.wake());
        let handler = take_handler(&mut active);
        core.put(key, Connection::Active(active));
        if let Some(handler) = handler {
            handler.abort();
        }
        self.look_after(key);
    }

    /// Does what needs room for a connection; when there is none, lets go of others and tries again. The error is that of the last try.
    pub(crate) fn retried<T, E>(&mut self, key: Key, mut act: impl FnMut(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let mut tries = 0;
        loop {
            match act(self) {
                Err(_) if tries < TRIES_MAX && self.make_room(Some(key)) => tries += 1,
                done => return done,
            }
        }
    }

    /// Lets go of some connections, but not of `keep`; whether of any.
    fn make_room(&mut self, keep: Option<Key>) -> bool {
        // A request that waits for room is worth a look at everybody.
        let places = self.core.table.borrow().places();
        let looks = if keep.is_some() { places } else { places.min(LOOKS_MAX) };
        self.let_go_of(Victim::IncompleteHead, looks, keep) || self.let_go_of(Victim::StalledOutput, looks, keep)
    }

    /// Looks at so many places for connections of a sort and lets go of them; whether of any.
    fn let_go_of(&mut self, sort: Victim, looks: u32, keep: Option<Key>) -> bool {
        let core = Rc::clone(&self.core);
        let mut shed = 0;
        for _ in 0..looks {
            let found = {
                let table = core.table.borrow();
                let key = table.key_at(core.next_look(table.places()));
                key.filter(|key| Some(*key) != keep && victim(&table, *key, &core.config) == Some(sort))
            };
            let Some(key) = found else { continue };
            match sort {
                Victim::IncompleteHead => self.shed(key, Shed::Head),
                Victim::StalledOutput => {
                    core.counters().shed(Shed::Output);
                    self.close(key);
                }
            }
            shed += 1;
            if shed == SHED_MAX {
                break;
            }
        }
        shed > 0
    }

    /// Lets go of the newest of what the address has that holds the most, until the level would fall. When that was done a moment ago, it was not
    /// enough because more was begun: the address gets nothing more for a while.
    fn let_go_of_the_largest(&mut self, now: Instant, is_again: bool) {
        let core = Rc::clone(&self.core);
        let budget = core.pool.budget();
        let relieved = budget.limit().as_bytes() / 100 * RELIEVED_PERCENT;
        let wanted = core.first_hungry().map_or(0, |place| u64::from(place.bytes));
        let mut excess = budget.in_use().saturating_sub(relieved).max(wanted);
        let Some(heavy) = self.heaviest() else { return };
        // What the peer does not take first, though it cannot be told: an answer has begun.
        let unread = self.let_go_of_host(heavy, true, &mut excess);
        let others = self.let_go_of_host(heavy, false, &mut excess);
        if unread + others == 0 {
            return;
        }
        core.look_again();
        self.relief.let_go_at = Some(now);
        if is_again {
            core.heavy.set(Some(heavy));
            self.relief.heavy_until = Some(now + HEAVY_FOR);
            self.relief.check_at(now + HEAVY_FOR);
        }
        tracing::info!(
            unread,
            others,
            is_again,
            "others waited for memory: the address that holds most lost its newest"
        );
    }

    /// Lets go of connections of a host, of those whose output is not taken or of all, until enough bytes are free; how many.
    fn let_go_of_host(&mut self, host: u64, only_unread: bool, excess: &mut u64) -> u32 {
        let core = Rc::clone(&self.core);
        // Those who wait do not give way to others of their own address that wait.
        let spares_hungry = !core.table.borrow().is_awaited() && core.hungry.borrow().are_all_of(host);
        let mut let_go = 0;
        let places = core.table.borrow().places();
        for place in (0..places).rev() {
            if *excess == 0 {
                break;
            }
            let found = {
                let table = core.table.borrow();
                let key = table.key_at(place);
                let key = key.filter(|key| !spares_hungry || !core.is_hungry(*key));
                key.map(|key| (key, held_bytes(&table, key), table.is_sending(key)))
            };
            let Some((key, bytes @ 1.., is_unread)) = found else { continue };
            if (only_unread && !is_unread) || core.host_of(key) != host {
                continue;
            }
            if is_unread {
                core.counters().shed(Shed::Output);
                self.close(key);
            } else {
                self.shed(key, Shed::Output);
            }
            let_go += 1;
            *excess = excess.saturating_sub(bytes);
        }
        let_go
    }

    /// The host whose connections hold the most: frequent ones are found in one pass with a few counters (Misra and Gries 1982), by bytes.
    fn heaviest(&self) -> Option<u64> {
        let core = &*self.core;
        let mut weighed = [(0_u64, 0_u64); WEIGHED_MAX];
        let places = core.table.borrow().places();
        for place in 0..places {
            let key = core.table.borrow().key_at(place);
            let Some(key) = key else { continue };
            let mut bytes = held_bytes(&core.table.borrow(), key);
            if bytes == 0 {
                continue;
            }
            let host = core.host_of(key);
            if let Some((_, sum)) = weighed.iter_mut().find(|(known, sum)| *known == host && *sum > 0) {
                *sum += bytes;
                continue;
            }
            let least = weighed.iter().map(|(_, sum)| *sum).min().unwrap_or(0).min(bytes);
            weighed.iter_mut().for_each(|(_, sum)| *sum -= least);
            bytes -= least;
            if let Some(free) = weighed.iter_mut().find(|(_, sum)| *sum == 0) {
                *free = (host, bytes);
            }
        }
        // One that holds little is not why others wait.
        let share = core.line_share / LARGE_PART;
        weighed.into_iter().filter(|(_, sum)| *sum > share).max_by_key(|(_, sum)| *sum).map(|(host, _)| host)
    }
}

/// Bytes of the pool that a connection could give back; 0 for one that may not be let go of.
fn held_bytes(table: &Table<Connection>, key: Key) -> u64 {
    let Some(Connection::Active(active)) = table.get(key) else { return 0 };
    if active.must_finish > 0 {
        return 0;
    }
    (EXCHANGE_BYTES + active.input_bytes() + active.output.held_bytes() + table.sending_bytes(key)) as u64
}

/// Why a connection may be let go of, if it may.
fn victim(table: &Table<Connection>, key: Key, config: &Config) -> Option<Victim> {
    let active = match table.get(key)? {
        Connection::Active(active) => active,
        Connection::WebSocket(socket) if table.is_sending(key) => {
            let is_stalled = socket.is_stalled(table.scheduled_in(key)?, STALLED_AFTER);
            return is_stalled.then_some(Victim::StalledOutput);
        }
        _ => return None,
    };
    match active.deadline {
        Deadline::Head if active.handler.is_none() && !table.is_sending(key) => Some(Victim::IncompleteHead),
        Deadline::Send if table.is_sending(key) && active.must_finish == 0 => {
            let left = table.scheduled_in(key)?;
            (config.send_timeout.saturating_sub(left) >= STALLED_AFTER).then_some(Victim::StalledOutput)
        }
        _ => None,
    }
}
