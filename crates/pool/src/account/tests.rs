//! Properties, for several workers with charges beside them, after every operation: I1 (credits within the line), I2 (charges within the
//! credit), refusal only if the line would be crossed by what is asked for, kinds sum up, peaks bound what was charged, and a worker
//! never keeps more than two quanta unused after it uncharged.

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
                    prop_assert!(worker.unused() <= 2 * worker.quantum);
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
    let quantum = |limit, workers| Credit::open(&Budget::new(limit), workers).quantum;
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
