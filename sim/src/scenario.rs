//! One seed: a world, the server in it, its clients, and what must hold in the end.

use core::pin::Pin;
use core::time::Duration;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use plimsoll::http::{AdaptiveSize, Class, Config, ExchangeEnd, ProxyProtocol, Server, Totals};
use plimsoll::net::ReadHalf;
use plimsoll::sim::{Census, Faults, SimConfig, World};
use plimsoll::{Runtime, Spawner, sleep, spawn, timeout};

use crate::busy;
use crate::dial::{Dial, Dials};
use crate::hostile;
use crate::http2;
use crate::limits::{self, Limit};
use crate::oracle::{Seen, Verdict};
use crate::plan::{Demand, End, Plan, Rng};
use crate::service::{self, Tally};
use crate::tls::Ends;
use crate::websocket;

/// Longer than any exchange of a world takes.
const LONG: Duration = Duration::from_secs(3_600);

type BoxedClient = Pin<Box<dyn Future<Output = (usize, Verdict)>>>;

/// What a seed decides about its world.
struct Weather {
    faults: Faults,
    is_clean: bool,
    /// The server is stopped while clients are at it.
    stops_early: bool,
    /// Clients that lose nothing by that.
    busy: u64,
    workers: usize,
    clients: u64,
    limit: Option<Limit>,
    /// Addresses of clients, if they tell them.
    addresses: Option<u64>,
    /// How long what was begun is protected.
    protection: Duration,
}

impl Weather {
    fn of(seed: u64, rng: &mut Rng) -> Self {
        let (faults, is_clean) = match seed % 4 {
            0 => (Faults::wild(), false),
            1 => (Faults::mild(), false),
            _ => (Faults::clean(), true),
        };
        let stops_early = rng.below(8) == 0;
        let workers = if rng.below(4) == 0 { 2 } else { 1 };
        let limit = (rng.below(4) == 0).then(|| rng.pick(&Limit::ALL));
        let clients_max = if limit == Some(Limit::Memory) { 16 } else { 7 };
        let clients = rng.between(1, clients_max).max(limit.map_or(0, Limit::clients_min));
        let busy = if stops_early && is_clean && limit.is_none() { rng.between(1, 5) } else { 0 };
        let is_short = limit == Some(Limit::Memory);
        let addresses = (is_short && rng.below(2) == 0).then(|| rng.between(1, 6));
        let protection = Duration::from_millis(if is_short { rng.pick(&[200, 1_000]) } else { 0 });
        let protection = if protection.is_zero() || rng.below(3) == 0 { LONG } else { protection };
        let is_clean = is_clean && !stops_early;
        Self { faults, is_clean, stops_early, busy, workers, clients, limit, addresses, protection }
    }

    /// Whether any request may be refused that could not be begun in time.
    fn refuses_some(&self) -> bool {
        matches!(self.limit, Some(Limit::Memory | Limit::Handlers))
    }

    /// Whether clients of other protocols are among the others.
    fn is_mixed(&self) -> bool {
        self.limit.is_none() || self.refuses_some()
    }

    /// Whether all that is due arrives.
    fn gives_all(&self) -> bool {
        self.is_clean && !self.refuses_some()
    }

    /// With what a client says behind which address it is.
    fn introduction(&self, rng: &mut Rng) -> Option<String> {
        let addresses = self.addresses?;
        Some(format!("PROXY TCP4 10.0.0.{} 127.0.0.1 9 80\r\n", 1 + rng.below(addresses)))
    }

    /// What a client may be denied.
    fn demand(&self, plan: &Plan) -> Demand {
        match self.limit {
            _ if self.refuses_some() => Demand::WhatFits,
            _ if !self.is_clean => Demand::Beginning,
            Some(Limit::Connections | Limit::Address) => Demand::AllOrRefused,
            Some(limit) if limit.hits_anybody() && plan.reaches.is_none() => Demand::Beginning,
            _ => Demand::All,
        }
    }
}

/// What a run came to, to be compared with another run of its seed.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Of every event in the world, in order, with its time.
    pub trace_hash: u64,
    /// What the server counted.
    pub totals: Totals,
    /// Bytes that all clients received.
    pub received_bytes: usize,
    /// How each client's answers ended.
    pub verdicts: Vec<Verdict>,
    /// What happened.
    pub census: Census,
    /// The limit that was tight, and whether it was reached.
    pub limit: Option<(Limit, bool)>,
}

/// What carries the connections of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Nothing.
    Bare,
    /// TLS.
    Tls,
}

impl Carrier {
    /// Whether clients hear of this limit. Who is turned away before there are keys hears nothing.
    #[must_use]
    pub const fn tells_of(self, limit: Limit) -> bool {
        matches!(self, Self::Bare) || !matches!(limit, Limit::Connections | Limit::Address)
    }
}

/// Runs a seed. Two runs of a seed have the same outcome.
///
/// # Panics
///
/// When something does not hold that must.
pub fn run(seed: u64, carrier: Carrier) -> Outcome {
    let mut rng = Rng::new(seed);
    let mut weather = Weather::of(seed, &mut rng);
    let tls = (carrier == Carrier::Tls).then(|| {
        weather.limit = weather.limit.filter(|&limit| carrier.tells_of(limit));
        Ends::new(seed)
    });
    let world = World::new(SimConfig {
        socket_buffer_bytes: rng.pick(&[2_048, 8_192, 65_536]),
        segment_bytes_max: rng.pick(&[700, 4_096, 16_384]),
        trace_events_max: 20,
        ..SimConfig::new(seed).with_faults(weather.faults.clone())
    });
    let runtime = Runtime::builder()
        .workers(weather.workers)
        .memory(limits::memory(weather.limit, weather.workers, &mut rng))
        .simulate(&world)
        .expect("a simulation starts");
    let is_clean = weather.is_clean;
    let tally = Arc::new(Tally { protection: weather.protection, ..Tally::default() });
    let limit = weather.limit;
    let moves = (limit == Some(Limit::Memory) && seed.is_multiple_of(2)).then(|| Rng::new(!seed));
    let (totals, results) = runtime.block_on(scenario(weather, (rng, moves), tls, Arc::clone(&tally)));
    let report = runtime.shutdown();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.in_flight, 0);
    assert!(world.descriptors().is_empty(), "descriptors are left: {:?}", world.descriptors());
    tally.check(&totals, limit, is_clean);
    tally.check_ends(&totals, carrier, limit, is_clean);
    let received_bytes = results.iter().map(|(bytes, _)| bytes).sum();
    let verdicts: Vec<Verdict> = results.into_iter().map(|(_, verdict)| verdict).collect();
    Outcome {
        trace_hash: world.trace_hash(),
        census: world.census(),
        limit: limit.map(|limit| (limit, limit.is_reached(&totals, &verdicts))),
        totals,
        received_bytes,
        verdicts,
    }
}

fn config(rng: &mut Rng, weather: &Weather) -> Config {
    let mut config = Config {
        keep_alive_timeout: Duration::from_secs(4),
        head_timeout: Duration::from_secs(2),
        body_timeout: Duration::from_secs(6),
        send_timeout: Duration::from_secs(6),
        // With one size, and a small one, bodies are soon received into several buffers at a time.
        body_receive: rng.pick(&[Config::default().body_receive, AdaptiveSize::new(Class::K4, Class::K4)]),
        output_bytes_max: rng.pick(&[500, 4_096, 17_000, 65_536]),
        begun_protection: weather.protection,
        proxy_protocol: if weather.addresses.is_some() { ProxyProtocol::Required } else { ProxyProtocol::Off },
        ..Config::default()
    };
    if let Some(limit) = weather.limit {
        limit.apply(rng, &mut config);
    }
    config
}

/// With numbers for its clients, and others for a line that moves, if it does.
async fn scenario(
    weather: Weather,
    (mut rng, moves): (Rng, Option<Rng>),
    tls: Option<Ends>,
    tally: Arc<Tally>,
) -> (Totals, Vec<(usize, Verdict)>) {
    let mut server = Server::bind("127.0.0.1:80").expect("the address is free").config(config(&mut rng, &weather));
    if let Some(ends) = &tls {
        server = server.tls(&ends.server);
    }
    let (address, counters) = (server.local_addr(), server.counters());
    let mut dials = Dials { address, tls };
    let handlers = Arc::clone(&tally);
    let serving =
        spawn(server.serve(move |request| service::answer(request, Arc::clone(&handlers)))).expect("there is room");
    // Every worker binds before the first client comes.
    sleep(Duration::from_millis(5)).await;
    let moving = moves.and_then(|rng| spawn(limits::move_line(rng)).ok());
    let mut clients = Vec::new();
    for at in 0..weather.clients {
        let (client, is_at_fault) = client(at, &weather, &mut rng, &mut dials, &tally);
        tally.at_fault.fetch_add(is_at_fault.into(), Ordering::Relaxed);
        match spawn(client) {
            Ok(client) => clients.push(client),
            Err(error) => assert_eq!(weather.limit, Some(Limit::Memory), "there is room: {error}"),
        }
    }
    for _ in 0..weather.busy {
        let (plan, late) = (busy::Plan::new(&mut rng), Duration::from_micros(rng.below(60_000)));
        let (dial, _nothing) = dials.dial(None, "");
        let client = async move {
            sleep(late).await;
            busy::client(dial, plan).await
        };
        clients.push(spawn(Box::pin(client) as BoxedClient).expect("there is room"));
    }
    for (plan, late) in dials.hostile() {
        let is_heard = weather.gives_all() && weather.limit.is_none();
        let introduction = weather.introduction(&mut rng).unwrap_or_default();
        let client = async move {
            sleep(late).await;
            hostile::client(address, &introduction, plan, is_heard).await;
            (0_usize, Verdict::Refused)
        };
        clients.extend(spawn(Box::pin(client) as BoxedClient));
    }
    if weather.stops_early {
        sleep(Duration::from_micros(rng.below(50_000))).await;
        Spawner::current().stop();
    }
    let mut results = Vec::new();
    for client in clients {
        results.push(client.await.expect("a client's oracle is content"));
    }
    if let Some(moving) = moving {
        moving.await.expect("no more than the line is handed out");
    }
    Spawner::current().stop();
    let served = timeout(Duration::from_secs(30), serving).await.expect("a stop ends within the drain time");
    served.expect("the server does not panic").expect("the server does not fail");
    let totals = counters.totals();
    assert_eq!((totals.parked, totals.active), (0, 0), "connections are left in the counters");
    (totals, results)
}

/// A client of some protocol, and whether it may end its exchanges before the server does.
fn client(at: u64, weather: &Weather, rng: &mut Rng, dials: &mut Dials, tally: &Arc<Tally>) -> (BoxedClient, bool) {
    let (gives_all, late) = (weather.gives_all(), Duration::from_micros(rng.below(3_000)));
    let introduction = weather.introduction(rng).unwrap_or_default();
    let tally = Arc::clone(tally);
    if weather.is_mixed() && rng.below(4) == 0 {
        let mut plan = websocket::Plan::new(rng);
        let (dial, first) = dials.dial(None, &introduction);
        plan.introduce(first);
        let is_at_fault = plan.is_at_fault();
        let client = async move {
            sleep(late).await;
            let mut seen = Seen::default();
            let result = websocket::client(&dial, plan, gives_all, &mut seen).await;
            tally.saw(seen, is_at_fault);
            result
        };
        return (Box::pin(client), is_at_fault);
    }
    if weather.is_mixed() && rng.below(3) == 0 {
        let mut plan = http2::Plan::new(rng);
        let (dial, first) = dials.dial(Some(b"h2"), &introduction);
        plan.introduce(first);
        tally.deserted.fetch_add(plan.deserted_max(), Ordering::Relaxed);
        let is_at_fault = plan.is_at_fault();
        let client = async move {
            sleep(late).await;
            let mut seen = Seen::default();
            let verdict = http2::talk(&dial, &plan, gives_all, &mut seen).await;
            tally.saw(seen, is_at_fault);
            verdict.unwrap_or_else(|what| panic!("{what}\n{plan:?}"))
        };
        return (Box::pin(client), is_at_fault);
    }
    let reaching = weather.limit.filter(|_| at == 0).and_then(|limit| Plan::reaching(limit, rng));
    let mut plan = reaching.unwrap_or_else(|| Plan::new(rng, weather.refuses_some()));
    let (dial, first) = dials.dial(None, &introduction);
    plan.introduce(first);
    let (demand, is_at_fault) = (weather.demand(&plan), plan.is_at_fault());
    let client = async move {
        sleep(late).await;
        let mut seen = Seen::default();
        let received = talk(&dial, &plan, &mut seen).await;
        let verdict = plan.judge(&received.bytes, received.ended, demand, &mut seen);
        tally.saw(seen, is_at_fault);
        (received.bytes.len(), verdict.unwrap_or_else(|what| panic!("{what}\n{plan:?}")))
    };
    (Box::pin(client), is_at_fault)
}

/// What a client got.
struct Got {
    bytes: Vec<u8>,
    /// The server closed the connection in an orderly way.
    ended: bool,
}

async fn talk(dial: &Dial, plan: &Plan, seen: &mut Seen) -> Got {
    let received = Rc::new(RefCell::new(Vec::new()));
    let Some(stream) = dial.connect(seen).await else {
        return Got { bytes: Vec::new(), ended: false };
    };
    let (mut read, mut write) = stream.into_split();
    let (pieces, half_closes) = (plan.pieces.clone(), plan.end == End::HalfClose);
    let writing = spawn(async move {
        for (pause, piece) in pieces {
            sleep(pause).await;
            if write.send_bytes(&piece).await.is_err() {
                break;
            }
        }
        if half_closes {
            let _gone_already = write.shutdown_write().await;
        }
        // Kept open until the reader is done.
        core::future::pending::<()>().await;
    });
    // The clients live under the same line.
    let Ok(writer) = writing else {
        seen.went_away = true;
        return Got { bytes: Vec::new(), ended: false };
    };
    let reading = read_on(&mut read, plan, Rc::clone(&received), seen);
    let ended = matches!(timeout(Duration::from_secs(120), reading).await, Ok(true));
    writer.abort();
    drop(writer);
    let bytes = received.take();
    Got { bytes, ended }
}

/// Reads until the server ends the connection (`true`), or the plan or an error does.
async fn read_on(read: &mut ReadHalf, plan: &Plan, received: Rc<RefCell<Vec<u8>>>, seen: &mut Seen) -> bool {
    loop {
        sleep(plan.read_pause).await;
        match read.recv().await {
            Ok(Some(bytes)) => received.borrow_mut().extend_from_slice(&bytes),
            Ok(None) => return true,
            Err(error) => {
                seen.failed(&error);
                return false;
            }
        }
        if let End::DropAfter(bytes) = plan.end
            && received.borrow().len() >= bytes
        {
            return false;
        }
    }
}

/// The figures that a tally and the server's counters must agree in.
impl Tally {
    /// A client that is at fault tells nothing about the server.
    fn saw(&self, seen: Seen, is_at_fault: bool) {
        self.at_fault.fetch_add(seen.went_away.into(), Ordering::Relaxed);
        if !is_at_fault && !seen.went_away {
            self.whole.fetch_add(seen.whole, Ordering::Relaxed);
            self.midway.fetch_add(seen.midway, Ordering::Relaxed);
        }
    }

    /// Each exchange that was begun ends once, for one of the reasons that there may be in this world.
    fn check_ends(&self, totals: &Totals, carrier: Carrier, limit: Option<Limit>, is_clean: bool) {
        let is_short = limit == Some(Limit::Memory);
        let [started, dropped, early, at_fault, whole, midway] =
            [&self.started, &self.dropped, &self.early, &self.at_fault, &self.whole, &self.midway]
                .map(|count| count.load(Ordering::Relaxed));
        let of = |how: ExchangeEnd| totals.exchanges_ended_total[how as usize];
        let all: u64 = totals.exchanges_ended_total.iter().sum();
        let what = || format!("{totals:?}, {self:?}");
        assert_eq!(totals.exchanges_begun_total, started, "what is begun is a handler: {}", what());
        assert_eq!(totals.exchanges_begun_total, all, "each ends once: {}", what());
        let cut = all - of(ExchangeEnd::Finished);
        assert!(dropped <= cut, "a handler that is dropped has not finished: {}", what());
        let overstay = of(ExchangeEnd::Overstay);
        // A record that finds no room to be opened or sealed, by the server or its client, ends its connection.
        let ends_early = carrier == Carrier::Tls && is_short;
        assert!(ends_early || early <= cut - overstay, "what was begun is protected: {}", what());
        assert!(ends_early || self.protection < LONG || overstay == 0, "none is so old: {}", what());
        assert!(is_short || overstay == 0, "there is room for all: {}", what());
        if !is_clean {
            return;
        }
        // Handlers may go on when their answers are whole.
        let given_up = of(ExchangeEnd::Timeout) + overstay;
        let finished = of(ExchangeEnd::Finished);
        assert!(ends_early || whole <= finished + given_up, "a client got what did not finish: {}", what());
        // Where another limit closes a connection, its client may still send: what nobody reads any more makes a reset,
        // which may overtake an answer.
        let is_read = is_short || limit.is_none();
        assert!(ends_early || !is_read || midway <= given_up, "an answer was cut that nobody gave up: {}", what());
        if at_fault == 0 && !ends_early {
            assert_eq!(of(ExchangeEnd::Peer), 0, "no client goes away: {}", what());
            assert_eq!(of(ExchangeEnd::Stop), 0, "all have their answers before the stop: {}", what());
        }
    }

    fn check(&self, totals: &Totals, limit: Option<Limit>, is_clean: bool) {
        let [started, answered, dropped, wrong] =
            [&self.started, &self.answered, &self.dropped, &self.wrong].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(started, answered + dropped, "every handler's future ends");
        assert_eq!(wrong, 0, "a handler got another body than was sent");
        let responses: u64 = totals.responses_total.iter().map(|(_, count)| count).sum();
        let shed: u64 = totals.shed_total.iter().sum();
        // Where memory is short, a request may find no room for its handler: that is counted as shed.
        let unstarted = if limit == Some(Limit::Memory) { shed } else { 0 };
        let requests = totals.requests_total + totals.http2_requests_total;
        assert!(
            (started..=started + unstarted).contains(&requests),
            "a request is a handler started: {requests}, {started}"
        );
        // On a connection that breaks, an answer may come too late to be counted. Where nothing fails, only a client
        // breaks one.
        let deserted = self.deserted.load(Ordering::Relaxed);
        let mut unsent = if is_clean { deserted } else { totals.http2_requests_total };
        if limit == Some(Limit::Memory) {
            // An answer that waits for room when its client goes away, or when the time to drain is over: of each
            // connection one at most.
            unsent += totals.accepted_total;
        }
        assert!(responses <= started + shed, "{totals:?} with {started} handlers started");
        assert!(
            responses + dropped + self.unheard.load(Ordering::Relaxed) + unsent >= started,
            "{totals:?} with {started} handlers started, {dropped} dropped"
        );
    }
}
