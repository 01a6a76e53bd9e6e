//! From rustls to a record layer of ours, at the end of a handshake.
//!
//! Until then rustls gets one record at a time, and none after `Finished`: a flight of `Finished` and a `KeyUpdate` or
//! plaintext is not eaten in part. The secrets come by the interface for key logs, of which two labels are taken; the
//! keys that follow from them must be those that rustls gives out with its sequence numbers.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use std::sync::Arc;

use plimsoll_pool::{Lease, OverBudget, Pool};
use plimsoll_runtime::net::transport::{Attached, Pack, PackedBytes};
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, KeyLog};
use zeroize::Zeroize;

use super::keys::{SECRET_BYTES_MAX, Suite};
use super::layer::{Layer, attach};
use super::state::{Owned, Protocol, Way};
use crate::info::TlsInfo;
use crate::machine::{Failure, Machine, Out};
use crate::records::{Front, front};

/// A traffic secret of a handshake that is under way.
struct Secret {
    bytes: [u8; SECRET_BYTES_MAX],
    len: usize,
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// The first secrets of a client and of its server.
#[derive(Default)]
struct Secrets {
    client: Option<Box<Secret>>,
    server: Option<Box<Secret>>,
}

thread_local! {
    /// What rustls has told in the call that is under way.
    static TOLD: RefCell<Secrets> = const { RefCell::new(Secrets { client: None, server: None }) };
}

/// A key log that keeps two secrets for the session that is worked on, and hands everything on.
#[derive(Debug)]
pub(crate) struct SecretsCaught(pub(crate) Arc<dyn KeyLog>);

impl KeyLog for SecretsCaught {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        TOLD.with_borrow_mut(|told| {
            let place = match label {
                "CLIENT_TRAFFIC_SECRET_0" => &mut told.client,
                "SERVER_TRAFFIC_SECRET_0" => &mut told.server,
                _ => return,
            };
            if secret.len() <= SECRET_BYTES_MAX {
                let kept = place.insert(Box::new(Secret { bytes: [0; SECRET_BYTES_MAX], len: secret.len() }));
                kept.bytes[..secret.len()].copy_from_slice(secret);
            }
        });
        if self.0.will_log(label) {
            self.0.log(label, client_random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        matches!(label, "CLIENT_TRAFFIC_SECRET_0" | "SERVER_TRAFFIC_SECRET_0") || self.0.will_log(label)
    }
}

/// A session that becomes compact when its handshake is over, if it can.
pub(crate) enum Becoming {
    Handshake(Box<Handshake>),
    /// It cannot: another version or suite was agreed on.
    Rustls(Box<Handshake>),
    Compact(Box<Layer<Owned>>),
    /// Nothing goes on.
    Failed,
}

pub(crate) struct Handshake {
    connection: UnbufferedServerConnection,
    secrets: Secrets,
    /// Bytes of records that rustls has seen and is not done with, as their message is not whole: it gets them again,
    /// and never fewer of them.
    seen: usize,
}

impl Becoming {
    pub(crate) fn new(connection: UnbufferedServerConnection) -> Self {
        Self::Handshake(Box::new(Handshake { connection, secrets: Secrets::default(), seen: 0 }))
    }

    /// What works on records now; `None` for nobody.
    fn machine(&self) -> Option<&dyn Machine> {
        match self {
            Self::Handshake(handshake) | Self::Rustls(handshake) => Some(&handshake.connection),
            Self::Compact(layer) => Some(&**layer),
            Self::Failed => None,
        }
    }

    fn machine_mut(&mut self) -> Option<&mut dyn Machine> {
        match self {
            Self::Handshake(handshake) | Self::Rustls(handshake) => Some(&mut handshake.connection),
            Self::Compact(layer) => Some(&mut **layer),
            Self::Failed => None,
        }
    }

    /// The handshake is over: goes on without rustls, if that can be.
    fn become_compact(&mut self, pool: &Pool) -> Result<(), Failure> {
        let Self::Handshake(mut handshake) = core::mem::replace(self, Self::Failed) else { return Ok(()) };
        *self = match handshake.agreed(pool) {
            Some(agreed) => Self::Compact(handshake.compact(agreed).map_err(Failure::Peer)?),
            None => {
                handshake.secrets = Secrets::default();
                Self::Rustls(handshake)
            }
        };
        Ok(())
    }
}

/// What a handshake has come to.
struct Agreed {
    suite: Suite,
    protocol: Protocol,
    client: Box<Secret>,
    server: Box<Secret>,
    attached: Attached,
}

impl Handshake {
    fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>) {
        TOLD.take();
        let taken = self.connection.take_in(pool, records, out);
        let told = TOLD.take();
        self.secrets.client = told.client.or(self.secrets.client.take());
        self.secrets.server = told.server.or(self.secrets.server.take());
        taken
    }

    /// What there is to go on with; `None` with another version or suite, and without room for certificates.
    fn agreed(&mut self, pool: &Pool) -> Option<Agreed> {
        if self.seen > 0 {
            // It would be half eaten.
            return None;
        }
        let suite = self.connection.negotiated_cipher_suite().and_then(Suite::of)?;
        let client = self.secrets.client.take().filter(|secret| secret.len == suite.secret_bytes())?;
        let server = self.secrets.server.take().filter(|secret| secret.len == suite.secret_bytes())?;
        let name = self.connection.alpn_protocol();
        let protocol = Protocol::of(name);
        let name = if protocol == Protocol::Attached { name.unwrap_or_default() } else { &[] };
        let certificates = self.connection.peer_certificates().unwrap_or_default();
        let attached = attach(pool, name, certificates.iter().map(|one| &**one)).ok()?;
        Some(Agreed { suite, protocol, client, server, attached })
    }

    fn compact(self, agreed: Agreed) -> Result<Box<Layer<Owned>>, Error> {
        let Agreed { suite, protocol, client, server, attached } = agreed;
        let is_resumed = self.connection.is_resumed();
        let (extracted, _kernel) = self.connection.dangerous_into_kernel_connection()?;
        let mut layer = Box::new(Layer::begin(suite, protocol, is_resumed, attached));
        let mut state = layer.state();
        state.key_by(Way::In, suite, &client.bytes[..client.len], extracted.rx.0);
        state.key_by(Way::Out, suite, &server.bytes[..server.len], extracted.tx.0);
        if !state.is_key(Way::In, suite, &extracted.rx.1) || !state.is_key(Way::Out, suite, &extracted.tx.1) {
            return Err(Error::General("secrets of another session".to_owned()));
        }
        Ok(layer)
    }
}

impl Machine for Becoming {
    fn take_in(&mut self, pool: &Pool, records: &mut [u8], out: &mut Out) -> (usize, Result<(), Failure>) {
        let mut used = 0;
        while let Self::Handshake(handshake) = self {
            let mut end = used + handshake.seen;
            end = match records.get(end..).map_or(Front::Header, front) {
                Front::Record(len) if end + len <= records.len() => end + len,
                _ => records.len(),
            };
            let (taken, result) = handshake.take_in(pool, &mut records[used..end], out);
            used += taken;
            handshake.seen = end - used;
            if result.is_err() {
                return (used, result);
            }
            if !handshake.connection.is_handshaking()
                && let Err(failure) = self.become_compact(pool)
            {
                return (used, Err(failure));
            }
            if end == records.len() {
                return (used, Ok(()));
            }
        }
        let Some(machine) = self.machine_mut() else { return (used, Err(Failure::Peer(Error::HandshakeNotComplete))) };
        let (taken, result) = machine.take_in(pool, &mut records[used..], out);
        (used + taken, result)
    }

    fn write_alert(&mut self, pool: &Pool, out: &mut Out) {
        if let Some(machine) = self.machine_mut() {
            machine.write_alert(pool, out);
        }
    }

    fn seal(&mut self, pool: &Pool, kept: &mut [u8], plaintext: &[u8]) -> Result<Lease, OverBudget> {
        self.machine_mut().ok_or(OverBudget::new(0))?.seal(pool, kept, plaintext)
    }

    fn end(&mut self, kept: &mut [u8], room: &mut [u8]) -> usize {
        self.machine_mut().map_or(0, |machine| machine.end(kept, room))
    }

    fn is_handshaking(&self) -> bool {
        self.machine().is_some_and(Machine::is_handshaking)
    }

    fn protocol(&self) -> Option<&[u8]> {
        self.machine()?.protocol()
    }

    fn info(&self) -> TlsInfo {
        self.machine().map_or_else(TlsInfo::default, Machine::info)
    }

    fn is_resumed(&self) -> bool {
        self.machine().is_some_and(Machine::is_resumed)
    }

    fn held_bytes(&self) -> u64 {
        size_of::<Self>() as u64 + self.machine().map_or(0, Machine::held_bytes)
    }

    fn packing(&self) -> Option<&'static &'static dyn Pack> {
        self.machine()?.packing()
    }

    fn pack(&mut self, bytes: &mut PackedBytes) -> Attached {
        self.machine_mut()?.pack(bytes)
    }
}
