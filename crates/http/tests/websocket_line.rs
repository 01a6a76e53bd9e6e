//! WebSockets whose messages come when there is no memory: they wait in line, and end with 1013 when there is none for too long. On each driver.

#![forbid(unsafe_code)]

mod rig;

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll_http::codec::ws::{CloseCode, Decoder, Event, FrameHead, Limits, Opcode, Role};
use plimsoll_http::{Config, Error, Message, Request, Response, WebSocketConfig, WebSocketRef};
use plimsoll_runtime::net::TcpStream;
use plimsoll_runtime::{Kind, Lease, Result, budget, pool, sleep, timeout};
use rig::{on_each, serve};

const HANDSHAKE: &str = "Host: here\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// A handler that is called, and a task.
const FORMS: [&str; 2] = ["/called", "/task"];
/// Tests end with an error, not with a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// A message that a client sends: for ever, so that no memory is needed to send it.
fn text(bytes: usize) -> &'static [u8] {
    let head = FrameHead::message(Opcode::Text, bytes as u64).masked([1, 2, 3, 4]);
    let mut payload = vec![b't'; bytes];
    head.mask(&mut payload);
    Vec::leak([head.encode().as_bytes(), &payload].concat())
}

/// The client's end.
struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    decoder: Decoder,
}

/// What the server says: a message of so many bytes, a ping, a close, the end.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Message(usize),
    Ping,
    Close(Option<CloseCode>),
    End,
}

impl Client {
    async fn open(address: SocketAddr, path: &str) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await?;
        stream.send_bytes(format!("GET {path} HTTP/1.1\r\n{HANDSHAKE}").as_bytes()).await?;
        let mut input = Vec::new();
        loop {
            if let Some(at) = input.windows(4).position(|window| window == b"\r\n\r\n") {
                assert!(input.starts_with(b"HTTP/1.1 101 "));
                let limits = Limits { message_bytes_max: u32::MAX, fragments_max: u32::MAX };
                let decoder = Decoder::new(Role::Client, limits);
                return Ok(Self { stream, input: input.split_off(at + 4), decoder });
            }
            input.extend_from_slice(&stream.recv().await?.expect("an answer"));
        }
    }

    /// The same, and has had a message back: the server has gone on with it after its 101.
    async fn met(address: SocketAddr, path: &str) -> Result<Self> {
        let mut client = Self::open(address, path).await?;
        client.say(text(1)).await?;
        assert_eq!(client.hear().await?, Said::Message(1));
        Ok(client)
    }

    async fn say(&mut self, bytes: &'static [u8]) -> Result<()> {
        timeout(PATIENCE, self.stream.send_static(bytes)).await?
    }

    /// For a while at least.
    async fn hears_nothing(&mut self, time: Duration) {
        let said = timeout(time, self.hear()).await;
        assert!(said.is_err(), "{said:?}");
    }

    async fn hear(&mut self) -> Result<Said> {
        let mut bytes = 0;
        loop {
            let decoded = self.decoder.decode(&mut self.input, 0).expect("a server keeps to the protocol");
            self.input.drain(..decoded.consumed);
            match decoded.event {
                Event::NeedMore => match timeout(PATIENCE, self.stream.recv()).await?? {
                    Some(lease) => self.input.extend_from_slice(&lease),
                    None => return Ok(Said::End),
                },
                Event::Data(range) => bytes += range.len(),
                Event::End => return Ok(Said::Message(bytes)),
                Event::Ping(_) => return Ok(Said::Ping),
                Event::Close { code, .. } => return Ok(Said::Close(code)),
                Event::Begin { .. } | Event::Pong(_) => {}
            }
        }
    }
}

/// Sends back what comes.
fn echo(request: Request) -> core::future::Ready<core::result::Result<Response, Error>> {
    let config = WebSocketConfig::default();
    core::future::ready(match request.path() {
        "/called" => {
            request.serve_websocket(&config, |socket: &mut WebSocketRef<'_>, message: Message| socket.send(message))
        }
        _ => request.upgrade_websocket(&config, |mut socket| async move {
            while let Ok(Some(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        }),
    })
}

/// Takes all memory, and what is given back for want of it, until nothing comes any more.
async fn fill() -> Vec<Lease> {
    let (mut held, mut rounds_in_vain) = (Vec::new(), 0);
    while rounds_in_vain < 20 {
        let before = held.len();
        for bytes in [131_072, 16_384, 4_096, 1_024, 512, 256, 128, 64] {
            while let Ok(lease) = pool().try_acquire(bytes, Kind::Buffers) {
                held.push(lease);
            }
        }
        rounds_in_vain = if held.len() == before { rounds_in_vain + 1 } else { 0 };
        sleep(Duration::from_millis(10)).await;
    }
    held
}

#[test]
fn a_message_that_comes_at_the_line_waits() {
    on_each("a short message at the line", async || {
        let running = serve(Config::default(), echo)?;
        for form in FORMS {
            let mut client = Client::met(running.address, form).await?;
            let held = fill().await;
            client.say(text(100)).await?;
            // Longer than a tick: it keeps waiting.
            client.hears_nothing(Duration::from_millis(800)).await;
            drop(held);
            assert_eq!(client.hear().await?, Said::Message(100), "{form}");
            client.say(text(900)).await?;
            assert_eq!(client.hear().await?, Said::Message(900), "{form}");
        }
        assert!(budget().peak() <= budget().limit().as_bytes(), "the line holds");
        running.stop().await
    });
}

#[test]
fn a_long_message_waits_in_its_socket() {
    on_each("a long message at the line", async || {
        let running = serve(Config::default(), echo)?;
        for form in FORMS {
            let mut client = Client::met(running.address, form).await?;
            // Memory gets short, and a message goes round: from then on room is made before anything is received.
            let mut held = fill().await;
            held.drain(..20);
            client.say(text(10)).await?;
            assert_eq!(client.hear().await?, Said::Message(10), "{form}");
            let rest = fill().await;
            client.say(text(60_000)).await?;
            client.hears_nothing(Duration::from_millis(800)).await;
            drop((held, rest));
            assert_eq!(client.hear().await?, Said::Message(60_000), "{form}");
        }
        running.stop().await
    });
}

#[test]
fn a_message_that_waits_for_too_long_ends_its_connection_with_a_word() {
    on_each("a message at the line, for too long", async || {
        let config = Config { memory_timeout: Duration::from_millis(500), ..Config::default() };
        let running = serve(config, echo)?;
        let mut client = Client::met(running.address, "/called").await?;
        let mut held = fill().await;
        held.drain(..20);
        client.say(text(10)).await?;
        assert_eq!(client.hear().await?, Said::Message(10));
        let rest = fill().await;
        client.say(text(5_000)).await?;
        // Told without memory, and heard without: a close frame is short.
        sleep(Duration::from_millis(1_500)).await;
        drop((held, rest));
        assert_eq!(client.hear().await?, Said::Close(Some(CloseCode::TRY_LATER)));
        drop(client);
        running.stop().await
    });
}

/// What was on its way before memory got short, and is more than what is kept for those in line.
#[test]
fn what_has_no_place_to_wait_in_is_told_so() {
    on_each("too much at the line", async || {
        let running = serve(Config::default(), echo)?;
        let mut client = Client::met(running.address, "/called").await?;
        let held = fill().await;
        client.say(text(5_000)).await?;
        sleep(Duration::from_millis(300)).await;
        drop(held);
        assert_eq!(client.hear().await?, Said::Close(Some(CloseCode::TRY_LATER)));
        drop(client);
        running.stop().await
    });
}

/// A task that takes no message, and is told that its peer is gone.
#[test]
fn a_peer_that_is_gone_is_noticed_beside_a_message_that_nobody_takes() {
    on_each("a message that is not taken", async || {
        let running = serve(Config::default(), |request: Request| {
            let config = WebSocketConfig { ping_interval: Some(Duration::from_millis(250)), ..Default::default() };
            core::future::ready(request.upgrade_websocket(&config, |mut socket| async move {
                sleep(Duration::from_secs(4)).await;
                // One that is open takes it: the first bytes to a peer that is gone are what tells.
                let sent = socket.send(Message::text("too late")).await;
                assert!(matches!(sent, Err(Error::Gone)), "{sent:?}");
                let message = socket.recv().await.expect("it came before").expect("a message");
                assert_eq!(message.as_bytes().len(), 10);
            }))
        })?;
        let mut client = Client::open(running.address, "/").await?;
        client.say(text(10)).await?;
        for _ in 0..3 {
            assert_eq!(client.hear().await?, Said::Ping, "it is asked all the same");
        }
        drop(client);
        for _ in 0..2_000 {
            if running.counters.totals().active == 0 {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(running.counters.totals().active, 0, "the task has ended");
        running.stop().await
    });
}
