//! Certificates for tests, each signed by itself.

#![allow(dead_code, reason = "no test program uses all of it")]

use plimsoll_tls::{Connector, TlsConfig, TlsConfigBuilder};

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) der: rustls::pki_types::CertificateDer<'static>,
}

pub(crate) fn pair(names: &[&str]) -> Pair {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("names are names");
    let der = made.cert.der().clone();
    Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem(), der }
}

/// A server's settings with that certificate.
pub(crate) fn server(pair: &Pair) -> TlsConfigBuilder {
    TlsConfig::builder().certificate_pem(&pair.certificate, &pair.key)
}

/// A client that trusts it.
pub(crate) fn client(pair: &Pair) -> Connector {
    Connector::builder().roots_pem(&pair.certificate).build().expect("it is a root")
}

/// Those settings as they are, and with sessions that become compact where they can.
pub(crate) fn both(builder: TlsConfigBuilder) -> Vec<TlsConfig> {
    let settings = [
        builder.clone(),
        #[cfg(feature = "aws-lc")]
        builder.compact(true),
    ];
    settings.into_iter().map(|builder| builder.build().expect("good settings")).collect()
}
