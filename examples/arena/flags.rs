//! The command line, parsed once into validated values.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use plimsoll::MemoryLimit;
use plimsoll::http::tls::{TlsConfig, TlsConfigBuilder};
use plimsoll::http::{AdaptiveSize, Class, Config};
use plimsoll_examples::{RuntimeFlags, address};

/// The benchmark server of Plimsoll.
#[derive(Debug, Parser)]
#[command(name = "arena")]
pub(crate) struct Flags {
    /// Where to listen for HTTP/1.1 and, with clients that begin so, HTTP/2; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Where to listen for HTTP/2 alone; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) h2c: Option<SocketAddr>,
    /// Where to listen for HTTPS; port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) tls: Option<SocketAddr>,
    /// The certificate for HTTPS with the chain behind it, in PEM
    #[arg(long, value_name = "FILE", requires_all = ["tls", "key"], conflicts_with = "tls_self_signed")]
    cert: Option<PathBuf>,
    /// Its private key, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// A new certificate for localhost and 127.0.0.1, which nobody trusts
    #[arg(long, requires = "tls")]
    tls_self_signed: bool,
    /// Sessions of TLS 1.3 in a few bytes while they are idle
    #[arg(long, requires = "tls")]
    tls_compact: bool,
    #[command(flatten)]
    pub(crate) runtime: RuntimeFlags,
    /// Receive large bodies into buffers of this size only, 4KiB to 128KiB; without it, what comes decides
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    pub(crate) body_buffer: Option<AdaptiveSize>,
    /// Buffers of the largest size that a body is received into at a time, 1 to 8
    #[arg(long, value_name = "N", default_value_t = Config::default().body_receive_leases_max)]
    pub(crate) body_buffers: u8,
    /// Print what the memory goes to, and exit
    #[arg(long)]
    pub(crate) plan: bool,
    /// Write a line for each request, in common log format
    #[arg(long, value_name = "FILE")]
    pub(crate) access_log: Option<PathBuf>,
}

impl Flags {
    /// The server's limits.
    pub(crate) fn config(&self) -> Config {
        let defaults = Config::default();
        let body_receive = self.body_buffer.unwrap_or(defaults.body_receive);
        // Whoever looks after the server sees it when it is full, too.
        let reserved_paths = vec!["/metrics".to_owned()];
        Config { body_receive, body_receive_leases_max: self.body_buffers, reserved_paths, ..defaults }
    }
}

impl Flags {
    /// The certificate for HTTPS, when that is asked for.
    pub(crate) fn tls_config(&self) -> Result<Option<TlsConfig>, String> {
        let builder = match (self.tls, &self.cert, &self.key, self.tls_self_signed) {
            (None, ..) => return Ok(None),
            (Some(_), Some(cert), Some(key), _) => TlsConfig::builder().certificate_files(cert, key),
            (Some(_), _, _, true) => plimsoll_examples::self_signed()?,
            _ => return Err("--tls needs --cert FILE and --key FILE, or --tls-self-signed".to_owned()),
        };
        let builder = if self.tls_compact { compact(builder)? } else { builder };
        builder.build().map(Some).map_err(|error| error.to_string())
    }
}

#[cfg(feature = "tls-aws-lc")]
#[allow(clippy::unnecessary_wraps, reason = "as without the feature")]
fn compact(builder: TlsConfigBuilder) -> Result<TlsConfigBuilder, String> {
    Ok(builder.compact(true))
}

#[cfg(not(feature = "tls-aws-lc"))]
fn compact(_: TlsConfigBuilder) -> Result<TlsConfigBuilder, String> {
    Err("--tls-compact needs the cryptography of AWS-LC: build with --features tls-aws-lc".to_owned())
}

/// A size of the buffers that bodies are received into.
fn buffer(text: &str) -> Result<AdaptiveSize, String> {
    let bytes = text.parse::<MemoryLimit>().map_err(|error| error.to_string())?.as_bytes();
    let sizes = [Class::K4, Class::K8, Class::K16, Class::K32, Class::K64, Class::K128];
    let class = sizes.into_iter().find(|class| class.bytes() as u64 == bytes);
    let class = class.ok_or("buffers have 4, 8, 16, 32, 64 or 128 KiB")?;
    Ok(AdaptiveSize::new(class, class))
}
