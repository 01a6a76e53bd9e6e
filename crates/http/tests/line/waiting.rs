//! What finds no room waits for it: a request, an answer, a piece of an answer and a part of a body go on when there is
//! some, and end with a 503 when there is none for too long. The program holds the memory itself here, so nobody can be
//! let go of.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_http::{Config, Counters, Error, Request, Response, Server, StatusCode};
use plimsoll_runtime::{Budget, MemoryLimit, plan, sleep, spawn};

use crate::rig::memory::fill;
use crate::rig::threads::{PATIENCE, connect, serve_until, under_line_for_all};

const LINE: MemoryLimit = MemoryLimit::mib(4);

/// Who holds the memory, and who wants it held.
struct Stage {
    wanted: AtomicBool,
    held: AtomicBool,
    budget: Arc<Budget>,
    counters: Counters,
}

impl Stage {
    /// Has the program take all memory, or give it back.
    fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// For clients: until it is so.
    fn until(&self, holds: impl Fn(&Self) -> bool, what: &str) {
        let start = std::time::Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < PATIENCE, "{what}: never");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// For clients: until somebody waits for memory.
    fn until_red(&self) {
        self.until(|stage| stage.budget.waiting() > 0, "somebody waits");
    }
}

/// Gives the memory back when the clients are done, also when they panic: a server that stops wants some.
struct Release(Arc<Stage>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.want(false);
    }
}

/// Takes all memory that is left while it is wanted.
async fn hold(stage: Arc<Stage>) {
    let mut held = Vec::new();
    loop {
        sleep(Duration::from_millis(5)).await;
        let wanted = stage.wanted.load(Ordering::Acquire);
        if wanted == stage.is_held() {
            continue;
        }
        held.clear();
        if wanted {
            held.extend(fill(1));
        }
        stage.held.store(wanted, Ordering::Release);
    }
}

async fn answer(mut req: Request, stage: Arc<Stage>) -> Result<Response, Error> {
    match req.path() {
        "/answer" => {
            stage.want(true);
            while !stage.is_held() {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(Response::text(vec![b'a'; 16 * 1024]))
        }
        "/small" => {
            req.inform(Response::new(StatusCode::EARLY_HINTS)).await?;
            stage.want(true);
            while !stage.is_held() {
                sleep(Duration::from_millis(1)).await;
            }
            req.inform(Response::new(StatusCode::EARLY_HINTS)).await?;
            Ok(Response::text(vec![b's'; 2_000]))
        }
        "/small-pieces" => {
            stage.want(true);
            while !stage.is_held() {
                sleep(Duration::from_millis(1)).await;
            }
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            for _ in 0..50 {
                out.write_bytes(vec![b'p'; 3_000].into()).await?;
            }
            out.finish().await
        }
        "/pieces" => {
            let mut out = req.respond(Response::new(StatusCode::OK), None)?;
            // What comes free when it has left is no room for the others.
            out.write_bytes(vec![b'p'; 900].into()).await?;
            stage.want(true);
            while !stage.is_held() {
                sleep(Duration::from_millis(1)).await;
            }
            for _ in 0..4 {
                out.write_bytes(vec![b'p'; 9_000].into()).await?;
            }
            out.finish().await
        }
        "/body" => Ok(Response::text(req.collect().await?.len().to_string())),
        _ => Ok(Response::text("fine")),
    }
}

/// Runs clients in a thread of their own against a server of each driver.
fn on_each(name: &str, config: &Config, clients: fn(SocketAddr, &Stage)) {
    under_line_for_all(name, LINE, async |runtime| {
        let (wanted, held) = (AtomicBool::new(false), AtomicBool::new(false));
        let server = Server::bind("127.0.0.1:0")?.config(config.clone());
        let (budget, counters) = (Arc::clone(runtime.budget()), server.counters());
        let stage = Arc::new(Stage { wanted, held, budget, counters });
        let holding = spawn(hold(Arc::clone(&stage)))?;
        let (address, theirs) = (server.local_addr(), Release(Arc::clone(&stage)));
        let serving = server.serve(move |req| answer(req, Arc::clone(&stage)));
        serve_until(serving, move || {
            let Release(stage) = &theirs;
            clients(address, stage);
        })
        .await?;
        holding.abort();
        Ok(())
    });
}

/// Asks on a connection, and reads until `end` is there or the connection ends.
fn ask(stream: &mut TcpStream, request: &[u8], end: &str) -> String {
    stream.write_all(request).expect("it is sent");
    read(stream, end)
}

/// Reads until `end` is there or the connection ends.
fn read(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 16 * 1024];
    while !text.contains(end) {
        match stream.read(&mut bytes).expect("an answer or the end") {
            0 => break,
            len => text.push_str(&String::from_utf8_lossy(&bytes[..len])),
        }
    }
    text
}

/// A request for a path, with as many bytes of a body.
fn request(path: &str, body: usize) -> Vec<u8> {
    let head = if body > 0 {
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {body}\r\n\r\n")
    } else {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
    };
    [head.as_bytes(), &vec![b'b'; body]].concat()
}

/// Nothing is lent to what was begun: without memory it waits.
fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
}

#[test]
fn a_request_waits_until_there_is_room() {
    on_each("a request", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        assert!(ask(&mut client, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        client.write_all(&request("/", 0)).expect("it is sent");
        stage.until_red();
        stage.want(false);
        let answer = read(&mut client, "fine");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fine"), "{answer}");
    });
}

#[test]
fn a_request_whose_head_came_in_parts_waits_and_keeps_its_body() {
    on_each("a head in parts", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        // In one segment: when the first is answered, the beginning of the second has been looked at.
        let begun = [&request("/", 0)[..], b"POST /body HTTP/1.1\r\nHost: h\r\nConte"].concat();
        assert!(ask(&mut client, &begun, "fine").starts_with("HTTP/1.1 200 "));
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        // Its body looks like the end of a head to who looks for that a second time.
        client.write_all(b"nt-Length: 5\r\n\r\n\r\n\r\nb").expect("it is sent");
        stage.until_red();
        stage.want(false);
        let answer = read(&mut client, "\r\n\r\n5");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n5"), "{answer}");
    });
}

#[test]
fn an_answer_waits_until_there_is_room() {
    on_each("an answer", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        client.write_all(&request("/answer", 0)).expect("it is sent");
        stage.until_red();
        stage.want(false);
        let answer = read(&mut client, &"a".repeat(16 * 1024));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer:.200}");
    });
}

#[test]
fn small_answers_need_no_memory() {
    on_each("small answers", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        let answer = ask(&mut client, &request("/small", 0), &"s".repeat(2_000));
        assert_eq!(answer.matches("HTTP/1.1 103 ").count(), 2, "{answer}");
        assert!(answer.contains("HTTP/1.1 200 ") && stage.is_held(), "{answer}");
    });
    on_each("small pieces", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        let answer = ask(&mut client, &request("/small-pieces", 0), "\r\n0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && stage.is_held(), "{answer:.200}");
        assert_eq!(answer.matches("ppp").count() * 3, 50 * 3_000);
    });
}

#[test]
fn a_piece_of_an_answer_waits_until_there_is_room() {
    on_each("pieces", &lends_nothing(), |address, stage| {
        let mut client = connect(address);
        client.write_all(&request("/pieces", 0)).expect("it is sent");
        stage.until_red();
        stage.want(false);
        let answer = read(&mut client, "\r\n0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n0\r\n\r\n"), "{answer:.200}");
        let body: usize = answer.matches("ppp").count() * 3;
        assert_eq!(body, 900 + 4 * 9_000);
    });
}

#[test]
fn connections_are_turned_away_while_the_container_has_no_room_for_their_sockets() {
    under_line_for_all("no room for sockets", LINE, async |runtime| {
        // With the line, and the 20 % that are for others, there is room for three and a half connections.
        let one = plan::kernel_per_connection(runtime.driver().kind);
        runtime.budget().set_container_bytes((LINE.as_bytes() + 3 * one + one / 2) * 10 / 8);
        let server = Server::bind("127.0.0.1:0")?;
        let address = server.local_addr();
        let clients = move || {
            let mut clients: Vec<_> = (0..4).map(|_| connect(address)).collect();
            for client in &mut clients[..3] {
                assert!(ask(client, &request("/", 0), "fine").ends_with("fine"));
            }
            let mut last = clients.pop().expect("there are four");
            let mut answer = String::new();
            last.read_to_string(&mut answer).expect("it is told and closed");
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: "), "{answer}");
            drop(clients.pop());
            // The server sees that end in a turn of its own.
            let served = (0..1_000).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                let (mut client, mut head) = (connect(address), [0; 12]);
                let answer = client.write_all(&request("/", 0)).and_then(|()| client.read_exact(&mut head));
                answer.is_ok() && head == *b"HTTP/1.1 200"
            });
            assert!(served, "there is room again");
        };
        serve_until(server.serve(|_req| async { Response::text("fine") }), clients).await
    });
}

#[test]
fn a_wait_that_is_too_long_ends_with_a_503() {
    let config = Config { memory_timeout: Duration::from_millis(500), ..lends_nothing() };
    on_each("too long a wait", &config, |address, stage| {
        let mut client = connect(address);
        assert!(ask(&mut client, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        let answer = ask(&mut client, &request("/", 0), "\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.to_lowercase().contains("retry-after: 1"), "{answer}");
        stage.want(false);
        stage.until(|stage| !stage.is_held(), "the memory is free");
        assert!(ask(&mut connect(address), &request("/body", 3_000), "3000").starts_with("HTTP/1.1 200 "));
    });
}

/// Requests with heads of 3 KiB, from connections that were parked before, more than there are spare places for.
#[test]
fn requests_wait_in_the_socket_for_as_long_as_there_is_no_memory() {
    let config = Config { admission_timeout: PATIENCE, ..lends_nothing() };
    on_each("in the socket", &config, |address, stage| {
        let large = format!("GET / HTTP/1.1\r\nHost: h\r\nX-Filler: {}\r\n\r\n", "f".repeat(3_000));
        let mut clients: Vec<TcpStream> = (0..40).map(|_| connect(address)).collect();
        for client in &mut clients {
            assert!(ask(client, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
        }
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        for client in &mut clients {
            client.write_all(large.as_bytes()).expect("it is sent");
        }
        stage.until_red();
        stage.want(false);
        for client in &mut clients {
            let answer = read(client, "fine");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("fine"), "{answer}");
        }
    });
}

/// Others are told after `admission_timeout`, and their connections are kept.
#[test]
fn an_upload_may_wait_to_be_begun_for_longer_than_other_requests() {
    let config = Config { admission_timeout: Duration::from_millis(50), memory_timeout: PATIENCE, ..lends_nothing() };
    on_each("an upload", &config, |address, stage| {
        let mut clients: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
        for client in &mut clients {
            assert!(ask(client, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
        }
        let [uploads, expects, asks] = &mut clients[..] else { unreachable!("there are three") };
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        uploads.write_all(&request("/body", 10_000)).expect("it is sent");
        let head = b"POST /body HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
        expects.write_all(head).expect("it is sent");
        stage.until_red();
        for _ in 0..3 {
            let refused = ask(asks, &request("/", 0), "in a second\n");
            assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("\r\nRetry-After: "), "{refused}");
            assert!(!refused.contains("Connection: close"), "{refused}");
        }
        stage.want(false);
        let answer = read(uploads, "\r\n\r\n10000");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\n10000"), "{answer}");
        assert!(read(expects, "\r\n\r\n").starts_with("HTTP/1.1 100 "), "it is told to go on");
        let answer = ask(expects, b"5\r\nhello\r\n0\r\n\r\n", "\r\n\r\n5");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(ask(asks, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn who_goes_away_while_its_request_waits_is_waited_for_no_longer() {
    let config = Config { admission_timeout: PATIENCE, memory_timeout: PATIENCE, ..lends_nothing() };
    on_each("gone away", &config, |address, stage| {
        let mut clients: Vec<TcpStream> = (0..2).map(|_| connect(address)).collect();
        for client in &mut clients {
            assert!(ask(client, &request("/", 0), "fine").starts_with("HTTP/1.1 200 "));
        }
        stage.want(true);
        stage.until(Stage::is_held, "all memory is held");
        clients[0].write_all(&request("/", 0)).expect("it is sent");
        clients[1].write_all(&request("/body", 10_000)).expect("it is sent");
        stage.until_red();
        drop(clients);
        let are_gone = |stage: &Stage| {
            let totals = stage.counters.totals();
            totals.parked + totals.active == 0
        };
        stage.until(are_gone, "the connections are closed while there is no memory");
        assert!(stage.is_held());
    });
}
