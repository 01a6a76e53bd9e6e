//! Requests: what is understood, and what is refused with which code.

use super::held::Held;
use super::{GET, PREFACE_AND_SETTINGS, block, frame, frames, serve};
use crate::Error;
use crate::h1::RequestView;
use crate::h2::{ErrorCode, Event, Priority};
use crate::ws::Handshake;

#[test]
fn a_request_and_its_answer() {
    let served = serve(&[frame(1, 5, 1, &block(&GET))]);
    assert_eq!(served.events, ["request 1 GET / [] true"]);
    let output = frames(&served.output);
    assert_eq!(output[0], (4, 1, 0, vec![]), "the acknowledgement of SETTINGS");
    assert_eq!((output[1].0, output[1].1, output[1].2), (1, 4, 1));
    assert_eq!(output[2], (0, 1, 1, b"ok".to_vec()));
    assert_eq!(output.len(), 3);
}

#[test]
fn a_body_with_padding_and_trailers() {
    let served = serve(&[
        frame(1, 4, 1, &block(&[&GET[..], &[("content-length", "5")]].concat())),
        frame(0, 8, 1, b"\x03hel\0\0\0"),
        frame(0, 0, 1, b"lo"),
        frame(1, 5, 1, &block(&[("sum", "7")])),
    ]);
    assert_eq!(served.end, Ok(()));
    assert_eq!(
        served.events[1..],
        ["data 1".to_owned(), format!("trailers 1 {:?}", [(b"sum", b"7")].map(|(n, v)| (&n[..], &v[..])))]
    );
}

#[test]
fn the_long_way_gives_the_same_request() {
    let whole = block(&[&GET[..], &[("x", "y")]].concat());
    let plain = serve(&[frame(1, 5, 1, &whole)]);
    let padded = [&[2][..], &whole, &[0, 0]].concat();
    let with_priority = [&[0, 0, 0, 3, 9][..], &whole].concat();
    let both = [&[1, 0, 0, 0, 3, 9][..], &whole, &[0]].concat();
    for frames in [
        vec![frame(1, 5 | 8, 1, &padded)],
        vec![frame(1, 5 | 32, 1, &with_priority)],
        vec![frame(1, 5 | 8 | 32, 1, &both)],
        vec![
            frame(1, 1, 1, &whole[..9]),
            frame(9, 0, 1, &whole[9..20]),
            frame(9, 0, 1, &[]),
            frame(9, 4, 1, &whole[20..]),
        ],
    ] {
        assert_eq!(serve(&frames), plain);
    }
}

/// RFC 9113 8.1 to 8.5: each is malformed, which resets the stream and no more.
#[test]
fn malformed_requests_reset_their_stream() {
    let with = |more: &[(&'static str, &'static str)]| [&GET[..], more].concat();
    let without = |name: &str| GET.into_iter().filter(|field| field.0 != name).collect::<Vec<_>>();
    for fields in [
        without(":method"),
        without(":scheme"),
        without(":path"),
        without(":authority"),
        with(&[(":path", "/")]),
        with(&[(":status", "200")]),
        with(&[("x", "y"), (":protocol", "websocket")]),
        with(&[(":protocol", "websocket")]),
        with(&[("Upper", "x")]),
        with(&[("", "x")]),
        with(&[("sp ace", "x")]),
        with(&[("x", " y")]),
        with(&[("x", "y\t")]),
        with(&[("x", "a\nb")]),
        with(&[("connection", "close")]),
        with(&[("keep-alive", "5")]),
        with(&[("proxy-connection", "x")]),
        with(&[("transfer-encoding", "chunked")]),
        with(&[("upgrade", "h3")]),
        with(&[("te", "gzip")]),
        with(&[("host", "b")]),
        with(&[("content-length", "1")]),
        with(&[("content-length", "+0")]),
        with(&[("content-length", "0"), ("content-length", "0")]),
        vec![(":method", "GET"), (":scheme", "http"), (":path", ""), (":authority", "a")],
        vec![(":method", "G T"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
        vec![(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")],
    ] {
        let served = serve(&[frame(1, 5, 1, &block(&fields)), frame(1, 5, 3, &block(&GET))]);
        assert_eq!(served.end, Ok(()), "{fields:?}");
        assert_eq!(served.events, ["request 3 GET / [] true"], "{fields:?}");
        assert_eq!(frames(&served.output)[1], (3, 0, 1, vec![0, 0, 0, 1]), "{fields:?}");
    }
}

#[test]
fn what_is_valid_though_rare() {
    for (fields, event) in [
        (vec![(":method", "CONNECT"), (":authority", "a:1")], "request 1 CONNECT a:1 [] true"),
        (
            vec![
                (":method", "CONNECT"),
                (":scheme", "http"),
                (":path", "/c"),
                (":authority", "a"),
                (":protocol", "websocket"),
            ],
            "request 1 CONNECT /c [] true",
        ),
        (
            vec![(":method", "OPTIONS"), (":scheme", "http"), (":path", "*"), (":authority", "a")],
            "request 1 OPTIONS * [] true",
        ),
        (
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "a")],
            "request 1 GET / [(\"host\", [97])] true",
        ),
        (
            [&GET[..], &[("te", "trailers")]].concat(),
            "request 1 GET / [(\"te\", [116, 114, 97, 105, 108, 101, 114, 115])] true",
        ),
    ] {
        assert_eq!(serve(&[frame(1, 5, 1, &block(&fields))]).events, [event]);
    }
}

/// Looks at the request with these fields.
fn view<R>(fields: &[(&str, &str)], look: impl FnOnce(RequestView<'_>) -> R) -> R {
    let input = [PREFACE_AND_SETTINGS, &frame(1, 4, 1, &block(fields))].concat();
    let mut used = 0;
    let mut held = Held::new();
    held.with(|connection, storage, out| {
        loop {
            let step = connection.step(&input[used..], storage, out, 0).expect("valid");
            used += step.consumed;
            if let Event::Request { .. } = step.event {
                return look(storage.view());
            }
        }
    })
}

/// RFC 8441 5: there is no key to be answered.
#[test]
fn a_websocket_on_a_stream() {
    let handshake = |protocol, version| {
        let connect = [(":method", "CONNECT"), (":scheme", "http"), (":path", "/c"), (":authority", "a")];
        let fields = [&connect[..], &[(":protocol", protocol), ("sec-websocket-version", version)]].concat();
        view(&fields, |view| Handshake::check(&view).map(|handshake| handshake.accept().is_some()))
    };
    assert_eq!(handshake("websocket", "13"), Ok(false));
    assert_eq!(handshake("WebSocket", "13"), Ok(false));
    assert_eq!(handshake("connect-udp", "13"), Err(Error::WebSocketUpgradeMissing));
    assert_eq!(handshake("websocket", "8"), Err(Error::WebSocketVersionUnsupported));
}

/// What clients of HTTP/1.1 say of the body of a handshake, and proxies pass on, is not said of what a tunnel carries.
#[test]
fn a_tunnel_has_no_length() {
    let connect = [(":method", "CONNECT"), (":scheme", "http"), (":path", "/c"), (":authority", "a")];
    let head = block(&[&connect[..], &[(":protocol", "websocket"), ("content-length", "0")]].concat());
    let served = serve(&[frame(1, 4, 1, &head), frame(0, 0, 1, b"a tunnel's bytes")]);
    assert_eq!(served.end, Ok(()));
    assert!(served.events.len() == 2 && served.events[1].starts_with("data 1"), "{:?}", served.events);
    // Of anything else it is said.
    let post = block(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a"),
        ("content-length", "0"),
    ]);
    let served = serve(&[frame(1, 4, 1, &post), frame(0, 0, 1, b"a body")]);
    assert!(frames(&served.output).contains(&(3, 0, 1, vec![0, 0, 0, 1])), "{:?}", frames(&served.output));
}

#[test]
fn a_tunnel_has_an_authority_and_no_path() {
    view(&[(":method", "CONNECT"), (":authority", "a:1")], |view| {
        assert_eq!((view.target(), view.path(), view.query(), view.host()), ("a:1", "", None, Some("a:1")));
    });
}

#[test]
fn what_is_understood_but_not_wanted_is_answered() {
    let many: Vec<_> = std::iter::repeat_n(("x", "y"), 100).collect();
    for (fields, status) in [([&GET[..], &many].concat(), "431"), ([&GET[..], &[("expect", "tea")]].concat(), "417")] {
        let served = serve(&[frame(1, 5, 1, &block(&fields))]);
        assert!(served.events.is_empty() && served.end == Ok(()));
        let output = frames(&served.output);
        assert_eq!((output[1].0, output[1].1, output[1].2), (1, 5, 1));
        assert!(output[1].3.windows(3).any(|window| window == status.as_bytes()), "{status}");
    }
}

/// A proxy passes such values on as its client sent them: the client learns what is wrong, and the others of the
/// connection nothing.
#[test]
fn an_authority_or_a_path_that_is_malformed_is_answered() {
    let of = |authority: &'static str, path: &'static str| {
        vec![(":method", "GET"), (":scheme", "http"), (":path", path), (":authority", authority)]
    };
    let authorities = ["a[b", "u@a", "", "a:b", "a,b", "[::1", "a b", "a/b"];
    let paths = ["a", "*", "/a b", "/<a", "/%zz", "/a#b", "http://a/"];
    let hosts = ["a[b", ""].map(|host| vec![GET[0], GET[1], GET[2], ("host", host)]);
    let cases = authorities
        .map(|authority| of(authority, "/"))
        .into_iter()
        .chain(paths.map(|path| of("a", path)))
        .chain(hosts)
        .chain([vec![(":method", "CONNECT"), (":authority", "a")]]);
    for fields in cases {
        for flags in [5, 4] {
            let served = serve(&[frame(1, flags, 1, &block(&fields)), frame(1, 5, 3, &block(&GET))]);
            assert_eq!(served.end, Ok(()), "{fields:?}");
            assert_eq!(served.events, ["request 3 GET / [] true"], "{fields:?}");
            let output = frames(&served.output);
            assert_eq!((output[1].0, output[1].1, output[1].2), (1, 5, 1), "{fields:?}");
            // `:status: 400` of the static table.
            assert_eq!(output[1].3[0], 0x80 | 12, "{fields:?}");
            let resets: Vec<_> = output.iter().filter(|(kind, ..)| *kind == 3).map(|frame| frame.3[3]).collect();
            let expected = if flags == 5 { vec![] } else { vec![ErrorCode::NoError as u8] };
            assert_eq!(resets, expected, "what is still to come is not wanted: {fields:?}");
        }
    }
}

/// Frames after which the connection is over, and the code in GOAWAY.
#[test]
fn broken_rules_of_the_connection() {
    let get = || frame(1, 5, 1, &block(&GET));
    let open = || frame(1, 4, 1, &block(&GET));
    let cases: Vec<(Vec<Vec<u8>>, ErrorCode)> = vec![
        (vec![frame(0, 1, 0, b"x")], ErrorCode::ProtocolError),
        (vec![frame(0, 1, 1, b"x")], ErrorCode::ProtocolError),
        (vec![open(), frame(0, 8, 1, b"\x01")], ErrorCode::ProtocolError),
        (vec![open(), frame(0, 8, 1, b"")], ErrorCode::FrameSizeError),
        (vec![frame(1, 5, 2, &block(&GET))], ErrorCode::ProtocolError),
        (vec![frame(1, 5, 3, &block(&GET)), get()], ErrorCode::ProtocolError),
        (vec![get(), get()], ErrorCode::StreamClosed),
        (vec![frame(1, 5, 1, &[0xff])], ErrorCode::CompressionError),
        (vec![frame(1, 1, 1, &[]), frame(0, 0, 1, b"")], ErrorCode::ProtocolError),
        (vec![frame(1, 1, 1, &[]), frame(9, 4, 3, b"")], ErrorCode::ProtocolError),
        (vec![frame(9, 4, 1, &[])], ErrorCode::ProtocolError),
        (vec![frame(1, 5 | 8, 1, &[9, 0x82])], ErrorCode::ProtocolError),
        (vec![frame(2, 0, 1, &[0; 4])], ErrorCode::FrameSizeError),
        (vec![frame(2, 0, 0, &[0; 5])], ErrorCode::ProtocolError),
        (vec![frame(2, 0, 5, &[0, 0, 0, 5, 1])], ErrorCode::ProtocolError),
        (vec![frame(3, 0, 1, &[0; 4])], ErrorCode::ProtocolError),
        (vec![frame(3, 0, 0, &[0; 4])], ErrorCode::ProtocolError),
        (vec![open(), frame(3, 0, 1, &[0; 3])], ErrorCode::FrameSizeError),
        (vec![frame(4, 0, 1, &[])], ErrorCode::ProtocolError),
        (vec![frame(4, 1, 0, &[0; 6])], ErrorCode::FrameSizeError),
        (vec![frame(4, 0, 0, &[0; 5])], ErrorCode::FrameSizeError),
        (vec![frame(4, 0, 0, &[0, 2, 0, 0, 0, 2])], ErrorCode::ProtocolError),
        (vec![frame(4, 0, 0, &[0, 4, 0x80, 0, 0, 0])], ErrorCode::FlowControlError),
        (vec![frame(4, 0, 0, &[0, 5, 0, 0, 0x3f, 0xff])], ErrorCode::ProtocolError),
        (vec![frame(4, 0, 0, &[0; 33 * 6])], ErrorCode::EnhanceYourCalm),
        (vec![frame(5, 4, 1, &[0; 4])], ErrorCode::ProtocolError),
        (vec![frame(6, 0, 0, &[0; 7])], ErrorCode::FrameSizeError),
        (vec![frame(6, 0, 1, &[0; 8])], ErrorCode::ProtocolError),
        (vec![frame(7, 0, 1, &[0; 8])], ErrorCode::ProtocolError),
        (vec![frame(7, 0, 0, &[0; 7])], ErrorCode::FrameSizeError),
        (vec![frame(8, 0, 0, &[0; 4])], ErrorCode::ProtocolError),
        (vec![frame(8, 0, 0, &[0; 5])], ErrorCode::FrameSizeError),
        (vec![frame(8, 0, 1, &[0, 0, 0, 1])], ErrorCode::ProtocolError),
        (vec![frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])], ErrorCode::FlowControlError),
        (vec![frame(16, 0, 1, &[0; 8])], ErrorCode::ProtocolError),
        (vec![frame(16, 0, 0, &[0; 4])], ErrorCode::ProtocolError),
        (vec![frame(77, 0, 0, &[0; 16_385])], ErrorCode::FrameSizeError),
    ];
    for (input, code) in cases {
        let served = serve(&input);
        assert!(served.end.is_err(), "{input:?}");
        let (kind, _, stream, payload) = frames(&served.output).pop().expect("a GOAWAY");
        assert_eq!((kind, stream, payload[7]), (7, 0, code as u8), "{input:?}: {:?}", served.end);
    }
}

#[test]
fn broken_rules_of_a_stream() {
    let open = |fields: &[(&str, &str)]| frame(1, 4, 1, &block(&[&GET[..], fields].concat()));
    let cases: Vec<(Vec<Vec<u8>>, ErrorCode)> = vec![
        (vec![open(&[("content-length", "3")]), frame(0, 1, 1, b"ab")], ErrorCode::ProtocolError),
        (vec![open(&[("content-length", "3")]), frame(0, 0, 1, b"abcd")], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(1, 4, 1, &block(&[("a", "b")]))], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(1, 5, 1, &block(&[(":path", "/")]))], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(1, 5, 1, &block(&[("host", "b")]))], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(8, 0, 1, &[0; 4])], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(8, 0, 1, &[0x7f, 0xff, 0xff, 0xff])], ErrorCode::FlowControlError),
        (vec![open(&[]), frame(2, 0, 1, &[0; 6])], ErrorCode::FrameSizeError),
        (vec![open(&[]), frame(2, 0, 1, &[0, 0, 0, 1, 1])], ErrorCode::ProtocolError),
        // The same with the bit of RFC 7540 that says exclusive, in either frame.
        (vec![open(&[]), frame(2, 0, 1, &[0x80, 0, 0, 1, 1])], ErrorCode::ProtocolError),
        (vec![frame(1, 4 | 32, 1, &[&[0x80, 0, 0, 1, 1][..], &block(&GET)].concat())], ErrorCode::ProtocolError),
        (vec![open(&[]), frame(0, 1, 1, b""), frame(0, 0, 1, b"x")], ErrorCode::StreamClosed),
    ];
    for (mut input, code) in cases {
        input.push(frame(6, 0, 0, b"and go on"[..8].as_ref()));
        let served = serve(&input);
        assert_eq!(served.end, Ok(()), "{input:?}");
        let output = frames(&served.output);
        let reset = output.iter().find(|(kind, ..)| *kind == 3).expect("a reset");
        assert_eq!((reset.2, reset.3[3]), (1, code as u8), "{input:?}");
        assert_eq!(output.last().map(|frame| (frame.0, frame.1)), Some((6, 1)), "the ping is answered");
    }
}

#[test]
fn a_reset_says_what_is_wrong_with_trailers() {
    for (fields, error) in [
        (vec![(":path", "/")], "PseudoFieldInvalid"),
        (vec![("Upper", "x")], "FieldNameInvalid"),
        (vec![("sp ace", "x")], "FieldNameInvalid"),
        (vec![("", "x")], "FieldNameInvalid"),
        (vec![("x", " y")], "FieldValueInvalid"),
    ] {
        let served = serve(&[frame(1, 4, 1, &block(&GET)), frame(1, 5, 1, &block(&fields))]);
        assert_eq!(served.events[1..], [format!("reset 1 Broken({error})")], "{fields:?}");
    }
}

#[test]
fn what_is_not_known_is_passed_over() {
    let served = serve(&[
        frame(77, 0xff, 9, &[1; 1_000]),
        frame(4, 0, 0, &[0x7f, 0xff, 1, 2, 3, 4]),
        frame(7, 0, 0, &[0; 100]),
        frame(16, 0, 0, b"\0\0\0\x09u=1"),
        frame(1, 5, 1, &block(&GET)),
    ]);
    assert_eq!(served.events, ["peer goes away 0", "request 1 GET / [] true"]);
}

#[test]
fn as_many_settings_as_are_looked_at() {
    assert_eq!(serve(&[frame(4, 0, 0, &[0x7f; 32 * 6])]).end, Ok(()));
    assert_eq!(serve(&[frame(4, 0, 0, &[0x7f; 33 * 6])]).end, Err(Error::Flood));
}

#[test]
fn codes_have_their_numbers() {
    let codes: Vec<_> = (0..).map_while(ErrorCode::from_number).collect();
    assert!(codes.iter().enumerate().all(|(number, code)| *code as usize == number));
    assert_eq!(codes.last(), Some(&ErrorCode::Http11Required));
    assert_eq!(ErrorCode::from_number(u32::MAX), None);
}

#[test]
fn the_preface_comes_first() {
    for input in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nXX",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x06\0\0\0\0\0",
    ] {
        assert_eq!(crate::fuzz::serve_h2(input, &[]).end, Err(Error::PrefaceInvalid));
    }
}

#[test]
fn priorities_are_hints() {
    for (value, urgency, incremental) in [
        (&b""[..], 3, false),
        (b"u=0", 0, false),
        (b"i", 3, true),
        (b"i=?1, u=7", 7, true),
        (b"u=8", 3, false),
        (b"u=-1,i;x=1", 3, true),
        (b"U=1,foo=bar,,", 3, false),
    ] {
        assert_eq!(Priority::parse(value), Priority { urgency, incremental });
    }
}
