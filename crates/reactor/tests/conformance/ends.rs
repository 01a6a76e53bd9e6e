//! How connections end, and what is seen of it.
#![forbid(unsafe_code)]

use core::time::Duration;

use plimsoll_reactor::{Interest, Op, RECEIVE_BYTES_MAX, SendBytes, Shutdown, SocketOption};

use crate::bench::{Bench, pattern};

pub(crate) fn end_of_file(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let receive = bench.start(Op::Receive { fd: server.at() });
    bench.settle();
    bench.close(client);
    let answer = bench.answer(receive);
    assert_eq!((answer.result, answer.bytes.len()), (Ok(0), 0));
    // It stays the end, for both ways to receive.
    assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
    let lease = bench.room(64);
    let answer = bench.run(Op::ReceiveInto { fd: server.at(), lease });
    assert_eq!(answer.result, Ok(0));
    assert!(answer.lease.expect("the lease comes back").is_empty());
    bench.close(server);
}

/// The end that is there when the last bytes are received raises no further edge.
pub(crate) fn end_behind_data(bench: &mut Bench) {
    for waits_first in [true, false] {
        let (client, server) = bench.pair();
        let early = waits_first.then(|| bench.start(Op::Receive { fd: server.at() }));
        bench.settle();
        bench.send_all(&client, b"goodbye");
        bench.close(client);
        bench.settle();
        let receive = early.unwrap_or_else(|| bench.start(Op::Receive { fd: server.at() }));
        assert_eq!(bench.answer(receive).ok().bytes, b"goodbye");
        assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
        bench.close(server);
    }
}

pub(crate) fn half_close(bench: &mut Bench) {
    let (client, server) = bench.pair();
    bench.send_all(&client, b"all I had");
    assert_eq!(bench.run(Op::Shutdown { fd: client.at(), how: Shutdown::Write }).result, Ok(0));
    assert_eq!(bench.receive_exactly(&server, 9), b"all I had");
    assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
    // The other half is as it was.
    bench.send_all(&server, b"thank you");
    assert_eq!(bench.receive_exactly(&client, 9), b"thank you");
    let late = bench.run(Op::Send { fd: client.at(), bytes: SendBytes::Static(b"one more") });
    assert_eq!(late.errno(), libc::EPIPE, "this half has ended");
    assert_eq!(late.rest.expect("nothing was taken").as_slice(), b"one more");
    bench.close(client);
    bench.close(server);
}

pub(crate) fn reset_seen_by_receive(bench: &mut Bench) {
    for waits_first in [true, false] {
        let (client, server) = bench.pair();
        let early = waits_first.then(|| bench.start(Op::Receive { fd: server.at() }));
        bench.settle();
        bench.driver.set_option(client.at(), SocketOption::Linger(Some(Duration::ZERO))).expect("an option");
        bench.close(client);
        bench.settle();
        let receive = early.unwrap_or_else(|| bench.start(Op::Receive { fd: server.at() }));
        assert_eq!(bench.answer(receive).errno(), libc::ECONNRESET);
        bench.close(server);
    }
}

pub(crate) fn send_after_reset(bench: &mut Bench) {
    let (client, server) = bench.pair();
    bench.driver.set_option(client.at(), SocketOption::Linger(Some(Duration::ZERO))).expect("an option");
    bench.close(client);
    bench.settle();
    let answer = bench.run(Op::Send { fd: server.at(), bytes: SendBytes::Static(b"anybody?") });
    assert!(matches!(answer.errno(), libc::ECONNRESET | libc::EPIPE), "{:?}", answer.result);
    assert_eq!(answer.rest.expect("nothing was taken").as_slice(), b"anybody?");
    let again = bench.run(Op::Send { fd: server.at(), bytes: SendBytes::Static(b"anybody?") });
    assert_eq!(again.errno(), libc::EPIPE);
    bench.close(server);
}

/// The end of the peer's half is none of the connection: that is gone when it is reset, or when our half has ended,
/// too.
pub(crate) fn gone_after_both_halves(bench: &mut Bench) {
    for is_reset in [true, false] {
        let (client, server) = bench.pair();
        assert!(!bench.driver.is_gone_now(server.at()));
        assert_eq!(bench.run(Op::Shutdown { fd: client.at(), how: Shutdown::Write }).result, Ok(0));
        assert_eq!(bench.run(Op::Poll { fd: server.at(), interest: Interest::PeerClosed }).result, Ok(0));
        assert!(!bench.driver.is_gone_now(server.at()), "it may still be reading");
        let open = if is_reset {
            bench.driver.set_option(client.at(), SocketOption::Linger(Some(Duration::ZERO))).expect("an option");
            bench.close(client);
            bench.settle();
            None
        } else {
            assert_eq!(bench.run(Op::Shutdown { fd: server.at(), how: Shutdown::Write }).result, Ok(0));
            Some(client)
        };
        assert!(bench.driver.is_gone_now(server.at()), "reset: {is_reset}");
        assert!(bench.driver.is_gone_now(server.at()), "it is not used up");
        open.into_iter().for_each(|client| bench.close(client));
        bench.close(server);
    }
}

/// A receive that fills its room exactly says nothing about what comes next.
pub(crate) fn end_in_the_middle_of_a_full_receive(bench: &mut Bench) {
    let (client, server) = bench.pair();
    let send = bench.start_send(&client, &pattern(0, RECEIVE_BYTES_MAX));
    assert_eq!(bench.answer(send).result, Ok(RECEIVE_BYTES_MAX as u32));
    bench.close(client);
    bench.settle();
    assert!(bench.receive_exactly(&server, RECEIVE_BYTES_MAX) == pattern(0, RECEIVE_BYTES_MAX));
    assert_eq!(bench.run(Op::Receive { fd: server.at() }).result, Ok(0));
    bench.close(server);
}
