//! Frames: what is taken, what is refused and with which code, however it is split.
//!
//! Properties: any split of any frames tells the same; a mask applied in parts is the mask applied at once, at any
//! offset; a text in parts is judged as the whole is; what is encoded is decoded as it was.

use proptest::prelude::*;

use crate::Error;
use crate::fuzz::{Told, read_ws};
use crate::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Mask, Opcode, Role, Utf8};

const KEY: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

fn frame(is_final: bool, opcode: Opcode, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead { is_final, ..FrameHead::message(opcode, payload.len() as u64) }.masked(KEY);
    let mut payload = payload.to_vec();
    head.mask(&mut payload);
    [head.encode().as_bytes(), &payload].concat()
}

fn server() -> Decoder {
    Decoder::new(Role::Server, Limits::DEFAULT)
}

fn told(bytes: &[u8]) -> Vec<Told> {
    read_ws(server(), bytes, &[])
}

fn text(payload: &[u8]) -> Told {
    Told::Message { is_text: true, is_compressed: false, payload: payload.to_vec() }
}

/// The frames of RFC 6455 5.7.
#[test]
fn the_examples_of_the_rfc() {
    let masked = [0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58];
    assert_eq!(told(&masked), [text(b"Hello")]);
    assert_eq!(frame(true, Opcode::Text, b"Hello"), masked);
    let client = Decoder::new(Role::Client, Limits::DEFAULT);
    let fragments = [0x01, 0x03, 0x48, 0x65, 0x6C, 0x80, 0x02, 0x6C, 0x6F];
    assert_eq!(read_ws(client, &fragments, &[]), [text(b"Hello")]);
    assert_eq!(FrameHead::message(Opcode::Binary, 256).encode().as_bytes(), [0x82, 0x7E, 0x01, 0x00]);
    assert_eq!(FrameHead::message(Opcode::Binary, 65_536).encode().as_bytes(), [0x82, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn control_frames_may_come_within_a_message() {
    let frames = [
        frame(false, Opcode::Text, b"h\xC3"),
        frame(true, Opcode::Ping, b"there?"),
        frame(false, Opcode::Continuation, b""),
        frame(true, Opcode::Pong, b""),
        frame(true, Opcode::Continuation, b"\xA9"),
        frame(true, Opcode::Close, b"\x03\xE8bye"),
        b"not looked at".to_vec(),
    ];
    let expected = [
        Told::Ping(b"there?".to_vec()),
        Told::Pong(Vec::new()),
        text("hé".as_bytes()),
        Told::Close(Some(CloseCode::NORMAL), b"bye".to_vec()),
    ];
    assert_eq!(told(&frames.concat()), expected);
}

/// RFC 6455 5.5: up to 125 bytes.
#[test]
fn the_longest_control_frames_are_taken() {
    let longest = [b'p'; 125];
    let (reason, code) = (&longest[..123], CloseCode::NORMAL);
    let close = [&code.0.to_be_bytes(), reason].concat();
    let frames = [(Opcode::Ping, &longest[..]), (Opcode::Pong, &longest), (Opcode::Close, &close)];
    let bytes = frames.map(|(opcode, payload)| frame(true, opcode, payload)).concat();
    let expected =
        [Told::Ping(longest.to_vec()), Told::Pong(longest.to_vec()), Told::Close(Some(code), reason.to_vec())];
    assert_eq!(told(&bytes), expected);
}

#[test]
fn what_breaks_the_framing_is_refused() {
    let long = [0; 126];
    let cases: [(&str, Vec<u8>, Error, u16); 16] = [
        ("no mask", vec![0x81, 0x01, b'x'], Error::WebSocketMaskInvalid, 1_002),
        ("RSV1", vec![0xC1], Error::WebSocketReserved, 1_002),
        ("RSV2", vec![0xA1], Error::WebSocketReserved, 1_002),
        ("RSV3", vec![0x91], Error::WebSocketReserved, 1_002),
        ("opcode 3", vec![0x83], Error::WebSocketReserved, 1_002),
        ("opcode 11", vec![0x8B], Error::WebSocketReserved, 1_002),
        ("a long ping", vec![0x89, 0xFE], Error::WebSocketControlInvalid, 1_002),
        ("a fragment of a ping", vec![0x09], Error::WebSocketControlInvalid, 1_002),
        ("125 in two bytes", vec![0x82, 0xFE, 0, 125], Error::WebSocketLengthInvalid, 1_002),
        ("65535 in eight", vec![0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], Error::WebSocketLengthInvalid, 1_002),
        ("64 bits", vec![0x82, 0xFF, 0x80, 0, 0, 0, 0, 0, 0, 0], Error::WebSocketLengthInvalid, 1_002),
        ("nothing to continue", vec![0x80], Error::WebSocketFragmentUnexpected, 1_002),
        ("a close of one byte", frame(true, Opcode::Close, b"\x03"), Error::WebSocketCloseInvalid, 1_002),
        ("a reason in Latin-1", frame(true, Opcode::Close, b"\x03\xE8\xE9"), Error::WebSocketTextInvalid, 1_007),
        ("text of zeros and 0xFF", frame(true, Opcode::Text, b"\0\xFF"), Error::WebSocketTextInvalid, 1_007),
        ("text that is cut", frame(true, Opcode::Text, b"\xE2\x82"), Error::WebSocketTextInvalid, 1_007),
    ];
    for (what, bytes, error, code) in cases {
        assert_eq!(told(&bytes), [Told::Failed(error)], "{what}");
        assert_eq!(error.close_code(), CloseCode(code), "{what}");
    }
    let twice = [frame(false, Opcode::Text, b"a"), frame(true, Opcode::Binary, &long)].concat();
    assert_eq!(told(&twice), [Told::Failed(Error::WebSocketFragmentUnexpected)]);
    let client = Decoder::new(Role::Client, Limits::DEFAULT);
    let masked = frame(true, Opcode::Text, b"x");
    assert_eq!(read_ws(client, &masked, &[]), [Told::Failed(Error::WebSocketMaskInvalid)]);
}

#[test]
fn a_connection_is_closed_by_the_close_frame_alone() {
    let mut decoder = server();
    for (bytes, is_closed) in [
        (frame(true, Opcode::Ping, b""), false),
        (frame(true, Opcode::Close, b"")[..5].to_vec(), false),
        (frame(true, Opcode::Close, b""), true),
    ] {
        let _event = decoder.decode(&mut bytes.clone(), 0).expect("valid");
        assert_eq!((decoder.is_closed(), decoder.record().is_none()), (is_closed, is_closed), "{bytes:?}");
    }
}

#[test]
fn a_text_fails_at_the_byte_that_makes_it_invalid() {
    let mut bytes = frame(false, Opcode::Text, b"abc\xED\xA0 and a thousand more");
    let mut decoder = server();
    let begin = decoder.decode(&mut bytes[..6], 0).expect("a head");
    assert_eq!(begin.event, Event::Begin { is_text: true, is_compressed: false });
    assert!(decoder.decode(&mut bytes[6..10], 0).is_ok(), "the lead byte of a surrogate may be another's");
    assert_eq!(decoder.decode(&mut bytes[10..11], 0), Err(Error::WebSocketTextInvalid));
}

/// All codes, against the list of RFC 6455 7.4 and the IANA registry.
#[test]
fn close_codes() {
    for code in 0..=u16::MAX {
        let close = frame(true, Opcode::Close, &code.to_be_bytes());
        let sendable = [1_000, 1_001, 1_002, 1_003, 1_007, 1_008, 1_009, 1_010, 1_011, 1_012, 1_013, 1_014];
        let expected = match sendable.contains(&code) || (3_000..5_000).contains(&code) {
            true => Told::Close(Some(CloseCode(code)), Vec::new()),
            false => Told::Failed(Error::WebSocketCloseInvalid),
        };
        assert_eq!(told(&close), [expected], "{code}");
    }
    assert_eq!(told(&frame(true, Opcode::Close, b"")), [Told::Close(None, Vec::new())]);
}

/// A frame that says that it is long is refused for its head alone, and one that is allowed costs nothing before its
/// bytes come.
#[test]
fn the_length_is_not_believed() {
    let head = |bytes| FrameHead::message(Opcode::Binary, bytes).masked(KEY).encode().as_bytes().to_vec();
    assert_eq!(told(&head(1 << 40)), [Told::Failed(Error::WebSocketMessageTooLarge)]);
    assert_eq!(told(&head((1 << 20) + 1)), [Told::Failed(Error::WebSocketMessageTooLarge)]);
    assert_eq!(told(&head(1 << 20)), []);
    assert_eq!(Error::WebSocketMessageTooLarge.close_code(), CloseCode::TOO_LARGE);
    // Nor is it believed in parts.
    let half = vec![7; 1 << 19];
    let parts = [frame(false, Opcode::Binary, &half), frame(false, Opcode::Continuation, &half)].concat();
    assert_eq!(told(&parts), []);
    let more = [parts, frame(true, Opcode::Continuation, b"x")].concat();
    assert_eq!(told(&more), [Told::Failed(Error::WebSocketMessageTooLarge)]);
}

#[test]
fn fragments_are_counted() {
    let fragments = |count: usize| {
        let first = frame(false, Opcode::Binary, b"a");
        [first, frame(false, Opcode::Continuation, b"b").repeat(count - 2), frame(true, Opcode::Continuation, b"")]
            .concat()
    };
    assert!(matches!(&told(&fragments(128))[..], [Told::Message { payload, .. }] if payload.len() == 127));
    assert_eq!(told(&fragments(129)), [Told::Failed(Error::WebSocketTooManyFragments)]);
}

#[test]
fn a_flood_of_pings_is_cut_off_and_an_honest_peer_is_not() {
    let mut decoder = server();
    let ping = frame(true, Opcode::Ping, b"");
    let sent = (0..100_000).take_while(|_| decoder.decode(&mut ping.clone(), 0).is_ok()).count();
    // 64 KiB of frames at 70 bytes each are free.
    assert_eq!(sent, 64 * 1_024 / 70 + 99);
    assert_eq!(decoder.decode(&mut ping.clone(), 0), Err(Error::Flood));
    // A ping every second, for a day.
    let mut decoder = server();
    assert!((0..86_400).all(|second| decoder.decode(&mut ping.clone(), second * 1_000).is_ok()));
}

#[test]
fn a_peer_does_not_become_better_by_waiting() {
    let ping = frame(true, Opcode::Ping, b"");
    let flood = |mut decoder: Decoder| {
        let sent = (0..100_000).take_while(|_| decoder.decode(&mut ping.clone(), 9_000).is_ok());
        sent.count()
    };
    let whole = flood(server());
    let mut decoder = server();
    for _ in 0..whole - 10 {
        decoder.decode(&mut ping.clone(), 9_000).expect("not yet");
        let record = decoder.record().expect("between two messages");
        decoder = Decoder::resume(Role::Server, Limits::DEFAULT, record);
    }
    assert_eq!(flood(decoder), 10);
}

#[test]
fn compressed_frames_need_an_agreement() {
    let head = |opcode| FrameHead { is_compressed: true, ..FrameHead::message(opcode, 2).masked(KEY) };
    let begin = [head(Opcode::Text).encode().as_bytes(), b"\xFF\xFF"].concat();
    let compressed = read_ws(server().compressed(), &begin, &[]);
    // What it inflates to is checked, not this.
    assert!(matches!(compressed[..], [Told::Message { is_text: true, is_compressed: true, .. }]));
    assert_eq!(told(&begin), [Told::Failed(Error::WebSocketReserved)]);
    for opcode in [Opcode::Ping, Opcode::Continuation] {
        let bytes = [frame(false, Opcode::Text, b""), head(opcode).encode().as_bytes().to_vec()].concat();
        assert_eq!(read_ws(server().compressed(), &bytes, &[]), [Told::Failed(Error::WebSocketReserved)]);
    }
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let opcode = prop_oneof![
        4 => Just(Opcode::Continuation),
        3 => Just(Opcode::Text),
        2 => Just(Opcode::Binary),
        1 => Just(Opcode::Ping),
        1 => Just(Opcode::Pong),
    ];
    let payload = prop_oneof![
        "\\PC{0,40}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..8),
        proptest::collection::vec(Just(b'a'), 120..300),
    ];
    (any::<bool>(), opcode, payload).prop_map(|(is_final, opcode, mut payload)| {
        if opcode.is_control() {
            payload.truncate(125);
        }
        frame(is_final || opcode.is_control(), opcode, &payload)
    })
}

proptest! {
    #[test]
    fn any_split_tells_the_same(
        frames in proptest::collection::vec(any_frame(), 0..12),
        noise in proptest::collection::vec(any::<u8>(), 0..4),
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..10),
    ) {
        let bytes = [frames.concat(), noise].concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let whole = told(&bytes);
        prop_assert_eq!(&whole, &read_ws(server(), &bytes, &cuts));
        let single: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&whole, &read_ws(server(), &bytes, &single));
    }

    #[test]
    fn a_message_in_fragments_is_the_message(text_of in "\\PC{0,60}", cuts in proptest::collection::vec(0..200usize, 0..6)) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text_of.len())).collect();
        cuts.sort_unstable();
        let (mut bytes, mut from) = (Vec::new(), 0);
        for (index, &cut) in cuts.iter().enumerate() {
            let opcode = if index == 0 { Opcode::Text } else { Opcode::Continuation };
            bytes.extend(frame(false, opcode, &text_of.as_bytes()[from..cut]));
            from = cut;
        }
        let opcode = if cuts.is_empty() { Opcode::Text } else { Opcode::Continuation };
        bytes.extend(frame(true, opcode, &text_of.as_bytes()[from..]));
        prop_assert_eq!(told(&bytes), vec![text(text_of.as_bytes())]);
    }

    #[test]
    fn a_mask_in_parts_is_the_mask(
        key in any::<[u8; 4]>(),
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        start in 0..9usize,
        cuts in proptest::collection::vec(0..200usize, 0..6),
    ) {
        let start = start.min(bytes.len());
        let plain = &bytes[start..];
        let naive: Vec<u8> = plain.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]).collect();
        let mut buffer = bytes.clone();
        let mut rest = &mut buffer[start..];
        let mut mask = Mask::new(key);
        for cut in cuts {
            let (part, after) = rest.split_at_mut(cut.min(rest.len()));
            mask.apply(part);
            rest = after;
        }
        mask.apply(rest);
        prop_assert_eq!(&buffer[start..], &naive[..]);
    }

    #[test]
    fn a_text_in_parts_is_judged_as_the_whole(
        bytes in prop_oneof!["\\PC{0,20}".prop_map(String::into_bytes), proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..0xC4u8, 0xE0..=0xF5u8], 0..12)],
        cuts in proptest::collection::vec(0..60usize, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let (mut text, mut from, mut checked) = (Utf8::new(), 0, Ok(()));
        for cut in cuts.into_iter().chain([bytes.len()]) {
            checked = checked.and_then(|()| text.check(&bytes[from..cut]));
            from = cut;
        }
        prop_assert_eq!(checked.and_then(|()| text.finish()).is_ok(), std::str::from_utf8(&bytes).is_ok());
    }

    #[test]
    fn heads_come_back(is_final in any::<bool>(), bytes in prop_oneof![0..300u64, 65_500..65_600u64, 0..=1u64 << 20], key in any::<[u8; 4]>()) {
        let head = FrameHead { is_final, ..FrameHead::message(Opcode::Binary, bytes) }.masked(key);
        let encoded = head.encode();
        prop_assert_eq!(FrameHead::parse(encoded.as_bytes()), Ok(Some((head, encoded.as_bytes().len()))));
        for cut in 0..encoded.as_bytes().len() {
            prop_assert_eq!(FrameHead::parse(&encoded.as_bytes()[..cut]), Ok(None));
        }
    }

    #[test]
    fn any_bytes(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        crate::fuzz::ws_frames(&data);
        crate::fuzz::ws_text(&data);
        crate::fuzz::ws_deflate(&data);
    }
}
