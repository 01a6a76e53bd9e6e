//! What the server sends: windows, priorities, long heads, resets and GOAWAY.

use http::{Method, StatusCode, Version};

use super::held::Held;
use super::{GET, PREFACE_AND_SETTINGS, block, frame, frames};
use crate::Error;
use crate::h1::{BodyLength, Fields, ResponseHead};
use crate::h2::send::SMALL_FRAMES_MAX;
use crate::h2::{Connection, ErrorCode, Event, Repeat, ResetCause, Storage, StreamKey};

struct Server {
    held: Held,
    events: Vec<Event>,
}

impl Server {
    fn new(frames: &[Vec<u8>]) -> Server {
        let mut server = Server { held: Held::new(), events: Vec::new() };
        server.receive(&[vec![PREFACE_AND_SETTINGS.to_vec()], frames.to_vec()].concat());
        server.held.out.clear();
        server
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Connection, &mut Storage<'_>, &mut Vec<u8>) -> R) -> R {
        self.held.with(act)
    }

    fn receive(&mut self, frames: &[Vec<u8>]) {
        let input = frames.concat();
        let mut used = 0;
        loop {
            let step = self.with(|connection, storage, out| connection.step(&input[used..], storage, out, 0));
            let step = step.expect("a valid input");
            used += step.consumed;
            match step.event {
                Event::NeedMore { .. } => return,
                Event::Progress => {}
                Event::Data { bytes, .. } => {
                    self.held.connection.take_data(bytes);
                    used += bytes;
                }
                event => self.events.push(event),
            }
        }
    }

    fn head(&mut self, stream: StreamKey, fields: &[u8], ends: bool) -> Result<(), Error> {
        let head = ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, BodyLength::Unknown)?
            .fields(Fields::check(fields)?);
        self.with(|connection, storage, out| connection.put_response(stream, &head, ends, storage, out))
    }

    fn room(&mut self, stream: StreamKey) -> usize {
        self.with(|connection, storage, _| connection.data_room(stream, 1 << 20, storage))
    }

    fn data(&mut self, stream: StreamKey, len: usize) -> Result<(), Error> {
        self.with(|connection, storage, out| connection.put_data_header(stream, len, false, storage, out))?;
        self.held.out.extend(vec![0; len]);
        Ok(())
    }

    fn take_frames(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        frames(&std::mem::take(&mut self.held.out))
    }
}

fn key(id: u32) -> StreamKey {
    StreamKey { slot: (id / 2 % 8) as u16, id }
}

fn get(id: u32, priority: &str) -> Vec<u8> {
    frame(1, 5, id, &block(&[&GET[..], &[("priority", priority)]].concat()))
}

#[test]
fn bodies_wait_for_both_windows_and_the_frame_size() {
    let mut server = Server::new(&[get(1, ""), get(3, "")]);
    server.head(key(1), b"", false).expect("open");
    assert_eq!(server.room(key(1)), 16_384);
    for _ in 0..3 {
        server.data(key(1), 16_384).expect("room");
    }
    assert_eq!(server.room(key(1)), 65_535 - 3 * 16_384);
    server.data(key(1), 65_535 - 3 * 16_384).expect("room");
    assert_eq!(server.data(key(1), 1), Err(Error::WindowExceeded));
    // The other stream has a window, the connection has none; nothing else can be sent but the end.
    assert_eq!(server.room(key(3)), 0);
    server.receive(&[frame(8, 0, 0, &[0, 0, 0, 9])]);
    assert_eq!((server.room(key(1)), server.room(key(3))), (0, 9));
    // A smaller initial window makes one negative, a larger one mends it (RFC 9113 6.9.2).
    server.receive(&[frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])]);
    assert_eq!(server.room(key(3)), 0);
    server.receive(&[frame(8, 0, 1, &[0, 0, 0xff, 0xff]), frame(8, 0, 1, &[0, 0, 0, 5])]);
    assert_eq!(server.room(key(1)), 5);
    assert!(matches!(server.events.last(), Some(Event::Writable)));
}

#[test]
fn a_window_that_grows_is_told_and_one_that_shrinks_is_not() {
    let mut server = Server::new(&[get(1, "")]);
    let initial = |bytes: u16| frame(4, 0, 0, &[&[0, 4, 0, 0][..], &bytes.to_be_bytes()].concat());
    let is_shut = |server: &Server| server.held.streams[usize::from(key(1).slot)].is_window_shut();
    server.events.clear();
    server.receive(&[initial(0)]);
    assert!(server.events.is_empty() && is_shut(&server));
    server.receive(&[initial(1)]);
    assert!(matches!(server.events[..], [Event::Writable]) && !is_shut(&server));
    server.receive(&[initial(1)]);
    assert_eq!(server.events.len(), 1, "the same as before");
}

#[test]
fn a_connection_is_idle_between_frames_without_streams() {
    let mut server = Server::new(&[]);
    assert!(server.held.connection.is_idle());
    server.receive(&[frame(77, 0, 0, b"not known")[..12].to_vec()]);
    assert!(!server.held.connection.is_idle(), "within a frame");
    let mut server = Server::new(&[get(1, "")]);
    assert!(!server.held.connection.is_idle(), "with a stream");
    server.with(|connection, storage, out| connection.forget(key(1), storage, out)).expect("room");
    assert!(server.held.connection.is_idle());
}

#[test]
fn a_request_is_announced_by_the_head_of_its_first_frame() {
    let server = Server::new(&[get(3, "")]);
    let is_next = |input: &[u8]| server.held.connection.is_request_next(input);
    assert!(is_next(&get(5, "")) && is_next(&get(5, "")[..9]));
    assert!(!is_next(&get(5, "")[..8]), "not known yet");
    assert!(!is_next(&get(3, "")), "trailers");
    assert!(!is_next(&frame(2, 0, 5, &[0; 5])) && !is_next(&frame(0, 0, 5, b"")), "another kind");
    let mut server = Server::new(&[]);
    server.receive(&[frame(77, 0, 0, &[0; 9])[..12].to_vec()]);
    assert!(!server.held.connection.is_request_next(&get(5, "")), "within a frame");
}

#[test]
fn who_waits_to_send_is_known() {
    let mut server = Server::new(&[get(1, ""), get(3, "")]);
    let wait = |server: &mut Server, id, is_waiting| {
        server.with(|connection, storage, _| connection.set_waiting(key(id), is_waiting, storage));
        server.held.connection.has_waiting()
    };
    assert!(!server.held.connection.has_waiting());
    assert!(wait(&mut server, 1, true) && wait(&mut server, 1, true) && wait(&mut server, 3, true));
    assert!(wait(&mut server, 1, false) && !wait(&mut server, 3, false));
    assert!(!server.held.connection.is_window_shut());
    for _ in 0..3 {
        server.data(key(1), 16_384).expect("room");
    }
    server.data(key(1), 65_534 - 3 * 16_384).expect("room");
    assert!(!server.held.connection.is_window_shut());
    server.data(key(1), 1).expect("room");
    assert!(server.held.connection.is_window_shut());
}

/// Sends what may be sent, at most so many frames. How long they are.
fn send_next(server: &mut Server, frames: usize) -> Vec<usize> {
    let mut lens = Vec::new();
    for _ in 0..frames {
        let next = server.with(|connection, storage, _| connection.next_to_send(storage));
        let Some(stream) = next else { break };
        let room = server.room(stream);
        server.data(stream, room).expect("room");
        lens.push(room);
    }
    lens
}

/// Two bodies share the connection's window, of which three bytes are left; the peer gives back what each frame took.
#[test]
fn frames_do_not_stay_as_small_as_the_window_once_was() {
    let mut server = Server::new(&[get(1, "i"), get(3, "i")]);
    let wide = [&[0, 4][..], &0x7fff_0000_u32.to_be_bytes()].concat();
    server.receive(&[frame(4, 0, 0, &wide)]);
    for id in [1, 3] {
        server.head(key(id), b"", false).expect("open");
        server.with(|connection, storage, _| connection.set_waiting(key(id), true, storage));
    }
    let update = |bytes: usize| frame(8, 0, 0, &(bytes as u32).to_be_bytes());
    for _ in 0..3 {
        server.data(key(1), 16_384).expect("room");
    }
    server.data(key(1), 65_535 - 3 * 16_384 - 3).expect("room");
    // Three bytes at a time, a few times: who has a window that small may need just these.
    let mut owed = 3 * 16_384;
    for _ in 0..SMALL_FRAMES_MAX {
        assert_eq!(send_next(&mut server, 9), [3]);
        server.receive(&[update(3)]);
    }
    assert!(server.held.connection.awaits_larger_window());
    assert_eq!(send_next(&mut server, 9), [0; 0]);
    // What comes back meanwhile adds up to a frame that is worth it.
    while server.held.connection.awaits_larger_window() {
        server.receive(&[update(100)]);
        owed -= 100;
    }
    assert_eq!(send_next(&mut server, 9), [1_003 + 100]);
    server.receive(&[update(owed)]);
    assert_eq!(send_next(&mut server, 2), [16_384; 2], "as ever");
}

/// A peer that gives back only what is used up to the last byte gets it, after a while.
#[test]
fn a_small_window_is_used_up_when_nothing_more_comes() {
    let mut server = Server::new(&[get(1, "")]);
    server.head(key(1), b"", false).expect("open");
    server.with(|connection, storage, _| connection.set_waiting(key(1), true, storage));
    assert_eq!(send_next(&mut server, 9), [16_384, 16_384, 16_384, 16_383]);
    for _ in 0..SMALL_FRAMES_MAX {
        server.receive(&[frame(8, 0, 0, &[0, 0, 0, 9]), frame(8, 0, 1, &[0, 0, 0, 9])]);
        assert_eq!(send_next(&mut server, 9), [9]);
    }
    server.receive(&[frame(8, 0, 0, &[0, 0, 0, 9]), frame(8, 0, 1, &[0, 0, 0, 9])]);
    assert_eq!(send_next(&mut server, 9), [0; 0]);
    server.held.connection.send_small();
    assert_eq!(send_next(&mut server, 9), [9]);
    assert!(server.held.connection.is_window_shut() && !server.held.connection.awaits_larger_window());
}

#[test]
fn output_is_needed_when_so_many_control_frames_wait() {
    let mut server = Server::new(&[]);
    server.held.connection.output_sent();
    for number in 1..=64 {
        assert!(!server.held.connection.needs_output());
        server.receive(&[frame(6, 0, 0, &[number; 8])]);
    }
    assert!(server.held.connection.needs_output());
    server.held.connection.output_sent();
    assert!(!server.held.connection.needs_output());
}

#[test]
fn a_connection_may_offer_less_from_the_first_settings_on() {
    let first_settings = |connection: Connection| {
        let (mut connection, mut out) = (connection, Vec::new());
        connection.begin(&mut out).expect("room");
        frames(&out).remove(0).3
    };
    let limits = crate::h2::Limits::DEFAULT;
    let usual = first_settings(Connection::new(&limits));
    let fewer = first_settings(Connection::new(&limits).offering(7, 2_048));
    let value = |settings: &[u8], id: u8| {
        let entry = settings.chunks(6).find(|entry| entry[..2] == [0, id])?;
        entry[2..].first_chunk().map(|value| u32::from_be_bytes(*value))
    };
    assert_eq!((value(&usual, 3), value(&usual, 4)), (Some(128), Some(16_384)));
    assert_eq!((value(&fewer, 3), value(&fewer, 4)), (Some(7), Some(2_048)));
    let more = first_settings(Connection::new(&limits).offering(1_000, 1 << 20));
    assert_eq!(more, usual, "never more than the limits");
}

/// Both tables go where they are told, and come back.
#[test]
fn a_connection_that_waits_needs_no_storage() {
    // The authority enters the decoder's table, the type the encoder's.
    let indexed = frame(1, 5, 1, b"\x82\x86\x84\x41\x01a");
    let mut server = Server::new(&[indexed]);
    assert_eq!(server.held.connection.packed_bytes(), ":authority".len() + "a".len() + 8);
    server.head(key(1), b"content-type: text/html\r\n", true).expect("open");
    let first = server.take_frames();
    let packed_bytes = ":authority".len() + "a".len() + "content-type".len() + "text/html".len() + 2 * 8;
    assert_eq!(server.held.connection.packed_bytes(), packed_bytes);
    let mut packed = vec![0; packed_bytes];
    let [decoder_table, encoder_table] = &mut server.held.tables;
    server.held.connection.pack(decoder_table, encoder_table, &mut packed);
    decoder_table.fill(0xee);
    encoder_table.fill(0xee);
    server.held.connection.unpack(&packed, decoder_table, encoder_table);
    server.events.clear();
    server.receive(&[frame(1, 5, 3, b"\x82\x86\x84\xbe")]);
    assert!(matches!(server.events[..], [Event::Request { .. }]), "the reference is known");
    server.head(key(3), b"content-type: text/html\r\n", true).expect("open");
    let second = server.take_frames();
    assert!(second[0].3.len() < first[0].3.len() && second[0].3.contains(&0xbe), "a reference");
}

#[test]
fn heads_of_any_length_go_out_in_frames_of_the_usual_size() {
    let mut server = Server::new(&[get(1, "")]);
    let long = format!("x: {}\r\n", "y".repeat(20_000));
    server.head(key(1), long.as_bytes(), true).expect("open");
    let frames = server.take_frames();
    assert_eq!(
        frames.iter().map(|frame| (frame.0, frame.1, frame.3.len())).collect::<Vec<_>>(),
        [(1, 1, 16_384), (9, 4, 20_000 + 8 - 16_384)]
    );
    let mut server = Server::new(&[get(1, "")]);
    let too_long = format!("x: {}\r\n", "y".repeat(40_000));
    assert_eq!(server.head(key(1), too_long.as_bytes(), true), Err(Error::HeadTooLarge));
}

#[test]
fn the_urgent_come_first_and_equals_take_turns() {
    let ids = [1, 3, 5, 7, 9];
    let mut server = Server::new(&[get(1, "u=5"), get(3, "i"), get(5, ""), get(7, "i"), get(9, "u=1")]);
    for id in ids {
        server.head(key(id), b"", false).expect("open");
        server.with(|connection, storage, _| connection.set_waiting(key(id), true, storage));
    }
    let mut turns = Vec::new();
    for turn in 0..9 {
        let next = server.with(|connection, storage, _| connection.next_to_send(storage)).expect("all wait");
        turns.push(next.id);
        server.data(next, 1).expect("room");
        if turn == 1 {
            server.with(|connection, storage, _| connection.set_waiting(key(9), false, storage));
        }
        if turn == 6 {
            server.receive(&[frame(16, 0, 0, b"\0\0\0\x01u=0")]);
        }
    }
    assert_eq!(turns, [9, 9, 3, 5, 7, 3, 5, 1, 1]);
}

#[test]
fn a_new_stream_takes_its_turn_behind_those_that_wait() {
    let mut server = Server::new(&[get(1, "i"), get(3, "i")]);
    let begin = |server: &mut Server, id| {
        server.head(key(id), b"", false).expect("open");
        server.with(|connection, storage, _| connection.set_waiting(key(id), true, storage));
    };
    let send = |server: &mut Server| {
        let next = server.with(|connection, storage, _| connection.next_to_send(storage)).expect("all wait");
        server.data(next, 1).expect("room");
        next.id
    };
    begin(&mut server, 1);
    begin(&mut server, 3);
    assert_eq!([(); 3].map(|()| send(&mut server)), [1, 3, 1]);
    server.receive(&[get(5, "i")]);
    begin(&mut server, 5);
    assert_eq!([(); 4].map(|()| send(&mut server)), [3, 1, 5, 3]);
}

#[test]
fn informational_heads_and_trailers() {
    let mut server = Server::new(&[get(1, "")]);
    let early =
        ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::EARLY_HINTS, BodyLength::Empty).expect("valid");
    server.with(|connection, storage, out| {
        connection.put_response(key(1), &early, false, storage, out).expect("open");
        assert_eq!(connection.put_response(key(1), &early, true, storage, out), Err(Error::StateMisuse));
    });
    server.head(key(1), b"", false).expect("open");
    server.with(|connection, storage, out| {
        let fields = Fields::check(b"Sum: 7\r\n").expect("valid");
        connection.put_trailers(key(1), fields, storage, out).expect("open");
        assert_eq!(connection.put_trailers(key(1), fields, storage, out), Err(Error::StreamClosed));
    });
    let frames = server.take_frames();
    assert_eq!(frames.iter().map(|frame| (frame.0, frame.1)).collect::<Vec<_>>(), [(1, 4), (1, 4), (1, 5)]);
    assert_eq!(frames[2].3, b"\0\x03sum\x017");
}

#[test]
fn a_forgotten_stream_is_ended_as_it_deserves() {
    let open = |id| frame(1, 4, id, &block(&GET));
    let mut server = Server::new(&[get(1, ""), open(3), open(5), get(7, "")]);
    server.head(key(1), b"", true).expect("open");
    server.head(key(3), b"", true).expect("open");
    server.take_frames();
    server.with(|connection, storage, out| {
        for id in [1, 3, 5, 7] {
            connection.forget(key(id), storage, out).expect("room");
        }
        assert_eq!(connection.live_streams(), 0);
    });
    let resets: Vec<_> = server.take_frames().into_iter().map(|frame| (frame.0, frame.2, frame.3[3])).collect();
    assert_eq!(
        resets,
        [
            (3, 3, ErrorCode::NoError as u8),
            (3, 5, ErrorCode::InternalError as u8),
            (3, 7, ErrorCode::InternalError as u8)
        ]
    );
    // What was on its way is passed over, and its bytes are given back.
    server.receive(&[
        frame(0, 0, 3, &[0; 16_384]),
        frame(0, 1, 5, &[0; 16_384]),
        frame(1, 5, 5, &block(&[("a", "b")])),
    ]);
    assert_eq!(server.take_frames(), [(8, 0, 0, vec![0, 0, 0x80, 0])]);
}

/// A proxy's connection carries many clients, some of which give up.
#[test]
fn four_streams_that_are_completed_allow_one_more_to_be_reset() {
    let mut server = Server::new(&[]);
    let forget = |server: &mut Server, id| {
        server.with(|connection, storage, out| connection.forget(key(id), storage, out)).expect("room");
    };
    for id in (1..4_000).step_by(10) {
        server.receive(&[get(id, ""), frame(3, 0, id, &[0, 0, 0, 8])]);
        forget(&mut server, id);
        for id in (id + 2..id + 10).step_by(2) {
            server.receive(&[get(id, "")]);
            server.head(key(id), b"", true).expect("open");
            forget(&mut server, id);
        }
    }
    // But no more of them at once than without that.
    let resets = (4_001..4_600).step_by(2).map(|id| [get(id, ""), frame(3, 0, id, &[0, 0, 0, 8])].concat());
    let allowed = resets.take_while(|input| {
        let mut used = 0;
        loop {
            let step = server.with(|connection, storage, out| connection.step(&input[used..], storage, out, 0));
            let Ok(step) = step else { return false };
            used += step.consumed;
            match step.event {
                Event::NeedMore { .. } => return true,
                Event::Reset { stream, .. } => forget(&mut server, stream.id),
                _ => {}
            }
        }
    });
    assert_eq!(allowed.count(), 100);
}

#[test]
fn a_reset_stream_keeps_its_slot_until_it_is_forgotten() {
    let mut server = Server::new(&[get(1, ""), frame(3, 0, 1, &[0, 0, 0, 8])]);
    assert_eq!(server.events.last(), Some(&Event::Reset { stream: key(1), cause: ResetCause::Peer(8) }));
    assert_eq!(server.held.connection.live_streams(), 1);
    assert_eq!(server.head(key(1), b"", true), Err(Error::StreamClosed));
    assert!(server.held.out.is_empty());
}

#[test]
fn held_windows_are_told_later() {
    let mut server = Server::new(&[frame(4, 1, 0, &[]), frame(1, 4, 1, &block(&GET))]);
    server.with(|connection, storage, out| connection.hold_windows(true, storage, out)).expect("room");
    server.receive(&[frame(0, 0, 1, &[0; 12_000])]);
    server.with(|connection, storage, out| connection.release(key(1), 12_000, storage, out)).expect("room");
    assert!(server.held.out.is_empty());
    // A body that was begun comes to its end all the same, a window at a time.
    server.receive(&[frame(0, 0, 1, &[0; 4_000])]);
    assert!(server.held.out.is_empty(), "as long as something of it is in use");
    server.with(|connection, storage, out| connection.release(key(1), 4_000, storage, out)).expect("room");
    assert_eq!(server.take_frames(), [(8, 0, 1, 16_000u32.to_be_bytes().to_vec())]);
    server.receive(&[frame(0, 0, 1, &[0; 10_000])]);
    server.with(|connection, storage, out| connection.release(key(1), 10_000, storage, out)).expect("room");
    assert!(server.held.out.is_empty());
    server.with(|connection, storage, out| connection.hold_windows(false, storage, out)).expect("room");
    assert_eq!(server.take_frames(), [(8, 0, 1, 10_000u32.to_be_bytes().to_vec())]);
    server.receive(&[frame(0, 0, 1, &[0; 16_384])]);
    server.with(|connection, storage, out| connection.release(key(1), 16_384, storage, out)).expect("room");
    assert_eq!(server.take_frames().len(), 2, "the stream's window, and the connection's");
    // Bulk: both windows grow.
    server.with(|connection, storage, out| connection.grow_window(key(1), 100_000, storage, out)).expect("room");
    let increments: Vec<_> = server.take_frames().into_iter().map(|frame| (frame.2, frame.3)).collect();
    assert_eq!(increments, [(1, 100_000u32.to_be_bytes().to_vec()), (0, 100_000u32.to_be_bytes().to_vec())]);
    // What is taken back is not told again.
    server.held.connection.shrink_window(60_000);
    for (sent, told) in [(16_000, 0), (16_000, 0), (16_000, 0), (16_000, 0), (16_000, 0), (16_000, 36_000)] {
        server.receive(&[frame(0, 0, 1, &vec![0; sent])]);
        server.with(|connection, storage, out| connection.release(key(1), sent, storage, out)).expect("room");
        let frames = server.take_frames();
        let update = frames.iter().find(|frame| frame.2 == 0).map_or(vec![0; 4], |frame| frame.3.clone());
        assert_eq!(update, u32::to_be_bytes(told).to_vec());
    }
    // What is still open is not told a second time.
    server.held.connection.shrink_window(50_000);
    server.with(|connection, storage, out| connection.grow_window(key(1), 60_000, storage, out)).expect("room");
    let increments: Vec<_> = server.take_frames().into_iter().map(|frame| (frame.2, frame.3)).collect();
    assert_eq!(increments, [(1, 60_000u32.to_be_bytes().to_vec())], "ten thousand are not worth a frame yet");
    server
        .with(|connection, storage, _| connection.audit(storage.streams, |id| if id == 0 { 50_000 } else { 160_000 }));
    let grown = server.with(|connection, storage, out| connection.grow_window(key(1), i32::MAX as u32, storage, out));
    assert_eq!(grown, Err(Error::WindowOverflow));
}

/// Of a stream's window and of the connection's either may be the one that would be too large (RFC 9113 6.9.1).
#[test]
fn windows_grow_to_the_largest_and_no_further() {
    let open = |id| frame(1, 4, id, &block(&GET));
    let mut server = Server::new(&[frame(4, 1, 0, &[]), open(1), open(3)]);
    server.take_frames();
    let grow = |server: &mut Server, id, bytes| {
        let grown = server.with(|connection, storage, out| connection.grow_window(key(id), bytes, storage, out));
        (grown, server.take_frames().into_iter().map(|frame| (frame.2, frame.3)).collect::<Vec<_>>())
    };
    let most = i32::MAX as u32 - 65_535;
    assert_eq!(grow(&mut server, 1, most + 1), (Err(Error::WindowOverflow), vec![]));
    let increment = most.to_be_bytes().to_vec();
    assert_eq!(grow(&mut server, 1, most), (Ok(()), vec![(1, increment.clone()), (0, increment)]));
    assert_eq!(grow(&mut server, 3, 1), (Err(Error::WindowOverflow), vec![]), "the connection's");
    server.held.connection.shrink_window(1_000_000);
    let left = 65_535 - 16_384;
    assert_eq!(grow(&mut server, 1, left + 1), (Err(Error::WindowOverflow), vec![]), "the stream's");
    let told = (1, left.to_be_bytes().to_vec());
    assert_eq!(grow(&mut server, 1, left), (Ok(()), vec![told]), "the connection's is open still");
}

#[test]
fn a_shutdown_in_two_steps() {
    let mut server = Server::new(&[get(1, "")]);
    let Held { connection, out, .. } = &mut server.held;
    connection.shutdown(out).expect("room");
    let frames = server.take_frames();
    assert_eq!(frames[0], (7, 0, 0, vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
    // What the peer sent before it read that is served.
    server.receive(&[get(3, "")]);
    assert_eq!(server.events.len(), 2);
    server.receive(&[frame(6, 1, 0, &frames[1].3)]);
    assert_eq!(server.take_frames(), [(7, 0, 0, vec![0, 0, 0, 3, 0, 0, 0, 0])]);
    assert!(server.held.connection.is_going_away());
    server.receive(&[get(5, "")]);
    assert_eq!(server.events.len(), 2, "a stream above the last one is passed over");
}

#[test]
fn output_without_room_is_an_error() {
    let mut server = Server::new(&[get(1, "")]);
    let head = ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, BodyLength::Empty).expect("valid");
    let result = server.with(|connection, storage, _| {
        let mut short = [0; 8];
        connection.put_response(key(1), &head, true, storage, &mut &mut short[..])
    });
    assert_eq!(result, Err(Error::OutputFull));
}

#[test]
fn a_small_response_leaves_in_one_piece_if_nobody_waits() {
    let mut server = Server::new(&[get(1, ""), get(3, ""), get(5, "")]);
    let respond = |server: &mut Server, id: u32, body: &[u8]| {
        let head =
            ResponseHead::new(&Method::GET, Version::HTTP_2, StatusCode::OK, BodyLength::Known(body.len() as u64));
        let head = head.expect("a body is allowed");
        server.with(|connection, storage, out| connection.put_whole(key(id), &head, body, storage, out))
    };
    assert_eq!(respond(&mut server, 1, b"ok"), Ok(true));
    let sent = server.take_frames();
    assert_eq!(sent.iter().map(|frame| (frame.0, frame.1, frame.2)).collect::<Vec<_>>(), [(1, 4, 1), (0, 1, 1)]);
    assert_eq!(sent[1].3, b"ok");
    assert_eq!(respond(&mut server, 1, b"ok"), Err(Error::StreamClosed));
    // Nothing is written while another stream waits, nor for a body that is empty or beyond a window.
    server.with(|connection, storage, _| connection.set_waiting(key(3), true, storage));
    assert_eq!(respond(&mut server, 5, b"ok"), Ok(false));
    server.with(|connection, storage, _| connection.set_waiting(key(3), false, storage));
    assert_eq!(respond(&mut server, 5, b""), Ok(false));
    assert_eq!(respond(&mut server, 5, &[0; 16_385]), Ok(false));
    assert!(server.take_frames().is_empty());
    // The whole of what a frame takes, which is more than the scratch memory has room for behind the head.
    assert_eq!(respond(&mut server, 5, &[7; 16_384]), Ok(true));
    let room = server.room(key(3));
    assert_eq!(room, 16_384, "the stream's window is its own");
    assert_eq!(server.take_frames()[1].3.len(), 16_384);
    let sent = 2 + 16_384;
    server.with(|connection, storage, _| {
        assert_eq!(connection.send_window, 65_535 - sent);
        connection.audit(storage.streams, |_| 0);
    });
}

#[test]
fn a_request_that_is_the_one_before_is_the_same_request() {
    use proptest::prelude::*;
    let literal = |name: &str, value: &str, first: u8| {
        [&[first, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    // References, some into a table that other blocks change, and literals that are kept or not.
    let blocks = [
        b"\x82\x86\x84\x41\x01a".to_vec(),
        b"\x82\x86\x84\xbe".to_vec(),
        b"\x82\x86\x84\xbe\xbf".to_vec(),
        [&b"\x82\x86\x84\xbe"[..], &literal("x", "1", 0x40)].concat(),
        [&b"\x82\x86\x84"[..], &literal(":authority", "b", 0)].concat(),
        [&b"\x20\x82\x86\x84"[..], &literal(":authority", "b", 0x40)].concat(),
        [&b"\x3f\xe1\x1f\x82\x86\x84"[..], &literal(":authority", "c", 0x40)].concat(),
    ];
    // Two connections share the scratch memory. One forgets between any two steps, the others do not.
    let run = |which: &[(usize, bool, bool)], forgets: bool| {
        let mut first = Server::new(&[]);
        let mut second = Server::new(&[]);
        let mut seen = Vec::new();
        let mut ids = [1, 1];
        for &(block, ends, is_second) in which {
            let id = &mut ids[usize::from(is_second)];
            let frame = frame(1, 4 | u8::from(ends), *id, &blocks[block]);
            *id += 2;
            if forgets {
                first.held.repeat = Repeat::default();
                first.held.bytes.fill(0);
            }
            let [decoder_table, encoder_table] =
                if is_second { &mut second.held.tables } else { &mut first.held.tables };
            let connection = if is_second { &mut second.held.connection } else { &mut first.held.connection };
            let streams = if is_second { &mut second.held.streams } else { &mut first.held.streams };
            let mut storage = Storage {
                streams,
                decoder_table,
                encoder_table,
                bytes: &mut first.held.bytes,
                slots: &mut first.held.slots,
                repeat: &mut first.held.repeat,
            };
            let mut out = Vec::new();
            let step = connection.step(&frame, &mut storage, &mut out, 0);
            let text = match &step {
                Ok(step) => match &step.event {
                    Event::Request { stream, .. } => {
                        let view = storage.view();
                        let head = view.request();
                        let fields: Vec<_> =
                            view.fields().map(|(name, value)| (name.to_owned(), value.to_vec())).collect();
                        let text = format!("{head:?} {:?} {:?} {fields:?}", view.path(), view.host());
                        connection.forget(*stream, &mut storage, &mut out).expect("room");
                        text
                    }
                    _ => String::new(),
                },
                Err(_) => String::new(),
            };
            seen.push((step.map(|step| step.consumed), text, out));
        }
        seen
    };
    proptest!(|(which in proptest::collection::vec((0..7usize, any::<bool>(), any::<bool>()), 1..40))| {
        prop_assert_eq!(run(&which, false), run(&which, true));
    });
}

#[test]
fn an_offer_holds_when_it_is_acknowledged() {
    let get = |id| frame(1, 5, id, &block(&GET));
    let ack = frame(4, 1, 0, &[]);
    let mut server = Server::new(std::slice::from_ref(&ack));
    let offer = |server: &mut Server, streams, window| {
        server.with(|connection, _, out| connection.offer(streams, window, out)).expect("room")
    };
    assert!(server.held.connection.is_settled() && offer(&mut server, 2, 4_096));
    assert_eq!(frames(&server.held.out), [(4, 0, 0, vec![0, 3, 0, 0, 0, 2, 0, 4, 0, 0, 0x10, 0])]);
    assert!(offer(&mut server, 2, 4_096) && !offer(&mut server, 3, 4_096), "one at a time");
    // They were on their way before it came.
    let post = frame(1, 4, 5, &block(&[&[(":method", "POST")], &GET[1..]].concat()));
    server.receive(&[get(1), get(3), post]);
    assert_eq!(server.held.connection.live_streams(), 3);
    server.receive(&[frame(0, 0, 5, &[0; 10_000]), ack]);
    assert_eq!(server.held.connection.receive_window(&server.held.streams, 5), Some(4_096 - 10_000));
    server.held.out.clear();
    server.receive(&[get(7)]);
    assert_eq!(frames(&server.held.out), [(3, 0, 7, vec![0, 0, 0, ErrorCode::RefusedStream as u8])]);
    // What was released before is told as soon as it is worth a frame of the new window.
    let key = server.events.iter().find_map(|event| match event {
        Event::Request { stream, .. } if stream.id == 5 => Some(*stream),
        _ => None,
    });
    server.held.out.clear();
    server.with(|connection, storage, out| {
        connection.release_deferred(key.expect("a request"), 10_000, storage);
        assert!(out.is_empty());
        connection.hold_windows(false, storage, out).expect("room");
    });
    assert_eq!(frames(&server.held.out), [(8, 0, 5, 10_000u32.to_be_bytes().to_vec())]);
    assert!(offer(&mut server, 128, 16_384), "all that the limits allow");
    server.receive(&[frame(4, 1, 0, &[]), get(9)]);
    assert_eq!(server.held.connection.receive_window(&server.held.streams, 5), Some(16_384));
    assert_eq!(server.held.connection.live_streams(), 4);
}

mod bounds {
    use proptest::prelude::*;

    use crate::h1::put_field;

    /// Values whose length takes two bytes more in HPACK than in text, and that Huffman would make longer.
    #[test]
    fn many_long_values_are_within_the_bound() {
        let mut lines = Vec::new();
        (10..50).for_each(|name| put_field(&mut lines, &format!("x-{name}"), &[b'~'; 255]).expect("valid"));
        let own = super::Fields::check(&lines).expect("checked");
        let mut server = super::Server::new(&[super::get(1, "")]);
        server.head(super::key(1), &lines, false).expect("open");
        let len = server.held.out.len();
        assert!(len > lines.len() && len <= crate::h2::head_bytes_max(own), "{len} bytes");
        assert!(crate::h2::head_bytes_max(own) < len + len / 32, "and not far from it");
    }

    proptest! {
        #[test]
        fn no_head_is_longer_than_its_bound(
            fields in proptest::collection::vec(("[a-z][a-z-]{0,200}|date|set-cookie|content-type", "[!-~]{0,600}"), 0..8)
        ) {
            let mut lines = Vec::new();
            for (name, value) in &fields {
                let _reserved = put_field(&mut lines, name, value.as_bytes());
            }
            let mut server = super::Server::new(&[super::frame(1, 5, 1, &super::block(&super::GET))]);
            let key = match server.events[0] {
                super::Event::Request { stream, .. } => stream,
                ref other => panic!("{other:?}"),
            };
            let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
            let own = super::Fields::check(&lines).expect("checked");
            let length = super::BodyLength::Known(u64::MAX);
            let head = super::ResponseHead::new(&super::Method::GET, super::Version::HTTP_2, super::StatusCode::IM_A_TEAPOT, length)
                .expect("valid").date(&date).fields(own);
            // The table's size was changed twice before.
            server.receive(&[super::frame(4, 0, 0, &[0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 15, 0])]);
            server.held.out.clear();
            server.with(|connection, storage, out| connection.put_response(key, &head, false, storage, out)).expect("room");
            prop_assert!(server.held.out.len() <= crate::h2::head_bytes_max(own), "{} bytes", server.held.out.len());
        }
    }
}
