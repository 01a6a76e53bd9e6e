//! Runs a test on io_uring (where it works), on mio and in the simulation, and counts what is left at its end. The
//! suites of the HTTP crate include this file, too.
#![allow(dead_code, clippy::print_stdout, reason = "no suite uses all of it; a test that could not run says so")]

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::net::{Listener, UnixAddress};
use plimsoll_runtime::{Builder, DriverChoice, MemoryLimit, Report, Result, Runtime, now, sleep};

/// Runtimes of one worker on io_uring (where it works) and on mio, one after the other. Nothing is kept for newcomers:
/// what a test takes is all there is.
pub(crate) fn real_runtimes(name: &str, line: MemoryLimit) -> impl Iterator<Item = (DriverChoice, Runtime)> {
    real_runtimes_of(name, Runtime::builder().memory(line).newcomer_reserve_bytes(0))
}

/// The same with settings.
pub(crate) fn real_runtimes_of(name: &str, builder: Builder) -> impl Iterator<Item = (DriverChoice, Runtime)> {
    raise_descriptors_max();
    [DriverChoice::Uring, DriverChoice::Mio].into_iter().filter_map(move |choice| {
        let built = builder.clone().workers(1).driver(choice).build();
        if let Err(error) = &built {
            assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}");
            println!("skipped: {name} on io_uring: {error}");
        }
        Some((choice, built.ok()?))
    })
}

/// Lets this process have as many descriptors as it may: crowds need some thousand, and what a process has from the
/// start is 1,024 on most machines. Without the program for that, they fail where there are too few.
fn raise_descriptors_max() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let limits = std::fs::read_to_string("/proc/self/limits").expect("proc is mounted");
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("Linux tells");
        let [soft, hard, ..] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("two limits: {line}") };
        if soft != hard {
            let process = std::process::id().to_string();
            let raise = ["--pid", &process, &format!("--nofile={hard}:{hard}")];
            let _where_it_is_there = Command::new("prlimit").args(raise).status();
        }
    });
}

/// Runs a test on each driver. It may ask for no file: nothing else is done on worker threads of the kernel.
pub(crate) fn on_each(name: &str, body: impl AsyncFn() -> Result<()>) {
    on_each_with_threads(name, 0, body);
}

thread_local! {
    static FAMILY: Cell<Family> = const { Cell::new(Family::Tcp) };
}

/// The sockets of a test.
#[derive(Clone, Copy, Debug)]
enum Family {
    Tcp,
    Unix,
}

/// Runs a test on each driver, with TCP and with Unix sockets, for those that it makes by [`listen`].
pub(crate) fn on_each_family(name: &str, body: impl AsyncFn() -> Result<()>) {
    for family in [Family::Tcp, Family::Unix] {
        FAMILY.set(family);
        on_each(&format!("{name}, {family:?}"), &body);
    }
    FAMILY.set(Family::Tcp);
}

/// A listener of the family that is under test.
pub(crate) fn listen() -> Result<Listener> {
    match FAMILY.get() {
        Family::Tcp => Listener::bind("127.0.0.1:0"),
        Family::Unix => Listener::bind(fresh_unix_address()),
    }
}

/// A name that nobody has.
pub(crate) fn fresh_unix_address() -> UnixAddress {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("plimsoll-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    UnixAddress::from_abstract_name(name).expect("short")
}

/// Runs a test that asks for files on each driver.
pub(crate) fn on_each_with_files(name: &str, body: impl AsyncFn() -> Result<()>) {
    on_each_with_threads(name, FILE_THREADS_MAX, body);
}

/// Runs a test on each driver, under another line than the usual one.
pub(crate) fn on_each_under(name: &str, line: MemoryLimit, body: impl AsyncFn() -> Result<()>) {
    on_each_of(name, line, 0, body);
}

fn on_each_with_threads(name: &str, kernel_threads_max: usize, body: impl AsyncFn() -> Result<()>) {
    on_each_of(name, USUAL_LINE, kernel_threads_max, body);
}

fn on_each_of(name: &str, line: MemoryLimit, kernel_threads_max: usize, body: impl AsyncFn() -> Result<()>) {
    for (choice, runtime) in real_runtimes(name, line) {
        runtime.block_on(body()).unwrap_or_else(|error| panic!("{name} on {choice:?}: {error}"));
        census(name, &format!("{choice:?}"), &runtime.shutdown());
        let threads = kernel_threads();
        assert!(threads <= kernel_threads_max, "{name} on {choice:?}: {threads} worker threads of the kernel");
    }
    in_simulation_under(name, line, body);
}

/// Worker threads that the kernel has made for the rings of this thread: it names them after the thread.
pub(crate) fn kernel_threads() -> usize {
    let this = std::fs::read_link("/proc/thread-self").expect("proc is mounted");
    let name = format!("iou-wrk-{}", this.file_name().expect("the thread's number").display());
    let threads = std::fs::read_dir("/proc/self/task").expect("proc is mounted").flatten();
    let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|other| other.trim_end() == name).count()
}

const USUAL_LINE: MemoryLimit = MemoryLimit::mib(32);
/// Worker threads of the kernel at most for the files of one worker, and for pipes and terminals that are used as such.
const FILE_THREADS_MAX: usize = 5;

/// Runs a test in the simulation alone: for those that wait for long.
pub(crate) fn in_simulation(name: &str, body: impl AsyncFn() -> Result<()>) {
    in_simulation_under(name, USUAL_LINE, body);
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// While it lives, the test of this thread is in the simulation.
struct Simulated;

impl Simulated {
    fn begin(world: &World) -> Self {
        WORLD.replace(Some(world.clone()));
        Self
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        WORLD.take();
    }
}

/// A directory of a test, which is gone with this.
pub(crate) struct Directory(PathBuf);

impl core::ops::Deref for Directory {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _is_simulated = std::fs::remove_dir_all(&self.0);
    }
}

/// A directory for files that are [placed](place_file). On real drivers it is there, and empty.
pub(crate) fn fresh_directory(name: &str) -> Directory {
    let directory = Directory(std::env::temp_dir().join(format!("plimsoll-test-{}-{name}", std::process::id())));
    if !is_simulated() {
        std::fs::create_dir_all(&*directory).expect("files can be made there");
    }
    directory
}

/// Puts a file where the runtime of this test finds it, with the directories above it, changed long ago.
pub(crate) fn place_file(path: &Path, bytes: &[u8]) {
    WORLD.with_borrow(|world| match world {
        Some(world) => {
            world.place_file(path.to_str().expect("a plain path"), bytes.to_vec()).expect("no such directory")
        }
        None => {
            std::fs::create_dir_all(path.parent().expect("an absolute path")).expect("directories can be made there");
            std::fs::write(path, bytes).expect("files can be made there");
            let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            let file = std::fs::File::options().write(true).open(path).expect("it was made");
            file.set_modified(long_ago).expect("it is ours");
        }
    });
}

/// Whether the test of this thread is in the simulation.
pub(crate) fn is_simulated() -> bool {
    WORLD.with_borrow(Option::is_some)
}

/// How long a test waits for what must come soon: on real drivers as long as the slowest machine may take; in the
/// simulation, whose time is no machine's, not so long that a deadline would bring what should come by itself.
pub(crate) fn wait_max() -> Duration {
    Duration::from_secs(if is_simulated() { 5 } else { 120 })
}

/// Waits until it is so, no longer than [`wait_max`].
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = now();
    while !holds() {
        assert!(now().since(start) < wait_max(), "never: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

/// The same under another line than the usual one.
pub(crate) fn in_simulation_under(name: &str, line: MemoryLimit, body: impl AsyncFn() -> Result<()>) {
    let world = World::new(SimConfig::new(11));
    let directory = std::env::temp_dir().join("there");
    world.place_file(directory.to_str().expect("a plain path"), Vec::new()).expect("the world is empty");
    let builder = Runtime::builder().memory(line).newcomer_reserve_bytes(0);
    let simulation = builder.simulate(&world).expect("a simulation starts");
    let _simulated = Simulated::begin(&world);
    simulation.block_on(body()).unwrap_or_else(|error| panic!("{name} in the simulation: {error}"));
    census(name, "sim", &simulation.shutdown());
    assert!(world.descriptors().is_empty(), "{name}: descriptors of the simulated kernel: {:?}", world.descriptors());
}

fn census(name: &str, driver: &str, report: &Report) {
    assert!(report.is_clean(), "{name} on {driver}: {report}");
    assert_eq!(report.in_flight, 0, "{name} on {driver}");
}
