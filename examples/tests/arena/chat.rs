//! The chat: with plain clients, and its page in a browser.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::browser::Browser;
use crate::client::Client;
use crate::process::{Running, drivers};
use crate::socket::Socket;

struct Chat {
    running: Running,
    address: SocketAddr,
}

impl Chat {
    fn start(listen: &str, driver: &str) -> Self {
        let (running, ready) =
            Running::start("chat", &["--listen", listen, "--driver", driver, "--workers", "2", "--memory", "32MiB"]);
        let rest = ready.strip_prefix("listening on http://").expect("a ready line");
        let (address, rest) = rest.split_once(' ').expect("words");
        assert!(rest.starts_with(&format!("driver={driver} workers=2 memory=33554432")), "{ready}");
        Self { running, address: address.parse().expect("an address") }
    }

    fn stop(self) {
        self.running.stop();
    }
}

fn next(socket: &mut Socket) -> Value {
    serde_json::from_str(&socket.next().expect("news")).expect("JSON")
}

/// News until there is this.
fn until(socket: &mut Socket, expected: &Value) {
    while next(socket) != *expected {}
}

#[test]
fn all_hear_what_is_said_and_who_is_there() {
    for driver in drivers() {
        let chat = Chat::start("127.0.0.1:0", driver);
        let mut listener = Client::connect(chat.address);
        listener.send(b"GET /events HTTP/1.1\r\nHost: chat\r\n\r\n");
        while !listener.line().is_empty() {}
        let (mut ann, mut bob) = (Socket::open(chat.address, "/ws"), Socket::open(chat.address, "/ws"));
        ann.send(r#"{"name":" Ann "}"#);
        assert_eq!(next(&mut ann), json!({ "who": ["Ann"] }));
        bob.send(r#"{"name":"Bob"}"#);
        let mut names = next(&mut ann)["who"].as_array().expect("names").clone();
        names.sort_by_key(Value::to_string);
        assert_eq!(names, [json!("Ann"), json!("Bob")]);
        ann.send(r#"{"say":"<b>hello</b>"}"#);
        let said = json!({ "name": "Ann", "said": "<b>hello</b>" });
        until(&mut ann, &said);
        until(&mut bob, &said);
        drop(ann);
        until(&mut bob, &json!({ "who": ["Bob"] }));
        // One who breaks the rules is closed, and the others stay.
        let mut rude = Socket::open(chat.address, "/ws");
        rude.send("no JSON");
        while rude.next().is_some() {}
        bob.send(r#"{"say":"bye"}"#);
        until(&mut bob, &json!({ "name": "Bob", "said": "bye" }));
        let mut heard = String::new();
        while !heard.contains("bye") {
            heard.push_str(&listener.line_ended_by(b'\n'));
        }
        assert!(heard.contains(r#"data: {"name":"Ann","said":"<b>hello</b>"}"#), "{heard}");
        let page = Client::connect(chat.address).get("/");
        assert_eq!((page.status, page.field("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(
            !page.text().contains("src=\"http") && !page.text().contains("@import"),
            "it needs nothing from elsewhere"
        );
        assert_eq!(Client::connect(chat.address).get("/nowhere").status, 404);
        chat.stop();
        while bob.next().is_some() {}
    }
}

const SAY: &str = r#"document.getElementById("text").value = "what <i>Ann</i> says";
    document.getElementById("send").click()"#;

#[test]
fn the_page_works_in_a_browser() {
    let Some(browser) = Browser::start() else { return };
    let chat = Chat::start("127.0.0.1:0", "mio");
    let address = chat.address;
    let mut page = browser.open(&format!("http://{address}/?name=Ann"));
    let who = "[...document.querySelectorAll('#who li')].map(each => each.textContent).sort().join()";
    let (status, log) =
        ("document.getElementById('status').textContent", "document.getElementById('log').innerText.trim()");
    page.until(who, "Ann");
    assert_eq!(page.evaluate(status), "Connected as Ann.");
    let mut bob = Socket::open(address, "/ws");
    bob.send(r#"{"name":"Bob"}"#);
    page.until(who, "Ann,Bob");
    page.evaluate(SAY);
    until(&mut bob, &json!({ "name": "Ann", "said": "what <i>Ann</i> says" }));
    page.until(log, "Ann: what <i>Ann</i> says");
    bob.send(r#"{"say":"<script>late()</script>"}"#);
    page.until(&format!("{log}.split('\\n').filter(line => line).pop()"), "Bob: <script>late()</script>");
    // A second page, entered by hand.
    let mut second = browser.open(&format!("http://{address}/"));
    second.until("document.readyState", "complete");
    second.evaluate("document.getElementById('name').value = 'Eve'; document.querySelector('#enter button').click()");
    second.until(who, "Ann,Bob,Eve");
    page.until(who, "Ann,Bob,Eve");
    second.call("Page.close", &json!({}));
    page.until(who, "Ann,Bob");
    is_accessible(&mut page);
    // The server goes away and comes back: so does the page, by itself.
    chat.stop();
    page.until("document.getElementById('status').textContent.split(';')[0]", "Connection lost");
    assert_eq!(page.evaluate("document.getElementById('send').disabled"), true);
    let chat = Chat::start(&address.to_string(), "mio");
    page.until(status, "Connected as Ann.");
    page.until(who, "Ann");
    chat.stop();
}

/// What somebody hears who does not see the page: every control has a name, messages and the state are told as they
/// change.
fn is_accessible(page: &mut crate::browser::Page) {
    let tree = page.call("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("nodes");
    let named = |role: &str| -> Vec<String> {
        let of_role = nodes.iter().filter(|node| node["ignored"] == false && node["role"]["value"] == role);
        of_role.map(|node| node["name"]["value"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(named("textbox"), ["Message"]);
    assert_eq!(named("button"), ["Send"]);
    assert_eq!(named("log"), ["Messages"]);
    assert_eq!(named("list"), ["Who is there"]);
    assert_eq!(named("main").len(), 1);
    assert_eq!(named("status").len(), 1);
    assert_eq!(named("heading"), ["Chat", "Who is there"]);
    assert_eq!(page.evaluate("document.documentElement.lang"), "en");
    assert_eq!(page.evaluate("document.activeElement.id"), "text", "what is typed next goes into the message");
}
