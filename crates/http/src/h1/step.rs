//! What the steps of a connection of HTTP/1.1 say: the worker does it.

use ::core::any::Any;

use plimsoll_runtime::JoinHandle;

use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;

/// How far a connection gets with what has come on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Bytes of a request are there: they are looked at when it is its turn.
    Ahead,
    /// It speaks HTTP/2.
    Http2,
    /// Its client has too many connections.
    Refuse,
    /// It ends at once.
    Close,
    /// Nothing more can be done with what came.
    Done,
}

/// What becomes of a connection after a step.
pub(crate) enum Step {
    /// There is more to do at once.
    GoOn,
    /// The same, and its handler has its turn before there is more for others.
    GiveWay,
    /// The same, when its handler was stopped: that runs code of the program, with the connection back in the table.
    Abort(JoinHandle<()>),
    /// It waits for what was armed.
    Rest,
    /// All is answered, and nothing of the next request is there.
    Park,
    /// An answer has left behind which it is another's.
    Release(Box<dyn Any>),
    /// There is no room for what has to be done.
    Shed(Shed),
    /// It ends behind its answer, so that the peer sees that.
    CloseGently,
    /// It ends at once, and why.
    End(ExchangeEnd),
}
