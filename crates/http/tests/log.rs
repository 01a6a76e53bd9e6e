//! What the server says in the log, and how often.

#![forbid(unsafe_code)]

mod rig;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Once;

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use rig::{in_simulation, on_each, read, serve};

static LINES: AtomicU64 = AtomicU64::new(0);
static ANSWERS: AtomicU64 = AtomicU64::new(0);
/// The most that a handler was warned to hold.
static HANDLER_BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts events about answers that cannot be sent.
struct Log;

struct Answers;

impl Visit for Answers {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "answers" {
            LINES.fetch_add(1, Ordering::Relaxed);
            ANSWERS.fetch_add(value, Ordering::Relaxed);
        }
        if field.name() == "handler_bytes" {
            HANDLER_BYTES.fetch_max(value, Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if *event.metadata().level() > Level::WARN {
            return;
        }
        event.record(&mut Answers);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Whatever is logged from now on is looked at.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Log).expect("the only one"));
}

/// A handler with a mistake is no reason for a line with each request: the first is told of at once, the others at a
/// rate, and at the end.
#[test]
fn answers_that_cannot_be_sent_are_told_of_seldom() {
    listen();
    on_each("second answers", async || {
        LINES.store(0, Ordering::Relaxed);
        ANSWERS.store(0, Ordering::Relaxed);
        let server = serve(Config::default(), |mut req: Request| async move {
            let _begun = req.respond(Response::new(StatusCode::OK), None)?;
            Ok::<_, Error>(Response::text("another"))
        })?;
        for _ in 0..100 {
            let mut client = TcpStream::connect(server.address).await?;
            client.send_bytes(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").await?;
            read(&mut client, None).await?;
            assert!(LINES.load(Ordering::Relaxed) > 0, "the first is told of at once");
        }
        let lines = LINES.load(Ordering::Relaxed);
        server.stop().await?;
        assert_eq!(ANSWERS.load(Ordering::Relaxed), 100, "all of them are told of in the end");
        // The time between two lines is ten seconds.
        assert!(lines < 10, "{lines} lines");
        Ok(())
    });
}

/// What each handler that waits holds is the largest part of a request, and nobody sees it: the start tells of it.
#[test]
fn a_large_handler_is_warned_of() {
    listen();
    in_simulation("large handlers", async || {
        let small = serve(Config::default(), |_req: Request| async {
            sleep(Duration::from_millis(1)).await;
            Response::text("small")
        })?;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(HANDLER_BYTES.load(Ordering::Relaxed), 0, "nothing to warn of");
        let large = serve(Config::default(), |_req: Request| async {
            let table = [7_u8; 20_000];
            sleep(Duration::from_millis(1)).await;
            Response::text(table.len().to_string())
        })?;
        sleep(Duration::from_millis(1)).await;
        let bytes = HANDLER_BYTES.load(Ordering::Relaxed);
        assert!((20_000..100_000).contains(&bytes), "{bytes}");
        small.stop().await?;
        large.stop().await
    });
}
