//! What outlives its runtime.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;
use std::io::Read;

use plimsoll_runtime::net::{Table, TableConfig, TcpListener};
use plimsoll_runtime::{DriverChoice, Kind, MemoryLimit, Runtime, fs, sleep, spawn};

/// Runs a test on each driver that works here.
fn on_each(name: &str, workers: usize, test: impl Fn(Runtime)) {
    for choice in [DriverChoice::Uring, DriverChoice::Mio] {
        match Runtime::builder().workers(workers).memory(MemoryLimit::mib(32)).driver(choice).build() {
            Ok(runtime) => test(runtime),
            Err(error) => {
                assert_eq!(choice, DriverChoice::Uring, "mio is always there: {error}");
                println!("skipped: {name} on io_uring: {error}");
            }
        }
    }
}

#[test]
fn what_outlives_its_runtime_is_closed_when_it_is_dropped() {
    on_each("what outlives its runtime", 1, |runtime| {
        let (listener, stream, mut peer, rest) = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let peer = std::net::TcpStream::connect(listener.local_addr()).expect("it listens");
            let (mut stream, _) = listener.accept().await.expect("a connection waits");
            let table = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let table = Table::<u64>::new(table, TableConfig::default()).expect("there is room");
            let file = fs::File::open("/proc/self/stat").await.expect("it is there");
            let task = spawn(sleep(Duration::from_secs(3_600))).expect("there is room");
            let mut late = sleep(Duration::from_secs(3_600));
            let lease = plimsoll_runtime::pool().try_copy(b"bytes", Kind::Buffers).expect("there is room");
            {
                // The receive and the timer are armed when the runtime ends.
                let mut receive = pin!(stream.recv());
                poll_fn(|cx| {
                    assert!(receive.as_mut().poll(cx).is_pending() && Pin::new(&mut late).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
            }
            (listener, stream, peer, (table, file, task, late, lease))
        });
        let address = listener.local_addr();
        runtime.shutdown();
        assert_eq!(&rest.4[..], b"bytes");
        drop((listener, stream, rest));
        assert_eq!(peer.read(&mut [0; 8]).expect("no reset: nothing was left unread"), 0, "the stream was closed");
        assert!(std::net::TcpStream::connect(address).is_err(), "the listener was closed");
    });
}
