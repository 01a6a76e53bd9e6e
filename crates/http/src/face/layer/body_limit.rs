//! A limit on bodies, whoever reads them.

use crate::face::layer::{Endpoint, Layer};
use crate::{Error, IntoResponse, Request, Response};

/// Refuses bodies of more than so many bytes: with 413 before the handler runs where the head says the length, else
/// with [`Error::BodyTooLarge`] where the handler reads beyond, which becomes a 413.
///
/// ```
/// use plimsoll_http::layer::BodyLimit;
/// use plimsoll_http::{Request, Router};
///
/// let routes = Router::new().post("/", async |mut req: Request| req.collect().await).layer(BodyLimit::new(65_536));
/// # assert!(routes.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimit {
    bytes_max: u64,
}

impl BodyLimit {
    /// At most so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max }
    }
}

impl Layer for BodyLimit {
    async fn call(&self, mut request: Request, next: &impl Endpoint) -> Response {
        if request.content_length().is_some_and(|length| length > self.bytes_max) {
            let bytes_max = usize::try_from(self.bytes_max).unwrap_or(usize::MAX);
            return Error::BodyTooLarge { bytes_max }.into_response();
        }
        request.limit_body(self.bytes_max);
        next.call(request).await
    }
}
