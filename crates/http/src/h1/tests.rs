//! Steps of a connection of HTTP/1.1 without a table, a worker or a service: a script stands for the socket, and the
//! test says what becomes of each request.

use ::core::cell::RefCell;
use ::core::future::pending;
use ::core::net::SocketAddr;
use ::core::ops::Deref;
use ::core::task::{Context, Poll, Waker};
use ::core::time::Duration;

use plimsoll_codec::h1::RequestView;
use plimsoll_pool::{PoolBox, Priority};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::Bytes;
use plimsoll_runtime::{Kind, Lease, MemoryLimit, OverBudget, Runtime};
use plimsoll_slab::Key;

use crate::base::config::{Config, HalfClose, Http2, ProxyProtocol};
use crate::base::counters::{Counters, Shed};
use crate::base::error::Error;
use crate::base::exchange_end::ExchangeEnd;
use crate::base::peers::Addresses;
use crate::exchange::line::Line;
use crate::exchange::line::script::{Armed, Script, Takes};
use crate::exchange::misbehaviour::Score;
use crate::exchange::response::Response;
use crate::exchange::source::Source;
use crate::h1::active::{Active, Phase};
use crate::h1::actives::{Actives, Http1};
use crate::h1::head::Slots;
use crate::h1::step::{Progress, Step};
use crate::memory::desk::Desk;
use crate::memory::lasting::{ExchangeId, StayBytes};

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

/// One connection, which stays where its exchange's handler finds it.
struct One {
    desk: Desk,
    active: RefCell<Option<PoolBox<Active>>>,
}

impl Deref for One {
    type Target = Desk;

    fn deref(&self) -> &Desk {
        &self.desk
    }
}

impl Actives for One {
    fn with<R>(&self, id: ExchangeId, act: impl FnOnce(&mut Active) -> R) -> Option<R> {
        let mut active = self.active.borrow_mut();
        active.as_deref_mut().filter(|active| active.requests == id.number()).map(act)
    }

    fn take(&self, _key: Key) -> Option<PoolBox<Active>> {
        self.active.borrow_mut().take()
    }

    fn put_back(&self, _key: Key, active: PoolBox<Active>) {
        *self.active.borrow_mut() = Some(active);
    }

    fn line(&self, _key: Key) -> impl Line {
        Script::new(self.pool.clone())
    }

    fn enqueue_in_table(&self, _key: Key, _want: Priority, _over: &OverBudget) -> bool {
        false
    }
}

/// What a test does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serve {
    /// "ok", at once, whatever of the body is there.
    Ok,
    /// Its handler runs.
    Run,
}

struct Bench {
    one: One,
    counters: Counters,
    key: Key,
    line: Script,
    serve: Serve,
    /// The targets of the requests that were begun.
    begun: Vec<String>,
    /// Why the worker is asked, if it is for something else than a request.
    asked: Progress,
}

impl Bench {
    /// What the worker does with what comes.
    fn receive(&mut self, came: &[u8]) -> Step {
        let bytes = Bytes::Owned(self.one.pool.try_copy(came, Kind::Buffers).expect("room"));
        self.drive(Some(bytes))
    }

    fn drive(&mut self, fresh: Option<Bytes>) -> Step {
        let mut active = self.one.take(self.key).expect("a connection");
        let (desk, key, is_fresh) = (&self.one.desk, self.key, fresh.is_some());
        let kept = active.input.take();
        let joined = Source::join(desk, kept, fresh, || active.handler.is_some());
        let Ok(mut source) = joined else { panic!("no room for what came") };
        let mut slots = Slots::new();
        loop {
            self.asked = active.go_on(desk, &self.line, key, &mut source);
            if self.asked == Progress::Ahead {
                self.asked = active.choose_protocol(desk, &source);
            }
            if self.asked != Progress::Ahead {
                break;
            }
            let head = active.read_head(desk, key, &mut source, &mut slots);
            let Some((len, parsed)) = &head else { break };
            let (head, behind) = source.rest().split_at(*len);
            let has_body = parsed.framing.has_body();
            let view = RequestView::new(head, slots.of(parsed), parsed);
            active.begin(desk, key, &view, has_body.then_some(behind)).expect("room");
            self.begun.push(view.target().to_owned());
            let id = ExchangeId::new(key, active.requests, None);
            if self.serve == Serve::Run {
                active.handler = Some(plimsoll_runtime::spawn(pending()).expect("room"));
            }
            self.one.put_back(key, active);
            if self.serve == Serve::Ok {
                Http1(&self.one).answer(id, &mut Response::text("ok"));
            }
            active = self.one.take(key).expect("a connection");
            match has_body {
                true => source = active.input.take().map_or(Source::Empty, Source::Kept),
                false => source.consume(*len),
            }
        }
        let step = active.rest(desk, &mut self.line, key, &mut source, is_fresh);
        self.one.put_back(key, active);
        step
    }

    /// An event, and what it leads to if that is more.
    fn event(&mut self, event: impl FnOnce(&mut Active, &Desk, &mut Script, Key) -> Step) -> Step {
        let mut active = self.one.take(self.key).expect("a connection");
        let step = event(&mut active, &self.one.desk, &mut self.line, self.key);
        self.one.put_back(self.key, active);
        if let Step::GoOn = step { self.drive(None) } else { step }
    }

    fn due(&mut self) -> Step {
        self.event(|active, desk, line, key| active.due(desk, line, key))
    }

    fn ended(&mut self) -> Step {
        self.event(|active, desk, _, _| active.ended(desk))
    }

    /// The socket has taken all of it.
    fn sent(&mut self) -> Step {
        self.line.sent.clear();
        self.event(|active, desk, _, key| active.sent(desk, key))
    }

    fn with<R>(&mut self, act: impl FnOnce(&mut Active) -> R) -> R {
        act(self.one.active.get_mut().as_deref_mut().expect("a connection"))
    }

    /// Its listener takes connections from a proxy.
    fn await_proxy(&mut self) {
        self.one.peers.borrow_mut().accepted(self.key, || None).expect("one more");
        assert!(self.one.peers.borrow().awaits_proxy(self.key));
        self.with(|active| active.phase = Phase::AwaitsProxy);
    }

    /// That of the request that was begun last.
    fn id(&self) -> ExchangeId {
        let active = self.one.active.borrow();
        ExchangeId::new(self.key, active.as_deref().expect("a connection").requests, None)
    }

    fn poll_chunk(&self) -> Poll<Result<Option<Lease>, Error>> {
        Http1(&self.one).poll_chunk(self.id(), &mut Context::from_waker(Waker::noop()))
    }

    fn answer(&mut self) {
        Http1(&self.one).answer(self.id(), &mut Response::text("ok"));
    }

    /// The lines of what was sent, without the Date field.
    fn take_sent(&mut self) -> Vec<String> {
        let sent = String::from_utf8(::core::mem::take(&mut self.line.sent)).expect("text");
        sent.lines().filter(|line| !line.starts_with("Date: ")).map(str::to_owned).collect()
    }

    /// The statuses of what was sent.
    fn take_statuses(&mut self) -> Vec<String> {
        let sent = self.take_sent().join("\n");
        sent.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect()
    }

    fn take_begun(&mut self) -> Vec<String> {
        ::core::mem::take(&mut self.begun)
    }

    fn shed(&self, why: Shed) -> u64 {
        self.counters.totals().shed_total[why as usize]
    }
}

/// Steps of connections, each made by the call that it gets.
fn with(config: Config, act: impl FnOnce(&dyn Fn(Serve) -> Bench)) {
    let world = World::new(SimConfig::new(7));
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    runtime.block_on(async {
        let pool = plimsoll_runtime::pool();
        act(&|serve| {
            let stay_bytes = StayBytes { called: 0, awaited: 0, member: 0, released: 0, tunnel: 0, events: 0 };
            let counters = Counters::new(1);
            let shared = (counters.clone(), Addresses::default());
            let desk = Desk::new((config.clone(), None), 1 << 24, pool.clone(), shared, stay_bytes);
            desk.begin_turn();
            let active = pool.try_boxed(Active::new(0, 0, Score::default(), &config), Kind::Codec);
            let active = RefCell::new(Some(active.map_err(|(over, _)| over).expect("room")));
            let (_, key) = Key::unpack(0x03_0000_002a);
            let line = Script::new(pool.clone());
            Bench { one: One { desk, active }, counters, key, line, serve, begun: Vec::new(), asked: Progress::Done }
        });
    });
}

#[test]
fn a_head_that_is_split_anywhere_is_one_request() {
    with(Config::default(), |bench| {
        for at in 1..GET.len() {
            let mut bench = bench(Serve::Ok);
            assert!(matches!(bench.receive(&GET[..at]), Step::Rest), "{at}");
            assert_eq!((bench.begun.len(), bench.line.armed), (0, Armed::Receive), "{at}");
            assert_eq!(bench.line.due, Some(Config::default().head_timeout), "{at}: from its first byte");
            assert!(matches!(bench.receive(&GET[at..]), Step::Park), "{at}");
            assert_eq!((bench.take_begun(), bench.take_statuses()), (vec!["/a".to_owned()], vec!["200".to_owned()]));
        }
        let mut bench = bench(Serve::Ok);
        for byte in &GET[..GET.len() - 1] {
            assert!(matches!(bench.receive(&[*byte]), Step::Rest));
        }
        assert!(matches!(bench.receive(b"\n"), Step::Park));
        assert_eq!(bench.take_sent().last().map(String::as_str), Some("ok"));
    });
}

#[test]
fn requests_that_come_together_are_answered_together() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Ok);
        let three: Vec<u8> = ["/a", "/b", "/c"].iter().flat_map(|path| get(path)).collect();
        assert!(matches!(bench.receive(&[&three[..], &GET[..5]].concat()), Step::Rest), "a part of a fourth is there");
        assert_eq!(
            (bench.take_begun(), bench.take_statuses()),
            (["/a", "/b", "/c"].map(str::to_owned).to_vec(), ["200"; 3].map(str::to_owned).to_vec())
        );
        assert!(matches!(bench.receive(&GET[5..]), Step::Park));
        assert_eq!(bench.take_statuses(), ["200"]);
    });
}

#[test]
fn a_peer_that_takes_nothing_is_read_no_further() {
    let config = Config { read_ahead_requests_max: 2, ..Config::default() };
    with(config.clone(), |bench| {
        let mut bench = bench(Serve::Ok);
        bench.line.takes = Takes::Nothing;
        assert!(matches!(bench.receive(&GET.repeat(5)), Step::Rest));
        assert_eq!((bench.begun.len(), bench.line.armed), (2, Armed::Nothing));
        assert_eq!(bench.line.due, Some(config.send_timeout), "the peer has so long to take it");
        assert!(matches!(bench.sent(), Step::Rest), "its turn is among those that have read ahead");
        assert_eq!(bench.one.next_listed(), Some(bench.key));
        assert!(matches!(bench.drive(None), Step::Rest));
        assert_eq!(bench.begun.len(), 4);
        assert!(matches!(bench.due(), Step::End(ExchangeEnd::Timeout)), "it has not taken those in time");
        assert_eq!(bench.shed(Shed::Output), 1);
    });
}

#[test]
fn a_malformed_head_is_told_so_and_ends_the_connection() {
    with(Config::default(), |bench| {
        for bad in
            [&b"GET /a HTTP/1.1\r\nHost : x\r\n\r\n"[..], b"GET\t/a HTTP/1.1\r\n\r\n", b"GET /a HTTP/1.1\r\n\r\n"]
        {
            let mut bench = bench(Serve::Ok);
            assert!(matches!(bench.receive(&[bad, GET].concat()), Step::CloseGently));
            assert_eq!((bench.begun.len(), bench.shed(Shed::Misbehaviour)), (0, 1));
            let sent = bench.take_sent();
            assert_eq!(sent.first().map(String::as_str), Some("HTTP/1.1 400 Bad Request"));
            assert!(sent.contains(&"Connection: close".to_owned()), "{sent:?}");
        }
    });
}

#[test]
fn a_head_without_end_is_told_that_it_is_too_large() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Ok);
        assert!(matches!(bench.receive(b"GET /a HTTP/1.1\r\nHost: x\r\nX: "), Step::Rest));
        let mut came = 0;
        let step = loop {
            let step = bench.receive(&[b'a'; 1_000]);
            came += 1_000;
            if !matches!(step, Step::Rest) {
                break step;
            }
        };
        assert!(matches!(step, Step::CloseGently));
        assert!(came <= Config::default().limits.head_bytes() + 1_000, "{came}");
        assert_eq!(bench.take_statuses(), ["431"]);
    });
}

#[test]
fn a_head_that_comes_too_slowly_is_told_so() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Ok);
        assert!(matches!(bench.receive(&GET[..10]), Step::Rest));
        let due = bench.line.due.take();
        assert!(matches!(bench.receive(&GET[10..20]), Step::Rest));
        assert_eq!((due, bench.line.due), (Some(Config::default().head_timeout), None), "the time that is set stands");
        assert!(matches!(bench.due(), Step::CloseGently));
        assert_eq!((bench.take_statuses(), bench.shed(Shed::Timeout)), (vec!["408".to_owned()], 1));
    });
}

#[test]
fn who_expects_it_is_told_to_go_on_when_its_body_is_asked_for() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Run);
        let head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        assert!(matches!(bench.receive(head), Step::Rest));
        assert_eq!((bench.take_sent().len(), bench.line.armed), (0, Armed::Watch), "nobody has asked for its body");
        assert!(bench.poll_chunk().is_pending());
        assert!(matches!(bench.drive(None), Step::Rest));
        assert_eq!((bench.take_statuses(), bench.line.armed), (vec!["100".to_owned()], Armed::Receive));
        assert!(matches!(bench.receive(b"hello"), Step::Rest));
        let Poll::Ready(Ok(Some(chunk))) = bench.poll_chunk() else { panic!("it has come") };
        assert_eq!(&chunk[..], b"hello");
        assert!(matches!(bench.poll_chunk(), Poll::Ready(Ok(None))));
        bench.answer();
        assert!(matches!(bench.drive(None), Step::Park));
        assert_eq!(bench.take_statuses(), ["200"]);
    });
}

#[test]
fn a_connection_ends_with_the_answer_that_says_so() {
    let last = [
        (&b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"[..], None),
        (b"GET /a HTTP/1.0\r\n\r\n", None),
        (GET, Some(1)),
    ];
    for (request, requests_max) in last {
        with(Config { requests_max, ..Config::default() }, |bench| {
            let mut bench = bench(Serve::Ok);
            assert!(matches!(bench.receive(&[request, GET].concat()), Step::CloseGently), "{request:?}");
            assert_eq!(bench.begun.len(), 1, "what follows is not looked at");
            let sent = bench.take_sent();
            assert!(sent.contains(&"Connection: close".to_owned()), "{sent:?}");
        });
    }
}

#[test]
fn a_body_that_nobody_reads_is_dropped_before_the_next_request() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Ok);
        let head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\n\r\n";
        assert!(matches!(bench.receive(&[head, &b"GET"[..]].concat()), Step::Rest));
        assert_eq!((bench.take_statuses(), bench.line.armed), (vec!["200".to_owned()], Armed::Receive));
        assert!(matches!(bench.receive(&[b" /b H", &get("/c")[..]].concat()), Step::Park));
        assert_eq!(
            (bench.take_begun(), bench.take_statuses()),
            (vec!["/a".to_owned(), "/c".to_owned()], vec!["200".to_owned()])
        );
    });
}

#[test]
fn more_of_a_body_than_is_dropped_ends_the_connection() {
    with(Config { drain_bytes_max: 1_000, ..Config::default() }, |bench| {
        let mut bench = bench(Serve::Ok);
        let head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n";
        bench.line.takes = Takes::Nothing;
        assert!(matches!(bench.receive(head), Step::Rest));
        let sent = bench.take_sent();
        assert!(sent.contains(&"Connection: close".to_owned()), "its answer says so: {sent:?}");
        assert!(matches!(bench.receive(&[0; 1_001]), Step::CloseGently));
    });
}

#[test]
fn who_ends_its_half_is_answered_where_that_is_meant() {
    for (half_close, is_answered) in [(HalfClose::Answered, true), (HalfClose::Gone, false)] {
        with(Config { half_close, ..Config::default() }, |bench| {
            let mut bench = bench(Serve::Run);
            assert!(matches!(bench.receive(GET), Step::Rest));
            assert_eq!(bench.line.armed, Armed::Watch);
            let step = bench.event(|active, desk, line, _| active.peer_closed(desk, line));
            if !is_answered {
                assert!(matches!(step, Step::End(ExchangeEnd::Peer)));
                return;
            }
            assert!(matches!(step, Step::Rest));
            assert_eq!((bench.with(|active| active.phase), bench.line.armed), (Phase::HalfClosed, Armed::Nothing));
            assert!(bench.line.due.is_some(), "it is looked whether it is there still");
            assert!(matches!(bench.due(), Step::Rest), "it is");
            bench.answer();
            assert!(matches!(bench.drive(None), Step::Park));
            assert_eq!(bench.take_statuses(), ["200"]);
        });
    }
}

#[test]
fn an_end_in_the_middle_of_a_head_is_no_request() {
    with(Config::default(), |bench| {
        let mut bench = bench(Serve::Ok);
        assert!(matches!(bench.receive(&GET[..10]), Step::Rest));
        assert!(matches!(bench.ended(), Step::CloseGently));
        assert_eq!((bench.begun.len(), bench.take_sent().len()), (0, 0));
    });
}

#[test]
fn the_first_bytes_say_which_protocol_it_is() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    with(Config::default(), |bench| {
        let mut first = bench(Serve::Ok);
        assert!(matches!(first.receive(&PREFACE[..1]), Step::Rest));
        assert_eq!((first.asked, first.line.due), (Progress::Done, Some(Config::default().head_timeout)));
        first.receive(&PREFACE[1..]);
        assert_eq!(first.asked, Progress::Http2);
        let mut later = bench(Serve::Ok);
        assert!(matches!(later.receive(GET), Step::Park));
        assert!(matches!(later.receive(PREFACE), Step::CloseGently), "too late");
    });
    with(Config { http2: Http2::Only, ..Config::default() }, |bench| {
        let mut first = bench(Serve::Ok);
        assert!(matches!(first.receive(GET), Step::CloseGently));
        assert_eq!(first.take_statuses(), ["505"]);
        let mut other = bench(Serve::Ok);
        other.receive(b"\x16\x03\x01 no HTTP\r\n");
        assert_eq!(other.asked, Progress::Close, "who speaks something else does not understand an answer");
    });
}

#[test]
fn a_proxy_says_for_whom_it_connects_in_any_split() {
    const PROXY: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.1 4321 80\r\n";
    with(Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() }, |bench| {
        for at in 1..PROXY.len() {
            let mut bench = bench(Serve::Ok);
            bench.await_proxy();
            assert!(matches!(bench.receive(&PROXY[..at]), Step::Rest), "{at}");
            assert_eq!(bench.line.due, Some(Config::default().proxy_header_timeout), "{at}");
            assert!(matches!(bench.receive(&[&PROXY[at..], GET].concat()), Step::Park), "{at}");
            let client = SocketAddr::from(([192, 0, 2, 7], 4_321));
            assert_eq!((bench.one.peer_address(bench.key), bench.begun.len()), (Some(client), 1), "{at}");
        }
        let mut bench = bench(Serve::Ok);
        bench.await_proxy();
        bench.receive(GET);
        assert_eq!((bench.asked, bench.shed(Shed::Misbehaviour)), (Progress::Close, 1));
    });
}

#[test]
fn a_handler_that_takes_too_long_is_stopped_and_its_client_told() {
    let config = Config { handler_timeout: Some(Duration::ZERO), ..Config::default() };
    with(config, |bench| {
        let mut bench = bench(Serve::Run);
        assert!(matches!(bench.receive(GET), Step::Rest));
        bench.with(|active| active.begun_at = Some(plimsoll_runtime::now()));
        let Step::Abort(handler) = bench.due() else { panic!("its handler runs") };
        handler.abort();
        assert!(matches!(bench.drive(None), Step::CloseGently));
        assert_eq!((bench.take_statuses(), bench.shed(Shed::Timeout)), (vec!["503".to_owned()], 1));
    });
}

#[test]
fn a_handler_overstays_when_it_is_protected_no_more_and_need_not_finish() {
    const PROTECTED: Duration = Duration::from_secs(10);
    let config = Config { begun_protection: PROTECTED, ..Config::default() };
    with(config.clone(), |bench| {
        let mut bench = bench(Serve::Run);
        assert!(matches!(bench.receive(GET), Step::Rest));
        let now = plimsoll_runtime::now();
        bench.with(|active| active.begun_at = Some(now));
        for (must_finish, after, overstays) in
            [(0, PROTECTED, false), (0, PROTECTED + Duration::from_millis(1), true), (1, 2 * PROTECTED, false)]
        {
            bench.with(|active| active.must_finish = must_finish);
            assert_eq!(bench.with(|active| active.is_overstay(now + after, &config)), overstays, "after {after:?}");
        }
    });
}

#[test]
fn a_body_is_wanted_while_some_is_to_come_and_none_is_there() {
    const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\n";
    with(Config::default(), |bench| {
        let wants = |bench: &mut Bench| bench.with(|active| active.wants_body());
        let mut bodiless = bench(Serve::Run);
        bodiless.receive(GET);
        assert!(!wants(&mut bodiless), "its request has none");
        let mut one = bench(Serve::Run);
        one.receive(HEAD);
        assert!(wants(&mut one));
        one.receive(b"abc");
        assert!(!wants(&mut one), "a part is there");
        one.with(|active| active.input = None);
        assert!(wants(&mut one), "it was taken");
        one.with(|active| active.phase = Phase::Closing);
        assert!(!wants(&mut one), "nobody will read it");
    });
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
}
