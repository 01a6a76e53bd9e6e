//! The state machine against a model, and against the whole table.
//!
//! Properties: every pair of states and event is either in the table or refused without a change; every state that can
//! be reached says what to do; a connection is used again only if both sides are done and both want it.

use http::{Method, StatusCode, Version};
use proptest::prelude::*;

use super::super::*;
use crate::Error;

const EVENTS: [Event; 13] = [
    Event::HeadStarted,
    Event::HeadReceived { has_body: true },
    Event::HeadReceived { has_body: false },
    Event::BodyReceived,
    Event::RequestFailed,
    Event::PeerClosed,
    Event::ContinueSent,
    Event::HeadSent { has_body: true },
    Event::HeadSent { has_body: false },
    Event::BodySent,
    Event::Upgraded,
    Event::Reset,
    Event::InterimSent,
];

const REQUEST_STATES: [RequestState; 6] = [
    RequestState::Idle,
    RequestState::Head,
    RequestState::Body,
    RequestState::Done,
    RequestState::MustClose,
    RequestState::Error,
];

const RESPONSE_STATES: [ResponseState; 6] = [
    ResponseState::Idle,
    ResponseState::Head,
    ResponseState::SentContinue,
    ResponseState::Body,
    ResponseState::Done,
    ResponseState::Upgraded,
];

/// Events as letters: h started, R r head with and without body, b body, f failed, c closed, 1 continue, S s head sent
/// with and without body, e body sent, u upgraded, n reset, i interim.
const LETTERS: &str = "hRrbfc1SseUni";

/// A column for each event; `.` is refused, a letter is the state after it.
#[test]
fn the_request_table_is_complete() {
    let rows = [
        (RequestState::Idle, "HBD.EMIIIII.I"),
        (RequestState::Head, ".BD.EEHHHHH.H"),
        (RequestState::Body, "...DEEBBBBB.B"),
        (RequestState::Done, ".....MDDDDDID"),
        (RequestState::MustClose, ".....MMMMMM.M"),
        (RequestState::Error, ".....EEEEEE.E"),
    ];
    for (state, row) in rows {
        for (event, after) in EVENTS.iter().zip(row.chars()) {
            let expected = "IHBDME".find(after).map(|at| REQUEST_STATES[at]);
            assert_eq!(state.after(*event), expected, "{state:?} {event:?}");
        }
    }
    assert_eq!(LETTERS.len(), EVENTS.len());
}

#[test]
fn the_response_table_is_complete() {
    let rows = [
        (ResponseState::Idle, "IHHIHI......."),
        (ResponseState::Head, "H..HHHCBD.U.H"),
        (ResponseState::SentContinue, "C..CCC.BD.U.C"),
        (ResponseState::Body, "B..BBB...D..."),
        (ResponseState::Done, "D..DDD.....I."),
        (ResponseState::Upgraded, "U..U.U......."),
    ];
    for (state, row) in rows {
        for (event, after) in EVENTS.iter().zip(row.chars()) {
            let expected = "IHCBDU".find(after).map(|at| RESPONSE_STATES[at]);
            assert_eq!(state.after(*event), expected, "{state:?} {event:?}");
        }
    }
}

#[test]
fn keep_alive_and_close() {
    for (request, closes) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", true),
        ("GET / HTTP/1.0\r\n\r\n", true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false),
    ] {
        let (mut exchange, head) = received(request);
        answer(&mut exchange, &head, 200, BodyLength::Known(1), Persistence::KeepAlive);
        let expected = if closes { Next::Close { linger: true } } else { Next::Reset };
        assert_eq!(exchange.next(), expected, "{request:?}");
        assert_eq!(exchange.reset().is_ok(), !closes);
        // Our own wish counts as much as the client's.
        let (mut exchange, head) = received(request);
        answer(&mut exchange, &head, 200, BodyLength::Known(1), Persistence::Close);
        assert_eq!(exchange.next(), Next::Close { linger: true });
        let (mut exchange, head) = received(request);
        exchange.close_after();
        assert_eq!(exchange.persistence(), Persistence::Close);
        answer(&mut exchange, &head, 200, BodyLength::Empty, Persistence::Close);
        assert_eq!(exchange.next(), Next::Close { linger: true });
    }
    let (mut exchange, head) = received("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    answer(&mut exchange, &head, 200, BodyLength::Unknown, Persistence::KeepAlive);
    assert_eq!(exchange.next(), Next::Close { linger: true }, "the end of the connection is the end of the body");
}

#[test]
fn continue_is_sent_once_and_only_if_it_is_waited_for() {
    let (mut exchange, head) = received(POST_EXPECT);
    assert!(exchange.may_continue());
    assert_eq!(exchange.continue_sent(), Ok(()));
    assert!(!exchange.may_continue());
    assert_eq!(exchange.continue_sent(), Err(Error::StateMisuse));
    assert_eq!(exchange.persistence(), Persistence::KeepAlive);
    assert_eq!(exchange.body_received(), Ok(()));
    answer(&mut exchange, &head, 200, BodyLength::Known(1), Persistence::KeepAlive);
    assert_eq!(exchange.next(), Next::Reset);

    let (mut exchange, _) = received(POST_EXPECT);
    exchange.body_started();
    assert!(!exchange.may_continue(), "the client does not wait");

    let (exchange, _) = received(POST);
    assert!(!exchange.may_continue(), "nobody asked for it");
}

#[test]
fn an_answer_without_continue_closes() {
    let (mut exchange, head) = received(POST_EXPECT);
    assert_eq!(exchange.persistence(), Persistence::Close);
    answer(&mut exchange, &head, 417, BodyLength::Empty, Persistence::Close);
    assert_eq!(exchange.next(), Next::Close { linger: true });
    assert!(!exchange.may_continue());
    assert!(exchange.continue_sent().is_err());
}

#[test]
fn an_early_answer_drains_or_closes() {
    let (mut exchange, head) = received(POST);
    answer(&mut exchange, &head, 200, BodyLength::Empty, Persistence::KeepAlive);
    assert_eq!(exchange.next(), Next::Drain);
    let mut gives_up = exchange;
    gives_up.close_after();
    assert_eq!(gives_up.next(), Next::Close { linger: true });
    assert_eq!(exchange.body_received(), Ok(()));
    assert_eq!(exchange.next(), Next::Reset);
}

#[test]
fn an_error_is_answered_once_then_the_connection_closes() {
    let mut exchange = Exchange::new();
    assert_eq!(exchange.request_failed(), Ok(()));
    assert_eq!((exchange.next(), exchange.persistence()), (Next::AnswerError, Persistence::Close));
    let head = ResponseHead::new(&Method::GET, Version::HTTP_11, StatusCode::BAD_REQUEST, BodyLength::Known(3));
    let head = head.expect("allowed").persistence(exchange.persistence());
    assert_eq!(exchange.head_sent(&head), Ok(()));
    assert_eq!(exchange.next(), Next::Answer, "the body of the error answer");
    assert_eq!(exchange.body_sent(), Ok(()));
    assert_eq!(exchange.next(), Next::Close { linger: true });
    assert_eq!((exchange.reset(), exchange.request_failed()), (Err(Error::StateMisuse), Err(Error::StateMisuse)));
}

#[test]
fn the_client_closing_its_side() {
    let mut idle = Exchange::new();
    idle.peer_closed();
    assert_eq!(idle.next(), Next::Close { linger: false });

    let mut within_head = Exchange::new();
    assert_eq!(within_head.head_started(), Ok(()));
    assert!(!within_head.is_idle());
    within_head.peer_closed();
    assert_eq!(within_head.next(), Next::Close { linger: false });

    let (mut within_body, _) = received(POST);
    within_body.peer_closed();
    assert_eq!(within_body.next(), Next::AnswerError);

    let (mut complete, head) = received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    complete.peer_closed();
    assert_eq!((complete.next(), complete.persistence()), (Next::Answer, Persistence::Close));
    answer(&mut complete, &head, 200, BodyLength::Known(1), Persistence::Close);
    assert_eq!(complete.next(), Next::Close { linger: false });
}

#[test]
fn upgrade_only_after_our_own_101() {
    let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let (mut exchange, head) = received(upgrade);
    assert_eq!(exchange.next(), Next::Answer);
    assert_eq!(try_answer(&mut exchange, &head, 101), Ok(()));
    assert_eq!((exchange.next(), exchange.response()), (Next::Upgraded, ResponseState::Upgraded));
    assert!(exchange.reset().is_err());

    let (mut exchange, head) = received(upgrade);
    assert_eq!(try_answer(&mut exchange, &head, 200), Ok(()));
    assert_eq!(exchange.next(), Next::Reset, "the offer was declined");

    let (mut exchange, head) = received("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(try_answer(&mut exchange, &head, 101), Err(Error::StateMisuse), "nobody asked for it");
    assert_eq!(try_answer(&mut exchange, &head, 103), Err(Error::StateMisuse), "not a final head");

    let with_body = "POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\n";
    let (mut exchange, head) = received(with_body);
    assert_eq!(try_answer(&mut exchange, &head, 101), Err(Error::StateMisuse), "the body comes first");
    assert_eq!(exchange.body_received(), Ok(()));
    assert_eq!(try_answer(&mut exchange, &head, 101), Ok(()));
}

#[test]
fn connect_is_a_tunnel_after_2xx_only() {
    let connect = "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n";
    let (mut exchange, head) = received(connect);
    assert_eq!(try_answer(&mut exchange, &head, 200), Ok(()));
    assert_eq!(exchange.next(), Next::Upgraded);
    let (mut exchange, head) = received(connect);
    assert_eq!(exchange.persistence(), Persistence::Close);
    assert_eq!(try_answer(&mut exchange, &head, 403), Ok(()));
    assert_eq!(exchange.next(), Next::Close { linger: true }, "what follows may be meant for the tunnel");
}

/// What a user of the machine may do.
#[derive(Copy, Clone, Debug)]
enum Move {
    HeadStarted,
    Receive(usize),
    BodyStarted,
    BodyReceived,
    Fail,
    PeerClosed,
    CloseAfter,
    Continue,
    Inform(u16),
    Answer(u16, bool, bool),
    BodySent,
    Reset,
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        2 => Just(Move::HeadStarted),
        6 => (0..REQUESTS.len()).prop_map(Move::Receive),
        1 => Just(Move::BodyStarted),
        4 => Just(Move::BodyReceived),
        1 => Just(Move::Fail),
        1 => Just(Move::PeerClosed),
        1 => Just(Move::CloseAfter),
        2 => Just(Move::Continue),
        2 => prop::sample::select(&[100u16, 101, 102, 103, 200][..]).prop_map(Move::Inform),
        6 => (prop::sample::select(&[101u16, 103, 200, 204, 304, 404][..]), any::<bool>(), any::<bool>())
            .prop_map(|(status, has_body, close)| Move::Answer(status, has_body, close)),
        4 => Just(Move::BodySent),
        5 => Just(Move::Reset),
    ]
}

/// The model: facts about the exchange as one would write them on paper, not states.
#[derive(Clone, Debug, Default)]
struct Model {
    head: bool,
    started: bool,
    body_left: bool,
    failed: bool,
    eof: bool,
    close: bool,
    waits: bool,
    continued: bool,
    offers_upgrade: bool,
    connect: bool,
    answered: bool,
    answer_left: bool,
    upgraded: bool,
}

impl Model {
    fn reads_body(&self) -> bool {
        self.head && self.body_left && !self.failed && !self.eof
    }

    fn is_over(&self) -> bool {
        self.answered && !self.answer_left && !self.upgraded
    }

    /// Whether the connection can serve another request now.
    fn reusable(&self) -> bool {
        self.is_over() && self.head && !self.body_left && !self.failed && !self.eof && !self.close
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_machine_agrees_with_the_model(moves in prop::collection::vec(a_move(), 1..40)) {
        let mut exchange = Exchange::new();
        let mut model = Model::default();
        let mut head = None;
        for step in moves {
            let before = exchange;
            let (allowed, result) = apply(step, &mut exchange, &mut model, &mut head);
            prop_assert_eq!(result.is_ok(), allowed, "{:?} in {:?}", step, before);
            if !allowed {
                prop_assert_eq!(exchange, before, "refused without a change");
            }
            prop_assert_eq!(exchange.next() == Next::Reset, model.reusable(), "{:?} {:?}", exchange, model);
            prop_assert_eq!(exchange.next() == Next::Upgraded, model.upgraded);
            prop_assert_eq!(exchange.may_continue(), model.reads_body() && model.waits && !model.answered && !model.continued);
            if model.is_over() && (model.close || model.failed || model.eof) {
                prop_assert!(matches!(exchange.next(), Next::Close { .. }), "{:?} {:?}", exchange, model);
            }
            if exchange.next() == Next::Drain {
                prop_assert!(model.is_over() && model.reads_body());
            }
        }
    }
}

/// Does a move on both, and says whether the model allows it.
fn apply(
    step: Move,
    exchange: &mut Exchange,
    model: &mut Model,
    head: &mut Option<RequestHead>,
) -> (bool, Result<(), Error>) {
    let is_fresh = !model.head && !model.failed && !model.eof;
    match step {
        Move::HeadStarted => {
            let allowed = is_fresh && !model.started;
            model.started |= allowed;
            (allowed, exchange.head_started())
        }
        Move::Receive(index) => {
            let request = parse(REQUESTS[index]);
            let result = exchange.head_received(&request);
            if is_fresh {
                model.head = true;
                model.body_left = request.framing != Framing::None;
                model.waits = request.expect_continue;
                // A tunnel that is not granted closes.
                model.close |= !request.keep_alive || request.method == Method::CONNECT;
                model.offers_upgrade = request.upgrade.is_some();
                model.connect = request.method == Method::CONNECT;
                *head = Some(request);
            }
            (is_fresh, result)
        }
        Move::BodyStarted => {
            if model.reads_body() {
                exchange.body_started();
                model.waits = false;
            }
            (true, Ok(()))
        }
        Move::BodyReceived => {
            let allowed = model.reads_body() && !model.upgraded;
            if allowed {
                (model.body_left, model.waits) = (false, false);
            }
            (allowed, exchange.body_received())
        }
        Move::Fail => {
            let allowed = !model.failed && !model.eof && (!model.head || model.body_left);
            model.failed |= allowed;
            (allowed, exchange.request_failed())
        }
        Move::PeerClosed => {
            exchange.peer_closed();
            // Nothing of a request came, or all of it: there is nothing that it cut off.
            let cut = (model.started && !model.head) || (model.head && model.body_left);
            if cut && !model.failed && !model.head {
                // There is nothing to answer and nothing more to come.
                model.started = true;
            }
            model.eof = true;
            (true, Ok(()))
        }
        Move::CloseAfter => {
            exchange.close_after();
            model.close = true;
            (true, Ok(()))
        }
        Move::Continue => {
            let allowed = model.reads_body() && model.waits && !model.answered;
            if allowed {
                (model.continued, model.waits) = (true, false);
            }
            (allowed, exchange.continue_sent())
        }
        Move::Inform(status) => {
            let due = (model.head || model.failed) && !model.answered;
            let allowed = due && status < 200 && status != 101;
            if allowed && status == 100 && model.reads_body() && model.waits {
                (model.continued, model.waits) = (true, false);
            }
            let status = StatusCode::from_u16(status).expect("a status");
            let interim =
                ResponseHead::new(&Method::GET, Version::HTTP_11, status, BodyLength::Empty).expect("no body");
            (allowed, exchange.interim_sent(&interim))
        }
        Move::Answer(status, has_body, close) => {
            let method = head.as_ref().map_or(Method::GET, |head| head.method.clone());
            let status = StatusCode::from_u16(status).expect("a status");
            let length = if has_body { BodyLength::Known(1) } else { BodyLength::Empty };
            let Ok(response) = ResponseHead::new(&method, Version::HTTP_11, status, length) else {
                return (true, Ok(()));
            };
            let response = response.persistence(if close { Persistence::Close } else { exchange.persistence() });
            let due = (model.head || model.failed) && !model.answered;
            let is_tunnel = model.connect && status.is_success();
            let upgrades = if model.connect { is_tunnel } else { status.as_u16() == 101 };
            let allowed = if upgrades {
                let complete = model.head && !model.body_left && !model.failed && !model.eof;
                due && complete && (model.offers_upgrade || is_tunnel)
            } else {
                due && !status.is_informational()
            };
            if allowed {
                model.answered = true;
                model.upgraded = upgrades;
                model.answer_left = response.body() != BodyOut::None;
                model.close |= !upgrades && (response.closes() || model.waits);
            }
            (allowed, exchange.head_sent(&response))
        }
        Move::BodySent => {
            let allowed = model.answer_left;
            model.answer_left = false;
            (allowed, exchange.body_sent())
        }
        Move::Reset => {
            let allowed = model.reusable();
            if allowed {
                (*model, *head) = (Model::default(), None);
            }
            (allowed, exchange.reset())
        }
    }
}

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n";

const POST_EXPECT: &str = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";

const REQUESTS: [&str; 7] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    POST,
    POST_EXPECT,
    "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
];

fn parse(request: &str) -> RequestHead {
    let mut slots = [FieldSlot::EMPTY; 8];
    parse_head(request.as_bytes(), &mut slots, &Limits::DEFAULT).expect("valid")
}

fn received(request: &str) -> (Exchange, RequestHead) {
    let head = parse(request);
    let mut exchange = Exchange::new();
    exchange.head_received(&head).expect("idle");
    (exchange, head)
}

fn answer(exchange: &mut Exchange, request: &RequestHead, status: u16, length: BodyLength, persistence: Persistence) {
    let status = StatusCode::from_u16(status).expect("a status");
    let head = ResponseHead::new(&request.method, request.version, status, length).expect("allowed");
    exchange.head_sent(&head.persistence(persistence)).expect("an answer is due");
    if head.body() != BodyOut::None {
        exchange.body_sent().expect("the body is due");
    }
}

fn try_answer(exchange: &mut Exchange, request: &RequestHead, status: u16) -> Result<(), Error> {
    let status = StatusCode::from_u16(status).expect("a status");
    let head = ResponseHead::new(&request.method, request.version, status, BodyLength::Empty).expect("allowed");
    exchange.head_sent(&head)
}
