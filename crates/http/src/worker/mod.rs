//! The server of one worker: from an event to the connection, to its protocol, and on. The only room that knows all
//! protocols.
//!
//! Imports may go to the rooms below: `hub`, `h1`, `h2`, `websocket`, `exchange`, `memory`, `base`.
//!
//! | file | what it is |
//! |---|---|
//! | [`engine`] | the loop: accepts, takes events, steps connections, fires deadlines |
//! | [`connection`] | what is kept of a connection: parked, worked on, lingering |
//! | [`state`] | what the engine and its handlers share: the table, what is written to it, the lists of a turn |
//! | [`request_queue`] | which requests begin in a turn, which wait for the next, which hear that there are too many |
//! | [`closing`] | the ends of a connection, and the stop of the server |

pub(crate) mod closing;
pub(crate) mod connection;
pub(crate) mod engine;
pub(crate) mod request_queue;
pub(crate) mod state;
