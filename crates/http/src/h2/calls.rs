//! The connections of HTTP/2 that a worker has, for those who hold an exchange of one.

use ::core::ops::Deref;

use plimsoll_slab::Key;

use super::Http2;
use super::shared::{Env, Shared};
use crate::memory::desk::Desk;

/// What a call of a handler needs of the worker.
pub(crate) trait Http2s: Deref<Target = Desk> {
    /// Runs `act` on a connection of HTTP/2, if nobody works on it right now.
    fn with_http2<R>(&self, key: Key, act: impl FnOnce(&mut Http2) -> R) -> Option<R>;

    /// What the connections share.
    fn shared(&self) -> &Shared;
}

/// The calls of a handler of HTTP/2.
pub(crate) struct Calls<'a, W>(pub(crate) &'a W);

impl<W: Http2s> Calls<'_, W> {
    pub(super) fn env(&self) -> Env<'_> {
        Env::new(self.0, self.0.shared())
    }
}

impl<W: Http2s> Deref for Calls<'_, W> {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        self.0
    }
}

impl Http2 {
    /// Has the worker look after it, unless it does so anyway.
    pub(super) fn list(&mut self, desk: &Desk, key: Key) {
        if !self.listed && desk.enlist(key) {
            self.listed = true;
        }
    }
}
