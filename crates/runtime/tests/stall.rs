//! A poll that blocks its worker is named in a warning, on real drivers.
#![forbid(unsafe_code)]

use std::fmt::{self, Write as _};
use std::io::{Read, Write};
use std::net::TcpStream as StdStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_runtime::net::{TcpListener, TcpStream};
use plimsoll_runtime::{DriverChoice, Error, MemoryLimit, Runtime, Spawner, spawn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What the clock of the detector is coarse to, and the limit, many times.
const BLOCKED: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_millis(20);

/// Keeps the warnings, as text.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{}={value:?} ", field.name()).expect("text takes text");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        self.0.lock().expect("nobody panics with it").push(text.0);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

async fn handler_that_blocks(mut stream: TcpStream) -> Result<(), Error> {
    while let Some(bytes) = stream.recv().await? {
        std::thread::sleep(BLOCKED);
        stream.send_all(bytes).await?;
    }
    Ok(())
}

async fn handler_that_does_not(mut stream: TcpStream) -> Result<(), Error> {
    while let Some(bytes) = stream.recv().await? {
        stream.send_all(bytes).await?;
    }
    Ok(())
}

/// One request and its answer from each, in order, from a thread of its own; then the stop.
fn ask(listeners: [&TcpListener; 2]) -> std::thread::JoinHandle<()> {
    let (addresses, spawner) = (listeners.map(TcpListener::local_addr), Spawner::current());
    std::thread::spawn(move || {
        for address in addresses {
            let mut client = StdStream::connect(address).expect("it listens");
            client.write_all(b"hello").expect("it is there");
            client.read_exact(&mut [0; 5]).expect("it answers");
        }
        spawner.stop();
    })
}

#[test]
fn a_handler_that_blocks_the_loop_is_named() {
    let warnings = Warnings::default();
    tracing::subscriber::set_global_default(warnings.clone()).expect("nobody else listens");
    for driver in [DriverChoice::Mio, DriverChoice::Auto] {
        warnings.0.lock().expect("nobody panics with it").clear();
        let builder = Runtime::builder().workers(1).memory(MemoryLimit::mib(32)).driver(driver);
        let runtime = builder.stall_limit(Some(LIMIT)).build().expect("a runtime starts");
        runtime.block_on(async {
            let quick = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let slow = TcpListener::bind("127.0.0.1:0").expect("a free port");
            let client = ask([&quick, &slow]);
            let quick = spawn(quick.serve_here(handler_that_does_not)).expect("there is room");
            slow.serve_here(handler_that_blocks).await.expect("it listens");
            quick.await.expect("it does not panic").expect("it listens");
            client.join().expect("it had its answers");
        });
        let seen = warnings.0.lock().expect("nobody panics with it").clone();
        let named = seen.iter().filter(|text| text.contains("blocked its worker's loop"));
        let took = |text: &str| {
            let from = text.split("took_ms=").nth(1)?;
            from.split_whitespace().next()?.parse::<u64>().ok()
        };
        // On a busy machine another of its polls may take long, too.
        let named: Vec<&String> = named.filter(|text| text.contains("handler_that_blocks")).collect();
        assert!(!named.is_empty(), "named, on {driver:?}: {seen:?}");
        let is_long = |text: &&String| took(text).is_some_and(|took_ms| took_ms > LIMIT.as_millis() as u64);
        assert!(named.iter().all(is_long), "{seen:?}");
        assert!(runtime.metrics().stalls_total >= 1, "{:?}", runtime.metrics());
        assert!(runtime.shutdown().is_clean());
    }
}
