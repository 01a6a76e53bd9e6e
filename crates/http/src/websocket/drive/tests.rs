//! Steps of a WebSocket without a table, a worker or a connection: a script stands for the socket.

use std::rc::Rc;

use plimsoll_pool::PoolBox;
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Kind, MemoryLimit, Runtime, SharedBytes};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::peers::Addresses;
use crate::exchange::line::script::{Armed, Script, Takes};
use crate::memory::desk::Desk;
use crate::memory::lasting::StayBytes;
use crate::memory::waits::Waits;
use crate::websocket::entry::Consumer;
use crate::websocket::settings::{KnownSettings, Values};
use crate::websocket::wire::Wire;
use crate::websocket::{
    Handed, Message, Port, Socket, Sockets, Step, WebSocketConfig, WebSocketEnd, WebSocketRef, handler, place,
};

/// "hi" of a client, with a mask of zeros.
const HI: &[u8] = b"\x81\x82\0\0\0\0hi";
/// The same of a server.
const HI_BACK: &[u8] = b"\x81\x02hi";

/// There are no others.
struct Alone(Desk);

impl Sockets for Alone {
    fn desk(&self) -> &Desk {
        &self.0
    }

    fn on_socket(&self, _key: Key, _act: &mut dyn FnMut(&mut Socket)) {}

    fn hand_over(&self, _key: Key, _bytes: SharedBytes) -> Handed {
        Handed::Closed
    }
}

struct Bench {
    port: Rc<Port>,
    key: Key,
    socket: PoolBox<Socket>,
    line: Script,
}

impl Bench {
    fn desk(&self) -> &Desk {
        self.port.desk()
    }

    /// Goes on with what came, until it rests or is over.
    fn go_on(&mut self, came: Option<&[u8]>) -> Step {
        let Self { port, key, socket, line } = self;
        socket.begin_step();
        if let Some(came) = came {
            let desk = port.desk();
            let bytes = Bytes::Owned(desk.pool.try_copy(came, Kind::Buffers).expect("room"));
            if socket.hear(desk, &bytes) {
                socket.take_in(&desk.pool, &mut Some(bytes)).expect("room");
            }
        }
        socket.turn(port, *key, false);
        socket.settle(port.desk(), line, *key)
    }

    fn due(&mut self) -> Step {
        let Self { port, key, socket, line } = self;
        socket.due(port.desk(), line, *key)
    }

    fn take_sent(&mut self) -> Vec<u8> {
        ::core::mem::take(&mut self.line.sent)
    }
}

/// With a WebSocket that says back what it hears.
fn with_echo(act: impl FnOnce(Bench)) {
    let world = World::new(SimConfig::new(7));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    runtime.block_on(async {
        let pool = plimsoll_runtime::pool();
        let stay_bytes = StayBytes { called: 0, awaited: 0, member: 0, released: 0, tunnel: 0, events: 0 };
        let shared = (Counters::new(1), Addresses::default());
        let desk = Desk::new((Config::default(), None), 1 << 24, pool.clone(), shared, stay_bytes);
        let values = Values::new(&WebSocketConfig::default(), None);
        let settings = KnownSettings::default().shared(&pool, values, None).expect("room");
        let echo = |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message);
        let consumer = Consumer::Handler(handler::boxed(echo).expect("room"));
        let socket = pool.try_boxed(Socket { consumer, wire: Wire::new(settings) }, Kind::Slots);
        let line = Script::new(pool);
        let (_, key) = Key::unpack(0x03_0000_002a);
        let socket = socket.map_err(|(over, _)| over).expect("room");
        act(Bench { port: place::Port::new(Rc::new(Alone(desk))), key, socket, line });
    });
}

#[test]
fn what_comes_is_answered_and_more_is_waited_for() {
    with_echo(|mut bench| {
        assert_eq!(bench.go_on(Some(HI)), Step::Rest);
        assert_eq!((bench.take_sent().as_slice(), bench.line.armed), (HI_BACK, Armed::Receive));
        assert_eq!(bench.line.due, WebSocketConfig::default().ping_interval);
        assert_eq!(bench.go_on(Some(&HI[..3])), Step::Rest, "a part of a frame");
        assert_eq!(bench.line.due, Some(WebSocketConfig::default().message_timeout));
        assert_eq!(bench.go_on(Some(&HI[3..])), Step::Rest);
        assert_eq!(bench.take_sent(), HI_BACK);
    });
}

#[test]
fn who_is_silent_is_asked_and_then_told_that_it_ends() {
    with_echo(|mut bench| {
        assert_eq!(bench.go_on(None), Step::Rest);
        assert_eq!(bench.due(), Step::GoOn);
        assert_eq!(bench.take_sent(), b"\x89\0", "a ping");
        assert_eq!(bench.go_on(None), Step::Rest);
        assert_eq!(bench.due(), Step::GoOn);
        assert_eq!(bench.go_on(None), Step::Rest);
        assert_eq!(bench.take_sent()[..4], *b"\x88\x0a\x03\xf0", "1008, and why");
        assert!(bench.line.is_shut, "our half ends behind it");
        assert_eq!(bench.due(), Step::Lost(WebSocketEnd::TimedOut), "its peer does not end its own");
    });
}

#[test]
fn an_end_of_the_peer_ends_ours_behind_what_is_on_its_way() {
    with_echo(|mut bench| {
        bench.line.takes = Takes::Nothing;
        assert_eq!(bench.go_on(Some(HI)), Step::Rest);
        assert_eq!(bench.socket.ended(), Step::GoOn);
        assert_eq!((bench.go_on(None), bench.line.is_shut), (Step::Rest, false), "the answer is on its way");
        assert_eq!(bench.take_sent(), HI_BACK);
        bench.socket.sent();
        assert_eq!((bench.go_on(None), bench.line.is_shut), (Step::Rest, true));
        assert_eq!(bench.socket.ended(), Step::Lost(WebSocketEnd::Disconnected));
        assert_eq!(bench.desk().counters().active_now(), 0, "it holds no work any more");
    });
}

/// A send that was under way before says nothing of room: else who finds none is granted the same again and again, at
/// one instant.
#[test]
fn what_is_on_its_way_does_not_let_a_wait_begin_anew() {
    with_echo(|mut bench| {
        bench.line.takes = Takes::Nothing;
        assert_eq!(bench.go_on(Some(HI)), Step::Rest, "the answer is on its way");
        for grants in 0..3 {
            bench.socket.wire.flow.block_receive();
            assert_eq!(bench.go_on(None), Step::Rest);
            let wait = bench.socket.wire.memory;
            assert_eq!((wait.is_queued(), wait.grants()), (true, grants));
            // Its turn, in vain.
            bench.desk().leave_queue_as(&Waits::new(bench.key, None));
            bench.socket.wire.memory.grant();
            bench.socket.wire.flow.retry();
        }
    });
}

#[test]
fn who_sends_on_behind_the_end_is_not_heard_for_ever() {
    with_echo(|mut bench| {
        for _ in 0..2 {
            assert_eq!(bench.go_on(None), Step::Rest);
            assert_eq!(bench.due(), Step::GoOn, "silent, and asked");
        }
        assert_eq!(bench.go_on(None), Step::Rest);
        assert!(bench.line.is_shut);
        let part = vec![0; 128 << 10];
        for _ in 0..32 {
            assert_eq!((bench.go_on(Some(&part)), bench.line.armed), (Step::Rest, Armed::Receive), "4 MiB are dropped");
        }
        assert!(matches!(bench.go_on(Some(&part)), Step::Lost(_)), "and no more");
    });
}

#[test]
fn a_handler_with_state_is_charged() {
    with_echo(|bench| {
        let codec = || bench.desk().pool.budget().charged_by(Kind::Codec);
        let before = codec();
        let state = [7_u8; 1_000];
        let handler = handler::boxed(move |_: &mut WebSocketRef<'_>, message: Message| {
            assert_eq!(message.as_bytes().first(), state.last());
            Ok(())
        });
        let charged = codec() - before;
        assert!((1_000..1_100).contains(&charged), "{charged} bytes");
        drop(handler);
        assert_eq!(codec(), before);
    });
}

#[test]
fn what_a_hub_sends_waits_for_what_is_on_its_way() {
    with_echo(|mut bench| {
        let lease = bench.desk().pool.try_copy(b"\x81\x01x", Kind::Buffers).expect("room");
        let bytes = SharedBytes::new(lease, bench.desk().pool.budget()).map_err(|(over, _)| over).expect("room");
        let hand_over = |bench: &mut Bench| bench.socket.hand_over(&mut bench.line, bytes.clone());
        bench.line.takes = Takes::Nothing;
        assert_eq!(bench.go_on(Some(HI)), Step::Rest);
        assert!(!bench.socket.wire.has_output(), "all of it is on its way");
        assert_eq!(hand_over(&mut bench), Handed::Waits);
        assert_eq!(bench.take_sent(), HI_BACK);
        bench.socket.sent();
        assert_eq!(hand_over(&mut bench), Handed::Sent);
        assert_eq!(bench.take_sent(), b"\x81\x01x");
    });
}
