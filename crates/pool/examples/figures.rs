//! Measures what the pool costs: hot acquire and release, the first touch of a page, giving pages back, frees from
//! another thread, and what is held after a burst and long use.
//!
//! Run with `cargo run --release -p plimsoll-pool --example figures`. Every time is the best of several rounds. A line
//! is what was measured, the figure and its unit; `cargo xtask bench --pool` reads them.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_pool::{Budget, Class, Decay, DecayConfig, DecaySpeed, Error, Kind, Lease, MemoryLimit, Pool, PoolConfig};

const ROUNDS: usize = 40;

fn main() -> Result<(), Error> {
    let budget = Budget::new(MemoryLimit::gib(4));
    let pool = Pool::new(&budget, PoolConfig::default())?;
    hot(&pool)?;
    first_touch(&pool);
    release(&pool);
    turns(&pool);
    remote(&pool)?;
    churn()
}

fn figure(what: impl AsRef<str>, figure: f64, unit: &str) {
    println!("{:<56} {figure:>10.3} {unit}", what.as_ref());
}

/// The best of some rounds, in nanoseconds for each of `count`.
fn best(count: usize, mut round: impl FnMut() -> u128) -> f64 {
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default() as f64 / count as f64
}

fn timed(run: impl FnOnce()) -> u128 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos()
}

fn hot(pool: &Pool) -> Result<(), Error> {
    const COUNT: usize = 200_000;
    for class in [Class::B64, Class::B512, Class::K4, Class::K16, Class::K20, Class::K128] {
        let _warm = pool.try_acquire_class(class, Kind::Buffers)?;
        let pair = best(COUNT, || {
            timed(|| {
                (0..COUNT).for_each(|_| drop(black_box(pool.try_acquire(black_box(class.bytes()), Kind::Buffers))))
            })
        });
        figure(format!("acquire and release, {class}, one at a time"), pair, "ns");
    }
    let mut held: Vec<Lease> = Vec::with_capacity(1000);
    for burst in [16, 1000] {
        let pair = best(COUNT / burst * burst, || {
            timed(|| {
                for _ in 0..COUNT / burst {
                    held.extend((0..burst).filter_map(|_| pool.try_acquire(black_box(512), Kind::Slots).ok()));
                    held.clear();
                }
            })
        });
        figure(format!("acquire and release, 512B, {burst} at a time"), pair, "ns");
    }
    let copy = best(COUNT, || {
        timed(|| (0..COUNT).for_each(|_| drop(black_box(pool.try_copy(black_box(&[1; 150]), Kind::Slots)))))
    });
    figure("copy of 150 bytes into a lease and release", copy, "ns");
    let boxed =
        best(COUNT, || timed(|| (0..COUNT).for_each(|_| drop(black_box(pool.try_boxed([1_u64; 4], Kind::Tasks))))));
    figure("box of 32 bytes and drop", boxed, "ns");
    Ok(())
}

/// Acquiring pages that are not resident and touching each, and touching the same pages when all are acquired, in
/// turns.
fn first_touch(pool: &Pool) {
    const PAGES: usize = 4096;
    let mut leases: Vec<Lease> = Vec::with_capacity(PAGES);
    let (mut pooled, mut raw) = (u128::MAX, u128::MAX);
    for _ in 0..4 * ROUNDS {
        pool.release_free(u64::MAX);
        pooled = pooled.min(timed(|| {
            for _ in 0..PAGES {
                let Ok(mut lease) = pool.try_acquire(4096, Kind::Buffers) else { continue };
                lease.extend(&[1]);
                leases.push(lease);
            }
        }));
        leases.clear();
        pool.release_free(u64::MAX);
        leases.extend((0..PAGES).filter_map(|_| pool.try_acquire(4096, Kind::Buffers).ok()));
        raw = raw.min(timed(|| leases.iter_mut().for_each(|lease| _ = lease.extend(&[1]))));
        leases.clear();
    }
    let (pooled, raw) = (pooled as f64 / PAGES as f64, raw as f64 / PAGES as f64);
    figure("acquire of a page that is not resident, and touch", pooled, "ns");
    figure("touch of a fresh page alone", raw, "ns");
    figure("acquire and touch against touch alone", pooled / raw, "x");
}

/// Giving pages back: all of many neighbours, and every other one.
fn release(pool: &Pool) {
    const PAGES: usize = 4096;
    let mut leases: Vec<Lease> = Vec::with_capacity(PAGES);
    for (what, every) in [("neighbours together", 1), ("every other one", 2)] {
        let time = best(PAGES / every, || {
            leases.clear();
            leases.extend((0..PAGES).filter_map(|_| pool.try_copy(&[1; 4096], Kind::Buffers).ok()));
            let mut index = 0;
            leases.retain(|_| {
                index += 1;
                index % every != 0
            });
            timed(|| assert!(pool.release_free(u64::MAX) >= (4096 * PAGES / every) as u64))
        });
        figure(format!("release of a free page, {what}"), time, "ns");
    }
}

/// The longest that giving back takes in one turn, by the best of some rounds: with neighbours, and with pages that
/// each are a range of their own.
fn turns(pool: &Pool) {
    const PAGES: usize = 4096;
    for (what, every) in [("neighbours together", 1), ("every other one", 2)] {
        pool.release_free(u64::MAX);
        let longest = best(1, || {
            let mut leases: Vec<Lease> =
                (0..PAGES).filter_map(|_| pool.try_copy(&[1; 4096], Kind::Buffers).ok()).collect();
            let mut index = 0;
            leases.retain(|_| {
                index += 1;
                index % every != 0
            });
            let mut decay = Decay::new(DecayConfig::default());
            let (mut now, mut longest) = (Duration::ZERO, 0);
            decay.tick(pool, now, || DecaySpeed::Slow);
            while let Some(due) = decay.next_deadline() {
                now = now.max(due);
                longest = longest.max(timed(|| _ = decay.tick(pool, now, || DecaySpeed::Now)));
            }
            longest
        });
        figure(format!("a turn of giving back, {what}"), longest / 1000.0, "us");
    }
}

/// What a free costs on the other thread, and what the owner pays to take it back.
fn remote(pool: &Pool) -> Result<(), Error> {
    const COUNT: usize = 50_000;
    let (to, from) = mpsc::channel::<Vec<Lease>>();
    let (done, times) = mpsc::channel::<u128>();
    let other = thread::spawn(move || {
        for leases in from {
            let time = timed(|| drop(leases));
            if done.send(time).is_err() {
                break;
            }
        }
    });
    for len in [64, 4096] {
        let (mut freed, mut drained) = (u128::MAX, u128::MAX);
        for _ in 0..ROUNDS {
            let leases: Result<Vec<Lease>, _> =
                (0..COUNT).map(|_| pool.try_copy(&[1_u8; 4096][..len], Kind::Buffers)).collect();
            if to.send(leases?).is_err() {
                break;
            }
            freed = freed.min(times.recv().unwrap_or(u128::MAX));
            drained = drained.min(timed(|| assert_eq!(pool.drain_remote(), COUNT)));
        }
        let (freed, drained) = (freed as f64 / COUNT as f64, drained as f64 / COUNT as f64);
        figure(format!("remote free of {len} bytes, there"), freed, "ns");
        figure(format!("remote free of {len} bytes, here"), drained, "ns");
        figure(format!("remote free of {len} bytes, together"), freed + drained, "ns");
    }
    drop(to);
    let ended = other.join();
    assert!(ended.is_ok(), "the other thread does not panic");
    Ok(())
}

/// What is resident after a burst, and after a fiftieth of it has stayed in use for long, for what is in use.
fn churn() -> Result<(), Error> {
    const BURST_BYTES: usize = 64 << 20;
    for class in Class::ALL {
        let budget = Budget::new(MemoryLimit::gib(1));
        let pool = Pool::new(&budget, PoolConfig::default())?;
        let mut random = 7_u64;
        let mut below = |bound: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as usize % bound
        };
        let burst: Result<Vec<Lease>, _> =
            (0..BURST_BYTES / class.bytes()).map(|_| pool.try_acquire_class(class, Kind::Buffers)).collect();
        let mut live = burst?;
        let stay = live.len().div_ceil(50);
        while live.len() > stay {
            live.swap_remove(below(live.len()));
        }
        // Leases come and go in random order.
        for _ in 0..20 * stay {
            drop(live.swap_remove(below(live.len())));
            live.push(pool.try_acquire_class(class, Kind::Buffers)?);
        }
        pool.release_free(u64::MAX);
        let stats = pool.stats();
        let held: u64 = stats.classes.iter().map(|class| class.resident_bytes).sum();
        let what = if class < Class::K4 { "slots" } else { "pages" };
        figure(
            format!("held for needed after churn of {what}, {class}"),
            held as f64 / (live.len() * class.bytes()) as f64,
            "x",
        );
    }
    Ok(())
}
