//! Tokio's own timers, sockets, files and tasks, called on our workers.

#![forbid(unsafe_code)]

mod support;

use core::time::Duration;

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{ConfigError, Error, Kind, MemoryLimit, Runtime, metrics, spawn_on};
use support::real_runtimes_of;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const NAME: &str = "tokio's context";

#[test]
fn crates_that_need_tokio_run_on_every_worker() {
    let builder = Runtime::builder().memory(MemoryLimit::mib(64)).tokio_context();
    for (_, runtime) in real_runtimes_of(NAME, builder) {
        let charged = runtime.budget().charged_by(Kind::Stacks);
        assert!(charged >= 3 * 1024 * 1024, "the stacks of its threads: {charged}");
        let answer = runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            // A task over there, and a client here.
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await?;
                let mut room = [0; 5];
                stream.read_exact(&mut room).await?;
                stream.write_all(&room).await
            });
            assert!(metrics().tokio_tasks >= 1);
            let mut client = tokio::net::TcpStream::connect(address).await?;
            client.write_all(b"hello").await?;
            let mut answer = [0; 5];
            tokio::time::timeout(Duration::from_secs(20), client.read_exact(&mut answer)).await??;
            server.await.expect("no panic")?;
            let text = tokio::fs::read_to_string("Cargo.toml").await?;
            assert!(text.contains("plimsoll-runtime"));
            Ok::<_, std::io::Error>(answer)
        });
        assert_eq!(&answer.expect("it talks"), b"hello");
        let report = runtime.shutdown();
        assert_eq!((report.leaked_bytes, report.is_clean()), (0, true));
    }
}

#[test]
fn workers_with_threads_of_their_own_have_it_too() {
    let runtime =
        Runtime::builder().workers(2).memory(MemoryLimit::mib(64)).tokio_context().build().expect("it starts");
    let slept = runtime.block_on(async {
        let there = spawn_on(1, || async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            plimsoll_runtime::worker_index()
        })?;
        there.await
    });
    assert_eq!(slept.expect("it ran"), 1);
}

/// What is left over there is dropped at the end, and does not hold it up.
#[test]
fn it_ends_with_its_runtime() {
    struct Told(std::sync::mpsc::Sender<()>);
    impl Drop for Told {
        fn drop(&mut self) {
            let _nobody_waits = self.0.send(());
        }
    }

    let runtime =
        Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).tokio_context().build().expect("it starts");
    let (sender, dropped) = std::sync::mpsc::channel();
    runtime.block_on(async {
        let told = Told(sender);
        drop(tokio::spawn(async move {
            core::future::pending::<()>().await;
            drop(told);
        }));
    });
    assert!(runtime.shutdown().is_clean());
    dropped.try_recv().expect("the task over there was dropped");
}

/// A program of tokio may have one of our runtimes in a task, and end it there.
#[test]
fn it_may_end_within_a_task_of_another_runtime() {
    let outer = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("it starts");
    let run = || {
        let runtime =
            Runtime::builder().workers(1).memory(MemoryLimit::mib(64)).tokio_context().build().expect("it starts");
        let seven = runtime.block_on(async { tokio::spawn(async { 7 }).await.expect("no panic") });
        let report = runtime.shutdown();
        assert_eq!((seven, report.leaked_bytes, report.is_clean()), (7, 0, true));
    };
    outer.block_on(async { run() });
    outer.block_on(async { tokio::spawn(async move { run() }).await.expect("no panic") });
}

#[test]
fn a_simulation_and_a_low_line_say_no() {
    let world = World::new(SimConfig::new(1));
    match Runtime::builder().tokio_context().simulate(&world) {
        Err(Error::Config(ConfigError::TokioInSimulation)) => {}
        other => panic!("{other:?}"),
    }
    match Runtime::builder().workers(1).memory(MemoryLimit::mib(3)).tokio_context().build() {
        Err(Error::LineTooLow { needed_bytes, .. }) => assert!(needed_bytes > 3 << 20),
        other => panic!("{other:?}"),
    }
}
