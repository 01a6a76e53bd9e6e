//! The PROXY header of a proxy that carries TLS as it is: in the clear, before the handshake.

use core::net::SocketAddr;
use core::time::Duration;
use std::process::{Child, Command, Stdio};

use plimsoll_http::{Config, Counters, HandshakeFailure, ProxyProtocol, Request, Response, Server, Shed};
use plimsoll_runtime::net::{Stream, TcpListener, TcpStream};
use plimsoll_runtime::{Result, Spawner, sleep, spawn, timeout};

use super::{Files, output, read};
use crate::rig::bridge::both;
use crate::rig::{in_simulation, is_simulated, on_each, until};

const ASKS: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
const VERSION_1: &[u8] = b"PROXY TCP4 192.0.2.7 198.51.100.9 12345 443\r\n";
/// The same of version 2.
const VERSION_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x07\xc6\x33\x64\x09\x30\x39\x01\xbb";
/// A connection of the proxy's own.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

fn required() -> Config {
    Config { proxy_protocol: ProxyProtocol::Required, ..Config::default() }
}

struct Proxied {
    files: Files,
    address: SocketAddr,
    counters: Counters,
    serving: plimsoll_runtime::JoinHandle<Result<()>>,
}

impl Proxied {
    fn start(name: &str, config: Config) -> Result<Self> {
        let files = Files::new(name);
        let server = Server::bind("127.0.0.1:0")?.tls(&files.config(false)).config(config);
        let (address, counters) = (server.local_addr(), server.counters());
        let serving = spawn(server.serve(|req: Request| async move {
            let is_secured = req.tls().is_some();
            Response::text(req.peer_addr().map_or("gone".into(), |peer| format!("{peer} {is_secured};")))
        }))?;
        Ok(Self { files, address, counters, serving })
    }

    /// Whom the server takes a client to be that a proxy introduces so: in the clear, with the first message of the
    /// handshake, which a bridge between puts together, from `cut` on.
    async fn told(&self, header: &[u8], cut: usize) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (to, between) = (self.address, listener.local_addr());
        let header = header.to_vec();
        let carrying = spawn(async move {
            let (client, _) = listener.accept().await?;
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(to).await?.into_split();
            let up = async move {
                let mut whole = header;
                whole.extend_from_slice(&from_client.recv().await?.expect("a ClientHello"));
                to_server.send_bytes(&whole[..cut]).await?;
                if cut > 0 {
                    sleep(Duration::from_millis(2)).await;
                }
                to_server.send_bytes(&whole[cut..]).await?;
                while let Some(bytes) = from_client.recv().await? {
                    to_server.send_bytes(&bytes).await?;
                }
                to_server.shutdown_write().await?;
                Ok((from_client, to_server))
            };
            let down = async move {
                while let Some(bytes) = from_server.recv().await? {
                    to_client.send_bytes(&bytes).await?;
                }
                to_client.shutdown_write().await?;
                Ok((from_server, to_client))
            };
            both(up, down).await
        })?
        .abort_on_drop();
        let connector = self.files.client(b"http/1.1");
        let mut client = connector.connect("localhost", TcpStream::connect(between).await?).await?;
        let answer = ask(&mut client).await;
        drop(carrying);
        answer
    }

    /// All that is said to who sends these bytes and no more.
    async fn heard(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let mut client = TcpStream::connect(self.address).await?;
        client.send_bytes(bytes).await?;
        let mut heard = Vec::new();
        // On a real socket what was not read is perhaps answered by a reset.
        while let Ok(Some(lease)) = timeout(Duration::from_secs(60), client.recv()).await? {
            heard.extend_from_slice(&lease);
        }
        Ok(heard)
    }

    fn failed(&self, why: HandshakeFailure) -> u64 {
        let at = HandshakeFailure::ALL.iter().position(|one| *one == why).expect("one of all");
        self.counters.totals().handshakes.failed_total[at]
    }

    async fn stop(self) -> Result<()> {
        Spawner::current().stop();
        self.serving.await.expect("no panic")
    }
}

async fn ask(client: &mut Stream) -> Result<String> {
    client.send_static(ASKS).await?;
    let answer = read(client, b";").await?;
    Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
}

#[test]
fn a_proxy_names_the_client_before_its_handshake() {
    on_each("proxied", async || {
        let server = Proxied::start("proxied", required())?;
        for header in [VERSION_1, VERSION_2] {
            assert_eq!(server.told(header, 0).await?, "192.0.2.7:12345 true;", "in one segment");
            for cut in 1..=header.len() + 1 {
                assert_eq!(server.told(header, cut).await?, "192.0.2.7:12345 true;", "split at {cut}");
            }
        }
        let own = server.told(LOCAL, 0).await?;
        assert!(own.starts_with("127.0.0.1:") && own.ends_with(" true;"), "{own}");
        let totals = server.counters.totals();
        let sessions = (VERSION_1.len() + VERSION_2.len() + 5) as u64;
        assert_eq!((totals.handshakes.begun_total, totals.handshakes.completed_total), (sessions, sessions));
        assert_eq!(totals.shed_total.iter().sum::<u64>(), 0);
        server.stop().await
    });
}

#[test]
fn the_longest_header_is_taken_and_a_longer_one_is_not() {
    on_each("long header", async || {
        let server = Proxied::start("long-header", required())?;
        let of = |payload: usize| {
            let mut header = VERSION_2.to_vec();
            header[14..16].copy_from_slice(&(payload as u16).to_be_bytes());
            // A field without meaning (PP2_TYPE_NOOP) is the rest.
            let rest = payload - 12;
            header.extend_from_slice(&[0x04, ((rest - 3) >> 8) as u8, (rest - 3) as u8]);
            header.resize(16 + payload, 7);
            header
        };
        for cut in [0, 15, 16, 28, 1_000, 2_047, 2_048] {
            assert_eq!(server.told(&of(2_048 - 16), cut).await?, "192.0.2.7:12345 true;", "split at {cut}");
        }
        assert_eq!(server.heard(&of(2_049 - 16)).await?, b"");
        assert_eq!(server.failed(HandshakeFailure::ProxyHeader), 1);
        server.stop().await
    });
}

#[test]
fn who_is_not_introduced_is_closed() {
    on_each("not introduced", async || {
        let server = Proxied::start("not-introduced", required())?;
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
        let bad: [&[u8]; 4] = [&hello, ASKS, b"PROXY TCP5 a b 1 2\r\n", b"\r\n\r\n\0\r\nQUIX\n"];
        for (before, bad) in bad.into_iter().enumerate() {
            assert_eq!(server.heard(bad).await?, b"", "{}", bad.escape_ascii());
            assert_eq!(server.failed(HandshakeFailure::ProxyHeader), before as u64 + 1);
        }
        let totals = server.counters.totals();
        assert_eq!((totals.shed_total[Shed::Misbehaviour as usize], totals.handshakes.begun_total), (4, 0));
        // Behind a header HTTP is told where it is, as it is without one.
        let heard = server.heard(&[VERSION_1, ASKS].concat()).await?;
        assert!(heard.starts_with(b"HTTP/1.1 400 "), "{}", heard.escape_ascii());
        assert_eq!(server.failed(HandshakeFailure::PlainHttp), 1);
        server.stop().await
    });
}

#[test]
fn a_header_and_the_handshake_behind_it_have_their_times() {
    in_simulation("deadlines", async || {
        let server = Proxied::start("deadlines", required())?;
        for (bytes, seconds) in
            [(&b""[..], 5), (b"PROXY TCP4 192", 5), (VERSION_1, 10), (&[VERSION_1, &[0x16]].concat(), 10)]
        {
            let begun = plimsoll_runtime::now();
            assert_eq!(server.heard(bytes).await?, b"");
            let took = plimsoll_runtime::now().since(begun).as_secs();
            assert!((seconds..=seconds + 1).contains(&took), "{}: {took} s", bytes.escape_ascii());
        }
        assert_eq!(server.failed(HandshakeFailure::Timeout), 4);
        server.stop().await
    });
}

/// Who is introduced by one proxy as one address has half of the places, and another address the others.
#[test]
fn handshakes_are_limited_for_each_address_that_is_named() {
    on_each("named addresses", async || {
        let config = Config { handshakes_in_progress_max: Some(4), connections_per_address_max: Some(3), ..required() };
        let server = Proxied::start("named-addresses", config)?;
        let mut flood = Vec::new();
        for at in 0..3 {
            let mut client = TcpStream::connect(server.address).await?;
            // With the first byte of a ClientHello, which is not followed.
            client.send_bytes(&[VERSION_1, &[0x16]].concat()).await?;
            flood.push(client);
            let begun = || server.counters.totals().handshakes.begun_total;
            until("it has begun, if it may", || begun() >= (at + 1).min(2)).await;
        }
        until("the third waits", || server.counters.totals().handshakes.waiting == 1).await;
        let other = b"PROXY TCP4 192.0.2.8 198.51.100.9 1 443\r\n";
        assert_eq!(server.told(other, 0).await?, "192.0.2.8:1 true;");
        // One more of the first is refused, as on a plain port, but for the word.
        assert_eq!(server.heard(VERSION_1).await?, b"");
        assert_eq!(server.counters.totals().shed_total[Shed::Accept as usize], 1);
        drop(flood);
        server.stop().await
    });
}

/// The processes of a test end with it.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Connects to a program that has just been started.
async fn connect_when_there(to: SocketAddr) -> Result<TcpStream> {
    loop {
        sleep(Duration::from_millis(10)).await;
        match TcpStream::connect(to).await {
            // A port that nobody listens at may be the one that it is connected from.
            Ok(stream) if stream.local_addr()? != to => return Ok(stream),
            Ok(_) | Err(_) => {}
        }
    }
}

#[test]
fn haproxy_names_the_client() {
    if output(Command::new("haproxy").arg("-v")).is_none() {
        return;
    }
    on_each("haproxy", async || {
        if is_simulated() {
            return Ok(());
        }
        let server = Proxied::start("haproxy", required())?;
        for says in ["send-proxy", "send-proxy-v2"] {
            // A port that nobody has now.
            let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            let front = free.local_addr().expect("bound");
            drop(free);
            let file = server.files.dir.join("haproxy.cfg");
            let text = format!(
                "defaults\n mode tcp\n timeout connect 5s\n timeout client 50s\n timeout server 50s\n\
                 listen tls\n bind {front}\n server one {} {says}\n",
                server.address
            );
            std::fs::write(&file, text).expect("written");
            let mut command = Command::new("haproxy");
            command.args(["-db", "-f"]).arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let _haproxy = Killed(command.spawn().expect("it is there"));
            let stream = timeout(Duration::from_secs(60), connect_when_there(front)).await??;
            let own = stream.local_addr()?;
            let mut client = server.files.client(b"http/1.1").connect("localhost", stream).await?;
            assert_eq!(ask(&mut client).await?, format!("{own} true;"), "{says}");
        }
        server.stop().await
    });
}
