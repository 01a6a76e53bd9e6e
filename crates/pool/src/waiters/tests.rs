//! Properties of the queue, over a supply that is a few numbers. After every operation:
//!
//! * nothing is given that is not there: free, kept and given bytes are always the same sum (overshoot 0), and what is
//!   kept for the head is given to nobody else (I6);
//! * a non-empty queue means that its head does not fit, or the first of those who are patient (I7);
//! * who is patient is granted nothing while somebody else waits;
//! * within a tenant and a priority, the first in is the first out, unless a smaller one passes the head;
//! * whoever's deadline has passed is told; grants of those who went away are back.
//!
//! And over random schedules of exchanges that reserve all they need at once, hold it and end: nobody waits in a
//! circle, no wake-up is lost, and nobody is passed for ever. Over tenants: shares are even, and a greedy one does not
//! make the others wait.
//!
//! Some print a figure, for `cargo xtask bench --pool`.
#![allow(clippy::print_stdout, reason = "figures are for people")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::Wake;

use proptest::prelude::*;

use super::*;
use crate::{Budget, Class, MemoryLimit, PoolConfig, page_bytes};

/// Numbers instead of memory; the same rules as a worker's credit.
#[derive(Debug, Default)]
struct Numbers {
    unused: Cell<u64>,
    earmark: Cell<u64>,
}

#[derive(Clone, Debug)]
struct Sea(Rc<Numbers>);

#[derive(Debug)]
struct Catch {
    sea: Rc<Numbers>,
    bytes: u64,
}

impl Catch {
    fn give_back(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.sea.unused.set(self.sea.unused.get() + bytes);
    }
}

impl Drop for Catch {
    fn drop(&mut self) {
        self.sea.unused.set(self.sea.unused.get() + self.bytes);
    }
}

impl Sea {
    fn new(free: u64) -> Self {
        Self(Rc::new(Numbers { unused: Cell::new(free), ..Numbers::default() }))
    }

    fn usable(&self, source: Source) -> u64 {
        let sea = &*self.0;
        match source {
            Source::Reserve => unreachable!("nobody who waits draws on it"),
            Source::Free => sea.unused.get() - sea.earmark.get(),
            Source::Earmark => sea.unused.get(),
        }
    }
}

impl Supply for Sea {
    type Grant = Catch;

    fn take(&self, request: &Request, source: Source) -> Result<Catch, OverBudget> {
        let (sea, bytes) = (&*self.0, request.bytes());
        if self.usable(source) < bytes {
            return Err(OverBudget::new(bytes));
        }
        sea.unused.set(sea.unused.get() - bytes);
        if source == Source::Earmark {
            sea.earmark.set(sea.earmark.get().saturating_sub(bytes));
        }
        Ok(Catch { sea: Rc::clone(&self.0), bytes })
    }

    fn earmark(&self, bytes: u64) {
        self.0.earmark.set(bytes.min(self.0.unused.get()));
    }
}

/// A queue, and what it gives out.
struct Port {
    waiters: Waiters<Catch>,
    sea: Sea,
    now_ns: u64,
}

impl Port {
    fn new(pool: &Pool, sea: Sea) -> Self {
        Self { waiters: Waiters::new(pool, 20_000).unwrap(), sea, now_ns: 0 }
    }

    fn enqueue(&mut self, tenant: usize, priority: Priority, len: usize, wait_ns: u64) -> PlaceKey {
        self.reserve(tenant, priority, Footprint::one(len), wait_ns)
    }

    fn reserve(&mut self, tenant: usize, priority: Priority, footprint: Footprint, wait_ns: u64) -> PlaceKey {
        self.reserve_with(tenant, priority, (footprint, 0), wait_ns)
    }

    fn reserve_with(
        &mut self,
        tenant: usize,
        priority: Priority,
        (footprint, charge_bytes): (Footprint, u64),
        wait_ns: u64,
    ) -> PlaceKey {
        let request = Request {
            footprint,
            charge_bytes,
            kind: Kind::Buffers,
            priority,
            name: tenant as u64,
            now_ns: self.now_ns,
            deadline_ns: self.now_ns.saturating_add(wait_ns),
        };
        self.waiters.enqueue(request).unwrap()
    }

    /// Grants what can be granted, and wakes whom it is told to; how many.
    fn pump(&mut self) -> usize {
        let mut count = 0;
        while let Some(waker) = self.waiters.next_grant(self.now_ns, &self.sea) {
            count += 1;
            if let Some(waker) = waker {
                waker.wake();
            }
        }
        count
    }

    fn expire(&mut self) {
        let mut last = None;
        while let Some(expired) = self.waiters.next_expired(self.now_ns, last) {
            last = Some(expired.key);
            if let Some(waker) = expired.waker {
                waker.wake();
            }
        }
    }

    fn poll(&mut self, key: PlaceKey) -> Answer<Catch> {
        self.waiters.poll(key, Some(Waker::noop().clone())).0
    }
}

fn pool() -> Pool {
    Pool::new(&Budget::new(MemoryLimit::mib(64)), PoolConfig::default()).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Enqueue { tenant: usize, priority: usize, len: usize, charge_bytes: u64, wait_ns: u64 },
    Poll(usize),
    Cancel(usize),
    Free(usize),
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![3 => 1_usize..5000, 1 => 1_usize..131_072];
    let charge = prop_oneof![3 => Just(0_u64), 1 => 1_u64..150_000];
    let wait = prop_oneof![1 => 0_u64..3_000_000, 1 => Just(u64::MAX)];
    prop_oneof![
        6 => (0..3_usize, 0..Priority::COUNT, len, charge, wait).prop_map(|(tenant, priority, len, charge_bytes, wait_ns)| {
            Op::Enqueue { tenant, priority, len, charge_bytes, wait_ns }
        }),
        4 => any::<usize>().prop_map(Op::Poll),
        1 => any::<usize>().prop_map(Op::Cancel),
        5 => any::<usize>().prop_map(Op::Free),
        2 => (0_u64..700_000).prop_map(Op::Pass),
    ]
}

/// What the test knows of a waiter that was not told yet.
#[derive(Debug)]
struct Known {
    key: PlaceKey,
    lane: (usize, usize, bool),
    deadline_ns: u64,
}

struct Model {
    port: Port,
    known: Vec<Known>,
    /// Waiting, in order, by tenant, priority and whether they are patient.
    lanes: BTreeMap<(usize, usize, bool), Vec<PlaceKey>>,
    held: Vec<Catch>,
    total: u64,
}

impl Model {
    fn is_waiting(&self, key: PlaceKey) -> bool {
        matches!(self.port.waiters.queue.get(key).map(|place| &place.item().state), Some(State::Waiting))
    }

    /// Grants one at a time, each of which is the first of its lane.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        loop {
            let before: Vec<PlaceKey> =
                self.known.iter().map(|known| known.key).filter(|key| self.is_waiting(*key)).collect();
            let blocked = self.port.waiters.blocked.map(|blocked| blocked.waiter);
            let waiting = self.port.waiters.waiting();
            let port = &mut self.port;
            if port.waiters.next_grant(port.now_ns, &port.sea).is_none() {
                break;
            }
            let told: Vec<PlaceKey> = before.into_iter().filter(|key| !self.is_waiting(*key)).collect();
            prop_assert_eq!(told.len(), 1, "one at a time");
            let known = self.known.iter().find(|known| known.key == told[0]).unwrap();
            prop_assert!(!known.lane.2 || waiting == 0, "all others pass who is patient");
            let lane = self.lanes.get_mut(&known.lane).unwrap();
            let has_passed = self.port.waiters.blocked.is_some() && blocked != Some(told[0]);
            prop_assert!(lane[0] == told[0] || has_passed, "first in, first out");
            lane.retain(|key| *key != told[0]);
        }
        Ok(())
    }

    fn forget(&mut self, key: PlaceKey) {
        self.known.retain(|known| known.key != key);
        self.lanes.values_mut().for_each(|lane| lane.retain(|other| *other != key));
    }

    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Enqueue { tenant, priority, len, charge_bytes, wait_ns } => {
                let wants = (Footprint::one(len), charge_bytes);
                let key = self.port.reserve_with(tenant, Priority::ALL[priority], wants, wait_ns);
                let deadline_ns = self.port.now_ns.saturating_add(wait_ns);
                let lane = (tenant, priority, charge_bytes > 0);
                self.known.push(Known { key, lane, deadline_ns });
                self.lanes.entry(lane).or_default().push(key);
            }
            Op::Poll(pick) => {
                let Some(known) = self.known.get(pick % self.known.len().max(1)) else { return Ok(()) };
                let key = known.key;
                match self.port.poll(key) {
                    Answer::Wait => prop_assert!(self.is_waiting(key)),
                    Answer::Granted(catch) => {
                        self.held.push(catch);
                        self.forget(key);
                    }
                    Answer::Shed(shed) => {
                        prop_assert!(matches!(shed, Shed::Deadline));
                        self.forget(key);
                    }
                }
            }
            Op::Cancel(pick) => {
                let Some(known) = self.known.get(pick % self.known.len().max(1)) else { return Ok(()) };
                let key = known.key;
                drop(self.port.waiters.cancel(key));
                self.forget(key);
            }
            Op::Free(pick) if !self.held.is_empty() => drop(self.held.swap_remove(pick % self.held.len())),
            Op::Free(_) => {}
            Op::Pass(ns) => {
                self.port.now_ns += ns;
                self.port.expire();
                for known in self.known.iter().filter(|known| known.deadline_ns <= self.port.now_ns) {
                    prop_assert!(!self.is_waiting(known.key), "who is late is told");
                }
                let queue = &self.port.waiters.queue;
                let waits = |key: &PlaceKey| queue.get(*key).is_some_and(|place| place.item().is_waiting());
                self.lanes.values_mut().for_each(|lane| lane.retain(waits));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let sea = &*self.port.sea.0;
        let granted = self.port.waiters.queue.iter().filter_map(|place| match &place.item().state {
            State::Granted(catch) => Some(catch.bytes),
            _ => None,
        });
        let given: u64 = granted.chain(self.held.iter().map(|catch| catch.bytes)).sum();
        prop_assert_eq!(sea.unused.get() + given, self.total, "nothing is made or lost");
        prop_assert!(sea.earmark.get() <= sea.unused.get(), "what is kept is there");
        let of =
            |patient: bool| self.lanes.iter().filter(move |(lane, _)| lane.2 == patient).map(|(_, lane)| lane.len());
        prop_assert_eq!(self.port.waiters.waiting() as usize, of(false).sum::<usize>());
        prop_assert_eq!(self.port.waiters.patient() as usize, of(true).sum::<usize>());
        let first_bytes = self.port.waiters.patient_bytes();
        prop_assert_eq!(first_bytes.is_some(), self.port.waiters.patient() > 0);
        if let Some(bytes) = first_bytes.filter(|_| self.port.waiters.waiting() == 0) {
            prop_assert!(self.port.sea.usable(Source::Free) < bytes, "I7");
        }
        if self.port.waiters.waiting() > 0 {
            let (_, footprint) = self.port.waiters.head().expect("the head is known while it waits");
            prop_assert!(self.port.sea.usable(Source::Earmark) < footprint.page_bytes(), "I7");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_queue_is_fair_and_gives_what_there_is(
        free in 4096_u64..200_000, ops in prop::collection::vec(op(), 1..150),
    ) {
        let port = Port::new(&pool(), Sea::new(free));
        let mut model = Model { port, known: Vec::new(), lanes: BTreeMap::new(), held: Vec::new(), total: free };
        for op in ops {
            model.step(op)?;
            model.settle()?;
            model.check()?;
        }
        while let Some(known) = model.known.pop() {
            drop(model.port.waiters.cancel(known.key));
        }
        model.held.clear();
        prop_assert_eq!(model.port.sea.0.unused.get(), model.total);
        let waiters = &model.port.waiters;
        prop_assert_eq!((waiters.queue.len(), waiters.waiting(), waiters.patient()), (0, 0, 0));
    }
}

/// splitmix64
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The largest footprint of a schedule; there is room for one at least.
const LARGEST: Footprint = Footprint::new().head(4096).body(65_536).out(16_384);
/// Room for one of them, and for each that is smaller: with large pages a smaller slot may have a larger unit.
fn room_for_any() -> u64 {
    let units = |most| Class::ALL.into_iter().filter(move |class| class.bytes() <= most);
    let largest = |most| units(most).map(|class| Footprint::one(class.bytes()).page_bytes()).max().unwrap_or(0);
    [4096, 65_536, 16_384].map(largest).iter().sum()
}

/// So many tenants the clients of a schedule are of.
const TENANTS: usize = 4;
/// So often each client of a small schedule ends.
const ROUNDS: u32 = 2;
/// So many others are granted at most while one waits in a small schedule; in a million of them it is 100.
const PASSED_MAX: u64 = 200;

/// An exchange: it reserves all that it needs at once, holds it, gives a part back at times, and ends.
enum Client {
    Out,
    Waiting {
        key: PlaceKey,
        /// How many grants there were before.
        grants: u64,
        has_deadline: bool,
    },
    Running(Catch),
}

/// Puts its client among those that can go on.
struct Runs {
    client: usize,
    runnable: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Runs {
    fn wake(self: Arc<Self>) {
        self.runnable.lock().unwrap().push(self.client);
    }
}

/// Which clients there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    /// Few of all sorts, who come back until each has ended some times.
    Mixed,
    /// Some who always want more than there is, all of one tenant, priority and size, beside one that wants most, has
    /// the last priority, and waits for as long as it takes. They come back until each has ended some times.
    OneLarge(Priority, usize),
    /// Many, each of which comes until it has ended once.
    Many,
}

struct Schedule {
    crowd: Crowd,
    port: Port,
    clients: Vec<Client>,
    /// How often each has ended.
    ended: Vec<u32>,
    wakers: Vec<Waker>,
    runnable: Arc<Mutex<Vec<usize>>>,
    random: Random,
    grants: u64,
}

impl Schedule {
    fn new(pool: &Pool, seed: u64, crowd: Crowd, clients: usize, free: u64) -> Self {
        let runnable = Arc::new(Mutex::new((0..clients).collect()));
        let waker = |client| Arc::new(Runs { client, runnable: Arc::clone(&runnable) }).into();
        Self {
            crowd,
            port: Port::new(pool, Sea::new(free)),
            wakers: (0..clients).map(waker).collect(),
            clients: (0..clients).map(|_| Client::Out).collect(),
            ended: vec![0; clients],
            runnable,
            random: Random(seed),
            grants: 0,
        }
    }

    fn rounds(&self) -> u32 {
        if self.crowd == Crowd::Many { 1 } else { ROUNDS }
    }

    /// Whether a client waits for as long as it takes.
    fn is_patient(&self, at: usize) -> bool {
        matches!(self.crowd, Crowd::OneLarge(..)) && at == 0
    }

    /// A client begins to wait.
    fn come(&mut self, at: usize) -> Client {
        let (is_patient, random) = (self.is_patient(at), &mut self.random);
        let (tenant, priority, footprint) = match self.crowd {
            Crowd::OneLarge(..) if at == 0 => (0, Priority::ALL[Priority::COUNT - 1], LARGEST),
            Crowd::OneLarge(priority, len) => (1, priority, Footprint::one(len)),
            Crowd::Mixed | Crowd::Many => {
                let body = if random.below(3) == 0 { random.below(65_537) as usize } else { 0 };
                let footprint = Footprint::new().head(random.below(4096) as usize + 1).body(body);
                let out = random.below(16_385) as usize;
                let priority = Priority::ALL[random.below(Priority::COUNT as u64) as usize];
                (at % TENANTS, priority, footprint.out(out))
            }
        };
        let has_deadline = random.below(4) == 0 && !is_patient;
        let wait_ns = if has_deadline { random.below(3_000_000) } else { u64::MAX };
        let key = self.port.reserve(tenant, priority, footprint, wait_ns);
        Client::Waiting { key, grants: self.grants, has_deadline }
    }

    /// One step of one client; whether it goes on by itself.
    fn step(&mut self, at: usize) -> bool {
        let (next, goes_on) = match core::mem::replace(&mut self.clients[at], Client::Out) {
            Client::Out => (self.come(at), true),
            Client::Waiting { key, grants, has_deadline } => {
                match self.port.waiters.poll(key, Some(self.wakers[at].clone())).0 {
                    Answer::Wait => (Client::Waiting { key, grants, has_deadline }, false),
                    Answer::Granted(catch) => (Client::Running(catch), true),
                    Answer::Shed(shed) => {
                        assert!(has_deadline && matches!(shed, Shed::Deadline), "nobody else is shed: {shed}");
                        (Client::Out, true)
                    }
                }
            }
            Client::Running(mut catch) => match self.random.below(4) {
                0 => {
                    drop(catch);
                    self.ended[at] += 1;
                    let comes_back = self.crowd != Crowd::Many || self.ended[at] < self.rounds();
                    (Client::Out, comes_back)
                }
                1 => {
                    catch.give_back(self.random.below(catch.bytes / 4096 + 1) * 4096);
                    (Client::Running(catch), true)
                }
                _ => (Client::Running(catch), true),
            },
        };
        self.clients[at] = next;
        goes_on
    }

    /// Looks at a client that waits: how many passed it, and whether it goes away.
    fn look_at(&mut self, seed: u64, at: usize) {
        let Client::Waiting { key, grants, .. } = self.clients[at] else { return };
        let waits = matches!(self.port.waiters.queue.get(key).map(|place| &place.item().state), Some(State::Waiting));
        if waits && self.crowd != Crowd::Many {
            assert!(self.grants - grants <= PASSED_MAX, "schedule {seed}: client {at} is passed for ever");
        }
        if self.random.below(16) == 0 && !self.is_patient(at) {
            drop(self.port.waiters.cancel(key));
            self.clients[at] = Client::Out;
            let mut runnable = self.runnable.lock().unwrap();
            if !runnable.contains(&at) {
                runnable.push(at);
            }
        }
    }

    /// Only clients that were woken go on, so a wake-up that is lost is a deadlock too. How many ended.
    fn run(mut self, seed: u64) -> usize {
        let (total, rounds) = (self.port.sea.0.unused.get(), self.rounds());
        let mut left = self.clients.len();
        while left > 0 {
            let at = {
                let mut runnable = self.runnable.lock().unwrap();
                assert!(!runnable.is_empty(), "schedule {seed}: a deadlock with {left} of {} left", self.clients.len());
                let pick = self.random.below(runnable.len() as u64) as usize;
                runnable.swap_remove(pick)
            };
            let before = self.ended[at];
            if self.step(at) {
                self.runnable.lock().unwrap().push(at);
            }
            left -= usize::from(self.ended[at] > before && self.ended[at] == rounds);
            self.port.now_ns += self.random.below(100_000);
            self.port.expire();
            self.grants += self.port.pump() as u64;
            let other = self.random.below(self.clients.len() as u64) as usize;
            self.look_at(seed, other);
            assert!(self.port.sea.0.unused.get() <= total);
        }
        for client in core::mem::take(&mut self.clients) {
            if let Client::Waiting { key, .. } = client {
                drop(self.port.waiters.cancel(key));
            }
        }
        assert_eq!(self.port.sea.0.unused.get(), total);
        assert_eq!((self.port.waiters.waiting(), self.port.waiters.queue.len()), (0, 0));
        self.ended.iter().filter(|ended| **ended >= rounds).count()
    }
}

/// Some thousand here; `cargo xtask sim --schedules N` says how many.
#[test]
fn no_schedule_ends_in_a_deadlock() {
    let schedules = std::env::var("PLIMSOLL_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(3000_u64);
    let pool = pool();
    let mut ended = 0_u64;
    for seed in 0..schedules {
        let mut random = Random(seed ^ 0xA5A5);
        let (crowd, clients) = match random.below(32) as usize {
            others @ ..Priority::COUNT => (Crowd::OneLarge(Priority::ALL[others], 4096 << random.below(4)), 41),
            _ => (Crowd::Mixed, 2 + random.below(9) as usize),
        };
        // From room for one exchange to room for some.
        let free = room_for_any() + random.below(6) * page_bytes() as u64;
        ended += u64::from(Schedule::new(&pool, seed, crowd, clients, free).run(seed) == clients);
    }
    assert_eq!(ended, schedules);
    println!("figure: schedules that ended {ended}.0 -");
}

#[test]
fn ten_thousand_clients_end_with_room_for_one_footprint() {
    let pool = pool();
    for (seed, footprints) in [(1, 1), (2, 40)] {
        let free = room_for_any() * footprints;
        let ended = Schedule::new(&pool, seed, Crowd::Many, 10_000, free).run(seed);
        assert_eq!(ended, 10_000);
        println!("figure: clients that ended, model {ended}.0 -");
    }
}

/// Tenants that always have some requests under way, for a while of virtual time: grants to each, and how long each of
/// them waited.
fn serve(depths: &[usize], sizes: &[usize], capacity: u64) -> (Vec<u64>, Vec<Vec<u64>>) {
    let pool = pool();
    let mut port = Port::new(&pool, Sea::new(capacity));
    let mut waiting: Vec<(usize, PlaceKey, u64)> = Vec::new();
    let mut held: Vec<(u64, usize, Catch)> = Vec::new();
    let (mut bytes, mut waits) = (vec![0; depths.len()], vec![Vec::new(); depths.len()]);
    let mut arrivals: Vec<usize> = depths.iter().enumerate().flat_map(|(tenant, depth)| vec![tenant; *depth]).collect();
    for turn in 0..30_000_u64 {
        port.now_ns = turn * 10_000;
        for tenant in arrivals.drain(..) {
            let key = port.enqueue(tenant, Priority::Head, sizes[tenant], u64::MAX);
            waiting.push((tenant, key, turn));
        }
        port.pump();
        waiting.retain(|(tenant, key, since)| match port.poll(*key) {
            Answer::Granted(catch) => {
                bytes[*tenant] += catch.bytes;
                waits[*tenant].push(turn - since);
                held.push((turn + 3, *tenant, catch));
                false
            }
            _ => true,
        });
        held.retain(|(until, tenant, _)| {
            if *until <= turn {
                arrivals.push(*tenant);
            }
            *until > turn
        });
    }
    (bytes, waits)
}

fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

fn p99(waits: &[u64]) -> u64 {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    waits[waits.len() * 99 / 100]
}

#[test]
fn tenants_get_even_shares() {
    // Eight tenants, of which one has ten times the requests and one asks for eight times as much at a time.
    let depths = [40, 40, 40, 40, 40, 40, 400, 40];
    let sizes = [4096, 4096, 8192, 4096, 4096, 8192, 4096, 32_768];
    let (bytes, _) = serve(&depths, &sizes, 128 << 10);
    let jain = jain(&bytes);
    assert!(jain >= 0.95, "{jain} of {bytes:?}");
    println!("figure: Jain index of uneven tenants {jain:.3} -");
}

#[test]
fn a_greedy_tenant_does_not_make_the_others_wait() {
    let sizes = [4096; 9];
    let capacity = 8 * page_bytes() as u64;
    let (_, alone) = serve(&[6; 8], &sizes, capacity);
    let (_, beside) = serve(&[6, 6, 6, 6, 6, 6, 6, 6, 500], &sizes, capacity);
    let mut worst = 0.0_f64;
    for tenant in 0..8 {
        let (alone, beside) = (p99(&alone[tenant]), p99(&beside[tenant]));
        worst = worst.max(beside as f64 / alone as f64);
        assert!(
            alone > 0 && beside <= 2 * alone,
            "tenant {tenant}: {beside} turns beside a greedy one, {alone} without"
        );
    }
    println!("figure: p99 wait beside a greedy tenant {worst:.3} x");
}

#[test]
fn output_goes_before_body_before_head() {
    let pool = pool();
    let mut port = Port::new(&pool, Sea::new(0));
    let mut keys: Vec<(Priority, PlaceKey)> = Vec::new();
    for _ in 0..60 {
        for priority in Priority::ALL {
            keys.push((priority, port.enqueue(0, priority, 4096, u64::MAX)));
        }
    }
    let mut granted = [0_u32; Priority::COUNT];
    for _ in 0..56 {
        port.sea.0.unused.set(page_bytes() as u64);
        assert_eq!(port.pump(), 1);
        let at = keys.iter().position(|(_, key)| matches!(port.poll(*key), Answer::Granted(_)));
        let (priority, _) = keys.remove(at.expect("one was granted"));
        granted[priority as usize] += 1;
    }
    let is_near = |(granted, share): (&u32, u32)| granted.abs_diff(share) <= 1;
    assert!(granted.iter().zip([32, 16, 8]).all(is_near), "by weight: {granted:?}");
}

#[test]
fn a_large_head_is_passed_eight_times_at_most() {
    let pool = pool();
    let page = page_bytes() as u64;
    let mut port = Port::new(&pool, Sea::new(4 * page));
    let five_pages = Footprint::new().head(2 * page_bytes()).body(2 * page_bytes()).out(page_bytes());
    let large = port.reserve(0, Priority::Head, five_pages, u64::MAX);
    port.pump();
    let small: Vec<PlaceKey> = (0..20).map(|_| port.enqueue(1, Priority::Head, 4096, u64::MAX)).collect();
    let mut passed = 0;
    // Each small one that is granted ends at once.
    for key in small {
        port.pump();
        match port.poll(key) {
            Answer::Granted(catch) => drop(catch),
            Answer::Wait => break,
            Answer::Shed(shed) => panic!("{shed}"),
        }
        passed += 1;
        assert!(passed < 20);
    }
    assert_eq!(passed, 8);
    assert_eq!(port.sea.0.earmark.get(), 4 * page, "from now on, what is free is kept");
    port.sea.0.unused.set(5 * page);
    port.pump();
    assert!(matches!(port.poll(large), Answer::Granted(_)));
}

#[test]
fn a_large_head_is_passed_for_a_millisecond_at_most() {
    let pool = pool();
    let mut port = Port::new(&pool, Sea::new(8 << 10));
    port.enqueue(0, Priority::Head, 20 << 10, u64::MAX);
    port.pump();
    port.now_ns = 1_000_000;
    let small = port.enqueue(1, Priority::Output, 4096, u64::MAX);
    assert_eq!(port.pump(), 0);
    assert!(matches!(port.poll(small), Answer::Wait));
}

#[test]
fn so_many_are_looked_at_behind_a_large_head() {
    let pool = pool();
    // The head is one of those that are looked at; the last of them all fits.
    for others in [1, CANDIDATES_MAX - 1, CANDIDATES_MAX, CANDIDATES_MAX + 4] {
        let mut port = Port::new(&pool, Sea::new(page_bytes() as u64));
        for tenant in 0..others {
            port.enqueue(tenant, Priority::Head, 128 << 10, u64::MAX);
        }
        let small = port.enqueue(0, Priority::Head, 4096, u64::MAX);
        let is_near = others < CANDIDATES_MAX;
        assert_eq!(port.pump(), usize::from(is_near), "{others}");
        assert_eq!(matches!(port.poll(small), Answer::Granted(_)), is_near, "{others}");
    }
}

#[test]
fn a_grant_that_is_not_taken_in_time_goes_back() {
    let pool = pool();
    let mut port = Port::new(&pool, Sea::new(page_bytes() as u64));
    let forgotten = port.enqueue(0, Priority::Head, 4096, 5);
    let next = port.enqueue(0, Priority::Head, 4096, 1000);
    assert_eq!(port.pump(), 1);
    port.now_ns = 5;
    port.expire();
    assert_eq!(port.pump(), 1);
    assert!(matches!(port.poll(next), Answer::Granted(_)));
    assert!(matches!(port.poll(forgotten), Answer::Shed(Shed::Deadline)));
}

#[test]
fn sheds_say_whose_fault_it_is() {
    let over = OverBudget::new(9);
    let text = "no memory came free before the deadline: retry later, or raise the line";
    assert_eq!(Shed::Deadline.to_string(), text);
    assert_eq!(Shed::from(over), Shed::OverBudget(over));
    assert_eq!(Shed::from(over).to_string(), over.to_string());
}
