//! Bodies that come faster than they are looked at: several leases are filled by one call.
//!
//! The connection waits without a buffer until bytes are there
//! ([`Table::await_readable`](plimsoll_runtime::net::Table::await_readable)). Then it takes the leases, has them
//! filled, gives back those that stayed empty, and wakes its handler, which gets one after another.

use plimsoll_codec::h1::RequestState;
use plimsoll_pool::{Class, PoolBox};
use plimsoll_runtime::Kind;
use plimsoll_runtime::net::{Bytes, RECEIVE_LEASES_MAX};

use crate::exchange::line::Line;
use crate::h1::active::Active;
use crate::h1::body_receive::Parts;
use crate::h1::body_receive::body_cap;
use crate::memory::desk::Desk;

/// What came of a receive into several leases.
pub(crate) enum Came {
    Bytes(usize),
    /// Bytes are there, and there is no room for so many.
    NoRoom(usize),
    /// Nothing, or nothing is wanted now.
    Nothing,
    /// The peer has sent all it will send.
    End,
    Failed,
}

/// Receives as much of a body as it is worth, if its handler waits for it.
pub(crate) fn receive(desk: &Desk, line: &mut impl Line, active: &mut Active) -> Came {
    let waits = active.reader.is_some() && active.exchange.request() == RequestState::Body;
    if !waits || active.is_closing() || active.is_queued() {
        return Came::Nothing;
    }
    if desk.is_filling() {
        return receive_one(desk, line, active);
    }
    if active.input.is_some() {
        return Came::Nothing;
    }
    let data = active.decoder.contiguous();
    let Some((class, count)) = active.several_for(desk) else { return Came::Nothing };
    let Some(parts) = places(desk, active) else { return Came::Nothing };
    debug_assert!(parts.iter().all(Option::is_none), "what was received before is used up");
    let mut taken = 0;
    for place in &mut parts[..count] {
        let Ok(lease) = desk.pool.try_acquire_class(class, Kind::Buffers) else { break };
        *place = Some(lease);
        taken += 1;
    }
    if taken == 0 {
        active.receive.found_no_room();
        return Came::Nothing;
    }
    let bytes_max = usize::try_from(data).unwrap_or(usize::MAX);
    let received = line.receive_now(&mut parts[..taken], bytes_max);
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
fn receive_one(desk: &Desk, line: &mut impl Line, active: &mut Active) -> Came {
    let class = active.receive.next(active.decoder.remaining(), body_cap(desk)).unwrap_or(Class::K4);
    let kept = active.input.as_deref().unwrap_or_default();
    let wanted = class.bytes().max(2 * kept.len());
    let Ok(mut lease) = desk.pool.try_acquire(wanted, Kind::Buffers) else { return Came::NoRoom(wanted) };
    lease.extend(kept);
    let (bytes_max, mut place) = (lease.spare_capacity(), [Some(lease)]);
    let received = line.receive_now(&mut place, bytes_max);
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
fn places<'a>(desk: &Desk, active: &'a mut Active) -> Option<&'a mut PoolBox<Parts>> {
    if active.parts.is_none() {
        let fresh: Parts = [const { None }; RECEIVE_LEASES_MAX];
        match desk.pool.try_boxed(fresh, Kind::Codec) {
            Ok(parts) => active.parts = Some(parts),
            Err(_) => active.receive.found_no_room(),
        }
    }
    active.parts.as_mut()
}
