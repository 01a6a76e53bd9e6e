//! Operations whose owner is gone: nothing they held or brought is left, whenever it goes. The bench counts descriptors
//! and leases afterwards.
#![forbid(unsafe_code)]

use plimsoll_reactor::{Fd, Interest, Op, Shutdown};

use crate::bench::Bench;
use crate::cancels::full_listener;

/// Every kind of operation on sockets, with something for it to wait on.
fn socket_ops<'fd>(bench: &mut Bench, listener: &'fd Fd, fd: &'fd Fd) -> Vec<Op<'fd>> {
    vec![
        Op::Accept { listener: listener.at() },
        Op::Receive { fd: fd.at() },
        Op::Poll { fd: fd.at(), interest: Interest::Readable },
        Op::Poll { fd: fd.at(), interest: Interest::PeerClosed },
        Op::Poll { fd: listener.at(), interest: Interest::Readable },
        Op::ReceiveInto { fd: fd.at(), lease: bench.room(4_096) },
    ]
}

pub(crate) fn orphan_at_once(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let (client, server) = bench.pair_through(&listener, address);
    let mut ops = socket_ops(bench, &listener, &server);
    ops.push(Op::Send { fd: server.at(), bytes: plimsoll_reactor::SendBytes::Lease(bench.lease(b"perhaps")) });
    ops.push(Op::Shutdown { fd: server.at(), how: Shutdown::Both });
    for op in ops {
        let ticket = bench.start(op);
        bench.driver.orphan(ticket.key);
    }
    let (fresh, connect) = bench.start_connect(address);
    bench.driver.orphan(connect.key);
    bench.until_idle();
    for fd in [fresh, client, server, listener] {
        bench.close(fd);
    }
}

pub(crate) fn orphan_while_waiting(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let (client, server) = bench.pair_through(&listener, address);
    for op in socket_ops(bench, &listener, &server) {
        let ticket = bench.start(op);
        bench.settle();
        assert!(bench.is_waiting(ticket));
        bench.driver.orphan(ticket.key);
        bench.until_idle();
    }
    let send = bench.fill(&client);
    bench.driver.orphan(send.key);
    let (open, full) = full_listener(bench);
    let (fresh, connect) = bench.start_connect(full);
    bench.settle();
    bench.driver.orphan(connect.key);
    bench.until_idle();
    for fd in open.into_iter().chain([fresh, client, server, listener]) {
        bench.close(fd);
    }
}

/// What they wait for is there, and the completion has perhaps been taken from the kernel, but not by the owner.
pub(crate) fn orphan_when_ready(bench: &mut Bench) {
    for looks in [false, true] {
        let (listener, address) = bench.listen();
        let (client, server) = bench.pair_through(&listener, address);
        let ops = socket_ops(bench, &listener, &server);
        let tickets: Vec<_> = ops.into_iter().map(|op| bench.start(op)).collect();
        bench.settle();
        assert!(tickets.iter().all(|&ticket| bench.is_waiting(ticket)));
        // From here on nothing is reaped but by `settle`, after the owners are gone.
        bench
            .driver
            .submit(
                Op::Send { fd: client.at(), bytes: plimsoll_reactor::SendBytes::Static(b"too late") },
                plimsoll_reactor::Token(0),
            )
            .unwrap_or_else(|refused| crate::bench::refused(refused));
        let connecting = bench.driver.socket(plimsoll_reactor::SocketKind::Tcp4).expect("a socket");
        let address = bench.driver.address(address).expect("the line is wide");
        let connect = bench
            .driver
            .submit(Op::Connect { fd: connecting.at(), address }, plimsoll_reactor::Token(0))
            .unwrap_or_else(|refused| crate::bench::refused(refused));
        bench.driver.disown(connect);
        if looks {
            bench.driver.enter(plimsoll_reactor::Wait::No).expect("a look");
        }
        for ticket in &tickets {
            bench.driver.orphan(ticket.key);
        }
        while bench.driver.in_flight() > 0 {
            // The send's own completion comes with the token of nobody.
            let _ = bench.driver.reap();
            if bench.driver.in_flight() > 0 {
                bench.driver.enter(plimsoll_reactor::Wait::Forever).expect("a wait");
            }
        }
        // The connection that the orphaned accept may have taken is closed; else it is still in the queue.
        while let Some(fd) = bench.driver.accept_now(listener.at()).expect("an accept") {
            bench.driver.close_now(fd);
        }
        for fd in [connecting, client, server, listener] {
            bench.close(fd);
        }
    }
}

pub(crate) fn orphan_file_operations(bench: &mut Bench) {
    let path = bench.path("orphaned");
    let file = bench.run(Op::Open { path, flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600 }).descriptor();
    for looks in [0, 1, 5] {
        let path = bench.path("orphaned");
        let ops = [
            Op::WriteAt { fd: file.at(), lease: bench.lease(&[1; 100_000]), offset: 0 },
            Op::ReadAt { fd: file.at(), lease: bench.room(100_000), offset: 0 },
            Op::Stat { fd: file.at(), lease: bench.room(256) },
            Op::Fsync { fd: file.at(), data_only: true },
            Op::Open { path, flags: libc::O_RDONLY, mode: 0 },
        ];
        let tickets = ops.map(|op| bench.start(op));
        for _ in 0..looks {
            bench.driver.enter(plimsoll_reactor::Wait::No).expect("a look");
        }
        for ticket in tickets {
            bench.driver.orphan(ticket.key);
        }
        let deadline = bench.driver.now() + core::time::Duration::from_secs(120);
        while bench.driver.in_flight() > 0 {
            assert!(bench.driver.now() < deadline, "they end");
            bench.driver.enter(plimsoll_reactor::Wait::Until(deadline)).expect("a wait");
            bench.reap();
        }
    }
    bench.close(file);
}

/// A disowned operation is done, though nobody hears of it.
pub(crate) fn disown(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let send = bench.start_send(&client, b"from nobody");
    bench.driver.disown(send.key);
    bench.settle();
    let end = bench.start(Op::Shutdown { fd: client.at(), how: Shutdown::Write });
    bench.driver.disown(end.key);
    assert_eq!(bench.receive_exactly(&server, 11), b"from nobody");
    assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
    assert_eq!(bench.driver.in_flight(), 0);
    // Given up after all, a disowned operation that waits ends.
    let receive = bench.start(Op::Poll { fd: server.at(), interest: Interest::PeerClosed });
    bench.answer(receive).ok();
    let receive = bench.start(Op::Receive { fd: client.at() });
    bench.driver.disown(receive.key);
    bench.settle();
    assert_eq!(bench.driver.in_flight(), 1);
    bench.driver.orphan(receive.key);
    bench.until_idle();
    bench.close(client);
    bench.close(server);
}
