//! Attacks, by the names under which they are known, and the limits that stop them.

use super::{GET, block, frame, frames, serve};
use crate::Error;
use crate::h2::guard::Guard;
use crate::h2::{ErrorCode, Limits};

fn get(id: u32) -> Vec<u8> {
    frame(1, 5, id, &block(&GET))
}

fn open(id: u32) -> Vec<u8> {
    frame(1, 4, id, &block(&GET))
}

fn odd(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

/// CVE-2023-44487.
#[test]
fn rapid_resets() {
    let input: Vec<_> = odd(1_000).flat_map(|id| [open(id), frame(3, 0, id, &[0, 0, 0, 8])]).collect();
    let served = serve(&input);
    assert_eq!(served.end, Err(Error::Flood));
    assert_eq!(served.events.iter().filter(|event| event.starts_with("request")).count(), 101);
}

/// CVE-2025-8671: the peer makes us reset its streams.
#[test]
fn made_you_reset() {
    let patterns: [fn(u32) -> Vec<u8>; 4] = [
        |id| frame(8, 0, id, &[0; 4]),
        |id| frame(8, 0, id, &[0x7f, 0xff, 0xff, 0xff]),
        |id| frame(2, 0, id, &[0; 4]),
        |id| frame(1, 4, id, &block(&[("x", "y")])),
    ];
    for pattern in patterns {
        let input: Vec<_> = odd(1_000).flat_map(|id| [open(id), pattern(id)]).collect();
        let served = serve(&input);
        assert_eq!(served.end, Err(Error::Flood));
        let resets = frames(&served.output).iter().filter(|(kind, ..)| *kind == 3).count();
        assert_eq!(resets, 100);
    }
    // Requests that are malformed, or answered without a handler.
    for fields in [vec![("x", "y")], [&GET[..], &[("expect", "x")]].concat()] {
        let input: Vec<_> = odd(1_000).map(|id| frame(1, 5, id, &block(&fields))).collect();
        assert_eq!(serve(&input).end, Err(Error::Flood));
    }
}

/// haproxy 2.6 answers each frame with one that was on its way when it reset the stream.
#[test]
fn resets_of_ended_streams_are_overhead() {
    let again = |count| vec![frame(3, 0, 1, &[0, 0, 0, 5]); count];
    let served = serve(&[vec![open(1), frame(3, 0, 1, &[0, 0, 0, 8])], again(1_000), vec![get(3)]].concat());
    assert!(served.end.is_ok());
    assert_eq!(served.events.iter().filter(|event| event.starts_with("reset")).count(), 1);
    assert!(served.events.last().is_some_and(|event| event.starts_with("request 3")), "{:?}", served.events.last());
    assert_eq!(serve(&[vec![open(1)], again(30_000)].concat()).end, Err(Error::Flood));
}

#[test]
fn resets_are_allowed_again_with_time() {
    let limits = Limits::DEFAULT.resets_max(3, 2).expect("valid");
    let mut guard = Guard::new(&limits);
    let allowed = |guard: &mut Guard, now_ms| (0..10).take_while(|_| guard.reset(&limits, now_ms).is_ok()).count();
    assert_eq!(allowed(&mut guard, 5_000), 3);
    assert_eq!(allowed(&mut guard, 5_499), 0);
    assert_eq!(allowed(&mut guard, 5_500), 1);
    assert_eq!(allowed(&mut guard, 6_500), 2);
    assert_eq!(allowed(&mut guard, u64::MAX), 3);
    assert_eq!(allowed(&mut guard, 0), 0, "a clock that goes back gives nothing");
}

/// CVE-2024-27316.
#[test]
fn continuation_flood() {
    for (continuations, end) in [(8, Ok(())), (9, Err(Error::Flood))] {
        let mut input = vec![frame(1, 1, 1, &block(&GET))];
        input.extend((1..continuations).map(|_| frame(9, 0, 1, &[])));
        input.push(frame(9, 4, 1, &[]));
        assert_eq!(serve(&input).end, end);
    }
}

/// CVE-2019-9518.
#[test]
fn empty_frames() {
    let patterns: [Vec<u8>; 3] = [frame(0, 0, 1, &[]), frame(0, 8, 1, &[0]), frame(99, 0, 1, &[])];
    for pattern in patterns {
        for (count, end) in [(8, Ok(())), (9, Err(Error::Flood))] {
            let mut input = vec![open(1)];
            input.extend(std::iter::repeat_n(pattern.clone(), count));
            assert_eq!(serve(&input).end, end, "{pattern:?}");
        }
        // Not in a row.
        let input: Vec<_> = (0..20).flat_map(|_| [pattern.clone(), frame(0, 0, 1, b"x")]).collect();
        assert_eq!(serve(&[vec![open(1)], input].concat()).end, Ok(()));
    }
}

/// CVE-2019-9512, 9515, 9511 and 9513: pings, settings, windows, priorities without a use. First a peer that does not
/// read has to; then it is told to go; then it is cut off.
#[test]
fn floods_of_control_frames() {
    let patterns = [
        frame(6, 0, 0, &[7; 8]),
        frame(4, 0, 0, &[0, 4, 0, 0, 1, 0]),
        frame(8, 0, 0, &[0, 0, 0, 1]),
        frame(2, 0, 9, &[0; 5]),
    ];
    for pattern in patterns {
        let served = serve(&vec![pattern.clone(); 40_000]);
        assert_eq!(served.end, Err(Error::Flood), "{pattern:?}");
        let is_answered = matches!(pattern[3], 4 | 6);
        assert_eq!(served.events.first().map(String::as_str), is_answered.then_some("need output"));
        let goaways: Vec<_> = frames(&served.output).into_iter().filter(|(kind, ..)| *kind == 7).collect();
        assert_eq!(goaways.len(), 2, "one to warn, one to end");
        assert!(goaways.iter().all(|(.., payload)| payload[7] == ErrorCode::EnhanceYourCalm as u8));
        // As many among requests are no flood.
        let honest: Vec<_> = odd(2_000).flat_map(|id| [get(id), pattern.clone()]).collect();
        assert_eq!(serve(&honest).end, Ok(()), "{pattern:?}");
    }
}

/// A ping every ten seconds is no flood, however long it lasts.
#[test]
fn a_patient_peer_is_not_cut_off() {
    let limits = Limits::DEFAULT;
    let mut guard = Guard::new(&limits);
    for ping in 0..1_000_000 {
        assert!(guard.overhead(17, ping * 10_000).is_ok());
    }
}

#[test]
fn what_is_free_of_overhead_is_counted_to_the_byte() {
    for payload in [0, 1, 1_000] {
        let mut guard = Guard::new(&Limits::DEFAULT);
        guard.payload(payload);
        // Twice: both sums begin anew when there was too much.
        for free in [64 * 1_024 + 8 * payload, 64 * 1_024] {
            let before = guard.misbehaviour;
            assert_eq!((guard.overhead(free - 1, 0), guard.overhead(1, 0)), (Ok(()), Ok(())));
            assert_eq!(guard.misbehaviour, before, "{free} bytes are free");
            assert_eq!(guard.overhead(1, 0), Ok(()));
            assert_ne!(guard.misbehaviour, before, "one more is not");
        }
    }
}

/// One byte in each frame, with as much padding as can be.
#[test]
fn padding_is_overhead() {
    let mut payload = vec![0; 257];
    payload[0] = 255;
    let mut input = vec![open(1)];
    input.extend(std::iter::repeat_n(frame(0, 8, 1, &payload), 3_000));
    assert_eq!(serve(&input).end, Err(Error::Flood));
}

#[test]
fn streams_at_a_time() {
    // 16 slots, none of which is given free before its request is complete.
    let mut input: Vec<_> = odd(17).map(open).collect();
    input.push(frame(0, 1, 1, b""));
    input.push(get(35));
    let served = serve(&input);
    assert_eq!(served.end, Ok(()));
    assert_eq!(served.events[16..], ["need streams", "end 1", "request 35 GET / [] true"]);
    let of_33: Vec<_> = frames(&served.output).into_iter().filter(|frame| frame.2 == 33).collect();
    assert!(of_33[0].0 == 1 && of_33[0].3.windows(3).any(|part| part == b"503"), "{of_33:?}");
    assert_eq!(of_33[1..], [(3, 0, 33, vec![0, 0, 0, ErrorCode::NoError as u8])]);
}

#[test]
fn more_data_than_the_window() {
    let acknowledged = frame(4, 1, 0, &[]);
    let data = |len: usize| frame(0, 0, 1, &vec![b'x'; len]);
    // 5,000 bytes are not worth an update yet.
    for (last, is_fine) in [(11_384, true), (11_385, false)] {
        let served = serve(&[acknowledged.clone(), open(1), data(5_000), data(last)]);
        assert_eq!(served.end, Ok(()));
        let reset = frames(&served.output).into_iter().find(|(kind, ..)| *kind == 3);
        assert_eq!(reset, (!is_fine).then(|| (3, 0, 1, vec![0, 0, 0, ErrorCode::FlowControlError as u8])));
    }
}

/// The ends of each range are taken and change one limit; what is beyond them is refused.
#[test]
fn limits_have_ranges() {
    let limits = Limits::DEFAULT;
    for streams_max in [1, 1_024] {
        assert_eq!(limits.streams_max(streams_max), Ok(Limits { streams_max, ..limits }));
    }
    for header_list_bytes_max in [4_096, 32_768] {
        let expected = Limits { header_list_bytes_max, ..limits };
        assert_eq!(limits.header_list_bytes_max(header_list_bytes_max), Ok(expected));
    }
    for fields_max in [8, 256] {
        assert_eq!(limits.fields_max(fields_max), Ok(Limits { fields_max, ..limits }));
    }
    for window_bytes in [1_024, 1 << 20] {
        assert_eq!(limits.window_bytes(window_bytes), Ok(Limits { window_bytes, ..limits }));
    }
    for continuations_max in [0, 64] {
        assert_eq!(limits.continuations_max(continuations_max), Ok(Limits { continuations_max, ..limits }));
    }
    for control_frames_max in [8, 1_024] {
        assert_eq!(limits.control_frames_max(control_frames_max), Ok(Limits { control_frames_max, ..limits }));
    }
    let resets = Limits { resets_burst: 1, resets_per_second: 2, ..limits };
    assert_eq!(limits.resets_max(1, 2), Ok(resets));
    for encoder_table_bytes_max in [0, 4_095] {
        let expected = Limits { encoder_table_bytes_max, ..limits };
        assert_eq!(limits.encoder_table_bytes_max(encoder_table_bytes_max), Ok(expected));
    }
    let beyond = [
        limits.streams_max(0),
        limits.streams_max(1_025),
        limits.header_list_bytes_max(4_095),
        limits.header_list_bytes_max(32_769),
        limits.fields_max(7),
        limits.fields_max(257),
        limits.window_bytes(1_023),
        limits.window_bytes((1 << 20) + 1),
        limits.continuations_max(65),
        limits.control_frames_max(7),
        limits.control_frames_max(1_025),
        limits.resets_max(0, 1),
        limits.resets_max(1, 0),
        limits.encoder_table_bytes_max(4_097),
    ];
    assert_eq!(beyond, [Err(Error::LimitInvalid); 14]);
}
