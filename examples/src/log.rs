//! Errors, and what the HTTP server warns of, as lines on stderr, so many a second at most: what a peer can bring about
//! must not fill a disk.

use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines in a second at most.
const LINES_MAX: u32 = 10;

/// Writes what goes wrong to stderr, from now on. For programs whose start has succeeded: what it fails with is one
/// line.
pub fn log_to_stderr() {
    let _another_is_set = tracing::subscriber::set_global_default(Stderr::default());
}

/// Takes events as they come; spans mean nothing to it.
#[derive(Default)]
struct Stderr(Mutex<Second>);

/// The lines of the second that runs.
#[derive(Default)]
struct Second {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Second {
    /// Whether there may be another line at this time; how many were left out since the last second began, if it begins
    /// one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            let left_out = self.left_out;
            *self = Self { began: Some(now), lines: 1, left_out: 0 };
            return Some(left_out);
        }
        if self.lines == LINES_MAX {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(0)
    }
}

impl Subscriber for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What the server warns of is about its peers, and programs say what they decide; other warnings are for who
        // looks into the runtime.
        let is_told = ["plimsoll_http", "arena"].iter().any(|target| metadata.target().starts_with(target));
        *metadata.level() == Level::ERROR || *metadata.level() == Level::WARN && is_told
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let taken = self.0.lock().map_or(None, |mut second| second.take(Instant::now()));
        let Some(left_out) = taken else { return };
        let metadata = event.metadata();
        let level = if *metadata.level() == Level::ERROR { "error" } else { "warning" };
        let mut line = Line { message: String::new(), values: String::new() };
        event.record(&mut line);
        if left_out > 0 {
            let _infallible = write!(line.values, " lines_left_out={left_out}");
        }
        let _closed = writeln!(std::io::stderr(), "{level}: {}{}", line.message, line.values);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// The message of an event, and its other fields as ` key=value` words.
struct Line {
    message: String,
    values: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _infallible = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.values, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_lines_a_second_and_the_others_are_counted() {
        let (mut second, begin) = (Second::default(), Instant::now());
        for at in 0..50 {
            let is_told = second.take(begin + Duration::from_millis(at)).is_some();
            assert_eq!(is_told, at < u64::from(LINES_MAX));
        }
        assert_eq!(second.take(begin + Duration::from_secs(1)), Some(40));
        assert_eq!(second.take(begin + Duration::from_secs(1)), Some(0));
    }
}
