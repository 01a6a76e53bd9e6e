//! Layers: what is done around handlers, for one route or for all of a router.
//!
//! A layer is called with the request and with what comes next, and gives the answer:
//!
//! ```
//! use plimsoll_http::layer::{Endpoint, Layer};
//! use plimsoll_http::{IntoResponse, Request, Response, Router, StatusCode};
//!
//! /// Lets in who knows the token.
//! #[derive(Clone)]
//! struct Auth { token: &'static str }
//!
//! /// Who it is, for the handler.
//! #[derive(Clone)]
//! struct User(&'static str);
//!
//! impl Layer for Auth {
//!     async fn call(&self, mut req: Request, next: &impl Endpoint) -> Response {
//!         let given = req.header("authorization").and_then(|value| value.strip_prefix(b"Bearer "));
//!         // Every byte is compared, wherever the first wrong one is: the time tells nothing.
//!         let same = |given: &[u8]| given.iter().zip(self.token.as_bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0;
//!         if !given.is_some_and(|given| given.len() == self.token.len() && same(given)) {
//!             return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")], "who are you?\n").into_response();
//!         }
//!         req.extensions_mut().insert(User("ada"));
//!         next.call(req).await
//!     }
//! }
//!
//! async fn me(req: Request) -> String {
//!     req.extensions().get::<User>().map_or("nobody", |user| user.0).to_owned()
//! }
//!
//! let auth = Auth { token: "secret" };
//! // Around one route, with no allocation:
//! let routes = Router::new().get("/me", auth.clone().around(me));
//! // Around all that was added before, with one box for each request:
//! let routes = routes.layer(auth);
//! # assert!(routes.check().is_ok());
//! ```
//!
//! The answer of `next` may be a streamed one: its head has left then, and what a layer would add to it comes too late.
//! A layer that wants to see or change every head gives a callback to [`Request::on_head`], which is called once, right
//! before the head is encoded. It also may be dropped at any await, when its client goes away.
//!
//! Several layers are a tuple, the first one outermost: `router.layer((CatchPanic, RequestId::new(),
//! Timeout::new(..)))`. A tuple costs one box, as one layer does. An async function is a layer by [`from_fn`].
//!
//! # What they cost
//!
//! Instructions of a `GET` with each around its route, beyond the 14520 of the route alone, in a simulated
//! world (`cargo xtask bench --instructions --layers`, x86-64). Most of the first is the future around the handler's.
//!
//! | layer | instructions |
//! |---|---|
//! | one that does nothing, by `around` | 160 |
//! | the same by `Router::layer`: its box | 530 |
//! | the same by [`from_fn`], around a route: its box | 540 |
//! | [`BodyLimit`] | 440 |
//! | [`CatchPanic`] | 240 |
//! | [`Timeout`] | 550 |
//! | [`Log`], with an empty function | 1900 |
//! | [`RequestId`] | 2900 |

mod body_limit;
mod catch_panic;
mod log;
mod request_id;
mod timeout;

use ::core::fmt;
use ::core::future::Future;
use ::core::marker::PhantomData;
use ::core::pin::Pin;

pub use self::body_limit::BodyLimit;
pub use self::catch_panic::CatchPanic;
pub use self::log::{Log, LogRecord};
pub use self::request_id::{Id, RequestId};
pub use self::timeout::Timeout;
use crate::exchange::into_response::IntoResponse;
use crate::face::serve::Handler;
use crate::{Request, Response};

/// What a layer is around: a handler, or the next layer.
pub trait Endpoint {
    /// Answers.
    fn call(&self, request: Request) -> impl Future<Output = Response>;
}

/// What is done around handlers. See the [module](self).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a layer",
    label = "not a layer",
    note = "implement `plimsoll::http::layer::Layer` for it, with `async fn call(&self, request: Request, next: &impl Endpoint) -> Response`",
    note = "an `async fn(Request, Next<'_>) -> impl IntoResponse` becomes a layer by `plimsoll::http::layer::from_fn`; several layers are a tuple of at most four, which may be nested",
    note = "a layer is `Clone` and `Send`: each worker has its own"
)]
pub trait Layer: Clone + Send + 'static {
    /// Answers, with or without what comes next.
    fn call(&self, request: Request, next: &impl Endpoint) -> impl Future<Output = Response>;

    /// The handler with this layer around it: a handler, too.
    ///
    /// ```
    /// use plimsoll_http::layer::{BodyLimit, Layer};
    /// use plimsoll_http::{Error, Request, Router};
    ///
    /// async fn upload(mut req: Request) -> Result<String, Error> {
    ///     Ok(format!("{} bytes\n", req.collect().await?.len()))
    /// }
    ///
    /// let routes = Router::new().post("/upload", BodyLimit::new(16 * 1_024).around(upload));
    /// # assert!(routes.check().is_ok());
    /// ```
    fn around<H>(self, handler: H) -> Layered<Self, H> {
        Layered { layer: self, handler }
    }
}

/// A handler with a layer around it: see [`Layer::around`].
#[derive(Clone, Debug)]
pub struct Layered<L, H> {
    layer: L,
    handler: H,
}

/// Stands for a [`Layered`] handler among the arguments of handlers.
#[derive(Debug)]
pub struct WithLayer;

impl<L: Layer, S, A, H: Handler<S, A>> Handler<S, (WithLayer, A)> for Layered<L, H> {
    fn call(&self, request: Request, state: &S) -> impl Future<Output: IntoResponse> {
        async move {
            let next = Innermost { handler: &self.handler, state, arguments: PhantomData };
            self.layer.call(request, &next).await
        }
    }

    fn is_reserved(&self) -> bool {
        self.handler.is_reserved()
    }
}

/// The handler, with its state.
struct Innermost<'a, H, S, A> {
    handler: &'a H,
    state: &'a S,
    arguments: PhantomData<fn(A)>,
}

impl<S, A, H: Handler<S, A>> Endpoint for Innermost<'_, H, S, A> {
    async fn call(&self, request: Request) -> Response {
        self.handler.call(request, self.state).await.into_response()
    }
}

/// A layer and what comes next.
struct Chain<'a, L, E> {
    layer: &'a L,
    next: &'a E,
}

impl<L: Layer, E: Endpoint> Endpoint for Chain<'_, L, E> {
    fn call(&self, request: Request) -> impl Future<Output = Response> {
        self.layer.call(request, self.next)
    }
}

impl<A: Layer, B: Layer> Layer for (A, B) {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        self.0.call(request, &Chain { layer: &self.1, next }).await
    }
}

impl<A: Layer, B: Layer, C: Layer> Layer for (A, B, C) {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        let next = Chain { layer: &self.2, next };
        self.0.call(request, &Chain { layer: &self.1, next: &next }).await
    }
}

impl<A: Layer, B: Layer, C: Layer, D: Layer> Layer for (A, B, C, D) {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        let next = Chain { layer: &self.3, next };
        let next = Chain { layer: &self.2, next: &next };
        self.0.call(request, &Chain { layer: &self.1, next: &next }).await
    }
}

/// What comes next, for a function of [`from_fn`].
pub struct Next<'a>(&'a dyn BoxedEndpoint);

impl Next<'_> {
    /// Answers. The future is in a box.
    pub async fn run(self, request: Request) -> Response {
        self.0.call_boxed(request).await
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Next")
    }
}

/// An [`Endpoint`] of any type.
trait BoxedEndpoint {
    fn call_boxed(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + '_>>;
}

impl<E: Endpoint> BoxedEndpoint for E {
    fn call_boxed(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + '_>> {
        Box::pin(self.call(request))
    }
}

/// The layer of an async function of a request and of what comes [`Next`], whose future it boxes.
///
/// ```
/// use plimsoll_http::layer::{Next, from_fn};
/// use plimsoll_http::{Request, Response, Router, StatusCode};
///
/// async fn only_locally(req: Request, next: Next<'_>) -> Result<Response, StatusCode> {
///     match req.peer_addr() {
///         Ok(peer) if peer.ip().is_loopback() => Ok(next.run(req).await),
///         _ => Err(StatusCode::FORBIDDEN),
///     }
/// }
///
/// let routes = Router::new().get("/", async |_: Request| "here\n").layer(from_fn(only_locally));
/// # assert!(routes.check().is_ok());
/// ```
pub fn from_fn<F, R>(function: F) -> FromFn<F, R>
where
    F: AsyncFn(Request, Next<'_>) -> R + Clone + Send + 'static,
    R: IntoResponse + 'static,
{
    FromFn { function, answer: PhantomData }
}

/// See [`from_fn`].
pub struct FromFn<F, R> {
    function: F,
    answer: PhantomData<fn() -> R>,
}

impl<F: Clone, R> Clone for FromFn<F, R> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), answer: PhantomData }
    }
}

impl<F, R> fmt::Debug for FromFn<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromFn")
    }
}

impl<F, R> Layer for FromFn<F, R>
where
    F: AsyncFn(Request, Next<'_>) -> R + Clone + Send + 'static,
    R: IntoResponse + 'static,
{
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        (self.function)(request, Next(next)).await.into_response()
    }
}
