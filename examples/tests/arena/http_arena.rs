//! What the public suite HttpArena asks of a server of HTTP/1.1 before it measures it: answers that were computed and
//! not remembered, bodies in both framings, heads that come in pieces, connections that end after ten requests, and
//! large uploads that are counted exactly.

use std::io::Write;
use std::net::TcpStream;
use std::thread::sleep;
use std::time::Duration;

use crate::client::Client;
use crate::process::{Arena, drivers};

/// Between two pieces of a head.
const GAP: Duration = Duration::from_millis(30);
/// Requests of a connection of its profile `limited`.
const LIMITED_REQUESTS: usize = 10;
const UPLOAD_BYTES: usize = 20 << 20;

/// Numbers that nobody knows beforehand, and that are the same in each run: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

fn on_each_driver(check: impl Fn(&Arena, &mut Random)) {
    for driver in drivers() {
        let arena = Arena::start(driver, &["--workers", "2"]);
        check(&arena, &mut Random(0x9e37_79b9_7f4a_7c15));
        arena.stop();
    }
}

#[test]
fn random_values_are_summed_and_never_remembered() {
    on_each_driver(|arena, random| {
        let mut client = Client::connect(arena.address);
        for _ in 0..200 {
            let [a, b, body] = [(); 3].map(|()| random.below(1_000_000));
            let target = format!("/baseline11?a={a}&b={b}");
            assert_eq!(client.get(&target).text(), (a + b).to_string());
            let sum = (a + b + body).to_string();
            let text = body.to_string();
            assert_eq!(client.request("POST", &target, "", text.as_bytes()).text(), sum, "a body with its length");
            let (first, second) = text.as_bytes().split_at(text.len() / 2);
            let chunks: Vec<&[u8]> = [first, second].into_iter().filter(|chunk| !chunk.is_empty()).collect();
            assert_eq!(client.request_chunked("POST", &target, "", &chunks).text(), sum, "a body in chunks");
        }
    });
}

#[test]
fn a_head_may_come_in_pieces_with_pauses() {
    on_each_driver(|arena, random| {
        let (a, b) = (random.below(1_000), random.below(1_000));
        let request = format!("GET /baseline11?a={a}&b={b} HTTP/1.1\r\nHost: arena\r\nX-Filler: some bytes\r\n\r\n");
        // Within the method, within the target, between two fields, and before the last newline.
        let fields = request.find("X-Filler").expect("the field is there");
        for at in [2, 15, fields, request.len() - 1] {
            let mut client = Client::connect(arena.address);
            client.send(&request.as_bytes()[..at]);
            sleep(GAP);
            client.send(&request.as_bytes()[at..]);
            assert_eq!(client.answer("GET").text(), (a + b).to_string(), "in two pieces, at {at}");
        }
        let mut client = Client::connect(arena.address);
        let mut from = 0;
        for at in [2, 15, fields, request.len() - 1, request.len()] {
            client.send(&request.as_bytes()[from..at]);
            sleep(GAP);
            from = at;
        }
        assert_eq!(client.answer("GET").text(), (a + b).to_string(), "in five pieces");
        // A body may come late as well, in both framings.
        for (framing, pieces) in [
            ("Content-Length: 4", ["1", "23", "4"]),
            ("Transfer-Encoding: chunked", ["4\r\n1", "234\r", "\n0\r\n\r\n"]),
        ] {
            client.send(format!("POST /baseline11?a={a} HTTP/1.1\r\nHost: arena\r\n{framing}\r\n\r\n").as_bytes());
            for piece in pieces {
                sleep(GAP);
                client.send(piece.as_bytes());
            }
            assert_eq!(client.answer("POST").text(), (a + 1_234).to_string(), "{framing}");
        }
    });
}

#[test]
fn connections_may_end_after_ten_requests() {
    on_each_driver(|arena, random| {
        for _ in 0..20 {
            let mut client = Client::connect(arena.address);
            for number in 1..=LIMITED_REQUESTS {
                let (a, b) = (random.below(1_000), random.below(1_000));
                let close = if number == LIMITED_REQUESTS { "Connection: close\r\n" } else { "" };
                let answer = client.request("GET", &format!("/baseline11?a={a}&b={b}"), close, b"");
                assert_eq!(answer.text(), (a + b).to_string());
                assert_eq!(answer.field("connection"), (number == LIMITED_REQUESTS).then_some("close"));
            }
            assert!(client.is_closed(), "the server ends the connection that was asked to end");
            // And without a word, when the client just leaves.
            let mut client = Client::connect(arena.address);
            for _ in 0..LIMITED_REQUESTS {
                assert_eq!(client.get("/pipeline").text(), "ok");
            }
        }
    });
}

#[test]
fn large_uploads_are_counted_exactly() {
    on_each_driver(|arena, random| {
        let body: Vec<u8> = (0..UPLOAD_BYTES).map(|at| (at % 251) as u8).collect();
        let odd = UPLOAD_BYTES - 1 - random.below(1_000_000) as usize;
        let mut client = Client::connect(arena.address);
        for bytes in [UPLOAD_BYTES, odd] {
            let answer = client.request("POST", "/upload", "", &body[..bytes]);
            assert_eq!(answer.text(), bytes.to_string(), "with its length");
            let chunks: Vec<&[u8]> = body[..bytes].chunks(random.below(100_000) as usize + 1).collect();
            let answer = client.request_chunked("POST", "/upload", "", &chunks);
            assert_eq!(answer.text(), bytes.to_string(), "in chunks of {} bytes", chunks[0].len());
        }
        // Several at a time.
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut client = Client::connect(arena.address);
                    let answer = client.request("POST", "/upload", "", &body);
                    assert_eq!(answer.text(), UPLOAD_BYTES.to_string());
                });
            }
        });
        // One that is cut short counts for nothing, and hurts nobody.
        let mut cut = TcpStream::connect(arena.address).expect("the server accepts");
        let head = format!("POST /upload HTTP/1.1\r\nHost: arena\r\nContent-Length: {UPLOAD_BYTES}\r\n\r\n");
        cut.write_all(head.as_bytes()).and_then(|()| cut.write_all(&body[..UPLOAD_BYTES / 2])).expect("it is taken");
        drop(cut);
        assert_eq!(client.get("/pipeline").text(), "ok");
    });
}
