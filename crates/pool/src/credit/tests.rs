//! Properties, for several workers with charges beside them, after every operation: I1 (credits within the line), I2
//! (charges within the credit), refusal only if the line would be crossed by what is asked for, kinds sum up, peaks
//! bound what was charged, and a worker never keeps more than two quanta unused after it uncharged.

use proptest::prelude::*;

use super::*;
use crate::budget::{ArenaEnd, Charge};
use crate::limit::MemoryLimit;

#[derive(Clone, Debug)]
enum Op {
    Charge { worker: usize, bytes: u64 },
    Uncharge { worker: usize, part: u64 },
    Trim { worker: usize },
    Direct { kind: usize, bytes: u64 },
    DropDirect { which: usize },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..3_usize, 0..400_000_u64).prop_map(|(worker, bytes)| Op::Charge { worker, bytes }),
        3 => (0..3_usize, 1..5_u64).prop_map(|(worker, part)| Op::Uncharge { worker, part }),
        1 => (0..3_usize).prop_map(|worker| Op::Trim { worker }),
        1 => (0..Kind::COUNT, 0..400_000_u64).prop_map(|(kind, bytes)| Op::Direct { kind, bytes }),
        1 => (0..8_usize).prop_map(|which| Op::DropDirect { which }),
    ]
}

proptest! {
    #[test]
    fn credits_stay_within_the_line(limit in 100_000_u64..3_000_000, ops in prop::collection::vec(op(), 1..120)) {
        let budget = Budget::new(MemoryLimit::bytes(limit));
        let workers: Vec<Credit> = (0..3).map(|_| Credit::open(&budget, 3)).collect();
        let mut directs: Vec<Charge> = Vec::new();
        let mut highest = 0;
        for op in ops {
            match op {
                Op::Charge { worker, bytes } => {
                    let unused = workers[worker].unused();
                    let free = limit - budget.credited();
                    match workers[worker].charge(bytes) {
                        Ok(()) => {}
                        Err(over) => {
                            prop_assert_eq!(over.wanted_bytes(), bytes);
                            prop_assert!(bytes > unused + free, "exact: {} of {} + {}", bytes, unused, free);
                        }
                    }
                }
                Op::Uncharge { worker, part } => {
                    let worker = &workers[worker];
                    worker.uncharge(worker.account().charged() / part);
                    prop_assert!(worker.unused() <= 2 * worker.quantum.get());
                }
                Op::Trim { worker } => {
                    workers[worker].trim();
                    prop_assert_eq!(workers[worker].unused(), 0);
                }
                Op::Direct { kind, bytes } => {
                    let free = limit - budget.credited();
                    match budget.charge(Kind::ALL[kind], bytes) {
                        Ok(charge) => directs.push(charge),
                        Err(_) => prop_assert!(bytes > free),
                    }
                }
                Op::DropDirect { which } => {
                    if which < directs.len() {
                        drop(directs.swap_remove(which));
                    }
                }
            }
            let charged = workers.iter().map(|worker| worker.account().charged()).sum::<u64>()
                + directs.iter().map(Charge::bytes).sum::<u64>();
            highest = charged.max(highest);
            prop_assert!(workers.iter().all(|worker| worker.account().charged() <= worker.credit()), "I2");
            prop_assert_eq!(budget.charged(), charged);
            prop_assert!(charged <= budget.credited() && budget.credited() <= limit, "I1");
            prop_assert_eq!(Kind::ALL.iter().map(|kind| budget.charged_by(*kind)).sum::<u64>(), charged);
            prop_assert!(highest <= budget.peak() && budget.peak() <= limit);
        }
        directs.clear();
        for worker in &workers {
            budget.close_account(worker.account(), ArenaEnd::WithItsPool);
        }
        prop_assert_eq!((budget.charged(), budget.credited()), (0, 0));
        prop_assert!(highest <= budget.peak() && budget.peak() <= limit);
    }
}

#[test]
fn the_quantum_follows_the_line_and_the_workers() {
    let quantum = |limit, workers| Credit::open(&Budget::new(limit), workers).quantum.get();
    assert_eq!(quantum(MemoryLimit::gib(1), 4), 4 << 20);
    assert_eq!(quantum(MemoryLimit::mib(64), 4), 256 << 10);
    assert_eq!(quantum(MemoryLimit::mib(1), 1), 128 << 10);
    assert_eq!(quantum(MemoryLimit::bytes(1), 1000), 1);
}

#[test]
fn the_peak_is_exact_with_one_worker() {
    let budget = Budget::new(MemoryLimit::mib(64));
    let credit = Credit::open(&budget, 1);
    credit.charge(5000).unwrap();
    credit.uncharge(4000);
    credit.charge(3000).unwrap();
    assert_eq!((budget.charged(), budget.peak()), (4000, 5000));
    budget.close_account(credit.account(), ArenaEnd::WithItsPool);
    assert_eq!(budget.peak(), 5000, "also when the worker is gone");
}

#[derive(Clone, Debug)]
enum Keep {
    Charge { source: usize, bytes: u64 },
    Uncharge { part: u64 },
    SetReserve(u64),
    Refill,
    Earmark(u64),
    Gather(bool),
    Trim,
    Beside(u64),
    BesideEnds,
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![
        5 => (0..3_usize, 0..300_000_u64).prop_map(|(source, bytes)| Keep::Charge { source, bytes }),
        3 => (1..5_u64).prop_map(|part| Keep::Uncharge { part }),
        1 => (0..200_000_u64).prop_map(Keep::SetReserve),
        3 => Just(Keep::Refill),
        3 => (0..300_000_u64).prop_map(Keep::Earmark),
        1 => any::<bool>().prop_map(Keep::Gather),
        1 => Just(Keep::Trim),
        1 => (0..400_000_u64).prop_map(Keep::Beside),
        1 => Just(Keep::BesideEnds),
    ]
}

/// Credit, charges, reserve and earmark of a moment.
fn figures(credit: &Credit) -> (u64, u64, u64, u64) {
    (credit.credit(), credit.account().charged(), credit.reserve_left.get(), credit.earmark.get())
}

/// One step, and what it may have changed.
fn keep_step(credit: &Credit, op: &Keep, beside: &mut Vec<Charge>) -> Result<(), TestCaseError> {
    let (held, charged, reserve, earmark) = figures(credit);
    let (unused, free) = (held - charged, credit.budget().limit().as_bytes() - credit.budget().credited());
    match *op {
        Keep::Charge { source, bytes } => {
            let source = [Source::Free, Source::Earmark, Source::Reserve][source];
            let usable = unused - [reserve + earmark, reserve, earmark][source as usize];
            let done = credit.on_behalf(source, || credit.charge(bytes));
            prop_assert_eq!(credit.source.get(), Source::Free, "only while it acts");
            prop_assert_eq!(done.is_ok(), bytes <= usable + free, "exact");
            let now = figures(credit);
            if done.is_err() {
                prop_assert_eq!(now, (held, charged, reserve, earmark));
                return Ok(());
            }
            let taken = if bytes <= usable {
                0
            } else if free >= credit.quantum.get().max(bytes - usable) {
                credit.quantum.get().max(bytes - usable)
            } else {
                bytes - usable
            };
            prop_assert_eq!((now.0, now.1), (held + taken, charged + bytes), "credit is fetched by quanta");
            let kept = match source {
                Source::Free => (reserve, earmark),
                Source::Earmark => (reserve, earmark.saturating_sub(bytes)),
                Source::Reserve => (reserve.min(now.0 - now.1 - earmark), earmark),
            };
            prop_assert_eq!((now.2, now.3), kept, "I6: of {:?}", source);
        }
        Keep::Uncharge { part } => {
            credit.uncharge(charged / part);
            let spare = unused + charged / part - reserve - earmark;
            let left = if spare > 2 * credit.quantum.get() && !credit.gathers() { credit.quantum.get() } else { spare };
            prop_assert_eq!((credit.spare(), credit.account().charged()), (left, charged - charged / part));
        }
        Keep::SetReserve(bytes) => {
            credit.set_reserve(bytes);
            prop_assert_eq!(figures(credit), (held, charged, reserve.min(bytes), earmark));
            prop_assert_eq!(credit.missing_reserve(), bytes - reserve.min(bytes));
        }
        Keep::Refill => {
            let (missing, usable) = (credit.missing_reserve(), unused - reserve);
            let fetched = missing.saturating_sub(usable).min(free);
            let left = credit.refill_reserve();
            prop_assert_eq!(left, missing - missing.min(usable + fetched), "all that is unused goes there");
            let filled = missing - left;
            let rest = if missing == 0 { earmark } else { earmark.min(usable + fetched - filled) };
            prop_assert_eq!(figures(credit), (held + fetched, charged, reserve + filled, rest));
            prop_assert_eq!(credit.missing_reserve(), left);
        }
        Keep::Earmark(bytes) => {
            prop_assert_eq!(credit.earmarkable(), unused - reserve);
            credit.set_earmark(bytes);
            prop_assert_eq!(figures(credit), (held, charged, reserve, bytes.min(unused - reserve)));
        }
        Keep::Gather(gathers) => {
            credit.set_gathers(gathers);
            prop_assert_eq!(credit.gathers(), gathers);
        }
        Keep::Trim => {
            credit.trim();
            prop_assert_eq!(figures(credit), (charged + reserve + earmark, charged, reserve, earmark));
        }
        Keep::Beside(bytes) => beside.extend(credit.budget().charge(Kind::Stacks, bytes).ok()),
        Keep::BesideEnds => drop(beside.pop()),
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_kept_for_one_is_charged_by_nobody_else(limit in 100_000_u64..2_000_000, ops in prop::collection::vec(keep(), 1..120)) {
        let budget = Budget::new(MemoryLimit::bytes(limit));
        let credit = Credit::open(&budget, 2);
        let mut beside = Vec::new();
        for op in ops {
            keep_step(&credit, &op, &mut beside)?;
            let (held, charged, reserve, earmark) = figures(&credit);
            prop_assert!(charged + reserve + earmark <= held && budget.credited() <= limit, "I1, I2, I6");
            prop_assert_eq!(credit.unused(), credit.spare() + reserve + earmark);
            prop_assert_eq!(held + beside.iter().map(Charge::bytes).sum::<u64>(), budget.credited());
            let account = credit.account();
            prop_assert_eq!((account.unused(), account.charged() + account.unused()), (credit.unused(), credit.credit()));
        }
    }
}

#[test]
fn an_account_says_what_is_free_and_what_is_in_use() {
    let budget = Budget::new(MemoryLimit::mib(4));
    let credit = Credit::open(&budget, 1);
    let account = credit.account();
    credit.charge(10_000).unwrap();
    credit.begin_use(Kind::Codec, 3_000);
    credit.begin_use(Kind::Fixed, 1_000);
    assert_eq!((account.free(), account.in_use()), (6_000, 10_000));
    account.set_releasable(4_000);
    assert_eq!((account.free(), account.in_use()), (6_000, 6_000));
    credit.end_use(Kind::Codec, 1_000);
    assert_eq!((account.used(Kind::Codec), account.free()), (2_000, 7_000));
    credit.adopt(5);
    let held = credit.credit();
    assert_eq!(account.end(), held);
    assert_eq!((account.charged(), account.in_use(), account.unused(), account.used(Kind::Fixed)), (0, 0, 0, 0));
    budget.close_account(account, ArenaEnd::WithItsPool);
    // Its credit went by hand, above.
    assert_eq!(budget.credited(), held - 5);
}
