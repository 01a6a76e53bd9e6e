//! What a user of the crate calls: the server and its routes, requests, streamed answers.
//!
//! Imports may go to every room. Handlers of WebSockets, hubs and tunnels have their types in the rooms of what they
//! speak, which the root of the crate exports, too.
//!
//! | file | what it is |
//! |---|---|
//! | [`server`] | bind, configure, serve |
//! | [`call`] | handlers and routes that a program calls itself |
//! | [`serve`] | what a server can be given: a handler, or routes |
//! | [`router`] | routes by method and path |
//! | [`request`] | the request of a handler, and what can be done with it |
//! | [`convert`] | requests of the `http` crate |
//! | [`collect`] | a request's body in one piece |
//! | [`body`] | the body of an answer that is streamed |
//! | [`layer`] | what is done around handlers |
//! | [`files`] | a directory of files, or one |
//! | [`metrics`] | what there is to be measured, as Prometheus text |
//! | `data` | the data of a request as types of the program |
//! | `secured` | what a handler can know of a TLS session |
//! | [`sse`] | an answer that is a stream of events |
//! | [`hub`] | a request that becomes a member of a hub |
//! | [`upgrade`] | a connection that leaves HTTP, and its task |
//! | [`tunnel`] | a stream that leaves HTTP, and what opens a WebSocket |
//! | [`access_log`] | a line for each request, written by a thread of its own |

pub(crate) mod access_log;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod collect;
pub(crate) mod convert;
#[cfg(feature = "serde")]
pub(crate) mod data;
pub(crate) mod files;
pub(crate) mod hub;
pub mod layer;
pub mod metrics;
pub(crate) mod request;
#[cfg(feature = "router")]
pub(crate) mod router;
#[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
pub(crate) mod secured;
pub(crate) mod serve;
pub(crate) mod server;
pub(crate) mod sse;
pub(crate) mod tunnel;
pub(crate) mod upgrade;
