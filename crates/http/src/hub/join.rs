//! How a connection becomes a member of a hub.

use std::rc::Rc;

use http::{Method, Version};
use plimsoll_runtime::Kind;
use plimsoll_runtime::net::Stream;

use super::members::{Members, Shape};
use super::roster::Takes;
use super::{Hub, lock};
use crate::exchange::event;
use crate::exchange::response::Body;
use crate::face::sse;
use crate::websocket;
use crate::worker::released::Seat;
use crate::{Error, Request, Response, StatusCode};

impl Hub {
    /// Answers with a WebSocket (RFC 6455) that is a member from then on: it gets what is published, and what it sends
    /// goes to [`HubHandler::message`](super::HubHandler::message). 503 when the hub has as many members as it may
    /// have; 426 for a WebSocket of HTTP/2, whose connection has other streams: [subscribe](Self::subscribe) there.
    ///
    /// # Errors
    ///
    /// As [`Request::upgrade_websocket`].
    pub fn join_websocket(&self, request: &Request) -> Result<Response, Error> {
        if self.is_full() {
            return Ok(full());
        }
        let response = websocket::answer(&request.view(), &self.0.config.websocket)?;
        let hub = self.clone();
        request.set_upgrade(Box::new(move |stream, seat: Seat| {
            seat.core.counters().websocket();
            enter(&hub, stream, seat, Shape::WebSocket);
        }))?;
        Ok(response)
    }

    /// Answers with server-sent events: those that are published. 503 when the hub has as many members as it may have.
    ///
    /// On HTTP/1 the connection becomes a member and is closed at its end. On HTTP/2 it has other streams: there the
    /// handler goes on, as a [subscription](Self::subscribe), and the hub's handler is not told.
    ///
    /// # Errors
    ///
    /// As [`Request::events`].
    pub async fn join_events(&self, mut request: Request) -> Result<Response, Error> {
        if request.method() == Method::HEAD {
            return event::response();
        }
        if self.is_full() {
            return Ok(full());
        }
        let shape = match request.version() {
            Version::HTTP_2 => {
                let events = request.events(self.0.config.events)?;
                drop(request);
                return self.stream(events).await;
            }
            Version::HTTP_10 => Shape::Plain,
            _ => Shape::Chunks,
        };
        let hub = self.clone();
        request.begin_member(event::response()?, Box::new(move |stream, seat| enter(&hub, stream, seat, shape)))?;
        Ok(Response::streamed())
    }

    async fn stream(&self, mut events: sse::EventWriter) -> Result<Response, Error> {
        let mut subscription = self.subscribe_to(Takes::Events)?;
        // None: the server stops. An error: it was too slow.
        while let Some(Ok(post)) = events.wait(subscription.recv()).await? {
            if let Some(bytes) = post.events() {
                let copied = plimsoll_runtime::pool().try_copy(&bytes, Kind::Buffers)?;
                events.write(Body::Lease(copied)).await?;
                self.0.counts_sent();
            }
        }
        events.finish().await
    }

    fn is_full(&self) -> bool {
        lock(&self.0.state).members() >= self.0.config.members_max
    }
}

fn full() -> Response {
    Response::text("there is no place for another member now; try again in 5 seconds\n")
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .header("Retry-After", "5")
}

/// The head of the answer has left.
fn enter(hub: &Hub, stream: Stream, seat: Seat, shape: Shape) {
    let place = &seat.core.members;
    let known = place.borrow().upgrade();
    let members = match known.map_or_else(Members::start, Ok) {
        Ok(members) => members,
        Err(error) => return tracing::warn!(%error, "no room for members: a connection is closed"),
    };
    place.replace(Rc::downgrade(&members));
    if let Err(error) = members.join(hub, stream, seat, shape) {
        tracing::warn!(%error, "no room for a member: its connection is closed");
    }
}
