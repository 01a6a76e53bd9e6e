//! What the WebSockets that are members of hubs ask and tell those.
#![forbid(unsafe_code)]

use ::core::fmt;
use ::core::num::NonZeroU32;

use plimsoll_codec::ws::CloseCode;
use plimsoll_runtime::SharedBytes;

use super::message::Message;

/// Which of the members of hubs on a worker one is, while it is there.
pub(crate) type Number = NonZeroU32;

/// The members of hubs on a worker. Whatever is called may run the program's code, which has no way to this socket but
/// through its member.
pub(crate) trait Group {
    /// A member is open. Gives a code to close it with.
    fn joined(&self, member: Number) -> Option<CloseCode>;

    /// A member has sent a message. Gives a code to close it with.
    fn message(&self, member: Number, message: &Message) -> Option<CloseCode>;

    /// What is to be sent to a member next, while nothing of its hub is on its way.
    fn first(&self, member: Number) -> Option<SharedBytes>;

    /// That is on its way.
    fn begin_send(&self, member: Number);

    /// What was on its way has left.
    fn sent(&self, member: Number);

    /// A member closes: nothing more is sent to it.
    fn discard(&self, member: Number);

    /// A member does not take what is sent in the time for that.
    fn count_overrun(&self, member: Number);

    /// A member is gone.
    fn left(&self, member: Number);
}

impl fmt::Debug for dyn Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group")
    }
}

/// What became of bytes for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handed {
    /// They are on their way.
    Sent,
    /// Others are: it asks for these then.
    Waits,
    /// There is no room for an operation: it asks for them when there is.
    NoRoom,
    /// It closes, or is gone.
    Closed,
}
