//! What finds no room waits for it. The program holds the memory itself here, so nobody can be let go of. What waits,
//! on which protocol, is the table in `waits.rs`; here are the server and the stage that it is run on, and what else
//! becomes of those who wait.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_codec::ws::CloseCode;
use plimsoll_http::{Config, Counters, Error, Message, Request, Response, Server, StatusCode, WebSocketConfig};
use plimsoll_runtime::{Budget, MemoryLimit, plan, sleep, spawn};

use crate::rig::memory::fill;
use crate::rig::threads::{TEST_TIMEOUT, connect, serve_until, under_line_for_all, until};
use crate::rig::{count_body, websocket};

const LINE: MemoryLimit = MemoryLimit::mib(4);

/// Who holds the memory, and who wants it held.
pub(super) struct Stage {
    wanted: AtomicBool,
    held: AtomicBool,
    pub(super) budget: Arc<Budget>,
    pub(super) counters: Counters,
}

impl Stage {
    /// Has the program take all memory, or give it back.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// For clients: until it is so.
    pub(super) fn until(&self, holds: impl Fn(&Self) -> bool, what: &str) {
        until(what, || holds(self));
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

/// Takes all memory that is left, and what is given back, while it is wanted.
async fn hold(stage: Arc<Stage>) {
    let mut held = Vec::new();
    loop {
        sleep(Duration::from_millis(5)).await;
        let wanted = stage.wanted.load(Ordering::Acquire);
        if wanted {
            held.extend(fill(1));
        } else {
            held.clear();
        }
        stage.held.store(wanted, Ordering::Release);
    }
}

/// For handlers: has all memory taken.
async fn held(stage: &Stage) {
    stage.want(true);
    while !stage.is_held() {
        sleep(Duration::from_millis(1)).await;
    }
}

async fn answer(mut req: Request, stage: Arc<Stage>) -> Result<Response, Error> {
    match req.path() {
        "/answer" => {
            held(&stage).await;
            Ok(Response::text(vec![b'a'; 16 * 1024]))
        }
        "/hint" => {
            let hint = Response::new(StatusCode::EARLY_HINTS).header("x-long", "v".repeat(5_000));
            held(&stage).await;
            req.inform(hint).await?;
            Ok(Response::text("hinted"))
        }
        "/long-head" => {
            let response = Response::text("long").header("x-long", "v".repeat(6_000));
            held(&stage).await;
            Ok(response)
        }
        "/small" => {
            req.inform(Response::new(StatusCode::EARLY_HINTS)).await?;
            held(&stage).await;
            req.inform(Response::new(StatusCode::EARLY_HINTS)).await?;
            Ok(Response::text(vec![b's'; 2_000]))
        }
        "/small-pieces" => {
            held(&stage).await;
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
            held(&stage).await;
            for _ in 0..4 {
                out.write_bytes(vec![b'p'; 9_000].into()).await?;
            }
            out.finish().await
        }
        "/body" => Ok(Response::text(req.collect().await?.len().to_string())),
        "/counted" => Ok(Response::text(count_body(&mut req).await?.to_string())),
        "/task" | "/called" => websocket::echo(&req, &patient()),
        // Sends a message of so many bytes when something has come.
        path if path.starts_with("/sends/") => {
            let bytes: usize = path["/sends/".len()..].parse().expect("a number");
            req.upgrade_websocket(&patient(), move |mut socket| async move {
                let message = Message::binary(vec![b'm'; bytes]);
                let _go = socket.recv().await;
                held(&stage).await;
                if socket.send(message).await.is_ok() {
                    let _closed = socket.close(CloseCode::NORMAL, "").await;
                }
            })
        }
        _ => Ok(Response::text("fine")),
    }
}

/// What ends one of these WebSockets is not its peer's time.
fn patient() -> WebSocketConfig {
    let hour = Duration::from_secs(3_600);
    WebSocketConfig { send_timeout: hour, message_timeout: hour, ping_interval: None, ..WebSocketConfig::default() }
}

/// Runs clients in a thread of their own against a server of each driver.
pub(super) fn on_each(name: &str, config: &Config, clients: impl Fn(SocketAddr, &Stage) + Clone + Send + 'static) {
    under_line_for_all(name, LINE, async |runtime| {
        let (wanted, held) = (AtomicBool::new(false), AtomicBool::new(false));
        let server = Server::bind("127.0.0.1:0")?.config(config.clone());
        let (budget, counters) = (Arc::clone(runtime.budget()), server.counters());
        let stage = Arc::new(Stage { wanted, held, budget, counters });
        let holding = spawn(hold(Arc::clone(&stage)))?;
        let (address, theirs) = (server.local_addr(), Release(Arc::clone(&stage)));
        let serving = server.serve(move |req| answer(req, Arc::clone(&stage)));
        let clients = clients.clone();
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
pub(super) fn ask(stream: &mut TcpStream, request: &[u8], end: &str) -> String {
    stream.write_all(request).expect("it is sent");
    read(stream, end)
}

/// Reads until `end` is there or the connection ends.
fn read(stream: &mut TcpStream, end: &str) -> String {
    let mut text = String::new();
    let mut bytes = [0; 16 * 1024];
    while !text.contains(end) {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(len) => text.push_str(&String::from_utf8_lossy(&bytes[..len])),
            // Who is refused at the accept is told so, and what it sent meanwhile is not read.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && text.starts_with("HTTP/1.1 503 ") => break,
            Err(error) => panic!("an answer or the end, and not {error}: {text:.200}"),
        }
    }
    text
}

/// A request for a path, with as many bytes of a body.
pub(super) fn request(path: &str, body: usize) -> Vec<u8> {
    let head = if body > 0 {
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {body}\r\n\r\n")
    } else {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
    };
    [head.as_bytes(), &vec![b'b'; body]].concat()
}

/// Nothing is lent to what was begun: without memory it waits.
pub(super) fn lends_nothing() -> Config {
    Config { progress_reserve_bytes: 0, ..Config::default() }
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
            until("there is room again", || {
                std::thread::sleep(Duration::from_millis(10));
                let (mut client, mut head) = (connect(address), [0; 12]);
                let answer = client.write_all(&request("/", 0)).and_then(|()| client.read_exact(&mut head));
                answer.is_ok() && head == *b"HTTP/1.1 200"
            });
        };
        serve_until(server.serve(|_req| async { Response::text("fine") }), clients).await
    });
}

/// Requests with heads of 3 KiB, from connections that were parked before, more than there are spare places for.
#[test]
fn requests_wait_in_the_socket_for_as_long_as_there_is_no_memory() {
    let config = Config { admission_timeout: TEST_TIMEOUT, ..lends_nothing() };
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
    let config =
        Config { admission_timeout: Duration::from_millis(50), memory_timeout: TEST_TIMEOUT, ..lends_nothing() };
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
    let config = Config { admission_timeout: TEST_TIMEOUT, memory_timeout: TEST_TIMEOUT, ..lends_nothing() };
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
