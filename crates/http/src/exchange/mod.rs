//! What a request and its answer are for a handler, whatever protocol carries them.
//!
//! Imports may go to the rooms below: `memory`, `base`. Nothing of a protocol, a table or a service belongs here.
//!
//! | file | what it is |
//! |---|---|
//! | [`handle`] | what a handler holds of its exchange, and how its answer comes back |
//! | [`kept_head`] | a request's head in one lease |
//! | [`response`] | what a handler answers, and the body of that |
//! | [`into_response`] | what a handler may return instead |
//! | `paths` | what the paths of routes are asked for |
//! | [`head`] | callbacks that see a head before it is encoded |
//! | [`interim`] | what an informational response may be |
//! | [`buffer`] | buffers that a handler waits for, to fill them for its answer |
//! | [`collect`] | a body that is read in full: room for all of it is there first |
//! | [`guard`] | a connection that has left the table, and counts still |
//! | [`tunnel`] | a stream that carries bytes of another protocol |
//! | [`event`] | server-sent events as text |
//! | [`trailers`] | the fields behind a body |
//! | [`failure`] | answers of the server itself: a status and a line of text |
//! | [`source`] | the bytes that a step works on |
//! | [`line`] | the socket of one connection, as a protocol uses it |
//! | [`output`] | bytes on their way to the socket: gathered in one lease, sent by one operation |
//! | [`min_rate`] | how long the server still waits for a body, by what comes of it |
//! | [`user_code`] | wakers and bodies of the program, which may call again when they wake or are dropped |
//! | [`misbehaviour`] | points for what is legal each time, and an attack when it is all that a peer does |

pub(crate) mod buffer;
pub(crate) mod collect;
pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod head;
pub(crate) mod interim;
pub(crate) mod into_response;
pub(crate) mod kept_head;
pub(crate) mod line;
pub(crate) mod min_rate;
pub(crate) mod misbehaviour;
pub(crate) mod output;
#[cfg(feature = "router")]
pub(crate) mod paths;
pub(crate) mod response;
pub(crate) mod source;
pub(crate) mod trailers;
pub(crate) mod tunnel;
pub(crate) mod user_code;
