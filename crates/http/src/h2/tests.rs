//! What a connection does in moments that no client can choose. In the simulation.

use ::core::task::{Context, Waker};
use std::rc::Rc;

use http::StatusCode;
use plimsoll_codec::h1::{BodyLength, FieldSlot, RequestView};
use plimsoll_codec::h2::{ErrorCode, Event, StreamKey};
use plimsoll_pool::{Kind, PoolBox, Priority};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::memory::Level;
use plimsoll_runtime::net::{Event as TableEvent, Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{MemoryLimit, Runtime};
use plimsoll_slab::Key;

use super::output::Growing;
use super::room::offering;
use super::streams::{Ending, Exchange, Incoming, find};
use super::{Http2, Tables};
use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::peers::Addresses;
use crate::exchange::handle::Ticket;
use crate::exchange::output::Output;
use crate::exchange::response::Response;
use crate::memory::lasting::ExchangeId;
use crate::memory::lasting::Sort;
use crate::memory::waits::{Grant, SPARED_OF_HOST};
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{Answered, NoRoom, Service};
use crate::worker::state::Core;
use crate::worker::stay::Stay;
use memory::fill;

#[path = "../../tests/rig/memory.rs"]
#[allow(dead_code, reason = "the suites use the rest of it")]
mod memory;

/// Runs `act` with a server's core that has so many connections of one address.
fn with_connections(count: usize, act: impl FnOnce(&Rc<Core>, &[Key])) {
    let world = World::new(SimConfig::new(5));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    let run = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut table = Table::new(listener, TableConfig::default())?;
        let (mut keys, mut clients) = (Vec::new(), Vec::new());
        while clients.len() < count {
            clients.push(TcpStream::connect(address).await?);
            table.ready().await;
            keys.extend(::core::iter::from_fn(|| table.next()).filter_map(|event| match event {
                TableEvent::Accepted(key) => Some(key),
                _ => None,
            }));
        }
        let core = Core::new(table, Config::default(), Counters::new(1), Addresses::default(), None);
        act(&core, &keys);
        assert_eq!(Rc::strong_count(&core), 1, "nobody else holds it");
        Ok::<_, plimsoll_runtime::Error>(())
    });
    run.expect("the simulation runs");
}

fn connection(core: &Core) -> PoolBox<Http2> {
    let limits = core.config.http2_limits;
    core.h2_scratch.borrow_mut().prepare(&core.pool, &limits).expect("room");
    let mut http2 = Http2::new(&core.pool, &limits, 0, Level::Yellow).expect("room");
    http2.open_tables(&core.pool).expect("room");
    http2.slots.grow(&core.pool).expect("room");
    let Http2 { codec, output, .. } = &mut *http2;
    codec.begin(&mut Growing(output, &core.pool)).expect("room");
    http2
}

/// Has the codec take input; a request gets an exchange whose handler runs. What the last frame was.
fn receive(core: &Core, http2: &mut Http2, mut input: &[u8]) -> Event {
    let mut scratch = core.h2_scratch.borrow_mut().decoding.take().expect("nobody else decodes");
    let mut last = Event::Progress;
    while !input.is_empty() {
        let parts = http2.split(scratch.bytes.as_mut_slice(), &mut scratch.slots[..], &mut scratch.repeat);
        let mut storage = parts.storage;
        let step = parts.codec.step(input, &mut storage, &mut Growing(parts.output, &core.pool), 0).expect("valid");
        input = &input[step.consumed..];
        if let Event::Request { stream, head, ends, .. } = &step.event {
            let exchange = Exchange::new(*stream, head, *ends, core.config.body_timeout);
            let exchange = core.pool.try_boxed(exchange, Kind::Codec).map_err(|(over, _)| over).expect("room");
            core.counters().exchange_begun();
            http2.slots.parts().1[usize::from(stream.slot)] = Some(exchange);
        }
        last = step.event;
    }
    core.h2_scratch.borrow_mut().decoding = Some(scratch);
    last
}

/// Handlers that nobody asks.
struct Nobody;

impl Service for Nobody {
    fn start(&mut self, _: &Rc<Core>, _: &RequestView<'_>, _: &[FieldSlot], _: Ticket) -> Result<Answered, NoRoom> {
        unreachable!("there is no request")
    }
}

const BEGIN: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a";
const ACKNOWLEDGED: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";
const RESET: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08";

#[test]
fn the_end_of_an_answer_is_not_due_any_more_when_its_peer_has_reset_the_stream() {
    with_connections(1, |core, _| {
        let mut http2 = connection(core);
        let Event::Request { stream, .. } = receive(core, &mut http2, BEGIN) else { panic!("a request") };
        let exchange = |http2: &mut Http2, stream: StreamKey| {
            let exchange = find(http2.slots.parts().1, stream).expect("its handler runs");
            (exchange.ending, exchange.is_reset)
        };
        let mut response = Response::new(StatusCode::OK);
        let begun =
            core.with_parts(&mut http2, |parts| core.put_answer(parts, stream, &mut response, BodyLength::Unknown));
        begun.expect("room for a head");
        find(http2.slots.parts().1, stream).expect("its handler runs").must_finish = 1;
        // All of it has left.
        http2.output = Output::default();
        let held = (fill(1), Vec::from_iter(::core::iter::from_fn(|| core.reserve.take())));
        core.with_parts(&mut http2, |parts| core.put_end(parts, stream));
        assert_eq!(exchange(&mut http2, stream), (Some(Ending::Finish), false), "there is no room for its end");
        assert!(matches!(receive(core, &mut http2, RESET), Event::Reset { .. }));
        let handler =
            core.with_parts(&mut http2, |parts| core.cut(parts, stream, (ErrorCode::Cancel, ExchangeEnd::Peer)));
        assert!(handler.is_none(), "it must finish");
        assert_eq!((exchange(&mut http2, stream), http2.answers), ((None, true), 0));
        drop(held);
        core.pump(&mut http2);
        assert!(!http2.closing, "the connection lives");
        let last = find(http2.slots.parts().1, stream).expect("its handler runs");
        (last.must_finish, last.running) = (0, false);
        core.with_parts(&mut http2, |parts| core.end_if_done(parts, stream));
        assert_eq!(http2.codec.live_streams(), 0, "the slot is free");
    });
}

#[test]
fn a_tunnel_counts_for_the_client_of_its_stream() {
    with_connections(1, |core, keys| {
        let mut http2 = connection(core);
        let Event::Request { stream, .. } = receive(core, &mut http2, BEGIN) else { panic!("a request") };
        let (client, proxy) = (7, core.host_of(keys[0]));
        find(http2.slots.parts().1, stream).expect("its handler runs").client = Some(client);
        core.put(keys[0], Connection::Http2(http2));
        let ticket = core.ticket(ExchangeId::new(keys[0], 0, Some(stream)));
        let stay = Stay::of(&ticket, Sort::Tunnel);
        let bytes = core.lasting.bytes_of(Sort::Tunnel) as u64;
        assert_eq!((core.crowd.held_bytes(client), core.crowd.held_bytes(proxy)), (bytes, 0));
        drop((stay, ticket));
        assert_eq!(core.crowd.held_bytes(client), 0);
        let http2 = core.take_http2(keys[0]).expect("it was put there");
        Engine::new(Rc::clone(core), Nobody).finish_http2(http2, ExchangeEnd::Peer);
    });
}

#[test]
fn who_says_that_a_body_may_come_does_so_with_what_was_granted() {
    with_connections(1, |core, keys| {
        let mut http2 = connection(core);
        let Event::Request { stream, .. } = receive(core, &mut http2, BEGIN) else { panic!("a request") };
        let exchange = find(http2.slots.parts().1, stream).expect("its handler runs");
        (exchange.request, exchange.expects) = (Incoming::Body, true);
        // What is there is full, and of the answer reserve nothing is left.
        http2.output = Output::default();
        core.put(keys[0], Connection::Http2(http2));
        let granted = core.pool.try_acquire(1_024, Kind::Buffers).expect("room");
        let held = (fill(1), Vec::from_iter(::core::iter::from_fn(|| core.reserve.take())));
        core.kept_for.set(Some(keys[0]));
        *core.kept.borrow_mut() = Some(Grant::Lent(Some(granted)));
        let polled = core.h2_poll_chunk(keys[0], stream, &mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "it waits for the body");
        let mut http2 = core.take_http2(keys[0]).expect("it was put there");
        let exchange = find(http2.slots.parts().1, stream).expect("its handler runs");
        assert_eq!((exchange.starved, exchange.expects, core.kept_for.get()), (false, false, None));
        assert!(!http2.output.is_empty(), "it was said");
        drop(held);
        Engine::new(Rc::clone(core), Nobody).finish_http2(http2, ExchangeEnd::Peer);
    });
}

#[test]
fn what_is_spared_is_for_those_with_a_place_in_line() {
    with_connections(SPARED_OF_HOST + 2, |core, keys| {
        let mut connections: Vec<_> = keys.iter().map(|_| connection(core)).collect();
        let held = fill(1);
        // The beginning of a frame, which came before the line was seen.
        let mut kept: Vec<_> = keys
            .iter()
            .zip(&mut connections)
            .map(|(key, http2)| core.keep_in_line(*key, http2, &BEGIN[24..29]))
            .collect();
        assert_eq!(kept.iter().flatten().count(), SPARED_OF_HOST, "as many as may wait so");
        for (key, kept) in keys.iter().zip(&kept) {
            assert_eq!(core.is_in_queue(*key), kept.is_some());
        }
        kept.clear();
        drop(held);
    });
}

#[test]
fn one_that_ends_when_its_send_has_left_frees_nothing_before_and_waits_for_nothing_else() {
    with_connections(2, |core, keys| {
        let mut engine = Engine::new(Rc::clone(core), Nobody);
        let now = plimsoll_runtime::now();
        for (key, is_unread) in keys.iter().zip([true, false]) {
            let mut http2 = connection(core);
            http2.hunger.note(Priority::Head, 8_192);
            (http2.hunger.since, http2.since.idle) = (Some(now), Some(now));
            if is_unread {
                http2.output.flush(&core.pool, &mut core.table.borrow_mut(), *key).expect("room");
            }
            core.starve_http2(*key, &mut http2);
            core.put(*key, Connection::Http2(http2));
            let freed = engine.let_go_of_one(*key, is_unread, 10_000, 10_000);
            assert_eq!(freed, if is_unread { 0 } else { 10_000 });
            assert!(!core.is_in_queue(*key));
        }
        let mut http2 = core.take_http2(keys[0]).expect("its send is on its way");
        let due = http2.next_due(core).map(|(until, _)| until.since(now));
        assert_eq!((due, http2.hunger.since), (Some(core.config.send_timeout), None));
        core.put(keys[0], Connection::Http2(http2));
    });
}

#[test]
fn who_has_nothing_to_do_but_to_say_farewell_needs_no_tables() {
    with_connections(1, |core, keys| {
        let mut engine = Engine::new(Rc::clone(core), Nobody);
        let mut http2 = connection(core);
        receive(core, &mut http2, &BEGIN[..33]);
        http2.output = Output::default();
        http2.rest(&core.pool);
        engine.go_on_http2(keys[0], http2, None);
        let mut http2 = core.take_http2(keys[0]).expect("it is parked");
        assert!(matches!(http2.tables, Tables::Packed(_)));
        core.say_farewell(&mut http2);
        engine.go_on_http2(keys[0], http2, None);
        let http2 = core.take_http2(keys[0]).expect("its farewell is on its way");
        assert!(core.table.borrow().is_sending(keys[0]) && matches!(http2.tables, Tables::Packed(_)));
        core.put(keys[0], Connection::Http2(http2));
    });
}

#[test]
fn what_cannot_be_offered_is_not_tried_before_the_last_offer_is_acknowledged() {
    with_connections(1, |core, _| {
        let mut http2 = connection(core);
        // It began while memory was short, and now memory is plenty.
        (http2.codec, http2.offered) = (offering(&core.config.http2_limits, Level::Orange), Level::Orange);
        http2.output = Output::default();
        receive(core, &mut http2, BEGIN);
        http2.output = Output::default();
        core.adapt(&mut http2);
        assert_eq!((http2.output.spare_bytes(), http2.offered), (0, Level::Orange), "no room is asked for");
        receive(core, &mut http2, ACKNOWLEDGED);
        core.adapt(&mut http2);
        assert_eq!((http2.offered, http2.codec.is_settled()), (Level::Yellow, false), "it is offered now");
    });
}
