//! HTTP/1.1 (RFC 9112) over the codec of [`plimsoll_codec::h1`].
//!
//! Imports may go to the rooms below: `exchange`, `memory`, `base`; not to another protocol.
//!
//! | file | what it is |
//! |---|---|
//! | [`active`] | what is kept of a connection while it is worked on |
//! | [`actives`] | what a handler's call needs of the worker |
//! | [`answer`] | answers as they are written to the output |
//! | [`handlers`] | what handlers ask of an exchange |
//! | [`head`] | steps through requests: a head is searched, judged and refused or begun; bodies that nobody reads |
//! | [`events`] | what happens beside bytes: sends, ends, deadlines |
//! | [`body_receive`] | how the next part of a body is received: shared, or into a lease of its size |
//! | [`bulk_receive`] | several leases of a body that are filled by one call |
//! | [`request_body`] | a body from what was received to what its handler gets |
//! | [`interim`] | informational responses |
//! | [`step`] | what a step says: the worker does it |
//! | [`waiting`] | how an exchange waits for memory |
//! | [`write_out`] | the end of a step: keep, send, arm what is waited for, set the deadline |
//! | [`lent_output`] | output in leases of the answer reserve |

pub(crate) mod active;
pub(crate) mod actives;
pub(crate) mod answer;
pub(crate) mod body_receive;
pub(crate) mod bulk_receive;
pub(crate) mod events;
pub(crate) mod handlers;
pub(crate) mod head;
pub(crate) mod interim;
pub(crate) mod lent_output;
pub(crate) mod request_body;
pub(crate) mod step;
pub(crate) mod waiting;
pub(crate) mod write_out;

#[cfg(test)]
mod tests;
