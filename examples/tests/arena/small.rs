//! The smaller examples.

use std::io::{BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use crate::client::Client;
use crate::process::{Running, WAIT_MAX, run};

fn address(ready: &str) -> SocketAddr {
    let address = ready.strip_prefix("listening on ").expect("a ready line");
    address.trim_start_matches("http://").split(' ').next().expect("an address").parse().expect("an address")
}

#[test]
fn hello_greets() {
    let (_running, ready) = Running::start("hello", &["--listen", "127.0.0.1:0"]);
    let mut client = Client::connect(address(&ready));
    let answer = client.get("/you");
    assert_eq!((answer.status, answer.text()), (200, "hello /you\n"));
}

#[test]
fn simulate_runs_a_service_in_many_worlds() {
    let ended = run("simulate", &["300"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("300 worlds, "), "{}", ended.stdout);
    // Faults were among it: it is not only the clean ones that pass.
    for what in ["fault: short send", "fault: reset"] {
        let line = ended.stdout.lines().find(|line| line.ends_with(what));
        let count = line.and_then(|line| line.split_ascii_whitespace().next()).and_then(|count| count.parse().ok());
        assert!(count.is_some_and(|count: u64| count > 0), "{what}: {}", ended.stdout);
    }
}

#[test]
fn budget_reaches_its_line_and_honours_it() {
    let (mut running, ready) = Running::start("budget", &["--listen", "127.0.0.1:0"]);
    // Where there is no room even for a 503, the connection is closed.
    let status = |stream: &mut TcpStream| {
        let mut line = [0; b"HTTP/1.1 200".len()];
        stream.read_exact(&mut line).is_ok().then(|| String::from_utf8_lossy(&line).into_owned())
    };
    let mut answers = std::collections::BTreeSet::new();
    let start = Instant::now();
    // On a slow machine the program's own visitors have all of the line by the time that these come: they go in waves.
    while answers.len() < 2 && start.elapsed() < WAIT_MAX {
        // More than the line can hold at a time, whatever the others do.
        let mut streams: Vec<_> =
            (0..400).map(|_| TcpStream::connect(address(&ready)).expect("the listener's queue has room")).collect();
        for stream in &mut streams {
            stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
            stream.write_all(b"GET / HTTP/1.1\r\nHost: budget\r\n\r\n").expect("it is sent");
        }
        answers.extend(streams.iter_mut().filter_map(status));
    }
    assert_eq!(answers.into_iter().collect::<Vec<_>>(), ["HTTP/1.1 200", "HTTP/1.1 503"]);
    let mut picture = String::new();
    running.stdout.read_line(&mut picture).expect("text");
    assert!(picture.contains(" of 16384 KiB, peak "), "{picture}");
}

#[test]
fn echo_sends_back_what_it_gets() {
    let (_running, ready) = Running::start("echo", &["--listen", "127.0.0.1:0"]);
    let mut stream = TcpStream::connect(address(&ready)).expect("it accepts");
    stream.set_read_timeout(Some(WAIT_MAX)).expect("a timeout");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut sender = stream.try_clone().expect("a descriptor");
    let mut echoed = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.write_all(&sent).expect("it takes the bytes");
            sender.shutdown(Shutdown::Write).expect("our half can be ended");
        });
        stream.read_to_end(&mut echoed).expect("it sends back");
    });
    assert!(echoed == sent, "the same bytes, and then the end");
}
