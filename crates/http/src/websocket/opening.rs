//! The answer to a handshake, and what the connection becomes when that has left.

use ::core::cell::RefCell;
use ::core::future::Future;
use std::rc::Weak;

use http::{Method, StatusCode};
use plimsoll_codec::Fault;
use plimsoll_codec::h1::RequestView;
use plimsoll_codec::ws::Handshake;
use plimsoll_pool::PoolBox;
use plimsoll_runtime::Kind;

use super::config::WebSocketConfig;
use super::deflate;
use super::entry::{Consumer, Socket};
use super::group::{Group, Number};
use super::handler::{self, WebSocketHandler};
use super::mailbox::Mailbox;
use super::member::Link;
use super::place::Place;
use super::settings::{KnownSettings, Values};
use super::socket::WebSocket;
use super::wire::Wire;
use crate::base::error::Error;
use crate::exchange::response::Response;
use crate::memory::desk::Desk;

/// What becomes of a connection after its 101. All but the task, and the place in a hub, is there before that is sent.
pub(crate) struct Opening {
    pub(super) socket: PoolBox<Socket>,
    pub(super) start: Option<Start>,
}

/// What is begun when the connection is there.
pub(crate) enum Start {
    /// Its task; `false` when there is no room for that.
    Task(Box<dyn FnOnce(WebSocket) -> bool>),
    /// It joins a hub; `None` when that has no room for it.
    Member(Box<dyn FnOnce(Link) -> Option<Number>>),
}

/// What was begun.
pub(crate) enum Started {
    Nothing,
    Member(Number),
    /// There was no room for it.
    Failed,
}

/// Begins what there is to begin.
pub(super) fn begin(start: Option<Start>, place: Place) -> Started {
    match start {
        None => Started::Nothing,
        Some(Start::Task(start)) => {
            if start(WebSocket::new(place)) {
                Started::Nothing
            } else {
                Started::Failed
            }
        }
        Some(Start::Member(join)) => join(Link::of(&place)).map_or(Started::Failed, Started::Member),
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
    group: Option<Weak<dyn Group>>,
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
    let compression = if group.is_none() { deflate::agree(desk, &handshake, config) } else { None };
    if let Some(compression) = compression {
        response = response.try_header("Sec-WebSocket-Extensions", compression.to_string())?;
    }
    let values = Values::new(config, compression);
    let settings = shared.borrow_mut().shared(&desk.pool, values, group)?;
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
    accept((desk, shared), view, config, None, || Ok((Consumer::Handler(handler::boxed(handler)?), None)))
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
    accept((desk, shared), view, config, None, || {
        let mailbox = desk.pool.try_boxed(Mailbox::default(), Kind::Tasks).map_err(|(over, _)| over)?;
        Ok((Consumer::Task(Some(mailbox)), Some(Start::Task(Box::new(start)))))
    })
}

/// The same for a member of a hub, which it joins when it is open. Nothing is compressed.
pub(crate) fn accept_member(
    (desk, shared): (&Desk, &RefCell<KnownSettings>),
    view: &RequestView<'_>,
    config: &WebSocketConfig,
    group: Weak<dyn Group>,
    join: impl FnOnce(Link) -> Option<Number> + 'static,
) -> Result<Accepted, Error> {
    let start = Start::Member(Box::new(join));
    accept((desk, shared), view, config, Some(group), || Ok((Consumer::Task(None), Some(start))))
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
