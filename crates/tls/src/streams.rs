//! TLS for connections of tasks.
#![forbid(unsafe_code)]

use core::fmt;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use plimsoll_runtime::net::Stream;
use plimsoll_runtime::{Error, Result, pool, timeout};
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::{certificates, read};
use crate::config::{TlsConfig, versions};
use crate::crypto::{Crypto, Provider, Simulated};
use crate::error::TlsError;
use crate::info::TlsInfo;
use crate::session::Session;
use crate::version::Version;

/// A handshake takes so long at most.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Takes sessions of clients on, over connections that were accepted.
///
/// ```
/// # use plimsoll_tls::{Acceptor, TlsConfig};
/// use plimsoll_runtime::net::TcpListener;
///
/// # async fn serve(config: TlsConfig) -> plimsoll_runtime::Result<()> {
/// let acceptor = Acceptor::new(config);
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let (stream, _peer) = listener.accept().await?;
/// let mut stream = acceptor.accept(stream).await?;
/// stream.send_static(b"hello\n").await?;
/// stream.shutdown_write().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Acceptor {
    config: TlsConfig,
    timeout: Duration,
}

impl Acceptor {
    /// With these certificates and rules; a handshake takes 10 s at most.
    pub fn new(config: TlsConfig) -> Self {
        Self { config, timeout: HANDSHAKE_TIMEOUT }
    }

    /// How long a handshake may take.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Shakes hands: the stream that comes back has plaintext for whoever reads and writes it, in every way that
    /// [`Stream`] has. Its [`shutdown_write`](Stream::shutdown_write) says `close_notify`; one that is dropped says
    /// nothing, so that the peer can tell what is whole from what was cut short.
    ///
    /// Not cancel safe: a future that is dropped closes the connection.
    ///
    /// # Errors
    ///
    /// [`Error::System`] with `EPROTO` when the handshake fails, [`Error::TimedOut`], [`Error::OverBudget`].
    pub async fn accept(&self, stream: impl Into<Stream>) -> Result<Stream> {
        let session = self.config.session(&pool())?;
        shake(stream.into(), session, self.timeout).await
    }
}

async fn shake(stream: Stream, session: Session, within: Duration) -> Result<Stream> {
    let mut stream = stream.carried_by(Box::new(session))?;
    timeout(within, stream.handshake()).await??;
    Ok(stream)
}

/// What was agreed on, of a stream that [`Acceptor`] or [`Connector`] gave; `None` for others.
pub fn info(stream: &Stream) -> Option<TlsInfo> {
    stream.with_transport(TlsInfo::of_transport).flatten()
}

/// Begins sessions with servers, over connections that were made.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    timeout: Duration,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// Makes a [`Connector`]; see [`Connector::builder`].
#[derive(Debug, Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct ConnectorBuilder {
    crypto: Crypto,
    roots: Vec<PathBuf>,
    roots_pem: Vec<Vec<u8>>,
    alpn: Vec<Vec<u8>>,
    min: Option<Version>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl ConnectorBuilder {
    /// Trusts the certificates in a PEM file, and, when this or [`roots_pem`](Self::roots_pem) is called, no others.
    pub fn roots(mut self, file: impl Into<PathBuf>) -> Self {
        self.roots.push(file.into());
        self
    }

    /// As [`roots`](Self::roots), from PEM in memory.
    pub fn roots_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.roots_pem.push(pem.as_ref().to_vec());
        self
    }

    /// The protocols that are offered (ALPN), the best first; none by default.
    pub fn alpn<'a>(mut self, protocols: impl IntoIterator<Item = &'a [u8]>) -> Self {
        self.alpn = protocols.into_iter().map(<[u8]>::to_vec).collect();
        self
    }

    /// The lowest version that is spoken, TLS 1.2 by default.
    pub fn min_version(mut self, version: Version) -> Self {
        self.min = Some(version);
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

    /// What is shown to servers that ask for a certificate: it, with its chain, and its key, in PEM.
    pub fn certificate_pem(mut self, chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Self {
        self.certificate = Some((chain.as_ref().to_vec(), key.as_ref().to_vec()));
        self
    }

    /// Reads and checks everything.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: among others without a root of trust, when none was given and neither of the features
    /// `webpki-roots` and `native-roots` brings some.
    pub fn build(self) -> Result<Connector, TlsError> {
        let nowhere = std::path::Path::new("");
        let mut store = RootCertStore::empty();
        let mut add = |file: &std::path::Path, text: &[u8]| {
            for (certificate, line) in certificates(file, text)? {
                let added = store.add(certificate);
                added.map_err(|error| TlsError::Certificate { file: file.to_owned(), line, error })?;
            }
            Ok::<_, TlsError>(())
        };
        for file in &self.roots {
            add(file, &read(file)?)?;
        }
        for pem in &self.roots_pem {
            add(nowhere, pem)?;
        }
        if self.roots.is_empty() && self.roots_pem.is_empty() {
            known_roots(&mut store);
        }
        if store.is_empty() {
            return Err(TlsError::Settings("a client trusts somebody: give it roots"));
        }
        let provider = self.crypto.provider();
        let versions = versions(self.min.unwrap_or(Version::Tls12), Version::Tls13)?;
        let builder = ClientConfig::builder_with_details(Arc::clone(&provider), self.crypto.time());
        let builder = builder.with_protocol_versions(versions)?;
        let builder = builder.with_root_certificates(store);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let key = crate::certificates::certified(&provider, (nowhere, chain), (nowhere, key), None)?;
                builder.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)))
            }
        };
        config.alpn_protocols = self.alpn;
        Ok(Connector { config: Arc::new(config), timeout: HANDSHAKE_TIMEOUT })
    }
}

/// The roots that the features bring: those of the system, else those of Mozilla.
fn known_roots(store: &mut RootCertStore) {
    #[cfg(feature = "native-roots")]
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    #[cfg(feature = "webpki-roots")]
    if store.is_empty() {
        store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    // Without either there are none.
    let _ = store;
}

impl Connector {
    /// Begins with TLS 1.2 and 1.3 and the roots that the features bring.
    pub fn builder() -> ConnectorBuilder {
        ConnectorBuilder::default()
    }

    /// How long a handshake may take, 10 s by default.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Shakes hands with a server whose certificate has to have `name`: a DNS name or an address. As
    /// [`Acceptor::accept`].
    ///
    /// # Errors
    ///
    /// [`Error::System`] with `EINVAL` for what is no name, `EPROTO` when the handshake fails or the certificate is not
    /// to be trusted, [`Error::TimedOut`], [`Error::OverBudget`].
    pub async fn connect(&self, name: &str, stream: impl Into<Stream>) -> Result<Stream> {
        let invalid = || Error::System(plimsoll_runtime::Errno::INVAL);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| invalid())?;
        let machine = UnbufferedClientConnection::new(Arc::clone(&self.config), name).map_err(|_| invalid())?;
        let session = Session::new(&pool(), machine, true)?;
        shake(stream.into(), session, self.timeout).await
    }
}
