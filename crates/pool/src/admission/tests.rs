//! Properties, over a real pool: after every operation nothing is charged beyond the line (overshoot 0), credit holds
//! what is charged and what is kept; a permit's leases can be taken without a refusal. In the end everything is back.
//! Beside that: levels and who is told, refusals, credit that moves between workers, wake-ups through dropped futures.

mod wakers;

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::task::Wake;

use proptest::prelude::*;

use super::*;
use crate::page::page_bytes;
use crate::waiters::Shed;
use crate::{Class, MemoryLimit, PageChoice, PoolConfig, SimPages};

/// Counts wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn port(limit: MemoryLimit, config: AdmissionConfig) -> Admission {
    let pool = Pool::new(&Budget::new(limit), PoolConfig::default()).unwrap();
    Admission::new(&pool, config).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Reserve { name: u64, head: usize, body: usize, out: usize, priority: usize },
    Poll(usize),
    Cancel(usize),
    Take { pick: usize, len: usize },
    PutBack(usize),
    DropLease(usize),
    DropPermit(usize),
    Tick(u64),
    Beside(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let part = || prop_oneof![1 => Just(0_usize), 2 => 1_usize..1024, 2 => 1_usize..20_000, 1 => 1_usize..131_072];
    prop_oneof![
        5 => (0..3_u64, part(), part(), part(), 0..Priority::COUNT)
            .prop_map(|(name, head, body, out, priority)| Op::Reserve { name, head, body, out, priority }),
        6 => any::<usize>().prop_map(Op::Poll),
        1 => any::<usize>().prop_map(Op::Cancel),
        4 => (any::<usize>(), 0_usize..20_000).prop_map(|(pick, len)| Op::Take { pick, len }),
        1 => any::<usize>().prop_map(Op::PutBack),
        3 => any::<usize>().prop_map(Op::DropLease),
        4 => any::<usize>().prop_map(Op::DropPermit),
        4 => (0_u64..2_000_000_000).prop_map(Op::Tick),
        1 => (1_usize..70_000).prop_map(Op::Beside),
    ]
}

struct Test {
    admission: Admission,
    waiting: Vec<Pin<Box<Reserve>>>,
    permits: Vec<Permit>,
    leases: Vec<Lease>,
    now_ns: u64,
}

impl Test {
    fn step(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Reserve { name, head, body, out, priority } => {
                let footprint = Footprint::new().head(head).body(body).out(out);
                let reserve = self.admission.reserve(footprint, Priority::ALL[priority], name);
                self.waiting.push(Box::pin(reserve));
                self.poll(self.waiting.len() - 1)?;
            }
            Op::Poll(pick) if !self.waiting.is_empty() => self.poll(pick % self.waiting.len())?,
            Op::Cancel(pick) if !self.waiting.is_empty() => drop(self.waiting.swap_remove(pick % self.waiting.len())),
            Op::Take { pick, len } if !self.permits.is_empty() => {
                let count = self.permits.len();
                let permit = &mut self.permits[pick % count];
                let fits = permit.left_bytes() > 0 && len == 0;
                let lease = permit.take(len);
                prop_assert!(!fits || lease.is_some(), "taking does not fail");
                prop_assert!(lease.as_ref().is_none_or(|lease| lease.class().bytes() >= len && lease.is_empty()));
                self.leases.extend(lease);
            }
            Op::PutBack(pick) if !self.permits.is_empty() => {
                let count = self.permits.len();
                if let Some(lease) = self.leases.pop() {
                    self.leases.extend(self.permits[pick % count].put_back(lease).err());
                }
            }
            Op::DropLease(pick) if !self.leases.is_empty() => drop(self.leases.swap_remove(pick % self.leases.len())),
            Op::DropPermit(pick) if !self.permits.is_empty() => {
                drop(self.permits.swap_remove(pick % self.permits.len()))
            }
            Op::Tick(ns) => {
                self.now_ns += ns;
                self.admission.tick(self.now_ns);
                prop_assert!(self.admission.next_deadline().is_none_or(|at| at > self.now_ns), "it never spins");
            }
            Op::Beside(len) => self.leases.extend(self.admission.pool().try_acquire(len, Kind::Buffers)),
            _ => {}
        }
        Ok(())
    }

    fn poll(&mut self, at: usize) -> Result<(), TestCaseError> {
        let poll = poll_once(self.waiting[at].as_mut());
        if let Poll::Ready(answer) = poll {
            drop(self.waiting.swap_remove(at));
            match answer {
                Ok(permit) => self.permits.push(permit),
                Err(Shed::Deadline) => {}
                Err(Shed::OverBudget(over)) => prop_assert!(over.wanted_bytes() > 0),
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (budget, pool) = (self.admission.budget(), self.admission.pool());
        let limit = budget.limit().as_bytes();
        prop_assert!(budget.charged() <= budget.credited() && budget.credited() <= limit, "I1");
        prop_assert!(pool.credit().spare() <= pool.credit().unused(), "I2, I6");
        prop_assert_eq!(Kind::ALL.iter().map(|kind| budget.charged_by(*kind)).sum::<u64>(), budget.charged());
        prop_assert_eq!(budget.waiting(), u64::from(self.admission.waiting()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn the_line_holds_while_many_wait(
        limit in 150_000_u64..700_000, refuses in any::<bool>(),
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let source = SimPages::new(limit);
        let budget = Budget::new(MemoryLimit::bytes(limit));
        let pool = Pool::new(&budget, PoolConfig::default().pages(PageChoice::Simulated(source.clone()))).unwrap();
        let admission = Admission::new(&pool, AdmissionConfig::default().wait_timeout(Duration::from_secs(3))).unwrap();
        let mut test = Test { admission, waiting: Vec::new(), permits: Vec::new(), leases: Vec::new(), now_ns: 0 };
        source.refuse_commits(if refuses { 200 } else { 0 });
        for op in ops {
            test.step(op)?;
            test.check()?;
        }
        source.refuse_commits(0);
        test.waiting.clear();
        test.leases.clear();
        test.permits.clear();
        prop_assert_eq!((test.admission.waiting(), budget.waiting()), (0, 0));
        drop(test);
        pool.release_free(u64::MAX);
        pool.trim_credit();
        prop_assert_eq!(budget.charged(), pool.stats().fixed_bytes);
        prop_assert_eq!(budget.credited(), budget.charged());
    }
}

#[test]
fn a_permit_gives_what_was_reserved_though_nothing_else_is_left() {
    // 64 pages.
    let admission = port(MemoryLimit::bytes(64 * page_bytes() as u64), AdmissionConfig::default());
    let footprint = Footprint::new().head(1000).body(60_000).out(4096);
    let mut permit = admission.try_reserve(footprint).unwrap();
    let beside: Vec<Lease> = core::iter::from_fn(|| admission.pool().try_acquire(64, Kind::Buffers).ok()).collect();
    assert!(!beside.is_empty());
    assert_eq!(permit.take(60_000).map(|lease| lease.class().bytes()), Some(65_536));
    assert_eq!(permit.take(0).map(|lease| lease.class().bytes()), Some(1024));
    assert_eq!(permit.take(1000).map(|lease| lease.class().bytes()), Some(4096));
    assert!(permit.take(0).is_none());
}

#[test]
fn a_dropped_future_gives_its_grant_to_the_next() {
    let admission = port(MemoryLimit::kib(256), AdmissionConfig::default());
    let reserve = || Box::pin(admission.reserve(Footprint::one(131_072), Priority::Head, 1));
    let mut first = reserve();
    let Poll::Ready(Ok(permit)) = poll_once(first.as_mut()) else { panic!("there is room") };
    let counts = [0; 2].map(|_| Arc::<Count>::default());
    let mut waiting = [reserve(), reserve()];
    for (future, count) in waiting.iter_mut().zip(&counts) {
        assert!(future.as_mut().poll(&mut Context::from_waker(&Arc::clone(count).into())).is_pending());
    }
    drop(permit);
    let woken = || counts.each_ref().map(|count| count.0.load(Ordering::Relaxed));
    assert_eq!(woken(), [1, 0], "the grant is assigned to the first");
    let [first, mut second] = waiting;
    drop(first);
    assert_eq!(woken(), [1, 1], "which goes away, so it is the second's");
    assert!(matches!(poll_once(second.as_mut()), Poll::Ready(Ok(_))));
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let admission = port(MemoryLimit::kib(256), AdmissionConfig::default().wait_timeout(Duration::from_nanos(700)));
    let _held = admission.try_reserve(Footprint::one(131_072)).unwrap();
    let mut late = Box::pin(admission.reserve(Footprint::one(131_072), Priority::Head, 1));
    let mut later = Box::pin(admission.acquire(131_072, Priority::Head, 1).deadline(900));
    assert!(poll_once(late.as_mut()).is_pending() && poll_once(later.as_mut()).is_pending());
    admission.tick(100);
    assert_eq!(admission.next_deadline(), Some(700));
    admission.tick(700);
    assert!(matches!(poll_once(late.as_mut()), Poll::Ready(Err(Shed::Deadline))));
    assert!(poll_once(later.as_mut()).is_pending());
    admission.tick(900);
    assert!(matches!(poll_once(later.as_mut()), Poll::Ready(Err(Shed::Deadline))));
}

#[test]
fn what_can_never_be_given_is_refused_at_once() {
    let admission = port(MemoryLimit::kib(256), AdmissionConfig::default());
    let ready = |footprint| match poll_once(pin!(admission.reserve(footprint, Priority::Head, 1))) {
        Poll::Ready(Err(shed)) => shed,
        other => panic!("{other:?}"),
    };
    assert!(matches!(ready(Footprint::one(131_073)), Shed::OverBudget(over) if !over.is_passing()));
    let line = admission.budget().limit().as_bytes() as usize;
    let beyond = Footprint::new().head(line / 2).body(line / 2).out(1);
    assert!(matches!(ready(beyond), Shed::OverBudget(over) if over.wanted_bytes() == beyond.page_bytes()));
}

#[test]
fn levels_go_up_and_down_and_watchers_are_told() {
    let admission = port(MemoryLimit::mib(1), AdmissionConfig::default());
    let budget = Arc::clone(admission.budget());
    let mut watch = budget.watch();
    let told = Arc::<Count>::default();
    let waker: Waker = Arc::clone(&told).into();
    let mut now_ns = 0;
    let mut tick = || {
        now_ns += 1_000_000;
        admission.tick(now_ns)
    };
    assert_eq!(tick(), None);
    assert!(watch.poll_changed(&mut Context::from_waker(&waker)).is_pending());
    let mut held: Vec<Permit> = (0..6).map(|_| admission.try_reserve(Footprint::one(131_072)).unwrap()).collect();
    let up = tick().expect("786 KiB of 1,024 are more than 75 %");
    assert_eq!(
        (up.from, up.to, admission.level(), told.0.load(Ordering::Relaxed)),
        (Level::Calm, Level::Yellow, Level::Yellow, 1)
    );
    assert_eq!(watch.poll_changed(&mut Context::from_waker(&waker)), Poll::Ready(Level::Yellow));
    let mut waits = Box::pin(admission.reserve(Footprint::one(131_072), Priority::Head, 1));
    held.push(admission.try_reserve(Footprint::one(131_072)).unwrap());
    assert!(poll_once(waits.as_mut()).is_pending());
    assert_eq!(tick().map(|transition| transition.to), Some(Level::Red));
    assert!(admission.try_reserve(Footprint::one(64)).is_err(), "nobody passes those who wait");
    held.clear();
    assert!(matches!(poll_once(waits.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(tick().map(|transition| transition.to), Some(Level::Calm), "free pages do not count");
    assert_eq!(admission.next_deadline(), None);
    assert_eq!(Level::ALL.map(|level| budget.entered(level)), [1, 1, 0, 1]);
}

#[test]
fn credit_and_free_pages_move_to_the_worker_that_waits() {
    let budget = Budget::new(MemoryLimit::mib(1));
    let rings = [0; 2].map(|_| Arc::<Count>::default());
    let workers = rings.each_ref().map(|count| {
        let pool = Pool::new(&budget, PoolConfig::default().workers(2)).unwrap();
        let count = Arc::clone(count);
        let ring = Arc::new(move || _ = count.0.fetch_add(1, Ordering::Relaxed));
        Admission::with_doorbell(&pool, AdmissionConfig::default(), ring).unwrap()
    });
    let rung = |worker: usize| rings[worker].0.load(Ordering::Relaxed);
    // The second worker holds all, then has all of it free.
    let held: Vec<Permit> = core::iter::from_fn(|| workers[1].try_reserve(Footprint::one(131_072)).ok()).collect();
    assert!(held.len() >= 6);
    drop(held);
    let mut waits = Box::pin(workers[0].reserve(Footprint::one(131_072), Priority::Head, 1));
    let woken = Arc::<Count>::default();
    assert!(waits.as_mut().poll(&mut Context::from_waker(&Arc::clone(&woken).into())).is_pending());
    assert_eq!((rung(0), rung(1)), (0, 1), "the one with free memory is asked");
    workers[1].tick(1000);
    assert!(rung(0) >= 1, "what it gave up is in the other's claim");
    assert!(budget.credited() <= 1 << 20);
    workers[0].tick(2000);
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    let Poll::Ready(Ok(permit)) = poll_once(waits.as_mut()) else { panic!("it is granted") };
    drop((permit, waits, workers));
    assert_eq!((budget.charged(), budget.credited()), (0, 0));
}

#[test]
fn no_more_wait_than_may() {
    for waiters_max in [1, 2, 30, 65] {
        // What is left beside those who hold it is room for who waits.
        let line = MemoryLimit::bytes((2 << 20) + page_bytes() as u64);
        let admission = port(line, AdmissionConfig::default().waiters_max(waiters_max));
        let held: Vec<Permit> = core::iter::from_fn(|| admission.try_reserve(Footprint::one(131_072)).ok()).collect();
        let wait = |name| Box::pin(admission.reserve(Footprint::one(131_072), Priority::Head, name));
        let mut waiting: Vec<_> = (0..waiters_max).map(|at| wait(u64::from(at % 2))).collect();
        waiting.iter_mut().for_each(|wait| assert!(poll_once(wait.as_mut()).is_pending()));
        assert_eq!(admission.waiting(), waiters_max);
        let mut refused = wait(1);
        assert!(matches!(poll_once(refused.as_mut()), Poll::Ready(Err(Shed::OverBudget(_)))), "{waiters_max}");
        waiting.pop();
        let mut next = wait(1);
        assert!(poll_once(next.as_mut()).is_pending(), "there is a place again");
        drop(held);
        waiting.push(next);
        for wait in &mut waiting {
            admission.tick(1);
            assert!(matches!(poll_once(wait.as_mut()), Poll::Ready(Ok(_))));
        }
    }
}

#[test]
fn every_waiting_worker_is_rung_when_memory_comes_back_at_once() {
    for waiting in [1, 4, 5, 12] {
        let budget = Budget::new(MemoryLimit::mib(24));
        let config = || PoolConfig::default().workers(waiting + 1);
        let giver = Pool::new(&budget, config()).unwrap();
        let rings: Vec<_> = (0..waiting).map(|_| Arc::<Count>::default()).collect();
        let workers = rings.iter().map(|count| {
            let count = Arc::clone(count);
            let ring = Arc::new(move || _ = count.0.fetch_add(1, Ordering::Relaxed));
            Admission::with_doorbell(&Pool::new(&budget, config()).unwrap(), AdmissionConfig::default(), ring).unwrap()
        });
        let workers: Vec<Admission> = workers.collect();
        let held: Vec<Lease> =
            core::iter::from_fn(|| giver.try_acquire(Class::K128.bytes(), Kind::Buffers).ok()).collect();
        let footprint = Footprint::new().head(131_072).body(131_072).out(131_072);
        let mut waits: Vec<_> =
            workers.iter().map(|worker| Box::pin(worker.reserve(footprint, Priority::Head, 1))).collect();
        for wait in &mut waits {
            assert!(poll_once(wait.as_mut()).is_pending(), "another worker has it all");
        }
        rings.iter().for_each(|count| count.0.store(0, Ordering::Relaxed));
        drop(held);
        giver.release_free(u64::MAX);
        for (at, (worker, wait)) in workers.iter().zip(&mut waits).enumerate() {
            assert!(rings[at].0.load(Ordering::Relaxed) > 0, "worker {at} of {waiting} sleeps for ever");
            worker.tick(1);
            assert!(matches!(poll_once(wait.as_mut()), Poll::Ready(Ok(_))), "worker {at} of {waiting}");
        }
    }
}

/// Who gathers keeps what comes back; all others give it up. Nobody gathers who misses nothing.
#[test]
fn the_worker_that_waits_longest_gathers_and_no_other() {
    let budget = Budget::new(MemoryLimit::mib(8));
    let [longer, shorter] = [(); 2].map(|()| {
        let pool = Pool::new(&budget, PoolConfig::default().workers(2)).unwrap();
        Admission::new(&pool, AdmissionConfig::default()).unwrap()
    });
    let gather = || [&longer, &shorter].map(|worker| worker.shared.pool.credit().gathers());
    let held: Vec<Lease> =
        core::iter::from_fn(|| longer.pool().try_acquire(Class::K128.bytes(), Kind::Buffers).ok()).collect();
    let footprint = Footprint::new().head(131_072).body(131_072).out(131_072);
    assert_eq!(gather(), [false, false]);
    longer.tick(1);
    let mut first = Box::pin(longer.reserve(footprint, Priority::Head, 1));
    assert!(poll_once(first.as_mut()).is_pending());
    assert_eq!(gather(), [true, false]);
    shorter.tick(2);
    let mut second = Box::pin(shorter.reserve(footprint, Priority::Head, 1));
    assert!(poll_once(second.as_mut()).is_pending());
    assert_eq!(gather(), [true, false]);
    drop(first);
    longer.tick(3);
    shorter.tick(3);
    assert_eq!(gather(), [false, true]);
    drop(second);
    shorter.tick(4);
    assert_eq!(gather(), [false, false]);
    drop(held);
}

#[test]
fn only_newcomers_draw_on_what_is_kept_for_them_and_it_is_filled_before_others_are_granted() {
    const KEPT: u64 = 128 << 10;
    let admission = port(MemoryLimit::kib(1_024), AdmissionConfig::default().reserve_bytes(KEPT));
    let pool = admission.pool();
    assert_eq!(pool.kept_for_newcomers(), KEPT);
    let fill = || {
        let of = |class| core::iter::from_fn(move || pool.try_acquire_class(class, Kind::Buffers).ok());
        [Class::K64, Class::K4, Class::B64].into_iter().flat_map(of).collect::<Vec<_>>()
    };
    let held = fill();
    assert_eq!(pool.kept_for_newcomers(), KEPT, "others leave it");
    assert!(pool.for_newcomer(|| pool.for_anybody(fill)).is_empty(), "nor does what a newcomer does for others");
    let mut drawn = pool.for_newcomer(fill);
    assert!(drawn.iter().map(|lease| lease.class().bytes() as u64).sum::<u64>() > KEPT / 2, "newcomers draw on it");
    assert!(pool.kept_for_newcomers() < KEPT / 2);
    let mut waits = pin!(admission.reserve(Footprint::one(64), Priority::Head, 1));
    assert!(poll_once(waits.as_mut()).is_pending());
    // What comes back is kept again before who waits is granted any.
    let mut now_ns = 1_000_000;
    while let Some(lease) = drawn.pop() {
        drop(lease);
        now_ns += 1_000_000;
        admission.tick(now_ns);
        let is_whole = pool.kept_for_newcomers() == KEPT;
        assert!(is_whole || poll_once(waits.as_mut()).is_pending(), "{} bytes are kept", pool.kept_for_newcomers());
        if is_whole {
            break;
        }
    }
    assert_eq!(pool.kept_for_newcomers(), KEPT, "it is whole again");
    drop(held);
    admission.tick(now_ns + 1_000_000);
    assert!(poll_once(waits.as_mut()).is_ready());
}

#[test]
fn the_reserve_is_made_whole_out_of_free_pages() {
    let pool = Pool::new(&Budget::new(MemoryLimit::mib(2)), PoolConfig::default()).unwrap();
    let mut held: Vec<Lease> =
        core::iter::from_fn(|| pool.try_acquire(Class::K4.bytes(), Kind::Buffers).ok()).collect();
    pool.credit().set_reserve(64 << 10);
    assert!(!refill(&pool) && pool.credit().missing_reserve() > 0, "nothing is free");
    held.truncate(held.len() - 64);
    assert!(refill(&pool) && pool.credit().missing_reserve() == 0);
    pool.credit().set_reserve(0);
}

/// A large charge is waited for on one worker; what frees memory is on this one, on another, and is no pool's.
#[test]
fn who_waits_for_a_charge_is_woken_by_what_frees_memory() {
    let budget = Budget::new(MemoryLimit::mib(4));
    let new = || Pool::new(&budget, PoolConfig::default().workers(2)).unwrap();
    let rings = Arc::<Count>::default();
    let rung = Arc::clone(&rings);
    let admission =
        Admission::with_doorbell(&new(), AdmissionConfig::default(), Arc::new(move || Arc::clone(&rung).wake()))
            .unwrap();
    let other = new();
    let woken = Arc::<Count>::default();
    let waker = Waker::from(Arc::clone(&woken));
    let count = |count: &Count| count.0.load(Ordering::Relaxed);
    let mut now_ns = 0;
    let mut tick = || {
        now_ns += 1_000;
        admission.tick(now_ns);
    };
    let lease = |pool: &Pool| pool.try_acquire_class(Class::K128, Kind::Buffers).unwrap();
    let charge_bytes = 3 << 20;
    for freed_by in ["this worker", "another", "nobody's"] {
        let of_this: Vec<_> = (0..8).map(|_| lease(admission.pool())).collect();
        let of_other: Vec<_> = (0..8).map(|_| lease(&other)).collect();
        let of_none = budget.charge(Kind::Stacks, 1 << 20).unwrap();
        let reserve = admission.reserve(Footprint::one(64), Priority::Body, 1).charge(charge_bytes);
        let mut reserve = pin!(reserve);
        assert!(reserve.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        (0..100).for_each(|_| tick());
        assert_eq!((count(&woken), count(&rings)), (0, 0), "nothing was freed: nobody looks");
        assert_eq!((admission.waiting(), budget.waiting()), (1, 0), "it lets all others pass");
        // One with a buffer finds its room at once.
        let small = admission.reserve(Footprint::one(4096), Priority::Head, 2);
        assert!(matches!(poll_once(pin!(small)), Poll::Ready(Ok(_))));
        let mut frees = vec![
            ("this worker", Box::new(|| drop(of_this)) as Box<dyn FnOnce()>),
            (
                "another",
                Box::new(|| {
                    drop(of_other);
                    other.release_free(u64::MAX);
                    other.trim_credit();
                }),
            ),
            ("nobody's", Box::new(|| drop(of_none))),
        ];
        let last = frees.iter().position(|(name, _)| *name == freed_by).expect("one of them");
        let (_, last) = frees.remove(last);
        frees.into_iter().for_each(|(_, free)| free());
        tick();
        assert_eq!(count(&woken), 0, "that was not enough, without {freed_by}");
        rings.0.store(0, Ordering::Relaxed);
        last();
        assert!(freed_by == "this worker" || count(&rings) > 0, "rung by {freed_by}");
        tick();
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1, "woken by {freed_by}");
        let Poll::Ready(Ok(mut permit)) = poll_once(reserve.as_mut()) else { panic!("granted before it was woken") };
        assert_eq!(permit.take_charge().map(|charge| charge.bytes()), Some(charge_bytes));
        assert!(permit.take(64).is_some(), "and what it wants beside");
        drop(permit);
        admission.pool().release_free(u64::MAX);
        admission.pool().trim_credit();
        tick();
        rings.0.store(0, Ordering::Relaxed);
    }
}

#[test]
fn a_charge_is_refused_at_its_deadline_and_beyond_the_line() {
    let admission = port(MemoryLimit::mib(1), AdmissionConfig::default());
    let reserve = |bytes| admission.reserve(Footprint::one(64), Priority::Body, 1).charge(bytes);
    assert!(matches!(poll_once(pin!(reserve(2 << 20))), Poll::Ready(Err(Shed::OverBudget(_)))), "never");
    let held = admission.pool().charge(Kind::Buffers, 600 << 10).unwrap();
    let mut late = pin!(reserve(700 << 10).deadline(50));
    assert!(poll_once(late.as_mut()).is_pending());
    assert_eq!(admission.next_deadline(), Some(50));
    admission.tick(50);
    assert!(matches!(poll_once(late.as_mut()), Poll::Ready(Err(Shed::Deadline))));
    {
        let mut gone = pin!(reserve(700 << 10));
        assert!(poll_once(gone.as_mut()).is_pending());
    }
    assert_eq!(admission.waiting(), 0, "dropping it ends the wait");
    drop(held);
}
