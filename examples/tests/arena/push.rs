//! The push server: what is posted reaches those who listen; its policy and its figures.

use std::net::SocketAddr;

use crate::client::Client;
use crate::process::{Report, Running, drivers, run};
use crate::socket::Socket;

fn start(driver: &str, slow: &str) -> (Running, SocketAddr) {
    let flags = ["--listen", "127.0.0.1:0", "--driver", driver, "--workers", "2", "--slow", slow];
    let (running, ready) = Running::start("push", &flags);
    let address = ready.strip_prefix("listening on http://").and_then(|rest| rest.split(' ').next());
    (running, address.expect("a ready line").parse().expect("an address"))
}

fn figure(address: SocketAddr, name: &str) -> u64 {
    let text = Client::connect(address).get("/stats").text().to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("a figure").parse().expect("a number")
}

#[test]
fn what_is_posted_reaches_those_who_listen() {
    for driver in drivers() {
        let (mut running, address) = start(driver, "close");
        let mut sockets: Vec<_> = (0..8).map(|_| Socket::open(address, "/ws")).collect();
        let mut listener = Client::connect(address);
        listener.send(b"GET /events HTTP/1.1\r\nHost: push\r\n\r\n");
        while !listener.line().is_empty() {}
        while figure(address, "members") < 9 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut publisher = Client::connect(address);
        for at in 1..=20_u64 {
            let text = format!("message {at}\nwith two lines");
            let answer = publisher.request("POST", "/publish", "", text.as_bytes());
            assert_eq!((answer.status, answer.text()), (200, format!("{at}\n").as_str()));
            for socket in &mut sockets {
                assert_eq!(socket.next().as_deref(), Some(text.as_str()));
            }
        }
        let mut heard = String::new();
        while !heard.contains("message 20\n") {
            heard.push_str(&listener.line_ended_by(b'\n'));
        }
        assert!(heard.contains("data: message 1\ndata: with two lines\n\n"), "{heard}");
        assert_eq!((figure(address, "published"), figure(address, "dropped")), (20, 0));
        let long = publisher.request("POST", "/publish", "", &vec![b'x'; 100_000]);
        assert_eq!(long.status, 413);
        running.signal("TERM");
        for mut socket in sockets {
            assert_eq!(socket.next(), None, "closed");
        }
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report = Report::parse(&ended.stderr);
        assert!(report.charged <= report.fixed && report.leaked == 0, "{report:?}");
    }
}

#[test]
fn wrong_flags_are_refused_in_one_line() {
    let refused = |name, flags: &[&str], because| {
        let ended = run(name, flags);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name} {flags:?}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{name} {flags:?}: {:?}", ended.stderr);
        assert!(ended.stderr.contains(because), "{name} {flags:?}: {:?}", ended.stderr);
    };
    refused("push", &["--slow", "never"], "--slow");
    refused("push", &["--queue", "0"], "--queue");
    for name in ["push", "chat"] {
        refused(name, &["--listen", "8080"], "IP:PORT");
        refused(name, &["--memory", "1MB"], "memory");
        refused(name, &["--no-such-flag"], "--no-such-flag");
    }
}
