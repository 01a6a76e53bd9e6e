//! Seeds are there for every target that reads HTTP.

use super::*;

#[test]
fn every_target_but_the_query_has_seeds() {
    for (target, _) in crate::fuzz::replay::TARGETS {
        let seeds = of(target);
        assert_eq!(seeds.is_empty(), target == "query", "{target}");
        assert!(seeds.iter().all(|seed| seed.len() <= SEED_BYTES_MAX + SCHEDULE.len()), "{target}");
    }
    assert_eq!(usize::from(SCHEDULE[0]), SCHEDULE.len() - 1);
    assert!(of("chunked").iter().any(|body| body.starts_with(b"5\r\nhello\r\n0\r\n\r\n")));
}
