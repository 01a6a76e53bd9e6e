//! What a worker that sleeps gives back, in a simulated world's time.

use plimsoll_pool::{Kind, MemoryLimit};
use plimsoll_reactor::sim::{SimConfig, World};

use crate::memory::{self, Footprint, Priority};
use crate::net::{TcpListener, TcpStream};
use crate::{Error, Runtime, sleep, spawn, spawn_on};

use super::*;

const DECAYED: Duration = Duration::from_millis(2_500);

/// Leases, sleeps and connections of one worker, all gone at the end.
async fn burst() -> Result<(), Error> {
    let pool = crate::pool();
    let leases: Vec<_> = (0..100).map_while(|_| pool.try_acquire(64 << 10, Kind::Buffers).ok()).collect();
    assert_eq!(leases.len(), 100);
    let sleepers: Vec<_> = (0..500).map(|_| spawn(sleep(Duration::from_millis(50)))).collect::<Result<_, _>>()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(TcpStream::connect(address).await?);
        streams.push(listener.accept().await?.0);
    }
    for sleeper in sleepers {
        sleeper.await.expect("a sleep does not panic");
    }
    Ok(())
}

#[test]
fn a_burst_on_every_worker_is_back_with_the_system_while_all_sleep() {
    let world = World::new(SimConfig::new(11));
    let simulation =
        Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).simulate(&world).expect("a simulation starts");
    let budget = std::sync::Arc::clone(simulation.budget());
    let bursts = || async {
        let other = spawn_on(1, burst).expect("room");
        burst().await.expect("room");
        other.await.expect("no panic").expect("room");
    };
    // What is needed once, such as directories of tables, stays.
    simulation.block_on(async {
        bursts().await;
        sleep(DECAYED).await;
    });
    let before = budget.charged();
    simulation.block_on(bursts());
    let burst = budget.charged() - before;
    assert!(burst > 10 << 20, "{burst}");
    let turns = simulation.block_on(async {
        sleep(DECAYED).await;
        let turns = crate::metrics().loop_turns_total;
        sleep(Duration::from_secs(3_600)).await;
        crate::metrics().loop_turns_total - turns
    });
    assert_eq!(budget.charged().saturating_sub(before), 0, "of {burst}");
    assert!(turns < 50, "nothing is armed while nothing is cached, but there were {turns} turns");
    assert!(simulation.pages().counts().released_bytes > burst);
    assert!(simulation.shutdown().is_clean());
}

#[test]
fn the_heap_is_trimmed_once_when_many_transports_have_gone_and_no_more_go() {
    let release = Release::new(DecayConfig::default());
    let gone = |count| (0..count).for_each(|_| release.note_transport_gone());
    gone(TRANSPORTS_MIN - 1);
    assert!(!release.is_heap_due() && !release.is_heap_due(), "few");
    gone(1);
    assert!(!release.is_heap_due(), "one since the last look");
    assert!(release.is_heap_due());
    assert!(!release.is_heap_due() && !release.is_heap_due(), "counted anew");
    gone(TRANSPORTS_MIN);
    assert!(!release.is_heap_due());
    gone(TRANSPORTS_MIN);
    assert!(!release.is_heap_due(), "they go on going");
    assert!(release.is_heap_due());
}

#[test]
fn the_speed_follows_the_level() {
    let speeds = Level::ALL.map(speed);
    assert_eq!(speeds, [DecaySpeed::Slow, DecaySpeed::Fast, DecaySpeed::Fast, DecaySpeed::Now]);
}

#[test]
fn memory_goes_fast_while_the_level_is_not_calm() {
    let world = World::new(SimConfig::new(12));
    let simulation = Runtime::builder().memory(MemoryLimit::mib(8)).simulate(&world).expect("a simulation starts");
    let budget = std::sync::Arc::clone(simulation.budget());
    let acquire = || crate::pool().try_acquire(64 << 10, Kind::Buffers).ok();
    simulation.block_on(async {
        let mut leases: Vec<_> = (0..115).map_while(|_| acquire()).collect();
        sleep(Duration::from_millis(5)).await;
        assert_eq!(budget.level(), Level::Orange, "{} of {}", budget.in_use(), budget.limit());
        let charged = budget.charged();
        leases.truncate(96);
        sleep(Duration::from_millis(400)).await;
        assert_eq!(budget.level(), Level::Yellow);
        assert!(budget.charged() <= charged - (14 << 16), "{} of {charged} are left", budget.charged());
        // Most of what is charged is free now: nobody is short of anything, and it stays for its time.
        leases.truncate(50);
        let charged = budget.charged();
        sleep(Duration::from_millis(400)).await;
        assert_eq!((budget.level(), budget.charged()), (Level::Calm, charged));
        sleep(DECAYED).await;
        assert!(budget.charged() <= charged - (45 << 16), "{} of {charged} are left", budget.charged());
    });
}

#[test]
fn nothing_free_is_kept_while_somebody_waits() {
    let world = World::new(SimConfig::new(14));
    let simulation =
        Runtime::builder().workers(2).memory(MemoryLimit::mib(16)).simulate(&world).expect("a simulation starts");
    let budget = std::sync::Arc::clone(simulation.budget());
    simulation.block_on(async {
        let pool = crate::pool();
        let mut leases: Vec<_> = core::iter::from_fn(|| pool.try_acquire(64 << 10, Kind::Buffers).ok()).collect();
        assert!(leases.len() > 100, "{}", leases.len());
        // And what the other worker has free.
        let acquire = || memory::acquire(64 << 10, Priority::Body, 1);
        while let Ok(Ok(lease)) = crate::timeout(Duration::from_millis(1), acquire()).await {
            leases.push(lease);
        }
        // Three times 128 KiB at once, of which one lease after another comes free.
        let footprint = Footprint::new().head(128 << 10).body(128 << 10).out(128 << 10);
        let mut waits = Box::pin(memory::reserve(footprint, Priority::Body, 1));
        for freed in 1..=4 {
            drop(leases.pop());
            let granted = crate::timeout(Duration::from_millis(130), waits.as_mut()).await;
            assert!(granted.is_err(), "{freed} times 64 KiB are not enough");
            let stats = crate::pool().stats();
            assert_eq!((budget.level(), stats.releasable_bytes()), (Level::Red, 0), "after {freed}");
        }
        leases.truncate(leases.len() - 4);
        drop(waits.await.expect("there is room now"));
    });
}

#[test]
fn what_the_system_does_not_take_back_stays_charged() {
    let world = World::new(SimConfig::new(13));
    let simulation = Runtime::builder().simulate(&world).expect("a simulation starts");
    let budget = std::sync::Arc::clone(simulation.budget());
    simulation.pages().refuse_releases(1_000);
    simulation.block_on(async {
        burst().await.expect("room");
        let charged = budget.charged();
        sleep(DECAYED).await;
        assert_eq!(budget.charged(), charged);
    });
    simulation.pages().refuse_releases(0);
    simulation.block_on(async { sleep(2 * DECAYED).await });
    assert!(budget.charged_by(Kind::Buffers) < 64 << 10, "{}", budget.charged_by(Kind::Buffers));
}
