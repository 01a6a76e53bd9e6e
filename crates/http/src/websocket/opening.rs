//! The answer to a handshake, and what the connection becomes when that has left.

use ::core::cell::RefCell;
use ::core::future::Future;

use http::{Method, StatusCode};
use plimsoll_codec::Fault;
use plimsoll_codec::h1::RequestView;
use plimsoll_codec::ws::Handshake;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::Kind;

use super::config::WebSocketConfig;
use super::deflate;
use super::entry::{Consumer, Socket};
use super::handler::{self, WebSocketHandler};
use super::mailbox::Mailbox;
use super::settings::{KnownSettings, Values};
use super::socket::WebSocket;
use super::wire::Wire;
use crate::base::error::Error;
use crate::exchange::response::Response;
use crate::memory::desk::Desk;

/// What becomes of a connection after its 101. All but the task is there before that is sent.
pub(crate) struct Opening {
    pub(super) socket: PoolBox<Socket>,
    pub(super) start: Option<Start>,
}

/// Starts the task, if it has one; `false` when there is no room for that.
pub(crate) type Start = Box<dyn FnOnce(WebSocket) -> bool>;

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
