//! The life of one request and its response on a connection: what may happen next, and whether the connection lives on.
//!
//! Two machines, one for each side, and one table of transitions. Nothing else decides about keep-alive, `100
//! (Continue)`, draining, closing and changing protocols.
//!
//! ```text
//! request side                                      response side
//!
//!   Idle --HeadStarted--> Head                        Idle --HeadReceived, RequestFailed--> Head
//!   Idle, Head --HeadReceived--> Body | Done          Head --ContinueSent--> SentContinue
//!   Body --BodyReceived--> Done                       Head, SentContinue --HeadSent--> Body | Done
//!   Idle, Done --PeerClosed--> MustClose              Head, SentContinue --Upgraded--> Upgraded
//!   Head, Body --PeerClosed--> Error                  Body --BodySent--> Done
//!   Idle, Head, Body --RequestFailed--> Error         Done --Reset--> Idle
//!   Done --Reset--> Idle                              Head, SentContinue --InterimSent--> the same
//! ```
//!
//! Body or Done, after the arrow, is Done if there is no body. `Reset` needs both sides to be Done and the connection
//! to persist.

use http::{Method, StatusCode};

use super::{BodyOut, Persistence, RequestHead, ResponseHead};
use crate::Error;

/// What the client has sent of its request.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestState {
    /// Nothing.
    Idle,
    /// A part of the head.
    Head,
    /// The head, and not all of the body.
    Body,
    /// All of it.
    Done,
    /// All of it or nothing; and it will send nothing more.
    MustClose,
    /// Something that cannot be trusted, or it stopped within the request. Nothing more is read.
    Error,
}

/// What we have sent of the response.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum ResponseState {
    /// Nothing, and there is nothing to answer.
    Idle,
    /// Nothing, and the head of an answer is due.
    Head,
    /// `100 (Continue)`; the head of the answer is due.
    SentContinue,
    /// The head, and not all of the body.
    Body,
    /// All of it.
    Done,
    /// `101 (Switching Protocols)`, or 2xx to CONNECT: the connection belongs to another protocol.
    Upgraded,
}

/// What happened on one of the two sides.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The first byte of a request line came.
    HeadStarted,
    /// A head was parsed; `has_body` if one follows.
    HeadReceived {
        /// Whether the framing is anything but no bytes.
        has_body: bool,
    },
    /// The last byte of the body came.
    BodyReceived,
    /// A decoder returned an error.
    RequestFailed,
    /// The client closed its side.
    PeerClosed,
    /// `100 (Continue)` was sent.
    ContinueSent,
    /// Another interim head was sent, such as `103 (Early Hints)`.
    InterimSent,
    /// A final head was sent; `has_body` if one follows.
    HeadSent {
        /// Whether the body is anything but no bytes.
        has_body: bool,
    },
    /// The last byte of the answer was sent.
    BodySent,
    /// A head was sent that gives the connection to another protocol.
    Upgraded,
    /// The exchange is over and the next begins.
    Reset,
}

/// What to do next, see [`Exchange::next`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Read on, until there is a head.
    ReadHead,
    /// The body may be read, and the handler may answer.
    ReadBody,
    /// Nothing more is read for this request; answer, or go on answering.
    Answer,
    /// Send an error answer with `Connection: close`.
    AnswerError,
    /// The answer is sent, but the body of the request still comes: read and drop it up to a limit, or close.
    Drain,
    /// Both sides are done: [`Exchange::reset`] and read the next head.
    Reset,
    /// Close. `linger`: the client may still be sending, so shut down our side first and read on for a while, or it
    /// will not see the answer.
    Close {
        /// Whether to read on before the connection is closed.
        linger: bool,
    },
    /// Bytes after the head belong to another protocol.
    Upgraded,
}

impl RequestState {
    /// The state after an event, or `None` if the event cannot happen in this state.
    #[must_use]
    pub const fn after(self, event: Event) -> Option<RequestState> {
        use RequestState as S;
        Some(match (self, event) {
            (S::Idle, Event::HeadStarted) => S::Head,
            (S::Idle | S::Head, Event::HeadReceived { has_body: true }) => S::Body,
            (S::Idle | S::Head, Event::HeadReceived { has_body: false }) => S::Done,
            (S::Body, Event::BodyReceived) => S::Done,
            (S::Idle | S::Done | S::MustClose, Event::PeerClosed) => S::MustClose,
            (S::Head | S::Body | S::Error, Event::PeerClosed) => S::Error,
            (S::Idle | S::Head | S::Body, Event::RequestFailed) => S::Error,
            (S::Done, Event::Reset) => S::Idle,
            (
                _,
                Event::ContinueSent | Event::InterimSent | Event::HeadSent { .. } | Event::BodySent | Event::Upgraded,
            ) => self,
            _ => return None,
        })
    }
}

impl ResponseState {
    /// The state after an event, or `None` if the event cannot happen in this state.
    #[must_use]
    pub const fn after(self, event: Event) -> Option<ResponseState> {
        use ResponseState as S;
        Some(match (self, event) {
            (S::Idle, Event::HeadReceived { .. } | Event::RequestFailed) => S::Head,
            (S::Head, Event::ContinueSent) => S::SentContinue,
            (S::Head | S::SentContinue, Event::InterimSent) => self,
            (S::Head | S::SentContinue, Event::HeadSent { has_body: true }) => S::Body,
            (S::Head | S::SentContinue, Event::HeadSent { has_body: false }) => S::Done,
            (S::Head | S::SentContinue, Event::Upgraded) => S::Upgraded,
            (S::Body, Event::BodySent) => S::Done,
            (S::Done, Event::Reset) => S::Idle,
            (_, Event::HeadStarted | Event::BodyReceived | Event::PeerClosed) => self,
            (S::Head | S::SentContinue | S::Body | S::Done, Event::RequestFailed) => self,
            _ => return None,
        })
    }
}

/// What the client waits for before it sends the body.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Expectation {
    Nothing,
    /// It asked to wait for `100 (Continue)`, and has sent no byte of the body.
    Waiting,
}

/// A way for the request to end HTTP on this connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Offer {
    Nothing,
    /// Upgrade; accepted with 101.
    Upgrade,
    /// CONNECT; accepted with 2xx.
    Tunnel,
}

/// Both sides of an exchange, and whether the connection lives on after it.
///
/// One value serves a connection: [`Exchange::reset`] takes it from one request to the next.
///
/// ```
/// use http::StatusCode;
/// use plimsoll_codec::h1::{self, *};
///
/// let limits = Limits::DEFAULT;
/// let mut input: &[u8] = b"PUT /mast HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\noak";
/// let mut exchange = Exchange::new();
/// assert_eq!(exchange.next(), Next::ReadHead);
///
/// let head = HeadSearch::default().search(input, &limits)?.expect("the head is complete");
/// let mut slots = [FieldSlot::EMPTY; 8];
/// let request = h1::parse_head(&input[head.clone()], &mut slots, &limits)?;
/// exchange.head_received(&request)?;
/// input = &input[head.end..];
///
/// assert_eq!(exchange.next(), Next::ReadBody);
/// assert!(exchange.may_continue());
/// // Here CONTINUE is sent.
/// exchange.continue_sent()?;
///
/// let mut body = BodyDecoder::new(request.framing, &limits);
/// let decoded = body.decode(input)?;
/// assert_eq!(decoded.event, BodyEvent::Data(0..3));
/// assert!(body.is_done());
/// exchange.body_received()?;
///
/// assert_eq!(exchange.next(), Next::Answer);
/// let answer = ResponseHead::new(&request.method, request.version, StatusCode::CREATED, BodyLength::Known(5))?
///     .persistence(exchange.persistence());
/// let mut out = Vec::new();
/// answer.encode(&mut out)?;
/// exchange.head_sent(&answer)?;
/// out.extend_from_slice(b"done\n");
/// exchange.body_sent()?;
///
/// assert_eq!(exchange.next(), Next::Reset);
/// exchange.reset()?;
/// assert!(exchange.is_idle());
/// # Ok::<(), plimsoll_codec::Error>(())
/// ```
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    request: RequestState,
    response: ResponseState,
    persistence: Persistence,
    expectation: Expectation,
    offer: Offer,
}

impl Default for Exchange {
    fn default() -> Self {
        Exchange::new()
    }
}

impl Exchange {
    /// Before the first byte of a request.
    #[must_use]
    pub const fn new() -> Exchange {
        Exchange {
            request: RequestState::Idle,
            response: ResponseState::Idle,
            persistence: Persistence::KeepAlive,
            expectation: Expectation::Nothing,
            offer: Offer::Nothing,
        }
    }

    /// The request side.
    #[must_use]
    pub const fn request(&self) -> RequestState {
        self.request
    }

    /// The response side.
    #[must_use]
    pub const fn response(&self) -> ResponseState {
        self.response
    }

    /// The first byte of a request line came. Optional: it makes [`Exchange::is_idle`] exact.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless the request side is Idle.
    pub fn head_started(&mut self) -> Result<(), Error> {
        self.step(Event::HeadStarted)
    }

    /// A head was parsed.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless the request side is Idle or Head.
    pub fn head_received(&mut self, head: &RequestHead) -> Result<(), Error> {
        self.step(Event::HeadReceived { has_body: head.framing.has_body() })?;
        if !head.keep_alive {
            self.persistence = Persistence::Close;
        }
        self.expectation = if head.expect_continue { Expectation::Waiting } else { Expectation::Nothing };
        // Bytes behind a CONNECT may be meant for the tunnel: where it is not granted, they must not be read as
        // requests.
        if head.method == Method::CONNECT {
            self.persistence = Persistence::Close;
        }
        self.offer = match head.upgrade {
            _ if head.method == Method::CONNECT => Offer::Tunnel,
            Some(_) => Offer::Upgrade,
            None => Offer::Nothing,
        };
        Ok(())
    }

    /// A byte of the body came, so the client does not wait for `100 (Continue)` (any more).
    pub fn body_started(&mut self) {
        debug_assert!(self.request == RequestState::Body, "no body is due");
        self.expectation = Expectation::Nothing;
    }

    /// The last byte of the body came.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless the request side is Body.
    pub fn body_received(&mut self) -> Result<(), Error> {
        self.step(Event::BodyReceived)?;
        self.expectation = Expectation::Nothing;
        Ok(())
    }

    /// A decoder returned an error: an error answer can be sent if none was begun; then the connection is closed.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] if the request is complete.
    pub fn request_failed(&mut self) -> Result<(), Error> {
        self.step(Event::RequestFailed)
    }

    /// The client closed its side, and everything it sent was decoded. A complete request is still answered.
    ///
    /// While requests that were pipelined wait in the buffer, this must wait too: it is about the request that comes
    /// last.
    pub fn peer_closed(&mut self) {
        let step = self.step(Event::PeerClosed);
        debug_assert!(step.is_ok(), "this can happen in every state");
    }

    /// Closes after this exchange: the server shuts down, or the connection is old enough.
    pub const fn close_after(&mut self) {
        self.persistence = Persistence::Close;
    }

    /// Whether `100 (Continue)` should be sent before the handler waits for the body.
    #[must_use]
    pub fn may_continue(&self) -> bool {
        self.expectation == Expectation::Waiting
            && self.request == RequestState::Body
            && self.response == ResponseState::Head
    }

    /// `100 (Continue)` was sent.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless [`Exchange::may_continue`].
    pub fn continue_sent(&mut self) -> Result<(), Error> {
        if !self.may_continue() {
            return Err(Error::StateMisuse);
        }
        self.expectation = Expectation::Nothing;
        self.step(Event::ContinueSent)
    }

    /// An interim head was sent: [`ResponseHead::interim`] or, as [`continue_sent`](Exchange::continue_sent) says it
    /// too, `100 (Continue)`. There may be any number of them before the final head (RFC 9110 15.2). Not to HTTP/1.0.
    ///
    /// # Errors
    ///
    /// [`Error::InterimStatusInvalid`] for another head, [`Error::StateMisuse`] if the final head was sent or there is
    /// nothing to answer. Nothing is changed then.
    pub fn interim_sent(&mut self, head: &ResponseHead<'_>) -> Result<(), Error> {
        let status = head.status();
        if !status.is_informational() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Error::InterimStatusInvalid);
        }
        if status == StatusCode::CONTINUE && self.may_continue() {
            return self.continue_sent();
        }
        self.step(Event::InterimSent)
    }

    /// What to tell the client about the connection in the head of the answer, as things stand.
    ///
    /// Close if either side wants it, if the request failed, or if the client still waits for `100 (Continue)`: then
    /// nobody can tell whether the body will come.
    #[must_use]
    pub fn persistence(&self) -> Persistence {
        match (self.request, self.expectation) {
            (RequestState::MustClose | RequestState::Error, _) | (_, Expectation::Waiting) => Persistence::Close,
            _ => self.persistence,
        }
    }

    /// A final head was sent, or one that changes the protocol. Other interim heads are [told](Exchange::interim_sent)
    /// apart.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] if no head is due, for an interim status other than 101, and for 101 unless the client
    /// asked for it and its request is complete.
    pub fn head_sent(&mut self, head: &ResponseHead<'_>) -> Result<(), Error> {
        let upgrades = match self.offer {
            Offer::Tunnel => head.status().is_success(),
            Offer::Nothing | Offer::Upgrade => head.status() == StatusCode::SWITCHING_PROTOCOLS,
        };
        if upgrades {
            if self.request != RequestState::Done || self.offer == Offer::Nothing {
                return Err(Error::StateMisuse);
            }
            return self.step(Event::Upgraded);
        }
        if head.status().is_informational() {
            return Err(Error::StateMisuse);
        }
        let persistence = self.persistence();
        self.step(Event::HeadSent { has_body: head.body() != BodyOut::None })?;
        if head.closes() || persistence == Persistence::Close {
            self.persistence = Persistence::Close;
        }
        Ok(())
    }

    /// The last byte of the answer's body was sent.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless the response side is Body.
    pub fn body_sent(&mut self) -> Result<(), Error> {
        self.step(Event::BodySent)
    }

    /// Whether nothing of a request came and nothing is due: the connection can be parked, or closed without harm.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.request == RequestState::Idle && self.response == ResponseState::Idle
    }

    /// What to do now.
    #[must_use]
    pub fn next(&self) -> Next {
        use {RequestState as Req, ResponseState as Res};
        match (self.request, self.response) {
            (_, Res::Upgraded) => Next::Upgraded,
            (Req::Idle | Req::Head, _) => Next::ReadHead,
            (Req::MustClose | Req::Error, Res::Idle) => Next::Close { linger: false },
            (Req::Error, Res::Head | Res::SentContinue) => Next::AnswerError,
            // Either the error answer itself, or an answer that began before the request failed.
            (Req::Error, Res::Body) => Next::Answer,
            (Req::Error, Res::Done) => Next::Close { linger: true },
            (Req::Body, Res::Head | Res::SentContinue | Res::Body) => Next::ReadBody,
            (Req::Body, Res::Done) => match self.persistence {
                Persistence::KeepAlive => Next::Drain,
                Persistence::Close => Next::Close { linger: true },
            },
            (Req::Done | Req::MustClose, Res::Head | Res::SentContinue | Res::Body) => Next::Answer,
            (Req::MustClose, Res::Done) => Next::Close { linger: false },
            (Req::Done, Res::Done) => match self.persistence {
                Persistence::KeepAlive => Next::Reset,
                Persistence::Close => Next::Close { linger: true },
            },
            (Req::Body | Req::Done, Res::Idle) => Next::Answer,
        }
    }

    /// Begins the next exchange on the same connection.
    ///
    /// # Errors
    ///
    /// [`Error::StateMisuse`] unless [`Exchange::next`] is [`Next::Reset`].
    pub fn reset(&mut self) -> Result<(), Error> {
        if self.next() != Next::Reset {
            return Err(Error::StateMisuse);
        }
        self.step(Event::Reset)?;
        debug_assert!(self.is_idle());
        *self = Exchange::new();
        Ok(())
    }

    fn step(&mut self, event: Event) -> Result<(), Error> {
        let (Some(request), Some(response)) = (self.request.after(event), self.response.after(event)) else {
            return Err(Error::StateMisuse);
        };
        self.request = request;
        self.response = response;
        Ok(())
    }
}

const _: () = assert!(size_of::<Exchange>() <= 8);
