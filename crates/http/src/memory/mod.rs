//! What is done when memory is short: who waits, in which order, what is shed, and what is kept for whom.
//!
//! Imports may go to `base` only. Connections are keys here.
//!
//! | file | what it is |
//! |---|---|
//! | [`desk`] | what every step may use: the pool, the queue, the configuration, the lists of a turn; what is asked of the connections |
//! | [`wait`] | how a connection waits for memory: one state, for every protocol |
//! | [`waits`] | who waits for memory, and what is granted |
//! | [`queue`] | places in line: who is next, and who takes whose place |
//! | [`share`] | who may begin a request |
//! | [`received`] | bytes that have come and find no room |
//! | [`lasting`] | connections that stay: what they hold together, and those that can be told to end |
//! | [`stay_lists`] | whether one more may stay, and who is told to end |
//! | [`by_address`] | what each address holds |
//! | [`answer_reserve`] | leases for the output of exchanges that find no other |
//! | [`reserved_routes`] | leases and places for routes that are always answered |
//! | [`refusal_log`] | what memory refuses, in the log |
//! | [`seldom`] | lines of the log at a low rate |

pub(crate) mod answer_reserve;
pub(crate) mod by_address;
pub(crate) mod desk;
pub(crate) mod lasting;
pub(crate) mod queue;
pub(crate) mod received;
pub(crate) mod refusal_log;
pub(crate) mod reserved_routes;
pub(crate) mod seldom;
pub(crate) mod share;
pub(crate) mod stay_lists;
pub(crate) mod wait;
pub(crate) mod waits;
