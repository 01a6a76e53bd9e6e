//! Hubs: what their members get, and what becomes of slow ones. On each driver, and on several workers.
#![allow(clippy::print_stdout, reason = "a figure beside what is asserted")]

mod client;
mod slow;
mod workers;

use core::time::Duration;
use std::sync::{Arc, Mutex};

use crate::http2::End;
use crate::rig::memory::{PAGE_BYTES, held_but_pages, held_bytes};
use crate::rig::websocket::{Client, Got, close, frame, text};
use crate::rig::{Running, in_simulation, on_each, read, serve};
use client::{BOTH, Listener, Over, assert_closed, open, open_and_say};
use plimsoll_codec::ws::{CloseCode, Opcode};
use plimsoll_http::{
    Config, Event, Hub, HubConfig, HubHandler, Incoming, MEMBER_BYTES, Member, MemberId, Request, Response,
    WebSocketConfig,
};
use plimsoll_reactor::OPERATION_BYTES;
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Result, sleep, spawn};

/// A server of a hub: `/ws` and anything else for events.
pub(crate) fn hub_server(hub: &Hub) -> Result<Running> {
    let hub = hub.clone();
    serve(Config::default(), move |request: Request| answer(hub.clone(), request))
}

async fn answer(hub: Hub, request: Request) -> Result<Response, plimsoll_http::Error> {
    match request.path() {
        "/ws" => hub.join_websocket(&request),
        _ => hub.join_events(request).await,
    }
}

/// Waits until a hub has so many members.
pub(crate) async fn members(hub: &Hub, count: u32) {
    while hub.stats().members != count {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn all_get_the_same_in_order() {
    on_each("same", async || {
        let hub = Hub::new(HubConfig::default()).expect("room");
        let running = hub_server(&hub)?;
        let mut sockets = [open(running.address, Over::Http1).await?, open(running.address, Over::Http2).await?];
        let mut listeners =
            [Listener::open(running.address, Over::Http1).await?, Listener::open(running.address, Over::Http2).await?];
        let mut here = hub.subscribe().expect("room");
        members(&hub, 4).await;
        for at in 0..50_u64 {
            let (data, id) = (format!("message {at}\nof 50"), at.to_string());
            let number = hub.publish(&Event::data(&data).event("m").id(&id)).expect("room");
            assert_eq!(number, at + 1);
            if at % 7 == 0 {
                sleep(Duration::from_millis(1)).await;
            }
        }
        assert_eq!(hub.publish_binary(&[0xFF, 0]).expect("room"), 51);
        for at in 0..50_u64 {
            let data = format!("message {at}\nof 50");
            for socket in &mut sockets {
                assert_eq!(socket.text().await?, data);
            }
            for listener in &mut listeners {
                let event = listener.next().await?.expect("an event");
                assert_eq!(event, format!("event: m\nid: {at}\ndata: message {at}\ndata: of 50\n\n"));
            }
            let post = here.recv().await.expect("not slow");
            assert_eq!((post.number(), post.as_text()), (at + 1, Some(data.as_str())));
        }
        for socket in &mut sockets {
            assert_eq!(socket.next().await?, Got::Binary(vec![0xFF, 0]), "for WebSockets alone");
        }
        assert_eq!(here.recv().await.expect("not slow").as_bytes(), [0xFF, 0]);
        let stats = hub.stats();
        assert_eq!((stats.members, stats.published_total, stats.dropped_total), (4, 51, 0));
        drop((sockets, listeners, here));
        members(&hub, 0).await;
        let stats = hub.stats();
        assert_eq!((stats.sent_total, stats.held_messages, stats.held_bytes), (51 + 51 + 50 + 50, 0, 0));
        running.stop().await
    });
}

/// Two hubs that carry each other's messages: each member gets each message once, and none comes back.
#[test]
fn taps_carry_what_was_published_here_and_nothing_else() {
    on_each("taps", async || {
        let hubs =
            [(); 2].map(|()| Hub::new(HubConfig { queue_messages_max: 8, ..HubConfig::default() }).expect("room"));
        let mut taps = [hubs[0].tap().expect("room"), hubs[1].tap().expect("room")];
        let mut here = [hubs[0].subscribe().expect("room"), hubs[1].subscribe().expect("room")];
        for at in 0..4 {
            hubs[at % 2].publish(&Event::data(&format!("message {at}"))).expect("room");
        }
        hubs[0].publish_binary(&[0xFF]).expect("room");
        for at in 0..4 {
            let post = taps[at % 2].recv().await.expect("not slow");
            let text = post.as_text().expect("a text");
            assert_eq!(text, format!("message {at}"));
            hubs[1 - at % 2].post_from_elsewhere(&Event::data(text)).expect("room");
        }
        let bytes = taps[0].recv().await.expect("not slow");
        hubs[1].post_binary_from_elsewhere(bytes.as_bytes()).expect("room");
        for (hub, (here, order)) in hubs.iter().zip(here.iter_mut().zip([[0, 2, 1, 3], [1, 3, 0, 2]])) {
            let mut texts = Vec::new();
            for _ in 0..5 {
                let post = here.recv().await.expect("not slow");
                texts.extend(post.as_text().map(str::to_owned));
                assert!(post.as_text().is_some() || post.as_bytes() == [0xFF]);
            }
            assert_eq!(texts, order.map(|at| format!("message {at}")));
            assert_eq!(hub.stats().published_total, 5);
        }
        // What comes from elsewhere takes no place of a tap, and what it has no place for is counted.
        for at in 0..20 {
            hubs[0].post_from_elsewhere(&Event::data("far")).expect("room");
            if at % 2 == 0 {
                hubs[0].publish(&Event::data(&format!("near {at}"))).expect("room");
            }
        }
        let first = taps[0].recv().await.expect("not slow");
        assert_eq!((first.as_text(), taps[0].take_missed()), (Some("near 4"), 2));
        // Three came before: two texts and the bytes.
        assert_eq!((taps[0].position(), taps[0].take_missed()), (3 + 2 + 1, 0));
        taps[0].recv().await.expect("not slow");
        assert_eq!(taps[0].position(), 7);
        Ok(())
    });
}

/// Echoes to the member alone, and notes what happens.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn note(&self, what: String) {
        self.0.lock().expect("no panic").push(what);
    }
}

impl HubHandler for Notes {
    fn joined(&self, member: &Member<'_>) {
        self.note(format!("joined {}", member.id().0));
        member.send(&Event::data("welcome")).expect("room");
    }

    fn message(&self, member: &Member<'_>, message: Incoming<'_>) {
        match message {
            Incoming::Text("leave") => member.close(CloseCode(4_000)),
            Incoming::Text("panic") => panic!("asked for"),
            Incoming::Text("all") => {
                member.hub().publish(&Event::data("all")).expect("room");
            }
            Incoming::Text(text) => member.send(&Event::data(text)).expect("room"),
            Incoming::Binary(bytes) => self.note(format!("{} bytes", bytes.len())),
        }
    }

    fn left(&self, _hub: &Hub, member: MemberId) {
        self.note(format!("left {}", member.0));
    }
}

#[test]
fn members_are_heard_and_answered() {
    for over in BOTH {
        on_each("heard", async || heard_and_answered(over).await);
    }
}

async fn heard_and_answered(over: Over) -> Result<()> {
    let notes = Notes::default();
    let hub = Hub::with_handler(HubConfig::default(), notes.clone()).expect("room");
    let running = hub_server(&hub)?;
    // Said in the same bytes as the handshake.
    let mut first = open_and_say(running.address, over, &text("early")).await?;
    assert_eq!((first.text().await?, first.text().await?), ("welcome".into(), "early".into()));
    let mut second = open(running.address, over).await?;
    assert_eq!(second.text().await?, "welcome");
    // In fragments, with a ping between them, a byte at a time.
    let parts = [
        frame(false, Opcode::Text, b"h\xC3"),
        frame(true, Opcode::Ping, b"there?"),
        frame(true, Opcode::Continuation, b"\xA9"),
        frame(true, Opcode::Text, b""),
    ];
    for byte in parts.concat() {
        second.send(&[byte]).await?;
    }
    // An answer to a ping may come before or after what the handler sends.
    let mut got = Vec::new();
    for _ in 0..3 {
        got.push(second.next().await?);
    }
    let pong = got.iter().position(|got| *got == Got::Pong(b"there?".to_vec())).expect("a pong");
    got.remove(pong);
    assert_eq!(got, [Got::Text("h\u{e9}".into()), Got::Text(String::new())]);
    let long = "z".repeat(60_000);
    second.send(&text(&long)).await?;
    assert_eq!(second.text().await?, long);
    second.send(&frame(true, Opcode::Binary, &[7; 300])).await?;
    first.send(&text("all")).await?;
    assert_eq!((first.text().await?, second.text().await?), ("all".into(), "all".into()));
    first.send(&[text("leave"), text("unheard")].concat()).await?;
    assert_closed(&mut first, CloseCode(4_000)).await?;
    second.send(&close(1_000)).await?;
    assert_closed(&mut second, CloseCode(1_000)).await?;
    let mut third = open_and_say(running.address, over, &text("panic")).await?;
    assert_eq!(third.text().await?, "welcome");
    assert_closed(&mut third, CloseCode::UNEXPECTED).await?;
    drop((first, second, third));
    members(&hub, 0).await;
    let mut noted = notes.0.lock().expect("no panic").clone();
    noted.sort();
    assert_eq!(noted, ["300 bytes", "joined 1", "joined 2", "joined 3", "left 1", "left 2", "left 3"]);
    running.stop().await
}

#[test]
fn a_server_that_stops_says_good_bye() {
    for over in BOTH {
        on_each("stop", async || told_of_the_stop(over).await);
    }
}

async fn told_of_the_stop(over: Over) -> Result<()> {
    let hub = Hub::new(HubConfig::default()).expect("room");
    let running = hub_server(&hub)?;
    let mut socket = open(running.address, over).await?;
    let mut listener = Listener::open(running.address, over).await?;
    members(&hub, 2).await;
    hub.publish(&Event::data("last")).expect("room");
    let socket = spawn(async move {
        let got = (socket.next().await?, socket.next().await?);
        socket.send(&close(1_001)).await?;
        Ok::<_, plimsoll_runtime::Error>((got, socket.next().await?))
    })?;
    let listener = spawn(async move {
        let event = listener.next().await?;
        let end = listener.next().await?;
        Ok::<_, plimsoll_runtime::Error>((event, end, listener.ended))
    })?;
    sleep(Duration::from_millis(20)).await;
    let counters = running.counters.clone();
    running.stop().await?;
    let ((text, close), end) = socket.await.expect("no panic")?;
    assert_eq!((text, close), (Got::Text("last".into()), Got::Close(Some(CloseCode::GOING_AWAY))));
    assert!(end.is_over(), "{end:?}");
    assert_eq!(listener.await.expect("no panic")?, (Some("data: last\n\n".into()), None, true));
    let totals = counters.totals();
    assert_eq!((totals.parked, totals.active, hub.stats().members), (0, 0, 0));
    Ok(())
}

#[test]
fn a_member_whose_stream_or_connection_ends_leaves() {
    on_each("ends of streams", async || {
        let notes = Notes::default();
        let hub = Hub::with_handler(HubConfig::default(), notes.clone()).expect("room");
        let running = hub_server(&hub)?;
        let (mut reset, mut going) =
            (End::open(running.address, "/ws").await?, End::open(running.address, "/ws").await?);
        let mut lost = End::open(running.address, "/ws").await?;
        for end in [&mut reset, &mut going, &mut lost] {
            assert_eq!(end.next().await?, Got::Text("welcome".into()));
        }
        reset.reset().await?;
        members(&hub, 2).await;
        drop(lost);
        members(&hub, 1).await;
        // The streams that there are go on.
        going.go_away().await?;
        hub.publish(&Event::data("still")).expect("room");
        assert_eq!(going.next().await?, Got::Text("still".into()));
        assert_eq!((hub.stats().dropped_total, hub.stats().held_messages), (0, 0));
        drop((reset, going));
        members(&hub, 0).await;
        let mut noted = notes.0.lock().expect("no panic").clone();
        noted.sort();
        assert_eq!(noted, ["joined 1", "joined 2", "joined 3", "left 1", "left 2", "left 3"]);
        running.stop().await
    });
}

#[test]
fn a_listener_is_a_member_with_a_handler_that_can_close_it() {
    for over in BOTH {
        on_each("listener", async || {
            /// Closes the second.
            #[derive(Clone, Default)]
            struct Second(Notes);

            impl HubHandler for Second {
                fn joined(&self, member: &Member<'_>) {
                    member.send(&Event::data("welcome")).expect("room");
                    if member.id().0 == 2 {
                        member.close(CloseCode::NORMAL);
                    }
                }

                fn left(&self, hub: &Hub, member: MemberId) {
                    self.0.left(hub, member);
                }
            }

            let second = Second::default();
            let hub = Hub::with_handler(HubConfig::default(), second.clone()).expect("room");
            let running = hub_server(&hub)?;
            let mut stays = Listener::open(running.address, over).await?;
            members(&hub, 1).await;
            let mut ends = Listener::open(running.address, over).await?;
            while ends.next().await?.is_some() {}
            assert!(ends.ended, "it has the end of its answer");
            drop(ends);
            members(&hub, 1).await;
            assert_eq!(stays.next().await?.as_deref(), Some("data: welcome\n\n"));
            drop(stays);
            members(&hub, 0).await;
            assert_eq!(*second.0.0.lock().expect("no panic"), ["left 2", "left 1"]);
            running.stop().await
        });
    }
}

#[test]
fn what_a_member_is_sent_before_it_is_closed_arrives() {
    struct Last;

    impl HubHandler for Last {
        fn message(&self, member: &Member<'_>, _message: Incoming<'_>) {
            member.send(&Event::data("last")).expect("room");
            member.close(CloseCode::NORMAL);
        }
    }

    for over in BOTH {
        on_each("last message", async || {
            let hub = Hub::with_handler(HubConfig::default(), Last).expect("room");
            let running = hub_server(&hub)?;
            let mut socket = open_and_say(running.address, over, &text("x")).await?;
            assert_eq!(socket.text().await?, "last");
            assert_closed(&mut socket, CloseCode::NORMAL).await?;
            drop(socket);
            members(&hub, 0).await;
            assert_eq!(hub.stats().sent_total, 1);
            running.stop().await
        });
    }
}

/// Streams of events get heartbeats, and are there after minutes of silence.
#[test]
fn what_others_publish_keeps_no_member_whose_message_never_ends() {
    in_simulation("keep-alive", async || {
        let hub = Hub::new(HubConfig::default()).expect("room");
        let running = hub_server(&hub)?;
        let mut listener = Listener::open(running.address, Over::Http1).await?;
        sleep(Duration::from_secs(180)).await;
        let mut slow = open_and_say(running.address, Over::Http1, &frame(false, Opcode::Text, b"a")).await?;
        members(&hub, 2).await;
        let publisher = hub.clone();
        let publishing = spawn(async move {
            for _ in 0..40 {
                sleep(Duration::from_secs(2)).await;
                publisher.publish(&Event::data("x")).expect("room");
            }
        })?;
        let mut got = slow.next().await?;
        while got == Got::Ping(Vec::new()) || got == Got::Text("x".into()) {
            got = slow.next().await?;
        }
        assert_eq!(got, Got::Close(Some(CloseCode::POLICY)));
        publishing.await.expect("no panic");
        assert_eq!(listener.next().await?.as_deref(), Some("data: x\n\n"), "still there");
        drop((slow, listener));
        members(&hub, 0).await;
        running.stop().await
    });
}

#[test]
fn a_hub_that_all_have_left_is_gone_with_its_last_handle() {
    struct Counted(#[allow(dead_code, reason = "held until the hub is gone")] Arc<()>);

    impl HubHandler for Counted {}

    in_simulation("hubs that end", async || {
        let alive = Arc::new(());
        let with_handler = || Hub::with_handler(HubConfig::default(), Counted(Arc::clone(&alive))).expect("room");
        let (stays, ends) = (with_handler(), Arc::new(Mutex::new(Some(with_handler()))));
        let (first, second) = (stays.clone(), Arc::clone(&ends));
        let running = serve(Config::default(), move |request: Request| {
            let hub = match request.path() {
                "/first" => Some(first.clone()),
                _ => second.lock().expect("no panic").clone(),
            };
            core::future::ready(hub.expect("it is there").join_websocket(&request))
        })?;
        let staying = Client::open(running.address, "/first").await?;
        let leaving = Client::open(running.address, "/second").await?;
        members(&stays, 1).await;
        let hub = ends.lock().expect("no panic").take().expect("it is there");
        members(&hub, 1).await;
        drop(leaving);
        members(&hub, 0).await;
        assert_eq!(Arc::strong_count(&alive), 3);
        drop(hub);
        assert_eq!(Arc::strong_count(&alive), 2, "nothing else holds it");
        drop(staying);
        members(&stays, 0).await;
        running.stop().await
    });
}

/// Who listens to events has nothing to say: some of it is dropped, and who goes on is let go of.
#[test]
fn a_listener_that_says_much_leaves() {
    in_simulation("a listener that talks", async || {
        let hub = Hub::new(HubConfig::default()).expect("room");
        let running = hub_server(&hub)?;
        let mut client = TcpStream::connect(running.address).await?;
        client.send_static(b"GET /events HTTP/1.1\r\nHost: here\r\n\r\n").await?;
        members(&hub, 1).await;
        client.send_bytes(&[b'x'; 1_000]).await?;
        sleep(Duration::from_secs(1)).await;
        hub.publish(&Event::data("still")).expect("room");
        let heard = read(&mut client, Some(b"data: still\n\n")).await?;
        assert!(heard.contains("data: still"), "it is still there: {heard}");
        // Its end may come before all was sent.
        let _may_be_gone = client.send_bytes(&[b'x'; 70_000]).await;
        members(&hub, 0).await;
        drop(client);
        running.stop().await
    });
}

#[test]
fn a_parked_member_is_a_place_in_a_table() {
    on_each("parked", async || {
        const MEMBERS: u64 = 256;
        let hub = Hub::new(HubConfig::default()).expect("room");
        let running = hub_server(&hub)?;
        let mut clients = vec![open(running.address, Over::Http1).await?];
        members(&hub, 1).await;
        let none = held_bytes();
        for _ in 0..MEMBERS {
            clients.push(open(running.address, Over::Http1).await?);
        }
        members(&hub, MEMBERS as u32 + 1).await;
        sleep(Duration::from_millis(20)).await;
        let (fresh, fresh_leases) = (held_bytes(), held_but_pages());
        let each = (fresh - none) / MEMBERS;
        assert!(each < 384, "{each} bytes for a member of {MEMBER_BYTES} and for the client's stream");
        // What was said and published leaves nothing behind.
        for client in &mut clients {
            client.send(&[frame(true, Opcode::Text, &[b'x'; 3_000]), frame(true, Opcode::Ping, b"p")].concat()).await?;
            assert_eq!(client.next().await?, Got::Pong(b"p".to_vec()));
        }
        hub.publish(&Event::data(&"y".repeat(5_000))).expect("room");
        for client in &mut clients {
            assert_eq!(client.text().await?.len(), 5_000);
        }
        sleep(Duration::from_millis(20)).await;
        assert_eq!(held_but_pages(), fresh_leases, "no buffer is left, however small");
        // Tables keep their pages: that of operations was as long as all members' sends at once, and those of waiters
        // and of timers may each have begun a page.
        let sends = ((MEMBERS + 1) * OPERATION_BYTES as u64).next_multiple_of(PAGE_BYTES);
        let held = held_bytes();
        assert!(held <= fresh + sends + 2 * PAGE_BYTES, "{held} bytes, {fresh} before, {sends} for sends");
        println!("{each} bytes for a member, its operation and its client; {MEMBER_BYTES} are the member's");
        drop(clients);
        members(&hub, 0).await;
        running.stop().await
    });
}

/// While all of its sends are on their way, a message is in memory once.
#[test]
fn a_message_is_in_memory_once() {
    on_each("one copy", async || {
        const MEMBERS: u32 = 64;
        let hub = Hub::new(HubConfig { message_bytes_max: 120_000, ..HubConfig::default() }).expect("room");
        let running = hub_server(&hub)?;
        let mut clients = Vec::new();
        for _ in 0..MEMBERS {
            clients.push(open(running.address, Over::Http1).await?);
        }
        members(&hub, MEMBERS).await;
        sleep(Duration::from_millis(20)).await;
        plimsoll_runtime::pool().release_free(u64::MAX);
        let before = plimsoll_runtime::budget().charged();
        hub.publish(&Event::data(&"m".repeat(100_000))).expect("room");
        let mut most = 0;
        for _ in 0..50 {
            most = most.max(plimsoll_runtime::budget().charged() - before);
            sleep(Duration::from_millis(1)).await;
        }
        let (held, one) = (hub.stats(), 128 << 10);
        // The operations in flight have pages of their own.
        assert!(most >= one && most < one + 64 * 1_024, "{most} bytes for a message of 100,000 to {MEMBERS}: {held:?}");
        assert!(held.held_messages <= 1);
        for client in &mut clients {
            assert_eq!(client.text().await?.len(), 100_000);
        }
        drop(clients);
        members(&hub, 0).await;
        running.stop().await
    });
}

#[test]
fn a_full_hub_and_a_long_message_are_refused() {
    on_each("limits", async || {
        let socket = WebSocketConfig::default();
        let config = HubConfig { members_max: 1, message_bytes_max: 10, websocket: socket, ..HubConfig::default() };
        let hub = Hub::new(config).expect("room");
        let running = hub_server(&hub)?;
        let mut first = open(running.address, Over::Http1).await?;
        members(&hub, 1).await;
        let second =
            crate::rig::talk(running.address, &[b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"], None)
                .await?;
        assert!(second.starts_with("HTTP/1.1 503 "), "{second}");
        assert!(hub.publish_binary(&[0; 11]).is_err() && hub.publish_binary(&[1; 10]).is_ok());
        assert_eq!(first.next().await?, Got::Binary(vec![1; 10]));
        let head =
            crate::rig::talk(running.address, &[b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"], None)
                .await?;
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        for wrong in [
            HubConfig { queue_messages_max: 0, ..config },
            HubConfig { queue_bytes_max: 20, ..config },
            HubConfig { message_bytes_max: 1 << 20, ..config },
            HubConfig { members_max: 0, ..config },
        ] {
            assert!(Hub::new(wrong).is_err(), "{wrong:?}");
        }
        drop(first);
        members(&hub, 0).await;
        running.stop().await
    });
}
