//! How clients reach the server: bare, or by TLS.

use core::net::SocketAddr;
use core::time::Duration;

use plimsoll::http::tls::Connector;
use plimsoll::net::{Stream, TcpStream};
use plimsoll::timeout;

use crate::hostile;
use crate::oracle::Seen;
use crate::tls::{self, Ends};

pub(crate) struct Dial {
    address: SocketAddr,
    tls: Option<Connector>,
    /// What is said before the handshake.
    introduction: Vec<u8>,
}

/// How the clients of a world do.
pub(crate) struct Dials {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<Ends>,
}

impl Dials {
    /// For a client that offers this protocol by ALPN, if it offers one. It says behind which address it is: as it
    /// dials, before its handshake, or else as the first that is sent.
    pub(crate) fn dial<'a>(&mut self, protocol: Option<&[u8]>, introduction: &'a str) -> (Dial, &'a [u8]) {
        let tls = self.tls.as_mut().map(|ends| ends.client(protocol));
        let (before, first) = if tls.is_some() { (introduction, "") } else { ("", introduction) };
        (Dial { address: self.address, tls, introduction: before.into() }, first.as_bytes())
    }

    /// Those that speak TLS badly, where it is spoken, and how late they come.
    pub(crate) fn hostile(&mut self) -> Vec<(hostile::Plan, Duration)> {
        self.tls.as_mut().map(Ends::hostile).unwrap_or_default()
    }
}

impl Dial {
    /// Connects, and shakes hands if that is due. None when nobody listens, or the handshake fails.
    pub(crate) async fn connect(&self, seen: &mut Seen) -> Option<Stream> {
        let connected = timeout(Duration::from_secs(20), TcpStream::connect(self.address)).await;
        let mut stream = connected.ok()?.ok()?;
        stream.send_bytes(&self.introduction).await.ok()?;
        let Some(connector) = &self.tls else { return Some(stream.into()) };
        let shaken = connector.connect(tls::NAME, stream).await;
        shaken.inspect_err(|error| seen.failed(error)).ok()
    }
}
