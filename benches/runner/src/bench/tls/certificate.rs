//! The certificate of all servers: P-256, made anew for each run, for localhost and 127.0.0.1.

use std::fs;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};

/// Writes `cert.pem`, `key.pem` and, with both in it, `both.pem`.
pub(super) fn write(dir: &Path) -> Result<(), String> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|error| error.to_string())?;
    let params = CertificateParams::new(names).map_err(|error| error.to_string())?;
    let certificate = params.self_signed(&key).map_err(|error| error.to_string())?.pem();
    let key = key.serialize_pem();
    for (name, text) in [("cert.pem", &certificate), ("key.pem", &key), ("both.pem", &format!("{certificate}{key}"))] {
        fs::write(dir.join(name), text).map_err(|error| format!("{}: {error}", dir.join(name).display()))?;
    }
    Ok(())
}
