//! The settings of a server, built once and checked.
#![forbid(unsafe_code)]

use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use plimsoll_pool::{OverBudget, Pool};
use plimsoll_runtime::net::transport::{MakeTransport, Transport};
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::certificates::{ByName, certificates, certified, read};
use crate::crypto::{Crypto, Provider, Simulated};
use crate::error::TlsError;
use crate::session::Session;
use crate::sites::{BoundTickets, Site, Sites};
use crate::version::Version;

pub(crate) fn versions(min: Version, max: Version) -> Result<&'static [&'static SupportedProtocolVersion], TlsError> {
    static BOTH: [&SupportedProtocolVersion; 2] = [&rustls::version::TLS13, &rustls::version::TLS12];
    match (min, max) {
        (Version::Tls12, Version::Tls13) => Ok(&BOTH),
        (Version::Tls13, Version::Tls13) => Ok(&BOTH[..1]),
        (Version::Tls12, Version::Tls12) => Ok(&BOTH[1..]),
        (Version::Tls13, Version::Tls12) => Err(TlsError::Settings("the lowest version is above the highest")),
    }
}

/// What a certificate, a key or roots of trust are read from.
#[derive(Clone)]
enum Source {
    File(PathBuf),
    Bytes(Arc<[u8]>),
}

impl Source {
    fn file(&self) -> &Path {
        match self {
            Self::File(file) => file,
            Self::Bytes(_) => Path::new(""),
        }
    }

    fn read(&self) -> Result<Vec<u8>, TlsError> {
        match self {
            Self::File(file) => read(file),
            Self::Bytes(bytes) => Ok(bytes.to_vec()),
        }
    }
}

/// A certificate with its chain, its key, and what its issuer says of it.
#[derive(Clone)]
struct Certificate {
    chain: Source,
    key: Source,
    ocsp: Option<Source>,
}

/// Whether clients show certificates.
#[derive(Clone)]
enum ClientAuth {
    None,
    Optional(Source),
    Required(Source),
}

/// Makes a [`TlsConfig`]; see [`TlsConfig::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct TlsConfigBuilder {
    crypto: Crypto,
    certificates: Vec<Certificate>,
    clients: ClientAuth,
    min: Version,
    max: Version,
    alpn: Vec<Vec<u8>>,
    keys_are_logged: bool,
    #[cfg(feature = "aws-lc")]
    is_compact: bool,
    others: Vec<TlsConfigBuilder>,
}

impl fmt::Debug for TlsConfigBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crypto, certificates, min, max, .. } = self;
        write!(f, "TlsConfigBuilder({crypto:?}, {} certificates, {min:?} to {max:?})", certificates.len())
    }
}

impl TlsConfigBuilder {
    /// Adds a certificate, with the chain behind it, and its private key: files in PEM. A client gets the first
    /// certificate that has the name it asks for (SNI), else the first of all.
    pub fn certificate_files(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificates.push(Certificate {
            chain: Source::File(chain.into()),
            key: Source::File(key.into()),
            ocsp: None,
        });
        self
    }

    /// As [`certificate_files`](Self::certificate_files), from PEM in memory.
    pub fn certificate_pem(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        let source = |bytes: &[u8]| Source::Bytes(bytes.into());
        let (chain, key) = (source(chain.as_ref()), source(key.as_ref()));
        self.certificates.push(Certificate { chain, key, ocsp: None });
        self
    }

    /// Staples what its issuer says of the certificate that was added last (RFC 6066 8): a file with an OCSP response
    /// in DER, which [`reload`](TlsConfig::reload) reads again.
    ///
    /// # Panics
    ///
    /// Before the first certificate.
    pub fn ocsp_file(self, response: impl Into<PathBuf>) -> Self {
        self.ocsp(Source::File(response.into()))
    }

    /// As [`ocsp_file`](Self::ocsp_file), from bytes.
    ///
    /// # Panics
    ///
    /// Before the first certificate.
    pub fn ocsp_der(self, response: impl AsRef<[u8]>) -> Self {
        self.ocsp(Source::Bytes(response.as_ref().into()))
    }

    fn ocsp(mut self, response: Source) -> Self {
        self.certificates.last_mut().expect("a response is for the certificate before it").ocsp = Some(response);
        self
    }

    /// Has clients that ask for a name of one of these certificates get these settings, all of them, and not those of
    /// `self`: such as certificates that clients must show for one name alone. A request for such a name that comes
    /// through a session of other settings is answered 421.
    ///
    /// ```no_run
    /// # fn configure() -> Result<(), plimsoll_tls::TlsError> {
    /// use plimsoll_tls::TlsConfig;
    ///
    /// let staff = TlsConfig::builder().certificate_files("staff.pem", "staff.key").client_roots("staff-roots.pem");
    /// TlsConfig::builder().certificate_files("www.pem", "www.key").also(staff).build()?;
    /// # Ok(()) }
    /// ```
    pub fn also(mut self, mut settings: TlsConfigBuilder) -> Self {
        let others = core::mem::take(&mut settings.others);
        self.others.push(settings);
        self.others.extend(others);
        self
    }

    /// Asks clients for a certificate that one of the roots in a PEM file has signed, and takes those without one.
    pub fn client_roots_optional(mut self, roots: impl Into<PathBuf>) -> Self {
        self.clients = ClientAuth::Optional(Source::File(roots.into()));
        self
    }

    /// Takes clients alone that have a certificate which one of the roots in a PEM file has signed (mutual TLS).
    pub fn client_roots(mut self, roots: impl Into<PathBuf>) -> Self {
        self.clients = ClientAuth::Required(Source::File(roots.into()));
        self
    }

    /// As [`client_roots`](Self::client_roots), from PEM in memory.
    pub fn client_roots_pem(mut self, roots: impl AsRef<[u8]>) -> Self {
        self.clients = ClientAuth::Required(Source::Bytes(roots.as_ref().into()));
        self
    }

    /// The lowest version that is spoken, TLS 1.2 by default.
    pub fn min_version(mut self, version: Version) -> Self {
        self.min = version;
        self
    }

    /// The highest version that is spoken, TLS 1.3 by default.
    pub fn max_version(mut self, version: Version) -> Self {
        self.max = version;
        self
    }

    /// Whose cryptography is used.
    pub fn provider(mut self, provider: Provider) -> Self {
        self.crypto = Crypto::Of(provider);
        self
    }

    /// Takes chance and time from a simulation.
    #[doc(hidden)]
    pub fn simulated(mut self, simulated: Simulated) -> Self {
        self.crypto = Crypto::Simulated(simulated);
        self
    }

    /// The protocols that ALPN chooses from, the best first: `h2` and `http/1.1` by default. None for protocols that do
    /// not use it.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.alpn = protocols.into_iter().map(<[u8]>::to_vec).collect();
        self
    }

    /// Writes the secrets of all sessions to the file that the environment variable `SSLKEYLOGFILE` names, as debuggers
    /// ask for. Who has that file reads all that is said: never in production. It is off unless this is called.
    pub fn key_log_file(mut self) -> Self {
        self.keys_are_logged = true;
        self
    }

    /// Whether a session of TLS 1.3 is a few bytes between its records: some 370 for a parked connection of a server,
    /// in place of some 4,000. Its record layer is this crate's then, and keys are expanded for each use. Sessions of
    /// TLS 1.2 stay as they are, and so do all with the cryptography of ring, which does not wipe expanded keys, and
    /// those of a server with several certificates, as each remembers its own. It is off unless this is called.
    /// `docs/tls.md` says who does what.
    ///
    /// ```no_run
    /// # fn configure() -> Result<plimsoll_tls::TlsConfig, plimsoll_tls::TlsError> {
    /// plimsoll_tls::TlsConfig::builder().certificate_files("chain.pem", "key.pem").compact(true).build()
    /// # }
    /// ```
    #[cfg(feature = "aws-lc")]
    pub fn compact(mut self, is_compact: bool) -> Self {
        self.is_compact = is_compact;
        self
    }

    /// Whether sessions become compact: not where each remembers which of several certificates it has.
    #[cfg(feature = "aws-lc")]
    fn becomes_compact(&self) -> bool {
        let is_one = self.others.is_empty() && self.certificates.len() == 1;
        self.is_compact && is_one && matches!(self.crypto, Crypto::Of(Provider::AwsLc))
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    ///
    /// [`TlsError`], with the file and the line. A certificate that has expired is no error: since when is said in a
    /// warning, and clients refuse it.
    pub fn build(self) -> Result<TlsConfig, TlsError> {
        let tickets = self.crypto.tickets()?;
        let current = RwLock::new(Arc::new(self.sites(&tickets)?));
        Ok(TlsConfig(Arc::new(Shared { settings: self, tickets, current })))
    }

    fn sites(&self, tickets: &Arc<dyn ProducesTickets>) -> Result<Sites, TlsError> {
        let all = [self].into_iter().chain(&self.others).enumerate();
        all.map(|(at, one)| one.site(tickets, at)).collect::<Result<_, _>>().map(Sites)
    }

    fn site(&self, tickets: &Arc<dyn ProducesTickets>, at: usize) -> Result<Site, TlsError> {
        if self.certificates.is_empty() {
            return Err(TlsError::Settings("a server has a certificate"));
        }
        let provider = self.crypto.provider();
        let mut keys = Vec::with_capacity(self.certificates.len());
        for Certificate { chain, key, ocsp } in &self.certificates {
            let ocsp = ocsp.as_ref().map(|ocsp| Ok::<_, TlsError>((ocsp.file(), ocsp.read()?))).transpose()?;
            keys.push(certified(&provider, (chain.file(), &chain.read()?), (key.file(), &key.read()?), ocsp)?);
        }
        let keys = Arc::new(ByName::new(keys));
        let certificates = keys.names();
        let versions = versions(self.min, self.max)?;
        let builder = ServerConfig::builder_with_details(Arc::clone(&provider), self.crypto.time());
        let builder = builder.with_protocol_versions(versions)?;
        let verifier = |roots: &Source| {
            Ok::<_, TlsError>(WebPkiClientVerifier::builder_with_provider(
                Arc::new(store(roots)?),
                Arc::clone(&provider),
            ))
        };
        let refused = |_| TlsError::Settings("no root of trust for clients can be used");
        let builder = match &self.clients {
            ClientAuth::None => builder.with_no_client_auth(),
            ClientAuth::Optional(roots) => {
                builder.with_client_cert_verifier(verifier(roots)?.allow_unauthenticated().build().map_err(refused)?)
            }
            ClientAuth::Required(roots) => {
                builder.with_client_cert_verifier(verifier(roots)?.build().map_err(refused)?)
            }
        };
        let mut config = builder.with_cert_resolver(keys);
        config.alpn_protocols.clone_from(&self.alpn);
        // Tickets alone: nothing is kept here for sessions that may be resumed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = BoundTickets::new(tickets, (at, self.clients.asked()?));
        config.send_tls13_tickets = 1;
        if self.keys_are_logged {
            config.key_log = Arc::new(rustls::KeyLogFile::new());
        }
        #[cfg(feature = "aws-lc")]
        if at == 0 && self.becomes_compact() {
            config.enable_secret_extraction = true;
            config.key_log = Arc::new(crate::compact::SecretsCaught(config.key_log));
        }
        Ok(Site { config: Arc::new(config), certificates })
    }
}

impl ClientAuth {
    /// What is asked of clients: how, and by whose word.
    fn asked(&self) -> Result<(u8, Vec<u8>), TlsError> {
        Ok(match self {
            Self::None => (0, Vec::new()),
            Self::Optional(roots) => (1, roots.read()?),
            Self::Required(roots) => (2, roots.read()?),
        })
    }
}

fn store(roots: &Source) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for (certificate, line) in certificates(roots.file(), &roots.read()?)? {
        let added = store.add(certificate);
        added.map_err(|error| TlsError::Certificate { file: roots.file().to_owned(), line, error })?;
    }
    Ok(store)
}

/// What a server needs for TLS: certificates, keys and rules, read and checked. Clones are one.
///
/// ```no_run
/// use plimsoll_tls::{TlsConfig, TlsError, Version};
///
/// # fn configure() -> Result<TlsConfig, TlsError> {
/// TlsConfig::builder()
///     .certificate_files("chain.pem", "key.pem")
///     .min_version(Version::Tls13)
///     .build()
/// # }
/// ```
#[derive(Clone)]
pub struct TlsConfig(Arc<Shared>);

struct Shared {
    settings: TlsConfigBuilder,
    /// Their keys change by themselves, and live on when certificates are read anew: one set for all workers.
    tickets: Arc<dyn ProducesTickets>,
    current: RwLock<Arc<Sites>>,
}

impl TlsConfig {
    /// Begins with TLS 1.2 and 1.3, ALPN for HTTP, and no certificate.
    pub fn builder() -> TlsConfigBuilder {
        TlsConfigBuilder {
            crypto: Crypto::default(),
            certificates: Vec::new(),
            clients: ClientAuth::None,
            min: Version::Tls12,
            max: Version::Tls13,
            alpn: vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            keys_are_logged: false,
            #[cfg(feature = "aws-lc")]
            is_compact: false,
            others: Vec::new(),
        }
    }

    /// A server's certificate, with the chain behind it, and its private key: files in PEM.
    ///
    /// # Errors
    ///
    /// As [`TlsConfigBuilder::build`].
    pub fn from_files(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        Self::builder().certificate_files(chain, key).build()
    }

    /// Reads all files again, for handshakes that begin from now on, on every worker. Sessions that are open go on, and
    /// tickets stay good, unless the roots of clients' certificates have changed.
    ///
    /// It reads files where it is called: from a worker, call it by
    /// [`spawn_blocking`](plimsoll_runtime::spawn_blocking).
    ///
    /// # Errors
    ///
    /// As [`TlsConfigBuilder::build`]; what was there before stays then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(self.0.settings.sites(&self.0.tickets)?);
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn session(&self, pool: &Pool) -> Result<Session, OverBudget> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner)).session(pool)
    }

    /// What carries the connections of a server.
    #[doc(hidden)]
    pub fn make_transport(&self) -> MakeTransport {
        let config = self.clone();
        Arc::new(move |pool| Ok(Box::new(config.session(pool)?) as Box<dyn Transport>))
    }
}

impl fmt::Debug for TlsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsConfig").field(&self.0.settings).finish()
    }
}
