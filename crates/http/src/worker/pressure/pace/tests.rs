//! What the list is charged, and how a rate comes of time and bytes.

use plimsoll_pool::{Budget, MemoryLimit, PoolConfig};

use super::*;

/// Of whom something is asked since the beginning.
fn timed() -> Timed {
    let (_, key) = Key::unpack(0x03_0000_002a);
    let since = Some(Instant::from_millis(0));
    Timed { key, since, asked: Duration::ZERO, moved_bytes: 30_000, unsent_bytes: 0 }
}

#[test]
fn the_list_is_charged_as_long_as_it_may_be() {
    for (share, count) in [(0, 0), (SHARE_BYTES - 1, 0), (4 * SHARE_BYTES, 4), (1 << 40, TIMED_MAX)] {
        let budget = Budget::new(MemoryLimit::mib(2));
        let pool = Pool::new(&budget, PoolConfig::default()).expect("room for a pool");
        let before = budget.charged_by(Kind::Fixed);
        let mut pace = Pace::new(&pool, share);
        assert_eq!(pace.timed.capacity() as u64, count, "of {share} bytes");
        assert_eq!(budget.charged_by(Kind::Fixed) - before, count * size_of::<Timed>() as u64);
        assert!(pace.is_idle());
        assert_eq!(pace.is_full(), count == 0);
        pace.timed.extend((0..count).map(|_| timed()));
        assert_eq!((pace.is_full(), pace.is_idle()), (true, count == 0));
        pace.clear();
        assert!(pace.is_idle());
    }
}

#[test]
fn a_rate_is_bytes_by_the_time_in_which_they_were_asked_for() {
    let at = Instant::from_millis;
    let mut timed = timed();
    assert_eq!(timed.bytes_per_second(), 30_000_000, "no time counts as a millisecond");
    timed.update(at(1_500), None);
    assert_eq!((timed.asked, timed.bytes_per_second()), (Duration::from_millis(1_500), 20_000));
    timed.update(at(9_000), Some(7));
    assert_eq!((timed.asked, timed.unsent_bytes), (Duration::from_millis(1_500), 7), "nothing was asked meanwhile");
    timed.update(at(10_500), Some(3));
    assert_eq!((timed.bytes_per_second(), timed.unsent_bytes), (10_000, 3));
}
