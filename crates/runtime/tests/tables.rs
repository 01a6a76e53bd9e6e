//! Connection tables whose owner does something else while events wait for it: the worker goes on.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "a test that could not run says so")]

mod support;

use core::time::Duration;

use plimsoll_pool::{Class, Lease};
use plimsoll_reactor::Errno;
use plimsoll_runtime::net::{Event, Table, TableConfig, TcpListener, TcpStream};
use plimsoll_runtime::{Kind, Result, pool, timeout};

/// A table with connections that wait for bytes, and their peers.
async fn table_of(count: usize) -> Result<(Table<u64>, Vec<TcpStream>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr();
    let mut table = Table::<u64>::new(listener, TableConfig::default())?;
    let mut clients = Vec::new();
    while table.len() < count {
        clients.push(TcpStream::connect(address).await?);
        while table.len() < clients.len() {
            table.ready().await;
            while let Some(event) = table.next() {
                let Event::Accepted(key) = event else { panic!("{event:?}") };
                table.receive(key)?;
            }
        }
    }
    Ok((table, clients))
}

/// What came of `count` receives: those that brought `len` bytes each, and those whose bytes were lost.
async fn outcome(table: &mut Table<u64>, count: usize, len: usize) -> (usize, usize) {
    let (mut received, mut lost) = (0, 0);
    while received + lost < count {
        table.ready().await;
        while let Some(event) = table.next() {
            match event {
                Event::Received(_, bytes) => {
                    assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 7), "{} bytes", bytes.len());
                    received += 1;
                }
                Event::Failed(_, Errno::NOBUFS) => lost += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    (received, lost)
}

/// A connection beside the table, over which something has gone.
async fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut client = TcpStream::connect(listener.local_addr()).await?;
    let (mut server, _) = listener.accept().await?;
    client.send_static(b"first").await?;
    assert_eq!(server.recv().await?.as_deref(), Some(&b"first"[..]));
    Ok((client, server))
}

static LONG: [u8; 4_096] = [7; 4_096];

/// More than the queue of a table has places for.
#[test]
fn an_owner_may_wait_while_more_events_come_than_there_are_places_for() {
    const CONNECTIONS: usize = 300;
    support::on_each("more events than places", async || {
        let (mut table, mut clients) = table_of(CONNECTIONS).await?;
        for _ in 0..2 {
            for client in &mut clients {
                timeout(Duration::from_secs(20), client.send_static(b"\x07")).await??;
            }
            assert_eq!(outcome(&mut table, CONNECTIONS, 1).await, (CONNECTIONS, 0));
            let keys: Vec<_> = table.keys().collect();
            keys.into_iter().try_for_each(|key| table.receive(key))?;
        }
        Ok(())
    });
}

/// More than there is room for in the driver's buffers.
const BUSY: usize = 100;

#[test]
fn an_owner_may_receive_while_its_events_fill_all_buffers() {
    support::on_each("events fill all buffers", async || {
        let (mut table, mut clients) = table_of(BUSY).await?;
        let (mut client, mut server) = pair().await?;
        for client in &mut clients {
            client.send_static(&LONG).await?;
        }
        client.send_static(b"a few bytes").await?;
        let got = timeout(Duration::from_secs(20), server.recv()).await??;
        assert_eq!(got.as_deref(), Some(&b"a few bytes"[..]));
        assert_eq!(outcome(&mut table, BUSY, LONG.len()).await, (BUSY, 0));
        Ok(())
    });
}

#[test]
fn at_the_line_events_that_nobody_takes_give_the_buffers_back() {
    support::on_each("events fill all buffers at the line", async || {
        let (mut table, mut clients) = table_of(BUSY).await?;
        let (mut client, mut server) = pair().await?;
        let small: Vec<Lease> = (0..32).map_while(|_| pool().try_acquire(64, Kind::Buffers).ok()).collect();
        let mut memory = Vec::new();
        for class in Class::ALL {
            while let Ok(lease) = pool().try_acquire_class(class, Kind::Buffers) {
                memory.push(lease);
            }
        }
        for client in &mut clients {
            client.send_static(&LONG).await?;
        }
        // Small places are free, for what is waited for.
        drop(small);
        client.send_static(b"a few bytes").await?;
        let got = timeout(Duration::from_secs(20), server.recv()).await??;
        assert_eq!(got.as_deref(), Some(&b"a few bytes"[..]));
        let (_, lost) = outcome(&mut table, BUSY, LONG.len()).await;
        assert!(lost > 0, "there were buffers for all");
        drop(memory);
        Ok(())
    });
}

/// A tick of a table's timers is counted in 32 bits, a duration in more.
#[test]
fn what_is_due_in_the_far_future_is_not_due_now() {
    support::on_each("far deadlines", async || {
        let (mut table, clients) = table_of(3).await?;
        let keys: Vec<_> = table.keys().collect();
        let far = [Duration::MAX, Duration::from_secs(u32::MAX.into()), Duration::from_secs((1 << 28) - 1_000)];
        for (key, after) in keys.iter().zip(far) {
            table.schedule(*key, after);
            let in_years = table.scheduled_in(*key).map(|time| time.as_secs() / (365 * 24 * 3_600));
            assert!(in_years.is_some_and(|years| years > 7), "{in_years:?}");
        }
        let quiet = timeout(Duration::from_millis(300), table.ready()).await;
        assert!(quiet.is_err() || table.next().is_none(), "nothing is due");
        drop(clients);
        Ok(())
    });
}

#[test]
fn a_connection_behind_pages_that_were_given_back_has_a_place() {
    support::on_each("holes", async || {
        // More than a page of them.
        let (mut table, clients) = table_of(4_096 / Table::<u64>::ENTRY_BYTES + 1).await?;
        let last = table.keys().max_by_key(|key| key.index()).expect("there are some");
        let others: Vec<_> = table.keys().filter(|key| *key != last).collect();
        for key in others {
            table.close(key);
        }
        table.release_pages();
        let found: Vec<_> = (0..table.places()).filter_map(|place| table.key_at(place)).collect();
        assert_eq!(found, [last]);
        drop((table, clients));
        Ok(())
    });
}

/// The next event of a table.
async fn next_of(table: &mut Table<u64>) -> Event {
    loop {
        if let Some(event) = table.next() {
            return event;
        }
        table.ready().await;
    }
}

#[test]
fn who_finds_no_room_is_told_and_closed() {
    support::on_each("turned away", async || {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr();
        let config = TableConfig { connections_max: 1, turned_away: b"full", ..TableConfig::default() };
        let mut table = Table::<u64>::new(listener, config)?;
        let _first = TcpStream::connect(address).await?;
        let Event::Accepted(key) = next_of(&mut table).await else { panic!("there is room for one") };
        for _ in 0..300 {
            let mut other = TcpStream::connect(address).await?;
            assert!(matches!(next_of(&mut table).await, Event::TurnedAway));
            assert_eq!(other.recv().await?.as_deref(), Some(&b"full"[..]));
            assert!(other.recv().await?.is_none(), "it is closed");
        }
        table.close(key);
        let _next = TcpStream::connect(address).await?;
        assert!(matches!(next_of(&mut table).await, Event::Accepted(_)), "there is room again");
        Ok(())
    });
}
