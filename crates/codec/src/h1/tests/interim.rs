//! Interim heads: which there are, what they say, and when they may be sent.

use http::{Method, StatusCode, Version};

use super::super::*;
use crate::Error;

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).expect("a status")
}

#[test]
fn every_1xx_but_101_is_one() {
    for code in 100..1_000 {
        let expected = (100..200).contains(&code) && code != 101;
        assert_eq!(ResponseHead::interim(status(code)).is_ok(), expected, "{code}");
    }
    assert_eq!(ResponseHead::interim(StatusCode::OK).err(), Some(Error::InterimStatusInvalid));
    assert_eq!(Error::InterimStatusInvalid.status(), StatusCode::INTERNAL_SERVER_ERROR, "our own mistake");
}

#[test]
fn it_says_nothing_of_length_connection_or_date() {
    let mut block = Vec::new();
    put_field(&mut block, "link", b"</mast.css>; rel=preload").expect("valid");
    let fields = Fields::check(&block).expect("put_field wrote it");
    for (code, line) in [(100, "100 Continue"), (102, "102 Processing"), (103, "103 Early Hints"), (199, "199 ")] {
        let head = ResponseHead::interim(status(code)).expect("interim").fields(fields);
        for persistence in [Persistence::KeepAlive, Persistence::Close] {
            let mut out = Vec::new();
            let head = head.persistence(persistence);
            head.encode(&mut out).expect("a vector is never full");
            assert_eq!(
                String::from_utf8_lossy(&out),
                format!("HTTP/1.1 {line}\r\nlink: </mast.css>; rel=preload\r\n\r\n")
            );
            assert_eq!((head.body(), head.closes(), head.encoded_len()), (BodyOut::None, false, out.len()));
        }
    }
}

const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";

fn received() -> Exchange {
    let mut slots = [FieldSlot::EMPTY; 8];
    let mut exchange = Exchange::new();
    let head = parse_head(POST, &mut slots, &Limits::DEFAULT).expect("valid");
    exchange.head_received(&head).expect("idle");
    exchange
}

#[test]
fn any_number_goes_before_the_answer_and_none_behind_it() {
    let early = ResponseHead::interim(StatusCode::EARLY_HINTS).expect("interim");
    let fresh = Exchange::new();
    assert_eq!(fresh.clone().interim_sent(&early), Err(Error::StateMisuse), "there is nothing to answer");
    let mut exchange = received();
    for _ in 0..3 {
        let before = exchange;
        assert_eq!(exchange.interim_sent(&early), Ok(()));
        assert_eq!(exchange, before, "the client still waits for 100, and the answer is due");
    }
    assert!(exchange.may_continue());
    assert_eq!(exchange.continue_sent(), Ok(()));
    assert_eq!(exchange.interim_sent(&early), Ok(()));
    let answer = ResponseHead::new(&Method::POST, Version::HTTP_11, StatusCode::OK, BodyLength::Known(1));
    let answer = answer.expect("allowed");
    assert_eq!(exchange.interim_sent(&answer), Err(Error::InterimStatusInvalid));
    assert_eq!(exchange.head_sent(&answer), Ok(()));
    assert_eq!(exchange.interim_sent(&early), Err(Error::StateMisuse), "within the answer");
    assert_eq!(exchange.body_sent(), Ok(()));
    assert_eq!(exchange.interim_sent(&early), Err(Error::StateMisuse), "behind the answer");
}

#[test]
fn a_100_is_the_one_that_is_waited_for() {
    let go_on = ResponseHead::interim(StatusCode::CONTINUE).expect("interim");
    let mut exchange = received();
    assert_eq!(exchange.persistence(), Persistence::Close, "nobody knows whether the body comes");
    assert_eq!(exchange.interim_sent(&go_on), Ok(()));
    assert!(!exchange.may_continue());
    assert_eq!((exchange.persistence(), exchange.response()), (Persistence::KeepAlive, ResponseState::SentContinue));
    // Legal again, though of no use.
    assert_eq!(exchange.interim_sent(&go_on), Ok(()));
    assert_eq!(exchange.response(), ResponseState::SentContinue);
}
