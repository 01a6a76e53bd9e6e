//! What goes when, in times of the tests' own: nothing here reads a clock.

use std::sync::Arc;

use super::*;
use crate::page::page_bytes;
use crate::{Budget, Class, Kind, Lease, MemoryLimit, PageChoice, PoolConfig, SimPages};

const SLOW: Duration = Duration::from_secs(2);
const MS: Duration = Duration::from_millis(1);

struct Bench {
    pool: Pool,
    pages: SimPages,
    decay: Decay,
    now: Duration,
    speed: DecaySpeed,
}

impl Bench {
    fn new(budget: &Arc<Budget>) -> Self {
        let pages = SimPages::new(1);
        let config = PoolConfig::default().pages(PageChoice::Simulated(pages.clone()));
        let pool = Pool::new(budget, config).expect("room for a pool");
        Self { pool, pages, decay: Decay::new(DecayConfig::default()), now: Duration::ZERO, speed: DecaySpeed::Slow }
    }

    fn take(&self, class: Class, count: usize) -> Vec<Lease> {
        (0..count).map(|_| self.pool.try_acquire_class(class, Kind::Buffers).expect("room")).collect()
    }

    fn tick(&mut self) -> u64 {
        let released = self.decay.tick(&self.pool, self.now, || self.speed);
        assert!(released <= TICK_BYTES_MAX);
        released
    }

    /// Ticks as an idle owner does, until `end` or until there is nothing to wait for; how many bytes went.
    fn sleep_until(&mut self, end: Duration) -> u64 {
        let mut released = self.tick();
        while let Some(deadline) = self.decay.next_deadline() {
            if deadline > end {
                break;
            }
            self.now = self.now.max(deadline);
            released += self.tick();
        }
        self.now = end;
        released
    }
}

fn budget() -> Arc<Budget> {
    Budget::new(MemoryLimit::mib(64))
}

#[test]
fn an_owner_without_free_memory_is_not_woken() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    let held = bench.take(Class::K4, 1);
    let asked = bench.decay.tick(&bench.pool, MS, || panic!("nothing is to be done"));
    assert_eq!((asked, bench.decay.next_deadline()), (0, None));
    drop(held);
    bench.tick();
    assert!(bench.decay.next_deadline().is_some());
}

#[test]
fn a_burst_is_gone_after_the_decay_time_though_nothing_happens() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    let burst: Vec<_> = Class::ALL.into_iter().map(|class| bench.take(class, 200)).collect();
    let held = budget.charged_by(Kind::Buffers);
    bench.tick();
    drop(burst);
    assert_eq!(bench.sleep_until(SLOW / 2 - MS), 0, "not before half the time");
    assert!(bench.decay.next_deadline().is_some(), "the timer is armed");
    let released = bench.sleep_until(SLOW + 2 * DecayConfig::default().fast);
    assert_eq!((released, budget.charged_by(Kind::Buffers)), (held, 0));
    assert_eq!(bench.decay.next_deadline(), None, "nothing is left to wait for");
    assert_eq!(bench.pool.stats().released_bytes, held);
    assert_eq!(budget.credited(), budget.charged(), "nor is credit kept");
}

#[test]
fn what_is_used_again_and_again_stays() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    // Each is whole pages, whatever their size.
    drop(bench.take(Class::K64, 100));
    let mut released = 0;
    for _ in 0..100 {
        let working_set = bench.take(Class::K64, 10);
        released += bench.tick();
        drop(working_set);
        let until = bench.now + 50 * MS;
        released += bench.sleep_until(until);
    }
    assert_eq!(released, 90 << 16, "all but the working set goes, once");
    assert_eq!(bench.pool.stats().releasable_bytes(), 10 << 16);
}

#[test]
fn memory_goes_faster_when_it_is_short() {
    let budget = budget();
    for (speed, within) in [(DecaySpeed::Fast, 375 * MS), (DecaySpeed::Now, 125 * MS)] {
        let mut bench = Bench::new(&budget);
        bench.speed = speed;
        drop(bench.take(Class::K128, 4));
        assert_eq!(bench.sleep_until(within), 4 << 17, "{speed:?}");
    }
}

#[test]
fn a_tick_gives_back_no_more_than_its_bounds() {
    let page = page_bytes() as u64;
    let budget = Budget::new(MemoryLimit::bytes(4_000 * page));
    let mut bench = Bench::new(&budget);
    let mut leases = bench.take(Class::for_len(page_bytes()).expect("a page is a class"), 2_000);
    let mut index = 0;
    leases.retain(|_| {
        index += 1;
        index % 2 == 0
    });
    // Every other page: each is a range of its own.
    let before = bench.pages.counts().releases;
    let mut ticks = 0;
    loop {
        let spans = bench.pages.counts().releases;
        let _released = bench.tick();
        let spans = bench.pages.counts().releases - spans;
        assert!(spans <= TICK_RANGES_MAX as u64);
        ticks += u64::from(spans > 0);
        match bench.decay.next_deadline() {
            Some(deadline) => bench.now = bench.now.max(deadline),
            None => break,
        }
    }
    assert_eq!(bench.pages.counts().releases - before, 1_000);
    assert_eq!(ticks, 1_000_u64.div_ceil((TICK_RANGES_MAX as u64).min(TICK_BYTES_MAX / page)));
}

#[test]
fn what_the_system_refuses_stays_charged_and_is_tried_again() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    bench.pages.refuse_releases(1_000);
    drop(bench.take(Class::K4, 10));
    assert_eq!(bench.sleep_until(5 * SLOW), 0);
    let charged = (10_u64 << 12).next_multiple_of(page_bytes() as u64);
    assert_eq!(budget.charged_by(Kind::Buffers), charged);
    assert!(bench.pages.counts().releases_refused > 0 && bench.decay.next_deadline().is_some());
    bench.pages.refuse_releases(0);
    assert_eq!(bench.sleep_until(7 * SLOW), charged);
    assert_eq!(budget.charged_by(Kind::Buffers), 0);
}

#[test]
fn another_pool_that_is_refused_gets_what_is_free_here_at_once() {
    let budget = Budget::new(MemoryLimit::mib(4));
    let mut bench = Bench::new(&budget);
    let other = Pool::new(&budget, PoolConfig::default()).expect("room for a pool");
    drop(bench.take(Class::K64, 40));
    bench.tick();
    let wants = || (0..20).map(|_| other.try_acquire_class(Class::K64, Kind::Buffers)).collect::<Result<Vec<_>, _>>();
    assert!(wants().is_err(), "what is free there is charged");
    assert_eq!(bench.tick(), TICK_BYTES_MAX, "no time has passed");
    assert!(wants().is_ok());
}

#[test]
fn slots_in_pages_that_are_used_do_not_keep_the_timer_armed() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    let mut leases = bench.take(Class::B64, 64);
    leases.truncate(1);
    bench.sleep_until(5 * SLOW);
    assert_eq!(bench.decay.next_deadline(), None);
    assert!(bench.pool.stats().cached_bytes() > 0 && bench.pool.stats().releasable_bytes() == 0);
}

#[test]
fn an_owner_with_tables_of_its_own_arms_the_timer() {
    let budget = budget();
    let mut bench = Bench::new(&budget);
    bench.tick();
    assert_eq!(bench.decay.next_deadline(), None);
    bench.decay.arm(bench.now);
    let deadline = bench.decay.next_deadline().expect("armed");
    assert!(!bench.decay.looks_at(bench.now) && bench.decay.looks_at(deadline));
    bench.sleep_until(deadline);
    assert_eq!(bench.decay.next_deadline(), None, "there was nothing");
}

/// The ends of each range are taken; what is beyond them is refused for what it is.
#[test]
fn times_and_amounts_have_ranges() {
    let usual = DecayConfig::default();
    let fast = usual.fast;
    for good in [
        usual,
        DecayConfig { slow: fast, ..usual },
        DecayConfig { fast: Duration::from_nanos(1), ..usual },
        DecayConfig { tick_ranges_max: 1, ..usual },
        DecayConfig { tick_ranges_max: 512, ..usual },
        DecayConfig { tick_bytes_max: 128 << 10, ..usual },
    ] {
        assert_eq!(good.check(), Ok(()), "{good:?}");
    }
    for (bad, what) in [
        (DecayConfig { fast: Duration::ZERO, ..usual }, "DecayConfig::fast"),
        (DecayConfig { slow: fast - Duration::from_nanos(1), ..usual }, "DecayConfig::slow"),
        (DecayConfig { tick_ranges_max: 0, ..usual }, "DecayConfig::tick_ranges_max"),
        (DecayConfig { tick_ranges_max: 513, ..usual }, "DecayConfig::tick_ranges_max"),
        (DecayConfig { tick_bytes_max: (128 << 10) - 1, ..usual }, "DecayConfig::tick_bytes_max"),
    ] {
        let wrong = bad.check().expect_err(what);
        assert_eq!(wrong.setting(), what, "{bad:?}");
        assert!(wrong.to_string().starts_with(&format!("{what} must be ")), "{wrong}");
    }
}
