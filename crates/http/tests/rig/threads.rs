//! Clients that are threads with sockets of the operating system, so that the whole line is the server's: on io_uring
//! (where it works) and on mio.

use core::net::SocketAddr;
use core::time::Duration;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use plimsoll_runtime::{DriverChoice, MemoryLimit, Result, Runtime, Spawner};

use super::support::{real_runtimes, real_runtimes_of};

/// So long a client waits for what must come, and no longer.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs a scenario under a line. At its end the line was kept, nobody waits for memory, and nothing is left.
pub(crate) fn under_line(name: &str, line: MemoryLimit, scenario: impl AsyncFn(&Runtime) -> Result<()>) {
    in_line(name, line, real_runtimes_of(name, Runtime::builder().memory(line)), scenario);
}

/// The same, with nothing that is kept for newcomers: what a test takes is all there is.
pub(crate) fn under_line_for_all(name: &str, line: MemoryLimit, scenario: impl AsyncFn(&Runtime) -> Result<()>) {
    in_line(name, line, real_runtimes(name, line), scenario);
}

fn in_line(
    name: &str,
    line: MemoryLimit,
    runtimes: impl Iterator<Item = (DriverChoice, Runtime)>,
    scenario: impl AsyncFn(&Runtime) -> Result<()>,
) {
    for (choice, runtime) in runtimes {
        runtime.block_on(scenario(&runtime)).unwrap_or_else(|error| panic!("{name} on {choice:?}: {error}"));
        let budget = Arc::clone(runtime.budget());
        assert!(budget.peak() <= line.as_bytes(), "{name} on {choice:?}: {} bytes at the peak", budget.peak());
        assert_eq!(budget.waiting(), 0, "{name} on {choice:?}: a waiter was left behind");
        let report = runtime.shutdown();
        assert!(report.is_clean(), "{name} on {choice:?}: {report}");
        assert_eq!(budget.kernel_bytes_estimate(), 0, "{name} on {choice:?}: all connections were closed");
    }
}

/// Serves until `clients` are done, who are in a thread of their own; what they return. When they panic, so does this.
pub(crate) async fn serve_until<T: Send + 'static>(
    serving: impl Future<Output = Result<()>>,
    clients: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let stop = Spawner::current();
    let clients = thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(clients));
        stop.stop();
        result
    });
    serving.await?;
    let result = clients.join().expect("its panics are caught");
    Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
}

/// For clients: waits until it is so, as long as a slow machine may take.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A client's end, which waits for nothing longer than [`TEST_TIMEOUT`].
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the listener's queue has room");
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream
}
