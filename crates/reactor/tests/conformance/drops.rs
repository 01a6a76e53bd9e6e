//! A driver that is dropped with operations in flight.
#![forbid(unsafe_code)]

use plimsoll_reactor::{Interest, ListenOptions, Op, SendBytes, SocketKind, Token, Wait};

use crate::bench::{Bench, refused};

/// All its leases come back and its slots are gone. Descriptors are their owner's: they are closed before, except those
/// that nobody knows of yet.
pub(crate) fn drop_in_flight(bench: &mut Bench) {
    for turns in [0, 1, 3] {
        let mut driver = bench.another_driver();
        let listener =
            driver.listen("127.0.0.1:0".parse().expect("an address"), &ListenOptions::default()).expect("a port");
        let to = driver.local_address(listener.at()).expect("bound");
        let client = driver.socket(SocketKind::Tcp4).expect("a socket");
        let address = driver.address(to).expect("the line is wide");
        let mut submit = |op| driver.submit(op, Token(1)).unwrap_or_else(|over| refused(over));
        submit(Op::Connect { fd: client.at(), address });
        let server = loop {
            driver.enter(Wait::Forever).expect("a wait");
            while driver.reap().is_some() {}
            if let Some(fd) = driver.accept_now(listener.at()).expect("an accept") {
                break fd;
            }
        };
        let path = bench.path("dropped");
        let ops = [
            Op::Accept { listener: listener.at() },
            Op::Receive { fd: server.at() },
            Op::ReceiveInto { fd: client.at(), lease: bench.room(16_384) },
            Op::Poll { fd: server.at(), interest: Interest::PeerClosed },
            Op::Send { fd: client.at(), bytes: SendBytes::Lease(bench.lease(&[3; 100_000])) },
            Op::Open { path, flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600 },
        ];
        let keys = ops.map(|op| driver.submit(op, Token(2)).unwrap_or_else(|over| refused(over)));
        for _ in 0..turns {
            driver.enter(Wait::No).expect("a look");
        }
        let report = {
            let deadline = driver.now() + core::time::Duration::from_secs(10);
            // As has to be before a close.
            let [accept, receive, ..] = keys;
            [accept, receive].into_iter().for_each(|key| driver.cancel(key));
            for fd in [server, client, listener] {
                driver.close(fd);
            }
            driver.shutdown(deadline)
        };
        assert_eq!((report.in_flight, report.leaked_bytes), (0, 0), "everything ended in time");
        drop(driver);
    }
}
