//! Properties: what costs nobody an answer goes first, and accounts are looked at when nothing else is left.
#![forbid(unsafe_code)]

use super::*;

#[test]
fn what_costs_least_goes_first() {
    let never = || panic!("the accounts are not looked at");
    let all = Candidates { parked: 2, incomplete_heads: 3, stalled_outputs: 1 };
    assert_eq!(next_step(&all, never), Some(ShedStep::Parked));
    assert_eq!(next_step(&Candidates { parked: 0, ..all }, never), Some(ShedStep::IncompleteHead));
    assert_eq!(
        next_step(&Candidates { stalled_outputs: 1, ..Candidates::default() }, never),
        Some(ShedStep::StalledOutput)
    );
    assert_eq!(next_step(&Candidates::default(), || None), None);
}
