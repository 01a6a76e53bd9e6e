//! Sends cases and says what came of them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use plimsoll_conformance::answers;
use plimsoll_conformance::h1::{End, Framed, Then};

/// What a server made of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Statuses of the final answers, without the one to the probe.
    pub(crate) statuses: Vec<u16>,
    pub(crate) ending: Ending,
}

/// What became of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The probe was answered.
    Kept,
    Closed,
    /// Reset: what was sent before may be lost.
    Reset,
    /// Nothing came any more, and the connection stayed open.
    Waits,
    /// Bytes that are no answer.
    Unreadable,
}

/// Sends every case, some at a time, in their order.
pub(crate) fn send_all(address: SocketAddr, cases: &[Framed]) -> Vec<Seen> {
    let results: Vec<Mutex<Option<Seen>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < cases.len()) {
                    let seen = send(address, &cases[index]);
                    *results[index].lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(seen);
                }
            });
        }
    });
    let taken = results.into_iter().map(|result| result.into_inner().ok().flatten());
    taken.map(|seen| seen.unwrap_or(Seen { statuses: Vec::new(), ending: Ending::Unreadable })).collect()
}

fn send(address: SocketAddr, framed: &Framed) -> Seen {
    let Ok(stream) = TcpStream::connect(address) else {
        return Seen { statuses: Vec::new(), ending: Ending::Reset };
    };
    let bytes = framed.bytes();
    let half_closes = framed.case.then == Then::HalfClose;
    let (received, ending) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = &stream;
            // A server that refuses may have closed by now; what it said is what counts.
            let sent = stream.write_all(&bytes);
            if sent.is_ok() && half_closes {
                let _closed = stream.shutdown(Shutdown::Write);
            }
        });
        let result = receive(&stream);
        // The writer may still wait for a server that does not read.
        let _closed = stream.shutdown(Shutdown::Both);
        result
    });
    understand(framed, &received, ending)
}

fn receive(mut stream: &TcpStream) -> (Vec<u8>, Ending) {
    let mut received = Vec::new();
    if stream.set_read_timeout(Some(WAIT_MAX)).is_err() {
        return (received, Ending::Reset);
    }
    let mut buffer = [0; 16 * 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (received, Ending::Closed),
            Ok(bytes) => received.extend_from_slice(&buffer[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return (received, Ending::Waits);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return (received, Ending::Reset),
        }
    }
}

fn understand(framed: &Framed, received: &[u8], ending: Ending) -> Seen {
    let expected = framed.expected();
    let head = |at: usize| expected.answers.get(at).is_some_and(|answer| answer.starts_with("200 HEAD "));
    let first_is_head = framed.input.starts_with(b"HEAD ");
    // An error that answers a HEAD may or may not have a body.
    let read = answers::read(received, |at| head(at) || (at == 0 && first_is_head));
    let Ok(read) = read.or_else(|_| answers::read(received, |_| false)) else {
        return Seen { statuses: Vec::new(), ending: Ending::Unreadable };
    };
    let outcome = answers::outcome(framed, &read);
    let kept = outcome.end == End::Kept;
    let finals = read.iter().filter(|answer| !answer.is_interim()).count() - usize::from(kept);
    let statuses = read.iter().filter(|answer| !answer.is_interim()).take(finals).map(|answer| answer.status);
    Seen { statuses: statuses.collect(), ending: if kept { Ending::Kept } else { ending } }
}

/// Connections that are open at the same time.
const AT_A_TIME: usize = 16;
/// A server that says nothing for so long waits for more.
const WAIT_MAX: Duration = Duration::from_millis(1_500);
