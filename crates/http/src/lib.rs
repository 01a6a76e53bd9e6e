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
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod base;
mod call;
mod exchange;
mod face;
mod h1;
mod h2;
mod hub;
mod memory;
mod websocket;
mod worker;

pub use base::access_record::AccessRecord;
pub use base::config::{Config, HalfClose, Http2, ProxyProtocol, TcpOptions};
pub use base::counters::{Counters, Shed, Totals};
#[cfg(feature = "serde")]
pub use base::data_error::{DataError, DataPart};
pub use base::error::Error;
pub use base::exchange_end::ExchangeEnd;
pub use base::forwarded::{Network, ParseNetworkError};
pub use base::handshakes::{HandshakeFailure, HandshakeTotals};
pub use base::misuse::Misuse;
pub use base::stop::ServerHandle;
pub use call::incoming::{CallBody, CallPart};
pub use call::run::Call;
pub use exchange::guard::ConnectionGuard;
pub use exchange::head::ResponseHead;
pub use exchange::into_response::{IntoResponse, ResponseHeaders};
pub use exchange::response::{Body, Response};
pub use exchange::trailers::Trailers;
pub use exchange::tunnel::Tunnel;
pub use face::access_log::AccessLog;
pub use face::body::BodyWriter;
pub use face::call::Callable;
#[cfg(feature = "json")]
pub use face::data::json::Json;

pub use exchange::event::{Event, EventsConfig};
pub use face::files::{ServeDir, ServeFile};
pub use face::layer;
pub use face::metrics;
pub use face::request::{MustFinish, Request};
#[cfg(feature = "router")]
pub use face::router::{RouteError, Router};
pub use face::serve::{Handler, Serve, Serving};
pub use face::server::Server;
pub use face::sse::EventWriter;
pub use face::upgrade::Upgraded;
pub use h1::active::EXCHANGE_BYTES;
pub use h2::HTTP2_PARKED_BYTES;
pub use http::{Method, StatusCode, Version, header};
pub use hub::{
    Hub, HubConfig, HubHandler, HubStats, Incoming, Member, MemberId, Post, Sequences, SlowConsumer, Subscription,
};
#[doc(inline)]
pub use plimsoll_codec::h1::{Limits as Http1Limits, LimitsBuilder as Http1LimitsBuilder, RequestView as RequestRef};
#[doc(inline)]
pub use plimsoll_codec::h2::Limits as Http2Limits;
#[doc(inline)]
pub use plimsoll_codec::ws::{CloseCode, Compression as WebSocketCompression, Limits as WebSocketLimits};
#[doc(inline)]
pub use plimsoll_codec::{Error as ProtocolError, Fault};
pub use plimsoll_pool::{AdaptiveSize, Class};
#[cfg(any(feature = "tls-aws-lc", feature = "tls-ring"))]
pub use plimsoll_tls as tls;
pub use websocket::{
    Message, OriginCheck, WEBSOCKET_PARKED_BYTES, WEBSOCKET_TASK_BYTES, WebSocket, WebSocketConfig, WebSocketEnd,
    WebSocketHandler, WebSocketRef, WebSocketSender,
};
pub use worker::connection::CONNECTION_BYTES;
pub use worker::plan::plan;
pub use worker::stay_bytes::MEMBER_BYTES;
