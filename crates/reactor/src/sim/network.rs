//! Connections: two ends, a pipe in each direction, and the link between them. What travels is in `transmit.rs`.
#![forbid(unsafe_code)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use super::events::EventKey;
use super::pipe::Pipe;
use crate::fd::Number;
use crate::{Address, Errno, UnixAddress};

/// All connections of the world.
#[derive(Debug)]
pub(crate) struct Network {
    conns: BTreeMap<u64, Conn>,
    conns_total: u64,
    /// Who listens where, in order of listening.
    pub(crate) listeners: BTreeMap<Address, Vec<Number>>,
    /// Unix sockets that have a file, also those that nobody listens at any more.
    pub(crate) socket_files: BTreeSet<UnixAddress>,
    /// Client's and server's address of every connection by IP.
    pairs: BTreeSet<(Address, Address)>,
    /// The next ephemeral port to try.
    port: u16,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            conns: BTreeMap::new(),
            conns_total: 0,
            listeners: BTreeMap::new(),
            socket_files: BTreeSet::new(),
            pairs: BTreeSet::new(),
            port: PORTS.0,
        }
    }
}

/// A connection; side 0 is the one that connected, side 1 the one that listened.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) ends: [End; 2],
    /// `pipes[side]` is what that side sends.
    pub(crate) pipes: [Pipe; 2],
    pub(super) link: Link,
    pub(crate) latency: u64,
    /// When the latest thing that each side has sent arrives.
    pub(crate) arrival: [u64; 2],
    /// How often the connection attempt was sent.
    pub(crate) tries: u32,
    /// Each side's timer: of the connection attempt, then of an acknowledgement.
    pub(crate) timers: [Option<EventKey>; 2],
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) holder: Holder,
    pub(crate) local: Address,
    pub(crate) peer: Address,
    pub(crate) life: Life,
    pub(crate) receiving: Receiving,
    /// How long bytes may go without acknowledgement, in nanoseconds.
    pub(crate) user_timeout: u64,
}

/// Who has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody yet: the connection attempt is under way.
    Unborn,
    /// A listener's queue.
    Queue(Number),
    /// A socket.
    Socket(Number),
    /// Nobody any more.
    Closed,
}

/// Whether an end still takes part in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Live,
    /// Killed; the error has not been told yet.
    Failed(Errno),
    /// Killed, and it was told.
    Dead,
}

/// Whether the owner of an end still wants bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    Open,
    Shut,
}

/// The way between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Up,
    /// Nothing leaves until then.
    DownUntil(u64),
    /// Nothing ever gets through again.
    Down,
}

/// First and last ephemeral port, as Linux has them.
const PORTS: (u16, u16) = (32_768, 60_999);
/// Linux's `tcp_retries2` of 15: how long bytes go without acknowledgement before their sender gives up.
pub(crate) const USER_TIMEOUT_NS: u64 = 924_600_000_000;
impl Conn {
    /// A connection that `fd` asks for, from and to these addresses.
    pub(crate) fn dialing(fd: Number, pair: (Address, Address), latency: u64, buffer: usize, now: u64) -> Self {
        let end = |holder, local, peer| End {
            holder,
            local,
            peer,
            life: Life::Live,
            receiving: Receiving::Open,
            user_timeout: USER_TIMEOUT_NS,
        };
        Self {
            ends: [end(Holder::Socket(fd), pair.0, pair.1), end(Holder::Unborn, pair.1, pair.0)],
            pipes: [Pipe::new(buffer, buffer), Pipe::new(buffer, buffer)],
            link: Link::Up,
            latency,
            arrival: [now; 2],
            tries: 0,
            timers: [None; 2],
        }
    }

    /// Whether its sockets are of this host.
    pub(crate) const fn is_unix(&self) -> bool {
        matches!(self.ends[0].peer, Address::Unix(_))
    }

    /// When something that is sent now gets onto the link; `None` for never.
    pub(crate) const fn leaves_at(&self, now: u64) -> Option<u64> {
        match self.link {
            Link::Up => Some(now),
            Link::DownUntil(up) => Some(up),
            Link::Down => None,
        }
    }
}

impl Network {
    /// A new connection gets its number.
    pub(crate) fn insert(&mut self, conn: Conn) -> u64 {
        if let Some(pair) = pair(&conn) {
            let fresh = self.pairs.insert(pair);
            debug_assert!(fresh, "a free port makes a new pair of addresses");
        }
        self.conns_total += 1;
        self.conns.insert(self.conns_total, conn);
        self.conns_total
    }

    pub(crate) fn conn(&self, id: u64) -> Option<&Conn> {
        self.conns.get(&id)
    }

    pub(crate) fn conn_mut(&mut self, id: u64) -> Option<&mut Conn> {
        self.conns.get_mut(&id)
    }

    /// A connection that nobody has any more.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Conn> {
        let conn = self.conns.remove(&id)?;
        if let Some(pair) = pair(&conn) {
            let removed = self.pairs.remove(&pair);
            debug_assert!(removed, "every connection has its pair of addresses");
        }
        Some(conn)
    }

    pub(crate) fn len(&self) -> usize {
        self.conns.len()
    }

    /// A port that nobody uses: not for listening, and not with any of `remotes`.
    pub(crate) fn free_port(&mut self, ip: IpAddr, remote: Option<SocketAddr>) -> Option<u16> {
        for _ in PORTS.0..=PORTS.1 {
            let port = self.port;
            self.port = if port == PORTS.1 { PORTS.0 } else { port + 1 };
            let local = SocketAddr::new(ip, port);
            let listens = self.listeners.keys().filter_map(Address::ip).any(|at| at.port() == port);
            let connected = remote.is_some_and(|remote| self.pairs.contains(&(local.into(), remote.into())));
            if !listens && !connected {
                return Some(port);
            }
        }
        None
    }

    /// The listeners that a connection to `address` reaches: at the address itself, else at the wildcard of its family,
    /// else (for IPv4) at the IPv6 wildcard.
    pub(crate) fn listeners_at(&self, address: Address) -> &[Number] {
        let Address::Ip(address) = address else { return self.listeners.get(&address).map_or(&[], Vec::as_slice) };
        let port = address.port();
        let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let candidates = if address.is_ipv4() { [address, any4, any6] } else { [address, any6, any6] };
        candidates.iter().find_map(|&at| self.listeners.get(&at.into())).map_or(&[], Vec::as_slice)
    }
}

/// By which it is told from others: clients of Unix sockets have no name. The server's view may be mapped to IPv6; the
/// client's never is.
fn pair(conn: &Conn) -> Option<(Address, Address)> {
    let [client, _] = &conn.ends;
    client.peer.ip().map(|_| (client.local, client.peer))
}
