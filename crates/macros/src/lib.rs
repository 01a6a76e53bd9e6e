//! The attributes of the `plimsoll` crate: [`main`] starts a runtime and runs an `async fn` on it, [`test`] does so
//! once for every driver, [`macro@send`] makes a future one that can be sent.
//!
//! The attributes check their arguments when the program is compiled: a key that does not exist, a driver that does not
//! exist or a memory line that is no size is an error at that argument.
//!
//! | file | what it does |
//! |---|---|
//! | `arguments.rs` | `key = value` pairs to validated types |
//! | `size.rs` | memory sizes as `plimsoll::MemoryLimit` reads them |
//! | `expand.rs` | the function that takes the place of the `async fn` |
//! | `send.rs` | the one whose future can be sent |

#![forbid(unsafe_code)]

mod arguments;
mod expand;
mod send;
mod size;

use proc_macro::TokenStream;

/// Runs an `async fn main` on a runtime of its own.
///
/// ```text
/// #[plimsoll::main(memory = "64MiB", workers = 2, driver = "auto")]
/// async fn main() -> plimsoll::Result<()> {
///     plimsoll::sleep(Duration::from_millis(10)).await;
///     Ok(())
/// }
/// ```
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `memory` | the load line: a number with `B`, `KiB`, `MiB` or `GiB`, or without a unit for bytes | that of `plimsoll::Runtime::builder` |
/// | `workers` | worker threads, 1 to 1,024 | one for each available core |
/// | `driver` | `"auto"`, `"uring"` or `"mio"`; a driver that is asked for and missing is an error | `"auto"` |
///
/// SIGINT and SIGTERM ask the runtime to stop while it runs: servers accept no more and finish what was begun,
/// `plimsoll::signal::stopped` is ready, and `main` goes on behind `serve`. A second one ends the process at once, with
/// exit code 130. For signals of your own, take `plimsoll::Runtime::builder`, which leaves them alone.
///
/// The function becomes a synchronous one that returns what the body returns, which must be a
/// `std::process::Termination`. When the runtime cannot start, it prints one line, `error: ...`, on stderr and exits
/// with code 2.
///
/// # Errors
///
/// It does not compile when the function is not `async`, has parameters or is generic, and when an argument is unknown,
/// given twice or out of range.
#[proc_macro_attribute]
pub fn main(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::main(arguments.into(), item.into()).into()
}

/// Makes the future of an `async fn` one that can be sent, whatever it awaits: for axum, tonic and others that ask
/// their handlers for it.
///
/// ```text
/// #[plimsoll::send]
/// async fn slow(Path(name): Path<String>) -> String {
///     plimsoll::sleep(Duration::from_millis(10)).await;
///     format!("hello {name}")
/// }
///
/// let router = Router::new().route("/slow/{name}", get(slow));
/// ```
///
/// The future is a [value of its worker](../plimsoll/struct.OnWorker.html): that on which it is polled first, as
/// `plimsoll_tower::serve` does with handlers. Polled on another thread it panics, with a text that says so; it is
/// dropped on its worker wherever it is dropped. It costs a box on the heap, and an entry under the memory line: where
/// that has no room, it is asked for again in each turn, and the body does not begin before.
///
/// What the function takes must be [`Send`], as axum asks, too; what it has inside of it need not be.
///
/// # Errors
///
/// It does not compile when the function is not `async`, takes `self` or references, or is generic, and with arguments
/// for the attribute.
#[proc_macro_attribute]
pub fn send(arguments: TokenStream, item: TokenStream) -> TokenStream {
    send::expand(arguments.into(), item.into()).into()
}

/// Runs an `async fn` as a test, once for each driver and once in the simulation.
///
/// ```text
/// #[plimsoll::test(memory = "8MiB", drivers = "mio,sim", seed = 7)]
/// async fn an_echo_comes_back() {
///     let listener = TcpListener::bind("127.0.0.1:0").unwrap();
///     // ...
/// }
/// ```
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `memory` | the load line of each run | that of `plimsoll::Runtime::builder` |
/// | `workers` | worker threads, 1 to 1,024 | 1 |
/// | `drivers` | some of `uring`, `mio` and `sim`, with commas between them | all three |
/// | `seed` | where the simulation begins, a `u64` | the same one each time |
/// | `faults` | what goes wrong there: `"clean"`, `"mild"` or `"wild"`, as `plimsoll::sim::Faults` has them; then the test runs in the simulation alone | `"clean"` |
/// | `worlds` | so many simulated worlds, with the seeds from `seed` on | 1 |
///
/// The body runs on fresh runtimes one after the other, so it must be able to run more than once. It may return what a
/// test may return; each run must succeed and leave nothing behind. Where the kernel or the container forbids io_uring,
/// that run is skipped and says so. Other attributes, such as `#[should_panic]` and `#[ignore]`, stay on the test.
///
/// # Errors
///
/// As for [`main`].
#[proc_macro_attribute]
pub fn test(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand::test(arguments.into(), item.into()).into()
}
