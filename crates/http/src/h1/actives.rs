//! The connections of HTTP/1 that a worker has, for those who hold an exchange of one.

use ::core::ops::Deref;

use plimsoll_pool::{PoolBox, Priority};
use plimsoll_runtime::OverBudget;
use plimsoll_slab::Key;

use crate::exchange::line::Line;
use crate::h1::active::Active;
use crate::memory::desk::Desk;
use crate::memory::lasting::ExchangeId;

/// What a call of a handler needs of the worker.
pub(crate) trait Actives: Deref<Target = Desk> {
    /// Runs `act` on the exchange with this id, if it is still the one that is worked on.
    fn with<R>(&self, id: ExchangeId, act: impl FnOnce(&mut Active) -> R) -> Option<R>;

    /// Takes a connection that is worked on out of the table.
    fn take(&self, key: Key) -> Option<PoolBox<Active>>;

    /// Puts it back.
    fn put_back(&self, key: Key, active: PoolBox<Active>);

    fn line(&self, key: Key) -> impl Line;

    /// Has a connection that is in the table wait for room; whether it does.
    fn enqueue_in_table(&self, key: Key, want: Priority, over: &OverBudget) -> bool;
}

/// The calls of a handler of HTTP/1.
pub(crate) struct Http1<'a, A>(pub(crate) &'a A);

impl<A> Deref for Http1<'_, A> {
    type Target = A;

    fn deref(&self) -> &A {
        self.0
    }
}

impl<A: Actives> Http1<'_, A> {
    /// Where a call has the name of what it does there.
    pub(crate) fn desk(&self) -> &Desk {
        self.0
    }
}
