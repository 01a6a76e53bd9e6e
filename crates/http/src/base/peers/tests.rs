//! What is one host, and that what is kept of peers is charged as it grows.

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{MemoryLimit, Runtime};
use plimsoll_slab::{HeapChunk, Slab};

use super::*;

/// Keys of so many connections.
fn connections(count: usize) -> Vec<Key> {
    let mut slab: Slab<u8> = Slab::new(1_024);
    let key = |_| match slab.insert(0) {
        Ok(key) => key,
        Err(_) => {
            slab.grow(HeapChunk::new()).expect("fewer than there may be");
            slab.insert(0).expect("it has just grown")
        }
    };
    (0..count).map(key).collect()
}

#[test]
fn a_host_is_an_address_of_ipv4_or_a_network_of_ipv6() {
    let cases = [
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
        ("10.0.0.1", "::ffff:10.0.0.1", true),
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
        ("2001:db8::1", "10.0.0.1", false),
    ];
    for (one, other, is_same) in cases {
        let [a, b]: [IpAddr; 2] = [one, other].map(|text| text.parse().expect("an address"));
        assert_eq!(host(a) == host(b), is_same, "{one} and {other}");
        assert_eq!(host_number(a) == host_number(b), is_same, "{one} and {other}");
    }
}

#[test]
fn what_is_kept_of_peers_is_charged() {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&World::new(SimConfig::new(7)));
    runtime.expect("a simulation starts").block_on(async {
        let slots = || plimsoll_runtime::budget().charged_by(Kind::Slots);
        let before = slots();
        let config = Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() };
        let (mut peers, keys) = (Peers::new(&config, Addresses::default()), connections(1_000));
        for key in keys {
            assert_eq!(peers.accepted(key, || None), Ok(()));
            assert!(peers.awaits_proxy(key));
            assert_eq!(slots() - before, (peers.list.capacity() * size_of::<Peer>()) as u64);
        }
        assert!(peers.list.len() < 1_000 + 1_000 / 4 + PEERS_AT_ONCE, "at most by a quarter more");
        drop(peers);
        assert_eq!(slots(), before);
    });
}

#[test]
fn a_part_of_a_header_is_kept_until_the_rest_comes_or_the_connection_goes() {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&World::new(SimConfig::new(7)));
    runtime.expect("a simulation starts").block_on(async {
        let pool = plimsoll_runtime::pool();
        let config = Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() };
        let (mut peers, keys) = (Peers::new(&config, Addresses::default()), connections(2));
        keys.iter().for_each(|key| assert_eq!(peers.accepted(*key, || None), Ok(())));
        // Its page stays.
        let _another = pool.try_copy(b"PROXY ", Kind::Buffers).expect("room");
        let before = pool.used_bytes();
        for &key in &keys {
            assert!(peers.take_begun(key).is_none(), "nothing has come");
            peers.put_begun(key, pool.try_copy(b"PROXY ", Kind::Buffers).expect("room"));
            assert!(peers.awaits_proxy(key) && peers.proxied(key).is_none());
        }
        assert_eq!(peers.take_begun(keys[0]).as_deref(), Some(&b"PROXY "[..]));
        assert!(peers.awaits_proxy(keys[0]) && peers.take_begun(keys[0]).is_none());
        let address = "192.0.2.7:1".parse().expect("an address");
        assert_eq!(peers.found(keys[0], Source::Proxied(address), || None), Ok(()));
        assert!(!peers.awaits_proxy(keys[0]) && peers.take_begun(keys[0]).is_none());
        assert_eq!(peers.proxied(keys[0]), Some(address));
        assert!(pool.used_bytes() > before, "the other's is kept");
        peers.closed(keys[1]);
        assert_eq!(pool.used_bytes(), before);
    });
}
