//! A connection under any schedule: bytes that come in any portions, a handler that answers whenever and whatever it
//! likes.
//!
//! The properties:
//!
//! * an operation that is not allowed is refused and changes nothing;
//! * the requests are the first of those that a plain reader finds in the stream, with the same bodies, whatever is
//!   answered when;
//! * a final answer is sent at most once for each request, and once more for one that failed;
//! * what is encoded is an answer that httparse reads, with a length or chunks only where a body may be;
//! * a connection that said `close`, that failed or that was given away reads no further request.

use http::{Method, StatusCode, Version};

use super::{read_head, small_limits};
use crate::Error;
use crate::h1::{
    BodyDecoder, BodyEvent, BodyLength, BodyOut, Exchange, Framing, HeadSearch, Next, Persistence, RequestState,
    ResponseHead, ResponseState,
};

/// What happens next on the connection; one byte of the input each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// So many more bytes come.
    Receive(usize),
    /// The handler wants the body: `100 (Continue)` goes out if the client waits for it.
    Continue,
    /// The handler answers.
    Answer(u16, BodyLength),
    /// It has sent the last byte of its body.
    BodySent,
    /// The server stops.
    CloseAfter,
    /// The client closes its half.
    PeerCloses,
}

impl Operation {
    fn of(byte: u8) -> Operation {
        const STATUSES: [u16; 8] = [101, 200, 200, 204, 205, 304, 404, 500];
        match byte {
            0..=95 => Operation::Receive(1 << (byte % 8)),
            96..=111 => Operation::Continue,
            112..=191 => {
                let length = match byte % 3 {
                    0 => BodyLength::Empty,
                    1 => BodyLength::Known(u64::from(byte)),
                    _ => BodyLength::Unknown,
                };
                Operation::Answer(STATUSES[usize::from(byte) / 3 % 8], length)
            }
            192..=239 => Operation::BodySent,
            240..=247 => Operation::CloseAfter,
            248..=255 => Operation::PeerCloses,
        }
    }
}

/// A request as a reader finds it; the body as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    method: Method,
    target: String,
    body: Vec<u8>,
}

/// The first byte says how many operations follow; the rest is the stream.
pub fn operations(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let (schedule, stream) = rest.split_at(rest.len().min(usize::from(count)));
    let mut peer = Peer::new(stream);
    for &byte in schedule {
        peer.operate(Operation::of(byte));
        peer.read();
    }
    let plain = plain(stream);
    for (at, (found, expected)) in peer.found.iter().zip(&plain).enumerate() {
        assert_eq!((&found.method, &found.target), (&expected.method, &expected.target), "request {at}");
        assert!(expected.body.starts_with(&found.body), "the body of request {at}");
    }
    assert!(peer.found.len() <= plain.len(), "more requests than there are");
    assert!(peer.answers <= peer.found.len() + 1, "{} answers to {} requests", peer.answers, peer.found.len());
}

/// One side of a connection: what came, what was read of it, what was answered.
struct Peer<'a> {
    stream: &'a [u8],
    /// Bytes that came.
    end: usize,
    /// Bytes that were used.
    at: usize,
    exchange: Exchange,
    search: HeadSearch,
    body: BodyDecoder,
    version: Version,
    found: Vec<Found>,
    answers: usize,
    /// The last final head said that the connection is closed.
    said_close: bool,
}

impl<'a> Peer<'a> {
    fn new(stream: &'a [u8]) -> Self {
        Peer {
            stream,
            end: 0,
            at: 0,
            exchange: Exchange::new(),
            search: HeadSearch::default(),
            body: BodyDecoder::new(Framing::None, &small_limits()),
            version: Version::HTTP_11,
            found: Vec::new(),
            answers: 0,
            said_close: false,
        }
    }

    fn operate(&mut self, operation: Operation) {
        let before = self.exchange;
        let result = match operation {
            Operation::Receive(bytes) => {
                self.end = self.stream.len().min(self.end + bytes);
                return;
            }
            Operation::PeerCloses => {
                self.stream = &self.stream[..self.end];
                // Reported when everything that came was read.
                if matches!(self.exchange.next(), Next::ReadHead | Next::ReadBody) {
                    self.exchange.peer_closed();
                }
                return;
            }
            Operation::CloseAfter => {
                self.exchange.close_after();
                assert_eq!(self.exchange.persistence(), Persistence::Close);
                return;
            }
            Operation::Continue => {
                let may = self.exchange.may_continue();
                let sent = self.exchange.continue_sent();
                assert_eq!(sent.is_ok(), may);
                sent
            }
            Operation::BodySent => {
                let due = self.exchange.response() == ResponseState::Body;
                let sent = self.exchange.body_sent();
                assert_eq!(sent.is_ok(), due);
                sent
            }
            Operation::Answer(status, length) => self.answer(status, length),
        };
        if result.is_err() {
            assert_eq!(self.exchange, before, "refused without a change: {operation:?}");
        }
    }

    fn answer(&mut self, status: u16, length: BodyLength) -> Result<(), Error> {
        let status = StatusCode::from_u16(status).map_err(|_| Error::StateMisuse)?;
        let method = self.found.last().map_or(Method::GET, |found| found.method.clone());
        let head = ResponseHead::new(&method, self.version, status, length)?;
        let head = head.persistence(self.exchange.persistence());
        self.exchange.head_sent(&head)?;
        check_encoded(&head, &method);
        self.answers += 1;
        self.said_close = head.closes();
        Ok(())
    }

    /// Reads on as far as the exchange allows it.
    fn read(&mut self) {
        let limits = small_limits();
        loop {
            let input = &self.stream[self.at..self.end];
            match self.exchange.next() {
                Next::ReadHead => {
                    assert!(!self.said_close, "the connection was said to be closed");
                    match read_head(&mut self.search, input, &limits) {
                        Ok(Some((used, request, target))) => {
                            assert_eq!(self.exchange.head_received(&request), Ok(()));
                            self.at += used;
                            self.body = BodyDecoder::new(request.framing, &limits);
                            self.version = request.version;
                            self.found.push(Found { method: request.method, target, body: Vec::new() });
                        }
                        Ok(None) => return,
                        Err(_) => return self.fail(),
                    }
                }
                Next::ReadBody | Next::Drain => {
                    if !input.is_empty() {
                        self.exchange.body_started();
                    }
                    match self.body.decode(input) {
                        Ok(decoded) => {
                            self.at += decoded.consumed;
                            match decoded.event {
                                BodyEvent::Data(range) => {
                                    if let Some(found) = self.found.last_mut() {
                                        found.body.extend_from_slice(&input[range]);
                                    }
                                }
                                BodyEvent::Trailers(_) => {}
                                BodyEvent::End => assert_eq!(self.exchange.body_received(), Ok(())),
                                BodyEvent::NeedMore => return,
                            }
                        }
                        Err(_) => return self.fail(),
                    }
                }
                Next::Reset => {
                    assert!(!self.said_close, "the connection was said to be closed");
                    assert_eq!(self.exchange.reset(), Ok(()));
                    self.search = HeadSearch::default();
                }
                Next::Answer | Next::AnswerError | Next::Close { .. } | Next::Upgraded => return,
            }
        }
    }

    fn fail(&mut self) {
        assert_eq!(self.exchange.request_failed(), Ok(()));
        assert_eq!((self.exchange.request(), self.exchange.persistence()), (RequestState::Error, Persistence::Close));
    }
}

/// An encoded head is read back with the framing that the head claims.
fn check_encoded(head: &ResponseHead<'_>, method: &Method) {
    let mut bytes = Vec::new();
    assert_eq!(head.encode(&mut bytes), Ok(()));
    let mut headers = [httparse::EMPTY_HEADER; 8];
    let mut response = httparse::Response::new(&mut headers);
    assert_eq!(response.parse(&bytes), Ok(httparse::Status::Complete(bytes.len())));
    let has = |name: &str| response.headers.iter().any(|header| header.name.eq_ignore_ascii_case(name));
    let status = head.status();
    let is_tunnel = *method == Method::CONNECT && status.is_success();
    if status.is_informational() || status == StatusCode::NO_CONTENT || is_tunnel {
        assert!(!has("content-length") && !has("transfer-encoding"), "{status} has no body");
    }
    match head.body() {
        BodyOut::None => {}
        _ if *method == Method::HEAD || status == StatusCode::NOT_MODIFIED => panic!("{method} {status} has a body"),
        BodyOut::Length(_) => assert!(has("content-length") && !has("transfer-encoding")),
        BodyOut::Chunked => assert!(has("transfer-encoding") && !has("content-length")),
        BodyOut::UntilClose => assert!(head.closes() && !has("content-length") && !has("transfer-encoding")),
    }
}

/// The requests of a stream, one after the other, without a thought of answers.
fn plain(stream: &[u8]) -> Vec<Found> {
    let limits = small_limits();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(Some((used, request, target))) = read_head(&mut HeadSearch::default(), &stream[at..], &limits) {
        at += used;
        let read = super::read_body(request.framing, &stream[at..], &limits, &[]);
        found.push(Found { method: request.method, target, body: read.data });
        if read.end != Ok(super::BodyEnd::Complete) {
            break;
        }
        at += read.consumed;
    }
    found
}
