//! Heads, from ours to those of the `http` crate and back.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri, Version};
use plimsoll_http::codec::h1::RequestView;
use plimsoll_http::{Error, Response};

/// The head of a request.
///
/// Its bytes are copied once, to the heap, and every value is a slice of the copy: what a service keeps of it keeps
/// nothing of the pool.
pub(crate) fn request<B>(view: &RequestView<'_>, body: B) -> Result<http::Request<B>, http::Error> {
    let head = view.head();
    let copy = Bytes::copy_from_slice(head);
    let slice_of = |part: &[u8]| {
        let at = (part.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
        // What is not a part of the head, as an empty value may be, is copied.
        if at <= copy.len() && part.len() <= copy.len() - at && !part.is_empty() {
            copy.slice(at..at + part.len())
        } else {
            Bytes::copy_from_slice(part)
        }
    };
    let fields = view.fields();
    let mut headers = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes())?;
        headers.append(name, HeaderValue::from_maybe_shared(slice_of(value))?);
    }
    if view.version() == Version::HTTP_2 {
        join_cookies(&mut headers)?;
    }
    let mut request = http::Request::new(body);
    *request.uri_mut() = uri(view, slice_of)?;
    *request.method_mut() = view.method().clone();
    *request.version_mut() = view.version();
    *request.headers_mut() = headers;
    Ok(request)
}

/// HTTP/2 may cut cookies into fields; what is not HTTP/2 gets them as one (RFC 9113 8.2.3).
fn join_cookies(headers: &mut HeaderMap) -> Result<(), http::Error> {
    let mut crumbs = headers.get_all(header::COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else { return Ok(()) };
    let mut cookie = first.as_bytes().to_vec();
    for crumb in core::iter::once(second).chain(crumbs) {
        cookie.extend_from_slice(b"; ");
        cookie.extend_from_slice(crumb.as_bytes());
    }
    headers.insert(header::COOKIE, HeaderValue::from_maybe_shared(Bytes::from(cookie))?);
    Ok(())
}

/// The target. That of HTTP/2 has its authority, as its pseudo-fields say; one of HTTP/1.1 is as it was sent.
fn uri(view: &RequestView<'_>, slice_of: impl Fn(&[u8]) -> Bytes) -> Result<Uri, http::Error> {
    let target = slice_of(view.target().as_bytes());
    if view.version() != Version::HTTP_2 {
        return Ok(Uri::from_maybe_shared(target)?);
    }
    let mut parts = http::uri::Parts::default();
    if let Some(host) = view.host() {
        parts.authority = Some(Authority::from_maybe_shared(slice_of(host.as_bytes()))?);
    }
    if view.method() != Method::CONNECT || !target.is_empty() && target[0] == b'/' {
        parts.scheme = parts.authority.is_some().then_some(Scheme::HTTP);
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(target)?);
    }
    Ok(Uri::from_parts(parts)?)
}

/// The head of an answer, and the length that it announces.
pub(crate) fn response(head: &http::response::Parts) -> Result<(Response, Option<u64>), Error> {
    let mut response = Response::new(head.status);
    let mut length = None;
    for (name, value) in &head.headers {
        if *name == header::CONTENT_LENGTH {
            length = value.to_str().ok().and_then(|text| text.parse().ok());
        } else if !is_servers(name) {
            response = response.try_header(name.as_str(), value.as_bytes())?;
        }
    }
    Ok((response, length))
}

/// Fields that are the server's own: how a body is framed, what becomes of the connection, and the date.
pub(crate) fn is_servers(name: &HeaderName) -> bool {
    *name == header::TRANSFER_ENCODING
        || *name == header::CONNECTION
        || *name == header::DATE
        || name.as_str() == "keep-alive"
        || name.as_str() == "proxy-connection"
}
