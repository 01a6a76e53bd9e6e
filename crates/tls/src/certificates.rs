//! Certificates with their keys, and which of them a client gets.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::Error;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::error::TlsError;
use crate::pem::{self, Section};

/// Reads the sections of a file.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|error| TlsError::Read { file: file.to_owned(), error })
}

pub(crate) fn sections(file: &Path, text: &[u8]) -> Result<Vec<Section>, TlsError> {
    pem::sections(text).map_err(|wrong| TlsError::Pem { file: file.to_owned(), line: wrong.line, what: wrong.what })
}

/// The certificates of a file, and the line of each.
pub(crate) fn certificates(file: &Path, text: &[u8]) -> Result<Vec<(CertificateDer<'static>, usize)>, TlsError> {
    let found: Vec<_> = sections(file, text)?
        .into_iter()
        .filter(|section| section.label == "CERTIFICATE")
        .map(|section| (CertificateDer::from(section.der), section.line))
        .collect();
    for (certificate, line) in &found {
        webpki::EndEntityCert::try_from(certificate).map_err(|error| TlsError::Certificate {
            file: file.to_owned(),
            line: *line,
            error: Error::General(error.to_string()),
        })?;
    }
    if found.is_empty() { Err(TlsError::Missing { file: file.to_owned(), what: "certificate" }) } else { Ok(found) }
}

fn private_key(file: &Path, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    let key = sections(file, text)?.into_iter().find_map(|section| match section.label.as_str() {
        "PRIVATE KEY" => Some(PrivateKeyDer::Pkcs8(section.der.into())),
        "RSA PRIVATE KEY" => Some(PrivateKeyDer::Pkcs1(section.der.into())),
        "EC PRIVATE KEY" => Some(PrivateKeyDer::Sec1(section.der.into())),
        _ => None,
    });
    key.ok_or_else(|| TlsError::Missing { file: file.to_owned(), what: "private key" })
}

/// A certificate's chain with its key, checked against each other.
pub(crate) fn certified(
    provider: &CryptoProvider,
    (chain_file, chain): (&Path, &[u8]),
    (key_file, key): (&Path, &[u8]),
    ocsp: Option<(&Path, Vec<u8>)>,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(chain_file, chain)?;
    let key = private_key(key_file, key)?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|error| TlsError::Key { file: key_file.to_owned(), error })?;
    warn_if_expired(chain_file, &chain[0].0);
    let mut certified = CertifiedKey::new(chain.into_iter().map(|(certificate, _)| certificate).collect(), key);
    if let Some((file, response)) = ocsp {
        if !is_successful_ocsp(&response) {
            let what = "not an OCSP response in DER that says anything of a certificate";
            return Err(TlsError::Ocsp { file: file.to_owned(), what });
        }
        certified.ocsp = Some(response);
    }
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(TlsError::KeyDoesNotFit { key: key_file.to_owned(), certificate: chain_file.to_owned() })
        }
        Err(error) => Err(TlsError::Rustls(error)),
    }
}

/// Whether it is an `OCSPResponse` whose status is `successful` (RFC 6960 4.2.1). What it says is for clients to check.
fn is_successful_ocsp(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else { return false };
    let (length, rest) = match *length {
        length @ ..=0x7f => (usize::from(length), rest),
        0x81 if !rest.is_empty() => (usize::from(rest[0]), &rest[1..]),
        0x82 if rest.len() >= 2 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
        _ => return false,
    };
    length == rest.len() && rest.starts_with(&[0x0a, 1, 0])
}

/// Since when a certificate is no longer valid, if it is not.
pub(crate) fn expired_since(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<UnixTime> {
    // Its time is looked at before anything else, so that it is a root of its own does not matter.
    let parsed = webpki::EndEntityCert::try_from(certificate).ok()?;
    let root = webpki::anchor_from_trusted_cert(certificate).ok()?;
    let usage = webpki::KeyUsage::server_auth();
    match parsed.verify_for_usage(&[], core::slice::from_ref(&root), &[], now, usage, None, None) {
        Err(webpki::Error::CertExpired { not_after, .. }) => Some(not_after),
        _ => None,
    }
}

fn warn_if_expired(file: &Path, certificate: &CertificateDer<'_>) {
    if let Some(since) = expired_since(certificate, UnixTime::now()) {
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs());
        let days = since.elapsed().map_or(0, |elapsed| elapsed.as_secs() / 86_400);
        let at = since.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |at| at.as_secs());
        tracing::warn!(file = %file.display(), unix_seconds = at, days, "a certificate has expired, so many days ago");
    }
}

/// Chooses by the name that a client asks for: the first certificate that has it, else the first of all.
#[derive(Debug)]
pub(crate) struct ByName {
    keys: Vec<(Vec<String>, Arc<CertifiedKey>)>,
}

impl ByName {
    pub(crate) fn new(keys: Vec<CertifiedKey>) -> Self {
        let named = keys.into_iter().map(|key| {
            let parsed = webpki::EndEntityCert::try_from(&key.cert[0]);
            let names = parsed
                .map_or_else(|_| Vec::new(), |parsed| parsed.valid_dns_names().map(str::to_ascii_lowercase).collect());
            (names, Arc::new(key))
        });
        Self { keys: named.collect() }
    }

    /// The names of each.
    pub(crate) fn names(&self) -> Vec<Vec<String>> {
        self.keys.iter().map(|(names, _)| names.clone()).collect()
    }

    fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        let has = |names: &[String]| names.iter().any(|known| covers(known, name));
        self.keys.iter().find(|(names, _)| has(names)).map(|(_, key)| key)
    }
}

/// Whether a certificate's name covers one that is asked for (RFC 9525 6.3): a wildcard stands for one label.
pub(crate) fn covers(known: &str, name: &str) -> bool {
    match known.strip_prefix("*.") {
        Some(known) => name.split_once('.').is_some_and(|(first, rest)| !first.is_empty() && rest == known),
        None => known == name,
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name().map(str::to_ascii_lowercase);
        let found = asked.and_then(|name| self.find(&name));
        found.or_else(|| self.keys.first().map(|(_, key)| key)).cloned()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use rustls::pki_types::{CertificateDer, UnixTime};

    use super::{covers, expired_since, is_successful_ocsp};

    #[test]
    fn it_is_known_since_when_a_certificate_has_expired() {
        let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(2021, 3, 4);
        let key = rcgen::KeyPair::generate().expect("a key");
        let der = CertificateDer::from(params.self_signed(&key).expect("it is signed"));
        let end = 1_614_816_000;
        let at = |seconds| expired_since(&der, UnixTime::since_unix_epoch(Duration::from_secs(seconds)));
        assert_eq!(at(end - 1), None);
        assert_eq!(at(end + 86_400).map(|since| since.as_secs()), Some(end));
    }

    #[test]
    fn an_ocsp_response_is_whole_and_says_something() {
        assert!(is_successful_ocsp(&[0x30, 3, 0x0a, 1, 0]));
        for wrong in [&[][..], &[0x30, 3, 0x0a, 1, 6], &[0x30, 4, 0x0a, 1, 0], &[0x31, 3, 0x0a, 1, 0], &[0x30, 0x82, 0]]
        {
            assert!(!is_successful_ocsp(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        assert!(covers("a.example", "a.example") && covers("*.example", "a.example"));
        assert!(
            !covers("*.example", "a.b.example") && !covers("*.example", ".example") && !covers("*.example", "example")
        );
    }
}
