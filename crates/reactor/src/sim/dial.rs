//! How a connection comes to be, or does not.
//!
//! ```text
//!  dialing --Syn--> somebody listens and has room: queued there --SynAck--> established at both ends
//!     |       \---> nobody listens: refused        \---> no room, or takes none: tried again after 1, 2, 4 ... s
//!     \-----------> nothing comes back for 127 s: timed out
//! ```
#![forbid(unsafe_code)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::config::nanos;
use super::events::Event;
use super::faults::Fault;
use super::kernel::Kernel;
use super::network::{Conn, Holder};
use super::objects::{Object, SocketState};
use crate::fd::Number;
use crate::{Address, Errno, SocketKind, UnixAddress};

/// Linux's `tcp_syn_retries` of 6: how often, and how long until it gives up.
const TRIES_MAX: u32 = 6;
const DIAL_TIMEOUT_NS: u64 = 127_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

impl Kernel {
    /// Sends a connection attempt from a socket. The answer comes as the socket's new state.
    pub(crate) fn dial(&mut self, fd: Number, kind: SocketKind, remote: Address) -> Result<u64, Errno> {
        let pair = match (kind, remote) {
            (SocketKind::Unix, Address::Unix(_)) => self.dial_unix(remote)?,
            (SocketKind::Tcp4 | SocketKind::Tcp6, Address::Ip(remote)) => self.dial_internet(kind, remote)?,
            _ => return Err(Errno(libc::EAFNOSUPPORT)),
        };
        let latency = self.rng.between(nanos(self.config.latency_min), nanos(self.config.latency_max));
        let conn = Conn::dialing(fd, pair, latency, self.config.socket_buffer_bytes, self.now);
        let id = self.network.insert(conn);
        if self.fault(Fault::Refused) {
            self.events.add(self.now + 2 * latency, Event::Refused(id));
            return Ok(id);
        }
        let timer = self.events.add(self.now + DIAL_TIMEOUT_NS, Event::DialTimeout(id));
        self.conns_mut(id).timers[0] = Some(timer);
        if kind != SocketKind::Unix && self.fault(Fault::BlackHole) {
            self.link_down(id);
        }
        let now = self.now;
        if let Some(leaves) = self.conns_mut(id).leaves_at(now) {
            self.events.add(leaves + latency, Event::Syn(id));
        }
        Ok(id)
    }

    /// Our address and the one that is reached.
    fn dial_internet(&mut self, kind: SocketKind, remote: SocketAddr) -> Result<(Address, Address), Errno> {
        if kind == SocketKind::Tcp4 && remote.is_ipv6() {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        let remote = reachable(remote);
        if !self.config.has_address(remote.ip()) {
            return Err(Errno(libc::ENETUNREACH));
        }
        // Both ends are on simulated hosts; like Linux towards an address of its own, the source is the destination.
        let port = self.network.free_port(remote.ip(), Some(remote)).ok_or(Errno(libc::EADDRNOTAVAIL))?;
        let local = SocketAddr::new(remote.ip(), port);
        Ok((local.into(), remote.into()))
    }

    /// Our address, which is none, and the one that is reached: at once, as in connect(2).
    fn dial_unix(&self, remote: Address) -> Result<(Address, Address), Errno> {
        let has_room = |&listener: &Number| match self.descriptors.get(listener).map(|found| &found.object) {
            Some(Object::Listener(found)) => found.queue.len() <= found.backlog as usize,
            _ => false,
        };
        match self.network.listeners_at(remote) {
            [] => {
                let file = |address: &UnixAddress| self.network.socket_files.contains(address);
                let is_missing = remote.unix().is_some_and(|at| at.as_path().is_some() && !file(&at));
                Err(Errno(if is_missing { libc::ENOENT } else { libc::ECONNREFUSED }))
            }
            listeners if listeners.iter().any(has_room) => Ok((UnixAddress::UNNAMED.into(), remote)),
            _ => Err(Errno(libc::EAGAIN)),
        }
    }

    /// A connection attempt arrives: at a listener with room, or not.
    pub(crate) fn syn_arrives(&mut self, id: u64) {
        let Some(conn) = self.network.conn(id) else { return };
        let (latency, address, client) = (conn.latency, conn.ends[1].local, conn.ends[1].peer);
        let listeners = self.network.listeners_at(address).to_vec();
        if listeners.is_empty() {
            self.events.add(self.now + latency, Event::Refused(id));
            return;
        }
        let chosen = listeners[self.rng.below(listeners.len() as u64) as usize];
        let Some(Object::Listener(listener)) = self.descriptors.get_mut(chosen).map(|found| &mut found.object) else {
            unreachable!("the directory of listeners holds open listeners")
        };
        if listener.refuses || listener.queue.len() > listener.backlog as usize {
            let conn = self.conns_mut(id);
            conn.tries += 1;
            if conn.tries <= TRIES_MAX {
                let pause = SECOND_NS << (conn.tries - 1);
                self.events.add(self.now + pause, Event::Syn(id));
            }
            return;
        }
        listener.queue.push_back(id);
        let mapped = match (listener.address, address) {
            (Address::Ip(at), Address::Ip(address)) => at.is_ipv6() && address.is_ipv4(),
            _ => false,
        };
        let now = self.now;
        let conn = self.conns_mut(id);
        conn.ends[1].holder = Holder::Queue(chosen);
        if mapped {
            conn.ends[1].local = mapped_to_v6(address);
            conn.ends[1].peer = mapped_to_v6(client);
        }
        conn.arrival[1] = now + latency;
        self.events.add(now + latency, Event::SynAck(id));
        self.wake(chosen);
    }

    /// The acceptance of a connection arrives where it was asked for.
    pub(crate) fn connected(&mut self, id: u64) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        let timer = conn.timers[0].take();
        let Holder::Socket(fd) = conn.ends[0].holder else { return };
        if let Some(timer) = timer {
            self.events.remove(timer);
        }
        if let Some(Object::Socket(socket)) = self.descriptors.get_mut(fd).map(|found| &mut found.object) {
            debug_assert_eq!(socket.state, SocketState::Connecting(id));
            socket.state = SocketState::Connected { conn: id, side: 0 };
        }
        self.apply_options(fd);
        self.wake(fd);
    }

    /// A connection attempt has come to nothing.
    pub(crate) fn dial_failed(&mut self, id: u64, errno: i32) {
        let Some(conn) = self.network.conn(id) else { return };
        let holder = conn.ends[0].holder;
        self.forget(id);
        let Holder::Socket(fd) = holder else { return };
        if let Some(Object::Socket(socket)) = self.descriptors.get_mut(fd).map(|found| &mut found.object) {
            socket.state = SocketState::Failed(Errno(errno));
        }
        self.wake(fd);
    }
}

/// Connecting to the wildcard address reaches this host.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(v6),
        },
        v4 => v4,
    };
    let ip = match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn mapped_to_v6(address: Address) -> Address {
    match address {
        Address::Ip(SocketAddr::V4(v4)) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())).into(),
        other => other,
    }
}
