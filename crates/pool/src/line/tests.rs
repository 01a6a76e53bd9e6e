//! Properties: what is handed out and not given back is never more than the limit (I1); a refusal means that the need
//! does not fit; the peak is the highest sum there was. Under loom: the same in every interleaving of two threads.
#![cfg_attr(loom, allow(unused_imports))]

use proptest::prelude::*;

use super::*;

#[cfg(not(loom))]
proptest! {
    #[test]
    fn hands_out_no_more_than_the_limit(limit in 1_u64..1000, ops in prop::collection::vec((0..3_u8, 0_u64..300, 0_u64..300), 0..100)) {
        let line = Line::new(limit);
        let mut held: Vec<u64> = Vec::new();
        let mut peak = 0;
        for (op, need, more) in ops {
            let sum: u64 = held.iter().sum();
            if op == 0 {
                match line.take(need, need + more) {
                    Some(taken) => {
                        prop_assert!(taken == need + more || (taken == need && sum + need + more > limit));
                        held.push(taken);
                    }
                    None => prop_assert!(sum + need > limit),
                }
            } else if op == 1 {
                let taken = line.take_up_to(need);
                prop_assert_eq!(taken, Some(need.min(limit - sum)).filter(|taken| *taken > 0));
                held.extend(taken);
            } else if let Some(bytes) = held.pop() {
                line.give(bytes);
            }
            let sum: u64 = held.iter().sum();
            peak = peak.max(sum);
            prop_assert!(sum <= limit);
            prop_assert_eq!(line.credited(), sum);
            prop_assert_eq!(line.peak(), peak);
        }
    }
}

#[cfg(loom)]
#[test]
fn loom_two_takers_stay_within_the_limit() {
    loom::model(|| {
        let line = loom::sync::Arc::new(Line::new(10));
        let taker = {
            let line = line.clone();
            loom::thread::spawn(move || {
                let taken = line.take(4, 7);
                if let Some(bytes) = taken {
                    assert!(line.credited() <= 10);
                    line.give(bytes);
                }
                taken
            })
        };
        let mine = line.take(4, 7);
        assert!(line.credited() <= 10);
        let theirs = taker.join().unwrap();
        assert!(mine.is_some() || theirs.is_some(), "one of two that fit alone is served");
        if let Some(bytes) = mine {
            line.give(bytes);
        }
        assert_eq!(line.credited(), 0);
        assert!(line.peak() <= 10 && line.peak() >= 4);
    });
}
