//! What is done when memory is short: who waits, in which order, what is let go of, and what is kept for whom.
//!
//! Imports may go to `base` only. Connections are keys here.
//!
//! | file | what it is |
//! |---|---|
//! | [`wait`] | how a connection waits for memory: one state, for every protocol |
//! | [`pressure`] | what each level means, and what is done in a turn |
//! | `pressure/waiting` | places in line, and what is granted to them |
//! | `pressure/share` | who may begin a request |
//! | `pressure/shed_order` | who is let go of, in which order, and how many |
//! | `pressure/heads` | incomplete heads, which go first |
//! | `pressure/end_lasting` | which of the connections that stay are told to end |
//! | `pressure/pace` | how fast peers are, while others wait |
//! | `pressure/received` | bytes that have come and find no room |
//! | [`lasting`] | connections that stay: their share, and the lists of those that can be told to end |
//! | [`by_address`] | what each address holds |
//! | [`answer_reserve`] | leases for the output of exchanges that find no other |
//! | [`reserved_routes`] | leases and places for routes that are always answered |
//! | [`refusal_log`] | what memory refuses, in the log, at a low rate |

pub(crate) mod answer_reserve;
pub(crate) mod by_address;
pub(crate) mod lasting;
pub(crate) mod pressure;
pub(crate) mod refusal_log;
pub(crate) mod reserved_routes;
pub(crate) mod wait;
