//! WebSockets (RFC 6455).
//!
//! ```text
//!  handler: Request::serve_websocket,   --> 101 --> sent --> the connection's place in the table: Wire
//!           Request::upgrade_websocket                         |                |
//!                                                       a handler's calls    a task: WebSocket
//! ```
//!
//! A WebSocket stays in the table of its worker, as every connection does: the engine steps it, and its timer is the
//! table's. So one that waits has no task, no future and no buffer: [`WEBSOCKET_PARKED_BYTES`] beside its entry. A
//! handler ([`WebSocketHandler`]) is called with each message and adds nothing to that. A task ([`WebSocket`]) adds
//! itself and what it waits with.
//!
//! | part | file |
//! |---|---|
//! | what is kept of a connection while nothing happens, and while something does | [`wire`], [`work`] |
//! | what connections share, control frames | [`settings`], [`control`] |
//! | the engine's steps | [`drive`], [`turn`] |
//! | what has a limited time, how it ends | [`deadlines`], [`ends`] |
//! | waits for memory | [`room`], [`flow`] |
//! | the two forms: called, and awaited | [`handler`], [`socket`] |
//! | in the table, or on a stream of HTTP/2 (RFC 8441) | [`place`], [`stream`] |
//! | messages, and how they are put together | [`message`], [`assembly`] |
//! | permessage-deflate (feature `deflate`) | `deflate` |

use ::core::cell::RefCell;
use ::core::future::Future;
use ::core::time::Duration;

use http::{Method, StatusCode};
use plimsoll_codec::Fault;
use plimsoll_codec::h1::RequestView;
use plimsoll_codec::ws::{Handshake, Limits};
use plimsoll_pool::PoolBox;
use plimsoll_runtime::Kind;

use crate::base::error::Error;
use crate::exchange::response::Response;
use crate::memory::desk::Desk;

mod assembly;
mod control;
mod deadlines;
#[cfg(feature = "deflate")]
mod deflate;
mod drive;
mod ends;
mod flow;
mod handler;
mod message;
mod place;
#[cfg(not(feature = "deflate"))]
mod plain;
mod room;
mod settings;
mod socket;
mod stream;
mod turn;
mod wire;
mod work;

pub(crate) use control::static_close;
pub use handler::{WebSocketEnd, WebSocketHandler, WebSocketRef, WebSocketSender};
pub use message::Message;
#[cfg(not(feature = "deflate"))]
use plain as deflate;
pub(crate) use settings::KnownSettings;
use settings::Values;
use socket::Mailbox;
pub use socket::WebSocket;
pub(crate) use stream::on_stream;
use wire::Wire;

/// A WebSocket in the table.
pub(crate) struct Socket {
    consumer: Consumer,
    wire: Wire,
}

/// Who gets the messages.
enum Consumer {
    /// Called.
    Handler(Box<dyn WebSocketHandler>),
    /// A task; `None` when it has dropped its socket.
    Task(Option<PoolBox<Mailbox>>),
}

/// Bytes of a parked WebSocket, beside those of every parked connection, with their size class. What its handler holds,
/// or its task, comes on top.
pub const WEBSOCKET_PARKED_BYTES: usize = PoolBox::<Socket>::CLASS.bytes();
/// Bytes of a WebSocket that is in a task, beside the task.
pub const WEBSOCKET_TASK_BYTES: usize = WEBSOCKET_PARKED_BYTES + PoolBox::<Mailbox>::CLASS.bytes();

const _: () = assert!(WEBSOCKET_PARKED_BYTES == 64, "a parked WebSocket is two cache lines with its entry");
const _: () = assert!(WEBSOCKET_TASK_BYTES == 128, "and its task has wakers");

/// What becomes of a connection after its 101. All but the task is there before that is sent.
pub(crate) struct Opening {
    socket: PoolBox<Socket>,
    start: Option<Start>,
}

/// Starts the task, if it has one; `false` when there is no room for that.
type Start = Box<dyn FnOnce(WebSocket) -> bool>;

/// How a WebSocket behaves.
///
/// ```
/// use core::time::Duration;
/// use plimsoll_http::{OriginCheck, WebSocketConfig};
///
/// let config = WebSocketConfig {
///     subprotocols: &["chat.v2", "chat.v1"],
///     origin: OriginCheck::Ask(|origin| origin == b"https://chat.example"),
///     ping_interval: Some(Duration::from_secs(50)),
///     ..WebSocketConfig::default()
/// };
/// assert_eq!(config.limits.message_bytes_max, 1 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WebSocketConfig {
    /// What a message may be.
    pub limits: Limits,
    /// What we speak; the first of the client's that is among them is taken.
    pub subprotocols: &'static [&'static str],
    /// Whose pages may open it.
    pub origin: OriginCheck,
    /// A peer that is silent for so long is asked whether it is there; if it is silent once more for as long, it is
    /// gone. 30 s. While a message waits to be taken by its task, nothing is read: the peer is asked as often, and no
    /// answer is waited for. That it is gone shows when its system refuses what is sent, or takes none of it
    /// ([`TcpOptions::user_timeout`](crate::TcpOptions::user_timeout)).
    pub ping_interval: Option<Duration>,
    /// From the first byte of a message to its last. 30 s.
    pub message_timeout: Duration,
    /// For the peer to take a message. 30 s.
    pub send_timeout: Duration,
    /// For the peer to close after we did. 5 s.
    pub close_timeout: Duration,
    /// permessage-deflate with peers that offer it, as near to this as they offer; `None`: never. A window that is
    /// taken over from message to message costs memory for as long as the connection lives:
    /// [`Deflater::heap_bytes`](plimsoll_codec::ws::Deflater::heap_bytes) and
    /// [`Inflater::HEAP_BYTES`](plimsoll_codec::ws::Inflater::HEAP_BYTES), charged; it is not agreed on unless memory
    /// is calm. With the feature `deflate`. `None`.
    #[cfg(feature = "deflate")]
    pub compression: Option<plimsoll_codec::ws::Compression>,
}

impl Default for WebSocketConfig {
    fn default() -> Self {
        Self {
            limits: Limits::DEFAULT,
            subprotocols: &[],
            origin: OriginCheck::SameHost,
            ping_interval: Some(Duration::from_secs(30)),
            message_timeout: Duration::from_secs(30),
            send_timeout: Duration::from_secs(30),
            close_timeout: Duration::from_secs(5),
            #[cfg(feature = "deflate")]
            compression: None,
        }
    }
}

/// Whose pages may open a WebSocket (RFC 6455 10.2). A browser lets any page try, and sends our cookies along; it
/// always says which page. Clients that are no browsers say nothing and are let in.
#[derive(Clone, Copy, Debug)]
pub enum OriginCheck {
    /// Pages of the host and port that the request is for.
    SameHost,
    /// What the function says of the value of `Origin`.
    Ask(fn(&[u8]) -> bool),
    /// All.
    Any,
}

impl OriginCheck {
    fn admits(self, origin: Option<&[u8]>, host: Option<&str>) -> bool {
        let Some(origin) = origin else { return true };
        match self {
            Self::Any => true,
            Self::Ask(ask) => ask(origin),
            Self::SameHost => {
                let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
                authority.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host.as_bytes()))
            }
        }
    }
}

/// The answer to a handshake, and what is opened when it has left.
pub(crate) enum Accepted {
    Refused(Response),
    Connection(Response, Opening),
    /// On a stream of HTTP/2.
    Stream(Response, Opening),
}

/// Answers a handshake, of HTTP/1.1 or of HTTP/2.
fn accept(
    (desk, shared): (&Desk, &RefCell<KnownSettings>),
    view: &RequestView<'_>,
    config: &WebSocketConfig,
    consumer: impl FnOnce() -> Result<(Consumer, Option<Start>), Error>,
) -> Result<Accepted, Error> {
    let handshake = match Handshake::check(view) {
        // A stream has no Upgrade to be told of.
        Err(error) if view.method() == Method::CONNECT && error.fault() == Fault::PeerUnsupported => {
            let response = Response::new(StatusCode::BAD_REQUEST).try_header("Sec-WebSocket-Version", "13")?;
            return Ok(Accepted::Refused(response));
        }
        checked => checked?,
    };
    let mut response = respond(&handshake, view, config)?;
    desk.may_stay()?;
    let compression = deflate::agree(desk, &handshake, config);
    if let Some(compression) = compression {
        response = response.try_header("Sec-WebSocket-Extensions", compression.to_string())?;
    }
    let values = Values::new(config, compression);
    let settings = shared.borrow_mut().shared(&desk.pool, values)?;
    let (consumer, start) = consumer()?;
    let socket = Socket { consumer, wire: Wire::new(settings) };
    let opening = Opening { socket: desk.pool.try_boxed(socket, Kind::Slots).map_err(|(over, _)| over)?, start };
    let accepted = if handshake.accept().is_some() { Accepted::Connection } else { Accepted::Stream };
    Ok(accepted(response, opening))
}

/// The same for a handler.
pub(crate) fn accept_handler<H: WebSocketHandler>(
    (desk, shared): (&Desk, &RefCell<KnownSettings>),
    view: &RequestView<'_>,
    config: &WebSocketConfig,
    handler: H,
) -> Result<Accepted, Error> {
    accept((desk, shared), view, config, || Ok((Consumer::Handler(handler::boxed(handler)?), None)))
}

/// The same for a task.
pub(crate) fn accept_task<F>(
    (desk, shared): (&Desk, &RefCell<KnownSettings>),
    view: &RequestView<'_>,
    config: &WebSocketConfig,
    run: impl FnOnce(WebSocket) -> F + 'static,
) -> Result<Accepted, Error>
where
    F: Future<Output = ()> + 'static,
{
    let start = move |socket| plimsoll_runtime::spawn(run(socket)).is_ok();
    accept((desk, shared), view, config, || {
        let mailbox = desk.pool.try_boxed(Mailbox::default(), Kind::Tasks).map_err(|(over, _)| over)?;
        Ok((Consumer::Task(Some(mailbox)), Some(Box::new(start))))
    })
}

/// The answer to a handshake of HTTP/1.1, for who goes on with the connection itself. Nothing is compressed.
pub(crate) fn answer(view: &RequestView<'_>, config: &WebSocketConfig) -> Result<Response, Error> {
    let handshake = Handshake::check(view)?;
    if handshake.accept().is_none() {
        return Err(plimsoll_codec::Error::WebSocketUpgradeMissing.into());
    }
    respond(&handshake, view, config)
}

fn respond(handshake: &Handshake<'_>, view: &RequestView<'_>, config: &WebSocketConfig) -> Result<Response, Error> {
    if !config.origin.admits(handshake.origin(), view.host()) {
        return Err(Error::OriginRefused);
    }
    let mut response = match handshake.accept() {
        Some(accept) => Response::new(StatusCode::SWITCHING_PROTOCOLS)
            .try_header("Upgrade", "websocket")?
            .try_header("Sec-WebSocket-Accept", accept.as_str())?,
        None => Response::new(StatusCode::OK),
    };
    if let Some(subprotocol) = handshake.choose_subprotocol(config.subprotocols) {
        response = response.try_header("Sec-WebSocket-Protocol", subprotocol)?;
    }
    Ok(response)
}
