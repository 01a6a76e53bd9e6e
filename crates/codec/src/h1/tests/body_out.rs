//! Bodies of responses: framed, and as long as they said.

use proptest::prelude::*;

use super::super::*;
use crate::Error::{self, *};

#[test]
fn a_length_is_kept_to_the_byte() {
    let mut body = BodyEncoder::new(BodyOut::Length(5));
    assert_eq!(body.piece(6).err(), Some(BodyTooLong));
    assert_eq!(body.piece(5).map(|frame| (frame.before().len(), frame.after().len())), Ok((0, 0)));
    assert_eq!(body.piece(1).err(), Some(BodyTooLong), "9112 6.3: it would be read as the next answer");
    assert_eq!((body.finish(), body.due()), (Ok(&b""[..]), Some(0)));
    assert_eq!(body.piece(1).err(), Some(BodyNotAllowed));
    let mut short = BodyEncoder::new(BodyOut::Length(u64::MAX));
    assert!(short.piece(u64::MAX - 1).is_ok());
    assert_eq!((short.due(), short.finish()), (Some(1), Err(BodyTooShort)));
}

#[test]
fn there_is_no_body_where_none_may_be() {
    for body in [BodyOut::None, BodyOut::Length(0)] {
        let mut body = BodyEncoder::new(body);
        assert_eq!(body.piece(1).err(), Some(BodyNotAllowed), "9110 6.4.1");
        assert_eq!(body.piece(0).map(|frame| frame.before().len()), Ok(0));
        assert_eq!(body.finish(), Ok(&b""[..]));
    }
}

#[test]
fn a_piece_of_no_bytes_does_not_end_chunks() {
    let mut body = BodyEncoder::new(BodyOut::Chunked);
    assert_eq!(body.piece(0).map(|frame| (frame.before().len(), frame.after().len())), Ok((0, 0)));
    assert_eq!(body.finish(), Ok(LAST_CHUNK));
    assert_eq!(body.finish(), Ok(&b""[..]), "once");
}

#[test]
fn whose_fault_a_wrong_length_is() {
    for error in [BodyTooLong, BodyTooShort] {
        assert_eq!((error.fault(), error.status().as_u16()), (crate::Fault::Caller, 500));
    }
}

#[test]
fn trailers_end_chunks_and_are_left_out_elsewhere() {
    let trailers = Fields::check(b"sum: 7\r\n").expect("valid");
    for (body, last, expected) in [
        (BodyOut::Chunked, 3, Ok(&b"0\r\nsum: 7\r\n\r\n"[..])),
        (BodyOut::Length(3), 3, Ok(b"")),
        (BodyOut::Length(4), 3, Err(BodyTooShort)),
        (BodyOut::None, 0, Ok(b"")),
        (BodyOut::UntilClose, 3, Ok(b"")),
    ] {
        let (mut body, mut out) = (BodyEncoder::new(body), Vec::new());
        assert!(body.piece(last).is_ok());
        let ended = body.finish_with(trailers, &mut out);
        assert_eq!(ended.map(|()| &out[..]), expected);
        assert_eq!(body.piece(1).is_ok(), ended.is_err(), "it is not ended twice");
    }
}

#[test]
fn a_body_is_not_ended_by_what_could_not_be_written() {
    let trailers = Fields::check(b"sum: 7\r\n").expect("valid");
    let forbidden = Fields::check(b"vary: a\r\n").expect("valid, elsewhere");
    let mut body = BodyEncoder::new(BodyOut::Chunked);
    let mut small = [0; 12];
    assert_eq!(body.finish_with(trailers, &mut &mut small[..]), Err(OutputFull));
    assert_eq!(body.finish_with(forbidden, &mut Vec::new()), Err(TrailerForbidden));
    assert!(body.piece(1).is_ok(), "it goes on");
    let mut out = Vec::new();
    assert_eq!(body.finish_with(trailers, &mut out), Ok(()));
    assert_eq!((body.finish(), body.due(), out.len()), (Ok(&b""[..]), Some(0), 13), "once");
}

proptest! {
    /// What is framed piece by piece, a decoder reads as the same bytes; and a length is met or refused.
    #[test]
    fn pieces_are_read_back(pieces in prop::collection::vec(0usize..40, 0..12), length in 0u64..200, chunked in any::<bool>()) {
        let mut body = BodyEncoder::new(if chunked { BodyOut::Chunked } else { BodyOut::Length(length) });
        let (mut sent, mut wire) = (Vec::new(), Vec::new());
        for (at, &len) in pieces.iter().enumerate() {
            let data = vec![at as u8; len];
            let fits = chunked || len == 0 || (sent.len() + len) as u64 <= length;
            let frame = body.piece(len as u64);
            prop_assert_eq!(frame.is_ok(), fits);
            if let Ok(frame) = frame {
                for part in [frame.before(), &data, frame.after()] {
                    wire.extend_from_slice(part);
                }
                sent.extend(data);
            }
        }
        let is_whole = chunked || sent.len() as u64 == length;
        let end = body.finish();
        prop_assert_eq!(end.is_ok(), is_whole);
        if let Ok(end) = end {
            wire.extend_from_slice(end);
            let framing = if chunked { Framing::Chunked } else { Framing::Length(length) };
            let read = crate::fuzz::read_body(framing, &wire, &Limits::DEFAULT, &[]);
            prop_assert_eq!((read.data, read.consumed, read.end), (sent, wire.len(), Ok::<_, Error>(crate::fuzz::BodyEnd::Complete)));
        }
    }
}
