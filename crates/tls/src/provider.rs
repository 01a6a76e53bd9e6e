//! Whose cryptography is used.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::ProducesTickets;

/// Whose cryptography is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Provider {
    /// That of AWS-LC.
    #[cfg(feature = "aws-lc")]
    AwsLc,
    /// That of ring.
    #[cfg(feature = "ring")]
    Ring,
}

impl Default for Provider {
    /// AWS-LC where its feature is on.
    fn default() -> Self {
        #[cfg(feature = "aws-lc")]
        return Self::AwsLc;
        #[cfg(not(feature = "aws-lc"))]
        return Self::Ring;
    }
}

/// Makes what encrypts tickets, with keys that change by themselves.
pub(crate) type NewTicketer = fn() -> Result<Arc<dyn ProducesTickets>, rustls::Error>;

impl Provider {
    pub(crate) fn parts(self) -> (CryptoProvider, NewTicketer) {
        match self {
            #[cfg(feature = "aws-lc")]
            Self::AwsLc => (rustls::crypto::aws_lc_rs::default_provider(), rustls::crypto::aws_lc_rs::Ticketer::new),
            #[cfg(feature = "ring")]
            Self::Ring => (rustls::crypto::ring::default_provider(), rustls::crypto::ring::Ticketer::new),
        }
    }

    pub(crate) fn provider(self) -> CryptoProvider {
        self.parts().0
    }
}
