//! Several certificates, and several settings: which are for the name that a client asks for (SNI, RFC 6066 3), and
//! which names a session may be asked about (RFC 9110 7.4).
#![forbid(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use plimsoll_pool::{Lease, OverBudget, Pool};
use rustls::ServerConfig;
use rustls::server::{Acceptor, ProducesTickets, UnbufferedServerConnection};

use crate::certificates::covers;
use crate::info::TlsInfo;
use crate::machine::{Failure, Machine, Out};
use crate::session::Session;

/// The settings of a server. The first are those of who asks for no name, or one that no certificate has.
pub(crate) struct Sites(pub(crate) Vec<Site>);

/// Settings, and the names of their certificates, in lower case.
pub(crate) struct Site {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) certificates: Vec<Vec<String>>,
}

/// Which settings a session has, and which of their certificates its client got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    site: u16,
    certificate: u16,
}

impl Sites {
    /// Whether there is nothing to choose from.
    fn is_one(&self) -> bool {
        self.0.len() == 1 && self.0[0].certificates.len() == 1
    }

    /// A server's end of a session.
    ///
    /// # Errors
    ///
    /// As [`Session::new`].
    pub(crate) fn session(self: Arc<Self>, pool: &Pool) -> Result<Session, OverBudget> {
        // It fails for settings that `build` does not let through.
        let config = self.config(Place::default());
        let machine = UnbufferedServerConnection::new(Arc::clone(config)).map_err(|_| OverBudget::new(0))?;
        if !self.is_one() {
            return Session::new(pool, Choosing { connection: machine, sites: self, place: None }, false);
        }
        #[cfg(feature = "aws-lc")]
        if config.enable_secret_extraction {
            return Session::new(pool, crate::compact::Becoming::new(machine), false);
        }
        Session::new(pool, machine, false)
    }

    fn config(&self, place: Place) -> &Arc<ServerConfig> {
        &self.0[usize::from(place.site)].config
    }

    /// The place for a name, and whether a certificate has it.
    fn find(&self, name: &str) -> Option<Place> {
        let has = |names: &Vec<String>| names.iter().any(|known| covers(known, name));
        self.0.iter().enumerate().find_map(|(site, of)| {
            let certificate = of.certificates.iter().position(has)?;
            Some(Place { site: u16::try_from(site).ok()?, certificate: u16::try_from(certificate).ok()? })
        })
    }

    /// The place for who begins with these records; `None` before its first message is whole. One that is no
    /// `ClientHello` fails at the first.
    fn choose(&self, records: &[u8]) -> Option<Place> {
        let (mut acceptor, mut rest) = (Acceptor::default(), records);
        while !rest.is_empty() {
            if !matches!(acceptor.read_tls(&mut rest), Ok(1..)) {
                return Some(Place::default());
            }
        }
        match acceptor.accept() {
            Ok(Some(accepted)) => {
                let name = accepted.client_hello().server_name().map(str::to_ascii_lowercase);
                Some(name.and_then(|name| self.find(&name)).unwrap_or_default())
            }
            Ok(None) => None,
            Err(_) => Some(Place::default()),
        }
    }

    /// Whether a session at a place may be asked about a host: not where other settings are for it, or another
    /// certificate has it and the session's has not.
    fn serves(&self, place: Place, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let Some(own) = self.find(&host) else { return place.site == 0 };
        let names = &self.0[usize::from(place.site)].certificates[usize::from(place.certificate)];
        own.site == place.site && (own == place || names.iter().any(|known| covers(known, &host)))
    }
}

/// A server's end that is to choose, by what its client asks for.
struct Choosing {
    /// One that has heard nothing yet is made anew.
    connection: UnbufferedServerConnection,
    sites: Arc<Sites>,
    /// `None` before its client's first message is whole.
    place: Option<Place>,
}

impl Machine for Choosing {
    fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>) {
        if self.place.is_none() {
            let Some(place) = self.sites.choose(records) else { return (0, Ok(())) };
            if let Ok(connection) = UnbufferedServerConnection::new(Arc::clone(self.sites.config(place))) {
                self.connection = connection;
            }
            self.place = Some(place);
        }
        self.connection.take_in(pool, records, out)
    }

    fn write_alert(&mut self, pool: &Pool, out: &mut Out) {
        self.connection.write_alert(pool, out);
    }

    fn seal(&mut self, pool: &Pool, kept: &mut [u8], plaintext: &[u8]) -> Result<Lease, OverBudget> {
        self.connection.seal(pool, kept, plaintext)
    }

    fn end(&mut self, kept: &mut [u8], room: &mut [u8]) -> usize {
        self.connection.end(kept, room)
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.connection.protocol()
    }

    fn info(&self) -> TlsInfo {
        self.connection.info()
    }

    fn is_resumed(&self) -> bool {
        self.connection.is_resumed()
    }

    fn serves(&self, host: &str) -> bool {
        self.place.is_none_or(|place| self.sites.serves(place, name_of(host)))
    }

    fn held_bytes(&self) -> u64 {
        self.connection.held_bytes()
    }
}

/// A host without its port, of those that are names.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Tickets that are good only where clients have to show the same: a session that goes on has its client's certificates
/// from before, and they are not looked at again.
#[derive(Debug)]
pub(crate) struct BoundTickets {
    tickets: Arc<dyn ProducesTickets>,
    bound_to: [u8; 8],
}

impl BoundTickets {
    pub(crate) fn new(tickets: &Arc<dyn ProducesTickets>, to: impl Hash) -> Arc<Self> {
        // Tells our own settings apart; what a peer sends is not in it, and is sealed by the tickets' key.
        let mut hasher = DefaultHasher::new();
        to.hash(&mut hasher);
        Arc::new(Self { tickets: Arc::clone(tickets), bound_to: hasher.finish().to_be_bytes() })
    }
}

impl ProducesTickets for BoundTickets {
    fn enabled(&self) -> bool {
        self.tickets.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.tickets.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.tickets.encrypt(&[&self.bound_to, plain].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let plain = self.tickets.decrypt(cipher)?;
        plain.strip_prefix(&self.bound_to).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::name_of;

    #[test]
    fn a_host_may_have_a_port() {
        assert_eq!(["a.test:443", "a.test", "[::1]:8", "[::1]"].map(name_of), ["a.test", "a.test", "[::1]", "[::1]"]);
    }
}
