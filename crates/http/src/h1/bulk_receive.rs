//! Bodies that come faster than they are looked at: several leases are filled by one call.
//!
//! The connection waits without a buffer until bytes are there
//! ([`Table::await_readable`](plimsoll_runtime::net::Table::await_readable)). Then it takes the leases, has them
//! filled, gives back those that stayed empty, and wakes its handler, which gets one after another.

use plimsoll_codec::h1::{Next, RequestState};
use plimsoll_pool::{Class, PoolBox, Priority};
use plimsoll_runtime::Kind;
use plimsoll_runtime::net::{Bytes, RECEIVE_LEASES_MAX};
use plimsoll_slab::Key;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::h1::active::Active;
use crate::h1::body_receive::Parts;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::Service;
use crate::worker::state::Core;

/// What came of a receive into several leases.
enum Came {
    Bytes(usize),
    /// Bytes are there, and there is no room for so many.
    NoRoom(usize),
    /// Nothing, or nothing is wanted now.
    Nothing,
    /// The peer has sent all it will send.
    End,
    Failed,
}

impl<S: Service> Engine<S> {
    /// More of a body is there, as was waited for.
    pub(crate) fn readable(&mut self, key: Key) {
        if self.core.is_parked(key) {
            return self.readable_parked(key);
        }
        let core = &self.core;
        let Some(mut active) = core.take(key) else { return self.readable_http2(key) };
        if active.handler.is_none() && active.exchange.next() == Next::ReadHead && !active.closing {
            return if active.is_queued() { self.drive(key, active, None) } else { self.readable_head(key, active) };
        }
        match receive(core, key, &mut active) {
            Came::Bytes(received) => {
                active.came(received, &core.config);
                if let Some(reader) = active.reader.take() {
                    reader.wake();
                    active.fed = true;
                    core.list_later(key);
                    self.gives_way = true;
                }
                self.drive(key, active, None);
            }
            Came::Nothing => self.drive(key, active, None),
            Came::NoRoom(bytes) => {
                if core.starve(key, &mut active, Priority::Body, bytes).is_err() {
                    active.course.note(ExchangeEnd::Overstay);
                    core.counters().shed(Shed::Body);
                    let _failed_before = active.exchange.request_failed();
                    if let Some(reader) = active.reader.take() {
                        reader.wake();
                    }
                }
                self.drive(key, active, None);
            }
            Came::End => {
                core.put(key, Connection::Active(active));
                self.ended(key);
            }
            Came::Failed => {
                core.put(key, Connection::Active(active));
                self.close(key);
            }
        }
    }
}

/// Receives as much of a body as it is worth, if its handler waits for it.
fn receive(core: &Core, key: Key, active: &mut Active) -> Came {
    let waits = active.reader.is_some() && active.exchange.request() == RequestState::Body;
    if !waits || active.closing || active.is_queued() {
        return Came::Nothing;
    }
    if core.is_filling() {
        return receive_one(core, key, active);
    }
    if active.input.is_some() {
        return Came::Nothing;
    }
    let data = active.decoder.contiguous();
    let Some((class, count)) = core.several_for(active) else { return Came::Nothing };
    let Some(parts) = places(core, active) else { return Came::Nothing };
    debug_assert!(parts.iter().all(Option::is_none), "what was received before is used up");
    let mut taken = 0;
    for place in &mut parts[..count] {
        let Ok(lease) = core.pool.try_acquire_class(class, Kind::Buffers) else { break };
        *place = Some(lease);
        taken += 1;
    }
    if taken == 0 {
        active.receive.found_no_room();
        return Came::Nothing;
    }
    let bytes_max = usize::try_from(data).unwrap_or(usize::MAX);
    let received = core.table.borrow_mut().receive_now(key, &mut parts[..taken], bytes_max);
    for place in parts.iter_mut() {
        place.take_if(|lease| lease.is_empty());
    }
    match received {
        Ok(0) => Came::End,
        Ok(bytes) => {
            active.receive.received_several(bytes, class, taken, plimsoll_runtime::now());
            Came::Bytes(bytes)
        }
        Err(plimsoll_runtime::Errno::AGAIN) => Came::Nothing,
        Err(_) => Came::Failed,
    }
}

/// Receives into one lease, while memory is short: behind what was looked at and is no whole part of the body's
/// framing.
fn receive_one(core: &Core, key: Key, active: &mut Active) -> Came {
    let class = active.receive.next(active.decoder.remaining(), core.body_cap()).unwrap_or(Class::K4);
    let kept = active.input.as_deref().unwrap_or_default();
    let wanted = class.bytes().max(2 * kept.len());
    let Ok(mut lease) = core.pool.try_acquire(wanted, Kind::Buffers) else { return Came::NoRoom(wanted) };
    lease.extend(kept);
    let (bytes_max, mut place) = (lease.spare_capacity(), [Some(lease)]);
    let received = core.table.borrow_mut().receive_now(key, &mut place, bytes_max);
    let [lease] = place;
    match (received, lease) {
        (Ok(0), _) => Came::End,
        (Ok(bytes), Some(lease)) => {
            let bytes_left = active.decoder.remaining().map(|left| left.saturating_sub(bytes as u64));
            let lease = Bytes::Owned(lease);
            active.receive.received(&lease, bytes_left, plimsoll_runtime::now());
            let Bytes::Owned(lease) = lease else { unreachable!("made above") };
            active.input = Some(lease);
            Came::Bytes(bytes)
        }
        (Ok(_), None) => unreachable!("bytes were received into the lease"),
        (Err(plimsoll_runtime::Errno::AGAIN), _) => Came::Nothing,
        (Err(_), _) => Came::Failed,
    }
}

/// Where the parts are kept until the handler has taken them.
fn places<'a>(core: &Core, active: &'a mut Active) -> Option<&'a mut PoolBox<Parts>> {
    if active.parts.is_none() {
        let fresh: Parts = [const { None }; RECEIVE_LEASES_MAX];
        match core.pool.try_boxed(fresh, Kind::Codec) {
            Ok(parts) => active.parts = Some(parts),
            Err(_) => active.receive.found_no_room(),
        }
    }
    active.parts.as_mut()
}
