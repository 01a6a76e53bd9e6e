//! How a wait ends.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_reactor::{Op, Wait};

use crate::bench::Bench;

pub(crate) fn doorbell_ends_a_wait(bench: &mut Bench) {
    if bench.is_simulated() {
        // No thread could ring while the one thread of the world waits; see `doorbell_rung_before`.
        return;
    }
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    for _ in 0..3 {
        bench.settle();
        let bell = bench.driver.doorbell().clone();
        // Before the ringer begins: this thread may be held up behind it.
        let before = bench.driver.now();
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            bell.ring();
        });
        bench.driver.enter(Wait::Forever).expect("a wait");
        bench.reap();
        ringer.join().expect("it rang");
        assert!(bench.is_waiting(receive), "nothing else happened");
        assert!(bench.driver.now() - before >= Duration::from_millis(20), "it was the bell that ended it");
    }
    bench.driver.orphan(receive.key);
    bench.settle();
    bench.close(client);
    bench.close(server);
}

pub(crate) fn doorbell_rung_before(bench: &mut Bench) {
    bench.settle();
    for _ in 0..3 {
        bench.driver.doorbell().ring();
        bench.driver.doorbell().ring();
        bench.driver.enter(Wait::Forever).expect("a wait that ends");
        // Both rings were one; the next wait is a wait again.
        bench.driver.enter(Wait::No).expect("a look");
        let deadline = bench.driver.now() + Duration::from_millis(30);
        while bench.driver.now() < deadline {
            let before = bench.driver.now();
            bench.driver.enter(Wait::Until(deadline)).expect("a wait");
            assert!(bench.driver.now() > before);
        }
    }
}

pub(crate) fn deadline_passes(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    bench.settle();
    for wait in [Duration::from_micros(300), Duration::from_millis(1), Duration::from_millis(40)] {
        let start = bench.driver.now();
        let mut turns = 0;
        while bench.driver.now() < start + wait {
            bench.driver.enter(Wait::Until(start + wait)).expect("a wait");
            turns += 1;
        }
        let late = bench.driver.now() - (start + wait);
        assert!(late < Duration::from_secs(5), "{late:?} late");
        assert!(turns <= 4, "{turns} turns to wait for {wait:?}");
    }
    let past = bench.driver.now();
    bench.driver.enter(Wait::Until(past)).expect("a deadline in the past is a look");
    assert!(bench.is_waiting(receive));
    bench.driver.orphan(receive.key);
    bench.settle();
    bench.close(client);
    bench.close(server);
}

pub(crate) fn no_wait(bench: &mut Bench) {
    for _ in 0..10 {
        bench.driver.enter(Wait::No).expect("a look");
        assert!(bench.driver.reap().is_none(), "nothing is in flight");
        assert!(!bench.driver.has_ready());
    }
}
