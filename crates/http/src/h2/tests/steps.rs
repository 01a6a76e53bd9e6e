//! What comes, what is sent for it, and what is waited for then.

use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;

use http::StatusCode;
use plimsoll_conformance::frames::{
    ACK, CANCEL, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, Frame, GOAWAY,
    HEADERS, INITIAL_WINDOW_SIZE, NO_ERROR, PING, PREFACE, PROTOCOL_ERROR, RST_STREAM, SETTINGS, WINDOW_UPDATE, cancel,
    frame, get, request, window_update,
};

use super::bench::{Bench, hello, with_connection};
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::script::{Armed, Takes};
use crate::exchange::response::{Body, Response};
use crate::h2::{Step, TurnWait};

fn kinds(frames: &[Frame]) -> Vec<(u8, u8, u32)> {
    frames.iter().map(|frame| (frame.kind, frame.flags, frame.stream)).collect()
}

fn text(bytes: usize) -> Response {
    Response::new(StatusCode::OK).body(Body::from(vec![b'x'; bytes]))
}

impl Bench {
    /// A part of a request's body, as its handler gets it.
    fn chunk(&self) -> Poll<Result<Option<Vec<u8>>, Error>> {
        let cx = &mut Context::from_waker(Waker::noop());
        self.calls().poll_chunk(self.key, self.begun[0], cx).map_ok(|chunk| chunk.map(|lease| lease.to_vec()))
    }
}

#[test]
fn a_preface_is_answered_with_settings_and_more_is_waited_for() {
    with_connection(|mut bench| async move {
        assert_eq!(bench.go_on(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()), Step::Rest);
        assert_eq!(kinds(&bench.frames()), [(SETTINGS, 0, 0), (SETTINGS, ACK, 0)]);
        assert_eq!((bench.line.armed, bench.alone.counters().active_now()), (Armed::Receive, 1));
        assert_eq!(bench.line.due, Some(Duration::from_secs(1)), "what it needs not is given back then");
        assert_eq!(bench.due().await, Step::Rest);
        assert_eq!(bench.line.due, Some(bench.alone.config.head_timeout - Duration::from_secs(1)));
        assert_eq!(bench.go_on(&frame(SETTINGS, ACK, 0, &[])), Step::Rest);
        assert_eq!(bench.alone.counters().active_now(), 0, "it is parked");
        bench.end();
    });
}

#[test]
fn a_head_in_any_split_is_one_request() {
    let all = [hello(&[]), request(1, "GET", "/some/where", &[("a", "b")], END_STREAM)].concat();
    for at in 1..all.len() {
        with_connection(|mut bench| {
            let (first, second) = (all[..at].to_vec(), all[at..].to_vec());
            async move {
                assert_eq!(bench.go_on(&first), Step::Rest);
                assert_eq!((bench.paths.len(), bench.line.armed), (0, Armed::Receive), "split at {at}");
                assert_eq!(bench.go_on(&second), Step::Rest);
                assert_eq!(bench.paths, ["/some/where"]);
                bench.frames();
                bench.answer(bench.begun[0], text(3));
                assert_eq!(bench.go_on(&[]), Step::Rest);
                assert_eq!(kinds(&bench.frames()), [(HEADERS, END_HEADERS, 1), (DATA, END_STREAM, 1)]);
                assert_eq!(bench.alone.counters().exchanges_now(), 0, "the socket has taken all of it");
                bench.end();
            }
        });
    }
}

#[test]
fn a_body_comes_to_its_handler_and_the_window_is_given_back_when_it_is_taken() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), request(1, "POST", "/", &[], 0)].concat());
        bench.frames();
        assert!(bench.chunk().is_pending());
        let part = vec![b'a'; bench.alone.config.http2_limits.window() as usize / 2];
        for _ in 0..2 {
            assert_eq!(bench.go_on(&frame(DATA, 0, 1, &part)), Step::Rest);
        }
        assert_eq!(kinds(&bench.frames()), [], "nobody has taken it");
        assert!(matches!(bench.chunk(), Poll::Ready(Ok(Some(chunk))) if chunk.len() == 2 * part.len()));
        assert_eq!(bench.go_on(&[]), Step::Rest);
        let frames = bench.frames();
        assert_eq!(kinds(&frames), [(WINDOW_UPDATE, 0, 1)]);
        assert_eq!(frames[0].increment() as usize, 2 * part.len());
        bench.go_on(&frame(DATA, END_STREAM, 1, &[]));
        assert!(matches!(bench.chunk(), Poll::Ready(Ok(None))));
        bench.end();
    });
}

#[test]
fn a_body_beyond_its_window_ends_with_the_code_for_that() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), request(1, "POST", "/", &[], 0)].concat());
        bench.frames();
        let window = bench.alone.config.http2_limits.window() as usize;
        assert_eq!(bench.go_on(&frame(DATA, 0, 1, &vec![0; window])), Step::Rest);
        assert_eq!(kinds(&bench.frames()), [], "so much it may send");
        assert_eq!(bench.go_on(&frame(DATA, 0, 1, &[0])), Step::Rest);
        let frames = bench.frames();
        assert_eq!((frames[0].kind, frames[0].error_code()), (RST_STREAM, FLOW_CONTROL_ERROR));
        assert!(matches!(bench.chunk(), Poll::Ready(Err(Error::Disconnected))));
        bench.end();
    });
}

#[test]
fn an_answer_goes_as_far_as_the_windows_of_its_peer_and_is_cut_when_they_stay_shut() {
    with_connection(|mut bench| async move {
        let small = [0, INITIAL_WINDOW_SIZE, 0, 0, 0, 10];
        bench.go_on(&[hello(&small), get(1, "/a"), get(3, "/b")].concat());
        bench.frames();
        for stream in bench.begun.clone() {
            bench.answer(stream, text(2_000));
        }
        assert_eq!(bench.go_on(&[]), Step::Rest);
        let sent = |frames: &[Frame]| -> usize {
            frames.iter().filter(|frame| frame.kind == DATA).map(|frame| frame.payload.len()).sum()
        };
        assert_eq!(sent(&bench.frames()), 20, "ten of each");
        assert_eq!(bench.go_on(&window_update(3, 1_990)), Step::Rest);
        let frames = bench.frames();
        assert_eq!((sent(&frames), frames.last().map(Frame::ends_stream)), (1_990, Some(true)));
        assert_eq!(bench.line.due, Some(bench.alone.config.send_timeout));
        assert_eq!(bench.due().await, Step::EndWaits);
        bench.step(|http2, env, _, _| {
            http2.end_overdue(env, plimsoll_runtime::now());
            Step::GoOn
        });
        assert_eq!(bench.go_on(&[]), Step::Rest);
        let frames = bench.frames();
        assert_eq!(kinds(&frames), [(RST_STREAM, 0, 1)]);
        assert_eq!(frames[0].error_code(), CANCEL);
        bench.end();
    });
}

#[test]
fn who_resets_a_stream_gets_nothing_of_it_and_its_handler_learns_that() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), request(1, "POST", "/", &[], 0), get(3, "/b")].concat());
        bench.frames();
        assert_eq!(bench.go_on(&cancel(1)), Step::Rest);
        assert!(matches!(bench.chunk(), Poll::Ready(Err(Error::Disconnected))));
        for stream in bench.begun.clone() {
            bench.answer(stream, text(1));
        }
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(kinds(&bench.frames()), [(HEADERS, END_HEADERS, 3), (DATA, END_STREAM, 3)]);
        bench.end();
    });
}

#[test]
fn a_frame_that_is_wrong_ends_the_connection_with_its_code() {
    let large = frame(DATA, 0, 1, &[0; 16 * 1_024 + 1]);
    let wrong: [(Vec<u8>, u32); 4] = [
        (frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        (frame(PING, 0, 0, b"short"), FRAME_SIZE_ERROR),
        (large, FRAME_SIZE_ERROR),
        (window_update(0, 0x7fff_ffff), FLOW_CONTROL_ERROR),
    ];
    for (bytes, code) in wrong {
        with_connection(|mut bench| async move {
            bench.go_on(&[hello(&[]), get(1, "/")].concat());
            bench.frames();
            bench.line.takes = Takes::Nothing;
            assert_eq!(bench.go_on(&bytes), Step::Rest, "the GOAWAY is on its way");
            let frames = bench.frames();
            assert_eq!(kinds(&frames), [(GOAWAY, 0, 0)]);
            assert_eq!((frames[0].error_code(), &frames[0].payload[..4]), (code, &[0, 0, 0, 1][..]));
            assert!(matches!(bench.chunk(), Poll::Ready(Err(Error::Disconnected))), "the handler learns that");
            bench.line.takes = Takes::All;
            bench.on(|http2| http2.sent(&bench.alone.desk));
            assert_eq!(bench.go_on(&get(3, "/more")), Step::Linger, "what comes behind it is not looked at");
            assert_eq!((bench.paths.len(), bench.line.sent.len()), (1, 0));
            bench.end();
        });
    }
}

#[test]
fn who_does_not_acknowledge_settings_or_sends_half_a_frame_is_told_that_its_time_is_over() {
    for half in [false, true] {
        with_connection(|mut bench| async move {
            match half {
                false => bench.go_on(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()),
                true => bench.go_on(&[&hello(&[])[..], &get(1, "/")[..12]].concat()),
            };
            bench.frames();
            if !half {
                assert_eq!(bench.due().await, Step::Rest, "it gives back what it needs not");
            }
            let begun = if half { Duration::ZERO } else { Duration::from_secs(1) };
            assert_eq!(bench.line.due, Some(bench.alone.config.head_timeout - begun));
            assert_eq!(bench.due().await, Step::GoOn);
            assert_eq!(bench.go_on(&[]), Step::Leave);
            assert_eq!(kinds(&bench.frames()), [(GOAWAY, 0, 0)]);
            bench.end();
        });
    }
}

#[test]
fn a_peer_that_takes_nothing_is_closed_in_time() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        bench.frames();
        bench.line.takes = Takes::Nothing;
        // Longer than its window: it is not over, and nothing is given back.
        bench.answer(bench.begun[0], text(70_000));
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(bench.line.due, Some(bench.alone.config.send_timeout));
        assert_eq!(bench.due().await, Step::Close(ExchangeEnd::Timeout));
        bench.end();
    });
}

#[test]
fn a_drain_tells_the_peer_in_two_steps_and_ends_behind_the_last_answer() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        bench.frames();
        let goaway = |bench: &mut Bench| {
            let frames = bench.frames();
            assert_eq!((frames[0].kind, frames[0].error_code()), (GOAWAY, NO_ERROR));
            u32::from_be_bytes(*frames[0].payload.first_chunk().expect("four bytes"))
        };
        bench.step(|http2, env, _, _| {
            http2.send_goaway(env);
            Step::GoOn
        });
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(goaway(&mut bench), 0x7fff_ffff, "those that are on their way are served");
        bench.go_on(&get(3, "/late"));
        assert_eq!(bench.begun.len(), 2);
        assert_eq!(bench.due().await, Step::GoOn);
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(goaway(&mut bench), 3);
        bench.go_on(&get(5, "/too/late"));
        assert_eq!(bench.begun.len(), 2);
        bench.frames();
        bench.answer(bench.begun[0], text(3));
        assert_eq!(bench.go_on(&[]), Step::Rest);
        bench.answer(bench.begun[1], text(3));
        assert_eq!(bench.go_on(&[]), Step::Linger);
        assert_eq!(
            kinds(&bench.frames())[1..],
            [(DATA, END_STREAM, 1), (HEADERS, END_HEADERS, 3), (DATA, END_STREAM, 3)]
        );
        bench.end();
    });
}

#[test]
fn an_end_of_the_peer_closes_what_has_nothing_to_do_and_else_waits_for_answers() {
    with_connection(|mut bench| async move {
        bench.go_on(&hello(&[]));
        assert_eq!(bench.step(|http2, _, line, _| http2.ended(line)), Step::Close(ExchangeEnd::Peer));
        bench.go_on(&get(1, "/"));
        bench.frames();
        bench.answer(bench.begun[0], text(70_000));
        assert_eq!(bench.step(|http2, _, line, _| http2.ended(line)), Step::GoOn);
        assert_eq!(bench.go_on(&[]), Step::Rest, "it goes on as far as the window allows");
        bench.on(|http2| http2.sent(&bench.alone.desk));
        // That is given no more.
        assert_eq!(bench.go_on(&[]), Step::Linger);
        assert!(!bench.frames().iter().any(Frame::ends_stream));
        bench.end();
    });
}

#[test]
fn a_request_whose_turn_it_is_not_waits_with_all_that_came() {
    with_connection(|mut bench| async move {
        bench.go_on(&hello(&[]));
        bench.says.waits_for_turn = true;
        assert_eq!(bench.go_on(&get(1, "/")), Step::Rest);
        assert_eq!((bench.paths.len(), bench.on(|http2| http2.turn)), (0, TurnWait::Awaited));
        assert_eq!(bench.line.armed, Armed::Watch, "nothing more is read");
        bench.says.waits_for_turn = false;
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(bench.paths, ["/"]);
        // Too many: it is answered undecoded.
        bench.on(|http2| http2.turn = TurnWait::Refused);
        bench.frames();
        assert_eq!(bench.go_on(&get(3, "/")), Step::Rest);
        let frames = bench.frames();
        assert_eq!((bench.paths.len(), frames.len()), (1, 1));
        assert!(frames[0].has_status(503) && frames[0].stream == 3);
        bench.end();
    });
}

#[test]
fn what_is_there_is_received_or_waits_in_the_socket_for_a_place() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        assert_eq!(bench.line.armed, Armed::Readable, "nothing is received without a place while a stream is there");
        let request = get(3, "/more");
        bench.line.incoming = Some(request.clone());
        let Bench { says, alone, line, key, .. } = &mut bench;
        let env = crate::h2::Env::new(&alone.desk, &alone.shared);
        let received = crate::h2::Http2s::with_http2(alone, *key, |http2| http2.receive(env, says, line, *key));
        assert_eq!(received, Some(Step::Received(request.len())));
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert_eq!(bench.paths, ["/", "/more"]);
        bench.frames();
        bench.end();
    });
}

#[test]
fn who_is_idle_is_told_and_who_calms_not_is_refused_in_a_constant() {
    let mut refusal = crate::h2::REFUSAL.to_vec();
    let frames: Vec<_> = ::core::iter::from_fn(|| Frame::take_from(&mut refusal)).collect();
    assert_eq!(kinds(&frames), [(SETTINGS, 0, 0), (GOAWAY, 0, 0)]);
    assert_eq!(frames[1].error_code(), ENHANCE_YOUR_CALM);
    with_connection(|mut bench| async move {
        bench.go_on(&hello(&[]));
        bench.frames();
        assert_eq!(bench.due().await, Step::Rest, "it rests");
        assert_eq!(bench.line.due, Some(bench.alone.config.keep_alive_timeout - Duration::from_secs(1)));
        assert_eq!(bench.due().await, Step::GoOn);
        assert_eq!(bench.go_on(&[]), Step::Linger);
        assert_eq!(kinds(&bench.frames()), [(GOAWAY, 0, 0), (PING, 0, 0), (GOAWAY, 0, 0)]);
        bench.end();
    });
}
