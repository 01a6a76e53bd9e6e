//! What is wrong with a configuration.
#![forbid(unsafe_code)]

use core::fmt;
use std::path::PathBuf;

/// Why a configuration cannot be used. Nothing here is a peer's fault.
#[derive(Debug)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is not PEM.
    Pem {
        /// Which; empty for bytes that came from no file.
        file: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What is there.
        what: &'static str,
    },
    /// A file has nothing of what it is given for.
    Missing {
        /// Which; empty for bytes that came from no file.
        file: PathBuf,
        /// What it should have.
        what: &'static str,
    },
    /// A certificate cannot be understood.
    Certificate {
        /// The file; empty for bytes that came from no file.
        file: PathBuf,
        /// Of its first line, from 1.
        line: usize,
        /// Why.
        error: rustls::Error,
    },
    /// A private key cannot be used.
    Key {
        /// The file; empty for bytes that came from no file.
        file: PathBuf,
        /// Why.
        error: rustls::Error,
    },
    /// A private key is not that of the certificate.
    KeyDoesNotFit {
        /// The key's file; empty for bytes that came from no file.
        key: PathBuf,
        /// The certificate's.
        certificate: PathBuf,
    },
    /// An OCSP response cannot be used.
    Ocsp {
        /// The file; empty for bytes that came from no file.
        file: PathBuf,
        /// Why.
        what: &'static str,
    },
    /// Settings that do not go together.
    Settings(&'static str),
    /// What rustls says of it.
    Rustls(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { file, error } => write!(f, "{}: {error}", file.display()),
            Self::Pem { file, line, what } => write!(f, "{}:{line}: {what}", file.display()),
            Self::Missing { file, what } => write!(f, "{}: no {what}", file.display()),
            Self::Certificate { file, line, error } => {
                write!(f, "{}:{line}: not a certificate: {error}", file.display())
            }
            Self::Key { file, error } => write!(f, "{}: not a private key that can be used: {error}", file.display()),
            Self::KeyDoesNotFit { key, certificate } => {
                write!(f, "{}: not the private key of the certificate in {}", key.display(), certificate.display())
            }
            Self::Ocsp { file, what } => write!(f, "{}: {what}", file.display()),
            Self::Settings(what) => f.write_str(what),
            Self::Rustls(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Read { error, .. } => Some(error),
            Self::Certificate { error, .. } | Self::Key { error, .. } | Self::Rustls(error) => Some(error),
            _ => None,
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Rustls(error)
    }
}
