//! The access log: a line for each request in common log format, written by a thread of its own.
//!
//! Workers append to a bounded buffer and never wait for the disk. When the disk does not keep up, or fails, lines are
//! lost, and counted.

use ::core::time::Duration;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use plimsoll_codec::date;
use plimsoll_pool::{Budget, Charge, Kind};
use plimsoll_runtime::{Error, Result};

use crate::base::access_record::AccessRecord;
use crate::base::sys;

/// Bytes that may wait for the disk. There are two such buffers: one is filled while the other is written.
const BUFFER_BYTES: usize = 256 * 1024;
/// The writer is woken at once when so many bytes wait.
const WAKE_BYTES: usize = BUFFER_BYTES / 4;
/// Lines wait for the disk at most so long.
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
const STACK_BYTES: usize = 64 * 1024;
/// The longest line: a request line longer than this is cut.
const REQUEST_LINE_BYTES_MAX: usize = 4 * 1024;

/// An access log in a file: a line for each request in common log format. Give [`write`](Self::write) to
/// [`Server::access_log`](crate::Server::access_log), and [`close`](Self::close) it when the server has ended.
///
/// ```
/// use plimsoll_http::{AccessLog, Server};
/// use plimsoll_runtime::Runtime;
/// use std::sync::Arc;
///
/// let path = std::env::temp_dir().join(format!("access-{}.log", std::process::id()));
/// let runtime = Runtime::builder().workers(1).build()?;
/// let log = Arc::new(AccessLog::open(&path, runtime.budget())?);
/// runtime.block_on(async {
///     let lines = Arc::clone(&log);
///     let server = Server::bind("127.0.0.1:0")?.access_log(move |record| lines.write(record));
///     // ... server.serve(handler).await ...
///     # drop(server);
///     Ok::<_, plimsoll_runtime::Error>(())
/// })?;
/// assert_eq!(log.close(), 0, "no line was lost");
/// # std::fs::remove_file(&path).expect("it was made");
/// # Ok::<(), plimsoll_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct AccessLog {
    shared: Arc<Shared>,
    writer: Mutex<Option<Writer>>,
}

#[derive(Debug)]
struct Writer {
    thread: JoinHandle<()>,
    /// For the buffers and the thread's stack.
    _charge: Charge,
}

#[derive(Debug)]
struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
    lost_lines: AtomicU64,
}

/// Lines on their way to the disk.
#[derive(Debug)]
struct Waiting {
    lines: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Closing,
}

impl AccessLog {
    /// Appends to the file at `path`, which is made if it is not there. Two buffers of 256 KiB and the writer's stack
    /// are charged to the budget.
    ///
    /// # Errors
    ///
    /// [`Error::System`] as `open(2)`, or when there is no thread; [`Error::OverBudget`].
    pub fn open(path: impl AsRef<Path>, budget: &Arc<Budget>) -> Result<Self> {
        let system = |error: io::Error| Error::System(error.into());
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(system)?;
        let charge = budget.charge(Kind::Buffers, (2 * BUFFER_BYTES + STACK_BYTES) as u64)?;
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting { lines: Vec::with_capacity(BUFFER_BYTES), state: State::Open }),
            wake: Condvar::new(),
            lost_lines: AtomicU64::new(0),
        });
        let work = Arc::clone(&shared);
        let thread = sys::spawn_thread("access-log", STACK_BYTES, move || work.write_all(file)).map_err(system)?;
        Ok(Self { shared, writer: Mutex::new(Some(Writer { thread, _charge: charge })) })
    }

    /// Appends a line. When there is no room for it, it is lost.
    pub fn write(&self, record: &AccessRecord<'_>) {
        let mut waiting = self.shared.waiting();
        let before = waiting.lines.len();
        let longest = 4 * record.request_line.len().min(REQUEST_LINE_BYTES_MAX) + 128;
        if before + longest > BUFFER_BYTES || waiting.state == State::Closing {
            drop(waiting);
            self.shared.lost_lines.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let wrote = put_line(&mut waiting.lines, record);
        debug_assert!(wrote.is_ok(), "a vector takes everything");
        let after = waiting.lines.len();
        drop(waiting);
        if before < WAKE_BYTES && after >= WAKE_BYTES {
            self.shared.wake.notify_one();
        }
    }

    /// Lines that were lost so far.
    pub fn lost_lines(&self) -> u64 {
        self.shared.lost_lines.load(Ordering::Relaxed)
    }

    /// Writes what waits and ends the thread; how many lines were lost over all.
    pub fn close(&self) -> u64 {
        self.shared.waiting().state = State::Closing;
        self.shared.wake.notify_one();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Writer { thread, _charge }) = writer {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "the writer does not panic");
        }
        self.lost_lines()
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // A panic between two lines leaves whole lines behind, or the part of one.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's thread.
    fn write_all(&self, mut file: File) {
        let mut full = Vec::with_capacity(BUFFER_BYTES);
        loop {
            let goes_on = |waiting: &mut Waiting| waiting.lines.len() < WAKE_BYTES && waiting.state == State::Open;
            let waited = self.wake.wait_timeout_while(self.waiting(), FLUSH_INTERVAL, goes_on);
            let (mut waiting, _timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut waiting.lines, &mut full);
            let state = waiting.state;
            drop(waiting);
            if file.write_all(&full).is_err() {
                let lines = full.iter().filter(|&&byte| byte == b'\n').count();
                self.lost_lines.fetch_add(lines as u64, Ordering::Relaxed);
            }
            full.clear();
            if state == State::Closing {
                return;
            }
        }
    }
}

/// `peer - - [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 200 2326`
fn put_line(out: &mut Vec<u8>, record: &AccessRecord<'_>) -> io::Result<()> {
    match record.peer {
        Some(peer) => write!(out, "{} - - [", peer.ip())?,
        None => out.extend_from_slice(b"- - - ["),
    }
    // `Sun, 06 Nov 1994 08:49:37 GMT`, rearranged.
    let date = date::format(record.unix_seconds);
    for (part, separator) in [(5..7, b'/'), (8..11, b'/'), (12..16, b':'), (17..25, b' ')] {
        out.extend_from_slice(&date[part]);
        out.push(separator);
    }
    out.extend_from_slice(b"+0000] \"");
    put_escaped(out, record.request_line)?;
    writeln!(out, "\" {} {}", record.status.as_u16(), record.body_bytes)
}

/// What could forge a line, or end the quotes, is written as `\xHH`.
fn put_escaped(out: &mut Vec<u8>, request_line: &[u8]) -> io::Result<()> {
    for &byte in request_line.iter().take(REQUEST_LINE_BYTES_MAX) {
        match byte {
            b'"' | b'\\' | ..b' ' | 0x7f.. => write!(out, "\\x{byte:02x}")?,
            _ => out.push(byte),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
