//! A signal stops every runtime of the process that has the signals, and concerns none that comes later. Each test is a
//! process of its own, which the signals are sent to.
#![forbid(unsafe_code)]

use std::process::{Command, ExitStatus};
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_runtime::{DriverChoice, MemoryLimit, Report, Runtime, signal};

/// Which test a child process is to run.
const CHILD: &str = "PLIMSOLL_TEST_SIGNALS";

/// Runs a test of this file in a process of its own; `None` in that process, which is to do it.
fn in_a_child(test: &str) -> Option<ExitStatus> {
    if std::env::var(CHILD).is_ok_and(|named| named == test) {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().expect("tests are programs"));
    // One of them forgets a runtime, which is what it is about.
    child.args(["--exact", test, "--nocapture"]).env(CHILD, test).env("ASAN_OPTIONS", "detect_leaks=0");
    let output = child.output().expect("a child starts");
    if !output.status.success() {
        let text = [output.stdout, output.stderr].concat();
        std::io::Write::write_all(&mut std::io::stderr(), &text).expect("stderr is open");
    }
    Some(output.status)
}

fn send(signal: &str) {
    let sent = Command::new("kill").args([signal, &std::process::id().to_string()]).status().expect("there is kill");
    assert!(sent.success());
}

fn runtime(driver: DriverChoice) -> Runtime {
    let builder = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).container(None);
    builder.signals(true).driver(driver).build().expect("a runtime starts")
}

/// Is stopped by one signal.
fn run(runtime: Runtime, signal: &str) -> Report {
    runtime.block_on(async {
        send(signal);
        signal::stopped().await;
    });
    runtime.shutdown()
}

/// How long a child waits for its end before it fails.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The signal that was sent ends the process.
fn never() {
    std::thread::sleep(TIMEOUT);
    panic!("the signal has not ended the process");
}

/// Whether SIGINT and SIGTERM have handlers, as the kernel tells.
fn are_caught() -> [bool; 2] {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux tells");
    let caught = u64::from_str_radix(caught.trim(), 16).expect("a mask");
    [2, 15].map(|signal| caught >> (signal - 1) & 1 == 1)
}

/// Two runtimes sleep, each on a thread of its own, with nothing else that could wake them.
#[test]
fn one_signal_stops_two_runtimes() {
    if let Some(ended) = in_a_child("one_signal_stops_two_runtimes") {
        return assert!(ended.success(), "{ended}");
    }
    let (sleeps, slept) = mpsc::channel();
    let (ends, ended) = mpsc::channel();
    let run = |driver| {
        let (sleeps, ends) = (sleeps.clone(), ends.clone());
        std::thread::spawn(move || {
            let runtime = runtime(driver);
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
    send("-TERM");
    for _ in &threads {
        let is_clean = ended.recv_timeout(TIMEOUT).expect("the signal reaches both");
        assert!(is_clean);
    }
    for thread in threads {
        thread.join().expect("it did not panic");
    }
    assert_eq!(are_caught(), [false; 2]);
}

#[test]
fn each_runtime_is_stopped_by_its_own_first_signal() {
    if let Some(ended) = in_a_child("each_runtime_is_stopped_by_its_own_first_signal") {
        return assert!(ended.success(), "{ended}");
    }
    for signal in ["-TERM", "-INT", "-TERM"] {
        assert_eq!(are_caught(), [false; 2], "what was there before is back");
        let runtime = runtime(DriverChoice::Auto);
        assert_eq!(are_caught(), [true; 2]);
        assert!(run(runtime, signal).is_clean());
    }
    assert_eq!(are_caught(), [false; 2]);
}

#[test]
fn one_that_was_leaked_takes_nothing_from_the_next() {
    if let Some(ended) = in_a_child("one_that_was_leaked_takes_nothing_from_the_next") {
        return assert!(ended.success(), "{ended}");
    }
    core::mem::forget(runtime(DriverChoice::Mio));
    assert!(run(runtime(DriverChoice::Auto), "-TERM").is_clean());
    assert!(run(runtime(DriverChoice::Auto), "-INT").is_clean());
    assert_eq!(are_caught(), [true; 2], "the leaked one has not ended");
}

#[test]
fn the_second_signal_ends_the_process() {
    if let Some(ended) = in_a_child("the_second_signal_ends_the_process") {
        return assert_eq!(ended.code(), Some(130), "{ended}");
    }
    let runtime = runtime(DriverChoice::Auto);
    runtime.block_on(async {
        send("-INT");
        signal::stopped().await;
        send("-TERM");
        plimsoll_runtime::sleep(TIMEOUT).await;
    });
    never();
}

/// What runs when the stop takes long may be ended at once, too.
#[test]
fn the_second_signal_ends_the_process_while_it_shuts_down() {
    struct SendsAnother;
    impl Drop for SendsAnother {
        fn drop(&mut self) {
            send("-TERM");
            never();
        }
    }
    if let Some(ended) = in_a_child("the_second_signal_ends_the_process_while_it_shuts_down") {
        return assert_eq!(ended.code(), Some(130), "{ended}");
    }
    let runtime = runtime(DriverChoice::Auto);
    runtime.block_on(async {
        let sends = SendsAnother;
        drop(plimsoll_runtime::spawn(async move {
            core::future::pending::<()>().await;
            drop(sends);
        }));
        send("-TERM");
        signal::stopped().await;
    });
    runtime.shutdown();
}

#[test]
fn without_a_runtime_a_signal_does_what_it_did_before() {
    if let Some(ended) = in_a_child("without_a_runtime_a_signal_does_what_it_did_before") {
        let by = std::os::unix::process::ExitStatusExt::signal(&ended);
        return assert_eq!(by, Some(15), "{ended}");
    }
    drop(runtime(DriverChoice::Auto));
    send("-TERM");
    never();
}
