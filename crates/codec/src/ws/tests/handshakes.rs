//! Handshakes, and what is agreed on in them.

use http::StatusCode;

use crate::Error;
use crate::h1::{self, FieldSlot, RequestView};
use crate::ws::{Compression, Handshake, Offer};

const GOOD: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nOrigin: http://a\r\n\r\n";

fn with<R>(head: &str, act: impl FnOnce(Result<Handshake<'_>, Error>) -> R) -> R {
    let mut slots = [FieldSlot::EMPTY; 16];
    let request = h1::parse_head(head.as_bytes(), &mut slots, &h1::Limits::DEFAULT).expect("a valid head");
    act(Handshake::check(&RequestView::new(head.as_bytes(), &slots[..], &request)))
}

#[test]
fn the_example_of_the_rfc() {
    with(GOOD, |handshake| {
        let handshake = handshake.expect("a handshake");
        assert_eq!(handshake.accept().expect("HTTP/1.1").as_str(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(handshake.accept().map(|key| key.to_string()).as_deref(), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(crate::ws::client_key(*b"the sample nonce"), *b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(handshake.origin(), Some(&b"http://a"[..]));
        assert_eq!(handshake.choose_subprotocol(&["chat"]), None);
    });
}

#[test]
fn what_is_missing_or_wrong_is_refused() {
    let cases = [
        ("Upgrade: websocket", "X: y", Error::WebSocketUpgradeMissing),
        ("Upgrade: websocket", "Upgrade: websockets", Error::WebSocketUpgradeMissing),
        ("keep-alive, Upgrade", "keep-alive", Error::WebSocketUpgradeMissing),
        ("HTTP/1.1", "HTTP/1.0", Error::WebSocketUpgradeMissing),
        ("GET", "POST", Error::WebSocketHandshakeInvalid),
        ("Host: a", "Host: a\r\nContent-Length: 5", Error::WebSocketHandshakeInvalid),
        ("Host: a", "Host: a\r\nTransfer-Encoding: chunked", Error::WebSocketHandshakeInvalid),
        ("Version: 13", "Version: 8", Error::WebSocketVersionUnsupported),
        ("Sec-WebSocket-Version: 13", "X: y", Error::WebSocketVersionUnsupported),
        ("Sec-WebSocket-Key:", "X:", Error::WebSocketHandshakeInvalid),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25j", Error::WebSocketHandshakeInvalid),
        ("dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBs SBub25jZQ==", Error::WebSocketHandshakeInvalid),
        ("Host: a", "Host: a\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", Error::WebSocketHandshakeInvalid),
    ];
    for (good, bad, error) in cases {
        let head = GOOD.replacen(good, bad, 1);
        assert_ne!(head, GOOD);
        assert_eq!(with(&head, |handshake| handshake.map(drop)), Err(error), "{bad}");
    }
    assert_eq!(Error::WebSocketUpgradeMissing.status(), StatusCode::UPGRADE_REQUIRED);
    assert_eq!(Error::WebSocketVersionUnsupported.status(), StatusCode::UPGRADE_REQUIRED);
    assert_eq!(Error::WebSocketHandshakeInvalid.status(), StatusCode::BAD_REQUEST);
}

#[test]
fn names_have_no_case_and_lists_have_lines() {
    let head = GOOD.replace("websocket", "WebSocket").replace("Upgrade\r\n", "uPGRADE\r\n");
    with(&head, |handshake| assert!(handshake.is_ok()));
    let head = GOOD.replace("Host: a", "Host: a\r\nSec-WebSocket-Protocol: soap, wamp\r\nSec-WebSocket-Protocol: chat");
    with(&head, |handshake| {
        let handshake = handshake.expect("a handshake");
        assert_eq!(handshake.choose_subprotocol(&["chat", "wamp"]), Some("wamp"));
        assert_eq!(handshake.choose_subprotocol(&["Chat"]), None);
        assert_eq!(handshake.subprotocols().count(), 3);
    });
}

#[test]
fn a_body_of_no_bytes_is_none() {
    // As the WebSocket of java.net.http sends it.
    let head = GOOD.replace("Host: a", "Content-Length: 0\r\nHost: a");
    with(&head, |handshake| assert!(handshake.is_ok_and(|handshake| handshake.accept().is_some())));
}

#[test]
fn the_first_offer_that_can_be_taken_is() {
    let offers = "x-unknown, permessage-deflate; server_max_window_bits=8, permessage-deflate; client_max_window_bits";
    let head = GOOD.replace("Host: a", &format!("Host: a\r\nSec-WebSocket-Extensions: {offers}"));
    with(&head, |handshake| {
        let handshake = handshake.expect("a handshake");
        let ours = Compression { client_window_bits: 10, ..Compression::WITHOUT_TAKEOVER };
        let agreed = handshake.compression_offers().find_map(|offer| offer.accept(ours)).expect("the second");
        let answer =
            "permessage-deflate; server_no_context_takeover; client_no_context_takeover; client_max_window_bits=10";
        assert_eq!(agreed.to_string(), answer);
    });
}

#[test]
fn offers_are_read_strictly() {
    let good = [
        "permessage-deflate",
        "permessage-deflate ; server_no_context_takeover;client_no_context_takeover",
        "permessage-deflate; server_max_window_bits=\"9\"; client_max_window_bits=15",
    ];
    for offer in good {
        assert!(Offer::parse(offer.as_bytes()).is_some(), "{offer}");
    }
    let bad = [
        "deflate-frame",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_max_window_bits=7",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=09",
        "permessage-deflate; client_max_window_bits=",
        "permessage-deflate; client_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=10",
        "permessage-deflate;",
    ];
    for offer in bad {
        assert_eq!(Offer::parse(offer.as_bytes()), None, "{offer}");
    }
}

/// A window of a client that did not say that it can be limited is not limited.
#[test]
fn agreements_stay_within_the_offer() {
    let generous = Compression {
        server_context_takeover: true,
        client_context_takeover: true,
        server_window_bits: 15,
        client_window_bits: 9,
    };
    let plain = Offer::parse(b"permessage-deflate").and_then(|offer| offer.accept(generous)).expect("agreed");
    assert_eq!((plain.to_string().as_str(), plain.client_window_bits), ("permessage-deflate", 15));
    let strict =
        b"permessage-deflate; server_no_context_takeover; client_no_context_takeover; server_max_window_bits=9";
    let strict = Offer::parse(strict).and_then(|offer| offer.accept(generous)).expect("agreed");
    assert!(!strict.server_context_takeover && !strict.client_context_takeover);
    assert_eq!(strict.server_window_bits, 9);
}
