//! What a step of HTTP/2 says, which the worker does, and what a step asks of the worker.

use plimsoll_codec::h2::StreamKey;
use plimsoll_runtime::Errno;
use plimsoll_slab::Key;

use super::no_room::NextStream;
use crate::base::exchange_end::ExchangeEnd;

/// What becomes of a connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for what was armed.
    Rest,
    /// There is more to do at once.
    GoOn,
    /// So many bytes were received, behind what was kept: they are looked at.
    Received(usize),
    /// It is time to receive what is there.
    Receive,
    /// The streams that have waited for as long as they may are begun or refused.
    EndWaits,
    /// All that there was to send has left: our half ends.
    Linger,
    /// It was told that it ends, as far as its socket took that: it is closed.
    Leave,
    /// Nothing can go on.
    Close(ExchangeEnd),
    /// Its socket failed.
    Failed(Errno),
}

/// What a frame led to.
pub(crate) enum Turned {
    /// The next one is looked at.
    On,
    /// Output, memory or a handler is waited for, or the rest of the input.
    Over,
    /// The rest of a frame is waited for, of which there is a part.
    Part,
    /// A request, which is begun, waits or is refused before the next frame.
    Request(NewRequest),
}

/// A request. Its head and fields are in the scratch memory of the turn.
#[derive(Clone, Copy)]
pub(crate) struct NewRequest {
    pub(crate) stream: StreamKey,
    /// Neither a body nor trailers follow.
    pub(super) ends: bool,
    pub(crate) next: NextStream,
}

/// What a step asks of the worker, about others than its connection.
pub(crate) trait Worker {
    /// Does what needs room for a connection; when there is none, sheds others and tries again. The error is that
    /// of the last try.
    fn retried<T, E>(&mut self, key: Key, act: impl FnMut() -> Result<T, E>) -> Result<T, E>;

    /// Whether a request of a connection may be begun as far as memory and other handlers go.
    fn has_room(&mut self, key: Key) -> bool;

    /// Whether the next request begins without being asked whether it waits for a turn.
    fn is_turn_free(&self) -> bool;

    /// Whether a request of a connection waits for a turn.
    fn waits_for_turn(&mut self, key: Key) -> bool;
}
