//! What a worker and a table of its own tell each other: completions, and pages that can be given back.
#![forbid(unsafe_code)]

use core::cell::{Cell, RefCell};
use core::task::Waker;
use std::collections::VecDeque;
use std::rc::Rc;

use plimsoll_pool::{Charge, Kind, Pool, catch_panic};
use plimsoll_reactor::{Completion, Driver, Errno, Payload};

use crate::token::Purpose;

/// Completions that wait for the table at most; when they are as many, the worker reaps no further until they are
/// taken. Unless the table's owner waits for something else, which may be one of those that are not reaped: see
/// [`IDLE_TURNS_MAX`].
pub(super) const EVENTS_MAX: usize = 256;

/// After so many turns in a row in which the owner has taken no completion though there are some, the worker does not
/// wait for it any more. It reaps on, and the queue grows; no further than there are operations in flight, whose slots
/// come free with that. And received bytes are copied out of the driver's buffers when a receive waits for one.
const IDLE_TURNS_MAX: u8 = 4;

/// Completions on their way to a table.
pub(crate) struct Events {
    pub(super) queue: RefCell<VecDeque<RawEvent>>,
    pub(super) waker: RefCell<Option<Waker>>,
    /// Pages of the table that no connection uses and that may go back to the pool.
    pub(super) spare_pages: Cell<u32>,
    /// The worker wants them back.
    pub(super) recalled: Cell<bool>,
    /// Completions that the queue has room for.
    places: Cell<usize>,
    /// For those beyond [`EVENTS_MAX`].
    more_places: RefCell<Option<Charge>>,
    /// How many there were when one was queued, or at the end of the last turn.
    seen: Cell<usize>,
    /// Turns in a row in which the owner has taken none of them.
    idle_turns: Cell<u8>,
}

pub(super) struct RawEvent {
    pub(super) purpose: Purpose,
    pub(super) index: u32,
    pub(super) completion: Completion,
}

impl Events {
    pub(super) fn new() -> Rc<Self> {
        Rc::new(Self {
            queue: RefCell::new(VecDeque::with_capacity(EVENTS_MAX)),
            waker: RefCell::default(),
            spare_pages: Cell::new(0),
            recalled: Cell::new(false),
            places: Cell::new(EVENTS_MAX),
            more_places: RefCell::default(),
            seen: Cell::new(0),
            idle_turns: Cell::new(0),
        })
    }

    /// Whether the worker may reap on.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.borrow().len() < EVENTS_MAX || self.is_idle()
    }

    fn is_idle(&self) -> bool {
        self.idle_turns.get() >= IDLE_TURNS_MAX
    }

    /// The tasks have had their turn. Whether completions were left.
    pub(crate) fn end_turn(&self) -> bool {
        let len = self.queue.borrow().len();
        if len > 0 {
            let is_untouched = len == self.seen.replace(len);
            self.idle_turns.set(if is_untouched { self.idle_turns.get().saturating_add(1) } else { 0 });
            return true;
        }
        self.idle_turns.set(0);
        if self.places.get() > EVENTS_MAX {
            self.queue.replace(VecDeque::with_capacity(EVENTS_MAX));
            self.more_places.take();
            self.places.set(EVENTS_MAX);
        }
        false
    }

    /// Copies received bytes that the owner, which is idle, has left in the driver's buffers, as receives wait for
    /// those. Bytes for which the line leaves no room are lost, until there is a buffer, and their connection is told.
    /// Whether bytes were left in buffers.
    pub(crate) fn give_buffers_back(&self, pool: &Pool, driver: &Driver) -> bool {
        let mut left = false;
        for raw in self.queue.borrow_mut().iter_mut() {
            let Payload::Received(bytes) = &raw.completion.payload else { continue };
            if !self.is_idle() || !driver.is_short_of_buffers() {
                left = true;
            } else if let Ok(lease) = pool.try_copy(bytes, Kind::Buffers) {
                raw.completion.payload = Payload::Lease(lease);
            } else {
                raw.completion.payload = Payload::None;
                raw.completion.result = Err(Errno::NOBUFS);
            }
        }
        left
    }

    pub(crate) fn has_spare_pages(&self) -> bool {
        self.spare_pages.get() > 0
    }

    /// Has the table give back the pages that it can spare, when its owner looks at it next: at once if it waits.
    pub(crate) fn recall_pages(&self) {
        self.recalled.set(true);
        self.look();
    }

    /// Has the table's owner look at it again, if it waits.
    pub(super) fn look(&self) {
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            catch_panic(|| waker.wake());
        }
    }

    /// Remembers whom to wake. Wakers are made and dropped by their owners' code: while nothing is borrowed.
    pub(super) fn remember(&self, waker: &Waker) {
        let is_known = self.waker.borrow().as_ref().is_some_and(|known| known.will_wake(waker));
        if !is_known {
            let before = self.waker.replace(Some(waker.clone()));
            drop(before);
        }
    }

    pub(crate) fn push(&self, pool: &Pool, purpose: Purpose, index: u32, completion: Completion) {
        let mut queue = self.queue.borrow_mut();
        if queue.len() == self.places.get() {
            self.add_places(&mut queue, pool);
        }
        queue.push_back(RawEvent { purpose, index, completion });
        self.seen.set(queue.len());
        drop(queue);
        let waker = self.waker.borrow_mut().take();
        if let Some(waker) = waker {
            catch_panic(|| waker.wake());
        }
    }

    /// Doubles the room. At the line that is not charged: a completion that is forgotten is a connection that hangs,
    /// and its operation has just given back a slot, which is about as large.
    #[cold]
    fn add_places(&self, queue: &mut VecDeque<RawEvent>, pool: &Pool) {
        debug_assert!(self.is_idle(), "the worker looks before it reaps");
        let places = 2 * self.places.get();
        // What was charged before goes when this has replaced it.
        let charge = pool.charge(Kind::Slots, ((places - EVENTS_MAX) * size_of::<RawEvent>()) as u64);
        queue.reserve_exact(places - queue.len());
        if let Ok(charge) = charge {
            self.more_places.replace(Some(charge));
        }
        self.places.set(places);
    }
}
