//! Members that do not read, and members that go away in the middle.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_codec::ws::CloseCode;
use plimsoll_http::{Event, Hub, HubConfig, SlowConsumer, WebSocketConfig};
use plimsoll_reactor::OPERATION_BYTES;
use plimsoll_runtime::net::{Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{Result, SendBytes, sleep, spawn, yield_now};

use super::client::{BOTH, Listener, Over, Socket, open};
use super::{hub_server, members};
use crate::rig::memory::{PAGE_BYTES, fill_but};
use crate::rig::websocket::Got;
use crate::rig::{in_simulation, on_each};

/// Publishes numbers until one that does not read has missed some, and some more; another reads all the time. What both
/// got in the end, and how many there were.
async fn slow_and_fast(policy: SlowConsumer, over: Over) -> Result<(Vec<u64>, Got, u64, Hub)> {
    let config = HubConfig { slow: policy, queue_messages_max: 8, queue_bytes_max: 1 << 20, ..HubConfig::default() };
    let hub = Hub::new(config).expect("room");
    let running = hub_server(&hub)?;
    let mut slow = open(running.address, over).await?;
    let mut fast = open(running.address, over).await?;
    members(&hub, 2).await;
    let mut last = 0;
    let mut more = 20;
    while more > 0 {
        let stats = hub.stats();
        if stats.dropped_total + stats.closed_slow_total > 0 {
            more -= 1;
        }
        last += 1;
        // About 40 KB: what a socket takes is soon full.
        hub.publish(&Event::data(&format!("{last:.<40000}"))).expect("room");
        assert_eq!(fast.text().await?.trim_end_matches('.'), last.to_string(), "one that reads is not held up");
        assert!(last < 10_000, "{:?}", hub.stats());
    }
    let held = hub.stats();
    assert!(held.held_messages <= 9, "its queue and the one on its way: {held:?}");
    let stopping = spawn(async move { numbers(&mut slow).await })?;
    let behind = hub.clone();
    // What waits for it arrives before the stop.
    while behind.stats().held_messages > 0 {
        sleep(Duration::from_millis(1)).await;
    }
    drop(fast);
    running.stop().await?;
    let (numbers, end) = stopping.await.expect("no panic")?;
    Ok((numbers, end, last, hub))
}

/// All texts to the end, without what they are padded with.
async fn numbers(member: &mut Socket) -> Result<(Vec<u64>, Got)> {
    let mut numbers = Vec::new();
    loop {
        match member.next().await? {
            Got::Text(text) => numbers.push(text.trim_end_matches('.').parse().expect("a number")),
            Got::Ping(_) => {}
            end => return Ok((numbers, end)),
        }
    }
}

fn is_ascending(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|pair| pair[0] < pair[1])
}

#[test]
fn the_newest_are_dropped() {
    for over in BOTH {
        on_each("drop newest", async || {
            let (numbers, end, last, hub) = slow_and_fast(SlowConsumer::DropNewest, over).await?;
            let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
            assert_eq!(numbers, expected, "what it got has no gap, and ends early");
            let dropped = hub.stats().dropped_total;
            assert_eq!((numbers.len() as u64 + dropped, dropped > 20), (last, true));
            assert!(matches!(end, Got::Close(_)), "{end:?}");
            Ok(())
        });
    }
}

#[test]
fn the_oldest_are_dropped() {
    for over in BOTH {
        on_each("drop oldest", async || {
            let (numbers, end, last, hub) = slow_and_fast(SlowConsumer::DropOldest, over).await?;
            assert!(is_ascending(&numbers));
            let tail = &numbers[numbers.len() - 8..];
            assert_eq!(tail, (last - 7..=last).collect::<Vec<_>>(), "what waited was the newest");
            assert_eq!(numbers.len() as u64 + hub.stats().dropped_total, last);
            assert!(matches!(end, Got::Close(_)), "{end:?}");
            Ok(())
        });
    }
}

#[test]
fn the_slow_are_closed() {
    for over in BOTH {
        on_each("close", async || {
            let (numbers, end, last, hub) = slow_and_fast(SlowConsumer::Close, over).await?;
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "without a gap, to the end");
            assert!((numbers.len() as u64) < last);
            // Told, when it reads in time.
            assert!(end == Got::Close(Some(CloseCode::TRY_LATER)) || end.is_over(), "{end:?}");
            assert_eq!(hub.stats().closed_slow_total, 1);
            Ok(())
        });
    }
}

#[test]
fn those_that_go_away_take_nothing_with_them() {
    for over in BOTH {
        on_each("disconnects", async || {
            let hub =
                Hub::new(HubConfig { queue_messages_max: 1_024, queue_bytes_max: 8 << 20, ..HubConfig::default() })
                    .expect("room");
            let running = hub_server(&hub)?;
            let mut staying = Vec::new();
            let mut leaving = Vec::new();
            for _ in 0..40 {
                staying.push(open(running.address, over).await?);
                leaving.push(open(running.address, over).await?);
            }
            members(&hub, 80).await;
            let readers = staying.into_iter().map(|mut client| {
                spawn(async move {
                    for at in 0..120_u64 {
                        assert_eq!(client.text().await?.trim_end_matches('.'), at.to_string());
                    }
                    Ok::<_, plimsoll_runtime::Error>(client)
                })
            });
            let readers: Vec<_> = readers.collect::<Result<_>>()?;
            for at in 0..120_u64 {
                hub.publish(&Event::data(&format!("{at:.<2000}"))).expect("room");
                if at % 3 == 0 {
                    leaving.pop();
                    // In the middle of a round, and between two.
                    if at % 2 == 0 {
                        sleep(Duration::from_micros(200)).await;
                    } else {
                        yield_now().await;
                    }
                }
            }
            for reader in readers {
                reader.await.expect("it got all, in order")?;
            }
            drop(leaving);
            members(&hub, 0).await;
            assert_eq!((hub.stats().held_messages, hub.stats().dropped_total), (0, 0));
            running.stop().await
        });
    }
}

/// What a peer that does not read never takes all of.
const STAYS: &[u8] = &[0; 4_096];

/// A hub that has a message for its member while there is no room for an operation, for so long; a stream of events may
/// wait for two seconds.
fn without_operations(name: &str, time: Duration, act: impl AsyncFn(&Hub, Shortage) -> Result<()>) {
    in_simulation(name, async || {
        let websocket = WebSocketConfig { send_timeout: Duration::from_secs(2), ..WebSocketConfig::default() };
        let hub = Hub::new(HubConfig { websocket, ..HubConfig::default() }).expect("room");
        let running = hub_server(&hub)?;
        act(&hub, Shortage { address: running.address, time }).await?;
        running.stop().await
    });
}

struct Shortage {
    address: SocketAddr,
    time: Duration,
}

impl Shortage {
    /// Publishes, and lets the time pass without room. How many messages were sent in that.
    async fn publish(&self, hub: &Hub) -> Result<u64> {
        members(hub, 1).await;
        // Connections whose peers read nothing: sends to them stay, more than fit into a page of operations.
        let silent = TcpListener::bind("127.0.0.1:0")?;
        let mut table = Table::detached(TableConfig::default())?;
        let count = 2 * PAGE_BYTES as usize / OPERATION_BYTES;
        table.reserve_entries(count)?;
        let mut keys = Vec::new();
        for _ in 0..count {
            keys.push(table.adopt(TcpStream::connect(silent.local_addr()).await?, ())?.key);
        }
        while keys.iter().any(|key| table.send_now(*key, STAYS).is_ok()) {
            sleep(Duration::from_millis(1)).await;
        }
        // It is not on its way to the member yet. There is room for it to wait, and none for an operation.
        hub.publish(&Event::data("late")).expect("room");
        let held = fill_but(&[64, 128, 256, 512, 1_024]);
        let are_all_sent = keys.iter().all(|key| table.send(*key, SendBytes::Static(STAYS)).is_ok());
        assert!(!are_all_sent, "all places of operations are taken");
        sleep(self.time).await;
        let sent = hub.stats().sent_total;
        drop((held, table));
        Ok(sent)
    }
}

#[test]
fn a_websocket_whose_send_finds_no_room_waits_in_the_queue_for_memory() {
    without_operations("no room for a send", Duration::from_secs(3), async |hub, shortage| {
        let mut member = open(shortage.address, Over::Http1).await?;
        // It is given room of what is kept for output.
        assert_eq!(shortage.publish(hub).await?, 1, "{:?}", hub.stats());
        assert_eq!(member.text().await?, "late");
        assert_eq!(hub.stats().closed_slow_total, 0);
        Ok(())
    });
}

#[test]
fn a_stream_of_events_whose_send_finds_no_room_for_a_while_gets_it_then() {
    without_operations("no room for events", Duration::from_millis(1_500), async |hub, shortage| {
        let mut member = Listener::open(shortage.address, Over::Http1).await?;
        assert_eq!(shortage.publish(hub).await?, 0, "{:?}", hub.stats());
        assert_eq!(member.next().await?.as_deref(), Some("data: late\n\n"), "it has waited");
        assert_eq!(hub.stats().closed_slow_total, 0);
        Ok(())
    });
}

#[test]
fn a_stream_of_events_whose_send_finds_no_room_for_long_is_too_slow() {
    without_operations("no room for events, for long", Duration::from_secs(3), async |hub, shortage| {
        let mut member = Listener::open(shortage.address, Over::Http1).await?;
        assert_eq!(shortage.publish(hub).await?, 0, "{:?}", hub.stats());
        assert_eq!(hub.stats().closed_slow_total, 1, "{:?}", hub.stats());
        assert_eq!((member.next().await?, member.ended), (None, true));
        Ok(())
    });
}
