//! What is known of peers beside their sockets: the address that a PROXY header told, for whom a proxy asks, and how
//! many connections an address has. Only where the configuration asks for one of them is anything kept, and that is
//! charged.

use ::core::cell::Cell;
use ::core::net::{IpAddr, Ipv4Addr, SocketAddr};
use ::core::time::Duration;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use plimsoll_pool::{Charge, Kind, Lease};
use plimsoll_runtime::net::Address;
use plimsoll_slab::Key;

use crate::base::config::{Config, ProxyProtocol};
use crate::base::known_peers::KnownPeers;

/// What an address in the map is charged: its key and count, at half-full nodes, with their share of inner nodes.
const ADDRESS_BYTES: u64 = 64;
/// Peers grow by a multiple of so many.
const PEERS_AT_ONCE: usize = 128;

/// How often it is looked at whether a peer that has ended its half is still there, while nothing is sent that would
/// tell.
pub(crate) const PEER_LOOK: Duration = Duration::from_secs(1);

/// There is no room for one more connection of this peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// Connections by peer address, of all workers of a server.
#[derive(Clone, Default)]
pub(crate) struct Addresses(Arc<Mutex<BTreeMap<u128, Held>>>);

struct Held {
    connections: u32,
    _charge: Charge,
}

impl Addresses {
    fn enter(&self, host: u128, connections_max: u32) -> Result<(), Refused> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map.entry(host) {
            Entry::Occupied(held) if held.get().connections >= connections_max => return Err(Refused),
            Entry::Occupied(mut held) => held.get_mut().connections += 1,
            Entry::Vacant(place) => {
                let charge = plimsoll_runtime::budget().charge(Kind::Slots, ADDRESS_BYTES).map_err(|_| Refused)?;
                place.insert(Held { connections: 1, _charge: charge });
            }
        }
        Ok(())
    }

    fn leave(&self, host: u128) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut held) = map.entry(host) {
            held.get_mut().connections -= 1;
            if held.get().connections == 0 {
                held.remove();
            }
        }
    }
}

/// A host, as connections are counted: an IPv4 address, or the /64 of an IPv6 address, since a host has all of that.
fn host(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits() >> 64 << 64,
    }
}

/// A [`host`] in half the bytes: IPv4 addresses use the lower half, networks of IPv6 the upper.
pub(crate) fn host_number(address: IpAddr) -> u64 {
    let host = host(address);
    (host >> 64) as u64 ^ host as u64
}

/// The peer's address as one of IP: that of this host for a client of a Unix socket, which has none.
pub(crate) fn by_ip(address: Address) -> SocketAddr {
    address.ip().unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The socket's peer: the proxy's own connection, or there is no proxy.
    Socket,
    /// What the proxy said.
    Proxied(SocketAddr),
}

/// What is known of where a connection comes from.
#[derive(Default)]
enum Origin {
    /// Its PROXY header is to come.
    #[default]
    Awaited,
    /// So much of it has come before a handshake. Without one it is kept where heads are.
    Begun(Lease),
    Known(Source),
}

#[derive(Default)]
struct Peer {
    origin: Origin,
    /// As what it is counted.
    host: Option<u128>,
    /// For whom its request is, as a trusted proxy says: see [`host_number`].
    client: Option<u64>,
}

/// One worker's peers, by the index of their connection.
pub(crate) struct Peers {
    has_proxy: bool,
    has_forwarders: bool,
    connections_max: Option<u32>,
    addresses: Addresses,
    list: Vec<Peer>,
    charge: Option<Charge>,
    /// The connection that was asked about last, and its address: a request asks several times, and the system each
    /// time.
    asked: Cell<Option<(Key, u64)>>,
    known: KnownPeers,
}

impl Peers {
    pub(crate) fn new(config: &Config, addresses: Addresses) -> Self {
        Self {
            has_proxy: config.proxy_protocol == ProxyProtocol::Required,
            has_forwarders: !config.forwarded_from.is_empty(),
            connections_max: config.connections_per_address_max,
            addresses,
            list: Vec::new(),
            charge: None,
            asked: Cell::new(None),
            known: KnownPeers::default(),
        }
    }

    /// Whether anything is kept at all.
    fn is_kept(&self) -> bool {
        self.has_proxy || self.has_forwarders || self.connections_max.is_some()
    }

    /// A connection was accepted. `socket` is asked for its peer's address if that is needed.
    pub(crate) fn accepted(&mut self, key: Key, socket: impl FnOnce() -> Option<SocketAddr>) -> Result<(), Refused> {
        self.asked.set(None);
        if !self.is_kept() {
            return Ok(());
        }
        self.grow(key.index() as usize + 1)?;
        self.list[key.index() as usize] = Peer::default();
        if self.has_proxy {
            return Ok(());
        }
        self.found(key, Source::Socket, socket)
    }

    /// It is known where a connection comes from.
    pub(crate) fn found(
        &mut self,
        key: Key,
        source: Source,
        socket: impl FnOnce() -> Option<SocketAddr>,
    ) -> Result<(), Refused> {
        let Some(peer) = self.list.get_mut(key.index() as usize) else { return Err(Refused) };
        debug_assert!(peer.host.is_none(), "a connection is counted once");
        peer.origin = Origin::Known(source);
        self.asked.set(None);
        let Some(connections_max) = self.connections_max else { return Ok(()) };
        let address = match source {
            Source::Proxied(address) => Some(address),
            Source::Socket => socket(),
        };
        // Without an address it was reset already.
        let Some(address) = address else { return Ok(()) };
        let host = host(address.ip());
        self.addresses.enter(host, connections_max)?;
        peer.host = Some(host);
        Ok(())
    }

    /// A connection was closed.
    pub(crate) fn closed(&mut self, key: Key) {
        let host = self.released(key);
        self.left(host);
    }

    /// A connection leaves the table and stays open: what it is counted under, for [`left`](Self::left).
    pub(crate) fn released(&mut self, key: Key) -> Option<u128> {
        self.known.forget(key);
        self.list.get_mut(key.index() as usize).and_then(|peer| ::core::mem::take(peer).host)
    }

    /// A connection that is counted under this was closed.
    pub(crate) fn left(&self, host: Option<u128>) {
        if let Some(host) = host {
            self.addresses.leave(host);
        }
    }

    /// Whether the connection's PROXY header is still to come.
    pub(crate) fn awaits_proxy(&self, key: Key) -> bool {
        self.has_proxy
            && self.list.get(key.index() as usize).is_some_and(|peer| !matches!(peer.origin, Origin::Known(_)))
    }

    /// What has come of a PROXY header before a handshake, until it is put back or the rest has come.
    pub(crate) fn take_begun(&mut self, key: Key) -> Option<Lease> {
        let peer = self.list.get_mut(key.index() as usize)?;
        match ::core::mem::take(&mut peer.origin) {
            Origin::Begun(bytes) => Some(bytes),
            other => {
                peer.origin = other;
                None
            }
        }
    }

    /// So much of a PROXY header has come before a handshake.
    pub(crate) fn put_begun(&mut self, key: Key, bytes: Lease) {
        debug_assert!(self.awaits_proxy(key), "it is read once");
        if let Some(peer) = self.list.get_mut(key.index() as usize) {
            peer.origin = Origin::Begun(bytes);
        }
    }

    /// The address that a PROXY header told.
    pub(crate) fn proxied(&self, key: Key) -> Option<SocketAddr> {
        match self.list.get(key.index() as usize)?.origin {
            Origin::Known(Source::Proxied(address)) => Some(address),
            Origin::Known(Source::Socket) | Origin::Awaited | Origin::Begun(_) => None,
        }
    }

    /// The address of a connection's peer. `socket` is asked for it, the first time, unless a PROXY header told it.
    pub(crate) fn address(&mut self, key: Key, socket: impl FnOnce() -> Option<SocketAddr>) -> Option<SocketAddr> {
        if let Some(address) = self.proxied(key).or_else(|| self.known.get(key)) {
            return Some(address);
        }
        let address = socket()?;
        let charge = || plimsoll_runtime::budget().charge(Kind::Slots, KnownPeers::BYTES).ok();
        self.known.put(key, address, charge);
        Some(address)
    }

    /// The [`host_number`] of a connection's peer; 0 of one without an address, which was reset. `socket` is asked for
    /// its address unless a PROXY header told one.
    pub(crate) fn number(&self, key: Key, socket: impl FnOnce() -> Option<SocketAddr>) -> u64 {
        if let Some((known, number)) = self.asked.get()
            && known == key
        {
            return number;
        }
        let number = self.proxied(key).or_else(socket).map_or(0, |peer| host_number(peer.ip()));
        self.asked.set(Some((key, number)));
        number
    }

    /// The [`number`](Self::number) of a connection's peer is known from before, unless it was for another.
    pub(crate) fn was_asked(&self, key: Key, number: u64) {
        if !self.has_forwarders {
            self.asked.set(Some((key, number)));
        }
    }

    /// For whom a connection's request is, from now on; `None` for its peer.
    pub(crate) fn is_for(&mut self, key: Key, client: Option<u64>) {
        if let Some(peer) = self.list.get_mut(key.index() as usize) {
            peer.client = client;
        }
    }

    /// For whom it is, if that is not its peer.
    pub(crate) fn client(&self, key: Key) -> Option<u64> {
        self.list.get(key.index() as usize)?.client
    }

    fn grow(&mut self, len: usize) -> Result<(), Refused> {
        if len <= self.list.len() {
            return Ok(());
        }
        // By a quarter, so that the copies of all growths together stay a few times the list.
        let more = (len - self.list.len()).max(self.list.len() / 4).next_multiple_of(PEERS_AT_ONCE);
        let bytes = (more * size_of::<Peer>()) as u64;
        match &mut self.charge {
            Some(charge) => charge.grow(bytes).map_err(|_| Refused)?,
            None => self.charge = Some(plimsoll_runtime::budget().charge(Kind::Slots, bytes).map_err(|_| Refused)?),
        }
        self.list.reserve_exact(more);
        self.list.resize_with(self.list.len() + more, Peer::default);
        Ok(())
    }
}

impl Drop for Peers {
    /// The addresses are shared with other workers.
    fn drop(&mut self) {
        for host in self.list.iter().filter_map(|peer| peer.host) {
            self.addresses.leave(host);
        }
    }
}

#[cfg(test)]
mod tests;
