//! What the attributes expand to. Not part of the public interface.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use std::process::{ExitCode, Termination};

use plimsoll_reactor::sim::{Faults, SimConfig, World};
use plimsoll_runtime::{Builder, DriverChoice, Error, MemoryLimit, OnWorker, Report, Runtime};

/// Exit code for a start that failed.
const EXIT_USAGE: i32 = 2;

/// The arguments of `#[plimsoll::main]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct MainOptions {
    /// `memory = "64MiB"`.
    pub memory: Option<&'static str>,
    /// `workers = 2`.
    pub workers: Option<usize>,
    /// `driver = "uring"`.
    pub driver: Option<&'static str>,
}

/// The arguments of `#[plimsoll::test]`.
#[derive(Clone, Copy, Debug)]
pub struct TestOptions {
    /// The test's name.
    pub name: &'static str,
    /// `memory = "64MiB"`.
    pub memory: Option<&'static str>,
    /// `workers = 2`.
    pub workers: Option<usize>,
    /// `drivers = "uring,mio,sim"`.
    pub drivers: Option<&'static str>,
    /// `seed = 7`.
    pub seed: Option<u64>,
    /// `faults = "wild"`.
    pub faults: Option<&'static str>,
    /// `worlds = 20`.
    pub worlds: Option<u64>,
}

fn builder(memory: Option<&str>, workers: Option<usize>) -> Builder {
    let mut builder = Runtime::builder();
    if let Some(text) = memory {
        builder = builder.memory(text.parse::<MemoryLimit>().expect("checked when it was compiled"));
    }
    match workers {
        Some(workers) => builder.workers(workers),
        None => builder,
    }
}

/// Runs an async main.
pub fn run_main<T, F: Future<Output = T>>(options: MainOptions, body: impl FnOnce() -> F) -> T {
    let mut builder = builder(options.memory, options.workers).signals(true);
    if let Some(driver) = options.driver {
        builder = builder.driver(driver.parse::<DriverChoice>().expect("checked when it was compiled"));
    }
    match builder.build() {
        Ok(runtime) => runtime.block_on(async { body().await }),
        Err(error) => {
            complain(&error);
            std::process::exit(EXIT_USAGE);
        }
    }
}

#[allow(clippy::print_stderr, reason = "a program that cannot start says why")]
fn complain(error: &Error) {
    eprintln!("error: {error}");
}

/// Runs an async test on each driver and on the simulator.
///
/// # Panics
///
/// When the body does, and when the runtime leaks anything.
pub fn run_test<T: Termination, F: Future<Output = T>>(options: TestOptions, body: impl Fn() -> F) {
    let wants = |driver: &str| options.drivers.is_none_or(|list| list.split(',').any(|name| name.trim() == driver));
    if wants("uring") {
        on_threads(&options, DriverChoice::Uring, &body);
    }
    if wants("mio") {
        on_threads(&options, DriverChoice::Mio, &body);
    }
    if wants("sim") {
        let first = options.seed.unwrap_or(1);
        (0..options.worlds.unwrap_or(1)).for_each(|world| in_simulation(&options, first.wrapping_add(world), &body));
    }
}

fn on_threads<T: Termination, F: Future<Output = T>>(
    options: &TestOptions,
    choice: DriverChoice,
    body: &impl Fn() -> F,
) {
    let runtime = match builder(options.memory, options.workers.or(Some(1))).driver(choice).build() {
        Ok(runtime) => runtime,
        Err(error @ Error::Driver(_)) if choice == DriverChoice::Uring => return skipped(options.name, &error),
        Err(error) => panic!("{}: {error}", options.name),
    };
    let driver = runtime.driver().kind;
    let output = runtime.block_on(async { body().await });
    succeeded(options.name, &driver, output);
    clean(options.name, &driver, &runtime.shutdown());
}

fn in_simulation<T: Termination, F: Future<Output = T>>(options: &TestOptions, seed: u64, body: &impl Fn() -> F) {
    let faults = match options.faults {
        Some("wild") => Faults::wild(),
        Some("mild") => Faults::mild(),
        _ => Faults::clean(),
    };
    let world = World::new(SimConfig::new(seed).with_faults(faults));
    let simulation = match builder(options.memory, options.workers.or(Some(1))).simulate(&world) {
        Ok(simulation) => simulation,
        Err(error) => panic!("{}: {error}", options.name),
    };
    let output = simulation.block_on(async { body().await });
    succeeded(options.name, &"sim", output);
    clean(options.name, &"sim", &simulation.shutdown());
}

#[allow(clippy::print_stderr, reason = "a test that did not run says so")]
fn skipped(name: &str, error: &Error) {
    eprintln!("skipped: {name} on uring: {error}");
}

fn succeeded(name: &str, driver: &dyn core::fmt::Display, output: impl Termination) {
    let code = format!("{:?}", output.report());
    assert_eq!(code, format!("{:?}", ExitCode::SUCCESS), "{name} failed on {driver}");
}

fn clean(name: &str, driver: &dyn core::fmt::Display, report: &Report) {
    assert!(report.is_clean(), "{name} left something behind on {driver}: {report}");
}

/// Runs a future on the worker that polls this one first. What makes it waits for a place.
pub async fn on_worker<M, F>(make: M) -> F::Output
where
    M: FnOnce() -> F + Send,
    F: Future + 'static,
{
    let place = poll_fn(|cx| match OnWorker::<Option<Pin<Box<F>>>>::new(None) {
        Ok(place) => Poll::Ready(place),
        Err(_) => {
            // At the line it asks again in the next turn, as timers do.
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    });
    let mut place = place.await;
    place.with(|future| *future = Some(Box::pin(make())));
    let polled =
        poll_fn(|cx| place.with(|future| future.as_mut().map_or(Poll::Pending, |future| future.as_mut().poll(cx))));
    polled.await
}
