//! A client of one request at a time over TLS 1.3, for what wrk and h2load cannot do: resume, count bytes, and stay.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use socket2::{Domain, Socket, Type};

/// What is the same for some clients: with tickets, those of one connection are for the next.
#[derive(Clone, Debug)]
pub(super) struct Client {
    config: Arc<ClientConfig>,
}

/// Whether handshakes are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshakes {
    Full,
    Resumed,
}

/// A connection after its handshake.
#[derive(Debug)]
pub(super) struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Client {
    /// Trusts the certificate in this directory, and offers one suite and one group.
    pub(super) fn new(dir: &Path, handshakes: Handshakes) -> Result<Client, String> {
        let mut roots = RootCertStore::empty();
        let said = |error: &dyn std::fmt::Display| format!("the client: {error}");
        let certificate = CertificateDer::from_pem_file(dir.join("cert.pem")).map_err(|error| said(&error))?;
        roots.add(certificate).map_err(|error| said(&error))?;
        let provider = CryptoProvider {
            cipher_suites: vec![ring::cipher_suite::TLS13_AES_128_GCM_SHA256],
            kx_groups: vec![ring::kx_group::X25519],
            ..ring::default_provider()
        };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(|error| said(&error))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = match handshakes {
            Handshakes::Full => Resumption::disabled(),
            Handshakes::Resumed => Resumption::in_memory_sessions(TICKETS_MAX),
        };
        Ok(Client { config: Arc::new(config) })
    }

    /// Connects from an address and shakes hands.
    pub(super) fn open(&self, from: Ipv4Addr, to: SocketAddr) -> io::Result<Connection> {
        let mut tries = 1;
        let socket = loop {
            match connect(from, to) {
                // The port that was free on its own is taken towards this server.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && tries < TRIES_MAX => tries += 1,
                connected => break connected?,
            }
        };
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let session = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(session, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Connection { stream })
    }
}

impl Connection {
    /// Sends a request and reads its answer, which must be 200. The length of its body.
    pub(super) fn get(&mut self, path: &str) -> io::Result<usize> {
        let mut room = vec![0; PIECE_BYTES];
        let (_, body, left) = self.ask(path, &mut room)?;
        let mut missing = left;
        while missing > 0 {
            match self.stream.read(&mut room)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => missing = missing.checked_sub(len).ok_or(io::ErrorKind::InvalidData)?,
            }
        }
        Ok(body + left)
    }

    /// The same, with the text of the body.
    pub(super) fn text(&mut self, path: &str) -> io::Result<String> {
        let mut room = vec![0; PIECE_BYTES];
        let (head, body, left) = self.ask(path, &mut room)?;
        let mut text = room[head..head + body].to_vec();
        let mut rest = vec![0; left];
        self.stream.read_exact(&mut rest)?;
        text.extend_from_slice(&rest);
        String::from_utf8(text).map_err(io::Error::other)
    }

    /// Whether the handshake was as it should be. The tickets come behind it, so it is asked after an answer.
    pub(super) fn was(&self, handshakes: Handshakes) -> bool {
        let kind = match handshakes {
            Handshakes::Full => HandshakeKind::Full,
            Handshakes::Resumed => HandshakeKind::Resumed,
        };
        self.stream.conn.handshake_kind() == Some(kind)
    }

    /// Says that it ends, and closes.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.stream.conn.send_close_notify();
        self.stream.flush()
    }

    /// The socket alone: it stays open, and the session's memory is gone here.
    pub(super) fn into_socket(self) -> TcpStream {
        self.stream.sock
    }

    /// Reads until the head is there: its length, bytes of the body behind it, and how many are still to come.
    fn ask(&mut self, path: &str, room: &mut [u8]) -> io::Result<(usize, usize, usize)> {
        self.stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let mut len = 0;
        loop {
            match self.stream.read(&mut room[len..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => len += read,
            }
            let Some(head) = room[..len].windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4) else {
                continue;
            };
            let bytes = length(&room[..head])?;
            let body = len - head;
            return Ok((head, body, bytes.checked_sub(body).ok_or(io::ErrorKind::InvalidData)?));
        }
    }
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
    // Connections that were closed a moment ago keep their ports for a minute otherwise.
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    socket.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

/// What a head of a 200 says of its body's length.
fn length(head: &[u8]) -> io::Result<usize> {
    let text = String::from_utf8_lossy(head);
    let mut fields = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    match length.and_then(|(_, value)| value.trim().parse().ok()) {
        Some(bytes) if text.starts_with("HTTP/1.1 200 ") => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("the answer is \"{}\"", text.escape_debug()))),
    }
}

/// A server that says nothing for so long does not answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Ports that are tried for a connection.
const TRIES_MAX: u32 = 16;
/// Longer than any head.
const PIECE_BYTES: usize = 64 * 1024;
/// Names whose tickets are kept; there is one.
const TICKETS_MAX: usize = 8;

#[cfg(test)]
mod tests {
    //! A head says how long its body is, or is no answer.

    use super::length;

    #[test]
    fn the_length_of_a_body_is_read() {
        assert_eq!(length(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 12\r\n\r\n").unwrap(), 12);
        assert!(length(b"HTTP/1.1 404 Not Found\r\nContent-Length: 12\r\n\r\n").is_err());
        assert!(length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
