//! No heap allocation for HTTP/2 requests and responses: a client's frames are prepared, then served under a counting
//! allocator.
//!
//! **I-COUNT**: the allocator hands every call on to the system's with the arguments it was given, and besides only
//! counts those of its thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use http::{Method, StatusCode, Version};
use plimsoll_codec::date;
use plimsoll_codec::h1::{BodyLength, FieldSlot, Fields, ResponseHead};
use plimsoll_codec::h2::{Connection, Event, FrameHeader, Limits, Repeat, Storage, Stream};

struct Counting;

thread_local! {
    /// The test runner has a thread of its own, which allocates when it likes.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: I-COUNT.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: I-COUNT.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: I-COUNT.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Frames of a GET, and of a POST in several frames, with Huffman strings, table entries, padding and trailers.
fn requests(count: u32) -> Vec<u8> {
    let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let mut put = |kind, flags, stream, payload: &[u8]| {
        input.extend(FrameHeader { len: payload.len(), kind, flags, stream }.encode());
        input.extend(payload);
    };
    // RFC 7541 C.4.1: `www.example.com` enters the table.
    let get = *b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    for number in 0..count {
        put(1, 5, 4 * number + 1, &get);
        put(1, 0, 4 * number + 3, b"\x83\x86");
        put(9, 4, 4 * number + 3, b"\x84\x01\x01a");
        put(0, 8, 4 * number + 3, b"\x02body\0\0");
        put(1, 5, 4 * number + 3, b"\0\x03sum\x017");
    }
    input
}

#[test]
fn requests_and_responses_allocate_nothing() {
    const COUNT: u32 = 1_000;
    let limits = Limits::DEFAULT;
    let (mut streams, mut slots) = ([Stream::FREE; 8], [FieldSlot::EMPTY; 100]);
    let (mut decoder_table, mut encoder_table) = ([0; 4_096], [0; 4_096]);
    let (mut bytes, mut out) = (vec![0; limits.scratch_bytes()], vec![0; 4_096]);
    let mut storage = Storage {
        streams: &mut streams,
        decoder_table: &mut decoder_table,
        encoder_table: &mut encoder_table,
        bytes: &mut bytes,
        slots: &mut slots,
        repeat: &mut Repeat::default(),
    };
    let input = requests(COUNT);
    let mut connection = Connection::new(&limits);
    let fields = Fields::check(b"content-type: text/plain\r\nset-cookie: a=b\r\n").expect("valid");
    let (mut used, mut answered) = (0, 0);
    let before = ALLOCATIONS.get();
    loop {
        let mut sink = &mut out[..];
        let step = connection.step(&input[used..], &mut storage, &mut sink, 0).expect("a valid input");
        used += step.consumed;
        let done = match step.event {
            Event::Request { stream, ends } => {
                assert_eq!(storage.view().path(), "/");
                ends.then_some(stream)
            }
            Event::Data { stream, bytes, .. } => {
                connection.take_data(bytes);
                used += bytes;
                connection.release(stream, bytes, &mut storage, &mut sink).expect("room");
                None
            }
            Event::Trailers { stream, .. } => Some(stream),
            Event::NeedOutput => {
                connection.output_sent();
                None
            }
            Event::NeedMore { .. } => break,
            _ => None,
        };
        if let Some(stream) = done {
            let date = date::format(u64::from(answered) / 100);
            let head = ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, BodyLength::Known(2));
            let head = head.expect("valid").date(&date).fields(fields);
            connection.put_response(stream, &head, false, &mut storage, &mut sink).expect("room");
            if connection.data_room(stream, 2, &storage) == 2 {
                connection.put_data_header(stream, 2, true, &mut storage, &mut sink).expect("room");
            }
            connection.output_sent();
            connection.forget(stream, &mut storage, &mut sink).expect("room");
            answered += 1;
        }
    }
    let after = ALLOCATIONS.get();
    assert_eq!(used, input.len());
    assert_eq!(answered, 2 * COUNT);
    assert!(before > 0, "the input was allocated, and counted");
    assert_eq!(after - before, 0, "allocations for {answered} requests");
}
