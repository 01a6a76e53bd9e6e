//! What waits for one consumer: bounded in number and in bytes, with a policy for when it is full.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_pool::{Budget, Charge, Kind};

/// What happens to a message for a consumer whose queue is full.
///
/// A message that would fit into an empty queue is never refused for its size: [`Hub::publish`](crate::Hub::publish)
/// refuses those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlowConsumer {
    /// It does not get this message; what it waits for stays.
    DropNewest,
    /// It does not get the oldest messages that wait; this one takes their place. For what is about the present, such
    /// as prices.
    #[default]
    DropOldest,
    /// It is closed: a WebSocket with 1013, a stream of events by its end. Whoever comes back asks for what was missed.
    Close,
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// At least 1.
    pub(super) messages_max: u32,
    pub(super) bytes_max: u64,
    pub(super) policy: SlowConsumer,
}

/// What can wait.
pub(super) trait Weigh {
    /// Bytes that count for the bound; at most the bound.
    fn weight_bytes(&self) -> u64;
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It waits.
    Waits,
    /// It waits, and so many of the oldest do not any more.
    Replaced(u32),
    /// It was dropped.
    Refused,
    /// The consumer is to be closed.
    Overrun,
}

/// A queue. Its places are charged; when it is empty it has none.
#[derive(Debug)]
pub(super) struct Queue<T> {
    items: VecDeque<T>,
    bytes: u64,
    charge: Option<Charge>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), bytes: 0, charge: None }
    }
}

impl<T: Weigh> Queue<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Puts a message behind the others, as the policy says. At the memory line a queue that would have to grow is
    /// full.
    pub(super) fn push(&mut self, item: T, bounds: &Bounds, budget: &Arc<Budget>) -> Pushed {
        let weight = item.weight_bytes();
        debug_assert!(weight <= bounds.bytes_max, "larger ones are refused before");
        let mut dropped = 0;
        loop {
            let fits = self.items.len() < bounds.messages_max as usize && self.bytes + weight <= bounds.bytes_max;
            if fits && self.has_place(bounds, budget) {
                break;
            }
            match bounds.policy {
                SlowConsumer::DropNewest => return Pushed::Refused,
                SlowConsumer::Close => return Pushed::Overrun,
                SlowConsumer::DropOldest if self.take().is_none() => return Pushed::Refused,
                SlowConsumer::DropOldest => dropped += 1,
            }
        }
        self.bytes += weight;
        self.items.push_back(item);
        debug_assert!(self.items.len() <= bounds.messages_max as usize && self.bytes <= bounds.bytes_max);
        if dropped == 0 { Pushed::Waits } else { Pushed::Replaced(dropped) }
    }

    /// The one that has waited longest, which stays.
    pub(super) fn first(&self) -> Option<&T> {
        self.items.front()
    }

    /// Takes the one that has waited longest.
    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.take()?;
        if self.items.is_empty() {
            *self = Self::default();
        }
        Some(item)
    }

    fn take(&mut self) -> Option<T> {
        let item = self.items.pop_front()?;
        self.bytes -= item.weight_bytes();
        Some(item)
    }

    /// Makes a place for one more, charged before it is there.
    fn has_place(&mut self, bounds: &Bounds, budget: &Arc<Budget>) -> bool {
        if self.items.len() < self.items.capacity() {
            return true;
        }
        let places = (2 * self.items.len()).max(PLACES_MIN).min(bounds.messages_max as usize);
        let more = places - self.items.len();
        let bytes = (more * size_of::<T>()) as u64;
        let charged = match &mut self.charge {
            Some(charge) => charge.grow(bytes),
            None => budget.charge(Kind::Buffers, bytes).map(|charge| self.charge = Some(charge)),
        };
        if charged.is_ok() {
            self.items.reserve_exact(more);
        }
        charged.is_ok()
    }
}

/// Places of a queue that has any, unless it may have fewer.
const PLACES_MIN: usize = 4;

#[cfg(test)]
mod tests;
