//! TLS of a world: its cryptography is real, but what it takes from chance comes from the seed, and its clock stands
//! still. So a seed does the same again, to the last byte of each record.

use core::cell::RefCell;
use core::time::Duration;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use plimsoll::http::tls::{Connector, Simulated, TlsConfig, Version};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret, SupportedKxGroup,
};
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use rustls::{Error, NamedGroup};

use crate::hostile;
use crate::plan::Rng;

/// Whom the server's certificate is for.
pub(crate) const NAME: &str = "h";

/// The two ends of a world, made anew for each run.
pub(crate) struct Ends {
    pub(crate) server: TlsConfig,
    rng: Rng,
    /// Keeps tickets from one connection to the next.
    regular: Connector,
}

impl Ends {
    /// Settings by a seed. All that is random from here on in this thread follows from it, too.
    pub(crate) fn new(seed: u64) -> Self {
        CHANCE.with_borrow_mut(|chance| *chance = Rng::new(!seed));
        let mut rng = Rng::new(seed ^ 0x7115);
        let (min, max) = match rng.below(4) {
            0 => (Version::Tls12, Version::Tls12),
            1 => (Version::Tls13, Version::Tls13),
            _ => (Version::Tls12, Version::Tls13),
        };
        let server = TlsConfig::builder()
            .certificate_pem(&PAIR.0, &PAIR.1)
            .min_version(min)
            .max_version(max)
            .simulated(simulated());
        Self { server: server.build().expect("the certificate is right"), rng, regular: connector(&[]) }
    }

    /// A client's end that offers this protocol, if it offers one. Half of those that offer none come again with a
    /// ticket.
    pub(crate) fn client(&mut self, protocol: Option<&[u8]>) -> Connector {
        match protocol {
            Some(protocol) => connector(&[protocol]),
            None if self.rng.below(2) == 0 => self.regular.clone(),
            None => connector(&[]),
        }
    }

    /// Up to two clients that speak TLS badly, and how late they come.
    pub(crate) fn hostile(&mut self) -> Vec<(hostile::Plan, Duration)> {
        let count = self.rng.below(3);
        let mut one = || (hostile::Plan::new(&mut self.rng), Duration::from_micros(self.rng.below(20_000)));
        (0..count).map(|_| one()).collect()
    }
}

fn connector(protocols: &[&[u8]]) -> Connector {
    let builder = Connector::builder().roots_pem(&PAIR.0).alpn(protocols.iter().copied()).simulated(simulated());
    builder.build().expect("the certificate is a root")
}

pub(crate) fn simulated() -> Simulated {
    Simulated { provider: provider(), tickets: Arc::new(OpenTickets), time: Arc::new(NoTime) }
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        kx_groups: vec![&SeededX25519],
        secure_random: &Seeded,
        ..rustls::crypto::aws_lc_rs::default_provider()
    }
}

/// A certificate that signs itself, and its key. Ed25519, as its signatures have no chance in them.
pub(crate) static PAIR: LazyLock<(String, String)> = LazyLock::new(|| {
    // RFC 8410 7: a private key of 32 bytes.
    let mut key = vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    key.extend_from_slice(&[0x5e; 32]);
    let key = rcgen::KeyPair::from_pkcs8_der_and_sign_algo(&key.into(), &rcgen::PKCS_ED25519).expect("a key");
    let mut settings = rcgen::CertificateParams::new([NAME.to_owned()]).expect("a name");
    settings.serial_number = Some(1_u64.into());
    let certificate = settings.self_signed(&key).expect("it signs itself");
    (certificate.pem(), key.serialize_pem())
});

thread_local! {
    /// A world is in one thread.
    static CHANCE: RefCell<Rng> = RefCell::new(Rng::new(0));
}

fn fill(bytes: &mut [u8]) {
    CHANCE.with_borrow_mut(|chance| bytes.iter_mut().for_each(|byte| *byte = chance.below(256) as u8));
}

#[derive(Debug)]
struct Seeded;

impl SecureRandom for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        fill(bytes);
        Ok(())
    }
}

/// X25519 (RFC 7748) with private keys from the seed.
#[derive(Debug)]
struct SeededX25519;

impl SupportedKxGroup for SeededX25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut private = [0; 32];
        fill(&mut private);
        let private = PrivateKey::from_private_key(&X25519, &private).expect("any 32 bytes are a key");
        let public = private.compute_public_key().expect("it has one").as_ref().to_vec();
        Ok(Box::new(Exchange { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Exchange {
    private: PrivateKey,
    public: Vec<u8>,
}

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = UnparsedPublicKey::new(&X25519, peer);
        let refused = Error::PeerMisbehaved(rustls::PeerMisbehaved::InvalidKeyShare);
        agree(&self.private, peer, refused, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Tickets that are what they stand for, behind a mark.
#[derive(Debug)]
struct OpenTickets;

const MARK: &[u8] = b"ticket of a simulation";

impl ProducesTickets for OpenTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3_600
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        Some([MARK, plain].concat())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        ticket.strip_prefix(MARK).map(<[u8]>::to_vec)
    }
}

/// It is always the same second, in which the certificate is good.
#[derive(Debug)]
struct NoTime;

impl TimeProvider for NoTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}
