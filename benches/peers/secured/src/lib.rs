//! What every peer with rustls does alike: a certificate and a key of PEM files, TLS 1.2 and 1.3 by AWS-LC, tickets
//! whose keys rotate, and no session cache, as Plimsoll's configuration has it.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{self, Ticketer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;

/// The configuration of a server with these files and protocols of HTTP.
///
/// # Errors
///
/// A file cannot be read, is no PEM, or the key is not the certificate's.
pub fn config(certificate: &str, key: &str, protocols: &[&str]) -> Result<ServerConfig, Box<dyn Error>> {
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let mut config = builder.with_safe_default_protocol_versions()?.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = Ticketer::new()?;
    Ok(config)
}

/// The words of the command line: address, file of the certificate, file of the key.
///
/// # Errors
///
/// There are fewer than three.
pub fn arguments() -> Result<[String; 3], Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let mut word = || words.next().ok_or("give ADDR CERT KEY");
    Ok([word()?, word()?, word()?])
}
