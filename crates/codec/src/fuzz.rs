//! Entry points for fuzzers: each takes any bytes and asserts the invariants of one decoder.
//!
//! The properties, which the tests of the crate check with generated input too:
//!
//! * however the input is split, the events and the errors are the same;
//! * what is accepted as a head, a naive reading of its lines and httparse accept too, with the same fields;
//! * an accepted target is a `http::Uri`, an accepted host a `http::uri::Authority`;
//! * a header list that was decoded, encoded again, decodes to itself, and no table outgrows its size;
//! * data that was decoded from chunks, encoded again, decodes to itself;
//! * a connection makes progress with every step and ends in a state that says what to do;
//! * so it does under any schedule of arrivals and answers.

mod operations;

pub use operations::operations;

mod h2;

#[cfg(test)]
pub(crate) use h2::{PREFACE_AND_SETTINGS, Served, frame, serve_h2};
pub use h2::{h2_frames, h2_operations};

mod ws;

#[cfg(test)]
pub(crate) use ws::{Told, read_ws};
pub use ws::{ws_deflate, ws_frames, ws_text};

use http::{Method, StatusCode};

use crate::Error;
use crate::date;
use crate::h1::{
    BodyDecoder, BodyEvent, BodyLength, Exchange, FIELDS_CEILING, FieldSlot, Framing, HeadSearch, Limits, Next,
    Persistence, RequestHead, RequestView, ResponseHead, TargetForm, WHOLE_HEAD_FIELDS_MAX, chunk_header, parse_head,
    parse_whole_head, trailers,
};

/// Any bytes as a request head.
pub fn head(data: &[u8]) {
    let limits = small_limits();
    let whole = search(data, &limits, &[]);
    let single: Vec<usize> = (0..data.len()).collect();
    assert_eq!(whole, search(data, &limits, &single), "one byte at a time");
    let cut =
        data.iter().fold(0, |sum: usize, &byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % (data.len() + 1);
    assert_eq!(whole, search(data, &limits, &[cut]), "in two parts, cut at {cut}");
    let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
    // Must not panic for bytes that were not searched, nor accept what the search refuses.
    if let Ok(request) = parse_head(data, &mut slots, &limits) {
        assert_eq!(whole, Ok(Some(0..data.len())));
        accepted(data, &slots, &request);
    }
    let mut taken = None;
    if let Ok(Some(range)) = whole
        && let Ok(request) = parse_head(&data[range.clone()], &mut slots, &limits)
    {
        accepted(&data[range.clone()], &slots, &request);
        let is_usual = range.start == 0 && usize::from(request.fields) <= WHOLE_HEAD_FIELDS_MAX;
        taken = is_usual.then_some((range.end, request));
    }
    let found = parse_whole_head(data, &mut slots, &limits);
    assert_eq!(found, taken, "with and without a search");
    if let Some((len, request)) = found {
        accepted(&data[..len], &slots, &request);
    }
}

/// Any bytes as a chunked body.
pub fn chunked(data: &[u8]) {
    let limits = small_limits();
    let whole = read_body(Framing::Chunked, data, &limits, &[]);
    let single: Vec<usize> = (0..data.len()).collect();
    assert_eq!(whole, read_body(Framing::Chunked, data, &limits, &single), "one byte at a time");
    assert!(whole.data.len() + whole.trailers.len() <= data.len());
    assert!(whole.consumed <= data.len());
    if whole.end != Ok(BodyEnd::Complete) {
        return;
    }
    for (name, value) in trailers(&whole.trailers) {
        assert!(!name.is_empty() && name.is_ascii() && !value.contains(&b'\n'), "{name:?} {value:?}");
    }
    let encoded = encode_chunked(&whole.data, &whole.trailers);
    let again = read_body(Framing::Chunked, &encoded, &limits, &[]);
    assert_eq!((&again.data, &again.trailers, again.end), (&whole.data, &whole.trailers, whole.end));
    assert_eq!(again.consumed, encoded.len());
}

/// Any bytes as all that a client sends on one connection.
pub fn connection(data: &[u8]) {
    let whole = serve(data, &[]);
    let single: Vec<usize> = (0..data.len()).collect();
    assert_eq!(whole, serve(data, &single), "one byte at a time");
}

/// Any bytes as header blocks, one after the other: the first byte of each says how long it is.
pub fn hpack(data: &[u8]) {
    use crate::h1::FieldSlot;
    use crate::hpack::{Decoder, Encoder, FieldBuf, Indexing, TABLE_BYTES};
    let (mut decoder, mut table) = (Decoder::new(TABLE_BYTES as u16), [0; TABLE_BYTES]);
    let (mut encoder, mut encoder_table) = (Encoder::new(TABLE_BYTES as u16), [0; TABLE_BYTES]);
    let (mut second, mut second_table) = (decoder, table);
    let (mut bytes, mut slots) = ([0; TABLE_BYTES], [FieldSlot::EMPTY; 24]);
    let (mut second_bytes, mut second_slots) = (bytes, slots);
    let mut rest = data;
    while let [len, after @ ..] = rest {
        let (block, after) = after.split_at(usize::from(*len).min(after.len()));
        rest = after;
        let mut fields = FieldBuf::new(&mut bytes, &mut slots, 2_048);
        if decoder.decode(&mut table, block, &mut fields).is_err() {
            return;
        }
        assert!(decoder.table_bytes() <= TABLE_BYTES);
        let sum: usize = fields.fields().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert!(sum <= 2_048 && fields.slots().len() <= 24);
        // What was read, written again, is read as the same.
        let mut written = Vec::new();
        assert_eq!(encoder.begin(&mut encoder_table, &mut written), Ok(()));
        for (name, value) in fields.fields() {
            let indexing = if name.len() % 2 == 0 { Indexing::Incremental } else { Indexing::Without };
            let name = name.to_ascii_lowercase();
            assert_eq!(encoder.field(&mut encoder_table, &name, value, indexing, &mut written), Ok(()));
        }
        let mut again = FieldBuf::new(&mut second_bytes, &mut second_slots, 2_048);
        assert_eq!(second.decode(&mut second_table, &written, &mut again), Ok(()));
        assert_eq!(second.table_bytes(), encoder.table_bytes());
        assert!(again.fields().map(|(_, value)| value).eq(fields.fields().map(|(_, value)| value)));
    }
}

/// Any bytes as a query string.
pub fn query(data: &[u8]) {
    use crate::query::{decode, integer, pairs, value};
    let mut total = 0;
    for (key, raw) in pairs(data) {
        assert!(!key.contains(&b'&') && !key.contains(&b'=') && !raw.contains(&b'&'));
        assert!(decode(raw).count() <= raw.len());
        total += key.len() + raw.len();
        if let Ok(name) = String::from_utf8(decode(key).collect()) {
            assert!(value(data, &name).is_some());
        }
        let text: Vec<u8> = decode(raw).collect();
        let plain = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
        // Longer ones are only different in leading zeros.
        if text.len() <= 22 {
            assert_eq!(integer::<i64>(raw), plain);
        }
    }
    assert!(total <= data.len());
}

/// Limits low enough for a fuzzer to reach.
pub fn small_limits() -> Limits {
    let builder = Limits::builder()
        .head_bytes_max(512)
        .request_line_bytes_max(128)
        .fields_max(12)
        .trailer_bytes_max(96)
        .chunk_extension_bytes_max(64)
        .chunk_overhead_free_bytes_max(256)
        .chunk_overhead_ratio_max(4);
    builder.validate().unwrap_or_default()
}

/// Searches prefixes that grow from cut to cut, then all of `data`.
pub fn search(data: &[u8], limits: &Limits, cuts: &[usize]) -> Result<Option<std::ops::Range<usize>>, Error> {
    let mut search = HeadSearch::default();
    for &cut in cuts.iter().chain([&data.len()]) {
        if let Some(range) = search.search(&data[..cut], limits)? {
            return Ok(Some(range));
        }
    }
    Ok(None)
}

/// What a body decoder made of some input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyRead {
    /// Data of all events in order.
    pub data: Vec<u8>,
    /// The trailer section.
    pub trailers: Vec<u8>,
    /// Bytes of the input that were consumed; the end of the input after an error.
    pub consumed: usize,
    /// How it ended.
    pub end: Result<BodyEnd, Error>,
}

/// How a body ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// With its last byte.
    Complete,
    /// With the input.
    NeedMore,
}

/// Decodes prefixes that grow from cut to cut, then all of `data`.
pub fn read_body(framing: Framing, data: &[u8], limits: &Limits, cuts: &[usize]) -> BodyRead {
    let mut body = BodyDecoder::new(framing, limits);
    let mut read = BodyRead { data: Vec::new(), trailers: Vec::new(), consumed: 0, end: Ok(BodyEnd::NeedMore) };
    for &cut in cuts.iter().chain([&data.len()]) {
        loop {
            let input = &data[read.consumed..cut];
            let decoded = match body.decode(input) {
                Ok(decoded) => decoded,
                Err(error) => {
                    assert_eq!(body.decode(input), Err(error), "an error is for ever");
                    return BodyRead { consumed: data.len(), end: Err(error), ..read };
                }
            };
            read.consumed += decoded.consumed;
            match decoded.event {
                BodyEvent::Data(range) => {
                    assert!(!range.is_empty() && range.end <= decoded.consumed);
                    read.data.extend_from_slice(&input[range]);
                }
                BodyEvent::Trailers(range) => {
                    assert!(read.trailers.is_empty() && range.end <= decoded.consumed);
                    read.trailers.extend_from_slice(&input[range]);
                }
                BodyEvent::End => {
                    assert!(body.is_done() && body.finish().is_ok() && body.remaining() == Some(0));
                    return BodyRead { end: Ok(BodyEnd::Complete), ..read };
                }
                BodyEvent::NeedMore => break,
            }
        }
        assert!(!body.is_done() && body.finish().is_err());
    }
    read
}

/// Encodes data as two chunks (if it has two bytes) with trailers.
pub fn encode_chunked(data: &[u8], trailers: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let (first, second) = data.split_at(data.len() / 2);
    for part in [first, second].into_iter().filter(|part| !part.is_empty()) {
        out.extend_from_slice(chunk_header(part.len() as u64).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(crate::h1::CHUNK_END);
    }
    // As they were sent: a client's trailers may be ones that an answer may not have.
    for part in [b"0\r\n", trailers, b"\r\n"] {
        out.extend_from_slice(part);
    }
    out
}

/// What must hold for every head that is accepted.
fn accepted(head: &[u8], slots: &[FieldSlot], request: &RequestHead) {
    let view = RequestView::new(head, slots, request);
    let fields: Vec<(&str, &[u8])> = view.fields().collect();
    assert_eq!(fields, naive_fields(head));
    let mut headers = [httparse::EMPTY_HEADER; FIELDS_CEILING];
    let mut other = httparse::Request::new(&mut headers);
    assert_eq!(other.parse(head), Ok(httparse::Status::Complete(head.len())));
    assert_eq!((other.method, other.path), (Some(view.method().as_str()), Some(view.target())));
    assert!(other.headers.iter().map(|header| (header.name, header.value)).eq(fields.iter().copied()));
    for (name, value) in &fields {
        assert!(http::HeaderName::from_bytes(name.as_bytes()).is_ok(), "{name}");
        assert!(http::HeaderValue::from_bytes(value).is_ok(), "{value:?}");
        assert!(view.field(name).is_some());
        if let Some(seconds) = date::parse(value) {
            assert_eq!(date::parse(&date::format(seconds)), Some(seconds), "{value:?}");
        }
    }
    if request.form != TargetForm::Asterisk {
        assert!(view.target().parse::<http::Uri>().is_ok(), "{}", view.target());
    }
    if let Some(host) = view.host() {
        assert!(host.parse::<http::uri::Authority>().is_ok(), "{host}");
    }
    let copies: Vec<[u8; 8]> = slots.iter().map(|slot| slot.to_bytes()).collect();
    assert!(RequestView::new(head, &copies[..], request).fields().eq(view.fields()));
}

/// The fields of a head as anybody would read them.
fn naive_fields(head: &[u8]) -> Vec<(&str, &[u8])> {
    let text = head.strip_suffix(b"\r\n\r\n").unwrap_or(head);
    let lines = text.split(|&byte| byte == b'\n').skip(1).map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let pairs = lines.map(|line| {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let value = crate::h1::syntax::trim(&line[colon + 1..]);
        (std::str::from_utf8(&line[..colon]).unwrap_or_default(), value)
    });
    pairs.collect()
}

/// One thing that a connection did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Took a request: method and target.
    Request(String, String),
    /// Took all of its body.
    Body(Vec<u8>),
    /// Answered with this status and persistence.
    Answer(u16, Persistence),
    /// Stopped, with so many bytes left.
    Stop(Next, usize),
}

/// Answers everything that a client sends with its own body, or with an error, as a server would.
pub fn serve(data: &[u8], cuts: &[usize]) -> Vec<Step> {
    let limits = small_limits();
    let (mut steps, mut exchange, mut at) = (Vec::new(), Exchange::new(), 0);
    let (mut search, mut body) = (HeadSearch::default(), BodyDecoder::new(Framing::None, &limits));
    let (mut method, mut version, mut content) = (Method::GET, http::Version::HTTP_11, Vec::new());
    for (cut, is_last) in cuts.iter().map(|&cut| (cut, false)).chain([(data.len(), true)]) {
        loop {
            let input = &data[at..cut];
            match exchange.next() {
                Next::ReadHead => match read_head(&mut search, input, &limits) {
                    Ok(Some((used, request, target))) => {
                        steps.push(Step::Request(request.method.to_string(), target));
                        done(exchange.head_received(&request));
                        (at, search) = (at + used, HeadSearch::default());
                        body = BodyDecoder::new(request.framing, &limits);
                        content.clear();
                        (method, version) = (request.method, request.version);
                    }
                    Ok(None) if is_last => exchange.peer_closed(),
                    Ok(None) => break,
                    Err(_) => done(exchange.request_failed()),
                },
                Next::ReadBody => match body.decode(input) {
                    Ok(decoded) => {
                        at += decoded.consumed;
                        match decoded.event {
                            BodyEvent::Data(range) => content.extend_from_slice(&input[range]),
                            BodyEvent::Trailers(_) => {}
                            BodyEvent::End => {
                                steps.push(Step::Body(content.clone()));
                                done(exchange.body_received());
                            }
                            BodyEvent::NeedMore if is_last => exchange.peer_closed(),
                            BodyEvent::NeedMore if exchange.may_continue() => done(exchange.continue_sent()),
                            BodyEvent::NeedMore => break,
                        }
                    }
                    Err(_) => done(exchange.request_failed()),
                },
                Next::Answer | Next::AnswerError => {
                    let status = if exchange.next() == Next::Answer { StatusCode::OK } else { StatusCode::BAD_REQUEST };
                    steps.push(Step::Answer(status.as_u16(), exchange.persistence()));
                    answer(&mut exchange, &method, version, status, content.len() as u64);
                }
                Next::Reset => done(exchange.reset()),
                next @ (Next::Drain | Next::Close { .. } | Next::Upgraded) => {
                    // How much of what follows a fatal error was received depends on the split.
                    let left = if next == Next::Upgraded { data.len() - at } else { 0 };
                    steps.push(Step::Stop(next, left));
                    return steps;
                }
            }
            assert!(steps.len() <= 3 * data.len() + 3, "progress");
        }
    }
    unreachable!("the end of the input closes the connection")
}

fn read_head(
    search: &mut HeadSearch,
    input: &[u8],
    limits: &Limits,
) -> Result<Option<(usize, RequestHead, String)>, Error> {
    let Some(range) = search.search(input, limits)? else {
        return Ok(None);
    };
    let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
    let request = parse_head(&input[range.clone()], &mut slots, limits)?;
    let target = RequestView::new(&input[range.clone()], &slots[..], &request).target().to_owned();
    Ok(Some((range.end, request, target)))
}

fn answer(exchange: &mut Exchange, method: &Method, version: http::Version, status: StatusCode, body: u64) {
    let length = if *method == Method::CONNECT { BodyLength::Empty } else { BodyLength::Known(body) };
    let head = ResponseHead::new(method, version, status, length).map(|head| head.persistence(exchange.persistence()));
    match head {
        Ok(head) => {
            done(exchange.head_sent(&head));
            if exchange.response() == crate::h1::ResponseState::Body {
                done(exchange.body_sent());
            }
        }
        Err(error) => panic!("{error}"),
    }
}

fn done(step: Result<(), Error>) {
    assert_eq!(step, Ok(()), "the state machine allows what it asked for");
}
