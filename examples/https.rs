//! HTTPS and HTTP in one server: certificates from files, which are read again every minute, or a new one that nobody
//! trusts.
#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use plimsoll::http::tls::TlsConfig;
use plimsoll::http::{Request, Response, Server};

#[derive(Parser)]
struct Flags {
    /// Where to listen for HTTP.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// Where to listen for HTTPS.
    #[arg(long, default_value = "127.0.0.1:8443")]
    tls: String,
    /// The certificate with its chain, in PEM; without one a new one is made.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, in PEM.
    #[arg(long)]
    key: Option<PathBuf>,
}

async fn answer(req: Request) -> Response {
    match req.tls() {
        Some(tls) => Response::text(format!("{:?}, {}\n", tls.version, tls.suite.unwrap_or("no suite"))),
        None => Response::text("in the clear\n"),
    }
}

/// Takes what renews certificates at its word.
async fn read_again(config: TlsConfig) {
    loop {
        plimsoll::sleep(Duration::from_secs(60)).await;
        let again = config.clone();
        if let Ok(Err(error)) = plimsoll::spawn_blocking(move || again.reload()).await {
            tracing::warn!(%error, "the certificates stay as they are");
        }
    }
}

#[plimsoll::main(memory = "64MiB")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    plimsoll_examples::log_to_stderr();
    let flags = Flags::parse();
    let config = match flags.cert.zip(flags.key) {
        Some((cert, key)) => TlsConfig::from_files(cert, key)?,
        None => plimsoll_examples::self_signed()?.build()?,
    };
    let server = Server::bind(&*flags.listen)?.also_bind(&*flags.tls)?.tls(&config);
    let addresses: Vec<_> = server.local_addresses().map(|address| address.to_string()).collect();
    println!("listening on http://{} and https://{}", addresses[0], addresses[1]);
    drop(plimsoll::spawn(read_again(config))?);
    Ok(server.serve(answer).await?)
}
