//! Several names on one address: certificates and settings by name, requests that came through the wrong session, and
//! sessions that do not go on under another name.

use core::net::SocketAddr;
use std::io::Write;

use plimsoll_http::tls::TlsConfig;
use plimsoll_http::{Config, Counters, Server};
use plimsoll_runtime::MemoryLimit;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::answer;
use crate::crowds::failed;
use crate::peers::{Anybody, Peer, both_versions, settings, settings_of};
use crate::rig::threads::{serve_until, under_line, until};

fn made(names: &[&str]) -> rcgen::CertifiedKey<rcgen::KeyPair> {
    rcgen::generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).expect("names")
}

/// `a.test` and `b.test` have a certificate each, and for `staff.test` clients must show one.
fn against(
    name: &'static str,
    clients: impl Fn(SocketAddr, &Counters, &rcgen::CertifiedKey<rcgen::KeyPair>) + Clone + Send + 'static,
) {
    let user = std::sync::Arc::new(made(&["user"]));
    under_line(name, MemoryLimit::mib(16), async |_| {
        let add = |builder: plimsoll_http::tls::TlsConfigBuilder, names: &[&str]| {
            let made = made(names);
            builder.certificate_pem(made.cert.pem(), made.signing_key.serialize_pem())
        };
        let staff = add(TlsConfig::builder(), &["staff.test"]).client_roots_pem(user.cert.pem());
        let both = add(add(TlsConfig::builder(), &["a.test", "*.a.test"]), &["b.test"]).also(staff);
        // Asked for, and not done: each session knows which certificate it has.
        let config = both.compact(true).build().expect("good settings");
        let server = Server::bind("127.0.0.1:0")?.tls(&config).config(Config::default());
        let (address, counters, clients) = (server.local_addr(), server.counters(), clients.clone());
        let user = std::sync::Arc::clone(&user);
        serve_until(server.serve(answer), move || clients(address, &counters, &user)).await
    });
}

fn peer(address: SocketAddr, name: &'static str) -> Peer {
    let mut peer = Peer::new(1, address, both_versions(), name);
    peer.shake().expect("it is served");
    peer
}

fn status(peer: &mut Peer, host: &str) -> String {
    peer.say(format!("GET /p HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).expect("it is sent");
    // The answer of each has an end of its own.
    let answer = peer.hear("\r\n\r\n").expect("an answer");
    let body = if answer.starts_with("HTTP/1.1 200 ") && !answer.ends_with("/p") {
        peer.hear("/p")
    } else {
        Ok(String::new())
    };
    body.expect("the rest");
    answer[9..12].to_owned()
}

#[test]
fn a_request_for_a_host_of_another_session_is_misdirected() {
    against("misdirected", |address, _, _| {
        let mut at_a = peer(address, "a.test");
        for (host, expected) in [
            ("a.test", "200"),
            ("A.test:443", "200"),
            ("x.a.test", "200"),
            // Nobody's, and so nobody else's.
            ("c.test", "200"),
            ("127.0.0.1", "200"),
            ("b.test", "421"),
            ("staff.test", "421"),
            ("a.test", "200"),
        ] {
            assert_eq!(status(&mut at_a, host), expected, "{host}");
        }
        let mut at_b = peer(address, "b.test");
        assert_eq!([status(&mut at_b, "b.test"), status(&mut at_b, "a.test")], ["200", "421"]);
        // Who asks for no known name has the first certificate.
        let mut at_other = peer(address, "other.test");
        assert_eq!([status(&mut at_other, "a.test"), status(&mut at_other, "staff.test")], ["200", "421"]);
    });
}

#[test]
fn a_name_may_have_settings_of_its_own() {
    against("staff", |address, counters, user| {
        let mut refused = Peer::new(1, address, both_versions(), "staff.test");
        let heard = refused.shake().and_then(|()| refused.hear(""));
        assert!(heard.is_err(), "{heard:?}");
        until("it is counted", || failed(counters, plimsoll_http::HandshakeFailure::ClientCertificate) == 1);
        let key = PrivateKeyDer::try_from(user.signing_key.serialize_der()).expect("a key");
        let chain = vec![CertificateDer::from(user.cert.der().to_vec())];
        let mut shows = both_versions();
        shows.client_auth_cert_resolver =
            std::sync::Arc::new(rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(
                chain,
                rustls::crypto::ring::sign::any_supported_type(&key).expect("a key"),
            )));
        let mut staff = Peer::new(1, address, shows, "staff.test");
        staff.shake().expect("it shows what it must");
        assert_eq!([status(&mut staff, "staff.test"), status(&mut staff, "a.test")], ["200", "421"]);
        assert_eq!(status(&mut staff, "nobody.test"), "421", "what is nobody's is for the first settings");
    });
}

#[test]
fn a_hello_in_pieces_finds_its_settings() {
    against("pieces", |address, _, _| {
        let mut peer = Peer::new(1, address, both_versions(), "b.test");
        let mut hello = Vec::new();
        peer.session.write_tls(&mut hello).expect("a vector takes all");
        // One message in records of 100 bytes, each of which comes in two pieces.
        for part in hello[5..].chunks(100) {
            let record = [&[22, 3, 1, 0, part.len() as u8], part].concat();
            for piece in record.chunks(60) {
                peer.socket.write_all(piece).expect("it is taken");
                std::thread::sleep(core::time::Duration::from_millis(2));
            }
        }
        peer.shake().expect("it is served");
        assert_eq!(status(&mut peer, "b.test"), "200");
    });
}

#[test]
fn a_session_goes_on_under_its_own_name_alone() {
    against("resumed", |address, counters, _| {
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let before = counters.totals().handshakes.resumed_total;
            let config = settings(&[version]);
            let go = |name: &'static str, config: &rustls::ClientConfig| {
                let mut peer = Peer::new(1, address, config.clone(), name);
                peer.shake().expect("it is served");
                status(&mut peer, name);
            };
            go("a.test", &config);
            go("a.test", &config);
            assert_eq!(counters.totals().handshakes.resumed_total, before + 1, "{version:?}");
            // A client that offers the ticket of one name under another.
            let store = Renamed::default();
            let mut config = config;
            config.resumption = rustls::client::Resumption::store(std::sync::Arc::new(store));
            go("a.test", &config);
            go("b.test", &config);
            assert_eq!(counters.totals().handshakes.resumed_total, before + 1, "{version:?}");
        }
    });
}

/// Gives what it has for any name.
#[derive(Debug, Default)]
struct Renamed {
    tickets: std::sync::Mutex<Vec<rustls::client::Tls13ClientSessionValue>>,
    older: std::sync::Mutex<Option<rustls::client::Tls12ClientSessionValue>>,
}

type Name = ServerName<'static>;

impl rustls::client::ClientSessionStore for Renamed {
    fn set_kx_hint(&self, _: Name, _: rustls::NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<rustls::NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: Name, value: rustls::client::Tls12ClientSessionValue) {
        *self.older.lock().expect("no panic") = Some(value);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<rustls::client::Tls12ClientSessionValue> {
        self.older.lock().expect("no panic").clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'_>) {}

    fn insert_tls13_ticket(&self, _: Name, value: rustls::client::Tls13ClientSessionValue) {
        self.tickets.lock().expect("no panic").push(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'_>) -> Option<rustls::client::Tls13ClientSessionValue> {
        self.tickets.lock().expect("no panic").pop()
    }
}

#[test]
fn what_an_issuer_says_is_stapled_to_its_certificate() {
    const RESPONSE: [u8; 5] = [0x30, 3, 0x0a, 1, 0];
    under_line("stapled", MemoryLimit::mib(16), async |_| {
        let (one, other) = (made(&["a.test"]), made(&["b.test"]));
        let config = TlsConfig::builder()
            .certificate_pem(one.cert.pem(), one.signing_key.serialize_pem())
            .ocsp_der(RESPONSE)
            .certificate_pem(other.cert.pem(), other.signing_key.serialize_pem());
        let wrong = config.clone().ocsp_der([0x30, 3, 0x0a, 1, 6]).build().expect_err("tryLater says nothing");
        assert!(wrong.to_string().contains("OCSP"), "{wrong}");
        let server = Server::bind("127.0.0.1:0")?.tls(&config.build().expect("good settings"));
        let address = server.local_addr();
        let clients = move || {
            for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
                for (name, stapled) in [("a.test", &RESPONSE[..]), ("b.test", &[])] {
                    let anybody = std::sync::Arc::<Anybody>::default();
                    let mut peer = Peer::new(1, address, settings_of(&[version], &anybody), name);
                    peer.shake().expect("it is served");
                    assert_eq!(*anybody.stapled.lock().expect("no panic"), stapled, "{name}, {version:?}");
                }
            }
        };
        serve_until(server.serve(answer), clients).await
    });
}
