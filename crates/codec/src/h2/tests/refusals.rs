//! Streams that are refused or cut for want of memory, what is on its way on them, and what is said to be the last
//! stream.

use super::held::Held;
use super::{GET, PREFACE_AND_SETTINGS, block, frame, frames};
use crate::Error;
use crate::h2::stream::find;
use crate::h2::{ErrorCode, Event, StreamKey, StreamState};

/// A server that has begun.
fn begun() -> Held {
    let mut server = Held::new();
    server.receive(PREFACE_AND_SETTINGS, false).expect("a valid beginning");
    server.receive(&frame(4, 1, 0, &[]), false).expect("an acknowledgement");
    server.out.clear();
    server
}

impl Held {
    /// Takes frames, and refuses new streams or not. Says how many requests came.
    fn receive(&mut self, input: &[u8], refuses: bool) -> Result<usize, Error> {
        let (mut used, mut requests) = (0, 0);
        loop {
            match refuses {
                true => self.connection.refuse_next(),
                false => self.connection.admit_next(),
            }
            let step = self.with(|connection, storage, out| connection.step(&input[used..], storage, out, 0))?;
            used += step.consumed;
            match step.event {
                Event::NeedMore { .. } => return Ok(requests),
                Event::Data { bytes, stream, .. } => {
                    self.connection.take_data(bytes);
                    used += bytes;
                    self.with(|connection, storage, out| connection.release(stream, bytes, storage, out))?;
                }
                Event::Request { .. } => requests += 1,
                _ => {}
            }
            self.connection.output_sent();
        }
    }

    /// Codes and streams of the resets that were written.
    fn resets(&self) -> Vec<(u32, u8)> {
        frames(&self.out).into_iter().filter(|frame| frame.0 == 3).map(|frame| (frame.2, frame.3[3])).collect()
    }
}

fn post(id: u32) -> Vec<u8> {
    frame(1, 4, id, &block(&[&[(":method", "POST")], &GET[1..]].concat()))
}

#[test]
fn what_was_on_its_way_on_refused_streams_is_not_held_against_the_peer() {
    let mut server = begun();
    let ids = || (0..300_u32).map(|number| 2 * number + 1);
    let heads: Vec<u8> = ids().flat_map(post).collect();
    assert_eq!(server.receive(&heads, true), Ok(0));
    let refused: Vec<_> = ids().map(|id| (id, ErrorCode::NoError as u8)).collect();
    assert_eq!(server.resets(), refused);
    let heads: Vec<_> = frames(&server.out).into_iter().filter(|frame| frame.0 == 1).collect();
    assert!(heads.iter().map(|head| head.2).eq(ids()) && heads.iter().all(|head| head.1 == 5), "each ends its stream");
    assert_eq!(heads[0].3, [&[8, 3][..], b"503", &[15, 38, 1], b"1", &[15, 13, 1], b"0"].concat());
    server.out.clear();
    // Parts of their bodies, and trailers: more of them than resets may be caused.
    let parts: Vec<u8> = ids().flat_map(|id| frame(0, 0, id, &[b'x'; 100])).collect();
    let trailers: Vec<u8> = ids().flat_map(|id| frame(1, 5, id, &block(&[("sum", "7")]))).collect();
    assert_eq!(server.receive(&[parts, trailers].concat(), true), Ok(0));
    assert_eq!(server.resets(), [], "nothing of that is answered");
    // They come again when there is memory, and the bytes are given back.
    let again: Vec<u8> =
        (300..304_u32).flat_map(|number| [post(2 * number + 1), frame(0, 1, 2 * number + 1, b"y")].concat()).collect();
    assert_eq!(server.receive(&again, false), Ok(4));
    server.with(|connection, storage, _| connection.audit(storage.streams, |_| 0));
    // A stream that was not refused is none of them.
    let ended = server.receive(&frame(0, 0, 605, b"z"), false);
    assert_eq!((ended, server.resets()), (Ok(0), vec![(605, ErrorCode::StreamClosed as u8)]));
}

#[test]
fn a_stream_that_is_refused_after_it_had_a_slot_is_passed_over_before_and_after_it_is_forgotten() {
    let mut server = begun();
    assert_eq!(server.receive(&post(1), false), Ok(1));
    let key = StreamKey { slot: 0, id: 1 };
    server
        .with(|connection, storage, out| connection.reset(key, ErrorCode::RefusedStream, storage, out))
        .expect("room");
    assert_eq!(server.receive(&frame(0, 0, 1, b"x"), false), Ok(0));
    server.with(|connection, storage, out| connection.forget(key, storage, out)).expect("room");
    assert_eq!(server.receive(&[frame(0, 0, 1, b"x"), frame(1, 5, 1, &block(&[("a", "b")]))].concat(), false), Ok(0));
    assert_eq!(server.resets(), [(1, ErrorCode::RefusedStream as u8)]);
    server.with(|connection, storage, _| connection.audit(storage.streams, |_| 0));
}

#[test]
fn what_was_on_its_way_on_streams_that_we_cut_is_not_held_against_the_peer() {
    let mut server = begun();
    let ids = || (0..300_u32).map(|number| 2 * number + 1);
    for id in ids() {
        assert_eq!(server.receive(&post(id), false), Ok(1));
        // As one that is cut for want of memory, or whose answer is complete.
        let code = if id % 4 == 1 { ErrorCode::EnhanceYourCalm } else { ErrorCode::NoError };
        let key = find(&server.streams, id).expect("it has a slot");
        server
            .with(|connection, storage, out| {
                connection.reset(key, code, storage, out)?;
                connection.forget(key, storage, out)
            })
            .expect("room");
    }
    assert_eq!(server.resets().len(), 300);
    server.out.clear();
    let parts: Vec<u8> = ids().flat_map(|id| frame(0, 0, id, &[b'x'; 100]).repeat(4)).collect();
    let trailers: Vec<u8> = ids().flat_map(|id| frame(1, 5, id, &block(&[("sum", "7")]))).collect();
    assert_eq!(server.receive(&[parts, trailers].concat(), false), Ok(0));
    assert_eq!(server.resets(), [], "nothing of that is answered");
    let told: usize = frames(&server.out).into_iter().filter(|frame| (frame.0, frame.2) == (8, 0)).count();
    assert_eq!(told, 3, "the bytes are given back");
    server.with(|connection, storage, _| connection.audit(storage.streams, |_| 0));
}

#[test]
fn the_last_stream_of_a_goaway_does_not_grow() {
    let mut server = begun();
    assert_eq!(server.receive(&frame(1, 5, 1, &block(&GET)), false), Ok(1));
    server.with(|connection, _, out| connection.shutdown_finish(out)).expect("room");
    // Passed over, and then a frame that ends the connection.
    assert_eq!(server.receive(&frame(1, 5, 3, &block(&GET)), false), Ok(0));
    assert_eq!(server.receive(&frame(6, 0, 3, &[0; 8]), false), Err(Error::FrameOnWrongStream));
    let last: Vec<_> = frames(&server.out).into_iter().filter(|frame| frame.0 == 7).map(|frame| frame.3[3]).collect();
    assert_eq!(last, [1, 1]);
}

#[test]
fn what_comes_on_streams_behind_the_last_goaway_is_passed_over() {
    let mut server = begun();
    assert_eq!(server.receive(&post(1), false), Ok(1));
    server.with(|connection, _, out| connection.shutdown_finish(out)).expect("room");
    server.out.clear();
    let ids = || (1..121_u32).map(|number| 2 * number + 1);
    let uploads: Vec<u8> =
        ids().flat_map(|id| [post(id), frame(0, 0, id, &[b'x'; 900]), frame(0, 0, id, b"y")].concat()).collect();
    assert_eq!(server.receive(&uploads, false), Ok(0));
    // Trailers, of which the first put a field into the table for those of the stream that goes on.
    assert_eq!(server.receive(&frame(1, 5, 3, b"\x40\x03sum\x017"), false), Ok(0));
    let trailers: Vec<u8> = ids().skip(1).flat_map(|id| frame(1, 5, id, b"\xbe")).collect();
    assert_eq!(server.receive(&trailers, false), Ok(0));
    assert_eq!(server.receive(&[frame(0, 0, 1, b"z"), frame(1, 5, 1, b"\xbe")].concat(), false), Ok(0));
    let kinds: Vec<_> = frames(&server.out).into_iter().map(|frame| (frame.0, frame.2)).collect();
    assert_eq!(kinds, [(8, 0); 3], "nothing of that is answered, and the bytes are given back");
    let first = find(&server.streams, 1).map(|key| server.streams[usize::from(key.slot)].state());
    assert_eq!(first, Some(StreamState::HalfClosedRemote));
    server.with(|connection, storage, _| connection.audit(storage.streams, |_| 0));
    // One that was never opened is another matter.
    assert_eq!(server.receive(&frame(0, 0, 243, b"x"), false), Err(Error::StreamIdle));
}

#[test]
fn a_window_is_not_silent_while_an_update_of_ours_is_due() {
    let mut server = begun();
    assert_eq!(server.receive(&[post(1), post(3), post(5)].concat(), false), Ok(3));
    let update = frame(8, 0, 0, &[0, 0, 0, 1]);
    assert!(server.connection.is_silent_next(&update));
    // Bytes that are given back without room to tell it.
    for (id, slot) in [(1, 0), (3, 1), (5, 2)] {
        let data = frame(0, 0, id, &[b'x'; 12_000]);
        let mut used = 0;
        while used < data.len() || !server.connection.is_between_frames() {
            let step = server.with(|connection, storage, out| connection.step(&data[used..], storage, out, 0));
            let step = step.expect("within the windows");
            used += step.consumed;
            if let Event::Data { bytes, .. } = step.event {
                server.connection.take_data(bytes);
                used += bytes;
            }
        }
        server.with(|connection, storage, _| connection.release_deferred(StreamKey { slot, id }, 12_000, storage));
    }
    assert!(!server.connection.is_silent_next(&update), "36,000 bytes are owed");
    let mut full: &mut [u8] = &mut [];
    let mut held = server.connection.clone();
    server.with(|connection, storage, _| {
        assert_eq!(connection.step(&update, storage, &mut full, 0), Err(Error::OutputFull), "it would have been lost");
    });
    // While windows are held nothing is told, as there is more than an eighth left of this one.
    let mut out = Vec::new();
    server.with(|_, storage, _| held.hold_windows(true, storage, &mut out)).expect("room");
    assert!(held.is_silent_next(&update));
    let told = frames(&out).into_iter().filter(|frame| frame.2 == 0).count();
    assert_eq!(told, 0);
}

#[test]
fn streams_that_were_given_up_are_those_from_the_first_to_the_last() {
    let mut given_up = crate::h2::recent::GivenUp::NONE;
    assert!([0, 1, u32::MAX].into_iter().all(|id| !given_up.has(id)));
    given_up.note(9);
    given_up.note(5);
    assert_eq!([3, 5, 7, 9, 11].map(|id| given_up.has(id)), [false, true, true, true, false]);
}

#[test]
fn a_part_of_a_frame_is_told_from_a_whole_one() {
    let server = begun();
    let fields = block(&GET);
    let in_two = [frame(1, 1, 1, &fields[..10]), frame(9, 4, 1, &fields[10..])].concat();
    for whole in [frame(6, 0, 0, &[7; 8]), frame(1, 5, 1, &fields), in_two] {
        let parts = (1..whole.len()).filter(|&end| server.connection.is_part_next(&whole[..end]));
        assert_eq!(parts.count(), whole.len() - 1);
        assert!(!server.connection.is_part_next(&whole));
        assert!(!server.connection.is_part_next(&[&whole[..], &[0]].concat()), "another begins behind it");
    }
    // A body has a time of its own.
    assert!(!server.connection.is_part_next(&frame(0, 0, 1, b"part")[..10]));
    assert!(!server.connection.is_part_next(&[]));
}
