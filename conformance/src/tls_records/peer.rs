//! A client that shakes hands by rustls, and seals and opens records by itself then: whatever it is told to, also what
//! no client should. It shares no code with the layer that it talks to.

use std::sync::{Arc, LazyLock, Mutex};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use plimsoll_tls::TlsConfig;
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::crypto::tls13::OkmBlock;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, ConnectionTrafficSecrets, KeyLog, RootCertStore, Tls13CipherSuite};

use super::near::Near;

/// What a client has heard.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) plaintext: Vec<u8>,
    /// The alert that ended it.
    pub(super) alert: Option<u8>,
    pub(super) has_ended: bool,
    /// Changes of the server's keys.
    pub(super) updates: usize,
}

struct Way {
    secret: Vec<u8>,
    key: LessSafeKey,
    iv: Vec<u8>,
    sequence: u64,
}

pub(super) struct Peer {
    suite: &'static Tls13CipherSuite,
    algorithm: &'static Algorithm,
    out: Way,
    incoming: Way,
}

impl Way {
    fn nonce(&mut self) -> Nonce {
        let mut nonce: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        nonce[4..].copy_from_slice(&self.sequence.to_be_bytes());
        nonce.iter_mut().zip(&self.iv).for_each(|(byte, iv)| *byte ^= iv);
        self.sequence += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

fn expand(suite: &Tls13CipherSuite, secret: &[u8], label: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    let info = [&[0, len as u8, 6 + label.len() as u8][..], b"tls13 ", label, &[0]].concat();
    suite.hkdf_provider.expander_for_okm(&OkmBlock::new(secret)).expand_slice(&[&info], &mut out).expect("short");
    out
}

fn way(suite: &'static Tls13CipherSuite, algorithm: &'static Algorithm, secret: Vec<u8>, sequence: u64) -> Way {
    let key = expand(suite, &secret, b"key", algorithm.key_len());
    let key = LessSafeKey::new(UnboundKey::new(algorithm, &key).expect("its length"));
    Way { key, iv: expand(suite, &secret, b"iv", 12), secret, sequence }
}

impl Peer {
    /// A record with this inside. A client that never stops would use a nonce again after 2^64 of them.
    pub(super) fn seal(&mut self, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
        let mut inner = [content, &[kind], &vec![0; padding]].concat();
        let [high, low] = (inner.len() as u16 + 16).to_be_bytes();
        let header = [23, 3, 3, high, low];
        let nonce = self.out.nonce();
        self.out.key.seal_in_place_append_tag(nonce, Aad::from(header), &mut inner).expect("it fits");
        [&header[..], &inner].concat()
    }

    /// Seals by the next key from here on.
    pub(super) fn next_key(&mut self) {
        self.out = next(self.suite, self.algorithm, &self.out);
    }

    /// Opens what a server says, all of which must be good.
    pub(super) fn hear(&mut self, mut records: &[u8], heard: &mut Heard) {
        while let Some((&[kind, 3, 3, high, low], rest)) = records.split_first_chunk::<5>() {
            let (sealed, rest) = rest.split_at(usize::from(u16::from_be_bytes([high, low])));
            records = rest;
            assert!(heard.alert.is_none() && !heard.has_ended, "nothing follows the last word");
            if kind != 23 {
                // Before its keys a server fails in the clear.
                assert_eq!((kind, sealed.len()), (21, 2), "an alert");
                heard.alert = Some(sealed[1]);
                continue;
            }
            let (mut sealed, nonce) = (sealed.to_vec(), self.incoming.nonce());
            let inner = self.incoming.key.open_in_place(nonce, Aad::from([kind, 3, 3, high, low]), &mut sealed);
            let inner = inner.expect("a server seals in order");
            let (&kind, content) = inner.split_last().expect("a type");
            match (kind, content) {
                (23, content) => heard.plaintext.extend_from_slice(content),
                (21, [1, 0]) => heard.has_ended = true,
                (21, [2, alert]) => heard.alert = Some(*alert),
                (22, [24, 0, 0, 1, 0]) => {
                    heard.updates += 1;
                    self.incoming = next(self.suite, self.algorithm, &self.incoming);
                }
                (22, [4, ..]) => {}
                other => panic!("a server says {other:?}"),
            }
        }
        assert!(records.is_empty(), "records are whole");
    }
}

fn next(suite: &'static Tls13CipherSuite, algorithm: &'static Algorithm, before: &Way) -> Way {
    way(suite, algorithm, expand(suite, &before.secret, b"traffic upd", before.secret.len()), 0)
}

/// The secrets of the handshake that is under way.
#[derive(Debug, Default)]
struct Secrets(Mutex<[Vec<u8>; 2]>);

impl KeyLog for Secrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let mut secrets = self.0.lock().expect("nobody panics with it");
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => secrets[0] = secret.to_vec(),
            "SERVER_TRAFFIC_SECRET_0" => secrets[1] = secret.to_vec(),
            _ => {}
        }
    }
}

struct Servers {
    root: CertificateDer<'static>,
    /// Compact, and as they are.
    configs: [TlsConfig; 2],
}

static SERVERS: LazyLock<Servers> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
    let configs = [true, false].map(|is_compact| {
        let builder = TlsConfig::builder().certificate_pem(made.cert.pem(), made.signing_key.serialize_pem());
        builder.compact(is_compact).build().expect("good settings")
    });
    Servers { root: made.cert.der().clone(), configs }
});

/// A client's settings for each suite.
static CLIENTS: LazyLock<[ClientConfig; 3]> = LazyLock::new(|| {
    let suites = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    suites.map(|suite| {
        let mut provider = default_provider();
        provider.cipher_suites = vec![suite];
        provider.kx_groups = vec![rustls::crypto::aws_lc_rs::kx_group::X25519];
        let mut roots = RootCertStore::empty();
        roots.add(SERVERS.root.clone()).expect("a root");
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("good settings");
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        (config.resumption, config.enable_secret_extraction) = (Resumption::disabled(), true);
        config
    })
});

/// A flight in the clear whose messages are cut into records of so many bytes.
fn cut(flight: &[u8], bytes: usize) -> Vec<u8> {
    let (mut records, mut rest) = (Vec::new(), flight);
    while let Some((&[kind, major, minor, high, low], after)) = rest.split_first_chunk::<5>() {
        let (content, after) = after.split_at(usize::from(u16::from_be_bytes([high, low])));
        for piece in content.chunks(bytes) {
            records.extend_from_slice(&[kind, major, minor, 0, piece.len() as u8]);
            records.extend_from_slice(piece);
        }
        rest = after;
    }
    records
}

/// Shakes hands, but for the client's last flight: what is to be given to the server first. What is left of the number
/// of a suite says into what the first is cut.
pub(super) fn shake(is_compact: bool, suite: u8) -> (Near, Peer, Vec<u8>) {
    let secrets = Arc::new(Secrets::default());
    let mut config = CLIENTS[usize::from(suite) % CLIENTS.len()].clone();
    config.key_log = Arc::clone(&secrets) as Arc<dyn KeyLog>;
    let name = "localhost".try_into().expect("a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("good settings");
    let server = &SERVERS.configs[usize::from(!is_compact)];
    let mut near = Near::new(|pool| (server.make_transport())(pool).expect("room"));
    let mut flight = Vec::new();
    while client.is_handshaking() {
        while client.wants_write() {
            client.write_tls(&mut flight).expect("a vector takes all");
        }
        match suite / 3 {
            0 => near.give(&flight, &[]),
            by => near.give(&cut(&flight, usize::from(by) * 3), &[by, suite]),
        }
        flight.clear();
        let said = near.said();
        let mut said = &said[..];
        while !said.is_empty() {
            client.read_tls(&mut said).expect("a slice gives all");
            client.process_new_packets().expect("a good server");
        }
    }
    while client.wants_write() {
        client.write_tls(&mut flight).expect("a vector takes all");
    }
    let [ours, theirs] = secrets.0.lock().expect("nobody panics with it").clone();
    let extracted = client.dangerous_extract_secrets().expect("it is over");
    let algorithm = match &extracted.tx.1 {
        ConnectionTrafficSecrets::Aes128Gcm { .. } => &AES_128_GCM,
        ConnectionTrafficSecrets::Aes256Gcm { .. } => &AES_256_GCM,
        _ => &CHACHA20_POLY1305,
    };
    let suite = CLIENTS[usize::from(suite) % CLIENTS.len()].crypto_provider().cipher_suites[0].tls13().expect("1.3");
    let (out, incoming) = (way(suite, algorithm, ours, extracted.tx.0), way(suite, algorithm, theirs, extracted.rx.0));
    (near, Peer { suite, algorithm, out, incoming }, flight)
}
