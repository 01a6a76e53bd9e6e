//! The light client: one small request every now and then, from an address of its own, beside all the others.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::answer::Answer;
use super::ledger::{Percentiles, micros};

/// What became of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Light {
    pub(super) asked: u64,
    /// Those that were not answered 200 within [`WAIT_MAX`], for whatever reason; those that were refused in words
    /// among them.
    pub(super) failed: u64,
    pub(super) refused: u64,
    /// Of those that were answered 200, from when they were due.
    pub(super) ms: Option<Percentiles>,
}

/// Asks until it is told to stop. What was due while it waited for an answer is asked late, and that is part of its
/// time.
pub(super) fn run(to: SocketAddr, stop: &AtomicBool) -> Light {
    let (mut light, mut times, mut connection) = (Light::default(), Vec::new(), None);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let due = EVERY * light.asked as u32;
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        light.asked += 1;
        match ask(&mut connection, to) {
            Ok(200) => times.push(micros(start.elapsed().saturating_sub(due))),
            Ok(status) => {
                light.failed += 1;
                light.refused += u64::from(status == 503);
            }
            Err(_) => light.failed += 1,
        }
    }
    light.ms = Percentiles::of(&mut times);
    light
}

/// Asks once, on the connection that is there or a new one; the status.
fn ask(kept: &mut Option<TcpStream>, to: SocketAddr) -> io::Result<u16> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => connect(to)?,
    };
    stream.write_all(b"GET /tiny HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let (mut answer, mut room, began) = (Answer::default(), [0; 4096], Instant::now());
    while !answer.is_done() {
        match stream.read(&mut room)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => drop(answer.feed(&room[..len]).map_err(|_| io::ErrorKind::InvalidData)?),
        }
        if began.elapsed() > WAIT_MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    if !answer.closes {
        *kept = Some(stream);
    }
    Ok(answer.status)
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((ADDRESS, 0)).into())?;
    socket.connect_timeout(&to.into(), WAIT_MAX)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(WAIT_MAX))?;
    socket.set_write_timeout(Some(WAIT_MAX))?;
    Ok(socket.into())
}

const EVERY: Duration = Duration::from_millis(50);
/// An answer that takes longer is none.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(2);
/// Of no group.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 99, 0, 1);

#[cfg(test)]
mod tests {
    //! The light client keeps its connection, comes back after a lost one, and counts what failed.

    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[test]
    fn what_failed_is_counted() {
        static REQUESTS: AtomicUsize = AtomicUsize::new(0);
        static STOP: AtomicBool = AtomicBool::new(false);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut connections = 0;
            while REQUESTS.load(Ordering::SeqCst) < 9 {
                let (mut stream, from) = listener.accept().unwrap();
                assert_eq!(from.ip(), ADDRESS);
                connections += 1;
                let mut room = [0; 1024];
                while stream.read(&mut room).is_ok_and(|len| len > 0) {
                    let number = REQUESTS.fetch_add(1, Ordering::SeqCst);
                    STOP.store(number >= 8, Ordering::SeqCst);
                    match number {
                        // Without a word.
                        3 => break,
                        5 => stream.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").unwrap(),
                        _ => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap(),
                    }
                    if number >= 8 {
                        break;
                    }
                }
            }
            connections
        });
        let light = run(to, &STOP);
        assert_eq!((light.asked, light.failed, light.refused), (9, 2, 1));
        assert!(light.ms.is_some());
        assert_eq!(server.join().unwrap(), 2, "one connection before the lost request, and one after it");
    }
}
