//! Clients that shake hands badly, or not at all, and those that break off where a record is half sent.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::Read;
use std::sync::Arc;

use plimsoll::net::TcpStream;
use plimsoll::{sleep, timeout};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::plan::Rng;
use crate::tls;

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// A part of its first message, and silence.
    StopsInHello,
    /// All of it, and no answer to what it hears.
    StopsAfterHello,
    /// HTTP where TLS is spoken.
    PlainHttp,
    /// Bytes that are nothing.
    Noise,
    /// A handshake, and then a record with a bit flipped.
    Flips,
    /// A handshake, and a part of a record.
    HalfRecord,
    /// A handshake, and the end of the connection without a word.
    Truncates,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    deed: Deed,
    number: u64,
    pause: Duration,
}

impl Plan {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let deed = rng.pick(&[
            Deed::StopsInHello,
            Deed::StopsAfterHello,
            Deed::PlainHttp,
            Deed::Noise,
            Deed::Flips,
            Deed::HalfRecord,
            Deed::Truncates,
        ]);
        Self { deed, number: rng.below(u64::MAX), pause: Duration::from_millis(rng.below(30)) }
    }
}

/// Says behind which address it is, and does what is planned. None of these asks anything that a handler would see. The
/// server ends each of them, and says what it can: where nothing else fails, that is looked at.
///
/// # Panics
///
/// When a connection is not ended, or not with what is due.
pub(crate) async fn client(address: SocketAddr, introduction: &str, plan: Plan, is_clean: bool) {
    let connected = timeout(Duration::from_secs(20), TcpStream::connect(address)).await;
    let Ok(Ok(mut stream)) = connected else { return };
    if stream.send_bytes(introduction.as_bytes()).await.is_err() {
        return;
    }
    let mut talk = Talk { stream, tls: connection(), received: Vec::new() };
    let is_done = talk.act(plan).await;
    let ended = match plan.deed {
        Deed::Truncates => return,
        _ => timeout(Duration::from_secs(60), talk.read_to_end()).await,
    };
    if !is_clean {
        return;
    }
    assert!(is_done, "what it does is done: {plan:?}");
    assert!(ended.is_ok(), "its connection is ended: {plan:?}");
    match plan.deed {
        Deed::PlainHttp => assert!(talk.received.starts_with(b"HTTP/1.1 400 "), "{:?}", talk.received),
        // An alert (RFC 8446 6), in the clear.
        Deed::Noise => assert!(talk.received.is_empty() || talk.received[0] == 0x15, "{:?}", talk.received),
        Deed::StopsInHello => assert!(talk.received.is_empty(), "{:?}", talk.received),
        Deed::StopsAfterHello => assert_eq!(talk.received.first(), Some(&0x16), "it hears the server's part"),
        Deed::Flips => {
            let heard = talk.take_in();
            assert!(matches!(heard, Err(rustls::Error::AlertReceived(_))), "it hears why: {heard:?}");
        }
        Deed::HalfRecord => {
            let heard = talk.take_in();
            assert!(matches!(&heard, Ok(state) if state.peer_has_closed()), "an end in order: {heard:?}");
        }
        Deed::Truncates => unreachable!("it has left"),
    }
}

struct Talk {
    stream: TcpStream,
    tls: ClientConnection,
    received: Vec<u8>,
}

impl Talk {
    /// Whether all of it could be done.
    async fn act(&mut self, plan: Plan) -> bool {
        let mut hello = Vec::new();
        self.tls.write_tls(&mut hello).expect("a vector takes all");
        let part = |bytes: &[u8]| 1 + plan.number as usize % (bytes.len() - 1);
        match plan.deed {
            Deed::StopsInHello => self.stream.send_bytes(&hello[..part(&hello)]).await.is_ok(),
            Deed::StopsAfterHello => self.stream.send_bytes(&hello).await.is_ok(),
            Deed::PlainHttp => self.stream.send_bytes(b"GET /text/0/1 HTTP/1.1\r\nHost: h\r\n\r\n").await.is_ok(),
            Deed::Noise => {
                let mut rng = Rng::new(plan.number);
                let noise: Vec<u8> = (0..rng.between(6, 3_000)).map(|_| 128 + rng.below(128) as u8).collect();
                self.stream.send_bytes(&noise).await.is_ok()
            }
            Deed::Flips | Deed::HalfRecord | Deed::Truncates => {
                if self.stream.send_bytes(&hello).await.is_err() || !self.shake(plan.pause).await {
                    return false;
                }
                let mut record = Vec::new();
                std::io::Write::write_all(&mut self.tls.writer(), b"GET /text/0/1 HTTP/1.1\r\n").expect("it is kept");
                self.tls.write_tls(&mut record).expect("a vector takes all");
                match plan.deed {
                    // Behind the header, or the length would be another.
                    Deed::Flips => {
                        let at = 5 + plan.number as usize % (record.len() - 5);
                        record[at] ^= 1 << (plan.number % 8);
                    }
                    Deed::HalfRecord => record.truncate(part(&record)),
                    _ => return true,
                }
                self.stream.send_bytes(&record).await.is_ok()
            }
        }
    }

    async fn shake(&mut self, pause: Duration) -> bool {
        while self.tls.is_handshaking() {
            sleep(pause).await;
            let mut output = Vec::new();
            while self.tls.wants_write() {
                self.tls.write_tls(&mut output).expect("a vector takes all");
            }
            if !output.is_empty() && self.stream.send_bytes(&output).await.is_err() {
                return false;
            }
            if !self.tls.is_handshaking() {
                break;
            }
            match timeout(Duration::from_secs(20), self.stream.recv()).await {
                Ok(Ok(Some(bytes))) => self.received.extend_from_slice(&bytes),
                _ => return false,
            }
            if self.take_in().is_err() {
                return false;
            }
        }
        let mut output = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut output).expect("a vector takes all");
        }
        output.is_empty() || self.stream.send_bytes(&output).await.is_ok()
    }

    /// Gives what was received to the session.
    fn take_in(&mut self) -> Result<rustls::IoState, rustls::Error> {
        let received = core::mem::take(&mut self.received);
        let mut rest = &received[..];
        loop {
            self.tls.read_tls(&mut rest).expect("a slice is read");
            let state = self.tls.process_new_packets()?;
            let mut nothing_of_it = Vec::new();
            let _no_more_yet = self.tls.reader().read_to_end(&mut nothing_of_it);
            if rest.is_empty() || state.peer_has_closed() {
                return Ok(state);
            }
        }
    }

    async fn read_to_end(&mut self) {
        while let Ok(Some(bytes)) = self.stream.recv().await {
            self.received.extend_from_slice(&bytes);
        }
    }
}

fn connection() -> ClientConnection {
    let mut roots = RootCertStore::empty();
    let certificate = rustls::pki_types::CertificateDer::from_pem_slice(tls::PAIR.0.as_bytes()).expect("it is one");
    roots.add(certificate).expect("it is a root");
    let simulated = tls::simulated();
    let config = ClientConfig::builder_with_details(Arc::new(simulated.provider), simulated.time)
        .with_safe_default_protocol_versions()
        .expect("both are there")
        .with_root_certificates(roots)
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::try_from(tls::NAME).expect("a name")).expect("it is built")
}
