//! Connections: two ends, a pipe in each direction, and the link between them.
//!
//! An end is **live** until it is killed, by a reset that arrives or by waiting too long for an acknowledgement. It
//! keeps what had arrived, tells its error once, and after that end-of-file and `EPIPE`. What one end does reaches the
//! other only over the link, in order, after the connection's latency; a link that is down for ever swallows it.
#![forbid(unsafe_code)]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::collections::{BTreeMap, BTreeSet};

use super::config::nanos;
use super::events::{Event, EventKey};
use super::faults::Fault;
use super::kernel::Kernel;
use super::pipe::{Departure, Pipe, Tail};
use super::trace::Entry;
use crate::Errno;
use crate::fd::Number;

/// All connections of the world.
#[derive(Debug)]
pub(crate) struct Network {
    conns: BTreeMap<u64, Conn>,
    conns_total: u64,
    /// Who listens where, in order of listening.
    pub(crate) listeners: BTreeMap<SocketAddr, Vec<Number>>,
    /// Client's and server's address of every connection.
    pairs: BTreeSet<(SocketAddr, SocketAddr)>,
    /// The next ephemeral port to try.
    port: u16,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            conns: BTreeMap::new(),
            conns_total: 0,
            listeners: BTreeMap::new(),
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
    link: Link,
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
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) life: Life,
    pub(crate) receiving: Receiving,
    /// How long bytes may go without acknowledgement, in nanoseconds.
    pub(crate) patience: u64,
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
enum Link {
    Up,
    /// Nothing leaves until then.
    DownUntil(u64),
    /// Nothing ever gets through again.
    Down,
}

/// First and last ephemeral port, as Linux has them.
const PORTS: (u16, u16) = (32_768, 60_999);
/// Linux's `tcp_retries2` of 15: how long bytes go without acknowledgement before their sender gives up.
pub(crate) const PATIENCE_NS: u64 = 924_600_000_000;
impl Conn {
    /// A connection that `fd` asks for, from and to these addresses.
    pub(crate) fn dialing(fd: Number, pair: (SocketAddr, SocketAddr), latency: u64, buffer: usize, now: u64) -> Self {
        let end = |holder, local, peer| End {
            holder,
            local,
            peer,
            life: Life::Live,
            receiving: Receiving::Open,
            patience: PATIENCE_NS,
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
        let fresh = self.pairs.insert((conn.ends[0].local, conn.ends[0].peer));
        debug_assert!(fresh, "a free port makes a new pair of addresses");
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

    pub(crate) fn len(&self) -> usize {
        self.conns.len()
    }

    /// A port that nobody uses: not for listening, and not with any of `remotes`.
    pub(crate) fn free_port(&mut self, ip: IpAddr, remote: Option<SocketAddr>) -> Option<u16> {
        for _ in PORTS.0..=PORTS.1 {
            let port = self.port;
            self.port = if port == PORTS.1 { PORTS.0 } else { port + 1 };
            let local = SocketAddr::new(ip, port);
            let listens = self.listeners.keys().any(|at| at.port() == port);
            let connected = remote.is_some_and(|remote| self.pairs.contains(&(local, remote)));
            if !listens && !connected {
                return Some(port);
            }
        }
        None
    }

    /// The listeners that a connection to `address` reaches: at the address itself, else at the wildcard of its family,
    /// else (for IPv4) at the IPv6 wildcard.
    pub(crate) fn listeners_at(&self, address: SocketAddr) -> &[Number] {
        let port = address.port();
        let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let candidates = if address.is_ipv4() { [address, any4, any6] } else { [address, any6, any6] };
        candidates.iter().find_map(|at| self.listeners.get(at)).map_or(&[], Vec::as_slice)
    }
}

impl Kernel {
    /// A connection that was just looked up.
    pub(crate) fn conns_mut(&mut self, id: u64) -> &mut Conn {
        self.network.conn_mut(id).expect("the caller has just looked it up")
    }

    /// Sends on whatever the window and the link allow.
    pub(crate) fn transmit(&mut self, id: u64, side: usize) {
        let segment_max = self.config.segment_bytes_max;
        let Some(conn) = self.network.conn(id) else { return };
        if conn.pipes[side].departure(segment_max).is_none() {
            return;
        }
        if conn.link == Link::Up && self.fault(Fault::BlackHole) {
            self.link_down(id);
        }
        match self.conns_mut(id).link {
            Link::Up => self.transmit_now(id, side),
            Link::DownUntil(_) | Link::Down => self.lose_patience(id, side),
        }
    }

    fn transmit_now(&mut self, id: u64, side: usize) {
        let segment_max = self.config.segment_bytes_max;
        if let Some(timer) = self.conns_mut(id).timers[side].take() {
            self.events.remove(timer);
        }
        while let Some(departure) = self.conns_mut(id).pipes[side].departure(segment_max) {
            let (mut len, mut late) = (0, 0);
            if let Departure::Segment(whole) = departure {
                len = whole;
                if whole > 1 && self.fault(Fault::Segmented) {
                    len = self.rng.part(whole);
                    let latency = self.conns_mut(id).latency;
                    late = self.rng.between(0, latency);
                }
            }
            let now = self.now;
            let conn = self.conns_mut(id);
            let at = conn.arrival[side].max(now + conn.latency + late);
            conn.arrival[side] = at;
            let (departure, event) = match departure {
                Departure::Segment(_) => (Departure::Segment(len), Event::Segment { conn: id, side, len }),
                Departure::Finish => (Departure::Finish, Event::Finish { conn: id, side }),
            };
            conn.pipes[side].depart(departure);
            self.events.add(at, event);
        }
    }

    /// Bytes sent by `side` arrive.
    pub(crate) fn segment_arrives(&mut self, id: u64, side: usize, len: usize) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        if conn.pipes[side].tail() == Tail::Cut {
            return;
        }
        let receiver = &conn.ends[1 - side];
        if receiver.holder == Holder::Closed || receiver.life != Life::Live {
            return self.send_reset(id, side);
        }
        conn.pipes[side].arrive(len);
        self.record(Entry::Arrived { conn: id, side, len });
        self.transmit(id, side);
        self.changed(id);
    }

    /// The end of what `side` sends arrives.
    pub(crate) fn finish_arrives(&mut self, id: u64, side: usize) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        let receiver = &conn.ends[1 - side];
        let unheard = receiver.holder == Holder::Closed || receiver.life != Life::Live;
        if unheard || conn.pipes[side].tail() != Tail::Flying {
            return;
        }
        conn.pipes[side].arrive_finish();
        self.changed(id);
    }

    /// Tells `side`, over the link, that the connection is no more.
    pub(crate) fn send_reset(&mut self, id: u64, side: usize) {
        let now = self.now;
        let Some(conn) = self.network.conn_mut(id) else { return };
        let Some(leaves) = conn.leaves_at(now) else { return };
        let at = conn.arrival[1 - side].max(leaves + conn.latency);
        conn.arrival[1 - side] = at;
        self.events.add(at, Event::Reset { conn: id, side });
    }

    pub(crate) fn reset_arrives(&mut self, id: u64, side: usize) {
        let Some(conn) = self.network.conn(id) else { return };
        // Linux: a reset after the peer's end-of-file means that our bytes found nobody.
        let errno = if conn.pipes[1 - side].tail() == Tail::Arrived { libc::EPIPE } else { libc::ECONNRESET };
        self.kill(id, side, errno);
    }

    /// Ends one end of a connection.
    pub(crate) fn kill(&mut self, id: u64, side: usize, errno: i32) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        let end = &mut conn.ends[side];
        if end.life != Life::Live || end.holder == Holder::Closed {
            return;
        }
        end.life = Life::Failed(Errno(errno));
        conn.pipes[side].cut();
        let timer = conn.timers[side].take();
        if let Some(timer) = timer {
            self.events.remove(timer);
        }
        self.record(Entry::Killed { conn: id, side, errno: Errno(errno) });
        self.changed(id);
    }

    /// A box in the middle resets both ends.
    pub(crate) fn reset_both(&mut self, id: u64) {
        self.kill(id, 0, libc::ECONNRESET);
        self.kill(id, 1, libc::ECONNRESET);
    }

    /// The owner of an end has closed it.
    pub(crate) fn close_end(&mut self, id: u64, side: usize, abort: bool) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        debug_assert!(conn.ends[side].holder != Holder::Closed, "an end is closed once");
        conn.ends[side].holder = Holder::Closed;
        let other = conn.ends[1 - side].holder;
        if matches!(other, Holder::Closed | Holder::Unborn) {
            return self.forget(id);
        }
        if conn.ends[side].life != Life::Live {
            return;
        }
        let unread = conn.pipes[1 - side].arrived() > 0;
        if abort || unread {
            conn.pipes[side].drop_unsent();
            self.send_reset(id, 1 - side);
        } else {
            conn.pipes[side].finish();
            self.transmit(id, side);
        }
    }

    /// Takes a connection that nobody has any more out of the world.
    pub(crate) fn forget(&mut self, id: u64) {
        let Some(conn) = self.network.conns.remove(&id) else { return };
        // The server's view may be mapped to IPv6; the client's never is.
        let removed = self.network.pairs.remove(&(conn.ends[0].local, conn.ends[0].peer));
        debug_assert!(removed, "every connection has its pair of addresses");
        for timer in conn.timers.into_iter().flatten() {
            self.events.remove(timer);
        }
    }

    /// Operations on both ends are tried again.
    pub(crate) fn changed(&mut self, id: u64) {
        let Some(conn) = self.network.conn(id) else { return };
        for holder in [conn.ends[0].holder, conn.ends[1].holder] {
            if let Holder::Socket(fd) = holder {
                self.wake(fd);
            }
        }
    }

    /// The link goes down, for a while or for ever.
    pub(crate) fn link_down(&mut self, id: u64) {
        let longest = nanos(self.config.faults.black_hole_max).max(1);
        let forever = self.rng.below(4) == 0;
        let link = if forever { Link::Down } else { Link::DownUntil(self.now + self.rng.between(1, longest)) };
        self.conns_mut(id).link = link;
        if let Link::DownUntil(at) = link {
            self.events.add(at, Event::LinkUp(id));
        }
    }

    pub(crate) fn link_up(&mut self, id: u64) {
        let Some(conn) = self.network.conn_mut(id) else { return };
        conn.link = Link::Up;
        // Not tried for a new fault: a link that comes back carries something.
        for side in [0, 1] {
            if self.conns_mut(id).pipes[side].departure(1).is_some() {
                self.transmit_now(id, side);
            }
        }
    }

    /// Bytes of `side` are not acknowledged: unless the link comes back, it gives up one day.
    fn lose_patience(&mut self, id: u64, side: usize) {
        let conn = self.conns_mut(id);
        let end = &conn.ends[side];
        if conn.timers[side].is_some() || end.holder == Holder::Closed || end.life != Life::Live {
            return;
        }
        let patience = end.patience;
        let timer = self.events.add(self.now.saturating_add(patience), Event::Timeout { conn: id, side });
        self.conns_mut(id).timers[side] = Some(timer);
    }
}
