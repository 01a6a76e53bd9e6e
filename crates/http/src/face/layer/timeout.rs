//! A time limit for handlers.

use ::core::time::Duration;

use crate::exchange::failure::Failure;
use crate::face::layer::{Endpoint, Layer};
use crate::{Request, Response};

/// Drops what takes longer than this, and answers 503; a streamed answer that was begun is cut short.
/// [`Config::handler_timeout`](crate::Config::handler_timeout) does the same for all routes, for less.
///
/// ```
/// use plimsoll_http::layer::{Layer, Timeout};
/// use plimsoll_http::{Request, Router};
/// use std::time::Duration;
///
/// let report = async |_: Request| "a long story\n";
/// let routes = Router::new().get("/report", Timeout::new(Duration::from_secs(5)).around(report));
/// # assert!(routes.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    limit: Duration,
}

impl Timeout {
    /// At most so long.
    pub fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl Layer for Timeout {
    async fn call(&self, request: Request, next: &impl Endpoint) -> Response {
        let answer = plimsoll_runtime::timeout(self.limit, next.call(request)).await;
        answer.unwrap_or_else(|_| Failure::OVERDUE.into())
    }
}
