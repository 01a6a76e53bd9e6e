//! Waiting for readiness: what is there already counts, and what passed does not.
#![forbid(unsafe_code)]

use plimsoll_reactor::{Fd, Interest, Op, Shutdown};

use crate::bench::{Bench, Ticket};

fn poll(bench: &mut Bench, fd: &Fd, interest: Interest) -> Ticket {
    bench.start(Op::Poll { fd: fd.at(), interest })
}

fn assert_pending(bench: &mut Bench, ticket: Ticket) {
    bench.settle();
    assert!(bench.is_waiting(ticket), "nothing is ready");
}

fn assert_ready(bench: &mut Bench, ticket: Ticket) {
    assert_eq!(bench.answer(ticket).result, Ok(0));
}

pub(crate) fn poll_readable(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let early = poll(bench, &server, Interest::Readable);
    assert_pending(bench, early);
    bench.send_all(&client, b"x");
    assert_ready(bench, early);
    let late = poll(bench, &server, Interest::Readable);
    assert_ready(bench, late);
    assert_eq!(bench.receive_exactly(&server, 1), b"x");
    let empty = poll(bench, &server, Interest::Readable);
    assert_pending(bench, empty);
    bench.close(client);
    assert_ready(bench, empty);
    bench.close(server);
}

pub(crate) fn poll_writable(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let at_once = poll(bench, &client, Interest::Writable);
    assert_ready(bench, at_once);
    let send = bench.fill(&client);
    let full = poll(bench, &client, Interest::Writable);
    assert_pending(bench, full);
    // Room is made, for the send first or for the poll first: both go on.
    let mut drained = 0;
    while bench.is_waiting(send) || bench.is_waiting(full) {
        drained += bench.run(Op::Receive { fd: server.at() }).ok().bytes.len();
        assert!(drained < 256 << 20, "{drained} bytes were received and the socket takes none");
    }
    assert_ready(bench, full);
    bench.answer(send).ok();
    bench.close(client);
    bench.close(server);
}

pub(crate) fn poll_peer_closed(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let ended = poll(bench, &server, Interest::PeerClosed);
    assert_pending(bench, ended);
    bench.send_all(&client, b"bytes are not the end");
    assert_pending(bench, ended);
    assert_eq!(bench.run(Op::Shutdown { fd: client.at(), how: Shutdown::Write }).result, Ok(0));
    assert_ready(bench, ended);
    let late = poll(bench, &server, Interest::PeerClosed);
    assert_ready(bench, late);
    assert_eq!(bench.receive_exactly(&server, 21), b"bytes are not the end", "they were not touched");
    bench.close(client);
    bench.close(server);
}

pub(crate) fn poll_listener(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let ready = poll(bench, &listener, Interest::Readable);
    assert_pending(bench, ready);
    let (client, connect) = bench.start_connect(address);
    assert_ready(bench, ready);
    assert_eq!(bench.answer(connect).result, Ok(0));
    let server = bench.driver.accept_now(listener.at()).expect("an accept").expect("it was ready");
    for fd in [client, server, listener] {
        bench.close(fd);
    }
}

/// What a receive left behind is still there, though no edge tells of it.
pub(crate) fn poll_after_a_partial_receive(bench: &mut Bench) {
    let (client, server) = bench.pair();
    bench.send_all(&client, &[7; 500]);
    bench.settle();
    let mut lease = bench.room(64);
    while lease.spare_capacity() > 10 {
        lease.extend(&[0]);
    }
    assert_eq!(bench.run(Op::ReceiveInto { fd: server.at(), lease }).result, Ok(10));
    let ready = poll(bench, &server, Interest::Readable);
    assert_ready(bench, ready);
    assert_eq!(bench.receive_exactly(&server, 490), [7; 490]);
    bench.close(client);
    bench.close(server);
}

pub(crate) fn two_polls_on_one_descriptor(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let readable = poll(bench, &server, Interest::Readable);
    let ended = poll(bench, &server, Interest::PeerClosed);
    assert_pending(bench, readable);
    bench.send_all(&client, b"x");
    assert_ready(bench, readable);
    assert_pending(bench, ended);
    bench.close(client);
    assert_ready(bench, ended);
    bench.close(server);
}
