//! HTTP/1.1, beside httparse alone: it finds the parts of a head, and decides nothing about framing, hosts or line
//! ends.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use plimsoll_codec::h1::{self, BodyDecoder, BodyEvent, FieldSlot, Framing, HeadSearch, Limits};

/// What wrk sends.
const SMALL: &[u8] = b"GET /pipeline HTTP/1.1\r\nHost: localhost:8080\r\n\r\n";

pub(crate) fn heads(c: &mut Criterion) {
    let mut large = SMALL[..SMALL.len() - 2].to_vec();
    for number in 0..19 {
        large.extend_from_slice(format!("X-Field-{number}: a value of some thirty bytes {number}\r\n").as_bytes());
    }
    large.extend_from_slice(b"\r\n");
    let mut group = c.benchmark_group("h1-head");
    for (name, head) in [("1 field", SMALL), ("20 fields", &large)] {
        group.throughput(Throughput::Bytes(head.len() as u64));
        group.bench_function(format!("{name}, plimsoll-codec"), |b| {
            b.iter(|| {
                let mut slots = [FieldSlot::EMPTY; 32];
                let found = HeadSearch::default().search(black_box(head), &Limits::DEFAULT);
                let range = found.expect("valid").expect("whole");
                h1::parse_head(&head[range], &mut slots, &Limits::DEFAULT).expect("valid").fields
            });
        });
        group.bench_function(format!("{name}, httparse alone"), |b| {
            b.iter(|| {
                let mut fields = [httparse::EMPTY_HEADER; 32];
                let mut request = httparse::Request::new(&mut fields);
                request.parse(black_box(head)).expect("valid").is_complete()
            });
        });
    }
    group.finish();
}

/// A body of 64 chunks of 1,000 bytes, of which the data is counted.
pub(crate) fn chunked(c: &mut Criterion) {
    let chunk = [&b"3e8\r\n"[..], &[b'p'; 1_000], b"\r\n"].concat();
    let body = [&chunk.repeat(64)[..], b"0\r\n\r\n"].concat();
    let mut group = c.benchmark_group("h1-chunked");
    group.throughput(Throughput::Elements(64));
    group.bench_function("plimsoll-codec", |b| b.iter(|| assert_eq!(decoded_bytes(black_box(&body)), 64_000)));
    group.bench_function("httparse alone", |b| b.iter(|| assert_eq!(skipped_bytes(black_box(&body)), 64_000)));
    group.finish();
}

fn decoded_bytes(body: &[u8]) -> usize {
    let mut decoder = BodyDecoder::new(Framing::Chunked, &Limits::DEFAULT);
    let (mut at, mut bytes) = (0, 0);
    loop {
        let decoded = decoder.decode(&body[at..]).expect("valid");
        at += decoded.consumed;
        match decoded.event {
            BodyEvent::Data(data) => bytes += data.len(),
            BodyEvent::Trailers(_) => {}
            BodyEvent::End => return bytes,
            BodyEvent::NeedMore => panic!("the body is whole"),
        }
    }
}

/// Sizes by httparse; what is around them is trusted.
fn skipped_bytes(body: &[u8]) -> usize {
    let (mut at, mut bytes) = (0, 0);
    loop {
        match httparse::parse_chunk_size(&body[at..]).expect("valid") {
            httparse::Status::Complete((_, 0)) => return bytes,
            httparse::Status::Complete((used, size)) => {
                bytes += size as usize;
                at += used + size as usize + 2;
            }
            httparse::Status::Partial => panic!("the body is whole"),
        }
    }
}
