//! What found no room, how a connection waits for that, and for its turn.

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::Priority;
use plimsoll_runtime::{Instant, OverBudget};

use super::shared::Env;
use crate::base::counters::Shed;
use crate::exchange::output::Output;
use crate::memory::wait::MemoryWait;

/// What finds no room, and how the connection waits for it: see [`room`](super::room).
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryNeed {
    /// What found no room when it was last tried.
    pub(super) wanted: Option<Wanted>,
    /// Since when something has found none.
    pub(super) since: Option<Instant>,
    pub(super) memory: MemoryWait,
    /// The stream whose body found no room.
    pub(super) stream: Option<StreamKey>,
    /// What came has no place, and stays in the socket.
    pub(super) unread: bool,
}

/// For what there was no room, and for how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) what: Priority,
    pub(super) bytes: u32,
}

/// What becomes of a stream that is about to begin while memory is short. One whose route is
/// [marked](crate::memory::reserved_routes) begins all the same, if its head is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextStream {
    Begins,
    /// For whom it is, is known when its head was decoded: then it is begun, or waits.
    IsJudged,
    /// It [waits](super::waiting) when its head was decoded.
    Waits,
    /// It is not looked at, and its connection waits for room with it: that has no other stream.
    StaysUnread,
    /// It is refused as soon as its head is whole; where routes are marked, when that was decoded.
    IsRefused(Shed),
}

/// How the next request of a connection waits for a turn of the worker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TurnWait {
    /// It does not.
    #[default]
    Own,
    /// What came is kept until then.
    Awaited,
    /// It is refused, as those before it take too long.
    Refused,
}

/// Makes room in the output, of the answer reserve if the pool has none, or has the connection wait for it.
#[inline(always)]
pub(super) fn make(output: &mut Output, need: &mut MemoryNeed, env: Env<'_>, bytes: usize) -> Result<(), OverBudget> {
    // Nearly always: several times for each request.
    if output.spare_bytes() >= bytes {
        return Ok(());
    }
    output.reserve(&env.pool, bytes).or_else(|over| lend(output, need, env, bytes, over))
}

/// There is no room in the pool.
#[cold]
fn lend(
    output: &mut Output,
    need: &mut MemoryNeed,
    env: Env<'_>,
    bytes: usize,
    over: OverBudget,
) -> Result<(), OverBudget> {
    if output.is_empty()
        && let Some(lease) = env.reserve.take_for(bytes)
    {
        output.lend(lease);
        return Ok(());
    }
    need.note_over(Priority::Output, &over);
    Err(over)
}

impl MemoryNeed {
    /// Something found no room for so many bytes. Output matters most: it is what was begun.
    pub(super) fn note(&mut self, what: Priority, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let before = self.wanted.unwrap_or(Wanted { what, bytes });
        let what = if what == Priority::Output { what } else { before.what };
        self.wanted = Some(Wanted { what, bytes: before.bytes.max(bytes) });
    }

    pub(super) fn note_over(&mut self, what: Priority, over: &OverBudget) {
        self.note(what, usize::try_from(over.wanted_bytes()).unwrap_or(usize::MAX));
    }
}
