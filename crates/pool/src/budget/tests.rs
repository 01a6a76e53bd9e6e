//! Properties of charges: they count as their kind, grow and shrink, end with their drop, also from several threads at once.

use super::*;

#[test]
fn a_charge_grows_and_shrinks() {
    let budget = Budget::new(MemoryLimit::bytes(1000));
    let mut charge = budget.charge(Kind::Stacks, 400).unwrap();
    charge.grow(500).unwrap();
    assert_eq!((charge.bytes(), budget.charged_by(Kind::Stacks)), (900, 900));
    let over = charge.grow(101).unwrap_err();
    assert_eq!((over.wanted_bytes(), charge.bytes(), budget.charged()), (101, 900, 900));
    assert_eq!(budget.refusals(), 1);
    charge.shrink_to(100);
    charge.shrink_to(5000);
    assert_eq!((charge.bytes(), budget.charged(), budget.credited()), (100, 100, 100));
    drop(charge);
    assert_eq!((budget.charged(), budget.credited(), budget.peak()), (0, 0, 900));
}

#[test]
fn charges_of_many_threads_never_cross_the_line() {
    let budget = Budget::new(MemoryLimit::bytes(10_000));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let budget = &budget;
            scope.spawn(move || {
                for round in 0..20_000_u64 {
                    let charge = budget.charge(Kind::ALL[(round % 7) as usize], 1000 + 997 * thread);
                    assert!(budget.credited() <= 10_000, "I1");
                    assert!(budget.charged() <= 10_000);
                    drop(charge);
                }
            });
        }
    });
    assert_eq!((budget.charged(), budget.credited()), (0, 0));
    assert!(budget.peak() <= 10_000);
    assert!(Kind::ALL.iter().all(|kind| budget.charged_by(*kind) == 0));
}
