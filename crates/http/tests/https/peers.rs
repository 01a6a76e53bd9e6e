//! Clients in threads: honest ones, and what attacks are made of.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};
use socket2::{Domain, Socket, Type};

use crate::rig::threads::TEST_TIMEOUT;

/// Whom the server is, is for other tests. Keeps what was stapled.
#[derive(Debug, Default)]
pub(crate) struct Anybody {
    pub(crate) stapled: Mutex<Vec<u8>>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.stapled.lock().expect("no panic") = ocsp.to_vec();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) fn settings(versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
    settings_of(versions, &Arc::default())
}

pub(crate) fn settings_of(
    versions: &[&'static rustls::SupportedProtocolVersion],
    verifier: &Arc<Anybody>,
) -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).expect("versions of this provider");
    builder.dangerous().with_custom_certificate_verifier(Arc::clone(verifier) as _).with_no_client_auth()
}

pub(crate) fn both_versions() -> ClientConfig {
    settings(rustls::ALL_VERSIONS)
}

/// A connection from an address of this host: `127.0.0.host`.
pub(crate) fn connect_from(host: u8, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).expect("all of 127/8 is this host");
    socket.connect(&to.into()).expect("the listener's queue has room");
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(TEST_TIMEOUT)).expect("a timeout");
    stream.set_nodelay(true).expect("an option");
    stream
}

/// A session over a socket.
pub(crate) struct Peer {
    pub(crate) session: ClientConnection,
    pub(crate) socket: TcpStream,
}

impl Peer {
    /// Says nothing yet.
    pub(crate) fn new(host: u8, to: SocketAddr, settings: ClientConfig, name: &'static str) -> Self {
        let name = ServerName::try_from(name).expect("a name");
        let session = ClientConnection::new(Arc::new(settings), name).expect("good settings");
        Self { session, socket: connect_from(host, to) }
    }

    /// Sends its first message.
    pub(crate) fn greet(host: u8, to: SocketAddr) -> Self {
        let mut peer = Self::new(host, to, both_versions(), "localhost");
        peer.flush().expect("the socket takes a hello");
        peer
    }

    /// The handshake is over.
    pub(crate) fn open(host: u8, to: SocketAddr) -> Self {
        let mut peer = Self::greet(host, to);
        peer.shake().expect("an honest client is served");
        peer
    }

    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        let count = self.session.read_tls(&mut self.socket)?;
        self.session.process_new_packets().map_err(|error| std::io::Error::new(ErrorKind::InvalidData, error))?;
        Ok(count)
    }

    pub(crate) fn shake(&mut self) -> std::io::Result<()> {
        while self.session.is_handshaking() {
            self.flush()?;
            if self.session.is_handshaking() && self.receive()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        self.flush()
    }

    pub(crate) fn say(&mut self, plaintext: &[u8]) -> std::io::Result<()> {
        self.session.writer().write_all(plaintext)?;
        self.flush()
    }

    /// What it hears until `enough` is there, or to the end.
    pub(crate) fn hear(&mut self, enough: &str) -> std::io::Result<String> {
        let mut heard = Vec::new();
        loop {
            let mut bytes = [0; 4_096];
            match self.session.reader().read(&mut bytes) {
                Ok(0) => break,
                Ok(len) => heard.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.flush()?;
                    if self.receive()? == 0 && self.session.wants_read() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(error),
            }
            if !enough.is_empty() && String::from_utf8_lossy(&heard).contains(enough) {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&heard).into_owned())
    }

    /// Bytes that are charged at the server.
    pub(crate) fn charged(&mut self) -> u64 {
        self.say(b"GET /charged HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is sent");
        let answer = self.hear(" bytes").expect("an answer");
        let figure = answer.trim_end_matches(" bytes").rsplit("\r\n\r\n").next();
        figure.and_then(|figure| figure.parse().ok()).unwrap_or_else(|| panic!("a figure: {answer}"))
    }

    /// Asks for a path that is answered with itself.
    pub(crate) fn ask(&mut self, path: &str) -> std::io::Result<()> {
        self.say(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())?;
        let answer = self.hear(&format!("\r\n\r\n{path}"))?;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        Ok(())
    }
}

/// What a client sends first.
pub(crate) fn hello() -> Vec<u8> {
    let name = ServerName::try_from("localhost").expect("a name");
    let mut session = ClientConnection::new(Arc::new(both_versions()), name).expect("good settings");
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes).expect("a vector takes all");
    bytes
}

/// Whether the server closes the connection, whatever it says before, within so long.
pub(crate) fn is_closed_within(socket: &mut TcpStream, time: Duration) -> bool {
    let end = std::time::Instant::now() + time;
    let mut bytes = [0; 4_096];
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return false;
        }
        socket.set_read_timeout(Some(left)).expect("a timeout");
        match socket.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}
