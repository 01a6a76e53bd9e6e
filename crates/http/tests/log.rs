//! What the server says in the log, and how often.

#![forbid(unsafe_code)]

mod rig;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use plimsoll_http::{Config, Error, Request, Response, StatusCode};
use plimsoll_runtime::net::TcpStream;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use rig::{on_each, read, serve};

static LINES: AtomicU64 = AtomicU64::new(0);
static ANSWERS: AtomicU64 = AtomicU64::new(0);

/// Counts events about answers that cannot be sent.
struct Log;

struct Answers;

impl Visit for Answers {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "answers" {
            LINES.fetch_add(1, Ordering::Relaxed);
            ANSWERS.fetch_add(value, Ordering::Relaxed);
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
        event.record(&mut Answers);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A handler with a mistake is no reason for a line with each request: the first is told of at once, the others at a rate, and at the end.
#[test]
fn answers_that_cannot_be_sent_are_told_of_seldom() {
    tracing::subscriber::set_global_default(Log).expect("the only one");
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
