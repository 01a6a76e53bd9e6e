//! A signal stops every runtime of the process that has the signals. In a process of its own, which the signal is sent to.
#![forbid(unsafe_code)]

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_runtime::{DriverChoice, MemoryLimit, Runtime, signal};

/// Two runtimes sleep, each on a thread of its own, with nothing else that could wake them.
#[test]
fn one_signal_stops_two_runtimes() {
    let (sleeps, slept) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let run = |driver| {
        let (sleeps, ends) = (sleeps.clone(), ends.clone());
        std::thread::spawn(move || {
            let builder = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).signals(true).driver(driver);
            let runtime = builder.build().expect("a runtime starts");
            runtime.block_on(async {
                sleeps.send(()).expect("the test waits");
                signal::stopped().await;
            });
            ends.send(runtime.shutdown().is_clean()).expect("the test waits");
        })
    };
    let threads = [run(DriverChoice::Mio), run(DriverChoice::Auto)];
    for _ in &threads {
        slept.recv().expect("both come up");
    }
    let sent = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().expect("there is kill");
    assert!(sent.success());
    for _ in &threads {
        let is_clean = ended.recv_timeout(Duration::from_secs(20)).expect("the signal reaches both");
        assert!(is_clean);
    }
    for thread in threads {
        thread.join().expect("it did not panic");
    }
}
