//! The ledger of the kernel's part comes out even, and its limit holds.

use plimsoll_pool::MemoryLimit;
use plimsoll_reactor::sim::{SimConfig, World};

use crate::net::{TcpListener, TcpStream};
use crate::{Error, Runtime, budget, sleep, spawn};

/// What the kernel holds for connections so far.
fn held() -> u64 {
    budget().kernel_bytes_estimate()
}

#[test]
fn connections_are_charged_until_they_are_closed_and_no_more_than_the_container_allows() {
    let world = World::new(SimConfig::new(1));
    let line = MemoryLimit::mib(4);
    let simulation = Runtime::builder().memory(line).simulate(&world).expect("a simulation starts");
    simulation.block_on(async {
        let one = crate::plan::kernel_per_connection(plimsoll_reactor::DriverKind::Sim);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr();
        let first = TcpStream::connect(address).await.expect("there is room");
        let (accepted, _peer) = listener.accept().await.expect("there is room");
        assert_eq!(held(), 2 * one);
        // Room for one more: 80 % of the container are the line and three connections.
        budget().set_container_bytes((line.as_bytes() + 3 * one).div_ceil(8) * 10);
        let second = TcpStream::connect(address).await.expect("there is room");
        assert_eq!(held(), 3 * one);
        let refused = TcpStream::connect(address).await.map(drop);
        assert!(matches!(refused, Err(Error::OverBudget(_))), "{refused:?}");
        let accepting = spawn(async move { listener.accept().await.map(|(stream, _peer)| (stream, listener)) });
        sleep(core::time::Duration::from_secs(1)).await;
        assert_eq!(held(), 3 * one, "accepted, and not taken in");
        drop(accepted);
        let (taken, listener) = accepting.expect("there is room").await.expect("no panic").expect("there is room now");
        assert_eq!(held(), 3 * one);
        drop((first, second, taken, listener));
        assert_eq!(held(), 0);
    });
    assert!(simulation.shutdown().is_clean());
}
