//! A wait for memory: what lasts, what is over.
#![forbid(unsafe_code)]

use plimsoll_reactor::sim::{SimConfig, World};
use plimsoll_runtime::{MemoryLimit, Runtime, now, pool};

use super::*;
use crate::websocket::settings::{KnownSettings, Values};

const WAIT_MAX: Duration = Duration::from_secs(10);

fn in_simulation(test: impl AsyncFnOnce(Socket)) {
    let runtime = Runtime::builder().memory(MemoryLimit::mib(16)).simulate(&World::new(SimConfig::new(7)));
    runtime.expect("a simulation starts").block_on(async {
        let values = Values::new(&crate::WebSocketConfig::default(), None);
        let settings = KnownSettings::default().shared(&pool(), values, None).expect("room");
        test(Socket { consumer: Consumer::Task(None), wire: Wire::new(settings) }).await;
    });
}

/// Something found no room.
fn fail(socket: &mut Socket, retry_at: &mut Option<Instant>) {
    socket.wire.flow.block_send();
    note_wait(&mut socket.wire, retry_at);
    assert!(retry_at.is_some_and(|at| at.since(now()) <= MEMORY_RETRY) && socket.wire.is_waiting());
}

#[test]
fn a_wait_lasts_while_each_try_fails() {
    in_simulation(async |mut socket| {
        let mut retry_at = None;
        fail(&mut socket, &mut retry_at);
        for tick in 1..40 {
            sleep(MEMORY_RETRY - Duration::from_millis(1)).await;
            assert!(retry(&mut socket, &mut retry_at, WAIT_MAX));
            assert_eq!(socket.wire.flow, Flow::SendBlocked, "it is not time yet");
            sleep(Duration::from_millis(1)).await;
            assert!(retry(&mut socket, &mut retry_at, WAIT_MAX));
            assert_eq!((socket.wire.flow, socket.wire.has_waited()), (Flow::Retrying, tick * MEMORY_RETRY));
            // The task has not had its turn yet; something else came.
            note_wait(&mut socket.wire, &mut retry_at);
            fail(&mut socket, &mut retry_at);
        }
        sleep(MEMORY_RETRY).await;
        assert!(!retry(&mut socket, &mut retry_at, WAIT_MAX), "its time is over");
    });
}

#[test]
fn a_wait_that_is_over_does_not_count_for_the_next() {
    in_simulation(async |mut socket| {
        let mut retry_at = None;
        fail(&mut socket, &mut retry_at);
        for is_waiting in [true, false] {
            sleep(MEMORY_RETRY).await;
            assert!(retry(&mut socket, &mut retry_at, WAIT_MAX));
            assert_eq!((socket.wire.is_waiting(), retry_at.is_some()), (is_waiting, is_waiting));
        }
        sleep(4 * MEMORY_RETRY).await;
        assert_eq!((socket.wire.has_waited(), socket.wire.silence(now())), (Duration::ZERO, 4 * MEMORY_RETRY));
        fail(&mut socket, &mut retry_at);
        sleep(MEMORY_RETRY).await;
        assert_eq!((socket.wire.has_waited(), socket.wire.silence(now())), (MEMORY_RETRY, Duration::ZERO));
    });
}

#[test]
fn what_has_left_ends_a_wait() {
    in_simulation(async |mut socket| {
        let mut retry_at = None;
        fail(&mut socket, &mut retry_at);
        sleep(MEMORY_RETRY).await;
        assert!(retry(&mut socket, &mut retry_at, WAIT_MAX));
        socket.wire.get_on();
        note_wait(&mut socket.wire, &mut retry_at);
        assert!(!socket.wire.is_waiting() && retry_at.is_none());
        fail(&mut socket, &mut retry_at);
        sleep(2 * MEMORY_RETRY).await;
        // What leaves beside a message that has no room is not that message.
        socket.wire.get_on();
        note_wait(&mut socket.wire, &mut retry_at);
        assert_eq!(socket.wire.has_waited(), 2 * MEMORY_RETRY);
    });
}
