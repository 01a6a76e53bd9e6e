//! Panics as answers.

use ::core::future::poll_fn;
use ::core::pin::pin;
use ::core::task::Poll;

use http::StatusCode;

use crate::exchange::failure::Failure;
use crate::face::layer::{Endpoint, Layer};
use crate::{Request, Response};

/// Answers 500 where a handler panics, and keeps its connection: without this, the server answers 500 and closes it. A
/// streamed answer that was begun is cut short. With `panic = "abort"` there is nothing to catch: the process ends.
///
/// ```
/// use plimsoll_http::layer::CatchPanic;
/// use plimsoll_http::{Request, Response, Router};
///
/// async fn broken(_req: Request) -> Response {
///     panic!("a bug")
/// }
/// let routes = Router::new().get("/", broken).layer(CatchPanic);
/// # assert!(routes.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CatchPanic;

impl Layer for CatchPanic {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        let mut answer = pin!(next.call(request));
        poll_fn(|cx| match plimsoll_pool::catch_panic(|| answer.as_mut().poll(cx)) {
            Some(polled) => polled,
            // What panicked is not polled again: it is dropped with this.
            None => {
                tracing::error!("a handler panicked");
                Poll::Ready(Failure::from(StatusCode::INTERNAL_SERVER_ERROR).into())
            }
        })
        .await
    }
}
