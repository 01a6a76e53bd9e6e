//! The cases on the codec alone: whole, in every two parts, byte by byte, and in parts that proptest chooses.

use http::{Method, StatusCode, Version};
use plimsoll_codec::Error;
use plimsoll_codec::h1::{
    BodyDecoder, BodyEvent, BodyLength, Exchange, FIELDS_CEILING, FieldSlot, Framing, HeadSearch, Limits, Next,
    RequestState, RequestView, ResponseHead, ResponseState, parse_head, trailers,
};
use plimsoll_conformance::answers::{Answered, outcome};
use plimsoll_conformance::h1::{DRAIN_BYTES_MAX, Framed, cases};
use proptest::prelude::*;

use super::handler::{self, Plan};

/// What the codec made of a stream: the answers, and the first error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    answers: Vec<Answered>,
    pub(crate) error: Option<Error>,
}

/// A connection as a server would drive it.
struct Connection<'a> {
    input: &'a [u8],
    at: usize,
    exchange: Exchange,
    search: HeadSearch,
    body: BodyDecoder,
    request: Option<Request>,
    content: Vec<u8>,
    /// What a handler would say of the trailers.
    trailers: String,
    dropped: usize,
    /// Closed while a body was dropped.
    given_up: bool,
    run: Run,
}

struct Request {
    plan: Plan,
    seen: String,
    method: Method,
    version: Version,
}

/// Feeds prefixes that grow from cut to cut, then everything, then the end of the stream.
pub(crate) fn run(input: &[u8], cuts: &[usize]) -> Run {
    let mut connection = Connection {
        input,
        at: 0,
        exchange: Exchange::new(),
        search: HeadSearch::default(),
        body: BodyDecoder::new(Framing::None, &Limits::DEFAULT),
        request: None,
        content: Vec::new(),
        trailers: String::new(),
        dropped: 0,
        given_up: false,
        run: Run { answers: Vec::new(), error: None },
    };
    for &cut in cuts {
        if !connection.feed(cut, false) {
            return connection.run;
        }
    }
    assert!(!connection.feed(input.len(), true), "a stream that ends closes the connection");
    connection.run
}

impl Run {
    pub(crate) fn answers(&self) -> &[Answered] {
        &self.answers
    }
}

impl Connection<'_> {
    /// Goes on with what came up to `end`; false when the connection is closed.
    fn feed(&mut self, end: usize, is_last: bool) -> bool {
        loop {
            let goes_on = match self.exchange.next() {
                Next::ReadHead => self.head(end, is_last),
                Next::ReadBody if matches!(self.plan(), Some(Plan::Early | Plan::Tunnel)) => {
                    self.answer();
                    true
                }
                Next::ReadBody | Next::Drain => self.body(end, is_last),
                Next::Answer => {
                    self.answer();
                    true
                }
                Next::AnswerError => {
                    self.answer_error(Error::Truncated);
                    true
                }
                Next::Reset => {
                    done(self.exchange.reset());
                    (self.request, self.search) = (None, HeadSearch::default());
                    true
                }
                Next::Close { .. } => return false,
                Next::Upgraded => {
                    // All that comes is given back, also what is cut off here.
                    let last = self.run.answers.last_mut().expect("it was answered");
                    last.rest = Some(self.input[self.at..].to_vec());
                    return false;
                }
            };
            if !goes_on {
                return !is_last && !self.given_up;
            }
        }
    }

    fn plan(&self) -> Option<Plan> {
        self.request.as_ref().map(|request| request.plan)
    }

    fn head(&mut self, end: usize, is_last: bool) -> bool {
        let input = &self.input[self.at..end];
        let found = match self.search.search(input, &Limits::DEFAULT) {
            Ok(Some(found)) => found,
            Ok(None) => {
                if self.search.started() && self.exchange.is_idle() {
                    done(self.exchange.head_started());
                }
                return is_last && {
                    self.exchange.peer_closed();
                    true
                };
            }
            Err(error) => return self.fail(error),
        };
        let mut slots = [FieldSlot::EMPTY; FIELDS_CEILING];
        let head = &input[found.clone()];
        let parsed = match parse_head(head, &mut slots, &Limits::DEFAULT) {
            Ok(parsed) => parsed,
            Err(error) => return self.fail(error),
        };
        let view = RequestView::new(head, &slots[..], &parsed);
        done(self.exchange.head_received(&parsed));
        self.request = Some(Request {
            plan: Plan::of(&view),
            seen: handler::describe(&view),
            method: parsed.method.clone(),
            version: parsed.version,
        });
        self.body = BodyDecoder::new(parsed.framing, &Limits::DEFAULT);
        (self.content, self.trailers, self.dropped) = (Vec::new(), String::new(), 0);
        self.at += found.end;
        true
    }

    fn body(&mut self, end: usize, is_last: bool) -> bool {
        let input = &self.input[self.at..end];
        if !input.is_empty() {
            self.exchange.body_started();
        }
        let decoded = match self.body.decode(input) {
            Ok(decoded) => decoded,
            Err(error) => return self.fail(error),
        };
        self.at += decoded.consumed;
        match decoded.event {
            BodyEvent::Data(range) if self.exchange.next() == Next::Drain => {
                self.dropped += range.len();
                self.given_up = self.dropped > DRAIN_BYTES_MAX;
                !self.given_up
            }
            BodyEvent::Data(range) => {
                self.content.extend_from_slice(&input[range]);
                true
            }
            BodyEvent::Trailers(range) => {
                self.trailers = handler::describe_trailers(trailers(&input[range]));
                true
            }
            BodyEvent::End => {
                done(self.exchange.body_received());
                true
            }
            BodyEvent::NeedMore => {
                if self.exchange.may_continue() {
                    done(self.exchange.continue_sent());
                    self.note(100, None, false);
                }
                is_last && {
                    self.exchange.peer_closed();
                    true
                }
            }
        }
    }

    /// A decoder refused something: answered if nothing was.
    fn fail(&mut self, error: Error) -> bool {
        done(self.exchange.request_failed());
        match self.exchange.next() {
            Next::AnswerError => self.answer_error(error),
            _ => self.run.error = Some(error),
        }
        true
    }

    fn answer_error(&mut self, error: Error) {
        self.run.error = Some(error);
        self.send(error.status(), None, BodyLength::Empty);
    }

    fn answer(&mut self) {
        let Some(Request { plan, seen, .. }) = &self.request else { panic!("a request is answered") };
        let seen = plan.describes().then(|| seen.clone() + &handler::describe_body(&self.content) + &self.trailers);
        let (plan, is_10) = (*plan, self.request.as_ref().is_some_and(|request| request.version < Version::HTTP_11));
        if plan == Plan::Hints && !is_10 {
            for interim in handler::INTERIMS {
                let head = ResponseHead::interim(StatusCode::from_u16(interim).expect("a status"));
                done(self.exchange.interim_sent(&head.expect("an interim status")));
                self.note(interim, None, false);
            }
        }
        let status = StatusCode::from_u16(plan.status()).expect("a status");
        let length = if plan.describes() { BodyLength::Known(5) } else { BodyLength::Empty };
        self.send(status, seen, length);
    }

    fn send(&mut self, status: StatusCode, seen: Option<String>, length: BodyLength) {
        let (method, version) = match &self.request {
            Some(request) => (request.method.clone(), request.version),
            None => (Method::GET, Version::HTTP_11),
        };
        if self.exchange.request() == RequestState::Body && self.body.contiguous() > DRAIN_BYTES_MAX as u64 {
            self.exchange.close_after();
        }
        let head = ResponseHead::new(&method, version, status, length).expect("a right answer");
        let head = head.persistence(self.exchange.persistence());
        done(self.exchange.head_sent(&head));
        if self.exchange.response() == ResponseState::Body {
            done(self.exchange.body_sent());
        }
        self.note(status.as_u16(), seen, head.closes());
    }

    fn note(&mut self, status: u16, seen: Option<String>, says_close: bool) {
        self.run.answers.push(Answered { status, seen, says_close, has_date: false, has_framing: true, rest: None });
    }
}

fn done(step: Result<(), Error>) {
    assert_eq!(step, Ok(()), "the state machine allows what it asked for");
}

/// Without interim answers, of which there may be more when a body comes late.
fn settled(mut run: Run) -> Run {
    run.answers.retain(|answer| !answer.is_interim());
    run
}

/// Only the last answer says that the connection is closed, if it is.
pub(crate) fn check_close(framed: &Framed, answers: &[Answered]) -> Result<(), String> {
    let finals: Vec<&Answered> = answers.iter().filter(|answer| !answer.is_interim()).collect();
    for (at, answer) in finals.iter().enumerate() {
        let is_last = at + 1 == finals.len();
        // Closed for what came after the answer, which could not know it. How long a body will be is known where it has
        // a length.
        let is_in_chunks = framed.input.windows(7).any(|word| word == b"chunked");
        let is_late = framed.input.starts_with(b"POST /early") && is_in_chunks
            || framed.case.then == plimsoll_conformance::h1::Then::HalfClose;
        if answer.says_close != is_last && !(is_last && is_late) {
            return Err(format!(
                "{}: answer {at} of {}: close is {}",
                framed.case.rule,
                finals.len(),
                answer.says_close
            ));
        }
    }
    Ok(())
}

#[test]
fn every_case_comes_out_as_it_should() {
    let mut failures = Vec::new();
    for framed in cases() {
        let run = run(&framed.bytes(), &[]);
        let got = outcome(&framed, &run.answers);
        if got != framed.expected() {
            failures.push(format!("{}: {got} and not {} ({:?})", framed.case.rule, framed.expected(), run.error));
        }
        failures.extend(check_close(&framed, &run.answers).err());
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn every_case_is_the_same_in_every_two_parts_and_byte_by_byte() {
    for framed in cases() {
        let bytes = framed.bytes();
        let whole = settled(run(&bytes, &[]));
        // Long inputs are cut everywhere near their ends and at a prime distance between.
        let edges = |at: &usize| *at < 200 || bytes.len() - at < 200 || at.is_multiple_of(1_009);
        for cut in (0..=bytes.len()).filter(edges) {
            assert_eq!(settled(run(&bytes, &[cut])), whole, "{}, cut at {cut}", framed.case.rule);
        }
        let single: Vec<usize> = (0..bytes.len()).collect();
        assert_eq!(settled(run(&bytes, &single)), whole, "{}, byte by byte", framed.case.rule);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn any_case_is_the_same_in_any_parts(
        at in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let cases = cases();
        let framed = at.get(&cases);
        let bytes = framed.bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        prop_assert_eq!(settled(run(&bytes, &cuts)), settled(run(&bytes, &[])), "{}, cut at {:?}", framed.case.rule, cuts);
    }
}
