//! What only Unix sockets have.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::os::fd::OwnedFd;

use plimsoll_reactor::{Address, Errno, Error, Fd, ListenOptions, Op, SharedListener, SocketOption, UnixAddress};

use crate::bench::Bench;

pub(crate) fn options_of_tcp(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let second = Duration::from_secs(1);
    for option in [
        SocketOption::NoDelay(true),
        SocketOption::KeepAlive(Some(second)),
        SocketOption::NotSentLowWater(16_384),
        SocketOption::UserTimeout(second),
    ] {
        assert_eq!(bench.driver.set_option(client.at(), option), Err(Errno(libc::EOPNOTSUPP)), "{option:?}");
    }
    for option in [SocketOption::Linger(None), SocketOption::SendBuffer(65_536), SocketOption::KeepAlive(None)] {
        assert_eq!(bench.driver.set_option(client.at(), option), Ok(()), "{option:?}");
    }
    bench.close(client);
    bench.close(server);
}

/// The listener and the server's end have the path; the client's end has no name.
pub(crate) fn paths(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    assert!(address.unix().is_some_and(|at| at.as_path().is_some()), "{address}");
    let (client, server) = bench.pair_through(&listener, address);
    let unnamed = Ok(Address::Unix(UnixAddress::UNNAMED));
    assert_eq!(bench.driver.local_address(client.at()), unnamed);
    assert_eq!(bench.driver.peer_address(client.at()), Ok(address));
    assert_eq!(bench.driver.local_address(server.at()), Ok(address));
    assert_eq!(bench.driver.peer_address(server.at()), unnamed);
    assert!(matches!(
        bench.driver.listen(address, &ListenOptions::default()),
        Err(Error::AddressInUse(taken)) if *taken == address
    ));
    for fd in [client, server, listener] {
        bench.close(fd);
    }
    let nowhere = bench.fresh_address();
    refused(bench, nowhere, libc::ENOENT);
}

/// A path that a listener has left behind: nobody answers there, and the next listener takes it.
pub(crate) fn stale_path(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    bench.close(listener);
    refused(bench, address, libc::ECONNREFUSED);
    let second = bench.driver.listen(address, &ListenOptions::default()).expect("nobody listens there");
    let (client, server) = bench.pair_through(&second, address);
    for fd in [client, server, second] {
        bench.close(fd);
    }
    if bench.is_simulated() {
        return;
    }
    let at = address.unix().expect("of this family");
    let path = at.as_path().expect("of the file system");
    std::fs::remove_file(path).expect("it was left");
    std::fs::write(path, "not a socket").expect("a file");
    let told = bench.driver.listen(address, &ListenOptions::default()).expect_err("a file of somebody's");
    assert!(matches!(told, Error::AddressInUse(_)), "{told}");
    assert!(path.is_file(), "it is as it was");
    let below = UnixAddress::from_path(path.join("below")).expect("short").into();
    let told = bench.driver.listen(below, &ListenOptions::default()).expect_err("no directory");
    assert!(matches!(told, Error::AddressNotAvailable(_)), "{told}");
}

pub(crate) fn abstract_name(bench: &mut Bench) {
    let name = format!("plimsoll-conformance-{}", std::process::id());
    let address = UnixAddress::from_abstract_name(name).expect("short").into();
    let listener = bench.driver.listen(address, &ListenOptions::default()).expect("it is free");
    let (client, server) = bench.pair_through(&listener, address);
    assert_eq!(bench.driver.peer_address(client.at()), Ok(address));
    for fd in [client, server, listener] {
        bench.close(fd);
    }
    refused(bench, address, libc::ECONNREFUSED);
}

/// A connect does not wait for room in the queue.
pub(crate) fn full_queue(bench: &mut Bench) {
    let (listener, address) = bench.listen_with(&ListenOptions { backlog: 1, ..ListenOptions::default() });
    let mut open = vec![listener];
    let refusal = loop {
        let (client, connect) = bench.start_connect(address);
        open.push(client);
        match bench.answer(connect).result {
            Ok(_) => assert!(open.len() < 16, "a queue of one that takes so many"),
            Err(errno) => break errno,
        }
        bench.settle();
    };
    assert_eq!(refusal, Errno::AGAIN);
    for fd in open {
        bench.close(fd);
    }
}

/// Connections go to either driver, and go on when one of the two listeners is closed.
pub(crate) fn shared_listener(bench: &mut Bench) {
    let (first, address) = bench.listen();
    let shared = bench.driver.share(first.at()).expect("it listens");
    let second = bench.driver.join(shared).expect("of the same kind");
    assert_eq!(bench.driver.local_address(second.at()), Ok(address));
    bench.close(first);
    let (client, server) = bench.pair_through(&second, address);
    for fd in [client, server, second] {
        bench.close(fd);
    }
}

/// A socket from elsewhere is looked at before it is taken.
pub(crate) fn inherited_listener(bench: &mut Bench) {
    let (listens, connects) = (std::net::TcpListener::bind("127.0.0.1:0"), std::net::UdpSocket::bind("127.0.0.1:0"));
    let (listens, datagrams) = (listens.expect("a port"), connects.expect("a port"));
    let address = listens.local_addr().expect("bound");
    let refused = bench.driver.join(SharedListener::from(OwnedFd::from(datagrams)));
    assert!(matches!(refused, Err(Error::System { .. })), "{refused:?}");
    let joined: Result<Fd, Error> = bench.driver.join(SharedListener::from(OwnedFd::from(listens)));
    if bench.is_simulated() {
        assert!(matches!(joined, Err(Error::System { .. })), "it is no socket of that kernel: {joined:?}");
        return;
    }
    let listener = joined.expect("it listens");
    assert_eq!(bench.driver.accept_now(listener.at()).expect("it does not wait"), None);
    let (client, server) = bench.pair_through(&listener, address.into());
    for fd in [client, server, listener] {
        bench.close(fd);
    }
}

fn refused(bench: &mut Bench, address: Address, errno: i32) {
    let (client, connect) = bench.start_connect(address);
    assert_eq!(bench.answer(connect).errno(), errno);
    bench.run(Op::Close { fd: client }).ok();
}
