//! How a request becomes a member of a hub.

use ::core::future::poll_fn;
use std::rc::{Rc, Weak};

use http::{Method, Version};
use plimsoll_runtime::Kind;

use crate::exchange::event;
use crate::exchange::response::Body;
use crate::hub::{EventTask, Framing};
use crate::websocket::{self, Group};
use crate::worker::state::WorkerState;
use crate::{Error, Hub, Request, Response, StatusCode};

impl Hub {
    /// Answers with a WebSocket (RFC 6455, RFC 8441) that is a member from then on: it gets what is published, and what
    /// it sends goes to [`HubHandler::message`](crate::HubHandler::message). 503 when the hub has as many members as it
    /// may have.
    ///
    /// # Errors
    ///
    /// As [`Request::serve_websocket`].
    pub fn join_websocket(&self, request: &Request) -> Result<Response, Error> {
        if self.is_full() {
            return Ok(full());
        }
        let (worker, config) = (WorkerState::of(request.handle())?, self.websocket_config());
        let members = worker.members()?;
        let group: Rc<dyn Group> = members.clone();
        let group: Weak<dyn Group> = Rc::downgrade(&group);
        let hub = self.clone();
        let join = move |link| members.join_socket(&hub, link);
        let accepted = websocket::accept_member((worker, &worker.websockets), &request.view(), &config, group, join)?;
        request.open_websocket(accepted)
    }

    /// Answers with server-sent events: those that are published. 503 when the hub has as many members as it may have.
    ///
    /// On HTTP/1 the connection becomes the member, needs no task, and is closed at its end. On HTTP/2 it has other
    /// streams: there the handler goes on, and writes.
    ///
    /// # Errors
    ///
    /// As [`Request::events`].
    pub async fn join_events(&self, request: Request) -> Result<Response, Error> {
        if request.method() == Method::HEAD {
            return event::response();
        }
        if self.is_full() {
            return Ok(full());
        }
        let framing = match request.version() {
            Version::HTTP_2 => return self.write_events(request).await,
            Version::HTTP_10 => Framing::Plain,
            _ => Framing::Chunks,
        };
        let (hub, members) = (self.clone(), WorkerState::of(request.handle())?.members()?);
        let join = move |stream, guard| {
            if let Err(error) = members.join_events(&hub, stream, guard, framing) {
                tracing::warn!(%error, "no room for a member: its connection is closed");
            }
        };
        request.begin_member(event::response()?, Box::new(join))?;
        Ok(Response::streamed())
    }

    async fn write_events(&self, mut request: Request) -> Result<Response, Error> {
        let members = WorkerState::of(request.handle())?.members()?;
        let mut events = request.events(self.events_config())?;
        drop(request);
        let member = EventTask::join(members, self)?;
        // None: the server stops, or the member is to leave.
        while let Some(Some(bytes)) = events.wait(poll_fn(|cx| member.poll_next(cx))).await? {
            let copied = plimsoll_runtime::pool().try_copy(&bytes, Kind::Buffers)?;
            drop(bytes);
            events.write(Body::Lease(copied)).await?;
            member.sent();
        }
        drop(member);
        events.finish().await
    }
}

fn full() -> Response {
    Response::text("there is no place for another member now; try again in 5 seconds\n")
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .header("Retry-After", "5")
}
