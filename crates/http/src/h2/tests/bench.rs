//! A connection of HTTP/2 alone: a script stands for its socket, and answers of its choice for the worker.

use ::core::cell::RefCell;
use ::core::future::Future;
use ::core::ops::Deref;

use plimsoll_codec::h2::StreamKey;
use plimsoll_pool::PoolBox;
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Kind, MemoryLimit, Runtime};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::peers::Addresses;
use crate::exchange::line::script::Script;
use crate::exchange::response::Response;
use crate::h2::streams::{Exchange, find};
use crate::h2::{Calls, Env, Http2, Http2s, NextStream, Shared, Step, Turned, Worker};
use crate::memory::desk::Desk;
use crate::memory::lasting::StayBytes;
use plimsoll_conformance::frames::{ACK, Frame, PREFACE, SETTINGS, frame};

/// One connection, where a worker has a table.
pub(super) struct Alone {
    pub(super) desk: Desk,
    pub(super) shared: Shared,
    /// Taken by the step that works on it.
    http2: RefCell<Option<PoolBox<Http2>>>,
}

impl Deref for Alone {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Http2s for Alone {
    fn with_http2<R>(&self, _key: Key, act: impl FnOnce(&mut Http2) -> R) -> Option<R> {
        self.http2.borrow_mut().as_deref_mut().map(act)
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// What the worker says.
pub(super) struct Says {
    pub(super) has_room: bool,
    pub(super) waits_for_turn: bool,
}

impl Worker for Says {
    fn retried<T, E>(&mut self, _key: Key, mut act: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        act()
    }

    fn has_room(&mut self, _key: Key) -> bool {
        self.has_room
    }

    fn is_turn_free(&self) -> bool {
        !self.waits_for_turn
    }

    fn waits_for_turn(&mut self, _key: Key) -> bool {
        self.waits_for_turn
    }
}

pub(super) struct Bench {
    pub(super) alone: Alone,
    pub(super) says: Says,
    pub(super) line: Script,
    pub(super) key: Key,
    /// Streams whose requests came.
    pub(super) begun: Vec<StreamKey>,
    pub(super) paths: Vec<String>,
}

/// The peer's preface, and what it acknowledges.
pub(super) fn hello(settings: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, settings), &frame(SETTINGS, ACK, 0, &[])].concat()
}

/// Runs `act` with a connection that has just begun.
pub(super) fn with_connection<F: Future<Output = ()>>(act: impl FnOnce(Bench) -> F) {
    let world = World::new(SimConfig::new(5));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    runtime.block_on(async {
        let pool = plimsoll_runtime::pool();
        let stay_bytes = StayBytes { called: 0, awaited: 0, member: 0, released: 0, tunnel: 0, events: 0 };
        let shared = (Counters::new(1), Addresses::default());
        let desk = Desk::new((Config::default(), None), 16 << 20, pool.clone(), shared, stay_bytes);
        let alone = Alone { desk, shared: Shared::default(), http2: RefCell::default() };
        let (_, key) = Key::unpack(0x03_0000_002a);
        let says = Says { has_room: true, waits_for_turn: false };
        let bench = Bench { alone, says, line: Script::new(pool), key, begun: Vec::new(), paths: Vec::new() };
        let mut http2 = Http2::new(bench.env(), 0).expect("room");
        // As one of HTTP/1.1 that it was before.
        bench.alone.counters().active(1);
        http2.begin(bench.env(), key);
        bench.put(http2);
        act(bench).await;
    });
}

impl Bench {
    pub(super) fn env(&self) -> Env<'_> {
        Env::new(&self.alone.desk, &self.alone.shared)
    }

    pub(super) fn calls(&self) -> Calls<'_, Alone> {
        Calls(&self.alone)
    }

    pub(super) fn take(&self) -> PoolBox<Http2> {
        self.alone.http2.borrow_mut().take().expect("nobody works on it")
    }

    pub(super) fn put(&self, http2: PoolBox<Http2>) {
        *self.alone.http2.borrow_mut() = Some(http2);
    }

    /// Runs `act` on the connection.
    pub(super) fn on<R>(&self, act: impl FnOnce(&mut Http2) -> R) -> R {
        self.alone.with_http2(self.key, act).expect("nobody works on it")
    }

    /// Runs `act` on the exchange of a stream, if it is there.
    pub(super) fn on_exchange<R>(&self, stream: StreamKey, act: impl FnOnce(&mut Exchange) -> R) -> Option<R> {
        self.on(|http2| find(http2.slots.parts().1, stream).map(act))
    }

    /// Goes on with what came, as the worker does; handlers are begun, and wait.
    pub(super) fn go_on(&mut self, came: &[u8]) -> Step {
        let mut http2 = self.take();
        let env = Env::new(&self.alone.desk, &self.alone.shared);
        let bytes = || Bytes::Owned(env.pool.try_copy(came, Kind::Buffers).expect("room"));
        let mut source = http2.source(env, (!came.is_empty()).then(bytes)).expect("room");
        let mut turn = http2.begin_turn(env, &mut self.says, self.key, source.rest()).expect("room");
        let is_part = loop {
            let next = http2.next_frame(env, &mut self.says, self.key, (&mut turn, source.rest()));
            let Some(frame) = next else { break false };
            match http2.on_frame(env, &mut self.says, self.key, (&mut turn, &mut source), frame) {
                Turned::On => {}
                Turned::Over => break false,
                Turned::Part => break true,
                Turned::Request(request) => {
                    let (view, slots) = turn.view();
                    self.paths.push(view.path().to_owned());
                    assert!(http2.add_exchange(env, self.key, (request, &view), None, source.rest()));
                    match request.next {
                        NextStream::Begins => {
                            env.counters().exchange_begun();
                            self.begun.push(request.stream);
                        }
                        next => http2.wait_or_be_refused(env, self.key, request.stream, (&view, slots), next),
                    }
                }
            }
        };
        let step = http2.end_turn(env, &mut self.line, self.key, turn, (source, is_part));
        self.put(http2);
        step
    }

    /// Makes a step.
    pub(super) fn step(&mut self, act: impl FnOnce(&mut Http2, Env<'_>, &mut Script, Key) -> Step) -> Step {
        let mut http2 = self.take();
        let step = act(&mut http2, Env::new(&self.alone.desk, &self.alone.shared), &mut self.line, self.key);
        self.put(http2);
        step
    }

    /// The time of the timer is over.
    pub(super) async fn due(&mut self) -> Step {
        let due = self.line.due.take().expect("a timer is set");
        plimsoll_runtime::sleep(due).await;
        self.step(|http2, env, line, key| http2.due(env, line, key))
    }

    /// What was sent since it was last asked.
    pub(super) fn frames(&mut self) -> Vec<Frame> {
        let frames = ::core::iter::from_fn(|| Frame::take_from(&mut self.line.sent)).collect();
        assert!(self.line.sent.is_empty(), "whole frames");
        frames
    }

    /// The handler of a stream answers.
    pub(super) fn answer(&self, stream: StreamKey, mut response: Response) {
        self.calls().answer(self.key, stream, Some(&mut response));
    }

    /// The handler of a stream is gone, and its connection is over.
    pub(super) fn end(self) {
        let mut http2 = self.take();
        http2.finish(&self.alone, crate::ExchangeEnd::Peer);
        assert_eq!(self.alone.counters().exchanges_now(), 0, "what was begun has ended");
        assert_eq!(self.alone.counters().active_now(), 0);
    }
}
