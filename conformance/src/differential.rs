//! Our codec beside two others, over the same bytes: httparse, which tokenises our heads too, and kawa, which shares no
//! code with us.
//!
//! A request that two readers delimit differently is how requests are smuggled. So: what we take as a request, and
//! another parser takes too, has for both the same method, target, version, fields, body and end. What we refuse,
//! others may take; the reverse is counted in no way, because no other parser is as strict.

use kawa::{Block, Buffer, Kawa, Kind, SliceBuffer, StatusLine, Store, Version, h1};
use plimsoll_codec::fuzz::{BodyEnd, read_body};
use plimsoll_codec::h1::{FIELDS_CEILING, FieldSlot, HeadSearch, Limits, RequestView, parse_head};

/// A message as a parser understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    method: Vec<u8>,
    target: Vec<u8>,
    is_11: bool,
    /// Names in lower case, and values; without Host and Cookie, which kawa keeps elsewhere.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
    /// Bytes of the input that belong to it.
    len: usize,
}

/// Any bytes as one request: whoever takes it must agree with us.
pub fn request(data: &[u8]) {
    let Some((start, ours)) = ours(data) else { return };
    // Empty lines before the request line are ours to skip.
    let data = &data[start..];
    check_httparse(data, &ours);
    if let Some(theirs) = kawa(data) {
        assert_eq!(ours, theirs, "kawa reads another request");
    }
}

/// What we take, where it starts, and a description of it.
fn ours(data: &[u8]) -> Option<(usize, Message)> {
    let limits = Limits::DEFAULT;
    let found = HeadSearch::default().search(data, &limits).ok()??;
    let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
    let head = &data[found.clone()];
    let parsed = parse_head(head, &mut slots, &limits).ok()?;
    let view = RequestView::new(head, &slots[..], &parsed);
    let body = read_body(parsed.framing, &data[found.end..], &limits, &[]);
    if body.end != Ok(BodyEnd::Complete) {
        return None;
    }
    let fields = view.fields().map(|(name, value)| (name.as_bytes(), value));
    let trailers = plimsoll_codec::h1::trailers(&body.trailers).map(|(name, value)| (name.as_bytes(), value));
    let message = Message {
        method: view.method().as_str().as_bytes().to_vec(),
        target: view.target().as_bytes().to_vec(),
        is_11: parsed.version == http::Version::HTTP_11,
        fields: compared(fields.chain(trailers)),
        body: body.data.clone(),
        len: head.len() + body.consumed,
    };
    Some((found.start, message))
}

/// The fields that are compared, in order.
fn compared<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lowered = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()));
    lowered.filter(|(name, _)| name != b"host" && name != b"cookie").collect()
}

fn check_httparse(data: &[u8], ours: &Message) {
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_CEILING];
    let mut request = httparse::Request::new(&mut headers);
    let status = request.parse(data);
    let Ok(httparse::Status::Complete(len)) = status else { panic!("httparse refuses what we take: {status:?}") };
    assert_eq!(request.method.map(str::as_bytes), Some(&ours.method[..]));
    assert_eq!(request.path.map(str::as_bytes), Some(&ours.target[..]));
    assert_eq!(request.version, Some(u8::from(ours.is_11)));
    assert!(len <= ours.len, "httparse reads a longer head");
    let theirs = compared(request.headers.iter().map(|header| (header.name.as_bytes(), header.value)));
    assert_eq!(ours.fields[..theirs.len()], theirs, "the fields of the head");
}

/// What kawa takes, whole.
fn kawa(data: &[u8]) -> Option<Message> {
    let mut storage = vec![0; data.len().max(1)];
    let mut buffer = Buffer::new(SliceBuffer(&mut storage));
    buffer.space()[..data.len()].copy_from_slice(data);
    buffer.fill(data.len());
    let mut request = Kawa::new(Kind::Request, buffer);
    h1::parse(&mut request, &mut h1::NoCallbacks);
    if !request.is_terminated() || request.is_error() {
        return None;
    }
    let bytes = request.storage.buffer();
    let StatusLine::Request { version, method, uri, .. } = &request.detached.status_line else { return None };
    let mut fields = Vec::new();
    let mut body = Vec::new();
    for block in &request.blocks {
        match block {
            Block::Header(pair) if matches!(pair.key, Store::Empty) => {}
            Block::Header(pair) => fields.push((pair.key.data(bytes), pair.val.data(bytes))),
            Block::Chunk(chunk) => body.extend_from_slice(chunk.data.data(bytes)),
            _ => {}
        }
    }
    Some(Message {
        method: method.data(bytes).to_vec(),
        target: uri.data(bytes).to_vec(),
        is_11: matches!(version, Version::V11),
        fields: compared(fields.into_iter()),
        body,
        len: data.len() - request.storage.unparsed_data().len(),
    })
}

#[cfg(test)]
mod tests;
