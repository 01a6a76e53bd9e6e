//! HTTPS: the flags, and a certificate that is read again when SIGHUP comes.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use plimsoll::http::tls::Connector;
use plimsoll::net::TcpStream;
use plimsoll::{MemoryLimit, Runtime};

use crate::process::{Arena, WAIT_MAX, drivers};

/// Writes a new certificate with its key, and gives it.
fn renew(directory: &Path) -> String {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
    std::fs::write(directory.join("cert.pem"), made.cert.pem()).expect("written");
    std::fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
    made.cert.pem()
}

/// Whether a client that trusts this certificate alone is served.
fn serves(address: SocketAddr, certificate: &str) -> bool {
    let runtime = Runtime::builder().workers(1).memory(MemoryLimit::mib(16)).build().expect("it starts");
    runtime.block_on(async {
        let connector = Connector::builder().roots_pem(certificate).build().expect("a root");
        let stream = TcpStream::connect(address).await.expect("it listens");
        let Ok(mut stream) = connector.connect("localhost", stream).await else { return false };
        stream.send_static(b"GET /plaintext HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it is open");
        let answer = stream.recv().await.expect("it is open").expect("an answer");
        answer.starts_with(b"HTTP/1.1 ")
    })
}

#[test]
fn a_certificate_is_read_again_when_sighup_comes() {
    let directory = std::env::temp_dir().join(format!("plimsoll-arena-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let files = ["cert.pem", "key.pem"].map(|name| directory.join(name).display().to_string());
    for driver in drivers() {
        let first = renew(&directory);
        let arena = Arena::start(driver, &["--tls", "127.0.0.1:0", "--cert", &files[0], "--key", &files[1]]);
        let address = arena.ready.split_once("tls=").and_then(|(_, rest)| rest.split_whitespace().next());
        let address: SocketAddr = address.and_then(|at| at.parse().ok()).unwrap_or_else(|| panic!("{}", arena.ready));
        assert!(serves(address, &first));
        let second = renew(&directory);
        assert!(!serves(address, &second), "nobody has told it");
        arena.running.signal("HUP");
        let told = Instant::now();
        while !serves(address, &second) {
            assert!(told.elapsed() < WAIT_MAX, "it is read again");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!serves(address, &first));
        // What is wrong changes nothing.
        std::fs::write(directory.join("key.pem"), "no key").expect("written");
        arena.running.signal("HUP");
        std::thread::sleep(Duration::from_millis(300));
        assert!(serves(address, &second));
        arena.stop();
    }
    std::fs::remove_dir_all(&directory).expect("it is there");
}
