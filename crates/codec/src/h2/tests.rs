//! Tests of HTTP/2: requests, what is refused and how, limits, output, and properties.
//!
//! The properties are asserted by the functions for fuzzers: every split gives the same, no byte of a window is lost,
//! both sides agree on every window after every operation.
mod held;
mod limits;
mod long;
mod output;
mod refusals;
mod requests;

use proptest::prelude::*;

use super::FrameHeader;
use crate::fuzz::{self, PREFACE_AND_SETTINGS, Served, frame, serve_h2};

/// What a server makes of these frames, behind the preface and SETTINGS.
pub(super) fn serve(frames: &[Vec<u8>]) -> Served {
    let input = [PREFACE_AND_SETTINGS, &frames.concat()].concat();
    let served = serve_h2(&input, &[]);
    let single: Vec<usize> = (0..input.len()).collect();
    if input.len() < 40_000 {
        assert_eq!(served, serve_h2(&input, &single), "one byte at a time");
    }
    served
}

/// Kind, flags, stream and payload of each frame of an output.
pub(super) fn frames(mut output: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(header) = FrameHeader::parse(output) {
        let (payload, rest) = output[9..].split_at(header.len);
        frames.push((header.kind, header.flags, header.stream, payload.to_vec()));
        output = rest;
    }
    assert!(output.is_empty(), "whole frames");
    frames
}

/// Fields of a header block, as literals that enter no table.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        for (first, text) in [(&[0][..], name), (&[][..], value)] {
            block.extend_from_slice(first);
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

pub(super) const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// Frames that mostly make sense, so that more than their headers is looked at.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let stream =
        prop_oneof![Just(0u32), (0..6u32).prop_map(|number| 2 * number + 1), any::<u32>().prop_map(|id| id >> 1)];
    let headers = (stream.clone(), any::<u8>(), proptest::collection::vec((0..8usize, "[ -~]{0,8}"), 0..3)).prop_map(
        |(stream, flags, fields)| {
            let names = ["te", "priority", "content-length", "x", "Upper", ":path", "expect", "cookie"];
            let more: Vec<_> = fields.iter().map(|(name, value)| (names[*name], value.as_str())).collect();
            frame(1, flags & 5 | 4, stream, &block(&[&GET[..], &more].concat()))
        },
    );
    let any_frame = (0..18u8, any::<u8>(), stream, proptest::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    let one = prop_oneof![headers, any_frame];
    proptest::collection::vec(one, 0..12).prop_map(|frames| frames.concat())
}

proptest! {
    #[test]
    fn every_split_gives_the_same(input in plausible()) {
        fuzz::h2_frames(&input);
    }

    #[test]
    fn any_bytes_are_survived(input in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz::h2_frames(&input);
    }

    #[test]
    fn windows_are_conserved(input in proptest::collection::vec(any::<u8>(), 0..1_600)) {
        fuzz::h2_operations(&input);
    }
}
