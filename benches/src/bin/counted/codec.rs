//! The codec alone.

use std::hint::black_box;

use plimsoll_codec::h1::{self, BodyDecoder, BodyEvent, FieldSlot, Framing, HeadSearch, Limits};

use crate::requests;

/// Finds and parses a head so many times.
pub(crate) fn heads(head: &[u8], count: u32) {
    let limits = Limits::DEFAULT;
    let mut slots = [FieldSlot::EMPTY; 32];
    for _ in 0..count {
        let found = HeadSearch::default().search(black_box(head), &limits).expect("a valid head").expect("a whole one");
        let parsed = h1::parse_head(&head[found], &mut slots, &limits).expect("a valid head");
        black_box(parsed.fields);
    }
}

/// Decodes a body of chunks so many times.
pub(crate) fn chunked(count: u32) {
    let body = requests::chunked_body();
    for _ in 0..count {
        let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
        let (mut at, mut data_bytes) = (0, 0);
        loop {
            let decoded = decoder.decode(black_box(&body[at..])).expect("a valid body");
            at += decoded.consumed;
            match decoded.event {
                BodyEvent::Data(data) => data_bytes += data.len(),
                BodyEvent::Trailers(_) => {}
                BodyEvent::End => break,
                BodyEvent::NeedMore => panic!("the body is whole"),
            }
        }
        assert_eq!(data_bytes, requests::BODY_BYTES, "nothing is lost");
    }
}
