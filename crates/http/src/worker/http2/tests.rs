//! What handlers find when they are begun, and how their streams count. In the simulation.

use std::rc::Rc;

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_conformance::frames::{ACK, END_STREAM, PREFACE, SETTINGS, frame, get, request};
use plimsoll_pool::Kind;
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::{Bytes, Event as TableEvent, Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{MemoryLimit, Runtime};
use plimsoll_slab::Key;

use crate::base::config::Config;
use crate::base::counters::Counters;
use crate::base::peers::Addresses;
use crate::exchange::handle::ExchangeHandle;
use crate::h2::{Http2, Http2s};
use crate::memory::lasting::Sort;
use crate::worker::connection::Connection;
use crate::worker::engine::Engine;
use crate::worker::service::{Answered, NoRoom, Service};
use crate::worker::state::WorkerState;
use crate::worker::stay::Stay;

/// Looks at what a handler finds.
struct Looks<F>(F);

impl<F: FnMut(&Rc<WorkerState>, &RequestView<'_>, ExchangeHandle) -> Result<Answered, NoRoom> + 'static> Service
    for Looks<F>
{
    fn start(
        &mut self,
        worker: &Rc<WorkerState>,
        view: &RequestView<'_>,
        _: &[FieldSlot],
        handle: ExchangeHandle,
    ) -> Result<Answered, NoRoom> {
        self.0(worker, view, handle)
    }
}

/// Begins what these frames ask for, on a connection.
fn with_requests(config: Config, frames: &[u8], service: impl Service) {
    let world = World::new(SimConfig::new(5));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    let run = runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let mut table = Table::new(listener, TableConfig::default())?;
        let _client = TcpStream::connect(address).await?;
        table.ready().await;
        let Some(TableEvent::Accepted(key)) = table.next() else { panic!("it was accepted") };
        let worker = WorkerState::new(table, config, Counters::new(1), Addresses::default(), None);
        let mut engine = Engine::new(Rc::clone(&worker), service);
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[]), frames].concat();
        let came = Bytes::Owned(worker.pool.try_copy(&hello, Kind::Buffers).expect("room"));
        let mut http2 = Http2::new(worker.env(), 0).expect("room");
        worker.counters().active(1);
        http2.begin(worker.env(), key);
        engine.go_on_http2(key, http2, Some(came));
        Ok::<_, plimsoll_runtime::Error>(())
    });
    run.expect("the simulation runs");
}

#[test]
fn a_handler_finds_its_exchange_in_the_table_when_it_is_begun() {
    let calls = Rc::new(::core::cell::Cell::new(0));
    let seen = Rc::clone(&calls);
    let service = Looks(move |worker: &Rc<WorkerState>, view: &RequestView<'_>, handle: ExchangeHandle| {
        seen.set(seen.get() + 1);
        let (key, stream) = (handle.id.key(), handle.id.stream().expect("a stream"));
        assert!(worker.with_http2(key, |http2| http2.has_exchanges()).is_some(), "{}", view.path());
        assert!(matches!(worker.table.borrow().get(key), Some(Connection::Http2(_))));
        assert_eq!(worker.with_http2(key, |http2| http2.client_of(stream)), Some(None));
        Err(NoRoom)
    });
    with_requests(Config::default(), &get(1, "/a"), service);
    assert_eq!(calls.get(), 1);
}

#[test]
fn a_tunnel_counts_for_the_client_of_its_stream() {
    let seen = Rc::new(::core::cell::Cell::new(false));
    let was_seen = Rc::clone(&seen);
    let service = Looks(move |worker: &Rc<WorkerState>, _: &RequestView<'_>, handle: ExchangeHandle| {
        let key: Key = handle.id.key();
        let (client, proxy) = (handle.host(), worker.peer_host(key));
        assert_ne!(client, proxy);
        let stay = Stay::of(&handle, Sort::Tunnel);
        let bytes = worker.lasting.bytes_of(Sort::Tunnel) as u64;
        assert_eq!((worker.crowd.held_bytes(client), worker.crowd.held_bytes(proxy)), (bytes, 0));
        drop(stay);
        assert_eq!(worker.crowd.held_bytes(client), 0);
        was_seen.set(true);
        Err(NoRoom)
    });
    let config = Config { forwarded_from: vec!["127.0.0.1".parse().expect("a network")], ..Config::default() };
    let forwarded = request(1, "GET", "/", &[("x-forwarded-for", "192.0.2.7")], END_STREAM);
    with_requests(config, &forwarded, service);
    assert!(seen.get());
}
