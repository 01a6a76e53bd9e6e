//! Heads of answers, from those of the `http` crate to ours.

use http::header::{self, HeaderName};
use plimsoll_http::{Error, Response};

/// The head of an answer, and the length that it announces.
pub(crate) fn response(head: &http::response::Parts) -> Result<(Response, Option<u64>), Error> {
    let mut response = Response::new(head.status);
    let mut length = None;
    for (name, value) in &head.headers {
        if *name == header::CONTENT_LENGTH {
            length = value.to_str().ok().and_then(|text| text.parse().ok());
        } else if !is_servers(name) {
            response.push_http_header(name, value)?;
        }
    }
    Ok((response, length))
}

/// Fields that are the server's own: how a body is framed, what becomes of the connection, and the date.
pub(crate) fn is_servers(name: &HeaderName) -> bool {
    matches!(name.as_str(), "transfer-encoding" | "connection" | "date" | "keep-alive" | "proxy-connection")
}
