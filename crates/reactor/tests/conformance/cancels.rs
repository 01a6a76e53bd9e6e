//! Cancelled operations: exactly one completion each, `ECANCELED` if they waited, and nothing lost.
#![forbid(unsafe_code)]

use plimsoll_reactor::{Fd, Interest, ListenOptions, Op};

use crate::bench::{Bench, Ticket};

/// Cancels an operation that waits, and asserts its answer.
fn cancel_waiting(bench: &mut Bench, ticket: Ticket) {
    bench.settle();
    assert!(bench.is_waiting(ticket), "there is nothing for it yet");
    bench.driver.cancel(ticket.key);
    let answer = bench.answer(ticket);
    assert_eq!(answer.errno(), libc::ECANCELED);
    drop(answer);
    bench.settle();
    assert!(bench.is_waiting(ticket), "a second completion");
}

/// A listener whose queue is full, so that a connect to it waits.
pub(crate) fn full_listener(bench: &mut Bench) -> (Vec<Fd>, plimsoll_reactor::Address) {
    let (listener, address) = bench.listen_with(&ListenOptions { backlog: 1, ..ListenOptions::default() });
    let mut open = vec![listener];
    for _ in 0..16 {
        let (fd, connect) = bench.start_connect(address);
        open.push(fd);
        bench.settle();
        if bench.is_waiting(connect) {
            bench.driver.cancel(connect.key);
            assert_eq!(bench.answer(connect).errno(), libc::ECANCELED);
            return (open, address);
        }
        assert_eq!(bench.answer(connect).result, Ok(0));
    }
    panic!("a queue of one that takes 16 connections");
}

pub(crate) fn cancel_accept(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let accept = bench.start(Op::Accept { listener: listener.at() });
    cancel_waiting(bench, accept);
    // The listener is as before.
    let (client, server) = bench.pair_through(&listener, address);
    for fd in [client, server, listener] {
        bench.close(fd);
    }
}

pub(crate) fn cancel_receives(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    cancel_waiting(bench, receive);
    let lease = bench.room(512);
    let receive = bench.start(Op::ReceiveInto { fd: server.at(), lease });
    bench.settle();
    bench.driver.cancel(receive.key);
    let answer = bench.answer(receive);
    assert_eq!(answer.errno(), libc::ECANCELED);
    assert!(answer.lease.expect("the lease comes back").is_empty());
    bench.close(client);
    bench.close(server);
}

pub(crate) fn cancel_send(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let send = bench.fill(&client);
    bench.driver.cancel(send.key);
    let answer = bench.answer(send);
    assert_eq!(answer.errno(), libc::ECANCELED);
    assert_eq!(answer.rest.expect("nothing was taken").as_slice().len(), 128 * 1024);
    bench.close(client);
    bench.close(server);
}

pub(crate) fn cancel_connect(bench: &mut Bench) {
    let (open, address) = full_listener(bench);
    let (client, connect) = bench.start_connect(address);
    cancel_waiting(bench, connect);
    bench.close(client);
    for fd in open {
        bench.close(fd);
    }
}

pub(crate) fn cancel_polls(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let send = bench.fill(&client);
    let polls = [(&server, Interest::PeerClosed), (&client, Interest::Readable), (&client, Interest::Writable)];
    for (fd, interest) in polls {
        let poll = bench.start(Op::Poll { fd: fd.at(), interest });
        cancel_waiting(bench, poll);
    }
    bench.driver.cancel(send.key);
    assert_eq!(bench.answer(send).errno(), libc::ECANCELED);
    bench.close(client);
    bench.close(server);
}

/// A file operation may be past the point where it can be cancelled: it ends once, one way or the other.
pub(crate) fn cancel_file_operations(bench: &mut Bench) {
    let path = bench.path("cancelled");
    let file = bench.run(Op::Open { path, flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600 }).descriptor();
    let path = bench.path("cancelled");
    let ops = [
        Op::WriteAt { fd: file.at(), lease: bench.lease(&[1; 4_096]), offset: 0 },
        Op::ReadAt { fd: file.at(), lease: bench.room(4_096), offset: 0 },
        Op::Stat { fd: file.at(), lease: bench.room(256) },
        Op::Fsync { fd: file.at(), data_only: false },
        Op::Open { path, flags: libc::O_RDONLY, mode: 0 },
    ];
    let tickets = ops.map(|op| bench.start(op));
    for ticket in tickets {
        bench.driver.cancel(ticket.key);
    }
    for ticket in tickets {
        let answer = bench.answer(ticket);
        assert!(answer.result.is_ok() || answer.errno() == libc::ECANCELED, "{:?}", answer.result);
        if let Some(fd) = answer.fd {
            bench.close(fd);
        }
    }
    bench.close(file);
}

pub(crate) fn cancel_twice(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    bench.driver.cancel(receive.key);
    bench.driver.cancel(receive.key);
    assert_eq!(bench.answer(receive).errno(), libc::ECANCELED);
    bench.driver.cancel(receive.key);
    bench.driver.orphan(receive.key);
    // A key that is gone does nothing to the operation that has its slot now.
    let next = bench.start(Op::Receive { fd: server.at() });
    bench.driver.cancel(receive.key);
    bench.send_all(&client, b"for the next");
    assert_eq!(bench.answer(next).ok().bytes, b"for the next");
    bench.close(client);
    bench.close(server);
}

/// What arrives around a cancelled receive is there for the next one, unless the receive has brought it.
pub(crate) fn cancel_loses_no_bytes(bench: &mut Bench) {
    let (client, server) = bench.pair();
    for round in 0..20_u8 {
        let receive = bench.start(Op::Receive { fd: server.at() });
        if round % 2 == 0 {
            bench.settle();
        }
        let send = bench.start_send(&client, &[round; 3]);
        if round % 3 == 0 {
            bench.settle();
        }
        bench.driver.cancel(receive.key);
        let answer = bench.answer(receive);
        let mut heard = answer.bytes.clone();
        if answer.result.is_err() {
            assert_eq!(answer.errno(), libc::ECANCELED);
        }
        assert_eq!(bench.answer(send).result, Ok(3));
        let missing = 3 - heard.len();
        heard.extend(bench.receive_exactly(&server, missing));
        assert_eq!(heard, [round; 3]);
    }
    bench.close(client);
    bench.close(server);
}
