//! TLS beneath the suites: a certificate for the time of a program, and what speaks TLS for a client that does not.

use std::sync::OnceLock;

use plimsoll_http::tls::{Connector, TlsConfig};
use plimsoll_runtime::Result;
use plimsoll_runtime::net::TcpStream;

use super::bridge::both;

/// Both ends of every connection.
struct Ends {
    server: TlsConfig,
    client: Connector,
}

fn ends() -> &'static Ends {
    static ENDS: OnceLock<Ends> = OnceLock::new();
    ENDS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
        let server = TlsConfig::builder().certificate_pem(made.cert.pem(), made.signing_key.serialize_pem());
        let client = Connector::builder().roots_pem(made.cert.pem());
        Ends { server: server.build().expect("good settings"), client: client.build().expect("a root") }
    })
}

pub(crate) fn config() -> &'static TlsConfig {
    &ends().server
}

/// Carries what a client says to a server that speaks TLS. What it begins with says which protocol it is, as without
/// TLS: nothing is agreed on by ALPN.
pub(crate) async fn carry(client: TcpStream, server: TcpStream, first: Vec<u8>) -> Result<()> {
    let secured = ends().client.connect("localhost", server).await?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = secured.into_split();
    let up = async move {
        to_server.send_bytes(&first).await?;
        while let Some(plaintext) = from_client.recv().await? {
            to_server.send_bytes(&plaintext).await?;
        }
        to_server.shutdown_write().await?;
        // Closed when the other way has ended, too.
        Ok((from_client, to_server))
    };
    let down = async move {
        while let Some(plaintext) = from_server.recv().await? {
            to_client.send_bytes(&plaintext).await?;
        }
        to_client.shutdown_write().await?;
        Ok((from_server, to_client))
    };
    both(up, down).await
}
