//! Many connections at once, and the same descriptor numbers again and again.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use plimsoll_reactor::{Fd, Op, RECEIVE_BYTES_MAX, Wait};

use crate::bench::{Bench, Ticket, pattern};

/// Bytes of 100 connections are held, borrowed, until the end of each turn, and stay what they were.
pub(crate) fn interleaved_receives(bench: &mut Bench) {
    const CONNECTIONS: usize = 100;
    const ROUNDS: usize = 8;
    let (listener, address) = bench.listen();
    let pairs: Vec<_> = (0..CONNECTIONS).map(|_| bench.pair_through(&listener, address)).collect();
    let mut streams: HashMap<&Fd, Vec<u8>> = pairs.iter().map(|(_, server)| (server, Vec::new())).collect();
    // The sizes make some receives fill the buffer's rest, and their sum is many times the buffer.
    let sent = |connection: usize, round: usize| {
        pattern(connection * 1_000 + round, 400 + (connection * 379 + round * 1_213) % 5_000)
    };
    let mut receives: HashMap<u32, (Ticket, &Fd)> = HashMap::new();
    for (_, server) in &pairs {
        let receive = bench.start(Op::Receive { fd: server.at() });
        receives.insert(receive.key.index(), (receive, server));
    }
    let mut lent_max = 0;
    for round in 0..ROUNDS {
        let mut expected: usize = 0;
        let mut sends = Vec::new();
        for (connection, (client, _)) in pairs.iter().enumerate() {
            let bytes = sent(connection, round);
            expected += bytes.len();
            sends.push((bench.start_send(client, &bytes), bytes.len()));
        }
        let mut open: HashSet<u32> = sends.iter().map(|(ticket, _)| ticket.key.index()).collect();
        let deadline = bench.driver.now() + core::time::Duration::from_secs(120);
        while expected > 0 || !open.is_empty() {
            assert!(bench.driver.now() < deadline, "{expected} bytes and {} sends are missing", open.len());
            bench.driver.enter(Wait::No).expect("a look");
            bench.pass_time();
            bench.driver.enter(Wait::Until(deadline)).expect("a wait");
            let mut held = Vec::new();
            while let Some(completion) = bench.driver.reap() {
                match completion.payload {
                    plimsoll_reactor::Payload::Received(received) => {
                        let (_, fd) = receives.remove(&completion.key.index()).expect("a receive of ours");
                        held.push((fd, received.to_vec(), received));
                    }
                    plimsoll_reactor::Payload::Sent(rest) => {
                        assert!(rest.is_empty(), "a few kilobytes are taken at once");
                        assert!(open.remove(&completion.key.index()));
                    }
                    other => panic!("{:?} {other:?}", completion.result),
                }
            }
            lent_max = lent_max.max(held.len());
            for (fd, copy, received) in held {
                assert!(copy == *received, "lent bytes changed within the turn");
                expected -= copy.len();
                streams.get_mut(&fd).expect("one of ours").extend(copy);
                drop(received);
                let receive = bench.start(Op::Receive { fd: fd.at() });
                receives.insert(receive.key.index(), (receive, fd));
            }
        }
    }
    assert!(lent_max > 5, "several receives were lent at once");
    for (connection, (_, server)) in pairs.iter().enumerate() {
        let whole: Vec<u8> = (0..ROUNDS).flat_map(|round| sent(connection, round)).collect();
        assert!(streams[server] == whole, "the stream of connection {connection}");
    }
    for (receive, _) in receives.into_values() {
        bench.driver.orphan(receive.key);
    }
    bench.settle();
    for fd in pairs.into_iter().flat_map(|(client, server)| [client, server]).chain([listener]) {
        bench.close(fd);
    }
}

/// Whoever keeps received bytes is told when receives wait for their room, and only then.
pub(crate) fn lent_buffers_are_missed(bench: &mut Bench) {
    const CONNECTIONS: usize = 80;
    let (listener, address) = bench.listen();
    let pairs: Vec<_> = (0..CONNECTIONS).map(|_| bench.pair_through(&listener, address)).collect();
    let bytes = pattern(3, RECEIVE_BYTES_MAX);
    for (client, _) in &pairs {
        bench.send_all(client, &bytes);
    }
    let mut open = CONNECTIONS;
    for (_, server) in &pairs {
        bench.start(Op::Receive { fd: server.at() });
    }
    assert!(!bench.driver.is_short_of_buffers(), "nothing is lent");
    let deadline = bench.driver.now() + core::time::Duration::from_secs(120);
    let mut times = 0;
    while open > 0 {
        let mut held = Vec::new();
        while open > 0 && !bench.driver.is_short_of_buffers() {
            assert!(bench.driver.now() < deadline, "{open} receives have no answer");
            // Not for long: that receives wait for room is no completion.
            let soon = bench.driver.now() + core::time::Duration::from_millis(1);
            bench.driver.enter(Wait::Until(soon)).expect("a wait");
            while let Some(completion) = bench.driver.reap() {
                let plimsoll_reactor::Payload::Received(received) = completion.payload else {
                    panic!("{:?} {:?}", completion.result, completion.payload)
                };
                held.push(received);
                open -= 1;
            }
        }
        assert!(!held.is_empty(), "what nobody keeps is not missed");
        times += usize::from(open > 0);
        drop(held);
    }
    assert!(times > 0, "{CONNECTIONS} receives fill all buffers");
    for fd in pairs.into_iter().flat_map(|(client, server)| [client, server]).chain([listener]) {
        bench.driver.close_now(fd);
    }
}

/// The lowest number is given out again at once: what was remembered of its last owner must be gone.
pub(crate) fn descriptor_numbers_reused(bench: &mut Bench) {
    let (listener, address) = bench.listen();
    let mut numbers = HashSet::new();
    for round in 0..30_u8 {
        let (client, server) = bench.pair_through(&listener, address);
        numbers.extend([client.raw(), server.raw()]);
        let receive = bench.start(Op::Receive { fd: server.at() });
        let mut both = vec![server];
        match round % 5 {
            // Closed while it waits, its bytes arriving, its end arriving, after its end, after a plain exchange.
            0 => {
                bench.driver.orphan(receive.key);
                both.push(client);
            }
            1 => {
                bench.send_all(&client, b"never read");
                bench.driver.orphan(receive.key);
                both.push(client);
            }
            2 => {
                bench.driver.close_now(client);
                bench.driver.orphan(receive.key);
            }
            3 => {
                bench.driver.close_now(client);
                assert_eq!(bench.answer(receive).result, Ok(0));
            }
            _ => {
                bench.send_all(&client, &[round]);
                assert_eq!(bench.answer(receive).ok().bytes, [round]);
                both.push(client);
            }
        }
        if round % 2 == 0 {
            bench.settle();
        }
        for fd in both {
            bench.driver.close_now(fd);
        }
    }
    assert!(numbers.len() < 30, "numbers were reused: {numbers:?}");
    bench.settle();
    bench.close(listener);
}
