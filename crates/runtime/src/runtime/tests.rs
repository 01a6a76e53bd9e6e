//! Several workers: on threads, and on one thread in a simulated world.
#![forbid(unsafe_code)]

use core::error::Error as _;
use core::task::Poll;
use core::time::Duration;

use plimsoll_pool::{Class, Kind, Lease};
use plimsoll_reactor::sim::{Faults, SimConfig, World};
use plimsoll_reactor::{BlockingConfig, DriverConfig};

use crate::inbox::INBOX_JOBS_MAX;
use crate::net::{ListenOptions, TcpListener, TcpStream};
use crate::{
    Builder, ConfigError, ContainerLimit, DecayConfig, DriverChoice, Error, MemoryLimit, Result, Runtime, Spawner,
    sleep, spawn, spawn_on, worker_index, workers,
};

/// An echo server on every worker, and clients on every worker: how many bytes came back.
async fn echo_everywhere() -> Result<usize> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let serving = spawn(listener.serve(|mut stream: TcpStream| async move {
        while let Some(lease) = stream.recv().await? {
            stream.send_all(lease).await?;
        }
        Ok::<(), Error>(())
    }))?;
    let mut clients = Vec::new();
    for worker in 0..workers() {
        clients.push(spawn_on(worker, move || async move {
            assert_eq!(worker_index(), worker);
            let mut echoed = 0;
            for _ in 0..5 {
                let mut client = TcpStream::connect(address).await?;
                client.send_bytes(&[7; 3_000]).await?;
                client.shutdown_write().await?;
                while let Some(lease) = client.recv().await? {
                    echoed += lease.len();
                }
            }
            Ok::<_, Error>(echoed)
        })?);
    }
    let mut echoed = 0;
    for client in clients {
        echoed += client.await??;
    }
    Spawner::current().stop();
    serving.await.expect("no panic")?;
    Ok(echoed)
}

#[test]
fn workers_on_threads_serve_one_address() {
    let runtime = Runtime::builder().workers(3).memory(MemoryLimit::mib(64)).build().expect("a runtime starts");
    let echoed = runtime.block_on(echo_everywhere()).expect("nothing fails");
    assert_eq!(echoed, 3 * 5 * 3_000);
    let report = runtime.shutdown();
    assert!(report.is_clean(), "{report}");
}

fn simulated(seed: u64) -> u64 {
    let world = World::new(SimConfig::new(seed));
    let simulation =
        Runtime::builder().workers(3).memory(MemoryLimit::mib(64)).simulate(&world).expect("a simulation starts");
    let echoed = simulation.block_on(echo_everywhere()).expect("nothing fails in a clean world");
    assert_eq!(echoed, 3 * 5 * 3_000);
    let report = simulation.shutdown();
    assert!(report.is_clean(), "{report}");
    world.trace_hash()
}

#[test]
fn simulated_workers_take_turns_as_the_seed_says() {
    let first: Vec<u64> = (1..=5).map(simulated).collect();
    let second: Vec<u64> = (1..=5).map(simulated).collect();
    assert_eq!(first, second, "the same seed does the same");
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]), "another seed does something else");
}

#[test]
#[should_panic(expected = "nothing can happen any more")]
fn a_deadlock_is_told_and_not_waited_for() {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().workers(2).simulate(&world).expect("a simulation starts");
    simulation.block_on(core::future::pending::<()>());
}

#[test]
#[should_panic(expected = "it wakes itself for ever")]
fn a_task_that_never_waits_is_told_and_not_waited_for() {
    let world = World::new(SimConfig::new(3));
    let simulation = Runtime::builder().workers(2).simulate(&world).expect("a simulation starts");
    simulation.block_on(core::future::poll_fn(|cx| {
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
}

/// A sleep that finds no room for its timer asks again each millisecond, also in a world of several workers.
#[test]
fn the_clock_goes_on_while_there_is_no_room_for_a_timer() {
    let world = World::new(SimConfig::new(3));
    let builder = Runtime::builder().workers(2).memory(MemoryLimit::mib(8));
    let simulation = builder.simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let sleeping = crate::spawn(async {
            let (at, pool) = (crate::now(), &crate::worker::Worker::current().pool.clone());
            let of = |class| core::iter::from_fn(move || pool.try_acquire_class(class, Kind::Buffers).ok());
            let held: Vec<Lease> = [Class::K128, Class::K4, Class::B64].into_iter().flat_map(of).collect();
            sleep(Duration::from_micros(10_500)).await;
            drop(held);
            crate::now().since(at)
        });
        let slept = sleeping.expect("there is room for a task").await.expect("it does not panic");
        assert!((Duration::from_millis(11)..Duration::from_millis(12)).contains(&slept), "without a timer: {slept:?}");
    });
    assert!(simulation.shutdown().is_clean());
}

#[test]
fn a_world_full_of_faults_is_survived() {
    for seed in 1..=20 {
        let world = World::new(SimConfig::new(seed).with_faults(Faults::mild()));
        let simulation = Runtime::builder().memory(MemoryLimit::mib(64)).simulate(&world).expect("a simulation starts");
        // Whether the echo comes back depends on the faults; that everything is given back does not.
        let _any = simulation.block_on(async { crate::timeout(Duration::from_secs(600), echo_everywhere()).await });
        simulation.block_on(async { sleep(Duration::from_secs(1)).await });
        let report = simulation.shutdown();
        assert!(report.is_clean(), "seed {seed}: {report}");
        assert!(world.descriptors().is_empty(), "seed {seed}: {:?}", world.descriptors());
    }
}

#[test]
fn a_line_that_is_too_low_says_how_much_is_needed() {
    let low = Runtime::builder().workers(2).memory(MemoryLimit::kib(100)).build();
    let Err(Error::LineTooLow { needed_bytes, line_bytes, workers: 2, workers_max: 0, .. }) = low else {
        panic!("100 KiB are not enough: {low:?}")
    };
    assert_eq!(line_bytes, 100 * 1024);
    let enough = Runtime::builder().workers(2).memory(MemoryLimit::bytes(needed_bytes)).build();
    let runtime = enough.expect("what it says is needed is enough");
    let echoed = runtime.block_on(echo_everywhere()).expect("and something can be done");
    assert_eq!(echoed, 2 * 5 * 3_000);
    assert!(runtime.shutdown().is_clean());
}

#[test]
fn without_a_number_there_are_as_many_workers_as_the_line_carries() {
    for driver in [DriverChoice::Mio, DriverChoice::Auto] {
        let builder = Runtime::builder().driver(driver).memory(MemoryLimit::mib(8));
        let runtime = builder.clone().build_on(40).expect("it starts with fewer");
        assert!((2..40).contains(&runtime.workers()), "{}", runtime.workers());
        assert_eq!(runtime.lowered_from(), Some(40));
        let echoed = runtime.block_on(echo_everywhere()).expect("something can be done");
        assert_eq!(echoed, runtime.workers() * 5 * 3_000);
        assert_eq!(runtime.budget().level(), plimsoll_pool::Level::Calm);
        assert!(runtime.shutdown().is_clean());
        let error = builder.workers(40).build_on(2).expect_err("what is asked for is done or refused").to_string();
        assert!(error.contains("too low for 40 workers") && error.contains("it carries "), "{error}");
        let enough = Runtime::builder().driver(driver).memory(MemoryLimit::mib(16)).build_on(2).expect("it starts");
        assert_eq!((enough.workers(), enough.lowered_from()), (2, None));
    }
}

#[test]
fn a_container_lowers_the_line_and_never_raises_it() {
    let line = |container| {
        let container = ContainerLimit { bytes: container };
        let builder = Runtime::builder().workers(1).driver(DriverChoice::Mio).memory(MemoryLimit::mib(32));
        let runtime = builder.container(Some(container)).build().expect("a runtime starts");
        runtime.plan().line_bytes()
    };
    assert_eq!(line(40 << 20), 24 << 20);
    assert_eq!(line(1 << 40), 32 << 20);
    let kib = ContainerLimit { bytes: 100 << 10 };
    let low = Runtime::builder().workers(1).container(Some(kib)).build();
    assert!(matches!(low, Err(Error::LineTooLow { line_bytes: 61_440, .. })), "{low:?}");
}

#[test]
fn a_line_that_nobody_gave_grows_with_the_workers() {
    let line = |builder: Builder, processors| {
        let runtime = builder.driver(DriverChoice::Mio).container(None).build_on(processors).expect("it starts");
        (runtime.budget().limit(), runtime.workers())
    };
    for (asked, mib) in [(1, 64), (2, 64), (3, 96), (4, 128)] {
        let builder = Runtime::builder().worker_stack_bytes(128 << 10).workers(asked);
        assert_eq!(line(builder.clone(), 1), (MemoryLimit::mib(mib), asked));
        assert_eq!(line(builder.memory(MemoryLimit::mib(40)), 1), (MemoryLimit::mib(40), asked), "as it was given");
    }
    let of_processors = Runtime::builder().worker_stack_bytes(128 << 10);
    assert_eq!(line(of_processors, 4), (MemoryLimit::mib(128), 4), "no worker fewer for want of memory");
    let container = Some(ContainerLimit { bytes: 100 << 20 });
    let runtime = Runtime::builder().driver(DriverChoice::Mio).workers(4).container(container).build();
    assert_eq!(runtime.expect("it starts").budget().limit(), MemoryLimit::mib(60), "a container lowers it");
    let simulation = Runtime::builder().workers(3).simulate(&World::new(SimConfig::new(1))).expect("it starts");
    simulation.block_on(async { assert_eq!(crate::budget().limit(), MemoryLimit::mib(96)) });
}

#[test]
fn values_out_of_range_are_errors() {
    let refused = |builder: Builder, setting: &str| {
        let wrong = builder.build().err();
        let Some(Error::Config(ConfigError::OutOfRange(range))) = wrong else { panic!("{setting}: {wrong:?}") };
        assert_eq!(range.setting(), setting);
        let source = wrong.as_ref().and_then(|error| error.source()?.source());
        assert_eq!(source.map(ToString::to_string), Some(range.to_string()), "the source says so, too");
    };
    refused(Runtime::builder().workers(0), "workers");
    refused(Runtime::builder().workers(1_025), "workers");
    refused(Runtime::builder().workers(1).worker_stack_bytes(1), "worker_stack_bytes");
    let rings = |entries, receive_buffers| DriverConfig { entries, receive_buffers, ..DriverConfig::default() };
    let threads = |threads_max, queue_max, stack_bytes| BlockingConfig {
        threads_max,
        queue_max,
        stack_bytes,
        ..BlockingConfig::default()
    };
    let builder = || Runtime::builder().workers(1);
    let sizes = [
        builder().driver_config(rings(1_000, 4)),
        builder().driver_config(rings(1 << 15, 4)),
        builder().driver_config(rings(1_024, 0)),
        builder().driver_config(rings(1_024, 128)),
        builder().blocking(threads(0, 1, 128 * 1_024)),
        builder().blocking(threads(1, 0, 128 * 1_024)),
        builder().blocking(threads(1, 1, 1_024)),
        Runtime::builder().worker_stack_bytes(1),
        builder().decay(DecayConfig { fast: Duration::ZERO, ..DecayConfig::default() }),
        builder().decay(DecayConfig { tick_ranges_max: 0, ..DecayConfig::default() }),
        builder().decay(DecayConfig { tick_bytes_max: 4_096, ..DecayConfig::default() }),
    ];
    for builder in sizes {
        let simulated = builder.clone().simulate(&World::new(SimConfig::new(1)));
        assert!(matches!(simulated, Err(Error::Config(ConfigError::OutOfRange(_)))), "{builder:?}");
        assert!(matches!(builder.build(), Err(Error::Config(ConfigError::OutOfRange(_)))));
    }
}

#[test]
fn a_worker_that_has_ended_drops_what_is_sent_to_it() {
    let runtime = Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).build().expect("a runtime starts");
    let shared = std::sync::Arc::clone(&runtime.shared);
    runtime.shutdown();
    for inbox in &shared.inboxes {
        let held = std::sync::Arc::new(());
        let kept = std::sync::Arc::clone(&held);
        // As by a thread that asked whether the runtime runs just before it ended.
        inbox.send(Box::new(move || drop(kept))).expect("nothing is queued");
        assert_eq!(std::sync::Arc::strong_count(&held), 1, "else who waits for the answer waits for ever");
    }
}

#[test]
fn what_waits_for_a_worker_is_bounded() {
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).build().expect("a runtime starts");
    runtime.block_on(async {
        // The only worker is busy here, and takes none of them meanwhile.
        let mut handles = Vec::new();
        let refused = loop {
            assert!(handles.len() <= INBOX_JOBS_MAX, "there is a limit");
            match spawn_on(0, || async { 1 }) {
                Ok(handle) => handles.push(handle),
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::InboxFull), "{refused}");
        assert!(refused.to_string().contains("4096 closures"), "{refused}");
        assert_eq!(handles.len(), INBOX_JOBS_MAX);
        let mut sum = 0;
        for handle in handles {
            sum += handle.await.expect("it has run");
        }
        assert_eq!(sum, INBOX_JOBS_MAX);
        assert_eq!(spawn_on(0, || async { 2 }).expect("there is room again").await.expect("it runs"), 2);
    });
    assert!(runtime.shutdown().is_clean());
}

#[test]
fn a_listener_bound_with_options_serves_on_every_worker() {
    let world = World::new(SimConfig::new(11));
    let simulation = Runtime::builder().workers(3).simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let any = "127.0.0.1:0";
        let listener = TcpListener::bind_with(any, ListenOptions::default()).expect("a free port");
        let serving = spawn(listener.serve(|_| async { Ok::<(), Error>(()) })).expect("there is room");
        sleep(Duration::from_secs(1)).await;
        Spawner::current().stop();
        serving.await.expect("no panic").expect("every worker has a listener");
    });
    assert!(simulation.shutdown().is_clean());
}

#[test]
fn one_worker_s_failure_is_told_while_the_others_serve() {
    for (asking, failing) in [(0, 2), (1, 0), (1, 1)] {
        let world = World::new(SimConfig::new(11));
        let simulation = Runtime::builder().workers(3).simulate(&world).expect("a simulation starts");
        simulation.block_on(async {
            let serve = async move || {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let serve = move |_| async move {
                    if worker_index() == failing {
                        return Err(Error::TimedOut);
                    }
                    core::future::pending().await
                };
                listener.on_every_worker(serve).await
            };
            let failed = spawn_on(asking, serve).expect("the worker exists").await.and_then(|ended| ended);
            assert!(matches!(failed, Err(Error::TimedOut)), "{failed:?}");
        });
        assert!(simulation.shutdown().is_clean());
    }
}

#[test]
fn a_worker_without_room_for_a_task_says_so() {
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(4)).build().expect("a runtime starts");
    runtime.block_on(async {
        let mut held = Vec::new();
        for class in plimsoll_pool::Class::ALL.into_iter().rev() {
            while let Ok(lease) = crate::pool().try_acquire_class(class, crate::Kind::Buffers) {
                held.push(lease);
            }
        }
        let large = spawn_on(0, || async {
            let large = [7_u8; 60_000];
            crate::yield_now().await;
            large.len()
        });
        let refused = large.expect("the worker exists").await;
        assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
    });
    assert!(runtime.shutdown().is_clean());
}
