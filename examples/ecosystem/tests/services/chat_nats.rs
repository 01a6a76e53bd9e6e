//! A chat over two processes and a NATS server that restarts, and a process that sleeps: each message comes at most
//! once, and what is not there is counted.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::Duration;

use tungstenite::{Message, WebSocket};

use crate::nats::start_nats;
use crate::process::{Running, free_address, until};

/// A member of the chat, who has seen each message at most once.
struct Member {
    socket: WebSocket<TcpStream>,
    seen: BTreeSet<String>,
    lost: u64,
}

impl Member {
    fn join(server: &Running) -> Self {
        let stream = TcpStream::connect(server.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let (socket, _) = tungstenite::client(format!("ws://{}/ws", server.address), stream).expect("a handshake");
        Self { socket, seen: BTreeSet::new(), lost: 0 }
    }

    fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("it goes out");
    }

    /// Reads until a message comes.
    fn hear(&mut self, wanted: &str) {
        while !self.seen.contains(wanted) {
            let message = self.socket.read().unwrap_or_else(|error| panic!("{wanted}: {error}"));
            let Message::Text(text) = message else { continue };
            match text.strip_prefix("{\"lost\": ") {
                Some(lost) => self.lost += lost.trim_end_matches('}').parse::<u64>().expect("a number"),
                None => assert!(self.seen.insert(text.to_string()), "{text} has come before"),
            }
        }
    }
}

/// What a process says of itself: sent, not sent, received, lost.
fn stats(server: &Running) -> [u64; 4] {
    let text = crate::client(async { reqwest::get(server.url("/stats")).await.expect("an answer").text().await });
    let text = text.expect("whole");
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit()).filter_map(|word| word.parse().ok());
    [(); 4].map(|()| numbers.next().expect("four of them"))
}

fn start(port: u16) -> Running {
    Running::start(env!("CARGO_BIN_EXE_chat_nats"), &["--nats", &format!("127.0.0.1:{port}")])
}

#[test]
fn each_message_comes_at_most_once_and_gaps_are_counted() {
    let port = free_address().port();
    let Some(nats) = start_nats(port) else { return };
    let servers = [start(port), start(port)];
    let mut members = [Member::join(&servers[0]), Member::join(&servers[1])];
    for at in 0..20 {
        let text = format!("message {at}");
        members[at % 2].say(&text);
        members.iter_mut().for_each(|member| member.hear(&text));
    }
    assert_eq!(servers.each_ref().map(stats), [[10, 0, 10, 0]; 2]);
    // The server goes: members of a process hear each other, and the rest is a gap for the other process.
    drop(nats);
    let mut said = 10;
    let mut say = |member: &mut Member, text: String| {
        member.say(&text);
        member.hear(&text);
        said += 1;
        said
    };
    for at in 0..1_000 {
        say(&mut members[0], format!("alone {at} {}", "x".repeat(1_000)));
    }
    let Some(nats) = start_nats(port) else { return };
    let mut at = 0;
    until("it is carried again", || {
        at += 1;
        say(&mut members[0], format!("again {at}"));
        stats(&servers[1])[3] > 0
    });
    // A process that sleeps: what async-nats and the hub keep for it is bounded.
    servers[1].signal("STOP");
    for at in 0..2_000 {
        say(&mut members[0], format!("unheard {at} {}", "x".repeat(1_000)));
    }
    servers[1].signal("CONT");
    // A gap shows when the next message comes.
    let mut last = (0, [[0; 4]; 2]);
    until("each message is accounted for", || {
        at += 1;
        let all = say(&mut members[0], format!("again {at}"));
        std::thread::sleep(Duration::from_millis(100));
        last = (all, servers.each_ref().map(stats));
        let (_, [[sent, not_sent, ..], [_, _, received, lost]]) = last;
        (sent + not_sent, received + lost) == (all, all)
    });
    members[1].hear(&format!("again {at}"));
    let (all, [[_, not_sent, ..], [_, _, received, lost]]) = last;
    println!("of {all} messages {not_sent} were not sent, and {received} received: {lost} lost");
    assert!(members[1].lost > 0 && lost >= members[1].lost && not_sent > 0, "gaps are shown");
    drop(nats);
    servers.into_iter().for_each(Running::stop);
}
