//! WebSockets (RFC 6455).
//!
//! ```text
//!  handler: Request::serve_websocket,   --> 101 --> sent --> the connection's place in the table: Wire
//!           Request::upgrade_websocket                         |                |
//!                                                       a handler's calls    a task: WebSocket
//! ```
//!
//! A WebSocket stays in the table of its worker, as every connection does: the worker steps it, and its timer is the
//! table's. So one that waits has no task, no future and no buffer: [`WEBSOCKET_PARKED_BYTES`] beside its entry. A
//! handler ([`WebSocketHandler`]) is called with each message and adds nothing to that. A task ([`WebSocket`]) adds
//! itself and what it waits with.
//!
//! | part | file |
//! |---|---|
//! | what is kept of a connection while nothing happens, and while something does | [`entry`], [`wire`], [`work`] |
//! | how one behaves, what connections share | [`config`], [`settings`] |
//! | the answer to a handshake, and what follows it | [`opening`] |
//! | its steps, and what each says | [`drive`], [`turn`], [`step`] |
//! | what has a limited time, how it ends, and why | [`deadlines`], [`ends`], [`end`] |
//! | waits for memory | [`room`], [`flow`] |
//! | the two forms: called, and awaited | [`handler`], [`socket`], [`mailbox`] |
//! | members of hubs, and what they ask of those | [`member`], [`group`] |
//! | in the table, or on a stream of HTTP/2 (RFC 8441) | [`place`], [`stream`] |
//! | messages, how they are put together, control frames | [`message`], [`assembly`], [`control`] |
//! | permessage-deflate (feature `deflate`) | `deflate` |

mod assembly;
mod config;
mod control;
mod deadlines;
#[cfg(feature = "deflate")]
mod deflate;
mod drive;
mod end;
mod ends;
mod entry;
mod flow;
mod group;
mod handler;
mod mailbox;
mod member;
mod message;
mod opening;
mod place;
#[cfg(not(feature = "deflate"))]
mod plain;
mod room;
mod settings;
mod socket;
mod step;
mod stream;
mod turn;
mod wire;
mod work;

pub use config::{OriginCheck, WebSocketConfig};
pub(crate) use drive::start;
pub use end::WebSocketEnd;
pub(crate) use entry::Socket;
pub use entry::{WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES};
pub(crate) use group::{Group, Handed, Number};
pub use handler::{WebSocketHandler, WebSocketRef, WebSocketSender};
pub(crate) use member::Link;
pub use message::Message;
pub(crate) use opening::{Accepted, Opening, accept_handler, accept_member, accept_task};
pub(crate) use place::{Port, Sockets};
#[cfg(not(feature = "deflate"))]
use plain as deflate;
pub(crate) use settings::KnownSettings;
pub use socket::WebSocket;
pub(crate) use step::Step;
pub(crate) use stream::on_stream;
