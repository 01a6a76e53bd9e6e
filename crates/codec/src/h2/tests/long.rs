//! Heads and trailers over the limits: they are answered on their stream, and the connection goes on with true tables.
//! Only too many frames end it.

use super::{GET, block, frame, frames, serve};
use crate::Error;
use crate::fuzz::{PREFACE_AND_SETTINGS, serve_h2};
use crate::h2::ErrorCode;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `x: y`, into the table.
const KEPT: &[u8] = b"\x40\x01x\x01y";
/// What was last put into the table.
const NEWEST: &[u8] = b"\xbe";

/// A literal that enters no table, with so many bytes of value.
fn long_field(name: u8, bytes: usize) -> Vec<u8> {
    let mut field = vec![0, 1, name, 127];
    let mut rest = bytes - 127;
    while rest >= 128 {
        field.push(rest as u8 | 128);
        rest >>= 7;
    }
    field.push(rest as u8);
    field.resize(field.len() + bytes, b'v');
    field
}

/// A block in frames of at most so many bytes.
fn in_frames(stream: u32, flags: u8, block: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let pieces: Vec<_> = block.chunks(piece).collect();
    let last = pieces.len() - 1;
    let frames = pieces.iter().enumerate().map(|(at, part)| {
        let ends = if at == last { END_HEADERS } else { 0 };
        let (kind, flags) = if at == 0 { (HEADERS, flags) } else { (CONTINUATION, 0) };
        frame(kind, flags | ends, stream, part)
    });
    frames.collect()
}

/// The heads of answers: their streams and blocks.
fn answers(output: &[u8]) -> Vec<(u32, Vec<u8>)> {
    frames(output)
        .into_iter()
        .filter(|(kind, ..)| *kind == HEADERS)
        .map(|(_, _, stream, block)| (stream, block))
        .collect()
}

fn is_431(block: &[u8]) -> bool {
    // In plain or in Huffman's code (RFC 7541 B).
    block.windows(3).any(|part| part == b"431") || block.windows(3).any(|part| part == [0x68, 0x2c, 0x8f])
}

#[track_caller]
fn is_answered(block: &[u8], piece: usize) {
    let next = [&super::block(&GET)[..], NEWEST].concat();
    let mut input = in_frames(1, END_STREAM, block, piece);
    input.push(frame(HEADERS, END_HEADERS | END_STREAM, 3, &next));
    let served = serve(&input);
    assert_eq!(served.end, Ok(()));
    assert_eq!(
        served.events.len(),
        1,
        "{} bytes: {:?}",
        block.len(),
        served.events.iter().map(|event| &event[..event.len().min(99)]).collect::<Vec<_>>()
    );
    assert!(
        served.events[0].starts_with("request 3 GET / [") && served.events[0].ends_with("[(\"x\", [121])] true"),
        "{:?}",
        served.events
    );
    let answers = answers(&served.output);
    assert_eq!(answers.iter().map(|(stream, _)| *stream).collect::<Vec<_>>(), [1, 3]);
    assert!(frames(&served.output).iter().all(|(kind, ..)| !matches!(kind, 3 | 7)), "no reset and no GOAWAY");
    // Whatever the split, also where one byte at a time would take too long.
    let input = [PREFACE_AND_SETTINGS, &input.concat()].concat();
    for step in [9, 1_000, 16_385] {
        let cuts: Vec<_> = (0..input.len()).step_by(step).collect();
        assert_eq!(serve_h2(&input, &cuts), served, "in parts of {step} bytes");
    }
}

#[test]
fn a_head_over_a_limit_is_answered_and_the_table_stays_true() {
    let head = block(&GET);
    let with = |more: &[u8]| [&head[..], more, KEPT].concat();
    let many = block(&[("f", "g")]).repeat(101);
    for block in [
        with(&many),
        with(&block(&[("f", "g")]).repeat(4_000)),
        with(&long_field(b'a', 16_300)),
        with(&long_field(b'a', 20_000)),
        with(&long_field(b'a', 100_000)),
        // One that empties the table.
        with(&[&[0x40][..], &long_field(b'a', 30_000)[1..]].concat()),
        with(&(b'a'..=b'n').flat_map(|name| long_field(name, 9_000)).collect::<Vec<_>>()),
        [KEPT, &head, &long_field(b'a', 60_000)].concat(),
    ] {
        is_answered(&block, 16_384);
        is_answered(&block, block.len().div_ceil(9).min(16_384));
    }
}

#[test]
fn the_answer_is_431() {
    let served = serve(&in_frames(1, END_STREAM, &[&block(&GET)[..], &long_field(b'a', 50_000)].concat(), 16_000));
    let answers = answers(&served.output);
    assert!(answers.len() == 1 && is_431(&answers[0].1), "{answers:?}");
}

#[test]
fn only_too_many_frames_end_the_connection() {
    let block = [&block(&GET)[..], &long_field(b'a', 80_000)].concat();
    for (frames, end) in [(9, Ok(())), (10, Err(Error::Flood))] {
        let input = in_frames(1, END_STREAM, &block, block.len().div_ceil(frames));
        assert_eq!(input.len(), frames);
        assert_eq!(serve(&input).end, end);
    }
    // Also when there is nothing in them.
    let mut input = in_frames(1, 0, &block[..40_000], 16_384);
    input.pop();
    input.extend((0..8).map(|_| frame(CONTINUATION, 0, 1, &[])));
    assert_eq!(serve(&input).end, Err(Error::Flood));
}

#[test]
fn a_long_block_that_ends_within_a_field_ends_the_connection() {
    for rest in [&b"\0\x01x\x05v"[..], b"\0\x01x", b"\0", b"\x7f"] {
        let block = [&block(&GET)[..], &long_field(b'a', 40_000), rest].concat();
        assert_eq!(serve(&in_frames(1, END_STREAM, &block, 16_384)).end, Err(Error::HpackTruncated), "{rest:?}");
    }
}

#[test]
fn what_interrupts_a_long_block_or_cuts_it_ends_the_connection() {
    let block = [&block(&GET)[..], &long_field(b'a', 80_000)].concat();
    let mut whole = in_frames(1, END_STREAM, &block, 16_384);
    let last = whole.pop().expect("the last");
    for (other, end) in [
        (frame(6, 0, 0, &[0; 8]), Error::FrameUnexpected),
        (frame(CONTINUATION, END_HEADERS, 3, b"x"), Error::FrameUnexpected),
        (frame(CONTINUATION, END_HEADERS, 1, &[0; 16_385]), Error::FrameSizeInvalid),
        (frame(CONTINUATION, END_HEADERS, 1, b"too short"), Error::HpackTruncated),
    ] {
        assert_eq!(serve(&[&whole[..], &[other, last.clone()]].concat()).end, Err(end));
    }
    let invalid = [&block[..], &[0x80]].concat();
    assert_eq!(serve(&in_frames(1, END_STREAM, &invalid, 16_384)).end, Err(Error::HpackIndexInvalid));
}

#[test]
fn padding_and_priority_are_no_part_of_a_long_block() {
    let block = [&block(&GET)[..], &long_field(b'a', 40_000), KEPT].concat();
    let first = [&[200, 0, 0, 0, 0, 7][..], &block[..10_000], &[0; 200]].concat();
    let mut input = vec![frame(HEADERS, END_STREAM | 8 | 32, 1, &first)];
    let mut rest = in_frames(1, 0, &block[10_000..], 16_384);
    rest[0][3] = CONTINUATION;
    input.extend(rest);
    input.push(frame(HEADERS, END_HEADERS | END_STREAM, 3, &[&super::block(&GET)[..], NEWEST].concat()));
    let served = serve(&input);
    assert_eq!((served.end, answers(&served.output).len(), served.events.len()), (Ok(()), 2, 1));
}

#[test]
fn a_body_behind_such_a_head_is_not_wanted() {
    let block = [&block(&GET)[..], &long_field(b'a', 40_000)].concat();
    let mut input = in_frames(1, 0, &block, 16_384);
    input.push(frame(0, 0, 1, b"part of a body"));
    input.push(frame(0, END_STREAM, 1, b"and its end"));
    input.push(frame(HEADERS, END_HEADERS | END_STREAM, 3, &super::block(&GET)));
    let served = serve(&input);
    assert_eq!((served.end, served.events.len()), (Ok(()), 1), "{:?}", served.events);
    let resets: Vec<_> = frames(&served.output).into_iter().filter(|(kind, ..)| *kind == 3).collect();
    assert_eq!(resets, [(3, 0, 1, vec![0, 0, 0, ErrorCode::NoError as u8])]);
}

#[test]
fn trailers_over_a_limit_end_their_stream_alone() {
    for more in [long_field(b'a', 16_384), long_field(b'a', 60_000), block(&[("f", "g")]).repeat(200)] {
        let mut input = vec![frame(HEADERS, END_HEADERS, 1, &block(&GET)), frame(0, 0, 1, b"x")];
        input.extend(in_frames(1, END_STREAM, &[&more[..], KEPT].concat(), 16_384));
        input.push(frame(HEADERS, END_HEADERS | END_STREAM, 3, &[&block(&GET)[..], NEWEST].concat()));
        let served = serve(&input);
        assert_eq!(served.end, Ok(()));
        assert!(served.events.contains(&"reset 1 Broken(TrailersTooLarge)".to_owned()), "{:?}", served.events);
        assert!(served.events.last().is_some_and(|event| event.starts_with("request 3 ")), "{:?}", served.events);
    }
}

/// What such heads cost is bounded: by the number of them, and by what is decoded for the table alone.
#[test]
fn long_heads_cannot_be_had_for_ever() {
    let block = [&block(&GET)[..], &long_field(b'a', 30_000)].concat();
    let input: Vec<_> = (0..1_000).flat_map(|number| in_frames(2 * number + 1, END_STREAM, &block, 16_384)).collect();
    let served = serve(&input);
    assert_eq!((served.end, answers(&served.output).len()), (Err(Error::Flood), 100));
    // Each of these three bytes puts a name of 4,000 bytes into the table anew.
    let mut name = vec![0x40, 127, 0xa1, 0x1e];
    name.resize(name.len() + 4_000, b'n');
    name.extend([1, b'v']);
    let bomb = [name, [0x7e, 1, b'w'].repeat(40_000)].concat();
    let served = serve(&in_frames(1, END_STREAM, &bomb, 16_384));
    assert_eq!(served.end, Err(Error::Flood), "long before its end");
}
