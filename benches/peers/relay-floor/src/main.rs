//! The floor of a relay: a loop over two sockets and one buffer of 128 KiB, edge-triggered, without timeouts, limits or
//! half-close. One thread.
//!
//! `relay-floor ADDR TO [--splice]`. With `--splice` bytes go through a pipe in the kernel instead of a buffer of ours.
//! Prints `listening on ADDR` when it is ready.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, splice};

struct Side {
    stream: TcpStream,
    partner: usize,
    /// Read from here, not taken by the partner yet.
    rest: Vec<u8>,
    /// Where bytes are on their way with `--splice`, and how many.
    pipe: Option<(OwnedFd, OwnedFd)>,
    piped: usize,
}

impl Side {
    /// Whether something waits for the partner's room.
    fn has_rest(&self) -> bool {
        !self.rest.is_empty() || self.piped > 0
    }
}

struct Relay {
    epoll: rustix::fd::OwnedFd,
    /// By descriptor.
    sides: Vec<Option<Side>>,
    buffer: Vec<u8>,
    splices: bool,
}

impl Relay {
    fn add(&mut self, near: TcpStream, far: TcpStream) -> std::io::Result<()> {
        let (a, b) = (near.as_raw_fd() as usize, far.as_raw_fd() as usize);
        for (stream, at, partner) in [(near, a, b), (far, b, a)] {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(at as u64), flags)?;
            if self.sides.len() <= at {
                self.sides.resize_with(at + 1, || None);
            }
            let pipe = if self.splices {
                let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                rustix::pipe::fcntl_setpipe_size(&into, PIPE_BYTES)?;
                Some((out, into))
            } else {
                None
            };
            self.sides[at] = Some(Side { stream, partner, rest: Vec::new(), pipe, piped: 0 });
        }
        Ok(())
    }

    /// Moves what there is from a side to its partner. `false` when the pair is over.
    fn copy(&mut self, from: usize) -> bool {
        let Some(mut side) = self.sides.get_mut(from).and_then(Option::take) else { return true };
        let Some(partner) = self.sides[side.partner].as_ref() else { return false };
        let open = loop {
            if let Some((out, into)) = &side.pipe {
                let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
                if side.piped == 0 {
                    match splice(&side.stream, None, into, None, PIPE_BYTES, flags) {
                        Ok(0) => break false,
                        Ok(count) => side.piped = count,
                        Err(Errno::AGAIN) => break true,
                        Err(_) => break false,
                    }
                }
                match splice(out, None, &partner.stream, None, side.piped, flags) {
                    Ok(count) => side.piped -= count,
                    Err(Errno::AGAIN) => break true,
                    Err(_) => break false,
                }
                continue;
            }
            if !side.rest.is_empty() {
                match (&partner.stream).write(&side.rest) {
                    Ok(count) => drop(side.rest.drain(..count)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                    Err(_) => break false,
                }
                continue;
            }
            match side.stream.read(&mut self.buffer) {
                Ok(0) => break false,
                Ok(count) => match (&partner.stream).write(&self.buffer[..count]) {
                    Ok(taken) => {
                        side.rest.extend_from_slice(&self.buffer[taken..count]);
                        // A short read has emptied the socket: an edge will tell of more.
                        if side.rest.is_empty() && count < self.buffer.len() {
                            break true;
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        side.rest.extend_from_slice(&self.buffer[..count]);
                        break true;
                    }
                    Err(_) => break false,
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(_) => break false,
            }
        };
        let partner = side.partner;
        self.sides[from] = Some(side);
        if !open {
            self.sides[from] = None;
            self.sides[partner] = None;
        }
        open
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (listen, to) = arguments.next().zip(arguments.next()).ok_or("relay-floor ADDR TO")?;
    let splices = arguments.next().is_some_and(|flag| flag == "--splice");
    let to: std::net::SocketAddr = to.parse()?;
    let listener = TcpListener::bind(&listen)?;
    rustix::net::listen(&listener, 4_096)?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN)?;
    println!("listening on {}", listener.local_addr()?);
    let mut relay = Relay { epoll, sides: Vec::new(), buffer: vec![0; 128 * 1_024], splices };
    let mut events = Vec::with_capacity(1_024);
    loop {
        events.clear();
        match epoll::wait(&relay.epoll, spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            // Copied out: the kernel's struct is packed.
            let flags = event.flags;
            match event.data.u64() {
                u64::MAX => {
                    while let Ok((near, _)) = listener.accept() {
                        if let Ok(far) = TcpStream::connect(to) {
                            relay.add(near, far)?;
                        }
                    }
                }
                at => {
                    let at = at as usize;
                    let partner = relay.sides.get(at).and_then(Option::as_ref).map(|side| side.partner);
                    let readable =
                        flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR);
                    if readable && !relay.copy(at) {
                        continue;
                    }
                    // Room here: the partner may have something for it.
                    if let Some(partner) = partner
                        && flags.intersects(epoll::EventFlags::OUT)
                        && relay.sides.get(partner).and_then(Option::as_ref).is_some_and(Side::has_rest)
                    {
                        relay.copy(partner);
                    }
                }
            }
        }
    }
}

/// What a pipe holds.
const PIPE_BYTES: usize = 256 * 1_024;
