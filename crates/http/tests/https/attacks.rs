//! Attacks on TLS, a row for each: what is sent, and that the server ends the connection. Each runs under a small line,
//! beside an honest client that is served.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use plimsoll_http::Config;
use plimsoll_runtime::MemoryLimit;
use rustls::crypto::cipher::{MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, Error, NamedGroup, ProtocolVersion, SupportedCipherSuite,
};

use crate::crowds::against;
use crate::peers::{Peer, connect_from, hello, is_closed_within, settings};
use crate::rig::threads::until;

const LINE: MemoryLimit = MemoryLimit::mib(8);
const TLS12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];
const TLS13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];

/// Long enough for any limit but the deadlines of an hour that a server here has.
const SOON: Duration = Duration::from_secs(60);

/// Time does not end what is sent here: its limit does.
fn patient() -> Config {
    let hour = Duration::from_secs(3_600);
    Config { keep_alive_timeout: hour, head_timeout: hour, body_timeout: hour, ..Config::default() }
}

/// A peer that seals records itself, behind its handshake.
struct Sealer {
    socket: TcpStream,
    encrypter: Box<dyn MessageEncrypter>,
    number: u64,
    version: ProtocolVersion,
}

impl Sealer {
    fn open(address: SocketAddr, mut config: ClientConfig) -> Self {
        config.enable_secret_extraction = true;
        let mut peer = Peer::new(1, address, config, "localhost");
        peer.shake().expect("an honest handshake");
        let suite = peer.session.negotiated_cipher_suite().expect("agreed on");
        let Peer { session, socket } = peer;
        #[allow(deprecated, reason = "no keys are changed by it here")]
        let secrets = session.dangerous_extract_secrets().expect("as was asked for");
        let (number, secrets) = secrets.tx;
        let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
        else {
            panic!("another suite")
        };
        let encrypter = match suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
            SupportedCipherSuite::Tls12(suite) => {
                let (fixed, explicit) = iv.as_ref().split_at(4);
                suite.aead_alg.encrypter(key, fixed, explicit)
            }
        };
        Self { socket, encrypter, number, version: ProtocolVersion::TLSv1_2 }
    }

    fn send(&mut self, typ: ContentType, payload: &[u8]) -> std::io::Result<()> {
        let plain = OutboundPlainMessage { typ, version: self.version, payload: OutboundChunks::Single(payload) };
        let sealed = self.encrypter.encrypt(plain, self.number).expect("keys are good").encode();
        self.number += 1;
        self.socket.write_all(&sealed)
    }
}

/// Sends until the other side has had enough, at most so often; the socket.
fn flood(mut sealer: Sealer, times: usize, typ: ContentType, payload: &[u8]) -> TcpStream {
    for _ in 0..times {
        if sealer.send(typ, payload).is_err() {
            break;
        }
    }
    sealer.socket
}

fn raw(address: SocketAddr, records: impl IntoIterator<Item = Vec<u8>>) -> TcpStream {
    let mut socket = connect_from(1, address);
    for record in records {
        if socket.write_all(&record).is_err() {
            break;
        }
    }
    socket
}

/// A group of keys that the server has not: it asks for another by a HelloRetryRequest.
#[derive(Debug)]
struct Unknown;

impl SupportedKxGroup for Unknown {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Ok(Box::new(Unknown))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::FFDHE2048
    }
}

impl ActiveKeyExchange for Unknown {
    fn complete(self: Box<Self>, _: &[u8]) -> Result<SharedSecret, Error> {
        Err(Error::General("not spoken".into()))
    }

    fn pub_key(&self) -> &[u8] {
        &[7; 256]
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::FFDHE2048
    }
}

/// What makes a server ask once more.
fn unknown_first() -> ClientConfig {
    let mut provider = ring::default_provider();
    provider.kx_groups.insert(0, &Unknown);
    let builder = ClientConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(TLS13);
    let builder = builder.expect("a version of this provider").dangerous();
    builder.with_custom_certificate_verifier(Arc::<crate::peers::Anybody>::default()).with_no_client_auth()
}

/// A client that shows its certificate with others behind it.
fn with_chain(made: &rcgen::CertifiedKey<rcgen::KeyPair>, others: usize) -> ClientConfig {
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let certificate = CertificateDer::from(made.cert.der().to_vec());
    let chain = vec![certificate; 1 + others];
    let key = ring::sign::any_supported_type(&key).expect("a key");
    let certified = rustls::sign::CertifiedKey::new(chain, key);
    let mut config = settings(TLS13);
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    config
}

type Attack = (&'static str, fn(SocketAddr) -> TcpStream);

/// Each is ended by its limit.
const ENDED: [Attack; 14] = [
    ("records of nothing before the hello", |address| raw(address, (0..1_000).map(|_| vec![22, 3, 1, 0, 0]))),
    ("warnings before the hello", |address| raw(address, (0..1_000).map(|_| vec![21, 3, 1, 0, 2, 1, 90]))),
    ("changes of cipher behind the hello", |address| {
        raw(address, [hello()].into_iter().chain((0..1_000).map(|_| vec![20, 3, 3, 0, 1, 1])))
    }),
    ("a record that is too long", |address| raw(address, [vec![22, 3, 1, 0x48, 1]])),
    ("a hello that is too long", |address| {
        let first = [&[22, 3, 1, 0x40, 0, 1, 0, 0x80, 0], &[7; 16_380][..]].concat();
        raw(address, [first, [&[22, 3, 1, 0x40, 0], &[7; 16_384][..]].concat()])
    }),
    ("a hello of records of one byte that goes on and on", |address| {
        let first = [22, 3, 1, 0, 4, 1, 0, 0x80, 0].to_vec();
        raw(address, [first].into_iter().chain((0..20_000).map(|_| vec![22, 3, 1, 0, 1, 7])))
    }),
    ("noise", |address| raw(address, [vec![0x80; 64]])),
    ("data in the clear behind the hello", |address| raw(address, [hello(), vec![23, 3, 3, 0, 4, 1, 2, 3, 4]])),
    ("two hellos", |address| raw(address, [hello(), hello()])),
    ("changes of keys", |address| {
        let mut peer = Peer::new(1, address, settings(TLS13), "localhost");
        peer.shake().expect("an honest handshake");
        for _ in 0..2_000 {
            if peer.session.refresh_traffic_keys().and_then(|()| peer.flush().map_err(|_| Error::DecryptError)).is_err()
            {
                break;
            }
        }
        peer.socket
    }),
    ("sealed warnings of 1.2", |address| {
        flood(Sealer::open(address, settings(TLS12)), 1_000, ContentType::Alert, &[1, 90])
    }),
    ("renegotiations of 1.2", |address| {
        let hello = hello();
        flood(Sealer::open(address, settings(TLS12)), 1_000, ContentType::Handshake, &hello[5..])
    }),
    ("a record that is sealed twice", |address| {
        let mut sealer = Sealer::open(address, settings(TLS13));
        sealer.send(ContentType::ApplicationData, b"GET /once HTTP/1.1\r\nHost: h\r\n\r\n").expect("it is open");
        sealer.number -= 1;
        let _refused = sealer.send(ContentType::ApplicationData, b"GET /twice HTTP/1.1\r\nHost: h\r\n\r\n");
        sealer.socket
    }),
    ("a message of a handshake that is never whole", |address| {
        let sealer = Sealer::open(address, settings(TLS13));
        flood(sealer, 2_000, ContentType::Handshake, &[24, 0xff, 0xff, 0xff])
    }),
];

#[test]
fn what_breaks_a_limit_ends_its_connection_alone() {
    against("limits", LINE, &patient(), |address, _| {
        let mut honest = Peer::open(9, address);
        for (what, attack) in ENDED {
            let mut socket = attack(address);
            assert!(is_closed_within(&mut socket, SOON), "{what}: it goes on");
            honest.ask("/honest").unwrap_or_else(|error| panic!("{what}: an honest client fails: {error}"));
        }
        Peer::open(9, address).ask("/another").expect("a new one is served, too");
    });
}

/// Records that say nothing do not keep a session from being idle.
#[test]
fn records_of_nothing_keep_nobody_awake() {
    let config = Config { keep_alive_timeout: Duration::from_millis(700), ..Config::default() };
    against("nothing", LINE, &config, |address, _| {
        let mut sealer = Sealer::open(address, settings(TLS13));
        let begun = std::time::Instant::now();
        while sealer.send(ContentType::ApplicationData, &[]).is_ok() {
            assert!(begun.elapsed() < SOON, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
        Peer::open(9, address).ask("/honest").expect("it is served");
    });
}

#[test]
fn a_flood_of_hellos_delays_nobody_for_long() {
    const HELLOS: usize = 600;
    against("hellos", LINE, &Config::default(), |address, counters| {
        let mut honest = Peer::open(9, address);
        let hello = hello();
        let flood = std::thread::spawn(move || {
            let mut sockets = Vec::new();
            for at in 0..HELLOS {
                sockets.push(raw(address, [hello.clone()]));
                // Half of them go away at once.
                if at % 2 == 0 {
                    sockets.pop();
                }
            }
            sockets
        });
        let mut asked = 0;
        while !flood.is_finished() || asked < 50 {
            honest.ask("/honest").expect("it is served beside them");
            asked += 1;
        }
        let sockets = flood.join().expect("no panic");
        Peer::open(8, address).ask("/another").expect("so is a new one of another address");
        drop(sockets);
        until("all have ended", || {
            let totals = counters.totals().handshakes;
            totals.in_progress == 0 && totals.completed_total + totals.failed_total.iter().sum::<u64>() >= 302
        });
    });
}

#[test]
fn a_hello_that_is_asked_for_once_more_is_served_and_bounded() {
    against("retry", LINE, &patient(), |address, counters| {
        let mut peer = Peer::new(1, address, unknown_first(), "localhost");
        peer.shake().expect("it is asked for a group that both have");
        peer.ask("/retried").expect("it is served");
        // Who never answers is one in progress, as others are.
        let mut stays = Peer::new(1, address, unknown_first(), "localhost");
        stays.flush().expect("it is sent");
        until("it has begun", || counters.totals().handshakes.in_progress == 1);
        Peer::open(9, address).ask("/honest").expect("it is served");
    });
}

#[test]
fn requests_in_records_of_one_byte_are_served() {
    against("bytes", LINE, &Config::default(), |address, _| {
        let mut peer = Peer::open(1, address);
        let body = "z".repeat(3_000);
        let request = format!("POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n{body}");
        for byte in request.bytes() {
            peer.say(&[byte]).expect("it is sent");
        }
        assert!(peer.hear("3000").expect("an answer").starts_with("HTTP/1.1 200 "));
    });
}

#[test]
fn a_handshake_a_byte_at_a_time_has_its_time_and_no_more() {
    let config = Config { head_timeout: Duration::from_millis(800), ..Config::default() };
    against("bytewise", LINE, &config, |address, counters| {
        let mut socket = connect_from(1, address);
        for byte in hello() {
            if socket.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(is_closed_within(&mut socket, SOON));
        until("for its time", || crate::crowds::failed(counters, plimsoll_http::HandshakeFailure::Timeout) == 1);
        Peer::open(9, address).ask("/honest").expect("it is served");
    });
}

#[test]
fn chains_of_clients_have_a_limit() {
    let user = rcgen::generate_simple_self_signed(["user".to_owned()]).expect("a name");
    let root = user.cert.pem();
    let user = Arc::new(user);
    crate::rig::threads::under_line("chains", LINE, async |_| {
        let files = crate::Files::new("chains");
        let builder = plimsoll_http::tls::TlsConfig::builder();
        let builder = builder.certificate_files(files.dir.join("cert.pem"), files.dir.join("key.pem"));
        let config = builder.client_roots_pem(&root).build().expect("good settings");
        let server = plimsoll_http::Server::bind("127.0.0.1:0")?.tls(&config);
        let (address, user) = (server.local_addr(), Arc::clone(&user));
        let len = user.cert.der().len();
        let clients = move || {
            let ask = |others: usize| {
                let mut peer = Peer::new(1, address, with_chain(&user, others), "localhost");
                peer.shake().and_then(|()| peer.ask("/chain"))
            };
            ask(0).expect("one certificate");
            ask(14_000 / len).expect("14 KiB of them");
            ask(18_000 / len).expect_err("18 KiB");
            ask(60_000 / len).expect_err("60 KiB");
            ask(0).expect("an honest one, behind those");
        };
        crate::rig::threads::serve_until(server.serve(crate::answer), clients).await
    });
}
