//! WebSockets whose messages come when there is no memory: they wait, and end with 1013 when there is none for too
//! long. On each driver.

use core::net::SocketAddr;
use core::time::Duration;

use crate::rig::memory;
use crate::rig::websocket::{Client, Got, echo, frame};
use crate::rig::{Running, on_each, serve, until};
use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{Config, Error, Message, Request, WebSocketConfig};
use plimsoll_runtime::{Lease, Result, budget, sleep, timeout};

/// A handler that is called, and a task.
const FORMS: [&str; 2] = ["/called", "/task"];

fn start(config: Config) -> Result<Running> {
    serve(config, |request: Request| core::future::ready(echo(&request, &WebSocketConfig::default())))
}

/// Opens, and has had a message back: the server has gone on with it after its 101.
async fn open(address: SocketAddr, path: &str) -> Result<Client> {
    let mut client = Client::open(address, path).await?;
    say(&mut client, 1).await?;
    assert_eq!(length(client.next().await?), Ok(1));
    Ok(client)
}

/// Sends a message of so many bytes: bytes that live for ever need no memory of the line.
async fn say(client: &mut Client, bytes: usize) -> Result<()> {
    client.stream.send_static(Vec::leak(frame(true, Opcode::Binary, &vec![b'm'; bytes]))).await
}

/// How long a message is that came back.
fn length(got: Got) -> core::result::Result<usize, Got> {
    match got {
        Got::Binary(bytes) => Ok(bytes.len()),
        other => Err(other),
    }
}

/// Nothing is said for a while at least.
async fn hears_nothing(client: &mut Client, time: Duration) {
    let said = timeout(time, client.next()).await;
    assert!(said.is_err(), "{said:?}");
}

/// Takes all memory, and what is given back for want of it, until nothing comes any more.
pub(super) async fn fill() -> Vec<Lease> {
    let (mut held, mut rounds_in_vain) = (Vec::new(), 0);
    while rounds_in_vain < 20 {
        let before = held.len();
        held.extend(memory::fill(1));
        rounds_in_vain = if held.len() == before { rounds_in_vain + 1 } else { 0 };
        sleep(Duration::from_millis(10)).await;
    }
    held
}

/// Makes memory short and has a message sent back then: from there on room is made before anything is received. Then
/// there is none.
async fn fill_late(client: &mut Client) -> Result<Vec<Lease>> {
    let mut held = fill().await;
    held.drain(..20);
    say(client, 10).await?;
    assert_eq!(length(client.next().await?), Ok(10));
    held.extend(fill().await);
    Ok(held)
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn a_long_message_waits_in_its_socket() {
    on_each("a long message at the line", async || {
        let running = start(lends_nothing())?;
        for form in FORMS {
            let mut client = open(running.address, form).await?;
            let held = fill_late(&mut client).await?;
            say(&mut client, 60_000).await?;
            hears_nothing(&mut client, Duration::from_millis(800)).await;
            drop(held);
            assert_eq!(length(client.next().await?), Ok(60_000), "{form}");
        }
        assert!(budget().peak() <= budget().limit().as_bytes(), "the line holds");
        running.stop().await
    });
}

#[test]
fn a_message_that_waits_for_too_long_ends_its_connection_with_a_word() {
    on_each("a message at the line, for too long", async || {
        let running = start(Config { memory_timeout: Duration::from_millis(500), ..lends_nothing() })?;
        let mut client = open(running.address, "/called").await?;
        let held = fill_late(&mut client).await?;
        say(&mut client, 5_000).await?;
        // Told without memory.
        sleep(Duration::from_millis(1_500)).await;
        drop(held);
        assert_eq!(client.next().await?, Got::Close(Some(CloseCode::TRY_LATER)));
        drop(client);
        running.stop().await
    });
}

/// What was on its way before memory got short, and is more than what is kept for those in line.
#[test]
fn what_has_no_place_to_wait_in_is_told_so() {
    on_each("too much at the line", async || {
        let running = start(lends_nothing())?;
        let mut client = open(running.address, "/called").await?;
        let held = fill().await;
        say(&mut client, 5_000).await?;
        sleep(Duration::from_millis(300)).await;
        drop(held);
        assert_eq!(client.next().await?, Got::Close(Some(CloseCode::TRY_LATER)));
        drop(client);
        running.stop().await
    });
}

/// A task that takes no message is told that its peer is gone.
#[test]
fn a_peer_that_is_gone_is_noticed_beside_a_message_that_nobody_takes() {
    on_each("a message that is not taken", async || {
        let running = serve(lends_nothing(), |request: Request| {
            let config = WebSocketConfig { ping_interval: Some(Duration::from_millis(250)), ..Default::default() };
            core::future::ready(request.upgrade_websocket(&config, |mut socket| async move {
                sleep(Duration::from_secs(4)).await;
                // One that is open takes it: the first bytes to a peer that is gone are what tells.
                let sent = socket.send(Message::text("too late")).await;
                assert!(matches!(sent, Err(Error::Disconnected)), "{sent:?}");
                let message = socket.recv().await.expect("it came before").expect("a message");
                assert_eq!(message.as_bytes().len(), 10);
            }))
        })?;
        let mut client = Client::open(running.address, "/").await?;
        say(&mut client, 10).await?;
        for _ in 0..3 {
            assert_eq!(client.next().await?, Got::Ping(Vec::new()), "it is asked all the same");
        }
        drop(client);
        until("the task ends", || running.counters.totals().active == 0).await;
        running.stop().await
    });
}
