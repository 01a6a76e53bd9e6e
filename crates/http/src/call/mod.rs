//! A request that the program brings itself, and its answer: the second thing that carries an exchange, beside a
//! connection.
//!
//! ```text
//!   face: Callable::call --> Call --poll_head, poll_part--> the handler has a turn
//!                                                             |  its calls: trait Exchanges
//!                            head, parts <--- Outgoing <------+------> Incoming ---> CallBody
//! ```
//!
//! The handler is polled by whoever polls the call, and only while nothing of its answer waits to be taken: that is the
//! back-pressure. A call that is dropped ends its handler.
//!
//! Imports may go to the rooms below: `exchange`, `memory`, `base`.
//!
//! | file | what it is |
//! |---|---|
//! | [`run`] | the call: its handler, and who takes its answer |
//! | [`exchange`] | how the handler's calls reach it |
//! | [`incoming`] | the request's body |
//! | [`outgoing`] | the answer on its way |
//! | [`head`] | the head of the `http` crate as one that our requests have |

pub(crate) mod exchange;
pub(crate) mod head;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod run;
