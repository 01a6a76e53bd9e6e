//! A connection: a socket that never blocks, and what is said on it.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

use mio::net::TcpStream;
use socket2::{Domain, Socket, Type};

use super::ask::{Ask, GROUPS_MAX};
use super::talk::{Effects, Talk};

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) stream: TcpStream,
    pub(super) talk: Talk,
    /// Which of the plan's asks it is for, and which of its addresses it comes from.
    pub(super) ask: usize,
    pub(super) address: usize,
    /// It is in the list of those that can take a request.
    pub(super) is_listed: bool,
    pub(super) out: Vec<u8>,
    sent: usize,
    is_open: bool,
}

impl Link {
    /// Begins to connect.
    pub(super) fn open(asks: &[Ask], ask: usize, address: usize, to: SocketAddr) -> io::Result<Link> {
        let of = &asks[ask];
        let stream = connect(source(of.group, address), to)?;
        let mut out = Vec::new();
        let talk = Talk::new(of, &mut out);
        Ok(Link { stream, talk, ask, address, is_listed: false, out, sent: 0, is_open: false })
    }

    /// Goes on as far as the socket lets it; whether the connection is still there.
    pub(super) fn go_on(&mut self, room: &mut [u8], effects: &mut Effects) -> bool {
        if !self.is_open {
            match self.stream.peer_addr() {
                Ok(_) => self.is_open = true,
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    if let Ok(None) = self.stream.take_error() {
                        return true;
                    }
                    self.talk.end(false, effects);
                    return false;
                }
                Err(_) => {
                    self.talk.end(false, effects);
                    return false;
                }
            }
        }
        loop {
            // Who cannot send may still be told why.
            let can_send = self.flush();
            match self.stream.read(room) {
                Ok(len) if len > 0 => self.talk.feed(&room[..len], &mut self.out, effects),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && can_send => return true,
                Ok(_) | Err(_) => {
                    self.talk.end(true, effects);
                    return false;
                }
            }
            if effects.closes {
                return false;
            }
        }
    }

    /// Sends what the socket takes; false if it takes nothing any more.
    pub(super) fn flush(&mut self) -> bool {
        while self.is_open && self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        if self.is_open {
            self.out.clear();
            self.sent = 0;
        }
        true
    }
}

/// The client's own address.
pub(super) fn source(group: u8, address: usize) -> Ipv4Addr {
    debug_assert!(group <= GROUPS_MAX && address < 255 * HOSTS, "an address of another group");
    Ipv4Addr::new(127, 1 + group, (address / HOSTS) as u8, 1 + (address % HOSTS) as u8)
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let mut tries = 1;
    loop {
        // Left to the kernel, the search for a port that nobody has takes longer than all else when there are many
        // connections.
        let port = FIRST_PORT + (NEXT_PORT.fetch_add(1, Ordering::Relaxed) % PORTS) as u16;
        match try_connect((from, port).into(), to) {
            Err(error) if is_taken(&error) && tries < TRIES_MAX => tries += 1,
            connected => return connected,
        }
    }
}

/// Somebody has the port, or had it towards this server a moment ago.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

fn try_connect(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    // Connections that were closed a moment ago keep their ports for a minute otherwise.
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&to.into()) {
        Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}

/// Ports of clients take turns, in all runs of this process.
static NEXT_PORT: AtomicU32 = AtomicU32::new(0);
const FIRST_PORT: u16 = 4_096;
const PORTS: u32 = 60_000;
const HOSTS: usize = 250;
/// Ports that are tried for a connection.
const TRIES_MAX: u32 = 64;
/// `EINPROGRESS`: the socket connects by itself.
const IN_PROGRESS: i32 = 115;
