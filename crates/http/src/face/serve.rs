//! What a server can be given to answer requests.

use ::core::fmt;
use ::core::future::{Future, poll_fn};
use ::core::marker::PhantomData;
use ::core::pin::Pin;
use ::core::task::{Context, Poll};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_runtime::Result;

use crate::exchange::handle::Responder;
use crate::exchange::into_response::IntoResponse;
#[cfg(feature = "router")]
use crate::exchange::paths::Paths;
use crate::exchange::response::Response;
use crate::face::request::Request;
use crate::face::server::{Handlers, Server};

/// What may answer a route: an async function (or closure) of a [`Request`], or of a [`Request`] and the router's
/// state. `A` stands for its arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer a route of a router whose state is `{S}`",
    label = "not a handler",
    note = "a handler is an `async fn(Request) -> impl IntoResponse`, or with the router's state an `async fn(Request, {S}) -> impl IntoResponse`; closures can be handlers, too: `async |request: Request| \"hello\"`",
    note = "look whether it is `async`, takes a `plimsoll::http::Request` by value first, then nothing or exactly `{S}` (`Router::with_state` sets it), and returns what implements `plimsoll::http::IntoResponse`: a struct of your own is returned as `Json(value)`",
    note = "it has to be `Clone` and `Send` as well: what it captures goes to every worker"
)]
pub trait Handler<S, A>: Clone + Send + 'static {
    /// Begins to answer; the output becomes the response.
    fn call(&self, request: Request, state: &S) -> impl Future<Output: IntoResponse>;

    /// Whether its route is always answered, as with `Router::reserved`. A function's is not.
    fn is_reserved(&self) -> bool {
        false
    }
}

impl<S, F, R> Handler<S, (Request,)> for F
where
    F: Fn(Request) -> R + Clone + Send + 'static,
    R: Future<Output: IntoResponse> + 'static,
{
    fn call(&self, request: Request, _state: &S) -> impl Future<Output: IntoResponse> {
        self(request)
    }
}

impl<S, F, R> Handler<S, (Request, S)> for F
where
    S: Clone,
    F: Fn(Request, S) -> R + Clone + Send + 'static,
    R: Future<Output: IntoResponse> + 'static,
{
    fn call(&self, request: Request, state: &S) -> impl Future<Output: IntoResponse> {
        self(request, state.clone())
    }
}

/// What [`Server::serve`] takes: a `Router`, or one [`Handler`] without a state for all requests. `A` stands for which
/// of these it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot answer requests",
    label = "neither a router nor a handler",
    note = "give a `Router` by value, or a handler: an `async fn(Request) -> impl IntoResponse`, or a closure such as `async |request: Request| \"hello\"`",
    note = "look whether the handler is `async`, takes a `plimsoll::http::Request` by value and nothing else, returns what implements `plimsoll::http::IntoResponse`, and is `Clone` and `Send`: what it captures goes to every worker",
    note = "a handler with a state belongs to a route: `Router::with_state(state).get(\"/\", handler)`"
)]
pub trait Serve<A> {
    /// Serves.
    #[doc(hidden)]
    fn serve(self, server: Server, only_here: OnlyHere) -> Serving;

    /// What a program calls itself: see [`Callable`](crate::Callable).
    #[doc(hidden)]
    fn answers(self, only_here: OnlyHere) -> Result<Arc<dyn Answers>>;
}

/// Begins to answer requests, on whichever worker. Each has a clone of its handler.
pub trait Answers: Send + Sync {
    /// The answer to a request.
    fn answer(&self, request: Request) -> Answering;

    /// The paths of the routes, if there are some.
    #[cfg(feature = "router")]
    fn paths(&self) -> Option<Arc<dyn Paths>>;
}

/// An answer that will come.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response>>>;

/// Keeps [`Serve`] to this crate.
#[derive(Debug)]
pub struct OnlyHere;

#[diagnostic::do_not_recommend]
impl<H: Handler<(), A>, A: 'static> Serve<A> for H {
    fn serve(self, server: Server, _only_here: OnlyHere) -> Serving {
        Serving::new(server.serve_with(move || {
            let handler = Rc::new(self.clone());
            Handlers::new(move |request, mut responder: Responder| {
                let handler = Rc::clone(&handler);
                // The handler's future is made in here: one that was moved in would be in the cell twice.
                async move {
                    let mut response = handler.call(request, &()).await.into_response();
                    poll_fn(|cx| responder.poll_answer(cx, &mut response)).await;
                }
            })
        }))
    }

    fn answers(self, _only_here: OnlyHere) -> Result<Arc<dyn Answers>> {
        Ok(Arc::new(OneHandler { handler: Mutex::new(self), arguments: PhantomData }))
    }
}

/// One for all requests. Handlers are not `Sync`.
struct OneHandler<H, A> {
    handler: Mutex<H>,
    arguments: PhantomData<fn(A)>,
}

impl<H: Handler<(), A>, A: 'static> Answers for OneHandler<H, A> {
    fn answer(&self, request: Request) -> Answering {
        let handler = self.handler.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { handler.call(request, &()).await.into_response() })
    }

    #[cfg(feature = "router")]
    fn paths(&self) -> Option<Arc<dyn Paths>> {
        None
    }
}

/// A server at work: see [`Server::serve`]. Ready when it has stopped, and what ran has finished.
#[must_use = "nothing is served before it is awaited or spawned"]
pub struct Serving(Pin<Box<dyn Future<Output = Result<()>>>>);

impl Serving {
    pub(crate) fn new(serving: impl Future<Output = Result<()>> + 'static) -> Self {
        Self(Box::pin(serving))
    }
}

impl Future for Serving {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}
