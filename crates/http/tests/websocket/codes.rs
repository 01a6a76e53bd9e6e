//! Close codes, as one table: what a peer does, and what it hears for it, in each place where the server has a
//! WebSocket.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use plimsoll_codec::ws::{CloseCode, FrameHead, Opcode};
use plimsoll_http::{
    Config, Error, Event, Hub, HubConfig, HubHandler, Incoming, Member, Message, Request, Response, WebSocketConfig,
    WebSocketEnd, WebSocketHandler, WebSocketRef,
};
use plimsoll_runtime::{Result, budget, sleep, spawn};

use super::http2::End;
use crate::rig::websocket::{Client, Got, KEY, close, frame, text};
use crate::rig::{Running, in_simulation, on_each, serve};

/// In a task, in a handler that is called, in a hub; on a connection, and on a stream of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Task,
    Called,
    Hub,
    TaskOnStream,
    CalledOnStream,
    HubOnStream,
}

const PLACES: [Place; 6] =
    [Place::Task, Place::Called, Place::Hub, Place::TaskOnStream, Place::CalledOnStream, Place::HubOnStream];

impl Place {
    fn path(self) -> &'static str {
        match self {
            Self::Task | Self::TaskOnStream => "/task",
            Self::Called | Self::CalledOnStream => "/called",
            Self::Hub | Self::HubOnStream => "/hub",
        }
    }

    fn is_hub(self) -> bool {
        matches!(self, Self::Hub | Self::HubOnStream)
    }
}

/// A client's end.
enum Peer {
    Connection(Client),
    Stream(End),
}

impl Peer {
    async fn open(running: &Running, place: Place) -> Result<Self> {
        Ok(match place {
            Place::TaskOnStream | Place::CalledOnStream | Place::HubOnStream => {
                Self::Stream(End::open(running.address, place.path()).await?)
            }
            _ => Self::Connection(Client::open(running.address, place.path()).await?),
        })
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Connection(client) => client.send(bytes).await,
            Self::Stream(end) => end.send(bytes, 5_000).await,
        }
    }

    async fn next(&mut self) -> Result<Got> {
        match self {
            Self::Connection(client) => client.next().await,
            Self::Stream(end) => end.next().await,
        }
    }

    /// The next that is no answer to a ping.
    async fn heard(&mut self) -> Result<Got> {
        loop {
            match self.next().await? {
                Got::Pong(_) => {}
                got => return Ok(got),
            }
        }
    }
}

/// How the server's ends have ended.
type Ends = Arc<Mutex<Vec<String>>>;

/// Echoes texts.
struct Echo(Ends);

impl WebSocketHandler for Echo {
    fn message(&mut self, socket: &mut WebSocketRef<'_>, message: Message) -> core::result::Result<(), Error> {
        socket.send(message)
    }

    fn closed(&mut self, end: WebSocketEnd) {
        self.0.lock().expect("no panic").push(format!("{end:?}"));
    }
}

struct EchoInHub;

impl HubHandler for EchoInHub {
    fn message(&self, member: &Member<'_>, message: Incoming<'_>) {
        let Incoming::Text(text) = message else { return };
        member.send(&Event::data(text)).expect("room");
    }
}

async fn answer(request: Request, hub: Hub, ends: Ends) -> core::result::Result<Response, Error> {
    let config = WebSocketConfig::default();
    match request.path() {
        "/hub" => hub.join_websocket(&request),
        "/called" => request.serve_websocket(&config, Echo(ends)),
        _ => request.upgrade_websocket(&config, |mut socket| async move {
            let end = loop {
                match socket.recv().await {
                    Ok(Some(message)) => _ = socket.send(message).await,
                    end => break end,
                }
            };
            ends.lock().expect("no panic").push(format!("{end:?}"));
        }),
    }
}

fn start(ends: &Ends) -> Result<Running> {
    let (hub, ends) = (Hub::with_handler(HubConfig::default(), EchoInHub).expect("room"), Arc::clone(ends));
    serve(Config::default(), move |request: Request| answer(request, hub.clone(), Arc::clone(&ends)))
}

/// What a peer sends, and the code that it hears.
fn cases() -> Vec<(&'static str, Vec<u8>, CloseCode)> {
    let length_first = FrameHead::message(Opcode::Binary, 1 << 40).masked(KEY).encode().as_bytes().to_vec();
    let fragments = [frame(false, Opcode::Binary, b"a"), frame(false, Opcode::Continuation, b"").repeat(200)];
    vec![
        ("a length beyond all limits, and nothing of it", length_first, CloseCode::TOO_LARGE),
        ("a text without a mask", vec![0x81, 1, b'x'], CloseCode::PROTOCOL),
        ("bytes without a mask", vec![0x82, 1, b'x'], CloseCode::PROTOCOL),
        ("a text that is no UTF-8", frame(true, Opcode::Text, b"\xED\xA0\x80"), CloseCode::INVALID),
        ("too many fragments", fragments.concat(), CloseCode::POLICY),
        // No more than a stream's window, and than are cut off.
        ("too many pings", frame(true, Opcode::Ping, b"").repeat(1_200), CloseCode::POLICY),
        ("a close with a code of its own", close(4_321), CloseCode(4_321)),
        ("a close in the usual way", close(1_000), CloseCode::NORMAL),
    ]
}

#[test]
fn what_a_peer_does_is_answered_with_its_code() {
    on_each("codes", async || {
        let running = start(&Ends::default())?;
        for place in PLACES {
            let mut honest = Peer::open(&running, place).await?;
            let mut cases = cases();
            if place.is_hub() {
                // Members send little, if nothing else is asked for.
                cases.push(("a message", frame(true, Opcode::Binary, &[0; 70_000]), CloseCode::TOO_LARGE));
            }
            for (what, bytes, code) in cases {
                let before = budget().charged();
                let mut peer = Peer::open(&running, place).await?;
                // The end may come before all was sent.
                let _may_be_gone = peer.send(&bytes).await;
                assert_eq!(peer.heard().await?, Got::Close(Some(code)), "{place:?}: {what}");
                let end = peer.next().await?;
                assert_eq!(end, Got::End, "{place:?}: {what}");
                assert!(budget().charged() < before + (1 << 20), "{place:?}: {what}");
                honest.send(&text(what)).await?;
                assert_eq!(honest.next().await?, Got::Text(what.to_owned()), "{place:?}: beside {what}");
            }
        }
        running.stop().await
    });
}

/// Who answers pings stays; a minute of silence ends the others, and so does a message without an end. Their tasks and
/// handlers learn of it.
#[test]
fn who_is_silent_or_never_ends_is_asked_and_then_told() {
    in_simulation("keep-alive", async || {
        let ends = Ends::default();
        let running = start(&ends)?;
        for place in PLACES {
            let mut answers = Peer::open(&running, place).await?;
            for _ in 0..5 {
                assert_eq!(answers.next().await?, Got::Ping(Vec::new()), "{place:?}");
                answers.send(&frame(true, Opcode::Pong, b"")).await?;
            }
            let mut silent = Peer::open(&running, place).await?;
            assert_eq!(silent.next().await?, Got::Ping(Vec::new()), "{place:?}");
            assert_eq!(silent.next().await?, Got::Close(Some(CloseCode::POLICY)), "{place:?}: silent");
            assert!(silent.next().await?.is_over(), "{place:?}: silent");
            let mut slow = Peer::open(&running, place).await?;
            slow.send(&frame(false, Opcode::Text, b"a")).await?;
            let mut got = slow.next().await?;
            while got == Got::Ping(Vec::new()) {
                slow.send(&frame(true, Opcode::Pong, b"")).await?;
                got = slow.next().await?;
            }
            assert_eq!(got, Got::Close(Some(CloseCode::POLICY)), "{place:?}: never ends");
            drop((answers, silent, slow));
            sleep(Duration::from_secs(120)).await;
            let ends = core::mem::take(&mut *ends.lock().expect("no panic"));
            assert_eq!(ends.len(), if place.is_hub() { 0 } else { 3 }, "{place:?}: {ends:?}");
            let count = |kind: &str| ends.iter().filter(|end| end.contains(kind)).count();
            // The first one may have been silent, too, before it went away.
            assert_eq!(count("TimedOut") + count("Disconnected"), ends.len(), "{place:?}: {ends:?}");
            assert!(place.is_hub() || count("TimedOut") >= 2, "{place:?}: {ends:?}");
        }
        running.stop().await
    });
}

#[test]
fn at_the_stop_all_hear_that_the_server_goes_away() {
    on_each("stop", async || {
        let running = start(&Ends::default())?;
        let mut peers = Vec::new();
        for place in PLACES {
            let mut peer = Peer::open(&running, place).await?;
            peer.send(&text("x")).await?;
            assert_eq!(peer.next().await?, Got::Text("x".into()), "{place:?}");
            peers.push(spawn(async move {
                let told = peer.next().await?;
                peer.send(&close(1_001)).await?;
                Ok::<_, plimsoll_runtime::Error>((place, told, peer.next().await?))
            })?);
        }
        let counters = running.counters.clone();
        running.stop().await?;
        for peer in peers {
            let (place, told, end) = peer.await.expect("no panic")?;
            assert_eq!(told, Got::Close(Some(CloseCode::GOING_AWAY)), "{place:?}");
            assert_eq!(end, Got::End, "{place:?}");
        }
        let totals = counters.totals();
        assert_eq!((totals.parked, totals.active), (0, 0));
        Ok(())
    });
}
