//! Requests as those of the `http` crate. Responses are converted where they are made: `From<http::Response>`.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri, Version};
use plimsoll_codec::h1::{FieldSlot, Span};

use crate::{Request, RequestRef};

impl Request {
    /// The head as that of the `http` crate, with a body of yours. What layers have left among the
    /// [`extensions`](Self::extensions) goes along.
    ///
    /// Its bytes are copied once, to the heap, and every value is a slice of the copy: what is kept of it keeps nothing
    /// of the pool. Cookies that HTTP/2 has cut into several fields are one (RFC 9113 8.2.3).
    ///
    /// ```
    /// use plimsoll_http::{Request, StatusCode};
    ///
    /// async fn accepts(req: Request) -> Result<String, StatusCode> {
    ///     let head = req.to_http(()).map_err(|_| StatusCode::BAD_REQUEST)?;
    ///     Ok(format!("{:?} of {}\n", head.headers().get("accept"), head.uri()))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// What the `http` crate does not take and the server does, such as a target that is no URI of its.
    pub fn to_http<B>(&self, body: B) -> Result<http::Request<B>, http::Error> {
        let view = self.view();
        let copy = copied(view.head());
        let slots = self.slots();
        let mut headers = HeaderMap::with_capacity(slots.len());
        for slot in slots {
            let slot = FieldSlot::from_bytes(*slot);
            let name = HeaderName::from_bytes(Span { at: slot.name_at, len: slot.name_len }.of_head(&copy))?;
            let value = copy.slice(Span { at: slot.value_at, len: slot.value_len }.range());
            headers.append(name, HeaderValue::from_maybe_shared(value)?);
        }
        if view.version() == Version::HTTP_2 {
            join_cookies(&mut headers)?;
        }
        let mut request = http::Request::new(body);
        *request.uri_mut() = uri(&view, &copy)?;
        *request.method_mut() = view.method().clone();
        *request.version_mut() = view.version();
        *request.headers_mut() = headers;
        *request.extensions_mut() = self.extensions().clone();
        Ok(request)
    }
}

/// The bytes of a head, beside the count of who has a part of them: one allocation. What is copied into a buffer of
/// its own length has its count in a second one.
fn copied(head: &[u8]) -> Bytes {
    match head.len() {
        0..=128 => Counted::<128>::copied(head),
        129..=256 => Counted::<256>::copied(head),
        257..=512 => Counted::<512>::copied(head),
        _ => Bytes::copy_from_slice(head),
    }
}

/// Up to so many bytes. No part that is kept keeps twice as many as the head has, but for the smallest heads.
struct Counted<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Counted<N> {
    fn copied(from: &[u8]) -> Bytes {
        let mut owner = Self { bytes: [0; N], len: from.len() };
        owner.bytes[..from.len()].copy_from_slice(from);
        Bytes::from_owner(owner)
    }
}

impl<const N: usize> AsRef<[u8]> for Counted<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
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
fn uri(view: &RequestRef<'_>, copy: &Bytes) -> Result<Uri, http::Error> {
    let request = view.request();
    let target = copy.slice(request.target.range());
    if view.version() != Version::HTTP_2 {
        return Ok(Uri::from_maybe_shared(target)?);
    }
    let mut parts = http::uri::Parts::default();
    if let Some(host) = request.host {
        parts.authority = Some(Authority::from_maybe_shared(copy.slice(host.range()))?);
    }
    if view.method() != Method::CONNECT || !target.is_empty() && target[0] == b'/' {
        parts.scheme = parts.authority.is_some().then_some(Scheme::HTTP);
        parts.path_and_query = Some(PathAndQuery::from_maybe_shared(target)?);
    }
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use super::copied;

    #[test]
    fn a_copy_is_all_of_a_head_whatever_its_length() {
        let head: Vec<u8> = (0..=255).cycle().take(600).collect();
        for len in [0, 1, 128, 129, 256, 257, 512, 513, 600] {
            assert_eq!(copied(&head[..len]), &head[..len]);
        }
    }
}
