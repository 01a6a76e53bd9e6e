//! Bodies that are collected: the room for all of one is there before anything of it is read.
//!
//! ```text
//!              room for all of it
//!  length known ----------------> read --> collected, counted until its exchange is over
//!     | none                       |
//!     v                            | no length: a step more, or none
//!  waits, holding nothing          v
//!     | memory_timeout          OverBudget
//!     +--> OverBudget
//! ```
//!
//! Who waits here holds nothing of what it waits for, and who holds something of a body does not wait for more: so
//! nobody waits in a circle. The room is that of the line as everybody has it, not of the progress reserve, which lends
//! a piece for what is on its way at most.
//!
//! Those who wait are served in [turns over addresses](Queue), by bytes, but short bodies pass long ones. Only the
//! first of each looks whether there is room.

use ::core::cell::RefCell;
use ::core::future::{Future, poll_fn};
use ::core::pin::pin;
use ::core::task::{Poll, Waker};
use ::core::time::Duration;
use std::rc::Rc;

use plimsoll_pool::{Charge, Class, Place as QueuePlace, PlaceKey, Pool, Priority, Queue};
use plimsoll_runtime::{Instant, Kind, Lease, OverBudget, now, sleep_until};

use crate::core::Core;
use crate::counters::Shed;
use crate::crowd::Seat;
use crate::ticket::Ticket;
use crate::{Error, Request};

/// A body up to so many bytes waits for no longer one.
const SHORT_BYTES: usize = 16 * 1_024;
/// A body without a length grows by so much at a time: by half of what there is, between these.
const STEP_BYTES_MIN: usize = 16 * 1_024;
const STEP_BYTES_MAX: usize = 256 * 1_024;
/// How soon the first looks again whether there is room.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Handlers of a worker that may wait from the start, and at most, as far as there is memory for their places.
const PLACES: usize = 64;
const PLACES_MAX: usize = 1_024;

/// The room of a body that is collected, or was, until its exchange is over.
pub(crate) struct Collected {
    room: Room,
    /// What its address is blamed for, while memory is short.
    seat: Option<Seat>,
}

enum Room {
    Lease(Lease),
    Charge(Charge),
}

impl Room {
    fn of(core: &Core, bytes: usize) -> Result<Self, OverBudget> {
        if bytes <= Class::K128.bytes() {
            return core.pool.try_acquire(bytes, Kind::Buffers).map(Self::Lease);
        }
        core.pool.charge(Kind::Buffers, bytes as u64).map(Self::Charge)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Lease(lease) => lease.class().bytes(),
            Self::Charge(charge) => usize::try_from(charge.bytes()).unwrap_or(usize::MAX),
        }
    }
}

/// Those of a worker who wait for the room of a body.
pub(crate) struct Collectors(RefCell<Queue<Waits>>);

struct Waits {
    is_short: bool,
    waker: Option<Waker>,
}

impl Collectors {
    /// Bytes of an empty list.
    pub(crate) const fn bytes() -> u64 {
        Queue::<Waits>::bytes(PLACES)
    }

    pub(crate) fn new(pool: &Pool) -> Self {
        Self(RefCell::new(Queue::new(pool, PLACES, PLACES_MAX)))
    }

    /// Who is the first of those with short bodies, or of the others.
    fn first(&self, is_short: bool) -> Option<PlaceKey> {
        self.0.borrow().first(|place| place.item().is_short == is_short).map(QueuePlace::key)
    }
}

/// A place among them.
struct Place {
    core: Rc<Core>,
    key: PlaceKey,
    is_short: bool,
}

impl Place {
    /// `None`: too many wait.
    fn new(core: &Rc<Core>, host: u64, bytes: usize) -> Option<Self> {
        let is_short = bytes <= SHORT_BYTES;
        let waits = Waits { is_short, waker: None };
        let key = core.collectors.0.borrow_mut().add(host, Priority::Body, bytes as u64, waits).ok()?;
        Some(Self { core: Rc::clone(core), key, is_short })
    }

    fn is_first(&self) -> bool {
        self.core.collectors.first(self.is_short) == Some(self.key)
    }

    /// It has found room: those who come later stand behind it.
    fn serve(&self) {
        self.core.collectors.0.borrow_mut().pass(self.key);
    }

    /// Waits until it is the first, or for a moment if it is that already; not for longer than until the deadline.
    async fn wait(&self, deadline: Instant) {
        let is_first = self.is_first();
        let until = if is_first { deadline.min(now() + LOOK_AGAIN) } else { deadline };
        let mut time = pin!(sleep_until(until));
        poll_fn(|cx| {
            if !is_first && self.is_first() {
                return Poll::Ready(());
            }
            // Wakers are made and dropped by their owners' code: while nothing is borrowed.
            let waker = cx.waker().clone();
            let before =
                self.core.collectors.0.borrow_mut().item_mut(self.key).and_then(|waits| waits.waker.replace(waker));
            drop(before);
            time.as_mut().poll(cx)
        })
        .await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let gone = self.core.collectors.0.borrow_mut().remove(self.key);
        let next = self.core.collectors.first(self.is_short);
        let waker = next.and_then(|key| self.core.collectors.0.borrow_mut().item_mut(key)?.waker.take());
        drop(gone);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Ticket {
    /// Keeps room for so many bytes of a body with the exchange, in the place of what was kept before.
    fn keep_room(&self, bytes: usize) -> Result<(), Error> {
        let core = self.core();
        if self.with_collected(|_collected| ()).is_none() {
            return Err(Error::Gone);
        }
        let room = Room::of(core, bytes)?;
        let seat = core.seat_while_weighed(self.key, room.bytes());
        let collected = core.pool.try_boxed(Collected { room, seat }, Kind::Codec).map_err(|(over, _)| over)?;
        self.with_collected(|place| place.replace(collected)).map(drop).ok_or(Error::Gone)
    }

    /// Keeps room for a whole body; waits for it.
    async fn await_room(&self, bytes: usize) -> Result<(), Error> {
        let core = self.core();
        let deadline = now() + core.config.memory_timeout;
        let can_ever = bytes as u64 <= core.pool.budget().limit().as_bytes();
        let is_next = core.collectors.first(bytes <= SHORT_BYTES).is_none();
        let mut place: Option<Place> = None;
        loop {
            let may_try = place.as_ref().map_or(is_next, Place::is_first);
            let over = match if may_try { self.keep_room(bytes) } else { Err(OverBudget::new(bytes as u64).into()) } {
                Err(Error::OverBudget(over)) => over,
                done => {
                    place.iter().for_each(Place::serve);
                    return done;
                }
            };
            if place.is_none() && can_ever {
                place = Place::new(core, core.host_of(self.key), bytes);
            }
            match &place {
                Some(place) if now() < deadline => place.wait(deadline).await,
                _ => {
                    core.shed_for_room(Shed::Body);
                    return Err(over.into());
                }
            }
        }
    }

    /// Makes the room larger; without as much nothing has happened.
    fn grow_room(&self, more: usize) -> Result<(), Error> {
        let core = self.core();
        let grown = self.with_collected(|place| {
            let Some(Collected { room: Room::Charge(charge), .. }) = place.as_deref_mut() else { return None };
            Some(charge.grow(more as u64).or_else(|_over| {
                // What the pool could give back is free for a charge now.
                drop(core.pool.charge(Kind::Buffers, more as u64)?);
                charge.grow(more as u64)
            }))
        });
        let grown = match grown {
            None => return Err(Error::Gone),
            Some(Some(grown)) => grown.map_err(Error::from),
            // The first steps have a lease: the next one has both for a moment.
            Some(None) => self.keep_room(self.room_bytes() + more),
        };
        grown.inspect_err(|_error| core.shed_for_room(Shed::Body))?;
        let seat = core.seat_while_weighed(self.key, self.room_bytes());
        self.with_collected(|place| place.as_mut().map(|collected| ::core::mem::replace(&mut collected.seat, seat)));
        Ok(())
    }

    fn room_bytes(&self) -> usize {
        self.with_collected(|place| place.as_ref().map_or(0, |collected| collected.room.bytes())).unwrap_or(0)
    }
}

impl Request {
    /// The whole body, up to the [configured limit](crate::Config::collect_bytes_max), on the heap of the program.
    ///
    /// ```
    /// use plimsoll_http::{Error, Request, Response};
    ///
    /// async fn length(mut req: Request) -> Result<Response, Error> {
    ///     // At the memory line this is a 503 with Retry-After, before anything of the body was read.
    ///     let body = req.collect().await?;
    ///     Ok(Response::text(format!("{} bytes", body.len())))
    /// }
    /// ```
    ///
    /// Room for it is kept under the memory line, from before anything is read until the exchange is over: all of it
    /// for a body whose length is known. Such a body waits for the room for at most
    /// [`memory_timeout`](crate::Config::memory_timeout). One in chunks grows by steps and waits for none of them.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`chunk`](Self::chunk), and [`Error::BodyTooLarge`]; [`Error::OverBudget`] also when there is no room for all
    /// of it. No answer was begun then, and the error becomes one: 503.
    pub async fn collect(&mut self) -> Result<Vec<u8>, Error> {
        let bytes_max = self.ticket().collect_bytes_max();
        self.collect_up_to(bytes_max).await
    }

    /// The same, up to a limit in bytes.
    ///
    /// Not cancel safe: what was read is lost.
    ///
    /// # Errors
    ///
    /// As [`collect`](Self::collect).
    pub async fn collect_up_to(&mut self, bytes_max: usize) -> Result<Vec<u8>, Error> {
        let length = self.content_length().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if length.is_some_and(|length| length > bytes_max) {
            return Err(Error::BodyTooLarge { bytes_max });
        }
        let mut body = Vec::new();
        if let Some(length @ 1..) = length {
            // On the heap: few handlers wait, and the future of each would have room for it.
            Box::pin(self.ticket().await_room(length)).await?;
            body.reserve_exact(length);
        }
        while let Some(chunk) = poll_fn(|cx| self.ticket().poll_chunk(cx)).await? {
            let needed = body.len() + chunk.len();
            if needed > bytes_max {
                return Err(Error::BodyTooLarge { bytes_max });
            }
            if needed > body.capacity() {
                let step = (body.len() / 2).clamp(STEP_BYTES_MIN, STEP_BYTES_MAX).max(chunk.len());
                let more = step.min(bytes_max - body.len());
                self.ticket().grow_room(more)?;
                body.reserve_exact(more);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}
