//! Who of the connections that stay is told to end, when others have waited for memory: the newest of the address that
//! holds the most.
//!
//! A WebSocket hears 1013, a member of a hub, too, and a stream of events gets the end of its answer. Who was told ends
//! with its peer, within a round trip as a rule. So no more are told at a time than what is waited for needs, and the
//! next when those have ended, or have not for a second. While all of them hold little, they are not why others wait.

use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_codec::h2::StreamKey;
use plimsoll_runtime::Instant;
use plimsoll_slab::Key;

use super::shed_order::LARGE_PART;
use crate::base::counters::Shed;
use crate::exchange::handle::Exchanges;
use crate::memory::by_address::Columns;
use crate::memory::lasting::{Sort, Stage};
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::WorkerState;

/// Who was told has so long to end: a handler of a stream of events, before the server ends it.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// At least so many bytes are asked for at a time: what comes free should be whole pages,
pub(super) const TOLD_BYTES_MIN: u64 = 16 * 1_024;
/// of so many at most.
pub(super) const TOLD_MAX: usize = 64;

/// One that stays, and where it is.
#[derive(Clone, Copy)]
enum Lasting {
    Socket(Key),
    Member(Key),
    Listed(Key),
}

impl<S: Service> Engine<S> {
    /// Tells some to end; whether any are told now, or were and have not ended yet.
    pub(super) fn tell_the_lasting(&mut self, now: Instant) -> bool {
        let worker = Rc::clone(&self.worker);
        self.end_unended(now);
        let held = worker.lasting.bytes();
        if self.overload.told.is_some_and(|(_, then)| held > then) {
            return true;
        }
        if held <= worker.line_share() / LARGE_PART {
            return false;
        }
        let mut heaviest: Option<(u64, Columns)> = None;
        worker.each_lasting(|_, columns, _| {
            let bytes = worker.crowd.held_in(columns);
            if heaviest.is_none_or(|(most, _)| bytes > most) {
                heaviest = Some((bytes, columns));
            }
            true
        });
        let Some((_, heavy)) = heaviest else { return false };
        let mut wanted = worker.next_in_turn().map_or(0, |place| u64::from(place.item().bytes)).max(TOLD_BYTES_MIN);
        let (mut told, mut then) = (Vec::with_capacity(TOLD_MAX), held);
        worker.each_lasting(|one, columns, bytes| {
            if columns == heavy {
                told.push(one);
                then = then.saturating_sub(bytes as u64);
                wanted = wanted.saturating_sub(bytes as u64);
            }
            wanted > 0 && told.len() < TOLD_MAX
        });
        let count = told.len();
        for one in told {
            match one {
                Lasting::Socket(key) => self.shed_websocket(key),
                Lasting::Member(key) => worker.tell_member(key),
                Lasting::Listed(key) => worker.tell_stay(key, now),
            }
        }
        worker.look_again();
        (self.overload.shed_at, self.overload.told) = (Some(now), Some((now, then)));
        tracing::info!(
            count,
            "others waited for memory: the newest connections that stay, of the address that holds most, were told to end"
        );
        true
    }

    /// Ends streams of events whose handlers were told and do not: their clients get whole answers. One whose body has
    /// not left is ended by its peer, or by its time.
    pub(super) fn look_at_told(&mut self, now: Instant) {
        let Some((at, _)) = self.overload.told else { return };
        let until = at + CLOSE_GRACE;
        if now < until {
            return self.overload.check_at(until);
        }
        self.end_unended(now);
        // One may have been told later, as the newest of those that were shed.
        self.overload.told = self.worker.first_told().map(|at| (at, u64::MAX));
        if let Some((at, _)) = self.overload.told {
            self.overload.check_at(at + CLOSE_GRACE);
        }
    }

    fn end_unended(&self, now: Instant) {
        while let Some(exchange) = self.worker.next_unended(now, CLOSE_GRACE) {
            if self.worker.finish(exchange).is_ok()
                && let Some(handler) = self.worker.take_answered_handler(exchange)
            {
                handler.abort();
            }
        }
    }
}

impl WorkerState {
    /// All that stay and have not been told to end, the newest first as far as is known: with where each is counted,
    /// and how many bytes.
    fn each_lasting(&self, mut act: impl FnMut(Lasting, Columns, usize) -> bool) {
        let table = self.table.borrow();
        let mut goes_on = true;
        for place in (0..table.places()).rev() {
            let Some(key) = table.key_at(place) else { continue };
            if let Some(Connection::WebSocket(socket)) = table.get(key)
                && socket.is_open()
                && let Some(columns) = self.websocket_columns(key)
            {
                goes_on = act(Lasting::Socket(key), columns, self.lasting.bytes_of(socket.sort()));
            }
            if !goes_on {
                return;
            }
        }
        drop(table);
        let members = self.members.borrow().upgrade();
        if let Some(members) = members {
            members.each_open(|key, columns| {
                goes_on = act(Lasting::Member(key), columns, self.lasting.bytes_of(Sort::Member));
                goes_on
            });
        }
        if goes_on {
            self.open_stays(|key, columns, sort| act(Lasting::Listed(key), columns, self.lasting.bytes_of(sort)));
        }
    }

    fn tell_member(&self, key: Key) {
        let members = self.members.borrow().upgrade();
        if let Some(members) = members {
            self.shed_for_room(Shed::Lasting);
            members.end_events(key);
        }
    }

    /// Whether an exchange is a stream of events that ends soon: it is told now, or was a moment ago.
    pub(crate) fn gives_way(&self, key: Key, stream: Option<StreamKey>, now: Instant) -> bool {
        let Some((stay, stage)) = self.find_events(key, stream) else { return false };
        if stage == Stage::Open {
            self.tell_stay(stay, now);
        }
        // One whose end does not leave is as any other.
        stage != Stage::Ended
    }
}
