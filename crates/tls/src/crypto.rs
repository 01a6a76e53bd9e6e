//! Where cryptography, chance and time come from.
#![forbid(unsafe_code)]

use std::sync::Arc;

use rustls::Error;
use rustls::crypto::CryptoProvider;
use rustls::server::ProducesTickets;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};

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
type NewTicketer = fn() -> Result<Arc<dyn ProducesTickets>, Error>;

impl Provider {
    fn parts(self) -> (CryptoProvider, NewTicketer) {
        match self {
            #[cfg(feature = "aws-lc")]
            Self::AwsLc => (rustls::crypto::aws_lc_rs::default_provider(), rustls::crypto::aws_lc_rs::Ticketer::new),
            #[cfg(feature = "ring")]
            Self::Ring => (rustls::crypto::ring::default_provider(), rustls::crypto::ring::Ticketer::new),
        }
    }
}

/// What a simulation gives in the place of chance and of the clock, so that a seed does the same again. For tests
/// alone: who knows the seed reads everything.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Simulated {
    pub provider: CryptoProvider,
    pub tickets: Arc<dyn ProducesTickets>,
    pub time: Arc<dyn TimeProvider>,
}

/// What a configuration is built with.
#[derive(Clone, Debug)]
pub(crate) enum Crypto {
    Of(Provider),
    Simulated(Simulated),
}

impl Default for Crypto {
    fn default() -> Self {
        Self::Of(Provider::default())
    }
}

impl Crypto {
    pub(crate) fn provider(&self) -> Arc<CryptoProvider> {
        Arc::new(match self {
            Self::Of(provider) => provider.parts().0,
            Self::Simulated(simulated) => simulated.provider.clone(),
        })
    }

    pub(crate) fn tickets(&self) -> Result<Arc<dyn ProducesTickets>, Error> {
        match self {
            Self::Of(provider) => provider.parts().1(),
            Self::Simulated(simulated) => Ok(Arc::clone(&simulated.tickets)),
        }
    }

    pub(crate) fn time(&self) -> Arc<dyn TimeProvider> {
        match self {
            Self::Of(_) => Arc::new(DefaultTimeProvider),
            Self::Simulated(simulated) => Arc::clone(&simulated.time),
        }
    }
}
