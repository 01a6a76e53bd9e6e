//! One hub on several workers.

use core::time::Duration;

use plimsoll_http::{Event, Hub, HubConfig};
use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{DriverChoice, MemoryLimit, Report, Result, Runtime, sleep, spawn, spawn_on};

use super::client::{BOTH, open};
use super::{hub_server, members};

const MESSAGES: u64 = 60;
const WORKERS: usize = 3;

async fn scenario() -> Result<()> {
    let config = HubConfig { queue_messages_max: 1_024, queue_bytes_max: 8 << 20, ..HubConfig::default() };
    let hub = Hub::new(config).expect("room");
    let running = hub_server(&hub)?;
    sleep(Duration::from_millis(20)).await;
    let mut clients = Vec::new();
    for at in 0..48 {
        clients.push(open(running.address, BOTH[at % 2]).await?);
    }
    members(&hub, 48).await;
    let readers = clients.into_iter().map(|mut client| {
        spawn(async move {
            let mut got = Vec::new();
            for _ in 0..MESSAGES * WORKERS as u64 {
                got.push(client.text().await?);
            }
            Ok::<_, plimsoll_runtime::Error>(got)
        })
    });
    let readers: Vec<_> = readers.collect::<Result<_>>()?;
    let mut publishers = Vec::new();
    for worker in 0..WORKERS {
        let hub = hub.clone();
        publishers.push(spawn_on(worker, move || async move {
            for at in 0..MESSAGES {
                hub.publish(&Event::data(&format!("{worker} {at}"))).expect("room");
                if at % 4 == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        })?);
    }
    for publisher in publishers {
        publisher.await?;
    }
    let mut all = Vec::new();
    for reader in readers {
        all.push(reader.await.expect("no panic")?);
    }
    for got in &all {
        assert_eq!(got, &all[0], "the same order for all");
    }
    for worker in 0..WORKERS {
        let own: Vec<_> = all[0].iter().filter(|text| text.starts_with(&format!("{worker} "))).collect();
        let expected: Vec<_> = (0..MESSAGES).map(|at| format!("{worker} {at}")).collect();
        assert!(own.into_iter().eq(&expected), "in the order of their publisher");
    }
    members(&hub, 0).await;
    assert_eq!((hub.stats().held_messages, hub.stats().dropped_total), (0, 0));
    running.stop().await
}

fn census(what: &str, report: &Report) {
    assert!(report.is_clean() && report.in_flight == 0, "{what}: {report}");
}

#[test]
fn the_order_is_one_for_all_workers() {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        match Runtime::builder().workers(WORKERS).memory(MemoryLimit::mib(48)).driver(choice).build() {
            Ok(runtime) => {
                runtime.block_on(scenario()).unwrap_or_else(|error| panic!("{choice:?}: {error}"));
                census(&format!("{choice:?}"), &runtime.shutdown());
            }
            Err(error) => assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}"),
        }
    }
    for seed in 1..4 {
        let world = World::new(SimConfig::new(seed));
        let builder = Runtime::builder().workers(WORKERS).memory(MemoryLimit::mib(48));
        let simulation = builder.simulate(&world).expect("a simulation starts");
        simulation.block_on(scenario()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        census("sim", &simulation.shutdown());
    }
}
