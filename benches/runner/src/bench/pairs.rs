//! Both ends of relayed connections, on one thread: what comes out of the relay is in the same program as what goes in.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use super::client;
use super::proc::OpenFiles;

/// The far side of relays.
pub(super) struct Back {
    listener: std::net::TcpListener,
}

/// A connection through a relay, its near end and its far end.
pub(super) struct Pair {
    pub(super) near: std::net::TcpStream,
    pub(super) far: std::net::TcpStream,
}

impl Back {
    pub(super) fn new() -> io::Result<Back> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.listen(4_096)?;
        // A relay that takes a connection and never opens the other is an error, not a wait for ever.
        socket.set_read_timeout(Some(WAIT_MAX))?;
        Ok(Back { listener: socket.into() })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Opens connections through a relay, one after the other, so that both ends are known.
    pub(super) fn open(&self, relay: SocketAddr, count: usize) -> io::Result<Vec<Pair>> {
        self.forget()?;
        (0..count).map(|index| self.pair(relay, index)).collect()
    }

    /// What other connections to the relay have left here: those that looked whether it is ready.
    fn forget(&self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(50));
        self.listener.set_nonblocking(true)?;
        while self.listener.accept().is_ok() {}
        self.listener.set_nonblocking(false)
    }

    fn pair(&self, relay: SocketAddr, index: usize) -> io::Result<Pair> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((client::from(index), 0)).into())?;
        socket.connect(&relay.into())?;
        let near = std::net::TcpStream::from(socket);
        let (far, _) = self.listener.accept()?;
        for stream in [&near, &far] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(WAIT_MAX))?;
            stream.set_write_timeout(Some(WAIT_MAX))?;
        }
        Ok(Pair { near, far })
    }
}

impl Pair {
    /// Sends a message there and back.
    pub(super) fn ping(&mut self, message: &[u8]) -> io::Result<()> {
        let mut got = vec![0; message.len()];
        self.near.write_all(message)?;
        self.far.read_exact(&mut got)?;
        self.far.write_all(&got)?;
        self.near.read_exact(&mut got)?;
        if got == message { Ok(()) } else { Err(io::Error::other("other bytes than were sent")) }
    }

    /// Sends bytes through, on two threads.
    pub(super) fn transfer(&mut self, bytes: u64) -> io::Result<()> {
        let Pair { near, far } = self;
        std::thread::scope(|scope| {
            let sender = scope.spawn(move || -> io::Result<()> {
                let piece = vec![b'r'; PIECE_BYTES];
                let mut left = bytes;
                while left > 0 {
                    let count = left.min(piece.len() as u64) as usize;
                    near.write_all(&piece[..count])?;
                    left -= count as u64;
                }
                Ok(())
            });
            let mut buffer = vec![0; PIECE_BYTES];
            let mut left = bytes;
            while left > 0 {
                match far.read(&mut buffer)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => left = left.saturating_sub(count as u64),
                }
            }
            sender.join().map_err(|_| io::Error::other("the sender panicked"))?
        })
    }
}

/// Messages that go round on all pairs at once, each pair for itself, for some time: how many came back.
pub(super) fn chatter(pairs: Vec<Pair>, message_bytes: usize, time: Duration) -> io::Result<(u64, Vec<Pair>)> {
    let mut poll = Poll::new()?;
    let mut ends = Vec::new();
    for (index, Pair { near, far }) in pairs.into_iter().enumerate() {
        for (side, stream) in [near, far].into_iter().enumerate() {
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(2 * index + side), Interest::READABLE)?;
            ends.push((stream, 0));
        }
    }
    let message = vec![b'm'; message_bytes];
    for near in ends.iter_mut().step_by(2) {
        near.0.write_all(&message)?;
    }
    let (mut events, mut buffer, mut rounds) = (Events::with_capacity(1_024), vec![0; 64 * 1_024], 0);
    let (began, mut on_their_way) = (Instant::now(), ends.len() / 2);
    while on_their_way > 0 {
        poll.poll(&mut events, Some(WAIT_MAX))?;
        if events.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        for event in &events {
            let at = event.token().0;
            let (stream, came) = &mut ends[at];
            loop {
                match stream.read(&mut buffer) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => *came += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if *came < message_bytes {
                continue;
            }
            *came -= message_bytes;
            let is_near = at % 2 == 0;
            rounds += u64::from(is_near);
            if is_near && began.elapsed() >= time {
                on_their_way -= 1;
            } else {
                // Short messages, one at a time: there is room.
                stream.write_all(&message)?;
            }
        }
    }
    let mut streams = ends.into_iter().map(|(stream, _)| std::net::TcpStream::from(stream));
    let mut pairs = Vec::new();
    while let (Some(near), Some(far)) = (streams.next(), streams.next()) {
        pairs.push(Pair { near, far });
    }
    Ok((rounds, pairs))
}

/// So many connections, or as many as the limit of open files allows a program that has some for other things.
pub(super) fn connections(wanted: usize) -> usize {
    let soft = OpenFiles::now().map_or(u64::MAX, |files| files.soft);
    wanted.min(usize::try_from(soft.saturating_sub(SPARE_FILES)).unwrap_or(wanted))
}

/// Files that may be open, so that 10,000 are connections.
pub(super) const OPEN_FILES: u64 = 10_000 + SPARE_FILES;
const SPARE_FILES: u64 = 512;
const PIECE_BYTES: usize = 256 * 1_024;
/// Nothing takes so long.
const WAIT_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests;
