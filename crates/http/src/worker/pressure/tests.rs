//! Who is shed, told to end or fed in a turn, with connections whose states the test sets. In the simulation.

use ::core::future::poll_fn;
use ::core::task::Waker;

use plimsoll_codec::h1::{FieldSlot, RequestView};
use plimsoll_pool::{Kind, PoolBox};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::{Event, Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{MemoryLimit, Runtime, SendBytes};

use super::end_lasting::{TOLD_BYTES_MIN, TOLD_MAX};
use super::heads::FEW;
use super::shed_order::{ShedSort, shed_sort_of};
use super::*;
use crate::base::config::{Config, ProxyProtocol};
use crate::base::counters::{Counters, Shed};
use crate::base::peers::{Addresses, Source};
use crate::exchange::handle::ExchangeHandle;
use crate::exchange::misbehaviour::Score;
use crate::h1::active::{Active, Deadline};
use crate::memory::lasting::Sort;
use crate::memory::wait::MemoryWait;
use crate::worker::connection::Rest;
use crate::worker::service::{Answered, NoRoom};
use crate::worker::stay::Listing;
use crate::worker::turns::Clock;

/// Nothing is asked.
struct Nobody;

impl Service for Nobody {
    fn start(
        &mut self,
        _: &Rc<WorkerState>,
        _: &RequestView<'_>,
        _: &[FieldSlot],
        _: ExchangeHandle,
    ) -> Result<Answered, NoRoom> {
        Err(NoRoom)
    }
}

struct Bench {
    engine: Engine<Nobody>,
    worker: Rc<WorkerState>,
    counters: Counters,
    address: ::core::net::SocketAddr,
    clients: Vec<TcpStream>,
}

/// Runs `act` with an engine that has no connections yet.
fn with_engine(config: Config, act: impl AsyncFnOnce(Bench)) {
    let world = World::new(SimConfig::new(5));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr();
        let table = Table::new(listener, TableConfig::default()).expect("room");
        let counters = Counters::new(1);
        let worker = WorkerState::new(table, config, counters.clone(), Addresses::default(), None);
        let engine = Engine::new(Rc::clone(&worker), Nobody);
        act(Bench { engine, worker, counters, address, clients: Vec::new() }).await;
    });
}

/// A proxy names the hosts.
fn proxied() -> Config {
    Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() }
}

impl Bench {
    /// A connection between requests, on which nothing is armed.
    async fn connect(&mut self) -> Key {
        self.clients.push(TcpStream::connect(self.address).await.expect("it listens"));
        loop {
            poll_fn(|cx| self.worker.table.borrow_mut().poll_ready(cx)).await;
            let Some(Event::Accepted(key)) = self.worker.table.borrow_mut().next() else { continue };
            self.worker.counters().accepted();
            self.worker.put(key, Connection::default());
            return key;
        }
    }

    /// The same with the beginning of a head, of this host.
    async fn begin_head(&mut self, host: u8) -> Key {
        let key = self.connect().await;
        let worker = &self.worker;
        let named = Source::Proxied(([10, 0, 0, host], 9).into());
        worker.peers.borrow_mut().accepted(key, || None).expect("room");
        worker.peers.borrow_mut().found(key, named, || None).expect("no limit");
        let mut active = Active::new(0, 0, Score::default(), &worker.config);
        active.deadline = Deadline::Head;
        worker.counters().active(1);
        worker.put(
            key,
            Connection::Active(PoolBox::from_lease(
                worker.pool.try_acquire_class(PoolBox::<Active>::CLASS, Kind::Codec).expect("room"),
                active,
            )),
        );
        worker.table.borrow_mut().schedule(key, worker.config.head_timeout);
        key
    }

    fn sort_of(&self, key: Key) -> Option<ShedSort> {
        shed_sort_of(&self.worker.table.borrow(), key, &self.worker)
    }

    fn shed(&self, why: Shed) -> u64 {
        self.counters.totals().shed_total[why as usize]
    }

    fn has_head(&self, key: Key) -> bool {
        matches!(self.worker.table.borrow().get(key), Some(Connection::Active(_)))
    }
}

#[test]
fn one_that_lingers_goes_for_its_place_when_all_of_its_answer_has_left() {
    with_engine(Config::default(), async |mut bench| {
        let key = bench.connect().await;
        let worker = Rc::clone(&bench.worker);
        let linger = |rest| worker.put(key, Connection::lingering(rest));
        linger(Rest::Nothing);
        assert!(!worker.lacks_places());
        assert_eq!(bench.sort_of(key), None, "there are places");
        while !worker.lacks_places() {
            bench.connect().await;
        }
        assert_eq!(bench.sort_of(key), Some(ShedSort::Lingering));
        for rest in [Rest::Body, Rest::Refused] {
            linger(rest);
            assert_eq!(bench.sort_of(key), None, "something is still to come, or it has no place");
        }
        linger(Rest::Nothing);
        worker.table.borrow_mut().send(key, SendBytes::Static(b"the last")).expect("room");
        assert_eq!(bench.sort_of(key), None, "it has not left");
    });
}

#[test]
fn sixteen_places_are_enough() {
    const ENOUGH: u32 = 16;
    with_engine(Config::default(), async |mut bench| {
        bench.connect().await;
        bench.worker.reserve_places().expect("room");
        let vacancies = || bench.worker.table.borrow().vacancies() as u32;
        assert!(vacancies() >= ENOUGH);
        while bench.worker.table.borrow().vacancies() as u32 > ENOUGH {
            assert!(!bench.worker.lacks_places());
            bench.connect().await;
        }
        assert!(!bench.worker.lacks_places(), "just as many");
        bench.connect().await;
        assert!(bench.worker.lacks_places(), "one less");
    });
}

#[test]
fn one_of_which_nothing_was_received_is_between_requests() {
    with_engine(proxied(), async |mut bench| {
        let key = bench.begin_head(1).await;
        assert!(!bench.worker.is_between_requests(key), "its head has begun");
        drop(bench.worker.take(key));
        bench.worker.counters().active(-1);
        let unread = Connection::Unread { requests: 0, born: 0, score: Score::default(), empty_lines: 0 };
        for (connection, is_between) in
            [(unread, true), (Connection::default(), true), (Connection::LINGERING, false), (Connection::Taken, false)]
        {
            bench.worker.put(key, connection);
            assert_eq!(bench.worker.is_between_requests(key), is_between);
        }
    });
}

#[test]
fn of_young_heads_the_newest_go_of_the_address_with_most_but_for_a_few() {
    with_engine(proxied(), async |mut bench| {
        let (mut flood, mut others) = (Vec::new(), Vec::new());
        for _ in 0..FEW {
            flood.push(bench.begin_head(1).await);
            others.push(bench.begin_head(2).await);
        }
        assert!(!bench.engine.shed_young_heads(None), "each address has few");
        for _ in 0..3 {
            flood.push(bench.begin_head(1).await);
        }
        assert!(bench.engine.shed_young_heads(Some(flood[FEW + 2])), "one is kept, and is none of them");
        let has: Vec<bool> = flood.iter().map(|key| bench.has_head(*key)).collect();
        assert_eq!(has, [true, true, true, true, false, false, true], "the newest");
        assert!(others.iter().all(|key| bench.has_head(*key)));
        assert_eq!(bench.shed(Shed::Head), 2);
        assert!(bench.engine.shed_young_heads(None), "the one that was kept");
        assert!(!bench.has_head(flood[FEW + 2]));
        assert!(!bench.engine.shed_young_heads(None));
        assert_eq!(bench.shed(Shed::Head), 3, "a few stay");
    });
}

#[test]
fn as_many_are_told_to_end_as_are_asked_for() {
    for sort in [Sort::Tunnel, Sort::Called] {
        with_engine(Config::default(), async |mut bench| {
            let worker = Rc::clone(&bench.worker);
            let each = worker.lasting.bytes_of(sort) as u64;
            let columns = worker.crowd.columns(7);
            let mut stays = Vec::new();
            let now = plimsoll_runtime::now();
            while worker.lasting.bytes() <= worker.line_share() / 16 {
                assert!(!bench.engine.tell_the_lasting(now), "they hold little");
                worker.lasting.enter(sort);
                worker.crowd.add_to(columns, each as usize);
                stays.push(Listing::new(&worker, sort, columns).expect("room"));
            }
            let cx = Context::from_waker(Waker::noop());
            let told = || stays.iter().filter(|stay| stay.poll_told(&cx).is_ready()).count();
            assert_eq!(told(), 0);
            assert!(bench.engine.tell_the_lasting(now));
            let wanted = TOLD_BYTES_MIN.div_ceil(each) as usize;
            assert_eq!(told(), wanted.min(TOLD_MAX), "of {each} bytes each");
            assert!(wanted > 1);
            // They have not ended: no more are told.
            assert!(bench.engine.tell_the_lasting(now));
            assert_eq!(told(), wanted.min(TOLD_MAX));
            for _ in 0..stays.len() {
                worker.lasting.leave(sort);
                worker.crowd.remove(columns, each as usize);
            }
        });
    }
}

#[test]
fn nobody_begins_with_what_is_lent_in_a_turn_that_is_over() {
    with_engine(Config::default(), async |mut bench| {
        let key = bench.connect().await;
        let worker = Rc::clone(&bench.worker);
        worker.put(key, Connection::Unread { requests: 0, born: 0, score: Score::default(), empty_lines: 0 });
        let mut wait = MemoryWait::None;
        worker.enqueue_once(Waits::new(key, None), &mut wait, Priority::Head, REQUEST_ROOM_BYTES).expect("a place");
        assert_eq!(worker.first_newcomer().map(|place| place.item().key), Some(key));
        let now = plimsoll_runtime::now();
        worker.turns.clock.set(Clock::Over);
        bench.engine.lend(now);
        assert!(worker.is_in_queue(key), "the next turn is soon");
        worker.turns.begin();
        bench.engine.lend(now);
        assert!(!worker.is_in_queue(key), "it was looked after");
    });
}
