//! What is told of an answer, for an access log.

use ::core::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use plimsoll_pool::catch_panic;

/// One answer, for an access log.
#[derive(Debug)]
#[non_exhaustive]
pub struct AccessRecord<'a> {
    /// The request line, 8 KiB of it at most. For HTTP/2 it is made of the pseudo-header fields.
    pub request_line: &'a [u8],
    /// The answer's status.
    pub status: StatusCode,
    /// Bytes of the answer's body; of a streamed one those that were written before it ended.
    pub body_bytes: u64,
    /// Seconds since 1970 in UTC.
    pub unix_seconds: u64,
    /// The peer, if it was still there when the request came.
    pub peer: Option<SocketAddr>,
}

/// Has it written.
#[derive(Clone)]
pub(crate) struct LogHook(pub(crate) Arc<dyn Fn(&AccessRecord<'_>) + Send + Sync>);

impl LogHook {
    /// Has the line of an answer written that ends now.
    pub(crate) fn write_line(&self, line: &[u8], status: StatusCode, body_bytes: u64, peer: Option<SocketAddr>) {
        let unix_seconds = plimsoll_runtime::unix_seconds();
        let record = AccessRecord { request_line: line, status, body_bytes, unix_seconds, peer };
        if catch_panic(|| (self.0)(&record)).is_none() {
            tracing::error!("the access log panicked");
        }
    }
}
