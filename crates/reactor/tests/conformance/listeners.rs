//! Listening, accepting, and being refused.
#![forbid(unsafe_code)]

use plimsoll_reactor::{Error, ListenOptions, Op};

use crate::bench::Bench;

pub(crate) fn connection_refused(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    bench.close(listener);
    let (client, connect) = bench.start_connect(address);
    assert_eq!(bench.answer(connect).errno(), libc::ECONNREFUSED);
    bench.close(client);
}

pub(crate) fn accept_many_at_once(bench: &mut Bench) {
    const CLIENTS: usize = 64;
    let (listener, address) = bench.listen();
    assert_eq!(bench.driver.accept_now(listener.at()), Ok(None), "nobody is there");
    let accept = bench.start(Op::Accept { listener: listener.at() });
    let clients: Vec<_> = (0..CLIENTS).map(|_| bench.start_connect(address)).collect();
    let mut servers = vec![bench.answer(accept).descriptor()];
    for &(_, connect) in &clients {
        assert_eq!(bench.answer(connect).result, Ok(0));
    }
    while let Some(fd) = bench.driver.accept_now(listener.at()).expect("an accept") {
        servers.push(fd);
    }
    assert_eq!(servers.len(), CLIENTS);
    // The queue is empty, and the next connection is noticed all the same.
    let accept = bench.start(Op::Accept { listener: listener.at() });
    bench.settle();
    assert!(bench.is_waiting(accept));
    let (last, connect) = bench.start_connect(address);
    servers.push(bench.answer(accept).descriptor());
    assert_eq!(bench.answer(connect).result, Ok(0));
    let all = clients.into_iter().map(|(fd, _)| fd).chain(servers).chain([last, listener]);
    for fd in all.collect::<Vec<_>>() {
        bench.driver.close_now(fd);
    }
}

/// Who has connected is accepted, who connects later is not answered: until the listener is closed, and then refused.
pub(crate) fn refused_connects(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let (early, connect) = bench.start_connect(address);
    assert_eq!(bench.answer(connect).result, Ok(0));
    bench.driver.refuse_connects(listener.at()).expect("a filter");
    let (late, connect) = bench.start_connect(address);
    bench.settle();
    assert!(bench.is_waiting(connect), "nobody answers it");
    let server = bench.driver.accept_now(listener.at()).expect("an accept").expect("it waits in the queue");
    assert_eq!(bench.driver.accept_now(listener.at()), Ok(None), "the other one is not there");
    // What a connection that came out of it is sent passes the filter.
    assert_eq!(bench.driver.send_now(early.at(), b"hello"), Ok(5));
    bench.settle();
    assert_eq!(bench.driver.discard_now(server.at(), 100), Ok(5));
    bench.close(listener);
    assert_eq!(bench.answer(connect).errno(), libc::ECONNREFUSED, "it has tried again");
    for fd in [early, late, server] {
        bench.close(fd);
    }
}

pub(crate) fn address_in_use(bench: &mut Bench) {
    let (listener, address) = bench.listen_with(&ListenOptions { reuse_port: true, ..ListenOptions::default() });
    for reuse_port in [false, true] {
        let options = ListenOptions { reuse_port, ..ListenOptions::default() };
        let second = bench.driver.listen(address, &options);
        assert!(matches!(&second, Err(Error::AddressInUse(taken)) if **taken == address), "{second:?}");
    }
    bench.close(listener);
    let again = bench.driver.listen(address, &ListenOptions::default()).expect("free again");
    bench.close(again);
}

pub(crate) fn joined_listeners(bench: &mut Bench) {
    let (first, address) = bench.listen_with(&ListenOptions { reuse_port: true, ..ListenOptions::default() });
    let joining = ListenOptions { reuse_port: true, join: true, ..ListenOptions::default() };
    let second = bench.driver.listen(address, &joining).expect("it may join");
    let accepts = [bench.start(Op::Accept { listener: first.at() }), bench.start(Op::Accept { listener: second.at() })];
    let (client, connect) = bench.start_connect(address);
    assert_eq!(bench.answer(connect).result, Ok(0));
    bench.settle();
    let (taken, open): (Vec<_>, Vec<_>) = accepts.into_iter().partition(|&accept| !bench.is_waiting(accept));
    assert_eq!((taken.len(), open.len()), (1, 1), "one of them gets the connection");
    let server = bench.answer(taken[0]).descriptor();
    bench.driver.cancel(open[0].key);
    assert_eq!(bench.answer(open[0]).errno(), libc::ECANCELED);
    for fd in [client, server, first, second] {
        bench.close(fd);
    }
}

/// Accepts may queue up on one listener; each gets a connection of its own.
pub(crate) fn several_accepts(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let accepts: Vec<_> = (0..3).map(|_| bench.start(Op::Accept { listener: listener.at() })).collect();
    bench.settle();
    let clients: Vec<_> = (0..3).map(|_| bench.start_connect(address)).collect();
    let mut open = vec![listener];
    for accept in accepts {
        open.push(bench.answer(accept).descriptor());
    }
    for (fd, connect) in clients {
        assert_eq!(bench.answer(connect).result, Ok(0));
        open.push(fd);
    }
    for fd in open {
        bench.close(fd);
    }
}
