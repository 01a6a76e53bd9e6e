//! Seeds are there for every target that reads HTTP/1.1.

use super::*;

#[test]
fn every_target_that_reads_heads_and_bodies_has_seeds() {
    for (target, _) in crate::fuzz::replay::TARGETS {
        let seeds = of(target);
        let reads_other = matches!(
            target,
            "query" | "hpack" | "h2_frames" | "h2_operations" | "ws_frames" | "ws_text" | "ws_deflate"
        );
        assert_eq!(seeds.is_empty(), reads_other, "{target}");
        assert!(seeds.iter().all(|seed| seed.len() <= SEED_BYTES_MAX + SCHEDULE.len()), "{target}");
    }
    assert_eq!(usize::from(SCHEDULE[0]), SCHEDULE.len() - 1);
    assert!(of("chunked").iter().any(|body| body.starts_with(b"5\r\nhello\r\n0\r\n\r\n")));
}
