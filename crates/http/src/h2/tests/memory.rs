//! Steps that find no room.

use ::core::task::{Context, Waker};
use ::core::time::Duration;

use http::StatusCode;
use plimsoll_codec::h1::BodyLength;
use plimsoll_codec::h2::{ErrorCode, StreamKey};
use plimsoll_pool::{Kind, Priority};
use plimsoll_runtime::memory::Level;
use plimsoll_slab::Key;

use super::bench::{Bench, hello, with_connection};
use crate::base::config::Config;
use crate::base::counters::Shed;
use crate::base::exchange_end::ExchangeEnd;
use crate::exchange::line::Line;
use crate::exchange::line::script::Takes;
use crate::exchange::output::{Output, STALLED_AFTER};
use crate::exchange::response::Response;
use crate::h2::offer::offering;
use crate::h2::room::STEP_BYTES_MAX;
use crate::h2::streams::{Ending, Incoming, Outgoing, Stage};
use crate::h2::{Env, Http2, Step, Tables};
use crate::memory::wait::MemoryWait;
use crate::memory::waits::{Grant, SPARED_OF_HOST, Waits};
use fill::fill;
use plimsoll_conformance::frames::{ACK, PING, SETTINGS, cancel, frame, get, request};

#[path = "../../../tests/rig/memory.rs"]
#[allow(dead_code, reason = "the suites use the rest of it")]
mod fill;

impl Bench {
    /// Takes all memory, and all that is kept for answers.
    fn fill(&self) -> impl Drop + use<> {
        struct Held(#[allow(dead_code, reason = "held until it is dropped")] Vec<plimsoll_runtime::Lease>);
        impl Drop for Held {
            fn drop(&mut self) {}
        }
        let mut held = fill(1);
        held.extend(::core::iter::from_fn(|| self.alone.reserve.take()));
        Held(held)
    }
}

#[test]
fn the_end_of_an_answer_is_not_due_any_more_when_its_peer_has_reset_the_stream() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        let stream = bench.begun[0];
        let mut response = Response::new(StatusCode::OK);
        bench.calls().begin(bench.key, stream, &mut response, BodyLength::Unknown).expect("room for a head");
        bench.on_exchange(stream, |exchange| exchange.must_finish = 1);
        // All of it has left.
        bench.on(|http2| http2.output = Output::default());
        let state = |bench: &Bench, stream: StreamKey| {
            bench.on_exchange(stream, |exchange| (exchange.ending, exchange.response)).expect("its handler runs")
        };
        let held = bench.fill();
        bench.calls().finish(bench.key, stream).expect("it is there");
        assert_eq!(state(&bench, stream), (Some(Ending::Finish), Outgoing::Body), "there is no room for its end");
        drop(held);
        let mut http2 = bench.take();
        let env = bench.env();
        let handler = http2.with_parts(env, |parts| parts.cut(stream, (ErrorCode::Cancel, ExchangeEnd::Peer)));
        assert!(handler.is_none(), "it must finish");
        assert_eq!(http2.answers, 0);
        http2.pump(env);
        assert!(http2.phase.is_open(), "the connection lives");
        bench.put(http2);
        assert_eq!(state(&bench, stream), (None, Outgoing::Reset));
        bench.on_exchange(stream, |last| (last.must_finish, last.stage) = (0, Stage::Over));
        bench.on(|http2| http2.with_parts(bench.env(), |parts| parts.end_if_done(stream)));
        assert_eq!(bench.on(|http2| http2.codec.live_streams()), 0, "the slot is free");
        bench.end();
    });
}

#[test]
fn who_says_that_a_body_may_come_does_so_with_what_was_granted() {
    with_connection(|mut bench| async move {
        let expects = [("expect", "100-continue"), ("content-length", "3")];
        bench.go_on(&[hello(&[]), request(1, "POST", "/", &expects, 0)].concat());
        let stream = bench.begun[0];
        // What is there is full, and of the answer reserve nothing is left.
        bench.on(|http2| http2.output = Output::default());
        let granted = bench.alone.pool.try_acquire(1_024, Kind::Buffers).expect("room");
        let held = bench.fill();
        bench.alone.keep_for(bench.key, Grant::Lent(Some(granted)));
        let polled = bench.calls().poll_chunk(bench.key, stream, &mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it waits for the body");
        let said = bench.on_exchange(stream, |exchange| (exchange.needs_room, exchange.request));
        assert_eq!(said, Some((false, Incoming::Body)));
        assert_eq!(bench.alone.kept_for.get(), None);
        assert!(bench.on(|http2| !http2.output.is_empty()), "it was said");
        drop(held);
        bench.end();
    });
}

#[test]
fn what_is_spared_is_for_those_with_a_place_in_line() {
    with_connection(|bench| async move {
        let env = bench.env();
        let keys: Vec<Key> = (0..SPARED_OF_HOST as u64 + 2).map(|at| Key::unpack(0x03_0000_0100 + at).1).collect();
        let mut connections: Vec<_> = keys.iter().map(|_| Http2::new(env, 0).expect("room")).collect();
        let held = fill(1);
        // The beginning of a frame, which came before the line was seen.
        let mut keep = |(key, http2): (&Key, &mut _)| Http2::keep_in_line(http2, env, *key, &[0, 0, 5]);
        let mut kept: Vec<_> =
            keys.iter().zip(connections.iter_mut().map(|http2| &mut **http2)).map(&mut keep).collect();
        assert_eq!(kept.iter().flatten().count(), SPARED_OF_HOST, "as many as may wait so");
        for (key, kept) in keys.iter().zip(&kept) {
            assert_eq!(env.is_in_queue(*key), kept.is_some());
        }
        kept.clear();
        drop((held, connections));
        bench.end();
    });
}

#[test]
fn one_that_ends_when_its_send_has_left_frees_nothing_before_and_waits_for_nothing_else() {
    for sends in [true, false] {
        with_connection(|mut bench| async move {
            bench.go_on(&hello(&[]));
            bench.frames();
            let now = plimsoll_runtime::now();
            if sends {
                bench.line.takes = Takes::Nothing;
                bench.line.send_now(&frame(SETTINGS, ACK, 0, &[])).expect("it is on its way");
            }
            let end = |http2: &mut Http2, env: Env<'_>, line: &mut _, key| {
                http2.need.note(Priority::Head, 8_192);
                (http2.need.since, http2.since.idle) = (Some(now), Some(now));
                http2.enqueue(env, key);
                assert!(env.is_in_queue(key));
                http2.end_without_room(env, line, key, (Shed::Output, now))
            };
            assert_eq!(bench.step(end), if sends { Step::Rest } else { Step::Leave });
            if sends {
                assert!(!bench.alone.is_in_queue(bench.key));
                assert_eq!(bench.on(|http2| (http2.held_bytes(), http2.need.since)), (0, None));
                assert_eq!(bench.line.due, Some(bench.alone.config.send_timeout));
                bench.frames();
                assert_eq!(bench.go_on(&[]), Step::Leave);
            }
            bench.alone.leave_queue(bench.key);
            bench.end();
        });
    }
}

#[test]
fn who_has_nothing_to_do_but_to_say_goodbye_needs_no_tables() {
    with_connection(|mut bench| async move {
        bench.go_on(&hello(&[]));
        let is_packed = |bench: &Bench| bench.on(|http2| matches!(http2.tables, Tables::Packed(_)));
        assert!(!is_packed(&bench));
        bench.on(|http2| http2.rest(&bench.alone.pool));
        bench.frames();
        bench.line.takes = Takes::Nothing;
        bench.step(|http2, env, _, _| {
            http2.send_goaway(env);
            Step::GoOn
        });
        assert_eq!(bench.go_on(&[]), Step::Rest);
        assert!(bench.line.is_sending() && is_packed(&bench), "its GOAWAY is on its way");
        bench.end();
    });
}

#[test]
fn what_cannot_be_offered_is_not_tried_before_the_last_offer_is_acknowledged() {
    with_connection(|mut bench| async move {
        // It began while memory was short, and now memory is plenty.
        let orange = offering(&bench.alone.config.http2_limits, Level::Orange);
        bench.on(|http2| {
            (http2.codec, http2.offered) = (orange, Level::Orange);
            http2.output = Output::default();
            http2.begin(bench.env(), bench.key);
        });
        let hello = hello(&[]);
        let (before, acknowledged) = hello.split_at(hello.len() - 9);
        bench.go_on(&[before, &get(1, "/")].concat());
        bench.frames();
        bench.on(|http2| {
            http2.adapt(bench.env());
            assert_eq!((http2.output.spare_bytes(), http2.offered), (0, Level::Orange), "no room is asked for");
        });
        bench.go_on(acknowledged);
        bench
            .on(|http2| assert_eq!((http2.offered, http2.codec.is_settled()), (Level::Yellow, false), "it is offered"));
        bench.go_on(&cancel(1));
        bench.end();
    });
}

#[test]
fn what_can_be_had_back_is_what_overstays_or_is_blocked() {
    const PROTECTED: Duration = Duration::from_secs(10);
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        let (stream, now) = (bench.begun[0], plimsoll_runtime::now());
        let config = Config { begun_protection: PROTECTED, ..Config::default() };
        let can = |bench: &Bench, after| bench.on(|http2| http2.sheddable_bytes(now + after, &config)) > 0;
        let past = |time: Duration| time + Duration::from_millis(1);
        bench.on_exchange(stream, |exchange| exchange.begun_at = Some(now));
        assert_eq!((can(&bench, PROTECTED), can(&bench, past(PROTECTED))), (false, true), "its handler runs");
        bench.on_exchange(stream, |exchange| exchange.must_finish = 1);
        assert!(!can(&bench, past(PROTECTED)), "it must finish");
        bench.on_exchange(stream, |exchange| (exchange.must_finish, exchange.begun_at) = (0, None));
        assert!(!can(&bench, past(PROTECTED)));
        bench.on_exchange(stream, |exchange| exchange.blocked_since = Some(now));
        assert_eq!(
            (can(&bench, STALLED_AFTER), can(&bench, past(STALLED_AFTER))),
            (false, true),
            "its peer takes none"
        );
        bench.end();
    });
}

#[test]
fn who_asks_again_has_its_handlers_try_and_knows_whether_its_place_is_gone() {
    with_connection(|mut bench| async move {
        bench.go_on(&[hello(&[]), get(1, "/")].concat());
        let (stream, now) = (bench.begun[0], plimsoll_runtime::now());
        let asks = |bench: &Bench| {
            let env = bench.env();
            bench.on(|http2| (http2.ask_again(env, bench.key), http2.need.memory))
        };
        let needs_room = |needs| bench.on_exchange(stream, |exchange| exchange.needs_room = needs);
        needs_room(true);
        assert_eq!(asks(&bench), (false, MemoryWait::None), "it waits for nothing");
        bench.on(|http2| http2.need.since = Some(now));
        assert_eq!(asks(&bench), (true, MemoryWait::None), "it never had a place");
        let env = bench.env();
        let queued = MemoryWait::Queued { grants: 0 };
        bench.on(|http2| {
            let who = Waits::new(bench.key, None);
            env.enqueue_once(who, &mut http2.need.memory, Priority::Head, 1_024).expect("a place");
        });
        assert_eq!(asks(&bench), (true, queued), "its place stays");
        needs_room(false);
        assert_eq!(asks(&bench), (false, queued), "no handler waits");
        // As when one of another address has taken it.
        bench.alone.leave_queue(bench.key);
        assert_eq!(asks(&bench), (false, MemoryWait::Granted { grants: 0 }));
        bench.on(|http2| http2.need = Default::default());
        bench.end();
    });
}

#[test]
fn a_frame_waits_for_the_room_that_its_answer_may_take() {
    let ping = || frame(PING, 0, 0, b"whatever");
    for has_room in [true, false] {
        with_connection(|mut bench| async move {
            bench.go_on(&hello(&[]));
            bench.frames();
            // What comes has room, and it depends what is sent.
            let came = bench.alone.pool.try_copy(&ping(), Kind::Buffers).expect("room");
            bench.on(|http2| http2.output = Output::default());
            if has_room {
                bench.on(|http2| http2.output.reserve(&bench.alone.pool, STEP_BYTES_MAX)).expect("room");
            }
            let held = bench.fill();
            drop(came);
            bench.go_on(&ping());
            let kinds: Vec<u8> = bench.frames().iter().map(|frame| frame.kind).collect();
            let expected: &[u8] = if has_room { &[PING] } else { &[] };
            assert_eq!((&kinds[..], bench.alone.is_in_queue(bench.key)), (expected, !has_room));
            drop(held);
            bench.alone.leave_queue(bench.key);
            bench.end();
        });
    }
}
