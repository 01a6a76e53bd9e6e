//! A server that is replaced by its next process: no request fails meanwhile.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::process::{Running, WAIT_MAX, drivers};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

/// The process that has answered.
fn ask(address: SocketAddr) -> std::io::Result<u32> {
    let mut client = TcpStream::connect(address)?;
    client.set_read_timeout(Some(WAIT_MAX))?;
    client.write_all(GET)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let process = answer.rsplit("process ").next().and_then(|rest| rest.trim_end().parse().ok());
    let process = process.filter(|_| answer.starts_with("HTTP/1.1 200 "));
    process.ok_or_else(|| std::io::Error::other(format!("not an answer: {answer:?}")))
}

fn restart(admin: &std::path::Path) -> String {
    let mut control = UnixStream::connect(admin).expect("the admin port");
    control.write_all(b"POST /restart HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("it takes a request");
    let mut answer = String::new();
    control.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn the_next_process_takes_over_and_no_request_fails() {
    for driver in drivers() {
        let admin = std::env::temp_dir().join(format!("plimsoll-restart-{}-{driver}.sock", std::process::id()));
        let at = format!("unix:{}", admin.display());
        let flags = ["--listen", "127.0.0.1:0", "--admin", &at, "--workers", "2", "--driver", driver];
        let (mut running, ready) = Running::start("restart", &flags);
        let address = ready.split(' ').nth(2).and_then(|address| address.parse().ok()).expect("an address");
        assert_eq!(ask(address).expect("an answer"), running.id());
        let is_over = AtomicBool::new(false);
        let ask_on = || {
            let (mut processes, mut failed) = (BTreeSet::new(), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                match ask(address) {
                    Ok(process) => drop(processes.insert(process)),
                    Err(error) => failed.push(error.to_string()),
                }
            }
            (processes, failed)
        };
        let last = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..3).map(|_| scope.spawn(ask_on)).collect();
            let mut serving = running.id();
            for _ in 0..2 {
                // Until it has ended, the one before may get it, and may answer.
                let takes_over = format!(" takes over from {serving}\n");
                let answer = std::iter::repeat_with(|| restart(&admin)).find(|answer| answer.ends_with(&takes_over));
                let next = answer.as_deref().and_then(|answer| answer.strip_suffix(&takes_over)?.rsplit(' ').next());
                serving = next.and_then(|next| next.parse().ok()).expect("the number of the next one");
                while ask(address).expect("an answer") != serving {}
            }
            is_over.store(true, Ordering::Relaxed);
            for client in clients {
                let (processes, failed) = client.join().expect("no panic");
                assert!(failed.is_empty(), "{driver}: {failed:?}");
                assert!(!processes.is_empty());
            }
            serving
        });
        assert_ne!(last, running.id());
        let ended = Command::new("sh").args(["-c", &format!("kill -TERM {last}")]).status();
        assert!(ended.is_ok_and(|status| status.success()), "it runs");
        // The first one has ended by itself; standard error is that of all.
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(ended.stderr.lines().filter(|line| line.contains("leaked=0 in_flight=0")).count(), 3, "{ended:?}");
        std::fs::remove_file(&admin).expect("the socket stays");
    }
}
