//! Properties: what is given is not lost and not handed out twice; who waits longest is served first. Under loom, over two workers: in every
//! interleaving, the hungry one has its credit or is rung for it.
#![cfg_attr(loom, allow(unused_imports))]

#[cfg(loom)]
use std::sync::atomic::AtomicUsize;

use proptest::prelude::*;

use super::*;

#[cfg(not(loom))]
proptest! {
    #[test]
    fn credit_goes_to_who_waits_longest(limit in 1_u64..10_000, ops in prop::collection::vec((0..3_usize, 0..4_u8, 1..3000_u64), 1..80)) {
        let (hunger, line) = (Hunger::default(), Line::new(limit));
        let flags: Vec<Arc<Flag>> = (0..3).map(|_| hunger.join(&Arc::default(), Arc::new(|| ()))).collect();
        let mut held = [0_u64; 3];
        let mut needs = [0_u64; 3];
        let mut since = [0_u64; 3];
        for (turn, (worker, what, bytes)) in ops.into_iter().enumerate() {
            match what {
                0 => held[worker] += line.take_up_to(bytes).unwrap_or(0),
                1 => {
                    let given = held[worker].min(bytes);
                    held[worker] -= given;
                    hunger.give(given, &line);
                }
                2 => {
                    if needs[worker] == 0 {
                        since[worker] = turn as u64;
                    }
                    needs[worker] = bytes;
                    held[worker] += hunger.state(&flags[worker], bytes, since[worker], &line);
                }
                _ => {
                    needs[worker] = 0;
                    held[worker] += hunger.state(&flags[worker], 0, 0, &line);
                }
            }
            let seats: Vec<(u64, u64)> = hunger.seats().iter().map(|seat| (seat.need_bytes, seat.handed_bytes)).collect();
            for worker in 0..3 {
                prop_assert!(seats[worker].0 <= needs[worker]);
                needs[worker] = seats[worker].0;
                prop_assert_eq!(flags[worker].is_raised() || seats[worker].1 == 0, true, "who has something is told");
            }
            prop_assert_eq!(held.iter().sum::<u64>() + seats.iter().map(|seat| seat.1).sum::<u64>(), line.credited(), "I1");
            prop_assert!(line.credited() <= limit);
            prop_assert_eq!(hunger.is_any(), needs.iter().any(|need| *need > 0));
            prop_assert!(!hunger.is_any() || line.credited() == limit, "nobody is hungry while the line has credit");
        }
        for (worker, flag) in flags.iter().enumerate() {
            hunger.leave(flag, &line);
            hunger.give(held[worker], &line);
        }
        prop_assert_eq!(line.credited(), 0);
    }
}

#[cfg(loom)]
#[test]
fn loom_credit_reaches_the_hungry_worker() {
    loom::model(|| {
        let line = Arc::new(Line::new(8));
        assert_eq!(line.take(8, 8), Some(8));
        let hunger = Arc::new(Hunger::default());
        let rings = Arc::new(AtomicUsize::new(0));
        let rung = Arc::clone(&rings);
        let flag =
            hunger.join(&Arc::default(), Arc::new(move || _ = rung.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
        let giver = {
            let (line, hunger) = (Arc::clone(&line), Arc::clone(&hunger));
            loom::thread::spawn(move || hunger.give(8, &line))
        };
        let at_once = hunger.state(&flag, 6, 1, &line);
        giver.join().unwrap();
        let rings = rings.load(std::sync::atomic::Ordering::Relaxed);
        let later = hunger.fetch(&flag);
        assert_eq!(at_once + later, 6, "no wake-up is lost");
        assert!(at_once == 6 || rings > 0, "who sleeps is rung");
        assert_eq!(line.credited(), 6, "the rest is back");
        assert!(!hunger.is_any());
    });
}

#[cfg(loom)]
#[test]
fn loom_two_hungry_workers_share_what_comes_back() {
    loom::model(|| {
        let line = Arc::new(Line::new(4));
        let hunger = Arc::new(Hunger::default());
        let first = hunger.join(&Arc::default(), Arc::new(|| ()));
        let second = hunger.join(&Arc::default(), Arc::new(|| ()));
        assert_eq!(line.take(4, 4), Some(4));
        let other = {
            let (line, hunger, second) = (Arc::clone(&line), Arc::clone(&hunger), Arc::clone(&second));
            loom::thread::spawn(move || {
                let got = hunger.state(&second, 2, 2, &line);
                hunger.give(4, &line);
                got
            })
        };
        let got = hunger.state(&first, 2, 1, &line);
        let others = other.join().unwrap();
        assert_eq!(got + hunger.fetch(&first), 2);
        assert_eq!(others + hunger.fetch(&second), 2);
        assert_eq!(line.credited(), 4);
    });
}
