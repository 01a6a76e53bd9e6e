//! The HTTP server of Plimsoll: plain async functions as handlers, every byte under the runtime's memory line.
//!
//! A connection that is parked between requests has no future and no buffer: it is an entry in the worker's connection
//! table ([`plimsoll_runtime::net::Table`]). While a request is worked on it has an exchange in the pool, and it is
//! parked again when the last byte of the answer has been handed to the socket.
//!
//! ```
//! use plimsoll_http::{Request, Response, Server};
//! use plimsoll_runtime::{Runtime, Spawner, net::TcpStream};
//!
//! let runtime = Runtime::builder().workers(1).build()?;
//! let answer = runtime.block_on(async {
//!     let server = Server::bind("127.0.0.1:0")?;
//!     let address = server.local_addr();
//!     let serving = plimsoll_runtime::spawn(server.serve(|req: Request| async move {
//!         Response::text(format!("hello {}\n", req.path()))
//!     }))?;
//!     let mut client = TcpStream::connect(address).await?;
//!     client.send_bytes(b"GET /you HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await?;
//!     let mut answer = Vec::new();
//!     while let Some(bytes) = client.recv().await? {
//!         answer.extend_from_slice(&bytes);
//!     }
//!     Spawner::current().stop();
//!     serving.await.expect("the server ends")?;
//!     Ok::<_, plimsoll_runtime::Error>(answer)
//! })?;
//! assert!(answer.ends_with(b"hello /you\n"));
//! # Ok::<(), plimsoll_runtime::Error>(())
//! ```
#![forbid(unsafe_code)]

mod access_log;
mod begun;
mod body;
mod bulk;
mod closing;
mod collect;
mod config;
mod connection;
mod core;
mod counters;
mod crowd;
mod engine;
mod error;
mod failure;
mod fanout;
mod forwarded;
mod h2;
mod incoming;
mod interim;
mod lasting;
mod marked;
mod memory_wait;
mod output;
mod patience;
mod peers;
mod plan;
mod proxy;
mod receive;
mod refusals;
mod relief;
mod request;
mod reserve;
mod response;
#[cfg(feature = "router")]
mod router;
mod score;
mod server;
mod settle;
mod sse;
mod steps;
mod sys;
mod ticket;
mod trailers;
mod turn;
mod unread;
mod upgrade;
mod websocket;

pub use access_log::AccessLog;
pub use begun::ExchangeEnd;
pub use body::BodyWriter;
pub use config::{Config, HalfClose, Http2, ProxyProtocol, TcpOptions};
pub use connection::{CONNECTION_BYTES, EXCHANGE_BYTES};
pub use counters::{Counters, Shed, Totals};
pub use error::Error;
pub use fanout::{
    Hub, HubConfig, HubHandler, HubStats, Incoming, MEMBER_BYTES, Member, MemberId, Post, SlowConsumer, Subscription,
};
pub use forwarded::Network;
pub use h2::{HTTP2_PARKED_BYTES, Tunnel};
pub use http::{Method, StatusCode, Version, header};
pub use plan::plan;
pub use plimsoll_codec as codec;
pub use plimsoll_pool::{AdaptiveSize, Class};
pub use request::{MustFinish, Request, RequestRef};
pub use response::{Body, IntoResponse, Response};
#[cfg(feature = "router")]
pub use router::{Handler, RouteError, Router};
pub use server::{AccessRecord, Server};
pub use sse::{Event, EventWriter, EventsConfig};
pub use trailers::Trailers;
pub use upgrade::{Seat, Upgraded};
pub use websocket::{
    Message, OriginCheck, WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES, WebSocket, WebSocketConfig, WebSocketEnd,
    WebSocketHandler, WebSocketRef, WebSocketSender,
};

/// The result of a handler's calls.
pub type Result<T, E = Error> = ::core::result::Result<T, E>;
