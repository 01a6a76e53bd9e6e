//! Properties: whose fault an error is decides how it reads, and its class of status; nothing of the peer's is our
//! caller's, nor the other way round.

use super::{Error, Fault};

/// What a peer may want and we do not do, with its status.
const UNSUPPORTED: [(Error, u16); 6] = [
    (Error::MethodTooLong, 501),
    (Error::VersionUnsupported, 505),
    (Error::Http2Preface, 400),
    (Error::TransferCodingUnsupported, 501),
    (Error::WebSocketVersionUnsupported, 426),
    (Error::ExpectationUnknown, 417),
];

const CALLER: [Error; 9] = [
    Error::ResponseFieldInvalid,
    Error::FieldReserved,
    Error::OutputFull,
    Error::BodyNotAllowed,
    Error::BodyTooLong,
    Error::BodyTooShort,
    Error::InterimStatusInvalid,
    Error::StateMisuse,
    Error::LimitInvalid,
];

const PEER: [(Error, u16); 5] = [
    (Error::BareLf, 400),
    (Error::RequestLineTooLong, 414),
    (Error::TooManyFields, 431),
    (Error::TrailersTooLarge, 413),
    (Error::WebSocketUpgradeMissing, 426),
];

#[test]
fn whose_fault_it_is_says_the_status_and_the_text() {
    let unsupported = UNSUPPORTED.map(|(error, status)| (error, status, Fault::PeerUnsupported, "unsupported by us: "));
    let caller = CALLER.map(|error| (error, 500, Fault::Caller, "caller error: "));
    let peer = PEER.map(|(error, status)| (error, status, Fault::Peer, "peer error: "));
    for (error, status, fault, whose) in unsupported.into_iter().chain(caller).chain(peer) {
        assert_eq!((error.fault(), error.status().as_u16()), (fault, status), "{error:?}");
        let (text, line) = (error.to_string(), error.line());
        assert_eq!(text.strip_prefix(whose), line.strip_suffix('\n'), "{error:?}");
        assert!(line.len() > 10, "{error:?}");
    }
}
