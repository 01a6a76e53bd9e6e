//! What a worker that sleeps gives back, in a simulated world's time.

use plimsoll_pool::{Kind, MemoryLimit};
use plimsoll_reactor::sim::{SimConfig, World};

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
fn memory_goes_fast_when_the_line_is_near() {
    let world = World::new(SimConfig::new(12));
    let simulation = Runtime::builder().memory(MemoryLimit::mib(8)).simulate(&world).expect("a simulation starts");
    let budget = std::sync::Arc::clone(simulation.budget());
    let acquire = || crate::pool().try_acquire(64 << 10, Kind::Buffers).ok();
    simulation.block_on(async {
        let mut leases: Vec<_> = (0..115).map_while(|_| acquire()).collect();
        assert!(budget.charged() * 100 / budget.limit().as_bytes() > FAST_PERCENT);
        let charged = budget.charged();
        leases.truncate(100);
        sleep(Duration::from_millis(400)).await;
        assert!(budget.charged() <= charged - (14 << 16), "{} of {charged} are left", budget.charged());
        leases.truncate(50);
        let charged = budget.charged();
        sleep(Duration::from_millis(400)).await;
        assert!(budget.charged() < charged);
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
