//! What is tested: silence, drips and bursts, each against the time that the server waits for a body.

use ::core::time::Duration;

use plimsoll_runtime::Instant;

use super::MinRateTimer;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Seconds until the timer of a peer ends that sends `bytes` every `every_ms`, or `None` if it never does.
fn ends_after(bytes: usize, every_ms: u64) -> Option<u64> {
    let mut min_rate = MinRateTimer::full(TIMEOUT);
    let start = Instant::from_millis(5);
    let mut now = start;
    for _ in 0..1_000_000 / every_ms {
        let left = min_rate.wait(now);
        let next = now + Duration::from_millis(every_ms);
        if now + left <= next {
            return Some((now + left).since(start).as_secs());
        }
        now = next;
        min_rate.pause(now);
        min_rate.earn(bytes, Some(1_024), TIMEOUT);
    }
    None
}

#[test]
fn silence_is_borne_for_the_timeout() {
    assert_eq!(ends_after(1, 40_000), Some(30));
}

#[test]
fn drips_do_not_buy_more_than_their_share() {
    assert_eq!(ends_after(1, 1_000), Some(30), "a byte each second");
    assert_eq!(ends_after(512, 1_000), Some(59), "half of what is asked");
    assert_eq!(ends_after(1_024, 1_000), None, "what is asked");
    assert_eq!(ends_after(20_480, 20_000), None, "the same in bursts");
}

#[test]
fn a_burst_fills_it_up_and_no_further() {
    let mut min_rate = MinRateTimer::full(TIMEOUT);
    min_rate.earn(100 << 20, Some(1_024), TIMEOUT);
    assert_eq!(min_rate.wait(Instant::from_millis(1)), TIMEOUT);
}

#[test]
fn without_a_rate_any_byte_fills_it_up() {
    let mut min_rate = MinRateTimer::full(TIMEOUT);
    let start = Instant::from_millis(1);
    assert_eq!(min_rate.wait(start), TIMEOUT);
    min_rate.pause(start + Duration::from_secs(29));
    min_rate.earn(1, None, TIMEOUT);
    assert_eq!(min_rate.wait(start), TIMEOUT);
}
